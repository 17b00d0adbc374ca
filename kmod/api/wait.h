/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Commands that wait without a thread.
 *
 * An update that cannot be made now waits for the store's garbage to shrink or for room in its
 * log.  It keeps only its operation: none of its data, and no memory of the store.  When the
 * event comes, it leaves the store, and its task executes it again from the beginning; it may
 * have to wait again.
 *
 * An executed command that must be durable before it is reported waits for its epoch, or, if the
 * store was destroyed meanwhile, until the store is gone.  Memory for that wait is allocated
 * before the command is executed.
 *
 * A process may have a million of either.  All commands of a session that wait for the same
 * event form a list.  The session listens for the event, once for all of them, and has one
 * work item, which walks the list and sends commands to their tasks when their wait is over or
 * they were canceled.  Every walk drops the lock after a bounded number of commands.
 *
 * One tree finds commands by their user_data, and another updates by the process that submitted
 * them, so a cancellation looks at nothing else.  Executed commands are apart in the first tree,
 * which finds them only to report that they cannot be canceled.
 *
 * Memory is freed, and epochs become durable, more often than work items run.  So a session
 * stops listening once it has heard of an event.  If commands still wait, its work item listens
 * again before it looks at them.
 *
 * Commands complete in the task that submitted them.  If io_uring cancels a command that only
 * waits, it completes there, since the task may be stopped.  A completion takes the ring's
 * lock.  A task may hold that lock indefinitely, so no worker of kvtree takes it, and no task
 * takes it inside a store.
 *
 * The session's lock protects lists, trees, and the state of the commands in them.  It is
 * taken before the locks of the queues of reclaim and log.
 */
#ifndef KVT_API_WAIT_H
#define KVT_API_WAIT_H

#include <linux/io_uring/cmd.h>
#include <linux/list.h>
#include <linux/rbtree.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/workqueue.h>

#include "base/event.h"

struct kvt_op_ctx;
struct kvt_session;
struct kvt_wait;
struct kvtree_op;
struct kvtree_uring_cancel;

enum kvt_wait_event {
	KVT_WAIT_RECLAIM,	/* less garbage than its bound */
	KVT_WAIT_ROOM,		/* room in the log */
	KVT_WAIT_DURABLE,	/* an epoch */
	KVT_WAIT_GONE,		/* the store's memory is freed, and all in it durable or not */
	KVT_WAIT_EVENTS
};

/* A session's commands that wait for one event. */
struct kvt_wait_queue {
	struct kvt_waits *waits;
	enum kvt_wait_event event;
	struct list_head list;
	unsigned int nr;		/* of commands, also while the work item walks them */
	struct kvt_listener listener;	/* listens while there are any and it has not heard */
	bool woken;			/* the event came; exchanged */
};

/* A session's waiting commands. */
struct kvt_waits {
	spinlock_t lock;		/* of all but @work, and fields noted otherwise */
	struct rb_root tree;		/* by kind and user_data; not those sure to be canceled */
	struct rb_root owned;		/* updates, by owner; none that is sure to be canceled */
	u64 seq;			/* of the last one */
	struct kvt_wait_queue queue[KVT_WAIT_EVENTS];
	struct list_head over;		/* to be sent to their tasks */
	struct list_head spare;		/* freed, for the next ones */
	unsigned int nr_spare;
	struct work_struct work;
};

/* How a command that may wait completes. */
struct kvt_wait_args {
	struct io_uring_cmd *cmd;
	unsigned int issue_flags;	/* of this call of the command */
	u64 out;			/* user address for the operation, or 0 */
};

/*
 * Execute an update again: call kvt_pending_wait() if it has to wait again, otherwise
 * kvt_wait_free() or kvt_executed_wait(), and complete the command.
 */
typedef void (*kvt_wait_fn)(struct kvt_wait *wait, const struct kvtree_op *op,
			    const struct kvt_wait_args *args);

int kvt_waits_prepare(void);
void kvt_waits_end(void);
void kvt_waits_init(struct kvt_waits *waits);
void kvt_waits_exit(struct kvt_waits *waits);

struct kvt_wait *kvt_wait_new(struct kvt_session *session, const struct kvt_op_ctx *ctx,
			      kvt_wait_fn again, const struct kvt_wait_args *args);
void kvt_wait_free(struct kvt_wait *wait);
int kvt_pending_wait(struct kvt_wait *wait, const struct kvt_op_ctx *ctx,
		     const struct kvtree_op *op, unsigned int issue_flags);
int kvt_executed_wait(struct kvt_wait *wait, const struct kvt_op_ctx *ctx,
		      const struct kvtree_op *op, int res, unsigned int issue_flags);
void kvt_wait_cancel_cmd(struct kvt_session *session, struct io_uring_cmd *cmd,
			 unsigned int issue_flags);
int kvt_wait_cancel(struct kvt_session *session, const struct kvtree_uring_cancel *args);
void kvt_wait_cancel_owner(struct kvt_session *session, const void *owner);

#endif /* KVT_API_WAIT_H */
