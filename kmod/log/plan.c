// SPDX-License-Identifier: GPL-2.0
/*
 * Planning: decide what a checkpoint writes of each range.
 *
 * - Nothing, if the range has not changed: its pieces stay where they are.
 * - A delta, if little has changed: the range's keys that have a marked hash bit.
 * - Otherwise a new base: all keys.  Neighbouring ranges that get a new base are written together
 *   and divided into new ranges.
 *
 * A range also gets a new base when its deltas have grown to half of the base, or when it has many
 * pieces.  This maximum of pieces depends on the range's key, so that not all ranges reach it at
 * the same time.
 */
#include <linux/bitmap.h>
#include <linux/sizes.h>
#include <linux/slab.h>

#include "base/mem.h"
#include "checkpoint.h"

/* The number of ranges at which ranges become larger instead of more. */
#define RANGES_MANY	(KVTREE_LOG_RANGES_MAX / 64)
/* The smallest of the ranges' maximums of pieces. */
#define PIECES_MANY	(KVTREE_LOG_PIECES_MAX / 2)

static unsigned int log_range_bytes = KVT_AUDITS ? SZ_1K : KVT_LOG_PIECE_BYTES;
/* With many small ranges, the directory would take more than the room kept for checkpoints. */
KVT_LOG_PARAM(log_range_bytes, log_range_bytes, KVT_AUDITS ? 64 : SZ_4K, KVT_LOG_PIECE_BYTES);
MODULE_PARM_DESC(log_range_bytes, "bytes of records in a range of a checkpoint, at most 65536");

static unsigned int log_cover_bits = KVT_AUDITS ? 5 : KVTREE_LOG_COVER_BITS;
KVT_LOG_PARAM(log_cover_bits, log_cover_bits, 1, KVTREE_LOG_COVER_BITS);
MODULE_PARM_DESC(log_cover_bits, "bits of a key's hash that checkpoints use to track changes in a range, at most 12");

static u64 range_bytes(const struct kvt_log_range *range)
{
	u64 bytes = 0;
	u32 i;

	for (i = 0; i < range->nr_pieces; i++)
		bytes += kvt_log_piece_bytes(&range->piece[i]);
	return bytes;
}

static u32 pieces_max(const struct kvt_log_range *range)
{
	return PIECES_MANY + kvt_crc32c(~0, range->key, range->key_len) % PIECES_MANY;
}

/* The most bytes of records that a range's delta may have; 0: it needs a new base. */
static u32 delta_max(const struct kvt_saved *saved, u32 i)
{
	const struct kvt_log_range *range = saved->old->range[i];
	unsigned long mark = saved->marks[i];
	u64 base, deltas, average;

	if (mark == KVT_MARK_WHOLE || !range->nr_pieces || range->nr_pieces >= pieces_max(range))
		return 0;
	base = kvt_log_piece_bytes(&range->piece[0]);
	deltas = range_bytes(range) - base;
	average = div_u64(base, max(range->piece[0].records, 1U));
	if (deltas + average * bitmap_weight(kvt_mark_bits(mark), KVT_COVER_BITS) > base / 2)
		return 0;
	return min(base / 2 - deltas, saved->range_bytes);
}

/* Whether a range is unchanged, but so small that it is better merged with a neighbour. */
static bool range_joins(const struct kvt_saved *saved, u32 i)
{
	return saved->marks[i] == KVT_MARK_NONE &&
	       range_bytes(saved->old->range[i]) < saved->range_bytes / 4;
}

static struct kvt_job *plan_add(struct kvt_saved *saved, u32 i, u32 delta)
{
	struct kvt_job *job = &saved->jobs[saved->nr_jobs++];

	*job = (struct kvt_job) { .first = i, .end = i + 1, .delta_max = delta };
	return job;
}

/* Plan a new base for a range, together with the range before it if that gets one too. */
static void plan_base(struct kvt_saved *saved, u32 i)
{
	struct kvt_job *last = saved->nr_jobs ? &saved->jobs[saved->nr_jobs - 1] : NULL;
	u32 end = last ? last->end : 0;
	struct kvt_job *job;

	if (last && last->end == i && !last->delta_max) {
		last->end++;
		return;
	}
	job = plan_add(saved, i, 0);
	while (job->first > end && range_joins(saved, job->first - 1))
		job->first--;
}

static void plan_range(struct kvt_saved *saved, u32 i)
{
	const struct kvt_job *last = saved->nr_jobs ? &saved->jobs[saved->nr_jobs - 1] : NULL;
	u32 delta;

	if (saved->marks[i] == KVT_MARK_NONE) {
		if (last && last->end == i && !last->delta_max && range_joins(saved, i))
			plan_base(saved, i);
		return;
	}
	delta = delta_max(saved, i);
	if (delta)
		plan_add(saved, i, delta);
	else
		plan_base(saved, i);
}

/* The bytes of a new range: more in large stores, so that the directory stays small. */
static u32 range_bytes_wanted(u64 live)
{
	return clamp_t(u64, live / RANGES_MANY, READ_ONCE(log_range_bytes), KVT_LOG_PIECE_BYTES);
}

/**
 * kvt_plan() - decide what to write of each range
 * @saved: its old directory, marks and live bytes are set; its jobs and size are filled in
 * @full: write everything again
 *
 * Context: process context, may sleep.
 *
 * Return: 0 or -ENOMEM.
 */
int kvt_plan(struct kvt_saved *saved, bool full)
{
	u32 i, nr = saved->old->nr;

	saved->range_bytes = range_bytes_wanted(saved->live);
	saved->cover_bits = READ_ONCE(log_cover_bits);
	saved->jobs = kvmalloc_array(full ? 1 : nr, sizeof(*saved->jobs), GFP_KERNEL);
	if (!saved->jobs)
		return -ENOMEM;
	if (full) {
		plan_add(saved, 0, 0)->end = nr;
		saved->size = saved->live;
		return 0;
	}
	for (i = 0; i < nr; i++) {
		plan_range(saved, i);
		cond_resched();
	}
	return 0;
}
KVT_EXPORT_FOR_TESTS(kvt_plan);
