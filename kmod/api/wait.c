// SPDX-License-Identifier: GPL-2.0
/* Commands that wait without a thread. */
#include <linux/blkdev.h>
#include <linux/errno.h>
#include <linux/pid.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "compat.h"
#include "core/guest.h"
#include "core/listen.h"
#include "log/log.h"
#include "session.h"
#include "wait.h"

/* What a session keeps for those that will wait until they are durable. */
#define NR_SPARE	256

/* So many commands are looked at under the lock, or are one work for a task. */
#define PORTION		128

enum wait_state {
	WAIT_NEW,		/* nobody is to wake it yet */
	WAIT_WAITS,		/* for an event */
	WAIT_SENT,		/* for its task, or for the work to send it there */
	WAIT_RUNS,		/* it is executed or completes */
};

/* There is one for each of many commands: it is small. */
struct wait {
	union {
		struct list_head list;		/* lock: of a queue, or of those that are over */
		struct wait *next;		/* spare (lock), or sent with this */
	};
	struct rb_node node;			/* lock: of a tree, by user_data and seq */
	u64 user_data;
	u64 seq;
	u8 state;				/* lock: enum wait_state */
	u8 event;				/* enum kvt_wait_event */
	bool canceled;				/* lock: it does not wait any more */
	bool cqe32;
	u64 out;
	struct kvt_session *session;		/* kept by the command's file */
	struct io_uring_cmd *cmd;
};

/* A command that was executed: its event is KVT_WAIT_DURABLE, from the beginning. */
struct sync {
	struct wait wait;
	u64 epoch;				/* to be durable */
	u64 version;
	int res;
	bool failed;				/* res is why it is not durable */
};

/* A change. */
struct kvt_pending {
	struct wait wait;
	struct rb_node owned;			/* lock: of the tree, by owner */
	const void *owner;			/* the files of who submitted it */
	struct kvtree_op op;
	kvt_pending_fn again;
};

/* The command's own memory leads to what waits for it: lock; NULL: nothing any more. */
static struct wait **wait_of(struct io_uring_cmd *cmd)
{
	return io_uring_cmd_to_pdu(cmd, struct wait *);
}

static struct kvt_pending *pending_of(struct wait *wait)
{
	return container_of(wait, struct kvt_pending, wait);
}

static struct sync *sync_of(const struct wait *wait)
{
	return container_of(wait, struct sync, wait);
}

static bool wait_is_executed(const struct wait *wait)
{
	return wait->event == KVT_WAIT_DURABLE;
}

static struct kvt_store *wait_store(const struct wait *wait)
{
	return wait->session->store;
}

static struct kvt_log *wait_log(const struct wait *wait)
{
	return wait_store(wait)->log;
}

/*
 * The trees
 */

static bool wait_comes_before(const struct wait *wait, u64 user_data, u64 seq)
{
	return wait->user_data < user_data || (wait->user_data == user_data && wait->seq < seq);
}

static bool wait_less(struct rb_node *a, const struct rb_node *b)
{
	const struct wait *wait = rb_entry(b, struct wait, node);

	return wait_comes_before(rb_entry(a, struct wait, node), wait->user_data, wait->seq);
}

static void tree_del(struct rb_root *tree, struct rb_node *node)
{
	if (RB_EMPTY_NODE(node))
		return;
	rb_erase(node, tree);
	RB_CLEAR_NODE(node);
}

/* The first one with this user_data and seq, or after it. */
static struct wait *tree_find(const struct rb_root *tree, u64 user_data, u64 seq)
{
	struct rb_node *node = tree->rb_node;
	struct wait *wait, *found = NULL;

	while (node) {
		wait = rb_entry(node, struct wait, node);
		if (wait_comes_before(wait, user_data, seq)) {
			node = node->rb_right;
		} else {
			found = wait;
			node = node->rb_left;
		}
	}
	return found;
}

static int owner_cmp(const void *owner, const struct rb_node *node)
{
	const void *other = rb_entry(node, struct kvt_pending, owned)->owner;

	return owner < other ? -1 : owner > other;
}

static bool owner_less(struct rb_node *a, const struct rb_node *b)
{
	return owner_cmp(rb_entry(a, struct kvt_pending, owned)->owner, b) < 0;
}

/* Under the lock: those who cancel find it. */
static void wait_list(struct wait *wait)
{
	struct kvt_waits *waits = &wait->session->waits;

	wait->seq = ++waits->seq;
	if (wait_is_executed(wait)) {
		rb_add(&wait->node, &waits->executed, wait_less);
	} else {
		rb_add(&wait->node, &waits->changes, wait_less);
		rb_add(&pending_of(wait)->owned, &waits->owned, owner_less);
	}
}

/* Under the lock: they do not, or not any more. */
static void wait_unlist(struct wait *wait)
{
	struct kvt_waits *waits = &wait->session->waits;

	if (wait_is_executed(wait)) {
		tree_del(&waits->executed, &wait->node);
	} else {
		tree_del(&waits->changes, &wait->node);
		tree_del(&waits->owned, &pending_of(wait)->owned);
	}
}

static void wait_init(struct wait *wait, struct kvt_session *session,
		      enum kvt_wait_event event, const struct kvt_wait_args *args)
{
	*wait = (struct wait) {
		.user_data = cmd_to_io_kiocb(args->cmd)->cqe.user_data,
		.state = WAIT_NEW,
		.event = event,
		.cqe32 = args->issue_flags & IO_URING_F_CQE32,
		.out = args->out,
		.session = session,
		.cmd = args->cmd,
	};
	kvt_stat_inc(&session->store->stats, KVTREE_STAT_URING_WAIT);
}

/* It has all that it needs.  The command is found at any time, if it was before. */
static void wait_publish(struct wait *wait, struct wait *instead_of)
{
	struct kvt_waits *waits = &wait->session->waits;

	spin_lock(&waits->lock);
	if (instead_of)
		wait_unlist(instead_of);
	wait_list(wait);
	*wait_of(wait->cmd) = wait;
	spin_unlock(&waits->lock);
}

/* Under the lock: nobody finds it any more. */
static void wait_hide(struct wait *wait)
{
	wait_unlist(wait);
	*wait_of(wait->cmd) = NULL;
}

/*
 * Let the ring cancel it from here on.  A worker of io_uring takes the ring's lock for
 * that, outside of the store: whoever has the lock may keep it, or wait for the store to
 * be gone.
 *
 * Returns 0, or -ESTALE: the store is left for good.
 */
static int wait_mark(struct wait *wait, const struct kvt_op_ctx *ctx, unsigned int issue_flags)
{
	bool was_inside;

	if (!(issue_flags & IO_URING_F_UNLOCKED)) {
		io_uring_cmd_mark_cancelable(wait->cmd, issue_flags);
		return 0;
	}
	was_inside = kvt_op_step_out(ctx);
	io_uring_cmd_mark_cancelable(wait->cmd, issue_flags);
	return kvt_op_step_in(ctx, was_inside);
}

/*
 * Events
 */

static struct kvt_store *waits_store(const struct kvt_waits *waits)
{
	return container_of(waits, struct kvt_session, waits)->store;
}

static void waits_queue_work(struct kvt_waits *waits)
{
	queue_work(kvt_sessions_wq, &waits->work);
}

/* The work is to look whether the event has come. */
static void queue_wake(struct kvt_wait_queue *queue)
{
	WRITE_ONCE(queue->woken, true);
	waits_queue_work(queue->waits);
}

/*
 * With the event's queue locked: this stands there for all of the session's.  Until the
 * work looks, there is nothing more to hear.
 */
static int queue_hear(struct wait_queue_entry *entry, unsigned int mode, int flags, void *key)
{
	struct kvt_wait_queue *queue = container_of(entry, struct kvt_wait_listener, entry)->queue;

	list_del_init(&entry->entry);
	kvt_stat_inc(&waits_store(queue->waits)->stats, KVTREE_STAT_URING_WAKE);
	queue_wake(queue);
	return 1;
}

static struct wait_queue_entry *queue_listener(struct kvt_wait_queue *queue)
{
	return &queue->listener[queue->second].entry;
}

static wait_queue_head_t *queue_head(const struct kvt_wait_queue *queue)
{
	struct kvt_store *store = waits_store(queue->waits);

	if (queue->event == KVT_WAIT_RECLAIM)
		return kvt_reclaim_queue(&store->reclaim);
	if (queue->event == KVT_WAIT_ROOM)
		return kvt_log_space_queue(store->log);
	return kvt_log_durable_queue(store->log);
}

/* Under the lock: hear of the event, once, if it comes from here on. */
static void queue_listen(struct kvt_wait_queue *queue)
{
	kvt_listen(queue_head(queue), queue_listener(queue));
	/* Pairs with the barrier of who makes room: it sees the listener, or we the room. */
	smp_mb();
}

/* Under the lock: the listener is of who submitted a command. */
static void queue_name(struct kvt_wait_queue *queue, const struct wait *wait)
{
	struct pid *pid = get_task_pid(kvt_uring_task(wait->cmd), PIDTYPE_TGID);

	queue_listener(queue)->private = kvt_guest_private(pid);
}

/* Under the lock: listen in the name of who submitted a command. */
static void queue_begin(struct kvt_wait_queue *queue, const struct wait *wait)
{
	queue_name(queue, wait);
	queue_listen(queue);
}

/* Under the lock, before the last one leaves the store. */
static void queue_end(const struct kvt_wait_queue *queue, struct wait_queue_entry *entry)
{
	kvt_unlisten(queue_head(queue), entry);
	put_pid(kvt_guest_pid(entry->private));
}

/* Whether it is of the process in whose name the queue listens. */
static bool queue_is_of(struct kvt_wait_queue *queue, const struct wait *wait)
{
	struct pid *pid = get_task_pid(kvt_uring_task(wait->cmd), PIDTYPE_TGID);

	/* Only to compare. */
	put_pid(pid);
	return pid == kvt_guest_pid(queue_listener(queue)->private);
}

static bool reclaim_allows(const struct wait *wait)
{
	return !kvt_reclaim_throttle(&wait_store(wait)->reclaim, false);
}

static bool wait_is_durable(const struct wait *wait)
{
	return kvt_log_synced(wait_log(wait), sync_of(wait)->epoch) != -EAGAIN;
}

/* Under the lock: it waits.  If the event comes from here on, the work looks at it. */
static struct kvt_wait_queue *wait_start(struct wait *wait, enum kvt_wait_event event)
{
	struct kvt_wait_queue *queue = &wait->session->waits.queue[event];

	wait->event = event;
	wait->state = WAIT_WAITS;
	list_add_tail(&wait->list, &queue->list);
	if (!queue->nr++)
		queue_begin(queue, wait);
	return queue;
}

/* Under the lock: it waits no more. */
static void wait_stop(struct wait *wait, enum wait_state state)
{
	struct kvt_wait_queue *queue = &wait->session->waits.queue[wait->event];

	wait->state = state;
	list_del(&wait->list);
	if (!--queue->nr)
		queue_end(queue, queue_listener(queue));
}

/* Under the lock: it waits no more.  The work is to send it to its task. */
static void wait_end(struct wait *wait)
{
	wait_stop(wait, WAIT_SENT);
	list_add_tail(&wait->list, &wait->session->waits.over);
}

/*
 * Commands that were executed
 */

static struct sync *sync_alloc(struct kvt_waits *waits, gfp_t gfp)
{
	struct wait *wait;

	spin_lock(&waits->lock);
	wait = waits->spare;
	if (wait) {
		waits->spare = wait->next;
		waits->nr_spare--;
	}
	spin_unlock(&waits->lock);
	return wait ? sync_of(wait) : kmalloc(sizeof(struct sync), gfp);
}

/* Until it is done, the command may be canceled once more. */
static void sync_free(struct sync *sync)
{
	struct kvt_waits *waits = &sync->wait.session->waits;

	spin_lock(&waits->lock);
	wait_hide(&sync->wait);
	if (waits->nr_spare < NR_SPARE) {
		sync->wait.next = waits->spare;
		waits->spare = &sync->wait;
		waits->nr_spare++;
		sync = NULL;
	}
	spin_unlock(&waits->lock);
	kfree(sync);
}

/* With the command its file may go, and the session. */
static void sync_done(struct sync *sync, unsigned int issue_flags, bool dead)
{
	struct kvtree_op __user *out = u64_to_user_ptr(sync->wait.out);
	struct io_uring_cmd *cmd = sync->wait.cmd;
	bool cqe32 = sync->wait.cqe32;
	u64 version = sync->version;
	int res = sync->res;

	/* What stands there is that it has succeeded. */
	if (sync->failed && out && !dead)
		(void)put_user(res, &out->result);
	sync_free(sync);
	kvt_uring_done(cmd, res, version, cqe32, issue_flags);
}

/* Commands that were submitted at once, and want a commit for all of them. */
struct sync_plug {
	struct blk_plug_cb cb;
	struct kvt_store *store;	/* entered */
	u64 epoch;
};

static void sync_unplug(struct blk_plug_cb *cb, bool from_schedule)
{
	struct sync_plug *plug = container_of(cb, struct sync_plug, cb);

	if (plug->store) {
		kvt_log_want(plug->store->log, plug->epoch);
		kvt_store_leave(plug->store);
	}
	kfree(plug);
}

/*
 * Have a commit made: as soon as the task has submitted all that it submits at once,
 * for which io_uring plugs the task, or immediately.  Each command would have one of
 * its own if it took a commit no longer than the task to get to the next command.
 */
static void sync_want(const struct sync *sync)
{
	struct kvt_store *store = wait_store(&sync->wait);
	struct blk_plug_cb *cb;
	struct sync_plug *plug;

	kvt_stat_inc(&store->stats, KVTREE_STAT_LOG_SYNC);
	cb = blk_check_plugged(sync_unplug, store, sizeof(*plug));
	plug = container_of(cb, struct sync_plug, cb);
	if (cb && !plug->store && kvt_store_enter(store))
		plug->store = store;
	if (cb && plug->store)
		plug->epoch = max(plug->epoch, sync->epoch);
	else
		kvt_log_want(store->log, sync->epoch);
}

/* Under the lock: it waits until its epoch is durable. */
static void sync_start(struct sync *sync)
{
	struct kvt_wait_queue *queue = wait_start(&sync->wait, KVT_WAIT_DURABLE);

	if (wait_is_durable(&sync->wait))
		queue_wake(queue);
	else
		sync_want(sync);
}

static void sync_fail(struct sync *sync, int err)
{
	sync->res = err;
	sync->failed = true;
}

/* What has become of it. */
static void sync_end(struct sync *sync)
{
	int err = kvt_log_synced(wait_log(&sync->wait), sync->epoch);

	/* It was canceled: it may become durable yet. */
	if (err == -EAGAIN)
		err = -EINTR;
	if (err)
		sync_fail(sync, err);
}

/**
 * kvt_wait_durable() - let a command that was executed wait until it is durable
 * @session: the command's
 * @ctx: of what was executed; its sync says how long to wait; the store stays entered
 *	until the command is durable
 * @version: of the operation's outcome
 * @res: the result of the command, if it does become durable
 * @args: the command, whose outcome was copied
 * @pending: the change that it was while it had to wait, which is freed; or NULL
 *
 * Context: where the command is issued or its task work runs, sleeps if that may; leaves
 * the store meanwhile.
 *
 * Return: -EIOCBQUEUED; -ENOMEM: it does not wait, and @pending stays.
 */
int kvt_wait_durable(struct kvt_session *session, const struct kvt_op_ctx *ctx, u64 version,
		     int res, const struct kvt_wait_args *args, struct kvt_pending *pending)
{
	struct sync *sync = sync_alloc(&session->waits, kvt_op_gfp_scratch(ctx));
	bool canceled;
	int err;

	if (!sync)
		return -ENOMEM;
	wait_init(&sync->wait, session, KVT_WAIT_DURABLE, args);
	sync->epoch = *ctx->sync;
	sync->version = version;
	sync->res = res;
	sync->failed = false;
	wait_publish(&sync->wait, pending ? &pending->wait : NULL);
	kfree(pending);
	if (unlikely(wait_mark(&sync->wait, ctx, args->issue_flags))) {
		err = kvt_op_synced(ctx);
		if (err)
			sync_fail(sync, err);
		sync_done(sync, args->issue_flags, false);
		return -EIOCBQUEUED;
	}
	spin_lock(&session->waits.lock);
	canceled = sync->wait.canceled;
	if (!canceled)
		sync_start(sync);
	spin_unlock(&session->waits.lock);
	/* Its ring goes away, and tries until it has completed. */
	if (canceled) {
		sync_end(sync);
		kvt_op_leave(ctx);
		sync_done(sync, args->issue_flags, true);
	}
	return -EIOCBQUEUED;
}

/*
 * Changes
 */

/* It was not made, and is not made any more.  Outside of the store. */
static void pending_done(struct kvt_pending *pending, int res, unsigned int issue_flags)
{
	struct io_uring_cmd *cmd = pending->wait.cmd;
	bool cqe32 = pending->wait.cqe32;

	if (res == -ECANCELED)
		kvt_stat_inc(&wait_store(&pending->wait)->stats, KVTREE_STAT_URING_CANCEL);
	kvt_pending_free(pending);
	kvt_uring_done(cmd, res, 0, cqe32, issue_flags);
}

/* The task takes it, unless it was canceled. */
static bool pending_take(struct kvt_pending *pending)
{
	struct kvt_waits *waits = &pending->wait.session->waits;
	bool taken;

	spin_lock(&waits->lock);
	taken = !pending->wait.canceled;
	pending->wait.state = WAIT_RUNS;
	spin_unlock(&waits->lock);
	return taken;
}

/*
 * Runs in the submitter's task, or in one that has none of its memory.  A task that was
 * killed changes nothing any more.
 */
static void pending_run(struct kvt_pending *pending, unsigned int issue_flags, bool dead)
{
	struct kvt_wait_args args = {
		.cmd = pending->wait.cmd,
		.issue_flags = issue_flags | (pending->wait.cqe32 ? IO_URING_F_CQE32 : 0),
		.out = pending->wait.out,
	};

	if (pending_take(pending) && !dead && !fatal_signal_pending(current))
		pending->again(pending, &pending->op, &args);
	else
		pending_done(pending, -ECANCELED, issue_flags);
}

/**
 * kvt_pending_new() - have a change that those who cancel can find
 * @session: the command's
 * @ctx: of the operation
 * @op: the operation, as it is to be executed again
 * @again: executes it
 * @args: the command
 *
 * Context: where the command is issued.
 *
 * Return: the change, for kvt_pending_wait(); or NULL.
 */
struct kvt_pending *kvt_pending_new(struct kvt_session *session, const struct kvt_op_ctx *ctx,
				    const struct kvtree_op *op, kvt_pending_fn again,
				    const struct kvt_wait_args *args)
{
	struct kvt_pending *pending = kmalloc(sizeof(*pending), kvt_op_gfp_scratch(ctx));

	if (!pending)
		return NULL;
	pending->owner = current->files;
	pending->op = *op;
	pending->again = again;
	wait_init(&pending->wait, session, KVT_WAIT_RECLAIM, args);
	wait_publish(&pending->wait, NULL);
	return pending;
}

/**
 * kvt_pending_free() - end of kvt_pending_new()
 * @pending: the change, which does not wait
 *
 * Context: any but interrupts.
 */
void kvt_pending_free(struct kvt_pending *pending)
{
	struct kvt_waits *waits = &pending->wait.session->waits;

	spin_lock(&waits->lock);
	wait_hide(&pending->wait);
	spin_unlock(&waits->lock);
	kfree(pending);
}

/* Under the lock: wait for whichever event there is to wait for. */
static void pending_enqueue(struct wait *wait)
{
	struct kvt_store *store = wait_store(wait);
	struct kvt_wait_queue *queue;
	bool came;

	if (store->log && reclaim_allows(wait)) {
		kvt_stat_inc(&store->stats, KVTREE_STAT_LOG_STALL);
		queue = wait_start(wait, KVT_WAIT_ROOM);
		came = kvt_log_has_space(store->log);
	} else {
		kvt_stat_inc(&store->stats, KVTREE_STAT_WAITING_STALL);
		queue = wait_start(wait, KVT_WAIT_RECLAIM);
		came = reclaim_allows(wait);
	}
	if (came)
		queue_wake(queue);
}

/* Returns false if it was canceled meanwhile. */
static bool pending_start(struct kvt_pending *pending)
{
	struct kvt_waits *waits = &pending->wait.session->waits;
	bool waits_on;

	spin_lock(&waits->lock);
	waits_on = !pending->wait.canceled;
	if (waits_on)
		pending_enqueue(&pending->wait);
	spin_unlock(&waits->lock);
	return waits_on;
}

/**
 * kvt_pending_wait() - let a command wait until its change may be made
 * @pending: of kvt_pending_new(); freed when the command is executed or canceled
 * @ctx: of the operation; the store stays entered while it waits for an event
 * @issue_flags: of this call of the command
 *
 * Context: where the command is issued, or its task work runs; leaves the store meanwhile.
 *
 * Return: -EIOCBQUEUED.
 */
int kvt_pending_wait(struct kvt_pending *pending, const struct kvt_op_ctx *ctx,
		     unsigned int issue_flags)
{
	int err = wait_mark(&pending->wait, ctx, issue_flags);

	if (!err && pending_start(pending))
		return -EIOCBQUEUED;
	kvt_op_leave(ctx);
	pending_done(pending, pending_take(pending) ? err : -ECANCELED, issue_flags);
	return -EIOCBQUEUED;
}

/*
 * The work
 */

static struct io_kiocb *wait_req(const struct wait *wait)
{
	return cmd_to_io_kiocb(wait->cmd);
}

/* Whether one work of their task's may be for both. */
static bool wait_goes_with(const struct wait *wait, const struct wait *other)
{
	return wait_req(wait)->ctx == wait_req(other)->ctx &&
	       kvt_uring_task(wait->cmd) == kvt_uring_task(other->cmd);
}

/* Those that follow it come with it; it runs in their task, or in one without its memory. */
static void waits_in_task(struct io_uring_cmd *cmd, unsigned int issue_flags, bool dead)
{
	struct wait *wait = *wait_of(cmd), *next;
	struct blk_plug plug;

	/* Changes that are made at once are made durable at once. */
	blk_start_plug(&plug);
	for (; wait; wait = next) {
		next = wait->next;
		if (wait_is_executed(wait))
			sync_done(sync_of(wait), issue_flags, dead);
		else
			pending_run(pending_of(wait), issue_flags, dead);
	}
	blk_finish_plug(&plug);
}

KVT_URING_TASK_WORK(waits_task_work, waits_in_task)

/* With those that follow it. */
static void wait_send(struct wait *wait)
{
	/* A task that waits for many is woken when there are as many. */
	if (wait->next || !wait_is_executed(wait))
		io_uring_cmd_complete_in_task(wait->cmd, waits_task_work);
	else
		io_uring_cmd_do_in_task_lazy(wait->cmd, waits_task_work);
}

/* Its task may be long in coming: nothing of the store is needed any more. */
static void wait_leave(struct wait *wait)
{
	if (wait_is_executed(wait))
		sync_end(sync_of(wait));
	kvt_store_leave(wait_store(wait));
}

/* Hundreds end at once, when an epoch is durable: they are few works for their tasks. */
static void waits_send_list(struct list_head *over)
{
	struct wait *wait, *next, *first = NULL, *last = NULL;
	unsigned int nr = 0;

	list_for_each_entry_safe(wait, next, over, list) {
		wait_leave(wait);
		wait->next = NULL;
		if (last && ++nr < PORTION && wait_goes_with(wait, last)) {
			last->next = wait;
		} else {
			if (first)
				wait_send(first);
			first = wait;
			nr = 0;
			cond_resched();
		}
		last = wait;
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

/* Who waits for room tries again whenever some was made, as each CPU has its own. */
static bool wait_is_over(const struct wait *wait)
{
	if (wait->event == KVT_WAIT_RECLAIM)
		return reclaim_allows(wait);
	return wait->event == KVT_WAIT_ROOM || wait_is_durable(wait);
}

/*
 * Under the lock: look at a portion of those that the queue had.  Who waits still is put
 * back.  Returns whether there are more.
 */
static bool queue_look_some(struct kvt_wait_queue *queue, struct list_head *had)
{
	struct wait *wait;
	unsigned int i;

	for (i = 0; i < PORTION && !list_empty(had); i++) {
		wait = list_first_entry(had, struct wait, list);
		if (wait_is_over(wait)) {
			wait_end(wait);
		} else if (wait->event == KVT_WAIT_DURABLE) {
			list_move_tail(&wait->list, &queue->list);
		} else {
			/* Nor is it for the others. */
			list_splice_init(had, &queue->list);
		}
	}
	return !list_empty(had);
}

/* Send those whose event has come, if it did.  Who comes meanwhile is not looked at. */
static void queue_look(struct kvt_waits *waits, struct kvt_wait_queue *queue)
{
	LIST_HEAD(had);
	bool more;

	if (!xchg(&queue->woken, false))
		return;
	spin_lock(&waits->lock);
	/* Before it looks: what comes later is heard. */
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

/* Who has nothing there any more is not to be told of: listen in another's name. */
static void queue_rename(struct kvt_waits *waits, struct kvt_wait_queue *queue)
{
	struct wait_queue_entry *old;
	const struct wait *wait;

	spin_lock(&waits->lock);
	wait = list_first_entry_or_null(&queue->list, struct wait, list);
	if (wait && !queue_is_of(queue, wait)) {
		old = queue_listener(queue);
		queue->second = !queue->second;
		queue_name(queue, wait);
		/* There is always one that hears, or has heard. */
		kvt_listen_instead(queue_head(queue), queue_listener(queue), old);
		put_pid(kvt_guest_pid(old->private));
	}
	spin_unlock(&waits->lock);
}

static void waits_work(struct work_struct *work)
{
	struct kvt_waits *waits = container_of(work, struct kvt_waits, work);
	int event;

	/* They were canceled. */
	waits_send(waits);
	for (event = 0; event < KVT_WAIT_EVENTS; event++) {
		queue_look(waits, &waits->queue[event]);
		queue_rename(waits, &waits->queue[event]);
	}
}

/*
 * Cancellation
 */

/*
 * Under the lock.  Returns whether it is sure to be canceled: what runs is, if it comes
 * to wait again.
 */
static bool wait_cancel(struct wait *wait)
{
	struct kvt_waits *waits = &wait->session->waits;
	bool was = wait->canceled;

	wait->canceled = true;
	if (was || wait->state == WAIT_RUNS)
		return false;
	/* It is not found once more: that is quick, however many were canceled. */
	wait_unlist(wait);
	if (wait->state == WAIT_WAITS) {
		wait_end(wait);
		waits_queue_work(waits);
	}
	return true;
}

/*
 * Whether a command may complete in this task, which cancels it: whoever waits for a ring with
 * deferred task work is woken by the ring's own task alone, or by the ring's end.
 */
static bool wait_may_end_here(const struct wait *wait)
{
	return !(wait_req(wait)->ctx->flags & IORING_SETUP_DEFER_TASKRUN) ||
	       kvt_uring_task(wait->cmd) == current || current->flags & PF_KTHREAD;
}

/* Under the lock: end a wait, for which nobody else does anything yet.  Returns whether it did. */
static bool wait_abort(struct wait *wait)
{
	if (wait->state != WAIT_WAITS || !wait_may_end_here(wait))
		return false;
	wait->canceled = true;
	wait_unlist(wait);
	wait_stop(wait, WAIT_RUNS);
	/* The session may listen in the name of who goes away. */
	waits_queue_work(&wait->session->waits);
	return true;
}

/**
 * kvt_wait_cancel_cmd() - the ring, or who submitted a command, goes away
 * @session: the command's
 * @cmd: a command that waits and that has not completed
 * @issue_flags: of io_uring
 *
 * io_uring calls again until the command has completed, and does not rest meanwhile.  The
 * submitter may be stopped for as long as it likes: what only waits completes here, without a
 * word to memory, which need not be there.
 *
 * Context: as io_uring calls with IO_URING_F_CANCEL: the ring's lock is held.
 */
void kvt_wait_cancel_cmd(struct kvt_session *session, struct io_uring_cmd *cmd,
			 unsigned int issue_flags)
{
	bool ends = false;
	struct wait *wait;

	spin_lock(&session->waits.lock);
	wait = *wait_of(cmd);
	if (wait) {
		ends = wait_abort(wait);
		if (!ends)
			wait_cancel(wait);
	}
	spin_unlock(&session->waits.lock);
	if (!ends)
		return;
	wait_leave(wait);
	if (wait_is_executed(wait))
		sync_done(sync_of(wait), issue_flags, true);
	else
		pending_done(pending_of(wait), -ECANCELED, issue_flags);
}

/* What is to be canceled, and how far that has come. */
struct cancel {
	u64 first;		/* user_data */
	u64 last;
	u64 user_data;		/* of the next one to be looked at, or before that */
	u64 seq;
	bool one;		/* no more than one */
	bool runs;		/* one cannot be canceled now */
	int canceled;
};

/* Under the lock: a portion.  Returns whether there are more. */
static bool cancel_some(struct kvt_waits *waits, struct cancel *c)
{
	struct wait *wait;
	unsigned int i;

	for (i = 0; i < PORTION; i++) {
		wait = tree_find(&waits->changes, c->user_data, c->seq);
		if (!wait || wait->user_data > c->last)
			return false;
		c->user_data = wait->user_data;
		c->seq = wait->seq + 1;
		if (wait->state == WAIT_RUNS)
			c->runs = true;
		else
			c->canceled += wait_cancel(wait);
		if (c->canceled && c->one)
			return false;
	}
	return true;
}

/* What was executed can only wait for its end. */
static bool cancel_comes_late(struct kvt_waits *waits, const struct cancel *c)
{
	const struct wait *wait;
	bool late;

	spin_lock(&waits->lock);
	wait = tree_find(&waits->executed, c->first, 0);
	late = c->runs || (wait && wait->user_data <= c->last);
	spin_unlock(&waits->lock);
	return late;
}

/**
 * kvt_wait_cancel() - cancel commands by their user_data
 * @session: theirs
 * @args: which
 *
 * Context: process context.  A fatal signal ends it early.
 *
 * Return: how many were canceled; -ENOENT; -EALREADY: it is being executed, or was.
 */
int kvt_wait_cancel(struct kvt_session *session, const struct kvtree_uring_cancel *args)
{
	bool any = args->flags & KVTREE_CANCEL_ANY;
	struct kvt_waits *waits = &session->waits;
	struct cancel c = {
		.first = any ? 0 : args->user_data,
		.last = any ? U64_MAX : args->user_data,
		.one = !(args->flags & (KVTREE_CANCEL_ALL | KVTREE_CANCEL_ANY)),
	};
	bool more;

	c.user_data = c.first;
	do {
		spin_lock(&waits->lock);
		more = cancel_some(waits, &c);
		spin_unlock(&waits->lock);
		cond_resched();
	} while (more && !fatal_signal_pending(current));
	if (c.canceled)
		return c.canceled;
	return cancel_comes_late(waits, &c) ? -EALREADY : -ENOENT;
}

/* Under the lock: a portion of the owner's, up to the last one.  Returns whether there are more. */
static bool cancel_owned(struct kvt_waits *waits, const void *owner, u64 last)
{
	struct kvt_pending *pending;
	struct rb_node *node;
	unsigned int i;

	for (i = 0; i < PORTION; i++) {
		node = rb_find_first(owner, &waits->owned, owner_cmp);
		pending = rb_entry_safe(node, struct kvt_pending, owned);
		if (!pending || pending->wait.seq > last)
			return false;
		/* Also if it runs: it is not found once more. */
		tree_del(&waits->owned, &pending->owned);
		wait_cancel(&pending->wait);
	}
	return true;
}

/**
 * kvt_wait_cancel_owner() - cancel changes that a process has submitted
 * @session: the session
 * @owner: the process's files
 *
 * Context: process context.  Goes through the process's own changes, whatever signal comes.
 */
void kvt_wait_cancel_owner(struct kvt_session *session, const void *owner)
{
	struct kvt_waits *waits = &session->waits;
	u64 last;
	bool more;

	spin_lock(&waits->lock);
	last = waits->seq;
	spin_unlock(&waits->lock);
	do {
		spin_lock(&waits->lock);
		more = cancel_owned(waits, owner, last);
		spin_unlock(&waits->lock);
		cond_resched();
	} while (more);
}

static void queue_init(struct kvt_wait_queue *queue, struct kvt_waits *waits,
		       enum kvt_wait_event event)
{
	int i;

	queue->waits = waits;
	queue->event = event;
	queue->nr = 0;
	queue->woken = false;
	queue->second = false;
	INIT_LIST_HEAD(&queue->list);
	for (i = 0; i < ARRAY_SIZE(queue->listener); i++) {
		init_waitqueue_func_entry(&queue->listener[i].entry, queue_hear);
		INIT_LIST_HEAD(&queue->listener[i].entry.entry);
		queue->listener[i].queue = queue;
	}
}

/**
 * kvt_waits_init() - begin without commands that wait
 * @waits: a session's
 */
void kvt_waits_init(struct kvt_waits *waits)
{
	int event;

	spin_lock_init(&waits->lock);
	waits->changes = RB_ROOT;
	waits->owned = RB_ROOT;
	waits->executed = RB_ROOT;
	waits->seq = 0;
	for (event = 0; event < KVT_WAIT_EVENTS; event++)
		queue_init(&waits->queue[event], waits, event);
	INIT_LIST_HEAD(&waits->over);
	waits->spare = NULL;
	waits->nr_spare = 0;
	INIT_WORK(&waits->work, waits_work);
}

/**
 * kvt_waits_exit() - end
 * @waits: of kvt_waits_init(); no command waits
 *
 * Context: process context, sleeps.
 */
void kvt_waits_exit(struct kvt_waits *waits)
{
	struct wait *wait;

	/* It may have completed the last one only just now. */
	cancel_work_sync(&waits->work);
	while ((wait = waits->spare)) {
		waits->spare = wait->next;
		kfree(sync_of(wait));
	}
}
