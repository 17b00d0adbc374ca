/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Waiting commands, for wait.c, wait_tree.c, pending.c, executed.c and cancel.c; wait.h has the
 * design.
 *
 * A command either is pending (pending.c): its update cannot be made yet.  Or it is executed
 * (executed.c), and only has to become durable.
 */
#ifndef KVT_API_WAIT_INTERNAL_H
#define KVT_API_WAIT_INTERNAL_H

#include <linux/list.h>
#include <linux/rbtree.h>
#include <linux/types.h>

#include "base/reclaim.h"
#include "compat.h"
#include "session.h"
#include "wait.h"

/* How many commands one hold of the lock examines, or one task work handles. */
#define KVT_WAIT_PORTION	128

enum kvt_wait_state {
	WAIT_NEW,		/* it cannot be woken yet */
	WAIT_WAITS,		/* for an event */
	WAIT_SENT,		/* to run in its task, or to be sent there by the work item */
	WAIT_RUNS,		/* it executes or completes */
};

/* Small, since there is one for each of many commands. */
struct kvt_wait {
	struct list_head list;			/* lock: of a queue, or of those that are over;
						 * no lock: of those sent together
						 */
	struct rb_node node;			/* lock: of the tree, by kind, user_data and seq */
	u64 user_data;
	u64 seq;
	u8 state;				/* lock: enum kvt_wait_state */
	u8 event;				/* enum kvt_wait_event */
	bool published;				/* cancellations find it, or have found it */
	bool executed;				/* lock: it is, and waits to be durable */
	bool failed;				/* ... and res says why it is not */
	bool canceled;				/* lock: it no longer waits */
	bool cqe32;
	int res;				/* of an executed command */
	u64 epoch;				/* that it waits for */
	u64 out;
	struct kvt_session *session;		/* kept by the command's file */
	struct io_uring_cmd *cmd;
	kvt_wait_fn again;
	struct rb_node owned;			/* lock: of the other tree, by owner */
	const void *owner;			/* the submitter's files */
	struct kvtree_op op;			/* to execute, or its outcome */
};

/**
 * struct kvt_wait_ops - operations of pending or of executed commands
 * @came: whether its event has come.  Under the lock.
 * @leave: its wait is over, and the store is about to be left, unless it is gone.  Or NULL.
 * @run: execute or complete it in its task; if @dead, complete it in any task, without writing to
 *	user memory
 */
struct kvt_wait_ops {
	bool (*came)(const struct kvt_wait *wait);
	void (*leave)(struct kvt_wait *wait);
	void (*run)(struct kvt_wait *wait, unsigned int issue_flags, bool dead);
};

extern const struct kvt_wait_ops kvt_pending_ops;
extern const struct kvt_wait_ops kvt_executed_ops;

/**
 * kvt_wait_ops() - the operations of a command's kind
 * @wait: the command
 *
 * Context: any.
 *
 * Return: the operations.
 */
static inline const struct kvt_wait_ops *kvt_wait_ops(const struct kvt_wait *wait)
{
	return wait->executed ? &kvt_executed_ops : &kvt_pending_ops;
}

/**
 * kvt_wait_of() - the place for the struct kvt_wait in a command
 * @cmd: the command
 *
 * Context: under the session's lock; NULL there: nothing waits any more.
 *
 * Return: the place.
 */
static inline struct kvt_wait **kvt_wait_of(struct io_uring_cmd *cmd)
{
	return io_uring_cmd_to_pdu(cmd, struct kvt_wait *);
}

static inline struct kvt_store *kvt_wait_store(const struct kvt_wait *wait)
{
	return wait->session->store;
}

static inline struct kvt_waits *kvt_wait_waits(const struct kvt_wait *wait)
{
	return &wait->session->waits;
}

void kvt_wait_publish(struct kvt_wait *wait, bool executed);
int kvt_wait_mark(struct kvt_wait *wait, const struct kvt_op_ctx *ctx, unsigned int issue_flags);
struct kvt_wait_queue *kvt_wait_start(struct kvt_wait *wait, enum kvt_wait_event event);
void kvt_wait_stop(struct kvt_wait *wait, enum kvt_wait_state state);
void kvt_wait_end(struct kvt_wait *wait);
void kvt_wait_leave(struct kvt_wait *wait);
void kvt_wait_queue_wake(struct kvt_wait_queue *queue);
void kvt_waits_wake(struct kvt_waits *waits);

void kvt_wait_list(struct kvt_wait *wait);
void kvt_wait_unlist(struct kvt_wait *wait);
struct kvt_wait *kvt_wait_find(const struct kvt_waits *waits, bool executed, u64 user_data,
			       u64 seq);
struct kvt_wait *kvt_wait_find_owned(const struct kvt_waits *waits, const void *owner);
void kvt_wait_disown(struct kvt_wait *wait);

#endif /* KVT_API_WAIT_INTERNAL_H */
