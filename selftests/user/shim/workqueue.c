// SPDX-License-Identifier: GPL-2.0
/*
 * Workqueues, each with a thread and a list of work sorted by the time at which
 * it is due.  One lock protects all of them.  As in the kernel, a thread that finds
 * its work pending takes no lock, so the lock does not order threads that often
 * queue the same work.
 */
#include <stdlib.h>
#include <time.h>
#include <linux/kthread.h>
#include <linux/sched/task.h>
#include <linux/workqueue.h>

struct workqueue_struct {
	struct task_struct *task;
	pthread_cond_t more;
	struct work_struct *first;
	struct work_struct *running;
	bool stop;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t finished = PTHREAD_COND_INITIALIZER;

static u64 due_in(unsigned long delay)
{
	return delay ? shim_now_ns() + delay * (NSEC_PER_SEC / HZ) : 0;
}

/* Lists */

static void list_work(struct workqueue_struct *wq, struct work_struct *work, u64 due)
{
	struct work_struct **at = &wq->first;

	while (*at && (*at)->due <= due)
		at = &(*at)->next;
	work->wq = wq;
	work->due = due;
	work->next = *at;
	work->listed = true;
	*at = work;
	pthread_cond_signal(&wq->more);
}

static void unlist_work(struct work_struct *work)
{
	struct work_struct **at = &work->wq->first;

	while (*at != work)
		at = &(*at)->next;
	*at = work->next;
	work->listed = false;
}

/* Take the lock when no thread is about to list the work. */
static void lock_settled(struct work_struct *work)
{
	for (;;) {
		pthread_mutex_lock(&lock);
		if (work->listed || !__atomic_load_n(&work->pending, __ATOMIC_RELAXED))
			return;
		pthread_mutex_unlock(&lock);
		sched_yield();
	}
}

/* The work is pending, the lock held. */
static bool list_unless_disabled(struct workqueue_struct *wq, struct work_struct *work, u64 due)
{
	if (work->disabled) {
		xchg(&work->pending, false);
		return false;
	}
	list_work(wq, work, due);
	return true;
}

/* The thread */

/* Wait for something to do.  The lock is given up meanwhile. */
static void wait_for_work(struct workqueue_struct *wq)
{
	struct timespec until;

	shim_rcu_offline();
	if (wq->first) {
		until.tv_sec = wq->first->due / NSEC_PER_SEC;
		until.tv_nsec = wq->first->due % NSEC_PER_SEC;
		pthread_cond_timedwait(&wq->more, &lock, &until);
	} else {
		pthread_cond_wait(&wq->more, &lock);
	}
	shim_rcu_online();
}

static void run_work(struct workqueue_struct *wq, struct work_struct *work)
{
	work_func_t fn = work->fn;

	unlist_work(work);
	wq->running = work;
	/* From here on it can be queued again. */
	xchg(&work->pending, false);
	pthread_mutex_unlock(&lock);
	fn(work);
	pthread_mutex_lock(&lock);
	/* The work itself may be gone. */
	wq->running = NULL;
	pthread_cond_broadcast(&finished);
}

static int work_thread(void *arg)
{
	struct workqueue_struct *wq = arg;

	pthread_mutex_lock(&lock);
	while (!wq->stop || wq->first) {
		if (wq->first && wq->first->due <= shim_now_ns())
			run_work(wq, wq->first);
		else
			wait_for_work(wq);
	}
	pthread_mutex_unlock(&lock);
	return 0;
}

struct workqueue_struct *alloc_workqueue(const char *name, unsigned int flags, int max)
{
	struct workqueue_struct *wq = calloc(1, sizeof(*wq));
	pthread_condattr_t attr;

	if (!wq)
		return NULL;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&wq->more, &attr);
	wq->task = get_task_struct(kthread_create(work_thread, wq, "%s", name));
	wake_up_process(wq->task);
	return wq;
}

void destroy_workqueue(struct workqueue_struct *wq)
{
	pthread_mutex_lock(&lock);
	wq->stop = true;
	pthread_cond_signal(&wq->more);
	pthread_mutex_unlock(&lock);
	kthread_stop_put(wq->task);
	pthread_cond_destroy(&wq->more);
	free(wq);
}

/* Queuing */

static bool queue_due(struct workqueue_struct *wq, struct work_struct *work, unsigned long delay)
{
	bool queued;

	if (xchg(&work->pending, true))
		return false;
	pthread_mutex_lock(&lock);
	queued = list_unless_disabled(wq, work, due_in(delay));
	pthread_mutex_unlock(&lock);
	return queued;
}

bool queue_work(struct workqueue_struct *wq, struct work_struct *work)
{
	return queue_due(wq, work, 0);
}

bool queue_delayed_work(struct workqueue_struct *wq, struct delayed_work *work,
			unsigned long delay)
{
	return queue_due(wq, &work->work, delay);
}

/* Returns whether it was pending before. */
bool mod_delayed_work(struct workqueue_struct *wq, struct delayed_work *dwork,
		      unsigned long delay)
{
	struct work_struct *work = &dwork->work;
	bool was;

	for (;;) {
		lock_settled(work);
		was = work->listed;
		if (was)
			unlist_work(work);
		if (was || !xchg(&work->pending, true))
			break;
		pthread_mutex_unlock(&lock);
	}
	list_unless_disabled(wq, work, due_in(delay));
	pthread_mutex_unlock(&lock);
	return was;
}

/* Waiting */

static bool is_running(const struct work_struct *work)
{
	return work->wq && work->wq->running == work;
}

static void wait_finished(void)
{
	shim_rcu_offline();
	pthread_cond_wait(&finished, &lock);
	shim_rcu_online();
}

/* Returns whether there was anything to wait for: not what is to begin later. */
bool flush_work(struct work_struct *work)
{
	bool waited = false;

	might_sleep();
	lock_settled(work);
	while ((work->listed && work->due <= shim_now_ns()) || is_running(work)) {
		waited = true;
		wait_finished();
	}
	pthread_mutex_unlock(&lock);
	return waited;
}

bool flush_delayed_work(struct delayed_work *dwork)
{
	struct work_struct *work = &dwork->work;

	lock_settled(work);
	if (work->listed) {
		unlist_work(work);
		list_work(work->wq, work, 0);
	}
	pthread_mutex_unlock(&lock);
	return flush_work(work);
}

/* Returns whether it was pending. */
static bool cancel_and_disable(struct work_struct *work, unsigned int disable)
{
	bool was;

	might_sleep();
	lock_settled(work);
	was = work->listed;
	/* As long as it runs, it may try to queue itself. */
	work->disabled++;
	if (was) {
		unlist_work(work);
		xchg(&work->pending, false);
	}
	while (is_running(work))
		wait_finished();
	work->disabled += disable - 1;
	pthread_mutex_unlock(&lock);
	return was;
}

bool cancel_delayed_work_sync(struct delayed_work *work)
{
	return cancel_and_disable(&work->work, 0);
}

bool disable_delayed_work_sync(struct delayed_work *work)
{
	return cancel_and_disable(&work->work, 1);
}

bool enable_delayed_work(struct delayed_work *work)
{
	bool enabled;

	pthread_mutex_lock(&lock);
	enabled = !--work->work.disabled;
	pthread_mutex_unlock(&lock);
	return enabled;
}

/* Work after a grace period */

static void grace_period_ends(struct rcu_head *head)
{
	struct rcu_work *work = container_of(head, struct rcu_work, rcu);

	pthread_mutex_lock(&lock);
	list_unless_disabled(work->wq, &work->work, 0);
	pthread_mutex_unlock(&lock);
}

bool queue_rcu_work(struct workqueue_struct *wq, struct rcu_work *work)
{
	if (xchg(&work->work.pending, true))
		return false;
	work->wq = wq;
	call_rcu(&work->rcu, grace_period_ends);
	return true;
}

bool flush_rcu_work(struct rcu_work *work)
{
	if (__atomic_load_n(&work->work.pending, __ATOMIC_RELAXED))
		rcu_barrier();
	return flush_work(&work->work);
}
