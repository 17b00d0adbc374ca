/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The state of a log, which all of its layers share.
 *
 * Each layer of the log has a header, which includes those of lower layers only.  From the bottom:
 *
 *	state.h		what the log is at, and what is waited for
 *	dev.h		devices, and the disks that they are on
 *	space.h		their segments, and how many are left for what
 *	stream.h	records, and the buffers that they are written from
 *	commit.h	epochs that become durable
 *	checkpoint.h	all that is live, written again; superblocks
 *	life.h		a log from attach to detach; what is recovered
 *
 * A layer that needs something of a higher one does not call it: it queues one of the works here,
 * or wakes those who wait for one of the events.  log.h is what the store sees of all of them, and
 * is above them: what lower layers define of it, and use, is in note.h and events.h.
 */
#ifndef KVT_LOG_STATE_H
#define KVT_LOG_STATE_H

#include <linux/cache.h>
#include <linux/moduleparam.h>
#include <linux/sched.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "base/event.h"
#include "store_env.h"

/*
 * Why something cannot be done now although nothing is wrong.  A function that returns an outcome
 * returns a negative errno instead if something is: a device fails, there is no memory, a fatal
 * signal came.  So nothing that a device says is taken for a step of the log.
 */
enum kvt_log_outcome {
	KVT_LOG_DONE,
	KVT_LOG_NO_ROOM,	/* no segment is left for it */
	KVT_LOG_BEHIND,		/* what is not durable has to be first */
	KVT_LOG_SLEEPS,		/* the machine is about to sleep */
};

/* What an outcome, or an errno, is to those who use the log. */
static inline int kvt_log_outcome_errno(int outcome)
{
	switch (outcome) {
	case KVT_LOG_NO_ROOM:
		return -ENOSPC;
	case KVT_LOG_BEHIND:
	case KVT_LOG_SLEEPS:
		return -EAGAIN;
	default:
		return outcome;
	}
}

enum {
	KVT_LOG_DIRTY,		/* a commit is queued, or a record will be seen by the next */
	KVT_LOG_FULL,		/* no segment for the streams: writers wait */
	KVT_LOG_STOPPED,	/* it has not begun, or is read-only */
	KVT_LOG_CLOSED,		/* nobody changes anything any more */
};

/* A parameter of the module that may be changed, and has bounds. */
#define KVT_LOG_PARAM(name, var, least, most)					\
static int name##_set(const char *text, const struct kernel_param *param)	\
{										\
	return param_set_uint_minmax(text, param, least, most);			\
}										\
static const struct kernel_param_ops name##_ops = {				\
	.set = name##_set,							\
	.get = param_get_uint,							\
};										\
module_param_cb(name, &name##_ops, &(var), 0644)

struct kvt_log_state {
	struct kvt_log_env env;
	bool alive;		/* its life has begun */
	u64 drain;		/* the checkpoint waits for this epoch; 0: it does not */

	struct workqueue_struct *wq;	/* of these, and of what restores and saves */
	struct delayed_work commit;
	struct delayed_work checkpoint;

	struct kvt_event durable_event;
	struct kvt_event space_event;
	struct kvt_event checkpoint_event;	/* its callers are named, and never woken */

	/* Read by every writer. */
	u64 epoch ____cacheline_aligned_in_smp;	/* the open one */
	u64 lease;			/* versions below may be given out */
	u64 lease_asked;		/* the highest version that was too high for it */
	unsigned long flags;
	int error;

	u64 durable ____cacheline_aligned_in_smp;
	u64 wanted;			/* somebody waits for this epoch */
	u64 closed;			/* the last one that is not open; written by commits */
};

/* The machine is about to sleep: see sleep.c, which wakes those who wait for the end of that. */
extern bool kvt_log_asleep;
extern struct wait_queue_head kvt_log_awake;

void kvt_log_state_init(struct kvt_log_state *state);
void kvt_log_fail(struct kvt_log_state *state, int err, const char *what);
int kvt_log_wait_awake(void);

/* Wait as a process that may be killed, or frozen.  It holds no locks. */
#define kvt_log_wait_event(wq, condition)	\
	wait_event_state(wq, condition, (TASK_KILLABLE | TASK_FREEZABLE))

/* Whether the lease has all versions that a writer has asked for. */
static inline bool kvt_log_lease_lasts(const struct kvt_log_state *state)
{
	return READ_ONCE(state->lease_asked) < READ_ONCE(state->lease);
}

#endif /* KVT_LOG_STATE_H */
