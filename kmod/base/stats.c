// SPDX-License-Identifier: GPL-2.0
/* Counters of a store. */
#include <linux/cpumask.h>
#include <linux/errno.h>

#include "compat.h"
#include "stats.h"

/**
 * kvt_stats_init() - make a set of counters, all zero
 * @stats: to be filled
 *
 * Context: process context, may sleep.
 *
 * Return: 0 or -ENOMEM.
 */
int kvt_stats_init(struct kvt_stats *stats)
{
	stats->cpu = alloc_percpu(struct kvt_stats_cpu);
	return stats->cpu ? 0 : -ENOMEM;
}
KVT_EXPORT_FOR_TESTS(kvt_stats_init);

/**
 * kvt_stats_exit() - free a set of counters
 * @stats: of kvt_stats_init(); not used any more
 *
 * Context: process context.
 */
void kvt_stats_exit(struct kvt_stats *stats)
{
	free_percpu(stats->cpu);
	stats->cpu = NULL;
}
KVT_EXPORT_FOR_TESTS(kvt_stats_exit);

/**
 * kvt_stats_read() - the sum of a counter over all CPUs
 * @stats: the counters
 * @id: which
 *
 * Context: any.
 *
 * Return: the sum; exact if nothing is counted meanwhile.
 */
u64 kvt_stats_read(const struct kvt_stats *stats, unsigned int id)
{
	u64 sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += READ_ONCE(per_cpu_ptr(stats->cpu, cpu)->count[id]);
	return sum;
}
KVT_EXPORT(kvt_stats_read);
