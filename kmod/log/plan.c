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
#include <linux/math64.h>
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

/*
 * Steps.  If there is no room for everything, a step writes those ranges first that free more than
 * they need.  A segment is free when all ranges with a base in it have been written again: these
 * ranges are a group, and its cost is what they hold now.  Between steps the devices hold what was
 * written and the segments of the groups that are left.  As the groups that gain come first, that
 * is most before the first step or after the last one: see room.c.  Of these groups, and of the
 * others, each device has its turns, so that none is the last to get room.
 */
struct member {
	u64 place;		/* of the range's base: device and segment; U64_MAX: none */
	u64 bytes;
	u32 range;
	bool todo;		/* the range must be written */
};

struct group {
	s64 bytes;		/* of the members that must be written */
	s64 segment;		/* bytes that their segment holds */
	u32 dev;
	u64 turn;		/* the part of its device's groups that precedes it */
	u32 first;		/* of the members */
	u32 nr;
	bool todo;		/* a member must be written */
	bool stays;		/* this frees nothing: there is no segment, or others stay there */
};

struct plan {
	bool small;			/* of kvt_room_small() */
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

/* How much more is written than becomes free. */
static s64 group_loss(const struct group *group)
{
	return group->bytes - group->segment;
}

static int loss_cmp(const void *a, const void *b)
{
	s64 x = group_loss(a), y = group_loss(b);

	cond_resched();
	return x < y ? -1 : x > y;
}

/* Groups that free nothing come last, and before them those that lose. */
static u32 group_rank(const struct group *group)
{
	return group->stays ? 2 : group_loss(group) >= 0;
}

static int turn_cmp(const void *a, const void *b)
{
	const struct group *x = a, *y = b;
	u32 i = group_rank(x), j = group_rank(y);

	if (i != j)
		return i < j ? -1 : 1;
	if (x->turn != y->turn)
		return x->turn < y->turn ? -1 : 1;
	return loss_cmp(a, b);
}

static void plan_sort(struct plan *plan)
{
	u32 all[KVTREE_LOG_DEVS_MAX] = {}, nr[KVTREE_LOG_DEVS_MAX] = {}, i;
	struct group *group;

	sort(plan->groups, plan->nr_groups, sizeof(*plan->groups), loss_cmp, NULL);
	for (i = 0; i < plan->nr_groups; i++)
		all[plan->groups[i].dev]++;
	for (i = 0; i < plan->nr_groups; i++) {
		group = &plan->groups[i];
		nr[group->dev]++;
		group->turn = div_u64((u64)nr[group->dev] << 32, all[group->dev]);
	}
	sort(plan->groups, plan->nr_groups, sizeof(*plan->groups), turn_cmp, NULL);
}

static u64 range_place(const struct kvt_log_range *range)
{
	const struct kvt_log_piece *base = &range->piece[0];

	return range->nr_pieces ? (u64)base->dev << 32 | base->pos.segment : U64_MAX;
}

/* The device and segment of a range's base, of which a place consists. */
static const struct kvt_part *place_part(const struct kvt_saved *saved, u64 place)
{
	return &saved->log->space.part[place >> 32];
}

/* Whether a segment becomes free when the ranges with bases there are written again. */
static bool place_frees(const struct kvt_saved *saved, u64 place)
{
	return place != U64_MAX && place_part(saved, place)->segs.seg[(u32)place].base;
}

/* The most groups: each segment may have one, and so has what is in none. */
static u64 groups_max(const struct kvt_saved *saved)
{
	const struct kvt_space *space = &saved->log->space;
	u64 nr = 1;
	u32 i;

	for (i = 0; i < space->devs->nr; i++)
		nr += space->part[i].segs.nr;
	return min(nr, saved->old->nr);
}

static int plan_init(struct plan *plan, const struct kvt_saved *saved)
{
	u32 nr = saved->old->nr, i;

	plan->small = kvt_room_small(&saved->log->space);
	plan->members = kvmalloc_array(nr, sizeof(*plan->members), GFP_KERNEL);
	/* And the one being made, which is left out if nothing of it must be written. */
	plan->groups = kvmalloc_array(groups_max(saved) + 1, sizeof(*plan->groups), GFP_KERNEL);
	if (!plan->members || !plan->groups)
		return -ENOMEM;
	for (i = 0; i < nr; i++) {
		plan->members[i] = (struct member) {
			.place = range_place(saved->old->range[i]),
			.bytes = kvt_room_cost(saved->costs[i], plan->small),
			.range = i,
			.todo = test_bit(i, saved->todo),
		};
		cond_resched();
	}
	plan->nr_members = nr;
	return 0;
}

static struct group group_of(const struct plan *plan, const struct kvt_saved *saved, u64 place)
{
	if (!place_frees(saved, place))
		return (struct group) { .stays = true };
	return (struct group) {
		.segment = kvt_room_segment(place_part(saved, place), plan->small),
		.dev = place >> 32,
	};
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

/* How much more all groups write than they free. */
static s64 plan_net(const struct plan *plan)
{
	const struct group *group;
	s64 net = 0;
	u32 i;

	for (i = 0; i < plan->nr_groups; i++) {
		group = &plan->groups[i];
		net += group->stays ? group->bytes : group_loss(group);
	}
	return net;
}

static void group_complete(struct plan *plan, struct group *group, struct kvt_saved *saved)
{
	struct member *member;
	u32 i;

	for (i = 0; i < group->nr; i++) {
		member = &plan->members[group->first + i];
		if (member->todo)
			continue;
		member->todo = true;
		group->bytes += member->bytes;
		__set_bit(member->range, saved->todo);
		__set_bit(member->range, saved->left);
	}
	group->stays = false;
}

/*
 * If an earlier checkpoint was interrupted, what it has written is not written again, unless it has
 * changed since.  Changed ranges free nothing as long as others stay in their segments.  If there
 * is no room for that, write those others again as well.
 */
static void plan_complete(struct plan *plan, struct kvt_saved *saved)
{
	struct group *group;
	u32 i;

	if (plan_net(plan) <= (s64)kvt_room_net(&saved->log->space))
		return;
	for (i = 0; i < plan->nr_groups; i++) {
		group = &plan->groups[i];
		if (group->stays && place_frees(saved, plan->members[group->first].place))
			group_complete(plan, group, saved);
		cond_resched();
	}
}

/* Leave out groups of which nothing must be written. */
static void plan_group(struct plan *plan, const struct kvt_saved *saved)
{
	struct group *group = NULL;
	u32 i;

	sort(plan->members, plan->nr_members, sizeof(*plan->members), member_cmp, NULL);
	for (i = 0; i < plan->nr_members; i++) {
		if (!i || plan->members[i].place != plan->members[i - 1].place) {
			plan->nr_groups += group && group->todo;
			group = &plan->groups[plan->nr_groups];
			*group = group_of(plan, saved, plan->members[i].place);
			group->first = i;
		}
		group_add(group, &plan->members[i]);
	}
	plan->nr_groups += group && group->todo;
}

/*
 * Leave the groups for which there is no room to later steps.  At least one is written.  Returns
 * the room that is left.
 */
static u64 plan_leave(const struct plan *plan, struct kvt_saved *saved, u64 room)
{
	const struct group *group;
	u64 bytes = 0;
	u32 i, j;

	for (i = 0; i < plan->nr_groups; i++) {
		group = &plan->groups[i];
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

	if (!test_bit(i, saved->left) || !kvt_saved_writes(saved, neighbour) ||
	    !range_joins(saved, i) || bytes > room)
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
		plan_group(&plan, saved);
		plan_complete(&plan, saved);
		plan_sort(&plan);
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
		if (!kvt_saved_writes(saved, i))
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
 * @saved: its old directory, marks, ranges to be written, costs and live bytes are set; its jobs
 *	are filled in, and the ranges left to later steps
 * @room: of kvt_room_step(); only a checkpoint that writes everything has several steps
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
		if (room != U64_MAX)
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
