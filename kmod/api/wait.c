// SPDX-License-Identifier: GPL-2.0
/* Code for all waiting commands: their events, and sending them to their tasks. */
#include <linux/blkdev.h>
#include <linux/pid.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include "log/log.h"
#include "wait_internal.h"

/*
 * Commands
 */

/*
 * How many freed structures a session keeps, since an accounted allocation takes long.  They take
 * at most 52 KiB, and stay charged to the cgroups that allocated them.
 */
#define WAIT_SPARES	256

static struct kmem_cache *wait_cache;

/*
 * Runs the sessions' work items.  With a rescuer, so that many sessions do not delay the reclaim of
 * memory.
 */
static struct workqueue_struct *wait_wq;

/**
 * kvt_waits_prepare() - prepare for commands that wait
 *
 * Context: module init, sleeps.
 *
 * Return: 0 or -ENOMEM.
 */
int kvt_waits_prepare(void)
{
	wait_cache = kmem_cache_create("kvt_wait", sizeof(struct kvt_wait), 0,
				       SLAB_ACCOUNT | SLAB_NO_MERGE, NULL);
	if (!wait_cache)
		return -ENOMEM;
	wait_wq = alloc_workqueue("kvtree_wait", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	if (wait_wq)
		return 0;
	kmem_cache_destroy(wait_cache);
	return -ENOMEM;
}

/**
 * kvt_waits_end() - end of kvt_waits_prepare()
 *
 * Context: module exit, sleeps.  No session is left.
 */
void kvt_waits_end(void)
{
	destroy_workqueue(wait_wq);
	kmem_cache_destroy(wait_cache);
}

/* Take one that was freed, or NULL. */
static struct kvt_wait *wait_take(struct kvt_waits *waits)
{
	struct kvt_wait *wait;

	spin_lock(&waits->lock);
	wait = list_first_entry_or_null(&waits->spare, struct kvt_wait, list);
	if (wait) {
		list_del(&wait->list);
		waits->nr_spare--;
	}
	spin_unlock(&waits->lock);
	return wait;
}

/**
 * kvt_wait_new() - allocate what a command needs to wait
 * @session: the command's
 * @ctx: of its operation
 * @again: executes its update again
 * @args: the command
 *
 * Context: where the command is issued; sleeps if @ctx allows it.
 *
 * Return: what kvt_pending_wait() and kvt_executed_wait() take; or NULL.
 */
struct kvt_wait *kvt_wait_new(struct kvt_session *session, const struct kvt_op_ctx *ctx,
			      kvt_wait_fn again, const struct kvt_wait_args *args)
{
	struct kvt_wait *wait = wait_take(&session->waits);

	if (!wait)
		wait = kmem_cache_alloc(wait_cache, kvt_op_gfp_scratch(ctx));
	if (!wait)
		return NULL;
	wait->user_data = cmd_to_io_kiocb(args->cmd)->cqe.user_data;
	wait->executed = false;
	wait->cqe32 = args->issue_flags & IO_URING_F_CQE32;
	wait->out = args->out;
	wait->session = session;
	wait->cmd = args->cmd;
	wait->again = again;
	RB_CLEAR_NODE(&wait->node);
	RB_CLEAR_NODE(&wait->owned);
	wait->published = false;
	return wait;
}

/**
 * kvt_wait_publish() - let cancellations find a command
 * @wait: the command
 * @executed: whether it is executed; it may already be published as pending
 *
 * Context: outside the session's lock.
 */
void kvt_wait_publish(struct kvt_wait *wait, bool executed)
{
	struct kvt_waits *waits = kvt_wait_waits(wait);

	kvt_stat_inc(&kvt_wait_store(wait)->stats, KVTREE_STAT_URING_WAIT);
	spin_lock(&waits->lock);
	if (wait->published)
		kvt_wait_unlist(wait);
	wait->published = true;
	wait->executed = executed;
	wait->state = WAIT_NEW;
	/* A command that was executed before it was canceled is not canceled. */
	wait->canceled = false;
	wait->seq = ++waits->seq;
	kvt_wait_list(wait);
	*kvt_wait_of(wait->cmd) = wait;
	spin_unlock(&waits->lock);
}

/**
 * kvt_wait_free() - free what a command needed to wait
 * @wait: from kvt_wait_new(); it does not wait, and lookups no longer find it
 *
 * Context: any but interrupts.
 */
void kvt_wait_free(struct kvt_wait *wait)
{
	struct kvt_waits *waits = kvt_wait_waits(wait);
	bool keep;

	spin_lock(&waits->lock);
	if (wait->published) {
		kvt_wait_unlist(wait);
		*kvt_wait_of(wait->cmd) = NULL;
	}
	keep = waits->nr_spare < WAIT_SPARES;
	if (keep) {
		list_add(&wait->list, &waits->spare);
		waits->nr_spare++;
	}
	spin_unlock(&waits->lock);
	if (!keep)
		kmem_cache_free(wait_cache, wait);
}

/**
 * kvt_wait_mark() - let the ring cancel a command from now on
 * @wait: the command
 * @ctx: of its operation
 * @issue_flags: of this call of the command
 *
 * An io_uring worker takes the ring's lock for that, so it must be outside the store: the
 * lock's holder may keep it for long, or wait for the store to go away.
 *
 * Context: inside the store, which is left meanwhile; sleeps if the caller may.
 *
 * Return: 0, or -ESTALE: the store is left for good.
 */
int kvt_wait_mark(struct kvt_wait *wait, const struct kvt_op_ctx *ctx, unsigned int issue_flags)
{
	bool was_inside;

	if (!(issue_flags & IO_URING_F_UNLOCKED)) {
		io_uring_cmd_mark_cancelable(wait->cmd, issue_flags);
		return 0;
	}
	was_inside = kvt_op_leave(ctx);
	io_uring_cmd_mark_cancelable(wait->cmd, issue_flags);
	return kvt_op_reenter(ctx, was_inside);
}

/*
 * Events
 */

static struct kvt_store *waits_store(const struct kvt_waits *waits)
{
	return container_of(waits, struct kvt_session, waits)->store;
}

/**
 * kvt_waits_wake() - have the session's work item look at its commands
 * @waits: the session's
 *
 * Context: any.
 */
void kvt_waits_wake(struct kvt_waits *waits)
{
	queue_work(wait_wq, &waits->work);
}

/**
 * kvt_wait_queue_wake() - have the session's work item check whether an event has come
 * @queue: of the commands that wait for the event
 *
 * Context: any.
 */
void kvt_wait_queue_wake(struct kvt_wait_queue *queue)
{
	WRITE_ONCE(queue->woken, true);
	kvt_waits_wake(queue->waits);
}

static struct kvt_event *queue_event(const struct kvt_wait_queue *queue)
{
	struct kvt_store *store = waits_store(queue->waits);

	if (queue->event == KVT_WAIT_RECLAIM)
		return kvt_reclaim_event(&store->reclaim);
	if (queue->event == KVT_WAIT_ROOM)
		return kvt_log_space_event(store->log);
	if (queue->event == KVT_WAIT_DURABLE)
		return kvt_log_durable_event(store->log);
	return &store->gone_event;
}

/*
 * Called with the event's queue locked, for all of the session's commands.  It need not be called
 * again until the work item has looked at them.
 */
static void queue_hear(struct kvt_listener *listener)
{
	struct kvt_wait_queue *queue = container_of(listener, struct kvt_wait_queue, listener);

	kvt_stat_inc(&waits_store(queue->waits)->stats, KVTREE_STAT_URING_WAKE);
	kvt_wait_queue_wake(queue);
}

/* Under the lock: listen for one event from now on. */
static void queue_listen(struct kvt_wait_queue *queue)
{
	kvt_event_listen(queue_event(queue), &queue->listener);
	/* Pairs with the barrier after making room: the waker sees the listener, or we the room. */
	smp_mb();
}

/* Note the process for which the queue listens.  Under the lock, which protects the name. */
static void queue_name(struct kvt_wait_queue *queue, const struct kvt_wait *wait)
{
	struct pid *pid = get_task_pid(kvt_uring_task(wait->cmd), PIDTYPE_TGID);

	if (pid != queue->listener.pid)
		pid = kvt_event_name(queue_event(queue), &queue->listener, pid);
	put_pid(pid);
}

/* Stop listening, under the lock, before the last command leaves the store. */
static void queue_end(struct kvt_wait_queue *queue)
{
	kvt_event_unlisten(queue_event(queue), &queue->listener);
}

/**
 * kvt_wait_start() - start to wait for an event
 * @wait: a command that does not wait
 * @event: the event; if it comes from now on, the work item looks at the command
 *
 * Context: under the lock, inside the store unless that is destroyed.
 *
 * Return: the queue that the command waits in.
 */
struct kvt_wait_queue *kvt_wait_start(struct kvt_wait *wait, enum kvt_wait_event event)
{
	struct kvt_wait_queue *queue = &kvt_wait_waits(wait)->queue[event];

	wait->event = event;
	wait->state = WAIT_WAITS;
	list_add_tail(&wait->list, &queue->list);
	if (!queue->nr++) {
		queue_name(queue, wait);
		queue_listen(queue);
	}
	return queue;
}

/**
 * kvt_wait_stop() - take a command that waits out of its queue
 * @wait: the command
 * @state: what it does next
 *
 * Context: under the lock; kvt_wait_leave() must follow.
 */
void kvt_wait_stop(struct kvt_wait *wait, enum kvt_wait_state state)
{
	struct kvt_wait_queue *queue = &kvt_wait_waits(wait)->queue[wait->event];

	wait->state = state;
	list_del(&wait->list);
	if (!--queue->nr)
		queue_end(queue);
}

/**
 * kvt_wait_end() - end a command's wait, and have the work item send it to its task
 * @wait: a command that waits
 *
 * Context: under the lock; kvt_waits_wake() must follow, unless the work item calls this.
 */
void kvt_wait_end(struct kvt_wait *wait)
{
	kvt_wait_stop(wait, WAIT_SENT);
	list_add_tail(&wait->list, &kvt_wait_waits(wait)->over);
}

/*
 * The work item
 */

static struct io_kiocb *wait_req(const struct kvt_wait *wait)
{
	return cmd_to_io_kiocb(wait->cmd);
}

/* Whether one task work may handle both. */
static bool wait_goes_with(const struct kvt_wait *wait, const struct kvt_wait *other)
{
	return wait_req(wait)->ctx == wait_req(other)->ctx &&
	       kvt_uring_task(wait->cmd) == kvt_uring_task(other->cmd);
}

/* Run commands that were sent together, in their task or in one without its memory. */
static void waits_in_task(struct io_uring_cmd *cmd, unsigned int issue_flags, bool dead)
{
	struct kvt_wait *wait = *kvt_wait_of(cmd);
	LIST_HEAD(together);
	struct blk_plug plug;

	/* Give their list a head. */
	list_add_tail(&together, &wait->list);
	/* Updates made together become durable together. */
	blk_start_plug(&plug);
	while ((wait = list_first_entry_or_null(&together, struct kvt_wait, list))) {
		list_del(&wait->list);
		kvt_wait_ops(wait)->run(wait, issue_flags, dead);
	}
	blk_finish_plug(&plug);
}

KVT_URING_TASK_WORK(waits_task_work, waits_in_task)

/* Send a command, with those in its list, to their task. */
static void wait_send(struct kvt_wait *wait)
{
	/* The lazy variant wakes a task that waits for many only when there are enough. */
	if (!list_empty(&wait->list) || !wait->executed)
		io_uring_cmd_complete_in_task(wait->cmd, waits_task_work);
	else
		io_uring_cmd_do_in_task_lazy(wait->cmd, waits_task_work);
}

/**
 * kvt_wait_leave() - leave the store after a wait, unless the wait was for its end
 * @wait: a command after its wait
 *
 * Its task may run much later, and needs nothing of the store any more.
 *
 * Context: outside the lock.
 */
void kvt_wait_leave(struct kvt_wait *wait)
{
	if (kvt_wait_ops(wait)->leave)
		kvt_wait_ops(wait)->leave(wait);
	if (wait->event != KVT_WAIT_GONE)
		kvt_store_leave(kvt_wait_store(wait));
}

/* A durable epoch ends hundreds of waits at once: combine them into few task works. */
static void waits_send_list(struct list_head *over)
{
	struct kvt_wait *wait, *next, *first = NULL;
	unsigned int nr = 0;

	list_for_each_entry_safe(wait, next, over, list) {
		kvt_wait_leave(wait);
		if (first && ++nr < KVT_WAIT_PORTION && wait_goes_with(wait, first)) {
			list_move_tail(&wait->list, &first->list);
			continue;
		}
		if (first)
			wait_send(first);
		list_del_init(&wait->list);
		first = wait;
		nr = 0;
		cond_resched();
	}
	if (first)
		wait_send(first);
}

static void waits_send(struct kvt_waits *waits)
{
	LIST_HEAD(over);

	spin_lock(&waits->lock);
	list_splice_init(&waits->over, &over);
	spin_unlock(&waits->lock);
	waits_send_list(&over);
}

/*
 * Under the lock: examine a portion of the queue's commands, and put back those that still
 * wait.  Returns whether there are more.
 */
static bool queue_look_some(struct kvt_wait_queue *queue, struct list_head *had)
{
	struct kvt_wait *wait;
	unsigned int i;

	for (i = 0; i < KVT_WAIT_PORTION && !list_empty(had); i++) {
		wait = list_first_entry(had, struct kvt_wait, list);
		if (kvt_wait_ops(wait)->came(wait)) {
			kvt_wait_end(wait);
		} else if (wait->executed) {
			list_move_tail(&wait->list, &queue->list);
		} else {
			/* Then the event has not come for the others either. */
			list_splice_init(had, &queue->list);
		}
	}
	return !list_empty(had);
}

/* Send the queue's commands if their event has come, except those that arrive meanwhile. */
static void queue_look(struct kvt_waits *waits, struct kvt_wait_queue *queue)
{
	LIST_HEAD(had);
	bool more;

	if (!xchg(&queue->woken, false))
		return;
	spin_lock(&waits->lock);
	/* Listen before looking, to hear of later events. */
	if (queue->nr)
		queue_listen(queue);
	list_splice_init(&queue->list, &had);
	spin_unlock(&waits->lock);
	do {
		spin_lock(&waits->lock);
		more = queue_look_some(queue, &had);
		spin_unlock(&waits->lock);
		waits_send(waits);
		cond_resched();
	} while (more);
}

/* The noted process may have no command here any more: note that of another command. */
static void queue_rename(struct kvt_waits *waits, struct kvt_wait_queue *queue)
{
	const struct kvt_wait *wait;

	spin_lock(&waits->lock);
	wait = list_first_entry_or_null(&queue->list, struct kvt_wait, list);
	if (wait)
		queue_name(queue, wait);
	spin_unlock(&waits->lock);
}

static void waits_work(struct work_struct *work)
{
	struct kvt_waits *waits = container_of(work, struct kvt_waits, work);
	int event;

	/* Send canceled commands. */
	waits_send(waits);
	for (event = 0; event < KVT_WAIT_EVENTS; event++) {
		queue_look(waits, &waits->queue[event]);
		queue_rename(waits, &waits->queue[event]);
	}
}

static void queue_init(struct kvt_wait_queue *queue, struct kvt_waits *waits,
		       enum kvt_wait_event event)
{
	queue->waits = waits;
	queue->event = event;
	queue->nr = 0;
	queue->woken = false;
	INIT_LIST_HEAD(&queue->list);
	kvt_listener_init(&queue->listener, queue_hear);
}

/**
 * kvt_waits_init() - initialize a session's waiting commands: there are none
 * @waits: a session's
 */
void kvt_waits_init(struct kvt_waits *waits)
{
	int event;

	spin_lock_init(&waits->lock);
	waits->tree = RB_ROOT;
	waits->owned = RB_ROOT;
	waits->seq = 0;
	for (event = 0; event < KVT_WAIT_EVENTS; event++)
		queue_init(&waits->queue[event], waits, event);
	INIT_LIST_HEAD(&waits->over);
	INIT_LIST_HEAD(&waits->spare);
	waits->nr_spare = 0;
	INIT_WORK(&waits->work, waits_work);
}

/**
 * kvt_waits_exit() - undo kvt_waits_init()
 * @waits: a session's; no command waits
 *
 * Context: process context, sleeps.
 */
void kvt_waits_exit(struct kvt_waits *waits)
{
	struct kvt_wait *wait;
	int event;

	/* The work item may have just completed the last command. */
	cancel_work_sync(&waits->work);
	for (event = 0; event < KVT_WAIT_EVENTS; event++)
		put_pid(waits->queue[event].listener.pid);
	while ((wait = wait_take(waits)))
		kmem_cache_free(wait_cache, wait);
}
