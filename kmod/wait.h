/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Commands that wait without a thread.
 *
 * An update whose data are in kernel memory and that cannot be written now
 * becomes a struct kvt_wait.  It waits for the store's garbage bound or for room in
 * its log, if that is what it met, and then for a worker, which writes it or lets
 * it wait again.  Whatever was executed and has to be durable before it is reported
 * waits for that, too.  Whatever happens to it, the worker completes the command,
 * and so it completes once: who cancels only says so and queues the work.
 *
 * The session's wait_lock protects the list of those that wait and their state.
 * It is taken before the locks of the queues of reclaim and log.
 */
#ifndef KVT_WAIT_H
#define KVT_WAIT_H

#include <linux/io_uring/cmd.h>
#include <linux/types.h>

struct kvt_op_ctx;
struct kvt_session;
struct kvt_update;
struct kvtree_op;

/* What becomes of a command that waits. */
struct kvt_wait_args {
	struct io_uring_cmd *cmd;
	unsigned int issue_flags;	/* of this call of the command */
	u64 user_data;
	u64 out;			/* user address for the operation, or 0 */
};

int kvt_wait(struct kvt_session *session, const struct kvt_op_ctx *ctx,
	     const struct kvtree_op *op, struct kvt_update *update,
	     const struct kvt_wait_args *args);
int kvt_wait_durable(struct kvt_session *session, const struct kvt_op_ctx *ctx,
		     const struct kvtree_op *op, int res, const struct kvt_wait_args *args);
void kvt_wait_cancel_cmd(struct kvt_session *session, struct io_uring_cmd *cmd);
int kvt_wait_cancel(struct kvt_session *session, const struct kvtree_uring_cancel *args);
void kvt_wait_cancel_owner(struct kvt_session *session, const void *owner);

#endif /* KVT_WAIT_H */
