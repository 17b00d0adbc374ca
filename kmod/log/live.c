// SPDX-License-Identifier: GPL-2.0
/*
 * Live bytes: the size of the records that a checkpoint of everything would write.
 *
 * Every change updates the count, so each CPU counts for itself and adds its part to the total
 * from time to time.  The total is never off by more than half a segment, and the log keeps room
 * for that much.
 */
#include <linux/cpumask.h>

#include "space.h"

/**
 * kvt_live_init() - choose how much each CPU may count for itself
 * @space: the space; its devices are known
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
 * kvt_live_slack() - the largest error of kvt_live_bytes()
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
 * Return: live bytes, off by kvt_live_slack() at most, and the exact part of large records.
 */
struct kvt_live kvt_live_now(const struct kvt_space *space)
{
	return (struct kvt_live) {
		.bytes = kvt_live_bytes(space),
		.large = atomic64_read(&space->large),
	};
}
