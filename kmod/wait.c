// SPDX-License-Identifier: GPL-2.0
/* Commands that wait without a thread. */
#include <linux/errno.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "compat.h"
#include "log/log.h"
#include "session.h"
#include "update.h"
#include "wait.h"

enum wait_state {
	WAIT_NEW,		/* it can be canceled, and nobody else knows it */
	WAIT_WAITS,		/* for an event, or for the worker */
	WAIT_RUNS,		/* the worker has it */
	WAIT_CANCELED,		/* the worker is to complete it, and no more */
};

enum wait_for {
	WAIT_RECLAIM,		/* the garbage bound */
	WAIT_LOG,		/* room in the log */
	WAIT_DURABLE,		/* it was executed, and its epoch is to be durable */
};

struct wait {
	struct list_head list;			/* session->wait_lock */
	enum wait_state state;			/* session->wait_lock */
	enum wait_for what;			/* session->wait_lock */
	struct wait_queue_entry entry;		/* in the queue of what it waits for */
	u64 epoch;				/* WAIT_DURABLE */
	int res;				/* what it came to */
	struct work_struct work;
	struct kvt_session *session;		/* kept by the command's file */
	struct kvt_store *store;		/* that it is inside of */
	struct io_uring_cmd *cmd;
	const void *owner;			/* the files of who submitted it */
	u64 user_data;
	u64 out;
	bool cqe32;
	struct kvtree_op op;
	struct kvt_update update;
	u8 key[];
};

/* The command's own memory leads to what waits for it. */
static struct wait **wait_of(struct io_uring_cmd *cmd)
{
	return io_uring_cmd_to_pdu(cmd, struct wait *);
}

/* Runs in the submitter's task, which has its memory, or in one that has none. */
static void wait_complete_in_task(struct io_uring_cmd *cmd, unsigned int issue_flags, bool dead)
{
	struct wait *wait = *wait_of(cmd);
	int res = wait->res;

	if (wait->out &&
	    (dead || copy_to_user(u64_to_user_ptr(wait->out), &wait->op, sizeof(wait->op))))
		res = -EFAULT;
	kvt_uring_done(cmd, res, wait->op.version, wait->cqe32, issue_flags);
	/* Not before: until it is done, the command may be canceled once more. */
	kfree(wait);
}

KVT_URING_TASK_WORK(wait_task_work, wait_complete_in_task)

/* Whether the ring's completions wait for its task in any case. */
static bool wait_is_deferred(struct wait *wait)
{
	return cmd_to_io_kiocb(wait->cmd)->ctx->flags & IORING_SETUP_DEFER_TASKRUN;
}

static void wait_complete(struct wait *wait, int res)
{
	wait->res = res;
	/*
	 * Hundreds complete at once when an epoch is durable: a task that waits for so
	 * many is woken once.
	 */
	if (wait_is_deferred(wait)) {
		io_uring_cmd_do_in_task_lazy(wait->cmd, wait_task_work);
		return;
	}
	if (wait->out) {
		io_uring_cmd_complete_in_task(wait->cmd, wait_task_work);
		return;
	}
	kvt_uring_done(wait->cmd, res, wait->op.version, wait->cqe32, IO_URING_F_UNLOCKED);
	/* As above. */
	kfree(wait);
}

static void wait_queue_work(struct wait *wait)
{
	queue_work(wait->store->reclaim.wq, &wait->work);
}

static int wait_wake(struct wait_queue_entry *entry, unsigned int mode, int flags, void *key)
{
	struct wait *wait = container_of(entry, struct wait, entry);

	/* Another epoch than this one's. */
	if (wait->epoch && kvt_log_synced(wait->store->log, wait->epoch) == -EAGAIN)
		return 0;
	list_del_init(&entry->entry);
	wait_queue_work(wait);
	return 1;
}

static bool wait_enqueue(struct wait *wait, enum wait_for what)
{
	struct kvt_store *store = wait->store;

	wait->what = what;
	if (what == WAIT_RECLAIM)
		return kvt_reclaim_wait(&store->reclaim, &wait->entry);
	return store->log && kvt_log_wait(store->log, &wait->entry, wait->epoch);
}

/* Wait no more.  Returns whether it waited, and was not woken. */
static bool wait_dequeue(struct wait *wait)
{
	struct kvt_store *store = wait->store;

	if (wait->what == WAIT_RECLAIM)
		return kvt_reclaim_unwait(&store->reclaim, &wait->entry);
	return store->log && kvt_log_unwait(store->log, &wait->entry, wait->epoch);
}

/* Under wait_lock, so that the worker does not complete it meanwhile. */
static void wait_start(struct wait *wait)
{
	wait->state = WAIT_WAITS;
	if (wait->epoch) {
		if (wait_enqueue(wait, WAIT_DURABLE))
			return;
	} else if (wait_enqueue(wait, WAIT_RECLAIM) || wait_enqueue(wait, WAIT_LOG)) {
		return;
	}
	wait_queue_work(wait);
}

/* The worker takes it, unless it was canceled. */
static bool wait_take(struct wait *wait)
{
	bool taken;

	spin_lock(&wait->session->wait_lock);
	taken = wait->state == WAIT_WAITS;
	if (taken)
		wait->state = WAIT_RUNS;
	spin_unlock(&wait->session->wait_lock);
	return taken;
}

static int wait_write(struct wait *wait)
{
	struct kvt_op_ctx ctx = kvt_session_ctx(wait->session);

	ctx.waits = false;
	ctx.interruptible = false;
	ctx.sync = &wait->epoch;
	if (kvt_store_dying(wait->store))
		return -ESTALE;
	return kvt_update_write(&ctx, &wait->update);
}

/* -EAGAIN: it waits again. */
static int wait_durable(struct wait *wait)
{
	int err = kvt_log_synced(wait->store->log, wait->epoch);

	if (err)
		wait->op.result = err;
	return err ?: wait->res;
}

static void wait_report(struct wait *wait, int res)
{
	const struct kvt_op_ctx ctx = kvt_session_ctx(wait->session);

	kvt_stat_inc(&wait->store->stats, KVTREE_STAT_URING);
	kvt_update_report(&wait->update, &wait->op, res);
	kvt_op_report(&ctx, &wait->op, res);
}

/* -EAGAIN: it waits again. */
static int wait_execute(struct wait *wait)
{
	int res;

	if (wait->epoch)
		return wait_durable(wait);
	res = wait_write(wait);
	if (res == -EAGAIN)
		return res;
	wait_report(wait, res);
	if (!wait->epoch)
		return res;
	wait->res = res;
	return -EAGAIN;
}

static void wait_work(struct work_struct *work)
{
	struct wait *wait = container_of(work, struct wait, work);
	struct kvt_session *session = wait->session;
	int res = -ECANCELED;

	if (wait_take(wait)) {
		res = wait_execute(wait);
		if (res == -EAGAIN) {
			spin_lock(&session->wait_lock);
			wait_start(wait);
			spin_unlock(&session->wait_lock);
			return;
		}
	} else {
		wait->op.version = 0;
		wait->out = 0;
		kvt_stat_inc(&wait->store->stats, KVTREE_STAT_URING_CANCEL);
	}
	spin_lock(&session->wait_lock);
	list_del(&wait->list);
	spin_unlock(&session->wait_lock);
	kvt_update_free(&wait->update);
	kvt_store_leave(wait->store);
	wait_complete(wait, res);
}

/* @update may be NULL: it was executed. */
static struct wait *wait_new(struct kvt_session *session, const struct kvt_op_ctx *ctx,
			     const struct kvtree_op *op, const struct kvt_update *update)
{
	u32 len = update ? update->write.key.len : 0;
	struct wait *wait;

	wait = kmalloc(struct_size(wait, key, len), kvt_op_gfp_scratch(ctx));
	if (!wait)
		return NULL;
	init_waitqueue_func_entry(&wait->entry, wait_wake);
	INIT_LIST_HEAD(&wait->entry.entry);
	wait->state = WAIT_NEW;
	wait->what = WAIT_RECLAIM;
	wait->epoch = 0;
	wait->update = (struct kvt_update) {};
	INIT_WORK(&wait->work, wait_work);
	wait->session = session;
	wait->store = ctx->store;
	wait->owner = current->files;
	wait->op = *op;
	if (update) {
		wait->update = *update;
		memcpy(wait->key, update->write.key.data, len);
		wait->update.write.key.data = wait->key;
	}
	return wait;
}

static int wait_begin(struct wait *wait, const struct kvt_wait_args *args)
{
	struct kvt_session *session = wait->session;

	wait->cmd = args->cmd;
	wait->cqe32 = args->issue_flags & IO_URING_F_CQE32;
	wait->user_data = args->user_data;
	wait->out = args->out;
	*wait_of(args->cmd) = wait;
	kvt_stat_inc(&wait->store->stats, KVTREE_STAT_URING_WAIT);
	/* On a worker of io_uring, it may be canceled from here on. */
	io_uring_cmd_mark_cancelable(args->cmd, args->issue_flags);

	spin_lock(&session->wait_lock);
	list_add_tail(&wait->list, &session->waiting);
	if (wait->state == WAIT_CANCELED)
		wait_queue_work(wait);
	else
		wait_start(wait);
	spin_unlock(&session->wait_lock);
	return -EIOCBQUEUED;
}

/**
 * kvt_wait() - let a command wait for what its update could not be written without
 * @session: the command's
 * @ctx: of the operation; the store stays entered until the command completes
 * @op: the operation
 * @update: its update; taken over
 * @args: the command
 *
 * Context: where the command was issued.
 *
 * Return: -EIOCBQUEUED; -ENOMEM: nothing has changed.
 */
int kvt_wait(struct kvt_session *session, const struct kvt_op_ctx *ctx,
	     const struct kvtree_op *op, struct kvt_update *update,
	     const struct kvt_wait_args *args)
{
	struct wait *wait = wait_new(session, ctx, op, update);

	return wait ? wait_begin(wait, args) : -ENOMEM;
}

/**
 * kvt_wait_durable() - let a command that was executed wait until it is durable
 * @session: the command's
 * @ctx: of what was executed; its sync says how long to wait; the store stays entered
 *	until the command completes
 * @op: the operation, counted and with its result; or zeros
 * @res: the result of the command, if it does become durable
 * @args: the command
 *
 * Context: where the command was issued.
 *
 * Return: -EIOCBQUEUED; -ENOMEM: it does not wait.
 */
int kvt_wait_durable(struct kvt_session *session, const struct kvt_op_ctx *ctx,
		     const struct kvtree_op *op, int res, const struct kvt_wait_args *args)
{
	struct wait *wait = wait_new(session, ctx, op, NULL);

	if (!wait)
		return -ENOMEM;
	wait->epoch = *ctx->sync;
	wait->res = res;
	return wait_begin(wait, args);
}

/*
 * Under wait_lock.  Returns whether it waited.  If it did not wait for the event
 * any more the work is queued, or about to look at the state.
 */
static bool wait_cancel(struct wait *wait)
{
	if (wait->state != WAIT_WAITS && wait->state != WAIT_NEW)
		return false;
	wait->state = WAIT_CANCELED;
	if (wait_dequeue(wait))
		wait_queue_work(wait);
	return true;
}

/**
 * kvt_wait_cancel_cmd() - the ring, or who submitted a command, goes away
 * @session: the command's
 * @cmd: a command that kvt_wait() has and that has not completed
 *
 * Context: as io_uring calls with IO_URING_F_CANCEL.
 */
void kvt_wait_cancel_cmd(struct kvt_session *session, struct io_uring_cmd *cmd)
{
	spin_lock(&session->wait_lock);
	wait_cancel(*wait_of(cmd));
	spin_unlock(&session->wait_lock);
}

/**
 * kvt_wait_cancel() - cancel commands by their user_data
 * @session: theirs
 * @args: which
 *
 * Context: process context.
 *
 * Return: how many were canceled; -ENOENT; -EALREADY: it is being executed.
 */
int kvt_wait_cancel(struct kvt_session *session, const struct kvtree_uring_cancel *args)
{
	bool many = args->flags & (KVTREE_CANCEL_ALL | KVTREE_CANCEL_ANY);
	int canceled = 0, ret = -ENOENT;
	struct wait *wait;

	spin_lock(&session->wait_lock);
	list_for_each_entry(wait, &session->waiting, list) {
		if (!(args->flags & KVTREE_CANCEL_ANY) && wait->user_data != args->user_data)
			continue;
		/* What was executed can only wait for its end. */
		if (!wait->epoch && wait_cancel(wait))
			canceled++;
		else if (wait->epoch || wait->state == WAIT_RUNS)
			ret = -EALREADY;
		if (canceled && !many)
			break;
	}
	spin_unlock(&session->wait_lock);
	return canceled ?: ret;
}

/**
 * kvt_wait_cancel_owner() - cancel what a process submitted
 * @session: the session
 * @owner: the process's files
 *
 * Context: process context.
 */
void kvt_wait_cancel_owner(struct kvt_session *session, const void *owner)
{
	struct wait *wait;

	spin_lock(&session->wait_lock);
	list_for_each_entry(wait, &session->waiting, list)
		if (wait->owner == owner && !wait->epoch)
			wait_cancel(wait);
	spin_unlock(&session->wait_lock);
}
