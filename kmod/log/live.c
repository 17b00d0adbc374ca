// SPDX-License-Identifier: GPL-2.0
/*
 * What is live: the bytes of records that a checkpoint would write.
 *
 * Every change counts, so CPUs count apart, and what all of them have not told each
 * other yet is no more than half a segment: it is part of what the log leaves room for.
 */
#include <linux/cpumask.h>

#include "space.h"

/**
 * kvt_live_init() - choose how exactly to count
 * @space: the space, whose devices are known
 */
void kvt_live_init(struct kvt_space *space)
{
	u64 bytes = S32_MAX;
	u32 i;

	for (i = 0; i < space->devs->nr; i++)
		bytes = min(bytes, kvt_part_segment(&space->part[i]));
	space->live_batch = bytes / 2 / num_possible_cpus();
}
KVT_EXPORT_FOR_TESTS(kvt_live_init);

/**
 * kvt_live_bytes() - how much is live
 * @space: the space
 *
 * Context: any.
 *
 * Return: bytes, with an error of at most kvt_live_slack().
 */
u64 kvt_live_bytes(const struct kvt_space *space)
{
	return percpu_counter_read_positive((struct percpu_counter *)&space->live);
}
KVT_EXPORT_FOR_TESTS(kvt_live_bytes);

/**
 * kvt_live_slack() - how exact kvt_live_bytes() is
 * @space: the space
 *
 * Context: any.
 *
 * Return: bytes.
 */
u64 kvt_live_slack(const struct kvt_space *space)
{
	return (u64)space->live_batch * num_possible_cpus();
}
KVT_EXPORT_FOR_TESTS(kvt_live_slack);

/**
 * kvt_live_now() - what is live
 * @space: the space
 *
 * Context: any.
 *
 * Return: bytes, with an error of at most kvt_live_slack().
 */
struct kvt_live kvt_live_now(const struct kvt_space *space)
{
	return (struct kvt_live) {
		.bytes = kvt_live_bytes(space),
		.large = atomic64_read(&space->large),
	};
}
