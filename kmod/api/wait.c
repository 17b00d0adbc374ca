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

/* Spare memory that a session keeps for commands that wait to be durable. */
#define NR_SPARE	256

/* How many commands are examined under the lock, or make one task work. */
#define PORTION		128

enum wait_state {
	WAIT_NEW,		/* nobody may wake it yet */
	WAIT_WAITS,		/* for an event */
	WAIT_SENT,		/* to run in its task, or to be sent there by the work */
	WAIT_RUNS,		/* it executes or completes */
};

/* Small, since there is one for each of many commands. */
struct wait {
	union {
		struct list_head list;		/* lock: of a queue, or of those that are over */
		struct wait *next;		/* spare (lock), or sent together */
	};
	struct rb_node node;			/* lock: of a tree, by user_data and seq */
	u64 user_data;
	u64 seq;
	u8 state;				/* lock: enum wait_state */
	u8 event;				/* enum kvt_wait_event */
	bool canceled;				/* lock: it no longer waits */
	bool cqe32;
	u64 out;
	struct kvt_session *session;		/* kept by the command's file */
	struct io_uring_cmd *cmd;
};

/* An executed command: its event is KVT_WAIT_DURABLE from the start. */
struct sync {
	struct wait wait;
	u64 epoch;				/* to be durable */
	u64 version;
	int res;
	bool failed;				/* res says why it is not durable */
};

/* A change. */
struct kvt_pending {
	struct wait wait;
	struct rb_node owned;			/* lock: of the tree, by owner */
	const void *owner;			/* the submitter's files */
	struct kvtree_op op;
	kvt_pending_fn again;
};

/* From a command to what waits for it (lock); NULL: no longer anything. */
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

/* The first one at or after this user_data and seq. */
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

/* Under the lock: let cancellations find it. */
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

/* Under the lock: hide it from cancellations, unless it is hidden already. */
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

/* Replace a change by what waits in its place; cancellations find it throughout. */
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

/* Under the lock: nobody finds it from here on. */
static void wait_hide(struct wait *wait)
{
	wait_unlist(wait);
	*wait_of(wait->cmd) = NULL;
}

/*
 * Let the ring cancel it from here on.  An io_uring worker takes the ring's lock for that,
 * so it must be outside the store: the lock's holder may keep it for long, or wait for the
 * store to go away.
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

/* Have the work check whether the event has come. */
static void queue_wake(struct kvt_wait_queue *queue)
{
	WRITE_ONCE(queue->woken, true);
	waits_queue_work(queue->waits);
}

/*
 * Called with the event's queue locked, on behalf of all of the session's commands.  Until
 * the work has looked, there is no need to hear more.
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

/* Under the lock: listen for one event from here on. */
static void queue_listen(struct kvt_wait_queue *queue)
{
	kvt_listen(queue_head(queue), queue_listener(queue));
	/* Pairs with the barrier after making room: it sees the listener, or we see the room. */
	smp_mb();
}

/* Under the lock: the listener acts for a command's submitter. */
static void queue_name(struct kvt_wait_queue *queue, const struct wait *wait)
{
	struct pid *pid = get_task_pid(kvt_uring_task(wait->cmd), PIDTYPE_TGID);

	queue_listener(queue)->private = kvt_guest_private(pid);
}

/* Under the lock: listen on behalf of a command's submitter. */
static void queue_begin(struct kvt_wait_queue *queue, const struct wait *wait)
{
	queue_name(queue, wait);
	queue_listen(queue);
}

/* Under the lock, before the last command leaves the store. */
static void queue_end(const struct kvt_wait_queue *queue, struct wait_queue_entry *entry)
{
	kvt_unlisten(queue_head(queue), entry);
	put_pid(kvt_guest_pid(entry->private));
}

/* Whether the queue listens on behalf of this command's process. */
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

/* Under the lock: start to wait.  The work looks at it if the event comes from here on. */
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

/* Under the lock: end its wait. */
static void wait_stop(struct wait *wait, enum wait_state state)
{
	struct kvt_wait_queue *queue = &wait->session->waits.queue[wait->event];

	wait->state = state;
	list_del(&wait->list);
	if (!--queue->nr)
		queue_end(queue, queue_listener(queue));
}

/* Under the lock: end its wait, and have the work send it to its task. */
static void wait_end(struct wait *wait)
{
	wait_stop(wait, WAIT_SENT);
	list_add_tail(&wait->list, &wait->session->waits.over);
}

/*
 * Executed commands
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

/* Until this is done, the command may be canceled once more. */
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

/* The command may hold the last reference to its file, and so to the session. */
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

/* Commands that were submitted together and want one commit for all. */
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
 * Request a commit, immediately or, if io_uring has plugged the task, when it has submitted
 * everything that it submits together.  Otherwise, on a device as fast as the submitter, each
 * command would get its own commit.
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

/* Under the lock: wait until its epoch is durable. */
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

/* Its outcome. */
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
 * kvt_wait_durable() - make an executed command wait until it is durable
 * @session: the command's
 * @ctx: of the operation; its sync is the epoch to wait for; the store stays entered
 *	until the command is durable
 * @version: of the operation's outcome
 * @res: the result of the command, if it does become durable
 * @args: the command, whose outcome was copied
 * @pending: what it was while the change had to wait, which is freed; or NULL
 *
 * Context: where the command is issued or its task work runs; sleeps if that may sleep;
 * leaves the store meanwhile.
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
	/* Its ring is going away, and tries until it has completed. */
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

/* End a change that was not made.  Outside the store. */
static void pending_done(struct kvt_pending *pending, int res, unsigned int issue_flags)
{
	struct io_uring_cmd *cmd = pending->wait.cmd;
	bool cqe32 = pending->wait.cqe32;

	if (res == -ECANCELED)
		kvt_stat_inc(&wait_store(&pending->wait)->stats, KVTREE_STAT_URING_CANCEL);
	kvt_pending_free(pending);
	kvt_uring_done(cmd, res, 0, cqe32, issue_flags);
}

/* The task takes it over, unless it was canceled. */
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
 * Runs in the submitter's task, or in one without its memory.  A killed task changes
 * nothing any more.
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
 * kvt_pending_new() - prepare a change that may wait, and that cancellations find
 * @session: the command's
 * @ctx: of the operation
 * @op: the operation to execute again
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
 * kvt_pending_free() - free a change that does not wait
 * @pending: from kvt_pending_new()
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

/* Under the lock: wait for the event that the change lacks. */
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
 * kvt_pending_wait() - make a command wait until its change can be made
 * @pending: from kvt_pending_new(); freed when the command is executed or canceled
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

/* Whether the same task work may handle both. */
static bool wait_goes_with(const struct wait *wait, const struct wait *other)
{
	return wait_req(wait)->ctx == wait_req(other)->ctx &&
	       kvt_uring_task(wait->cmd) == kvt_uring_task(other->cmd);
}

/* Runs, with those that follow it, in their task or in one without its memory. */
static void waits_in_task(struct io_uring_cmd *cmd, unsigned int issue_flags, bool dead)
{
	struct wait *wait = *wait_of(cmd), *next;
	struct blk_plug plug;

	/* Changes made together become durable together. */
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

/* Send it with those that follow it. */
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

/* A durable epoch ends hundreds of waits at once: combine them into few task works. */
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

/* Each CPU has room of its own, so those who wait retry whenever any is made. */
static bool wait_is_over(const struct wait *wait)
{
	if (wait->event == KVT_WAIT_RECLAIM)
		return reclaim_allows(wait);
	return wait->event == KVT_WAIT_ROOM || wait_is_durable(wait);
}

/*
 * Under the lock: examine a portion of the queue's commands, and put back those that still
 * wait.  Returns whether there are more.
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
			/* Nor for the others. */
			list_splice_init(had, &queue->list);
		}
	}
	return !list_empty(had);
}

/* Send commands whose event has come.  Those that arrive meanwhile are not examined. */
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

/* The process may have nothing here any more: listen on another's behalf. */
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
		/* Some command always listens or has heard. */
		kvt_listen_instead(queue_head(queue), queue_listener(queue), old);
		put_pid(kvt_guest_pid(old->private));
	}
	spin_unlock(&waits->lock);
}

static void waits_work(struct work_struct *work)
{
	struct kvt_waits *waits = container_of(work, struct kvt_waits, work);
	int event;

	/* These were canceled. */
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
 * Under the lock.  Returns whether it is sure to be canceled.  A running change is canceled
 * only if it waits again.
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
 * Whether a command may complete in the task that cancels it.  With deferred task work, only
 * the ring's own task, or the ring's end, wakes those who wait for the ring.
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
 * kvt_wait_cancel_cmd() - cancel a command whose ring or submitter goes away
 * @session: the command's
 * @cmd: a command that waits and that has not completed
 * @issue_flags: of io_uring
 *
 * io_uring calls this in a busy loop until the command has completed.  The submitter may be
 * stopped for as long as it likes, so a command that only waits completes here, without
 * writing to user memory, which may be gone.
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

/* What to cancel, and the progress of that. */
struct cancel {
	u64 first;		/* user_data */
	u64 last;
	u64 user_data;		/* of the next one to examine, or less */
	u64 seq;
	bool one;		/* no more than one */
	bool runs;		/* some command cannot be canceled now */
	int canceled;
};

/* Under the lock: cancel a portion.  Returns whether there are more. */
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

/* Executed commands cannot be canceled. */
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

/* Under the lock: cancel a portion of the owner's up to @last.  Returns whether there are more. */
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
		/* Even if it runs: hide it from the next search. */
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
 * Context: process context.  Walks the process's own changes, whatever signal comes.
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
 * kvt_waits_init() - begin without waiting commands
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
 * kvt_waits_exit() - undo kvt_waits_init()
 * @waits: a session's; no command waits
 *
 * Context: process context, sleeps.
 */
void kvt_waits_exit(struct kvt_waits *waits)
{
	struct wait *wait;

	/* It may have just completed the last command. */
	cancel_work_sync(&waits->work);
	while ((wait = waits->spare)) {
		waits->spare = wait->next;
		kfree(sync_of(wait));
	}
}
