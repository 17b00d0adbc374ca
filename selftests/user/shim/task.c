// SPDX-License-Identifier: GPL-2.0
/* Tasks on threads: making them, binding them, waiting. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include <linux/completion.h>
#include <linux/cpumask.h>
#include <linux/kthread.h>
#include <linux/processor.h>
#include <linux/rcupdate.h>
#include <linux/sched/task.h>
#include <linux/wait.h>

#include "percpu.h"

/*
 * Turns of a waiting loop after which another thread gets the CPU.  With preemption
 * off there are more: the thread may itself hold a lock that others wait for.
 */
#define SPIN_TURNS	64
#define SPIN_TURNS_ATOMIC	4096

__thread struct task_struct *shim_task;
#ifdef SHIM_TSAN
__thread bool shim_wmb;
#endif

struct cpumask shim_all_cpus;

void shim_bug(const char *file, int line, const char *what)
{
	fprintf(stderr, "WARNING: %s:%d: %s\n", file, line, what);
	abort();
}

/* Time */

u64 shim_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * NSEC_PER_SEC + now.tv_nsec;
}

unsigned long shim_jiffies(void)
{
	return shim_now_ns() / (NSEC_PER_SEC / HZ);
}

void shim_sleep_ns(u64 ns)
{
	struct timespec time = { .tv_sec = ns / NSEC_PER_SEC, .tv_nsec = ns % NSEC_PER_SEC };

	might_sleep();
	shim_rcu_offline();
	nanosleep(&time, NULL);
	shim_rcu_online();
}

void cond_resched(void)
{
	might_sleep();
	shim_rcu_quiescent();
}

void cpu_relax(void)
{
	struct task_struct *task = current;

#ifdef __x86_64__
	__builtin_ia32_pause();
#else
	barrier();
#endif
	if (++task->turns < (task->preempt_count ? SPIN_TURNS_ATOMIC : SPIN_TURNS))
		return;
	task->turns = 0;
	sched_yield();
}

/* CPUs */

static void __attribute__((__constructor__)) find_cpus(void)
{
	if (sched_getaffinity(0, sizeof(shim_all_cpus.set), &shim_all_cpus.set))
		CPU_ZERO(&shim_all_cpus.set);
}

/* The @nr-th of the CPUs that there are, and from the first again. */
const struct cpumask *cpumask_of(int nr)
{
	static __thread struct cpumask mask;
	int cpu, count = CPU_COUNT(&shim_all_cpus.set);

	CPU_ZERO(&mask.set);
	nr = count ? nr % count : 0;
	for (cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &shim_all_cpus.set) && !nr--)
			CPU_SET(cpu, &mask.set);
	return &mask;
}

int set_cpus_allowed_ptr(struct task_struct *task, const struct cpumask *mask)
{
	return -pthread_setaffinity_np(task->thread, sizeof(mask->set), &mask->set);
}

/* Tasks */

static struct task_struct *task_new(void)
{
	struct task_struct *task = calloc(1, sizeof(*task));

	BUG_ON(!task);
	atomic_set(&task->refs, 1);
	task->bind = -1;
	return task;
}

struct task_struct *get_task_struct(struct task_struct *task)
{
	atomic_inc(&task->refs);
	return task;
}

void put_task_struct(struct task_struct *task)
{
	if (atomic_dec_and_test(&task->refs))
		free(task);
}

static void task_begin(struct task_struct *task)
{
	shim_task = task;
	task->slot = shim_slot_take();
	shim_rcu_register();
}

static void task_end(struct task_struct *task)
{
	shim_rcu_unregister();
	shim_slot_give_back(task->slot);
	shim_task = NULL;
	put_task_struct(task);
}

/* This thread, which is not kthread_create()'s, becomes a task. */
void shim_thread_begin(void)
{
	struct task_struct *task = task_new();

	task->thread = pthread_self();
	task_begin(task);
}

static void __attribute__((__constructor__)) main_begin(void)
{
	shim_thread_begin();
}

static void __attribute__((__destructor__)) main_end(void)
{
	/* Others may exit(), too. */
	if (shim_task)
		task_end(shim_task);
}

/* A thread of a library. */
struct task_struct *shim_adopt(void)
{
	static __thread struct task_struct task = { .bind = -1, .slot = -1 };

	task.thread = pthread_self();
	shim_task = &task;
	return &task;
}

struct task_struct *kthread_create(int (*fn)(void *arg), void *arg, const char *name, ...)
{
	struct task_struct *task = task_new();

	task->fn = fn;
	task->arg = arg;
	return task;
}

void kthread_bind(struct task_struct *task, int cpu)
{
	task->bind = cpu;
}

static void *task_run(void *arg)
{
	struct task_struct *task = arg;

	task_begin(task);
	if (task->bind >= 0)
		sched_setaffinity(0, sizeof(cpu_set_t), &cpumask_of(task->bind)->set);
	task->result = task->fn(task->arg);
	task_end(task);
	return NULL;
}

int wake_up_process(struct task_struct *task)
{
	BUG_ON(pthread_create(&task->thread, NULL, task_run, task));
	return 1;
}

/* The caller has a reference: the thread's own ends with it. */
int kthread_stop_put(struct task_struct *task)
{
	int result;

	might_sleep();
	shim_rcu_offline();
	pthread_join(task->thread, NULL);
	shim_rcu_online();
	result = task->result;
	put_task_struct(task);
	return result;
}

/* Completions */

void init_completion(struct completion *c)
{
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->cond, NULL);
	c->done = false;
}

void complete(struct completion *c)
{
	pthread_mutex_lock(&c->lock);
	c->done = true;
	pthread_cond_signal(&c->cond);
	pthread_mutex_unlock(&c->lock);
}

void wait_for_completion(struct completion *c)
{
	might_sleep();
	shim_rcu_offline();
	pthread_mutex_lock(&c->lock);
	while (!c->done)
		pthread_cond_wait(&c->cond, &c->lock);
	c->done = false;
	pthread_mutex_unlock(&c->lock);
	shim_rcu_online();
}

/* Wait queues */

void init_waitqueue_head(wait_queue_head_t *wq)
{
	spin_lock_init(&wq->lock);
	pthread_cond_init(&wq->cond, NULL);
	INIT_LIST_HEAD(&wq->head);
	atomic_set(&wq->sleepers, 0);
}

int __wake_up(wait_queue_head_t *wq, unsigned int mode, int nr, void *key)
{
	struct list_head *at, *next;
	int woken = 0;

	spin_lock_irq(&wq->lock);
	pthread_cond_broadcast(&wq->cond);
	for (at = wq->head.next; at != &wq->head && woken < nr; at = next) {
		struct wait_queue_entry *entry = container_of(at, struct wait_queue_entry, entry);

		next = at->next;
		woken += entry->func(entry, mode, 0, key);
	}
	spin_unlock_irq(&wq->lock);
	return woken;
}

void shim_wait_begin(wait_queue_head_t *wq)
{
	might_sleep();
	shim_rcu_offline();
	spin_lock_irq(&wq->lock);
	atomic_inc_return(&wq->sleepers);
}

void shim_wait(wait_queue_head_t *wq)
{
	pthread_cond_wait(&wq->cond, &wq->lock.mutex);
}

void shim_wait_end(wait_queue_head_t *wq)
{
	atomic_dec(&wq->sleepers);
	spin_unlock_irq(&wq->lock);
	shim_rcu_online();
}
