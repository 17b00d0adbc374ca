/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Counters of a store: one row per CPU, so that counting never shares a cache
 * line between writers.  The ids are those of enum kvtree_stat, and from
 * KVT_STAT_ENGINE on those of the store's engine, which says what they are.
 */
#ifndef KVT_BASE_STATS_H
#define KVT_BASE_STATS_H

#include <linux/errno.h>
#include <linux/percpu.h>
#include <linux/types.h>
#include <linux/kvtree.h>

#define KVT_STAT_ENGINE		KVTREE_STAT_NR
/* How many an engine may have. */
#define KVT_STAT_ENGINE_MAX	20

struct kvt_stats_cpu {
	u64 count[KVTREE_STAT_NR + KVT_STAT_ENGINE_MAX];
};

struct kvt_stats {
	struct kvt_stats_cpu __percpu *cpu;
};

/* Any context.  Counts may go down: they are summed modulo 2^64. */
static inline void kvt_stat_add(struct kvt_stats *stats, unsigned int id, s64 n)
{
	this_cpu_add(stats->cpu->count[id], n);
}

static inline void kvt_stat_inc(struct kvt_stats *stats, unsigned int id)
{
	this_cpu_inc(stats->cpu->count[id]);
}

/* Count a get.  It has been answered with @result. */
static inline void kvt_stat_get(struct kvt_stats *stats, int result)
{
	kvt_stat_inc(stats, KVTREE_STAT_GET);
	if (result == -ENOENT)
		kvt_stat_inc(stats, KVTREE_STAT_GET_MISS);
}

int kvt_stats_init(struct kvt_stats *stats);
void kvt_stats_exit(struct kvt_stats *stats);
u64 kvt_stats_read(const struct kvt_stats *stats, unsigned int id);

#endif /* KVT_BASE_STATS_H */
