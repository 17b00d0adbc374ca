// SPDX-License-Identifier: GPL-2.0
/* Executed commands that wait to be durable (wait.h). */
#include <linux/blkdev.h>
#include <linux/errno.h>
#include <linux/minmax.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "log/log.h"
#include "wait_internal.h"

/* The command may hold the last reference to its file, and so to the session. */
static void executed_done(struct kvt_wait *wait, unsigned int issue_flags, bool dead)
{
	struct kvtree_op __user *out = u64_to_user_ptr(wait->out);
	struct io_uring_cmd *cmd = wait->cmd;
	u64 version = wait->op.version;
	bool cqe32 = wait->cqe32;
	int res = wait->res;

	/* User memory already says success: overwrite it. */
	if (wait->failed && out && !dead)
		(void)put_user(res, &out->result);
	/* Until this is done, the command may be canceled once more. */
	kvt_wait_free(wait);
	kvt_uring_done(cmd, res, version, cqe32, issue_flags);
}

/* Commands that were submitted together and need only one commit. */
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
 * Request a commit, immediately or, if io_uring has plugged the task, after the whole batch of
 * submissions.  Otherwise, on a device as fast as the submitter, each command would get its own
 * commit.
 */
static void executed_want(const struct kvt_wait *wait)
{
	struct kvt_store *store = kvt_wait_store(wait);
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

/* Whether the command is durable: 0 or an errno; -EAGAIN: not known yet. */
static int executed_outcome(const struct kvt_wait *wait)
{
	struct kvt_store *store = kvt_wait_store(wait);

	if (wait->event == KVT_WAIT_GONE)
		return kvt_store_gone(store);
	return kvt_log_synced(store->log, wait->epoch);
}

static bool executed_came(const struct kvt_wait *wait)
{
	return executed_outcome(wait) != -EAGAIN;
}

/* Under the lock: wait until its epoch is durable, or its store is gone. */
static void executed_start(struct kvt_wait *wait)
{
	struct kvt_wait_queue *queue = kvt_wait_start(wait, wait->event);

	if (executed_came(wait))
		kvt_wait_queue_wake(queue);
	else if (wait->event == KVT_WAIT_DURABLE)
		executed_want(wait);
}

/* The command no longer waits: set its result. */
static void executed_end(struct kvt_wait *wait)
{
	int err = executed_outcome(wait);

	if (!err)
		return;
	/* If it was canceled, it may still become durable. */
	wait->res = err == -EAGAIN ? -EINTR : err;
	wait->failed = true;
}

/**
 * kvt_executed_wait() - make an executed command wait until it is durable
 * @wait: the command's; it may have waited until its update could be made
 * @ctx: of the operation; its sync is the epoch to wait for; the store stays entered
 *	until the command is durable
 * @op: the operation with its outcome, which was copied
 * @res: the result of the command, if it becomes durable
 * @issue_flags: of this call of the command
 *
 * If the store was destroyed while the command was outside of it, the command waits for the end of
 * the destruction, which tells whether it is durable.
 *
 * Context: where the command is issued or its task work runs; leaves the store meanwhile.
 *
 * Return: -EIOCBQUEUED.
 */
int kvt_executed_wait(struct kvt_wait *wait, const struct kvt_op_ctx *ctx,
		      const struct kvtree_op *op, int res, unsigned int issue_flags)
{
	struct kvt_waits *waits = kvt_wait_waits(wait);
	bool canceled;

	wait->op = *op;
	wait->epoch = *ctx->sync;
	wait->res = res;
	wait->failed = false;
	kvt_wait_publish(wait, true);
	(void)kvt_wait_mark(wait, ctx, issue_flags);
	wait->event = kvt_op_inside(ctx) ? KVT_WAIT_DURABLE : KVT_WAIT_GONE;
	spin_lock(&waits->lock);
	canceled = wait->canceled;
	if (!canceled)
		executed_start(wait);
	spin_unlock(&waits->lock);
	/* Its ring is going away, and cancels it until it has completed. */
	if (canceled) {
		executed_end(wait);
		kvt_op_leave(ctx);
		executed_done(wait, issue_flags, true);
	}
	return -EIOCBQUEUED;
}

const struct kvt_wait_ops kvt_executed_ops = {
	.came = executed_came,
	.leave = executed_end,
	.run = executed_done,
};
