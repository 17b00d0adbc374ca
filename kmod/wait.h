/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Commands that wait without a thread.
 *
 * An update whose data are in kernel memory and that cannot be written now
 * becomes a struct write_wait, unless those of the session keep too much memory
 * already.  It waits for the store's garbage bound or for room in its log, if that is
 * what it met, and then for a worker, which writes it or lets it wait again.
 *
 * Whatever was executed and has to be durable before it is reported waits for that.
 * When an epoch is durable this is so for hundreds at once: they are a list, for
 * which the session listens to the log, and which one worker goes through.
 *
 * Whatever happens to a command, a worker completes it, and so it completes once:
 * who cancels only says so and queues the work.
 *
 * The lock protects the lists and the state of what is on them.  It is taken before
 * the locks of the queues of reclaim and log.
 */
#ifndef KVT_WAIT_H
#define KVT_WAIT_H

#include <linux/io_uring/cmd.h>
#include <linux/list.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

struct kvt_op_ctx;
struct kvt_session;
struct kvt_update;
struct kvtree_op;
struct wait;

/* The commands of a session that wait. */
struct kvt_waits {
	spinlock_t lock;		/* of all but the work */
	struct list_head writes;	/* they are not executed yet */
	size_t write_bytes;		/* what these keep */
	struct list_head syncs;		/* they are, and are to be durable */
	struct wait *spare;		/* memory for the next ones */
	unsigned int nr_spare;
	struct wait_queue_entry listener;	/* of the log's, while there are syncs */
	struct work_struct work;	/* completes syncs */
};

/* What becomes of a command that waits. */
struct kvt_wait_args {
	struct io_uring_cmd *cmd;
	unsigned int issue_flags;	/* of this call of the command */
	u64 user_data;
	u64 out;			/* user address for the operation, or 0 */
};

void kvt_waits_init(struct kvt_waits *waits);
void kvt_waits_exit(struct kvt_waits *waits);

int kvt_wait(struct kvt_session *session, const struct kvt_op_ctx *ctx,
	     const struct kvtree_op *op, struct kvt_update *update,
	     const struct kvt_wait_args *args);
int kvt_wait_durable(struct kvt_session *session, const struct kvt_op_ctx *ctx,
		     u64 version, int res, const struct kvt_wait_args *args);
void kvt_wait_cancel_cmd(struct kvt_session *session, struct io_uring_cmd *cmd);
int kvt_wait_cancel(struct kvt_session *session, const struct kvtree_uring_cancel *args);
void kvt_wait_cancel_owner(struct kvt_session *session, const void *owner);

#endif /* KVT_WAIT_H */
