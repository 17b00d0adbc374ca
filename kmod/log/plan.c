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
#include <linux/sort.h>

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
	deltas = kvt_log_range_bytes(range) - base;
	average = div_u64(base, max(range->piece[0].records, 1U));
	if (deltas + average * bitmap_weight(kvt_mark_bits(mark), KVT_COVER_BITS) > base / 2)
		return 0;
	return min(base / 2 - deltas, saved->range_bytes);
}

/* Whether a range is unchanged, but so small that it is better merged with a neighbour. */
static bool range_joins(const struct kvt_saved *saved, u32 i)
{
	return saved->marks[i] == KVT_MARK_NONE &&
	       kvt_log_range_bytes(saved->old->range[i]) < saved->range_bytes / 4;
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

/* Whether a range is written in this step, of those that the checkpoint writes. */
static bool plan_has(const struct kvt_saved *saved, u32 i)
{
	return test_bit(i, saved->todo) && !(saved->left && test_bit(i, saved->left));
}

/*
 * Steps.  If there is no room for everything, a step writes those ranges first that free segments
 * at the least cost.  A segment is free when all ranges with a base in it have been written again:
 * these ranges are a group.  Between steps the devices hold what was written and the segments of
 * the groups that are left.  As the cheapest groups come first, that is most before the first
 * step or after the last one.
 */
struct member {
	u64 place;		/* of the range's base: device and segment; U64_MAX: none */
	u64 bytes;
	u32 range;
	bool todo;		/* the range must be written */
};

struct group {
	u64 bytes;		/* of the members that must be written */
	u32 first;		/* of the members */
	u32 nr;
	bool todo;		/* a member must be written */
	bool stays;		/* this frees nothing: there is no segment, or others stay there */
};

struct plan {
	u32 nr_members;
	struct member *members;
	u32 nr_groups;
	struct group *groups;
};

static int member_cmp(const void *a, const void *b)
{
	const struct member *x = a, *y = b;

	cond_resched();
	return x->place < y->place ? -1 : x->place > y->place;
}

/* Groups that free nothing come last. */
static int group_cmp(const void *a, const void *b)
{
	const struct group *x = a, *y = b;

	cond_resched();
	if (x->stays != y->stays)
		return x->stays ? 1 : -1;
	return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

static u64 range_place(const struct kvt_log_range *range)
{
	const struct kvt_log_piece *base = &range->piece[0];

	return range->nr_pieces ? (u64)base->dev << 32 | base->pos.segment : U64_MAX;
}

/*
 * By how much each changed range has grown since it was written: an equal part of what is live now
 * and was not then.  The last one of an ascending load, or one without pieces, may have grown more.
 */
static u64 plan_growth(const struct kvt_saved *saved)
{
	u64 bytes = 0;
	u32 nr = 0, i;

	for (i = 0; i < saved->old->nr; i++) {
		bytes += kvt_log_range_bytes(saved->old->range[i]);
		nr += saved->marks[i] != KVT_MARK_NONE;
		cond_resched();
	}
	return saved->live > bytes && nr ? div_u64(saved->live - bytes, nr) : 0;
}

static int plan_init(struct plan *plan, const struct kvt_saved *saved)
{
	u64 growth = plan_growth(saved);
	u32 nr = saved->old->nr, i;

	plan->members = kvmalloc_array(nr, sizeof(*plan->members), GFP_KERNEL);
	plan->groups = kvmalloc_array(nr, sizeof(*plan->groups), GFP_KERNEL);
	if (!plan->members || !plan->groups)
		return -ENOMEM;
	for (i = 0; i < nr; i++) {
		plan->members[i] = (struct member) {
			.place = range_place(saved->old->range[i]),
			.bytes = kvt_log_range_bytes(saved->old->range[i]) +
				 (saved->marks[i] == KVT_MARK_NONE ? 0 : growth),
			.range = i,
			.todo = test_bit(i, saved->todo),
		};
		cond_resched();
	}
	plan->nr_members = nr;
	return 0;
}

static void group_add(struct group *group, const struct member *member)
{
	group->nr++;
	if (member->todo) {
		group->todo = true;
		group->bytes += member->bytes;
	} else {
		group->stays = true;
	}
}

/* Leave out groups of which nothing must be written. */
static void plan_group(struct plan *plan)
{
	struct group *group = NULL;
	u32 i;

	sort(plan->members, plan->nr_members, sizeof(*plan->members), member_cmp, NULL);
	for (i = 0; i < plan->nr_members; i++) {
		if (!i || plan->members[i].place != plan->members[i - 1].place) {
			plan->nr_groups += group && group->todo;
			group = &plan->groups[plan->nr_groups];
			*group = (struct group) {
				.first = i,
				.stays = plan->members[i].place == U64_MAX,
			};
		}
		group_add(group, &plan->members[i]);
	}
	plan->nr_groups += group && group->todo;
	sort(plan->groups, plan->nr_groups, sizeof(*plan->groups), group_cmp, NULL);
}

/*
 * Leave the groups for which there is no room to later steps.  At least one is written; if there
 * was no room for what came first in @tries steps, it comes last.  Returns the room that is left.
 */
static u64 plan_leave(const struct plan *plan, struct kvt_saved *saved, u64 room)
{
	const struct group *group;
	u64 bytes = 0;
	u32 i, j;

	for (i = 0; i < plan->nr_groups; i++) {
		group = &plan->groups[(i + saved->tries) % plan->nr_groups];
		if (i && bytes + group->bytes > room)
			break;
		bytes += group->bytes;
		for (j = 0; j < group->nr; j++)
			__clear_bit(plan->members[group->first + j].range, saved->left);
	}
	return room > bytes ? room - bytes : 0;
}

/* Write a small range with its neighbour, if there is room.  Returns the room that is left. */
static u64 plan_join(struct kvt_saved *saved, u32 i, u32 neighbour, u64 room)
{
	u64 bytes = kvt_log_range_bytes(saved->old->range[i]);

	if (!test_bit(i, saved->left) || !plan_has(saved, neighbour) || !range_joins(saved, i) ||
	    bytes > room)
		return room;
	__clear_bit(i, saved->left);
	return room - bytes;
}

/* Small ranges are written with their neighbours: left to other steps, they would stay small. */
static void plan_joins(struct kvt_saved *saved, u64 room)
{
	u32 nr = saved->old->nr, i;

	for (i = 1; i < nr; i++) {
		room = plan_join(saved, i, i - 1, room);
		cond_resched();
	}
	for (i = nr - 1; i--;) {
		room = plan_join(saved, i, i + 1, room);
		cond_resched();
	}
}

static int plan_step(struct kvt_saved *saved, u64 room)
{
	struct plan plan = {};
	int err;

	saved->left = kvmemdup(saved->todo, BITS_TO_LONGS(saved->old->nr) * sizeof(long),
			       GFP_KERNEL);
	err = saved->left ? plan_init(&plan, saved) : -ENOMEM;
	if (!err) {
		plan_group(&plan);
		plan_joins(saved, plan_leave(&plan, saved, room));
		if (bitmap_empty(saved->left, saved->old->nr)) {
			kvfree(saved->left);
			saved->left = NULL;
		}
	}
	kvfree(plan.members);
	kvfree(plan.groups);
	return err;
}

/* Plan new bases for the ranges of this step. */
static void plan_todo(struct kvt_saved *saved)
{
	struct kvt_job *last = NULL;
	u32 i;

	for_each_set_bit(i, saved->todo, saved->old->nr) {
		cond_resched();
		if (!plan_has(saved, i))
			continue;
		if (last && last->end == i)
			last->end++;
		else
			last = plan_add(saved, i, 0);
	}
}

/* The bytes of a new range: more in large stores, so that the directory stays small. */
static u32 range_bytes_wanted(u64 live)
{
	return clamp_t(u64, live / RANGES_MANY, READ_ONCE(log_range_bytes), KVT_LOG_PIECE_BYTES);
}

/**
 * kvt_plan() - decide what to write of each range
 * @saved: its old directory, marks, ranges to be written, tries and live bytes are set; its jobs
 *	are filled in, and the ranges left to later steps
 * @room: bytes for which there is room; only a checkpoint that writes everything has several steps
 *
 * Context: process context, may sleep.
 *
 * Return: 0 or -ENOMEM.
 */
int kvt_plan(struct kvt_saved *saved, u64 room)
{
	u32 i, nr = saved->old->nr;
	int err = 0;

	saved->range_bytes = range_bytes_wanted(saved->live);
	saved->cover_bits = READ_ONCE(log_cover_bits);
	saved->jobs = kvmalloc_array(nr, sizeof(*saved->jobs), GFP_KERNEL);
	if (!saved->jobs)
		return -ENOMEM;
	if (saved->todo) {
		if (saved->live > room)
			err = plan_step(saved, room);
		if (!err)
			plan_todo(saved);
		return err;
	}
	for (i = 0; i < nr; i++) {
		plan_range(saved, i);
		cond_resched();
	}
	return 0;
}
KVT_EXPORT_FOR_TESTS(kvt_plan);
