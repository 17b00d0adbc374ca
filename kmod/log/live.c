// SPDX-License-Identifier: GPL-2.0
/*
 * What is live: the bytes of records that a checkpoint would write.
 *
 * Every change counts, so CPUs count apart, and what all of them have not told each
 * other yet is no more than half a segment: it is part of what the log leaves room for.
 */
#include <linux/cpumask.h>
#include <linux/rcupdate.h>
#include <linux/sched/signal.h>

#include "../index.h"
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
		bytes = min(bytes, kvt_room_segment(&log->dev[i]));
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

static u64 value_bytes(const struct kvt_iter *iter, const struct kvt_value *v)
{
	struct kvt_log_size size = kvt_log_size(iter->len, v);

	return kvt_log_size_bytes(&size);
}

/**
 * kvt_log_recount() - go through all values and count what is live
 * @log: the log
 * @live: set to what KVTREE_STAT_LOG_LIVE_BYTES should be, if nothing changes meanwhile
 *
 * Context: process context, sleeps.
 *
 * Return: 0; -ENOMEM; or -EINTR: a fatal signal came.
 */
int kvt_log_recount(struct kvt_log *log, u64 *live)
{
	struct kvt_index *index = log->env.index;
	struct kvt_iter *iter = kvzalloc(index->ops->iter_size, GFP_KERNEL);
	struct kvt_value *v;

	if (!iter)
		return -ENOMEM;
	iter->index = index;
	iter->bound = KVT_AT;
	index->ops->iter_rest(iter);
	*live = 0;
	do {
		rcu_read_lock();
		v = kvt_iter_one(iter);
		if (!IS_ERR_OR_NULL(v))
			*live += value_bytes(iter, v);
		rcu_read_unlock();
		index->ops->iter_rest(iter);
		cond_resched();
	} while (v && !fatal_signal_pending(current));
	kvfree(iter);
	return v ? -EINTR : 0;
}

/**
 * kvt_live_check() - see that what was counted is what is there
 * @log: the log, whose store nobody changes
 *
 * In kernels that tests are made for, so that each of them does this.
 *
 * Context: process context, sleeps.
 */
void kvt_live_check(struct kvt_log *log)
{
	s64 counted = percpu_counter_sum(&log->live);
	u64 live;

	if (IS_ENABLED(CONFIG_KUNIT) && !kvt_log_recount(log, &live))
		WARN(counted != (s64)live, "kvtree: %lld bytes are live, but %llu are there\n",
		     counted, live);
}
