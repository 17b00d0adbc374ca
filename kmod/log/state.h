/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The state of a log, which all of its layers share.
 *
 * Each layer of the log has a header, which includes those of lower layers only.  From the bottom:
 *
 *	state.h		epochs, the version lease, errors, and the events that callers wait for
 *	dev.h		block devices, and the disks that they are on
 *	space.h		the devices' segments, and how many are left for each use
 *	stream.h	records, and the buffers from which they are written
 *	commit.h	making epochs durable
 *	checkpoint.h	writing what is live; superblocks
 *	life.h		a log from attach to detach; recovery
 *
 * A layer never calls a higher one: it queues one of the works below, or raises one of the events.
 * log.h, above all of them, is the interface for the store; the parts of it that lower layers
 * implement are in note.h and events.h.
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
 * Why something cannot be done now, although nothing is wrong.  A function that returns an outcome
 * returns a negative errno instead if something is wrong: a device fails, there is no memory, or a
 * fatal signal came.  So an error of a device is never taken for an outcome.
 */
enum kvt_log_outcome {
	KVT_LOG_DONE,
	KVT_LOG_NO_ROOM,	/* no segment is left for it */
	KVT_LOG_BEHIND,		/* earlier records must become durable first */
	KVT_LOG_SLEEPS,		/* the machine is about to sleep */
};

/* The errno of an outcome, for callers outside of the log. */
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
	KVT_LOG_DIRTY,		/* a commit is queued, or a running one includes the records */
	KVT_LOG_FULL,		/* there is no segment for the streams: writers wait */
	KVT_LOG_STOPPED,	/* no life has begun, or it has ended */
	KVT_LOG_CLOSED,		/* the log is being detached: there are no writers any more */
};

/* A module parameter that may be changed at any time, within bounds. */
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
	bool alive;		/* the log's life has begun */
	u64 drain;		/* a checkpoint waits for this epoch; 0: it does not */

	struct workqueue_struct *wq;	/* of commits, checkpoints, savers and restore's workers */
	struct delayed_work commit;
	struct delayed_work checkpoint;

	struct kvt_event durable_event;
	struct kvt_event space_event;
	struct kvt_event checkpoint_event;	/* never raised: only lists callers in messages */

	/* Read by every writer. */
	u64 epoch ____cacheline_aligned_in_smp;	/* the open epoch */
	u64 lease;			/* versions below it may be given out */
	u64 lease_asked;		/* the highest version that was refused for it */
	unsigned long flags;
	int error;			/* why nothing more is written; 0: writing is possible */

	u64 durable ____cacheline_aligned_in_smp;	/* the last durable epoch */
	u64 wanted;			/* the last epoch that a caller waits for */
	u64 closed;			/* the last closed epoch; only commits change it */
};

/* The machine is about to sleep; kvt_log_awake is woken after the sleep: see sleep.c. */
extern bool kvt_log_asleep;
extern struct wait_queue_head kvt_log_awake;

void kvt_log_state_init(struct kvt_log_state *state);
void kvt_log_fail(struct kvt_log_state *state, int err, const char *what);
int kvt_log_wait_awake(void);

/* Wait for a condition; the process may be killed or frozen, so it must hold no locks. */
#define kvt_log_wait_event(wq, condition)	\
	wait_event_state(wq, condition, (TASK_KILLABLE | TASK_FREEZABLE))

/* Whether the lease includes all versions that writers have asked for. */
static inline bool kvt_log_lease_lasts(const struct kvt_log_state *state)
{
	return READ_ONCE(state->lease_asked) < READ_ONCE(state->lease);
}

#endif /* KVT_LOG_STATE_H */
