// SPDX-License-Identifier: GPL-2.0
/* Pending commands: updates that wait to be made (wait.h). */
#include <linux/errno.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>

#include "log/log.h"
#include "wait_internal.h"

static bool reclaim_allows(const struct kvt_wait *wait)
{
	return !kvt_reclaim_throttle(&kvt_wait_store(wait)->reclaim, false);
}

/* Complete the command of an update that was not made.  Outside the store. */
static void pending_done(struct kvt_wait *wait, int res, unsigned int issue_flags)
{
	struct io_uring_cmd *cmd = wait->cmd;
	bool cqe32 = wait->cqe32;

	if (res == -ECANCELED)
		kvt_stat_inc(&kvt_wait_store(wait)->stats, KVTREE_STAT_URING_CANCEL);
	kvt_wait_free(wait);
	kvt_uring_done(cmd, res, 0, cqe32, issue_flags);
}

/* Take over a command to run it.  Returns false if it was canceled. */
static bool pending_take(struct kvt_wait *wait)
{
	struct kvt_waits *waits = kvt_wait_waits(wait);
	bool taken;

	spin_lock(&waits->lock);
	taken = !wait->canceled;
	wait->state = WAIT_RUNS;
	spin_unlock(&waits->lock);
	return taken;
}

/*
 * Runs in the submitter's task, or, if @dead, in one without its memory.  If that task is dead or
 * was killed, the update is not made.
 */
static void pending_run(struct kvt_wait *wait, unsigned int issue_flags, bool dead)
{
	struct kvt_wait_args args = {
		.cmd = wait->cmd,
		.issue_flags = issue_flags | (wait->cqe32 ? IO_URING_F_CQE32 : 0),
		.out = wait->out,
	};

	if (pending_take(wait) && !dead && !fatal_signal_pending(current))
		wait->again(wait, &wait->op, &args);
	else
		pending_done(wait, -ECANCELED, issue_flags);
}

/* Under the lock: wait for the event that the update needs. */
static void pending_enqueue(struct kvt_wait *wait)
{
	struct kvt_store *store = kvt_wait_store(wait);
	struct kvt_wait_queue *queue;
	bool came;

	if (store->log && reclaim_allows(wait)) {
		kvt_stat_inc(&store->stats, KVTREE_STAT_LOG_STALL);
		queue = kvt_wait_start(wait, KVT_WAIT_ROOM);
		came = kvt_log_has_space(store->log);
	} else {
		kvt_stat_inc(&store->stats, KVTREE_STAT_WAITING_STALL);
		queue = kvt_wait_start(wait, KVT_WAIT_RECLAIM);
		came = reclaim_allows(wait);
	}
	if (came)
		kvt_wait_queue_wake(queue);
}

/* Returns false if it was canceled meanwhile. */
static bool pending_start(struct kvt_wait *wait)
{
	struct kvt_waits *waits = kvt_wait_waits(wait);
	bool waits_on;

	spin_lock(&waits->lock);
	waits_on = !wait->canceled;
	if (waits_on)
		pending_enqueue(wait);
	spin_unlock(&waits->lock);
	return waits_on;
}

/**
 * kvt_pending_wait() - make a command wait until its update can be made
 * @wait: the command's; freed when it is canceled, or executed and reported
 * @ctx: of the operation; the store stays entered while it waits for an event
 * @op: the operation to execute again
 * @issue_flags: of this call of the command
 *
 * Context: where the command is issued, or its task work runs; leaves the store meanwhile.
 *
 * Return: -EIOCBQUEUED.
 */
int kvt_pending_wait(struct kvt_wait *wait, const struct kvt_op_ctx *ctx,
		     const struct kvtree_op *op, unsigned int issue_flags)
{
	int err;

	/* Only once: cancellations also find it while it is executed again. */
	if (!wait->published) {
		wait->owner = current->files;
		wait->op = *op;
		kvt_wait_publish(wait, false);
	}
	err = kvt_wait_mark(wait, ctx, issue_flags);
	if (!err && pending_start(wait))
		return -EIOCBQUEUED;
	kvt_op_leave(ctx);
	pending_done(wait, pending_take(wait) ? err : -ECANCELED, issue_flags);
	return -EIOCBQUEUED;
}

/* Each CPU has room of its own, so all commands retry whenever any room is made. */
static bool pending_came(const struct kvt_wait *wait)
{
	return wait->event == KVT_WAIT_ROOM || reclaim_allows(wait);
}

const struct kvt_wait_ops kvt_pending_ops = {
	.came = pending_came,
	.run = pending_run,
};
