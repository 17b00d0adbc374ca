// SPDX-License-Identifier: GPL-2.0
/*
 * What is live: the bytes of records that a checkpoint would write.
 *
 * Every change counts, so CPUs count apart, and what all of them have not told each
 * other yet is no more than half a segment: it is part of what the log leaves room for.
 */
#include <linux/container_of.h>
#include <linux/cpumask.h>

#include "base/index.h"
#include "base/mem.h"
#include "base/value.h"
#include "compat.h"
#include "internal.h"

/**
 * kvt_live_init() - choose how exactly to count
 * @log: the log, whose devices are known
 */
void kvt_live_init(struct kvt_log *log)
{
	u64 bytes = S32_MAX;
	u32 i;

	for (i = 0; i < log->nr_devs; i++)
		bytes = min(bytes, kvt_dev_segment(&log->dev[i]));
	log->live_batch = bytes / 2 / num_possible_cpus();
}

/**
 * kvt_live_bytes() - how much is live
 * @log: the log
 *
 * Context: any.
 *
 * Return: bytes, with an error of at most kvt_live_slack().
 */
u64 kvt_live_bytes(const struct kvt_log *log)
{
	return percpu_counter_read_positive((struct percpu_counter *)&log->live);
}

/**
 * kvt_live_slack() - how exact kvt_live_bytes() is
 * @log: the log
 *
 * Context: any.
 *
 * Return: bytes.
 */
u64 kvt_live_slack(const struct kvt_log *log)
{
	return (u64)log->live_batch * num_possible_cpus();
}

struct recount {
	struct kvt_walk walk;
	int (*pause)(void *arg);
	void *arg;
	u64 live;
};

static int recount_see(struct kvt_walk *walk, const struct kvt_value *v)
{
	struct recount *recount = container_of(walk, struct recount, walk);
	struct kvt_log_size size = kvt_log_size(v->key_len, v);

	recount->live += kvt_log_size_bytes(&size);
	return recount->pause ? recount->pause(recount->arg) : 0;
}

/**
 * kvt_log_recount() - go through all values and count what is live
 * @log: the log
 * @pause: called between two values with @arg, under RCU; an errno ends the count.  May be
 *	NULL
 * @arg: its argument
 * @live: set to what KVTREE_STAT_LOG_LIVE_BYTES should be, if nothing changes meanwhile
 *
 * Context: process context, sleeps.
 *
 * Return: 0; -ENOMEM; or what @pause returned.
 */
int kvt_log_recount(struct kvt_log *log, int (*pause)(void *arg), void *arg, u64 *live)
{
	struct recount recount = { .walk.see = recount_see, .pause = pause, .arg = arg };
	int err;

	err = kvt_index_walk(log->state.env.index, &recount.walk);
	*live = recount.live;
	return err;
}
KVT_EXPORT_FOR_TESTS(kvt_log_recount);

/**
 * kvt_live_check() - see that what was counted is what is there
 * @log: the log, whose store nobody changes
 *
 * See KVT_AUDITS: each test does this.
 *
 * Context: process context, sleeps.
 */
void kvt_live_check(struct kvt_log *log)
{
	s64 counted = percpu_counter_sum(&log->live);
	u64 live;

	if (KVT_AUDITS && !kvt_log_recount(log, NULL, NULL, &live))
		WARN(counted != (s64)live, "kvtree: %lld bytes are live, but %llu are there\n",
		     counted, live);
}
