// SPDX-License-Identifier: GPL-2.0
/* Cancellation of waiting commands (wait.h). */
#include <linux/errno.h>
#include <linux/limits.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>

#include "wait_internal.h"

/*
 * Cancel a command, under the lock.  Returns whether it is sure to be canceled.  A running update
 * is canceled only if it waits again.
 */
static bool wait_cancel(struct kvt_wait *wait)
{
	bool was = wait->canceled;

	wait->canceled = true;
	if (was || wait->state == WAIT_RUNS)
		return false;
	/* Hide it from later searches, so that canceled commands do not slow them down. */
	kvt_wait_unlist(wait);
	if (wait->state == WAIT_WAITS) {
		kvt_wait_end(wait);
		kvt_waits_wake(kvt_wait_waits(wait));
	}
	return true;
}

/*
 * Whether a command may complete in the task that cancels it.  With deferred task work, only
 * the ring's own task, or the ring's end, wakes tasks that wait for the ring.
 */
static bool wait_may_end_here(const struct kvt_wait *wait)
{
	return !(cmd_to_io_kiocb(wait->cmd)->ctx->flags & IORING_SETUP_DEFER_TASKRUN) ||
	       kvt_uring_task(wait->cmd) == current || current->flags & PF_KTHREAD;
}

/* Under the lock: end a wait, unless something else ends it.  Returns whether it did. */
static bool wait_abort(struct kvt_wait *wait)
{
	if (wait->state != WAIT_WAITS || !wait_may_end_here(wait))
		return false;
	wait->canceled = true;
	kvt_wait_unlist(wait);
	kvt_wait_stop(wait, WAIT_RUNS);
	/* The session may listen on behalf of the process that exits. */
	kvt_waits_wake(kvt_wait_waits(wait));
	return true;
}

/**
 * kvt_wait_cancel_cmd() - cancel a command because its ring or submitter goes away
 * @session: the command's
 * @cmd: a command that waits and that has not completed
 * @issue_flags: of io_uring
 *
 * io_uring calls this in a busy loop until the command has completed.  The submitter may stay
 * stopped indefinitely, so a command that only waits completes here, without writing to user
 * memory, which may be gone.
 *
 * Context: as io_uring calls with IO_URING_F_CANCEL: the ring's lock is held.
 */
void kvt_wait_cancel_cmd(struct kvt_session *session, struct io_uring_cmd *cmd,
			 unsigned int issue_flags)
{
	bool ends = false;
	struct kvt_wait *wait;

	spin_lock(&session->waits.lock);
	wait = *kvt_wait_of(cmd);
	if (wait) {
		ends = wait_abort(wait);
		if (!ends)
			wait_cancel(wait);
	}
	spin_unlock(&session->waits.lock);
	if (!ends)
		return;
	kvt_wait_leave(wait);
	kvt_wait_ops(wait)->run(wait, issue_flags, true);
}

/* A cancellation in progress. */
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
	struct kvt_wait *wait;
	unsigned int i;

	for (i = 0; i < KVT_WAIT_PORTION; i++) {
		wait = kvt_wait_find(waits, false, c->user_data, c->seq);
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

/* Whether a matching command runs or was executed, and cannot be canceled. */
static bool cancel_comes_late(struct kvt_waits *waits, const struct cancel *c)
{
	const struct kvt_wait *wait;
	bool late;

	spin_lock(&waits->lock);
	wait = kvt_wait_find(waits, true, c->first, 0);
	late = c->runs || (wait && wait->user_data <= c->last);
	spin_unlock(&waits->lock);
	return late;
}

/**
 * kvt_wait_cancel() - cancel commands by their user_data
 * @session: the commands' session
 * @args: which commands
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

/* Under the lock: cancel some of the owner's updates up to @last.  Returns whether to go on. */
static bool cancel_owned(struct kvt_waits *waits, const void *owner, u64 last)
{
	struct kvt_wait *wait;
	unsigned int i;

	for (i = 0; i < KVT_WAIT_PORTION; i++) {
		wait = kvt_wait_find_owned(waits, owner);
		if (!wait || wait->seq > last)
			return false;
		/* Hide it from the next search, even if it runs. */
		kvt_wait_disown(wait);
		wait_cancel(wait);
	}
	return true;
}

/**
 * kvt_wait_cancel_owner() - cancel updates that a process has submitted
 * @session: the session
 * @owner: the process's files
 *
 * Context: process context.  Walks the process's own updates, regardless of signals.
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
