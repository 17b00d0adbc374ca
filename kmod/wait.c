// SPDX-License-Identifier: GPL-2.0
/* Commands that wait without a thread. */
#include <linux/blkdev.h>
#include <linux/errno.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "compat.h"
#include "guest.h"
#include "log/log.h"
#include "session.h"
#include "wait.h"

/* What a session keeps for those that will wait until they are durable. */
#define NR_SPARE	256

enum wait_state {
	WAIT_NEW,		/* nobody is to wake it yet */
	WAIT_WAITS,		/* for an event, or for the worker */
	WAIT_SENT,		/* for its task */
	WAIT_RUNS,		/* it is executed or completes */
};

/* There is one for each of many commands: it is small. */
struct wait {
	union {
		struct list_head list;		/* lock: of those pending, or of syncs */
		struct wait *next;		/* spare (lock), or completed with this */
	};
	enum wait_state state;			/* lock */
	bool canceled;				/* lock: it does not wait any more */
	bool cqe32;
	pid_t pid;				/* of who submitted it */
	int res;				/* of the command, if it is durable */
	u64 epoch;				/* to be durable; 0: it is a change */
	u64 version;
	u64 out;
	const void *owner;			/* the files of who submitted it */
	struct kvt_session *session;		/* kept by the command's file */
	struct io_uring_cmd *cmd;
};

enum pending_event {
	PENDING_RECLAIM,	/* less memory than the garbage bound */
	PENDING_LOG,		/* room in the log */
};

struct kvt_pending {
	struct wait wait;
	enum pending_event event;		/* lock */
	struct wait_queue_entry entry;		/* in the event's queue */
	struct work_struct work;		/* sends it to its task */
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

static struct kvt_store *wait_store(const struct wait *wait)
{
	return wait->session->store;
}

static struct kvt_log *wait_log(const struct wait *wait)
{
	return wait_store(wait)->log;
}

static void wait_init(struct wait *wait, struct kvt_session *session,
		      const struct kvt_wait_args *args)
{
	*wait = (struct wait) {
		.state = WAIT_NEW,
		.cqe32 = args->issue_flags & IO_URING_F_CQE32,
		.pid = task_tgid_nr(current),
		.out = args->out,
		.owner = current->files,
		.session = session,
		.cmd = args->cmd,
	};
	INIT_LIST_HEAD(&wait->list);
	*wait_of(args->cmd) = wait;
	kvt_stat_inc(&session->store->stats, KVTREE_STAT_URING_WAIT);
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
 * Commands that were executed
 */

static struct wait *wait_alloc(struct kvt_waits *waits, gfp_t gfp)
{
	struct wait *wait;

	spin_lock(&waits->lock);
	wait = waits->spare;
	if (wait) {
		waits->spare = wait->next;
		waits->nr_spare--;
	}
	spin_unlock(&waits->lock);
	return wait ?: kmalloc(sizeof(*wait), gfp);
}

/* Until it is done, the command may be canceled once more. */
static void sync_free(struct wait *wait)
{
	struct kvt_waits *waits = &wait->session->waits;

	spin_lock(&waits->lock);
	*wait_of(wait->cmd) = NULL;
	if (waits->nr_spare < NR_SPARE) {
		wait->next = waits->spare;
		waits->spare = wait;
		waits->nr_spare++;
		wait = NULL;
	}
	spin_unlock(&waits->lock);
	kfree(wait);
}

/* With the command its file may go, and the session. */
static void sync_done(struct wait *wait, unsigned int issue_flags, bool dead)
{
	struct kvtree_op __user *out = u64_to_user_ptr(wait->out);
	struct io_uring_cmd *cmd = wait->cmd;
	u64 version = wait->version;
	bool cqe32 = wait->cqe32;
	int res = wait->res;

	/* What stands there is that it has succeeded. */
	if (res < 0 && out && (dead || put_user(res, &out->result)))
		res = -EFAULT;
	sync_free(wait);
	kvt_uring_done(cmd, res, version, cqe32, issue_flags);
}

/* Runs in the submitter's task, which has its memory, or in one that has none. */
static void sync_in_task(struct io_uring_cmd *cmd, unsigned int issue_flags, bool dead)
{
	struct wait *wait = *wait_of(cmd), *next;

	for (; wait; wait = next) {
		next = wait->next;
		sync_done(wait, issue_flags, dead);
	}
}

KVT_URING_TASK_WORK(sync_task_work, sync_in_task)

static struct io_ring_ctx *wait_ring(const struct wait *wait)
{
	return cmd_to_io_kiocb(wait->cmd)->ctx;
}

/* Whether the ring's completions wait for its task in any case. */
static bool wait_is_deferred(const struct wait *wait)
{
	return wait_ring(wait)->flags & IORING_SETUP_DEFER_TASKRUN;
}

/* With those that follow it. */
static void sync_send(struct wait *wait)
{
	/* A task that waits for many is woken when there are as many. */
	if (wait->next)
		io_uring_cmd_complete_in_task(wait->cmd, sync_task_work);
	else
		io_uring_cmd_do_in_task_lazy(wait->cmd, sync_task_work);
}

static void syncs_queue_work(struct kvt_waits *waits)
{
	struct kvt_session *session = container_of(waits, struct kvt_session, waits);

	queue_work(session->store->reclaim.wq, &waits->work);
}

static int syncs_wake(struct wait_queue_entry *entry, unsigned int mode, int flags, void *key)
{
	syncs_queue_work(container_of(entry, struct kvt_waits, listener));
	return 1;
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
static void sync_want(const struct wait *wait)
{
	struct kvt_store *store = wait_store(wait);
	struct blk_plug_cb *cb;
	struct sync_plug *plug;

	kvt_stat_inc(&store->stats, KVTREE_STAT_LOG_SYNC);
	cb = blk_check_plugged(sync_unplug, store, sizeof(*plug));
	plug = container_of(cb, struct sync_plug, cb);
	if (cb && !plug->store && kvt_store_enter(store))
		plug->store = store;
	if (cb && plug->store)
		plug->epoch = max(plug->epoch, wait->epoch);
	else
		kvt_log_want(store->log, wait->epoch);
}

/* Under the lock: it waits until its epoch is durable. */
static void sync_start(struct wait *wait)
{
	struct kvt_waits *waits = &wait->session->waits;
	bool first = list_empty(&waits->syncs);

	list_add_tail(&wait->list, &waits->syncs);
	/* One stands there for all of them. */
	if (first)
		waits->listener.private = kvt_guest_private(wait->pid);
	if (first)
		kvt_log_listen(wait_log(wait), &waits->listener);
	wait->state = WAIT_WAITS;
	/* If it becomes durable from here on that is heard of. */
	if (!wait->canceled && kvt_log_synced(wait_log(wait), wait->epoch) == -EAGAIN)
		sync_want(wait);
	else
		syncs_queue_work(waits);
}

/* Under the lock: take what waits no longer. */
static void syncs_take(struct kvt_waits *waits, struct list_head *done)
{
	struct kvt_log *log = NULL;
	struct wait *wait, *next;

	list_for_each_entry_safe(wait, next, &waits->syncs, list) {
		log = wait_log(wait);
		if (wait->canceled || kvt_log_synced(log, wait->epoch) != -EAGAIN) {
			wait->state = WAIT_RUNS;
			list_move_tail(&wait->list, done);
		}
	}
	/* With the last one the store is left, and its log may go. */
	if (log && list_empty(&waits->syncs))
		kvt_log_unlisten(log, &waits->listener);
}

/* Nothing of the store is needed any more. */
static void sync_end(struct wait *wait)
{
	int err = kvt_log_synced(wait_log(wait), wait->epoch);

	/* It was canceled: it may become durable yet. */
	if (err == -EAGAIN)
		err = -EINTR;
	if (err)
		wait->res = err;
	kvt_store_leave(wait_store(wait));
}

/*
 * Hundreds end at once when an epoch is durable: those of a ring whose completions wait
 * for its task are one work for the task.
 */
static void syncs_send(struct list_head *done)
{
	struct wait *wait, *next, *first = NULL, *last = NULL;

	list_for_each_entry_safe(wait, next, done, list) {
		sync_end(wait);
		wait->next = NULL;
		if (last && wait_is_deferred(last) && wait_ring(last) == wait_ring(wait)) {
			last->next = wait;
		} else {
			if (first)
				sync_send(first);
			first = wait;
		}
		last = wait;
	}
	if (first)
		sync_send(first);
}

static void syncs_work(struct work_struct *work)
{
	struct kvt_waits *waits = container_of(work, struct kvt_waits, work);
	LIST_HEAD(done);

	spin_lock(&waits->lock);
	syncs_take(waits, &done);
	spin_unlock(&waits->lock);
	syncs_send(&done);
}

/**
 * kvt_wait_durable() - let a command that was executed wait until it is durable
 * @session: the command's
 * @ctx: of what was executed; its sync says how long to wait; the store stays entered
 *	until the command is durable
 * @version: of the operation's outcome
 * @res: the result of the command, if it does become durable
 * @args: the command, whose outcome was copied
 *
 * Context: where the command is issued or its task work runs, sleeps if that may; leaves
 * the store meanwhile.
 *
 * Return: -EIOCBQUEUED; -ENOMEM: it does not wait.
 */
int kvt_wait_durable(struct kvt_session *session, const struct kvt_op_ctx *ctx,
		     u64 version, int res, const struct kvt_wait_args *args)
{
	struct wait *wait = wait_alloc(&session->waits, kvt_op_gfp_scratch(ctx));
	int err;

	if (!wait)
		return -ENOMEM;
	wait_init(wait, session, args);
	wait->epoch = *ctx->sync;
	wait->version = version;
	wait->res = res;
	if (unlikely(wait_mark(wait, ctx, args->issue_flags))) {
		err = kvt_op_synced(ctx);
		if (err)
			wait->res = err;
		sync_done(wait, args->issue_flags, false);
		return -EIOCBQUEUED;
	}
	spin_lock(&session->waits.lock);
	sync_start(wait);
	spin_unlock(&session->waits.lock);
	return -EIOCBQUEUED;
}

/*
 * Changes
 */

static void pending_queue_work(struct kvt_pending *pending)
{
	queue_work(wait_store(&pending->wait)->reclaim.wq, &pending->work);
}

static int pending_wake(struct wait_queue_entry *entry, unsigned int mode, int flags, void *key)
{
	list_del_init(&entry->entry);
	pending_queue_work(container_of(entry, struct kvt_pending, entry));
	return 1;
}

static bool pending_enqueue(struct kvt_pending *pending, enum pending_event event)
{
	struct kvt_log *log = wait_log(&pending->wait);

	pending->event = event;
	if (event == PENDING_RECLAIM)
		return kvt_reclaim_wait(&wait_store(&pending->wait)->reclaim, &pending->entry);
	return log && kvt_log_wait(log, &pending->entry);
}

/* Wait no more.  Returns whether it waited, and was not woken. */
static bool pending_dequeue(struct kvt_pending *pending)
{
	struct kvt_log *log = wait_log(&pending->wait);

	if (pending->event == PENDING_RECLAIM)
		return kvt_reclaim_unwait(&wait_store(&pending->wait)->reclaim, &pending->entry);
	return log && kvt_log_unwait(log, &pending->entry);
}

/* It was not made, and is not made any more. */
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

/* Runs in the submitter's task, or in one that has none of its memory. */
static void pending_in_task(struct io_uring_cmd *cmd, unsigned int issue_flags, bool dead)
{
	struct kvt_pending *pending = pending_of(*wait_of(cmd));
	struct kvt_wait_args args = {
		.cmd = cmd,
		.issue_flags = issue_flags | (pending->wait.cqe32 ? IO_URING_F_CQE32 : 0),
		.out = pending->wait.out,
	};

	if (pending_take(pending) && !dead)
		pending->again(pending, &pending->op, &args);
	else
		pending_done(pending, -ECANCELED, issue_flags);
}

KVT_URING_TASK_WORK(pending_task_work, pending_in_task)

/* It waits no more, and its task may be long in coming: outside of the store. */
static void pending_work(struct work_struct *work)
{
	struct kvt_pending *pending = container_of(work, struct kvt_pending, work);
	struct kvt_waits *waits = &pending->wait.session->waits;

	spin_lock(&waits->lock);
	pending->wait.state = WAIT_SENT;
	spin_unlock(&waits->lock);
	kvt_store_leave(wait_store(&pending->wait));
	io_uring_cmd_complete_in_task(pending->wait.cmd, pending_task_work);
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
	pending->event = PENDING_RECLAIM;
	init_waitqueue_func_entry(&pending->entry, pending_wake);
	INIT_LIST_HEAD(&pending->entry.entry);
	INIT_WORK(&pending->work, pending_work);
	pending->op = *op;
	pending->again = again;
	wait_init(&pending->wait, session, args);
	pending->entry.private = kvt_guest_private(pending->wait.pid);
	spin_lock(&session->waits.lock);
	list_add_tail(&pending->wait.list, &session->waits.pending);
	spin_unlock(&session->waits.lock);
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
	list_del(&pending->wait.list);
	*wait_of(pending->wait.cmd) = NULL;
	spin_unlock(&waits->lock);
	kfree(pending);
}

/* Wait for whichever event there is to wait for, unless it was canceled meanwhile. */
static bool pending_start(struct kvt_pending *pending)
{
	struct kvt_waits *waits = &pending->wait.session->waits;
	bool waits_on;

	spin_lock(&waits->lock);
	waits_on = !pending->wait.canceled;
	if (waits_on) {
		pending->wait.state = WAIT_WAITS;
		if (!pending_enqueue(pending, PENDING_RECLAIM) &&
		    !pending_enqueue(pending, PENDING_LOG))
			pending_queue_work(pending);
	}
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
 * Cancellation
 */

/*
 * Under the lock.  Returns whether it is sure to be canceled: what runs is, if it comes
 * to wait again.  A command that does not wait for the event any more is about to look.
 */
static bool wait_cancel(struct wait *wait)
{
	bool was = wait->canceled;

	wait->canceled = true;
	if (was || wait->state == WAIT_RUNS)
		return false;
	if (wait->state == WAIT_WAITS && wait->epoch)
		syncs_queue_work(&wait->session->waits);
	else if (wait->state == WAIT_WAITS && pending_dequeue(pending_of(wait)))
		pending_queue_work(pending_of(wait));
	return true;
}

/**
 * kvt_wait_cancel_cmd() - the ring, or who submitted a command, goes away
 * @session: the command's
 * @cmd: a command that waits and that has not completed
 *
 * Context: as io_uring calls with IO_URING_F_CANCEL.
 */
void kvt_wait_cancel_cmd(struct kvt_session *session, struct io_uring_cmd *cmd)
{
	struct wait *wait;

	spin_lock(&session->waits.lock);
	wait = *wait_of(cmd);
	if (wait)
		wait_cancel(wait);
	spin_unlock(&session->waits.lock);
}

static bool wait_is_meant(const struct wait *wait, const struct kvtree_uring_cancel *args)
{
	return args->flags & KVTREE_CANCEL_ANY ||
	       cmd_to_io_kiocb(wait->cmd)->cqe.user_data == args->user_data;
}

/**
 * kvt_wait_cancel() - cancel commands by their user_data
 * @session: theirs
 * @args: which
 *
 * Context: process context.
 *
 * Return: how many were canceled; -ENOENT; -EALREADY: it is being executed, or was.
 */
int kvt_wait_cancel(struct kvt_session *session, const struct kvtree_uring_cancel *args)
{
	bool many = args->flags & (KVTREE_CANCEL_ALL | KVTREE_CANCEL_ANY);
	int canceled = 0, ret = -ENOENT;
	struct wait *wait;

	spin_lock(&session->waits.lock);
	list_for_each_entry(wait, &session->waits.pending, list) {
		if (!wait_is_meant(wait, args))
			continue;
		/* It may be canceled again: one that was told of is not told of twice. */
		if (wait->state == WAIT_RUNS)
			ret = -EALREADY;
		else if (wait_cancel(wait))
			canceled++;
		if (canceled && !many)
			break;
	}
	/* What was executed can only wait for its end. */
	list_for_each_entry(wait, &session->waits.syncs, list)
		if (wait_is_meant(wait, args))
			ret = -EALREADY;
	spin_unlock(&session->waits.lock);
	return canceled ?: ret;
}

/**
 * kvt_wait_cancel_owner() - cancel changes that a process submitted
 * @session: the session
 * @owner: the process's files
 *
 * Context: process context.
 */
void kvt_wait_cancel_owner(struct kvt_session *session, const void *owner)
{
	struct wait *wait;

	spin_lock(&session->waits.lock);
	list_for_each_entry(wait, &session->waits.pending, list)
		if (wait->owner == owner)
			wait_cancel(wait);
	spin_unlock(&session->waits.lock);
}

/**
 * kvt_waits_init() - begin without commands that wait
 * @waits: a session's
 */
void kvt_waits_init(struct kvt_waits *waits)
{
	spin_lock_init(&waits->lock);
	INIT_LIST_HEAD(&waits->pending);
	INIT_LIST_HEAD(&waits->syncs);
	waits->spare = NULL;
	waits->nr_spare = 0;
	init_waitqueue_func_entry(&waits->listener, syncs_wake);
	INIT_LIST_HEAD(&waits->listener.entry);
	INIT_WORK(&waits->work, syncs_work);
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
		kfree(wait);
	}
}
