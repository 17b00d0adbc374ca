// SPDX-License-Identifier: GPL-2.0
/*
 * The reserves of the log, for 1 to 1024 CPUs (and so up to 128 streams), 1 to 8 devices, and
 * segments of all sizes.
 *
 * The test models a device as a number of free segments, and of segments with bases, each of which
 * is a group of ranges that together hold any number of bytes.  Streams and commits take all
 * segments that kvt_room_keep() allows, at every point of a checkpoint, and what they fill stays
 * undurable as long as the log permits.  The checkpoint has to write as much as the store can have
 * grown to since a stream took the last segment.  Nevertheless it must find room for each of its
 * steps, and for what is committed at their ends, and so must the next checkpoint.  After any step
 * there may be a crash; the next attach must be able to carry the last epoch, and to make a
 * checkpoint before it begins a life.  A checkpoint may also be interrupted, and the next one goes
 * on after everything has changed.  In between, there may be a checkpoint that leaves unchanged
 * ranges where they are, takes all that it may for others, and frees nothing but the log.
 */
#include <linux/log2.h>
#include <linux/math64.h>
#include <linux/percpu_counter.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/sort.h>

#include "lib.h"
#include "log/space.h"

/* Bytes, as powers of two. */
#define LR_LEAST	27
#define LR_MOST		46
/* The most blocks that a chunk has beyond its bytes: padding of records, and of columns outside. */
#define LR_PADDING	2ULL
/* The most parts of a directory. */
#define LR_PARTS	64ULL
/* How many checkpoints are made, one after the other. */
#define LR_ROUNDS	3
/* The most segments of a device in a test with groups. */
#define LR_SEGMENTS	128
#define LR_GROUPS	(LR_SEGMENTS * KVTREE_LOG_DEVS_MAX)
/* The precision with which others_grow() finds how far a store may grow, in bytes. */
#define LR_GROWS	SZ_1M

/* How the devices of a log differ: all but the first have fewer segments, or smaller ones. */
enum lr_kind {
	LR_EQUAL,
	LR_FEWER,
	LR_SMALLER,
	LR_KINDS,
};

/*
 * A segment with bases, and how many bytes their ranges hold now.  @rest: what else is there that
 * an interrupted checkpoint has written, and that has not changed: it may stay.
 */
struct lr_group {
	u32 dev;
	u64 bytes;
	u64 rest;
	s64 loss;		/* of writing it: its bytes, less what its segment holds */
	u64 turn;
	u8 rank;
};

/* How what is live is distributed over the groups. */
enum lr_costs {
	LR_EVEN,
	LR_HALVES,		/* half of the groups have nothing left */
	LR_ONE,			/* one group of each device has all */
	LR_RISING,
	LR_ONE_DEVICE,		/* the groups of one device have all */
	LR_COSTS,
};

/* A device on which checkpoints are made, one after the other. */
struct lr_dev {
	struct kvt_part *part;
	u32 streams;
	u32 ahead;		/* segments filled by streams, and not durable */
	u32 drain;		/* segments for what is in the buffers */
	u32 log;		/* segments filled with log */
	u32 passes;		/* of these, the ones that the current checkpoint frees */
	u32 old;		/* segments with the rest of earlier checkpoints */
	u32 before;		/* of one that has not ended: nothing but directories */
	u64 open;		/* bytes left in the segment to which bases are appended */
	u64 bytes;		/* of bases that the current checkpoint has written */
	u32 rest[2];		/* the rest of the current one: segments freed, and taken so far */
	u64 rest_at;		/* bytes written there */
	u64 rest_bytes;		/* of the current directory, in @bytes */
};

/* What is restored after a crash was tried. */
struct lr_state {
	struct lr_dev dev[KVTREE_LOG_DEVS_MAX];
	struct kvt_seg_table segs[KVTREE_LOG_DEVS_MAX];
	u32 nr_groups;
	u32 nr_made;
	u32 nr_stay;
	struct lr_group group[LR_GROUPS];
	struct lr_group made[LR_GROUPS];
	struct lr_group stay[LR_GROUPS];
};

/* The space of an empty log. */
struct lr {
	struct kunit *test;
	struct kvt_log_state state;
	struct kvt_devs devs;
	struct kvt_space space;
	struct kvtree_log_super super[KVTREE_LOG_DEVS_MAX];
	struct lr_dev dev[KVTREE_LOG_DEVS_MAX];
	bool resumed;		/* the current checkpoint goes on where one was interrupted */
	bool grows;		/* streams write new keys, so the store grows */
	bool writes;		/* others take segments during a checkpoint */
	u32 ended;		/* steps since they do not */
	enum lr_costs costs;
	const char *what;	/* there may be no room for */
	struct kvt_live then;	/* what may be live, though the count is less */
	u64 total;		/* bytes that a checkpoint writes */
	u32 nr_groups;		/* segments with bases */
	struct lr_group *group;
	u32 nr_made;		/* segments with bases that the current checkpoint has written */
	struct lr_group *made;
	u32 nr_stay;		/* segments of which it has left the rest */
	struct lr_group *stay;
	u64 rest_before[KVTREE_LOG_DEVS_MAX];	/* dev[].rest_at before the current directory */
	struct lr_state *kept;
	u64 max;		/* the most live bytes */
	u32 large;		/* how many sixteenths of these are in records of maximum size */
	u32 step_segments;	/* the parameter as it was */
};

static void lr_free(void *arg)
{
	struct lr *lr = arg;

	kvfree(lr->group);
	kvfree(lr->made);
	kvfree(lr->stay);
	kvfree(lr->kept);
	WRITE_ONCE(kvt_log_step_segments, lr->step_segments);
	percpu_counter_destroy(&lr->space.live);
}

static struct lr *lr_new(struct kunit *test)
{
	struct lr *lr = kunit_kzalloc(test, sizeof(*lr), GFP_KERNEL);
	u32 i;

	KUNIT_ASSERT_NOT_NULL(test, lr);
	KUNIT_ASSERT_EQ(test, 0, percpu_counter_init(&lr->space.live, 0, GFP_KERNEL));
	lr->step_segments = kvt_log_step_segments;
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, lr_free, lr));
	lr->test = test;
	lr->what = "anything";
	lr->group = kvcalloc(LR_GROUPS, sizeof(*lr->group), GFP_KERNEL);
	lr->made = kvcalloc(LR_GROUPS, sizeof(*lr->made), GFP_KERNEL);
	lr->stay = kvcalloc(LR_GROUPS, sizeof(*lr->stay), GFP_KERNEL);
	lr->kept = kvzalloc(sizeof(*lr->kept), GFP_KERNEL);
	KUNIT_ASSERT_TRUE(test, lr->group && lr->made && lr->stay && lr->kept);
	lr->state.alive = true;
	lr->devs.state = &lr->state;
	lr->space.state = &lr->state;
	lr->space.devs = &lr->devs;
	for (i = 0; i < KVTREE_LOG_DEVS_MAX; i++) {
		lr->devs.dev[i] = (struct kvt_log_dev) {
			.devs = &lr->devs, .index = i, .super = &lr->super[i],
		};
		lr->space.part[i].space = &lr->space;
		lr->space.part[i].dev = &lr->devs.dev[i];
		lr->dev[i].part = &lr->space.part[i];
	}
	return lr;
}

/*
 * The bytes of a device's segment, and (below) how many of them chunks fill at least: those of
 * streams, those of checkpoints, and of these the ones with small records.
 */
static u64 lr_segment(const struct lr *lr, u32 i)
{
	return (u64)le32_to_cpu(lr->super[i].segment_blocks) * KVTREE_LOG_BLOCK;
}

static u64 lr_filled(const struct lr *lr, u32 i)
{
	return lr_segment(lr, i) - KVT_LOG_CHUNK_BYTES;
}

static u64 lr_filled_any(const struct lr *lr, u32 i)
{
	return lr_segment(lr, i) - KVT_SAVE_CHUNK_BYTES;
}

static u64 lr_filled_small(const struct lr *lr, u32 i)
{
	return lr_segment(lr, i) - KVT_SAVE_CHUNK_SMALL;
}

/* What is live, if it is @live bytes, with lr->large. */
static struct kvt_live lr_of(const struct lr *lr, u64 live)
{
	u64 large = live / 16 * lr->large;

	return (struct kvt_live) {
		.bytes = live,
		.large = large - large / (KVTREE_VALUE_MAX / KVT_LOG_RECORD_SMALL),
	};
}

/* The most bytes that may be live. */
static u64 lr_max(const struct lr *lr)
{
	u64 max = 0, step;

	for (step = BIT_ULL(LR_MOST); step; step /= 2)
		if (kvt_room_holds(&lr->space, lr_of(lr, max + step)))
			max += step;
	return max;
}

/* Set up devices; the first one has @nr segments with @blocks blocks. */
static void lr_set(struct lr *lr, u32 cpus, u32 devs, u32 blocks, u32 nr, enum lr_kind kind)
{
	u64 buffers = KVT_LOG_SEALED_BYTES + KVT_LOG_CHUNK_BYTES;
	u32 i, less;

	lr->devs.nr = devs;
	for (i = 0; i < devs; i++) {
		less = i % 4;
		lr->super[i].segment_blocks =
			cpu_to_le32(kind == LR_SMALLER ?
				    max(blocks >> 2 * less, KVTREE_LOG_SEGMENT_MIN) : blocks);
		lr->space.part[i].segs = (struct kvt_seg_table) {
			.nr = kind == LR_FEWER ? max(nr >> less, KVTREE_LOG_SEGMENTS_MIN) : nr,
		};
		spin_lock_init(&lr->space.part[i].segs.lock);
	}
	kvt_live_init(&lr->space);
	kvt_room_init(&lr->space, min3(kvt_room_streams(&lr->space), cpus, KVTREE_LOG_STREAMS_MAX));
	for (i = 0; i < devs; i++) {
		struct lr_dev *d = &lr->dev[i];

		d->streams = kvt_part_streams(d->part);
		d->ahead = d->streams ? kvt_room_ahead(d->part) : 0;
		d->drain = DIV_ROUND_UP_ULL(d->streams * buffers, lr_filled(lr, i));
	}
	lr->max = lr_max(lr);
}

/* Show what was taken when there was no room. */
static void lr_show(const struct lr *lr)
{
	u32 i;

	for (i = 0; i < lr->devs.nr; i++) {
		const struct lr_dev *d = &lr->dev[i];
		const struct kvt_seg_table *segs = &d->part->segs;

		kunit_info(lr->test, "device %u: %u free, %u of the log, %u with bases, %u with the rest, %u kept, %u when saving, %u most, %u streams\n",
			   i, segs->nr_free, d->log, segs->nr_base,
			   d->old + d->before + d->rest[1] - d->rest[0],
			   kvt_room_keep(d->part, KVT_ROOM_STREAM),
			   kvt_room_keep(d->part, KVT_ROOM_BASES), d->part->most, d->streams);
	}
}

/* Whether a claim holds for devices of one size, with segments of all sizes. */
static void lr_check(struct lr *lr, u32 cpus, u32 devs, u64 bytes, u32 most,
		     bool (*holds)(struct lr *lr))
{
	u32 blocks, kind;
	u64 nr;

	for (blocks = KVTREE_LOG_SEGMENT_MIN; blocks <= KVTREE_LOG_SEGMENT_MAX; blocks *= 2) {
		nr = bytes / KVTREE_LOG_BLOCK / blocks;
		if (nr < KVTREE_LOG_SEGMENTS_MIN)
			break;
		if (nr > most)
			continue;
		for (kind = LR_EQUAL; kind < (devs == 1 ? LR_EQUAL + 1 : LR_KINDS); kind++) {
			lr_set(lr, cpus, devs, blocks, nr, kind);
			if (!holds(lr)) {
				lr_show(lr);
				KUNIT_FAIL_AND_ABORT(lr->test,
						     "no room for %s: %u CPUs, %u devices: %llu segments of %u blocks, kind: %u, live: %llu, large: %u, costs: %u",
						     lr->what, cpus, devs, nr, blocks, kind,
						     kvt_live_bytes(&lr->space), lr->large,
						     lr->costs);
			}
		}
	}
}

/*
 * The live records are small, large, or mixed; this changes from size to size.  @step: of the
 * numbers of CPUs, how many to go on by.
 */
static void lr_check_most(struct kunit *test, u32 most, u32 step, bool (*holds)(struct lr *lr))
{
	/* With more CPUs there are no more streams: KVTREE_LOG_STREAMS_MAX. */
	static const u32 cpus[] = { 1, 2, 3, 5, 8, 12, 16, 24, 48, 64, 96, 128, 1024 };
	static const u32 large[] = { 0, 1, 5, 16 };
	struct lr *lr = lr_new(test);
	u32 i, devs, shift;

	for (i = 0; i < ARRAY_SIZE(cpus); i += step) {
		for (devs = 1; devs <= KVTREE_LOG_DEVS_MAX; devs++) {
			for (shift = LR_LEAST; shift <= LR_MOST; shift++) {
				lr->large = large[(i / step + devs + shift) % ARRAY_SIZE(large)];
				lr->costs = (i / step + 2 * devs + shift) % LR_COSTS;
				lr_check(lr, cpus[i], devs, BIT_ULL(shift), most, holds);
			}
			cond_resched();
		}
	}
}

static void lr_check_all(struct kunit *test, bool (*holds)(struct lr *lr))
{
	lr_check_most(test, U32_MAX, 1, holds);
}

/* As many segments as there is time for groups.  Steps are as large as possible, or small. */
static void lr_check_some(struct kunit *test, bool (*holds)(struct lr *lr))
{
	WRITE_ONCE(kvt_log_step_segments, 0);
	lr_check_most(test, LR_SEGMENTS, 3, holds);
	WRITE_ONCE(kvt_log_step_segments, 1);
	lr_check_most(test, LR_SEGMENTS / 2, 3, holds);
}

/* @more live bytes, if there is room: in the same mix of records, or in large ones. */
static struct kvt_live live_more(const struct lr *lr, u64 live, u64 more, bool large)
{
	struct kvt_live then = lr_of(lr, live);

	if (!large)
		return lr_of(lr, min(live + more, lr->max));
	then.bytes += more;
	then.large += more - more / (KVTREE_VALUE_MAX / KVT_LOG_RECORD_SMALL);
	return then;
}

/* The most that is live, if @live bytes were when streams took the last segment. */
static struct kvt_live live_then(const struct lr *lr, u64 live, bool large)
{
	struct kvt_live then;
	u64 growth = 0;
	u32 i;

	for (i = 0; i < lr->devs.nr; i++)
		growth += (lr->dev[i].streams ? lr_segment(lr, i) : 0) +
			  lr->dev[i].streams * (KVT_LOG_SEALED_BYTES + KVT_LOG_CHUNK_BYTES);
	then = live_more(lr, live, growth, large);
	while (large && growth && !kvt_room_holds(&lr->space, then)) {
		growth /= 2;
		then = live_more(lr, live, growth, large);
	}
	then.bytes += kvt_live_slack(&lr->space);
	return then;
}

static void lr_count(struct lr *lr, u64 live)
{
	struct kvt_live now = lr_of(lr, live);

	percpu_counter_set(&lr->space.live, now.bytes);
	atomic64_set(&lr->space.large, now.large);
}

/* Set the live bytes as they are counted, what they may be, and what a checkpoint writes. */
static void lr_live(struct lr *lr, u64 live)
{
	struct kvt_live same = live_then(lr, live, false), large = live_then(lr, live, true);

	lr_count(lr, live);
	lr->space.directory = min(live / 100, lr->space.described);
	lr->then = large.bytes + large.large > same.bytes + same.large ? large : same;
	/* With the padding of chunks. */
	lr->total = lr->then.bytes + lr->then.bytes / KVT_SAVE_BYTES * LR_PADDING *
				     KVTREE_LOG_BLOCK;
}

/* An attach counts what is live. */
static void lr_recount(struct lr *lr)
{
	percpu_counter_set(&lr->space.live, lr->then.bytes);
	atomic64_set(&lr->space.large, lr->then.large);
}

static bool take(struct lr_dev *d, enum kvt_room room, u32 nr)
{
	struct kvt_seg_table *segs = &d->part->segs;

	if (segs->nr_free < kvt_room_keep(d->part, room) + nr)
		return false;
	segs->nr_free -= nr;
	if (room == KVT_ROOM_BASES || room == KVT_ROOM_REST)
		segs->planned -= min(segs->planned, nr);
	return true;
}

static bool grows_from(struct lr *lr, u64 live)
{
	lr_count(lr, live);
	return kvt_room_grows(&lr->space);
}

/*
 * Streams take segments on all devices as long as they get any, and fill them with new keys.  Set
 * the live bytes to those at which they got the last segment, with a precision of LR_GROWS.
 */
static void others_grow(struct lr *lr)
{
	u64 live = kvt_live_bytes(&lr->space), was = lr->total, step;

	for (step = roundup_pow_of_two(max_t(u64, lr->max, LR_GROWS)); step >= LR_GROWS; step /= 2)
		if (live + step <= lr->max && grows_from(lr, live + step))
			live += step;
	lr_live(lr, live);
	/* New keys are in the last range. */
	if (lr->nr_groups && lr->total > was)
		lr->group[lr->nr_groups - 1].bytes += lr->total - was;
}

/* Take all segments that are available for a use. */
static void take_all(struct lr_dev *d, enum kvt_room room)
{
	struct kvt_seg_table *segs = &d->part->segs;
	u32 free = segs->nr_free;

	segs->nr_free = min(segs->nr_free, kvt_room_keep(d->part, room));
	d->log += free - segs->nr_free;
}

/* Take all segments that streams and commits get. */
static void others_take(struct lr *lr)
{
	u32 i;

	if (!lr->writes)
		return;
	for (i = 0; i < lr->devs.nr; i++)
		take_all(&lr->dev[i], KVT_ROOM_STREAM);
	if (lr->grows)
		others_grow(lr);
	for (i = 0; i < lr->devs.nr; i++)
		take_all(&lr->dev[i], KVT_ROOM_COMMIT);
}

/*
 * Take segments for what is committed at the end of a step; for the commit record first, or last.
 */
static bool end_fits(struct lr_dev *d, u32 drain, bool record_first)
{
	if (record_first)
		return take(d, KVT_ROOM_LAST, 1) && take(d, KVT_ROOM_DRAIN, drain);
	return take(d, KVT_ROOM_DRAIN, drain) && take(d, KVT_ROOM_LAST, 1);
}

/* Once writers are stopped, later steps write only commit records: a segment has many of them. */
static bool ends_fit(struct lr *lr)
{
	u32 i, drain;

	if (lr->ended > 1)
		return true;
	for (i = 0; i < lr->devs.nr; i++) {
		struct lr_dev *d = &lr->dev[i];

		drain = lr->ended ? 0 : d->drain;
		if (!end_fits(d, drain, i % 2))
			return false;
		d->log += drain + 1;
	}
	lr->ended += !lr->writes;
	return true;
}

/* The cost of writing so much.  Large records are everywhere. */
static u64 lr_cost(const struct lr *lr, u64 bytes)
{
	struct kvt_live live = { .bytes = bytes };

	live.large = mul_u64_u64_div_u64(bytes, lr->then.large, max(lr->then.bytes, 1LL));
	return kvt_room_cost(live, kvt_room_small(&lr->space));
}

/* How much of this fills a segment of a device. */
static u64 lr_holds(const struct lr *lr, u32 i)
{
	u64 segment = kvt_room_segment(&lr->space.part[i], kvt_room_small(&lr->space));

	return mul_u64_u64_div_u64(segment, SZ_1G, lr_cost(lr, SZ_1G));
}

static void group_add(struct lr *lr, u32 dev, u64 bytes)
{
	lr->group[lr->nr_groups++] = (struct lr_group) { .dev = dev, .bytes = bytes };
}

/* The part of what is live that the @nr'th of @all groups of a device has. */
static u64 group_bytes(const struct lr *lr, u32 nr, u32 all, u64 bytes)
{
	switch (lr->costs) {
	case LR_HALVES:
		return nr % 2 ? 0 : bytes / DIV_ROUND_UP(all, 2);
	case LR_ONE:
		return nr ? 0 : bytes;
	case LR_RISING:
		return div64_u64(bytes, (u64)all * (all + 1) / 2) * (nr + 1);
	default:
		return bytes / all;
	}
}

/* Distribute what is live over the segments that have bases.  If none has, one group has all. */
static void groups_fill(struct lr *lr)
{
	u64 left = lr->total, here;
	u32 i, j, nr;

	lr->nr_groups = 0;
	for (i = 0; i < lr->devs.nr; i++) {
		here = mul_u64_u64_div_u64(lr->total, lr->space.part[i].share, lr->space.shares);
		if (lr->costs == LR_ONE_DEVICE)
			here = i ? 0 : lr->total;
		nr = lr->space.part[i].segs.nr_base;
		for (j = 0; j < nr; j++) {
			group_add(lr, i, group_bytes(lr, j, nr, here));
			left -= lr->group[lr->nr_groups - 1].bytes;
		}
	}
	if (!lr->nr_groups)
		group_add(lr, U32_MAX, left);
	else
		lr->group[0].bytes += left;
}

static int loss_cmp(const void *a, const void *b)
{
	const struct lr_group *x = a, *y = b;

	return x->loss < y->loss ? -1 : x->loss > y->loss;
}

/* Those that gain come first; of these, and of the others, the devices take turns. */
static int turn_cmp(const void *a, const void *b)
{
	const struct lr_group *x = a, *y = b;

	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	return x->turn < y->turn ? -1 : x->turn > y->turn;
}

static void groups_judge(struct lr *lr, u32 first)
{
	u64 holds[KVTREE_LOG_DEVS_MAX];
	u32 i;

	for (i = 0; i < lr->devs.nr; i++)
		holds[i] = lr_holds(lr, i);
	for (i = first; i < lr->nr_groups; i++) {
		struct lr_group *group = &lr->group[i];

		group->loss = group->dev == U32_MAX ? S64_MAX : group->bytes - holds[group->dev];
		group->rank = group->rest ? 2 : group->loss >= 0;
	}
}

/* Sort the groups that are left.  See plan.c. */
static void lr_sort(struct lr *lr, u32 first)
{
	u32 nr[KVTREE_LOG_DEVS_MAX] = {}, i, all = lr->nr_groups - first;

	groups_judge(lr, first);
	sort(lr->group + first, all, sizeof(*lr->group), loss_cmp, NULL);
	for (i = first; i < lr->nr_groups; i++) {
		struct lr_group *group = &lr->group[i];

		group->turn = U64_MAX;
		if (group->dev == U32_MAX)
			continue;
		nr[group->dev]++;
		group->turn = div_u64((u64)nr[group->dev] << 32,
				      max(lr->space.part[group->dev].segs.nr_base, 1U));
	}
	sort(lr->group + first, all, sizeof(*lr->group), turn_cmp, NULL);
}

static void groups_complete(struct lr *lr, u32 first)
{
	u32 i;

	for (i = first; i < lr->nr_groups; i++) {
		lr->group[i].bytes += lr->group[i].rest;
		lr->group[i].rest = 0;
	}
}

/* Whether the groups that are left write more than they free, and there is no room for that. */
static bool groups_lack(const struct lr *lr, u32 first)
{
	bool small = kvt_room_small(&lr->space);
	s64 net = 0;
	u32 i;

	for (i = first; i < lr->nr_groups; i++) {
		const struct lr_group *group = &lr->group[i];

		net += lr_cost(lr, group->bytes);
		if (!group->rest && group->dev != U32_MAX)
			net -= kvt_room_segment(&lr->space.part[group->dev], small);
	}
	return net > (s64)kvt_room_net(&lr->space);
}

/* A checkpoint goes on where one was interrupted: see plan_complete(). */
static void groups_plan(struct lr *lr, u32 first)
{
	if (lr->resumed && groups_lack(lr, first)) {
		groups_complete(lr, first);
		lr_sort(lr, first);
	}
}

/* The device in @devs that is furthest behind its share: see saved.c. */
static u32 base_next(const struct lr *lr, unsigned long devs)
{
	u64 part, least = U64_MAX;
	u32 i, next = 0;

	for_each_set_bit(i, &devs, lr->devs.nr) {
		part = mul_u64_u64_div_u64(lr->dev[i].bytes, lr->space.shares,
					   lr->space.part[i].share);
		if (part < least) {
			least = part;
			next = i;
		}
	}
	return next;
}

/* Find a segment for bases: an open one, or another one if there is room. */
static struct lr_dev *base_open(struct lr *lr)
{
	unsigned long devs = BIT(lr->devs.nr) - 1;
	struct lr_dev *d;

	for (; devs; devs &= ~BIT(d - lr->dev)) {
		d = &lr->dev[base_next(lr, devs)];
		if (d->open)
			return d;
		if (!take(d, KVT_ROOM_BASES, 1))
			continue;
		d->part->segs.nr_base++;
		d->open = lr_holds(lr, d - lr->dev);
		lr->made[lr->nr_made++] = (struct lr_group) { .dev = d - lr->dev };
		return d;
	}
	return NULL;
}

static struct lr_group *made_last(struct lr *lr, u32 dev)
{
	u32 i = lr->nr_made;

	while (lr->made[i - 1].dev != dev)
		i--;
	return &lr->made[i - 1];
}

/* The most that goes to a device before the next one is chosen.  Of large segments it is little. */
static u64 chunk_most(const struct lr *lr, u32 dev)
{
	return lr_segment(lr, dev) < 16 * SZ_1M ? KVT_SAVE_CHUNK_BYTES : U64_MAX;
}

/* Write a group again. */
static bool group_fits(struct lr *lr, const struct lr_group *group)
{
	u64 left = group->bytes, here;
	struct lr_dev *d;

	while (left) {
		d = base_open(lr);
		if (!d)
			return false;
		here = min3(left, d->open, chunk_most(lr, d - lr->dev));
		d->open -= here;
		d->bytes += here;
		left -= here;
		made_last(lr, d - lr->dev)->bytes += here;
	}
	return true;
}

static bool rest_fits_on(struct lr_dev *d, u64 bytes)
{
	u64 segment = kvt_part_bytes(d->part) - KVT_LOG_BUF_BYTES;

	while (d->rest[1] * segment < d->rest_at + bytes) {
		if (!take(d, KVT_ROOM_REST, 1))
			return false;
		d->rest[1]++;
	}
	d->rest_at += bytes;
	return true;
}

/* Write a part of a directory, and the table of its device. */
static bool part_of_rest_fits(struct lr *lr, u64 bytes)
{
	unsigned long devs = BIT(lr->devs.nr) - 1;
	u32 next;

	for (; devs; devs &= ~BIT(next)) {
		next = base_next(lr, devs);
		if (!rest_fits_on(&lr->dev[next], bytes + KVTREE_LOG_BLOCK))
			continue;
		lr->dev[next].bytes += bytes;
		lr->dev[next].rest_bytes += bytes;
		return true;
	}
	return false;
}

/* Write a directory. */
static bool rest_fits(struct lr *lr)
{
	u64 left = lr->space.directory + 1, here;

	for (; left; left -= here) {
		here = min(left, max(lr->space.directory / LR_PARTS, KVT_SAVE_BYTES));
		if (!part_of_rest_fits(lr, here))
			return false;
	}
	return true;
}

/* Free the segments of the directory before. */
static void rest_free(struct lr *lr, const u64 *at)
{
	u32 i, first;

	for (i = 0; i < lr->devs.nr; i++) {
		struct lr_dev *d = &lr->dev[i];

		first = div64_u64(at[i], kvt_part_bytes(d->part) - KVT_LOG_BUF_BYTES);
		d->part->segs.nr_free += first - d->rest[0] + d->before;
		d->rest[0] = first;
		d->before = 0;
		d->bytes -= d->rest_bytes;
		d->rest_bytes = 0;
	}
}

static void round_begins(struct lr *lr)
{
	u32 i;

	for (i = 0; i < lr->devs.nr; i++) {
		struct lr_dev *d = &lr->dev[i];
		struct kvt_seg_table *segs = &d->part->segs;
		u32 stays = lr->state.alive ? min(d->log, d->ahead + d->drain + 1) : 0;

		d->passes = d->log - stays;
		d->open = 0;
		d->bytes = 0;
		d->rest_bytes = 0;
		d->rest[0] = 0;
		d->rest[1] = 0;
		d->rest_at = 0;
		segs->useless = d->passes;
		segs->saving = true;
		segs->full = true;
		segs->leave = 0;
		segs->planned = 0;
	}
	lr->nr_made = 0;
	lr->nr_stay = 0;
	if (!lr->resumed)
		groups_complete(lr, 0);
	lr_sort(lr, 0);
}

static u32 groups_add(struct lr_group *to, u32 nr, const struct lr_group *from, u32 more)
{
	memcpy(to + nr, from, more * sizeof(*to));
	return nr + more;
}

static void round_ends(struct lr *lr)
{
	u32 i;

	for (i = 0; i < lr->devs.nr; i++) {
		struct lr_dev *d = &lr->dev[i];
		struct kvt_seg_table *segs = &d->part->segs;

		segs->nr_free += d->passes + d->old;
		d->log -= d->passes;
		d->old = d->rest[1] - d->rest[0];
		d->rest[0] = d->rest[1];
		segs->useless = 0;
		segs->saving = false;
		segs->full = false;
		segs->leave = 0;
		segs->planned = 0;
	}
	lr->nr_groups = groups_add(lr->group, 0, lr->made, lr->nr_made);
	lr->nr_groups = groups_add(lr->group, lr->nr_groups, lr->stay, lr->nr_stay);
}

/* Decide how much the next step writes: which group comes after it. */
static bool step_begins(struct lr *lr, struct kvt_room_step *step, u32 first, u32 *end)
{
	u64 room, cost = 0;
	bool grows;

	others_take(lr);
	grows = !lr->state.alive || step->stopped || kvt_room_grows(&lr->space);
	room = kvt_room_step(&lr->space, step);
	if (room != U64_MAX && !grows) {
		lr->writes = false;
		step->stopped = true;
		if (!ends_fit(lr))
			return false;
		room = kvt_room_step(&lr->space, step);
	}
	if (room != U64_MAX)
		groups_plan(lr, first);
	for (*end = first; *end < lr->nr_groups; ++*end) {
		cost += lr_cost(lr, lr->group[*end].bytes);
		if (*end > first && room != U64_MAX && cost > room)
			break;
	}
	return true;
}

/* The last chunk of each worker has few bytes, and as much padding as any other. */
static bool tails_fit(struct lr *lr)
{
	struct lr_dev *d;
	u32 i;

	for (i = 0; i < KVT_SAVERS_MAX; i++) {
		d = base_open(lr);
		if (!d)
			return false;
		d->open -= min(d->open, LR_PADDING * KVTREE_LOG_BLOCK);
	}
	return true;
}

static bool step_fits(struct lr *lr, u32 first, u32 end)
{
	u64 at[KVTREE_LOG_DEVS_MAX];
	u32 i;

	others_take(lr);
	for (i = first; i < end; i++)
		if (!group_fits(lr, &lr->group[i]))
			return false;
	if (!tails_fit(lr))
		return false;
	others_take(lr);
	for (i = 0; i < lr->devs.nr; i++)
		at[i] = lr->dev[i].rest_at;
	if (!rest_fits(lr))
		return false;
	others_take(lr);
	for (i = 0; i < lr->devs.nr; i++) {
		lr->dev[i].part->segs.leave = 0;
		lr->dev[i].part->segs.planned = 0;
	}
	/* The step has taken effect when the caller frees these. */
	memcpy(lr->rest_before, at, sizeof(at));
	return true;
}

static void lr_groups_free(struct lr *lr, u32 first, u32 end)
{
	u32 i;

	for (i = first; i < end; i++) {
		struct kvt_seg_table *segs;

		if (lr->group[i].dev == U32_MAX)
			continue;
		if (lr->group[i].rest) {
			lr->stay[lr->nr_stay] = lr->group[i];
			lr->stay[lr->nr_stay].bytes = lr->group[i].rest;
			lr->stay[lr->nr_stay++].rest = 0;
			continue;
		}
		segs = &lr->space.part[lr->group[i].dev].segs;
		segs->nr_free++;
		segs->nr_base--;
	}
	rest_free(lr, lr->rest_before);
}

static void state_keep(struct lr *lr)
{
	struct lr_state *kept = lr->kept;
	u32 i;

	memcpy(kept->dev, lr->dev, sizeof(lr->dev));
	for (i = 0; i < lr->devs.nr; i++)
		kept->segs[i] = lr->space.part[i].segs;
	kept->nr_groups = lr->nr_groups;
	kept->nr_made = lr->nr_made;
	kept->nr_stay = lr->nr_stay;
	memcpy(kept->group, lr->group, lr->nr_groups * sizeof(*lr->group));
	memcpy(kept->made, lr->made, lr->nr_made * sizeof(*lr->made));
	memcpy(kept->stay, lr->stay, lr->nr_stay * sizeof(*lr->stay));
}

static void state_restore(struct lr *lr)
{
	const struct lr_state *kept = lr->kept;
	u32 i;

	memcpy(lr->dev, kept->dev, sizeof(lr->dev));
	for (i = 0; i < lr->devs.nr; i++)
		lr->space.part[i].segs = kept->segs[i];
	lr->nr_groups = kept->nr_groups;
	lr->nr_made = kept->nr_made;
	lr->nr_stay = kept->nr_stay;
	memcpy(lr->group, kept->group, lr->nr_groups * sizeof(*lr->group));
	memcpy(lr->made, kept->made, lr->nr_made * sizeof(*lr->made));
	memcpy(lr->stay, kept->stay, lr->nr_stay * sizeof(*lr->stay));
}

/* Forget a checkpoint after a step: the groups that it has left, and those that it has made. */
static void round_forgotten(struct lr *lr, u32 first)
{
	u32 i;

	for (i = 0; i < lr->devs.nr; i++) {
		struct lr_dev *d = &lr->dev[i];

		d->before += d->rest[1] - d->rest[0];
		d->rest[0] = d->rest[1];
		d->part->segs.saving = false;
		d->part->segs.planned = 0;
	}
	lr->nr_groups -= first;
	memmove(lr->group, lr->group + first, lr->nr_groups * sizeof(*lr->group));
	lr->nr_groups = groups_add(lr->group, lr->nr_groups, lr->stay, lr->nr_stay);
	lr->nr_groups = groups_add(lr->group, lr->nr_groups, lr->made, lr->nr_made);
}

static bool round_fits(struct lr *lr, bool again, bool crashes);

/* Make a checkpoint of all that is live, before a life begins. */
static bool life_saves(struct lr *lr)
{
	bool fits;

	lr->state.alive = false;
	lr->writes = false;
	fits = round_fits(lr, false, false);
	lr->state.alive = true;
	return fits;
}

static bool life_may_begin(struct lr *lr)
{
	u32 i;

	lr->what = "the beginning of a life";
	for (i = 0; i < lr->devs.nr; i++)
		if (!kvt_room_begins(lr->dev[i].part, 0))
			return false;
	return true;
}

/*
 * Whether an attach after a crash can carry the last epoch, make a checkpoint and begin a life.  A
 * device may get more than its share, where others had no room yet: a second one evens that out.
 */
static bool attach_fits(struct lr *lr)
{
	u32 i, carried;

	for (i = 0; i < lr->devs.nr; i++) {
		struct lr_dev *d = &lr->dev[i];

		carried = d->ahead + d->drain;
		lr->what = "the last epoch after a crash";
		if (!kvt_room_secures(d->part, carried))
			return false;
		d->part->segs.nr_free -= carried + 2;
		d->log += carried + 2;
	}
	return life_saves(lr) && (life_may_begin(lr) || (life_saves(lr) && life_may_begin(lr)));
}

static bool crash_fits(struct lr *lr, u32 first)
{
	s64 bytes = kvt_live_bytes(&lr->space), large = atomic64_read(&lr->space.large);
	bool fits, writes = lr->writes;

	state_keep(lr);
	round_forgotten(lr, first);
	lr->writes = false;
	lr_recount(lr);
	fits = attach_fits(lr);
	if (!fits)
		lr_show(lr);
	lr->writes = writes;
	percpu_counter_set(&lr->space.live, bytes);
	atomic64_set(&lr->space.large, large);
	state_restore(lr);
	return fits;
}

static bool streams_go_on(struct lr *lr);

/* If there is no room for a checkpoint while others write, it is made again without them. */
static bool rounds_fit(struct lr *lr, bool crashes)
{
	bool fits = round_fits(lr, false, crashes);

	if (!fits && !strcmp(lr->what, "a step")) {
		lr->writes = false;
		lr->resumed = false;
		fits = round_fits(lr, true, crashes);
	}
	lr->resumed = false;
	return fits;
}

/* Most of what the checkpoint has written so far changes, but a part in each segment does not. */
static void made_change(struct lr *lr, u32 part)
{
	u32 i;

	for (i = 0; i < lr->nr_made; i++) {
		lr->made[i].rest = lr->made[i].bytes / part;
		lr->made[i].bytes -= lr->made[i].rest;
	}
}

/*
 * A checkpoint is interrupted after a step.  There is room for one that goes on, and for another.
 */
static bool interrupt_fits(struct lr *lr, u32 first, u32 part)
{
	bool fits, writes = lr->writes;
	u32 ended = lr->ended;

	state_keep(lr);
	made_change(lr, part);
	round_forgotten(lr, first);
	lr->resumed = true;
	fits = rounds_fit(lr, false);
	fits = fits && (streams_go_on(lr) || (rounds_fit(lr, false) && streams_go_on(lr)));
	if (!fits)
		lr_show(lr);
	lr->writes = writes;
	lr->ended = ended;
	state_restore(lr);
	return fits;
}

/* Forget what a step has taken, as there was no room for all of it. */
static void step_undone(struct lr *lr, const struct lr_dev *before, u32 nr_made)
{
	u32 i;

	while (lr->nr_made > nr_made) {
		struct kvt_seg_table *segs = &lr->space.part[lr->made[--lr->nr_made].dev].segs;

		segs->nr_free++;
		segs->nr_base--;
	}
	for (i = 0; i < lr->devs.nr; i++) {
		struct lr_dev *d = &lr->dev[i];

		d->part->segs.nr_free += d->rest[1] - before[i].rest[1];
		d->rest[1] = before[i].rest[1];
		d->rest_at = before[i].rest_at;
	}
}

/*
 * Make a checkpoint.  Returns whether there is room for all of it, and after each step for a life.
 * Otherwise what it has done so far stays.
 */
static bool round_fits(struct lr *lr, bool again, bool crashes)
{
	struct kvt_room_step step = { .tries = again };
	struct lr_dev before[KVTREE_LOG_DEVS_MAX];
	u32 first = 0, end, nr = 0, nr_made;

	round_begins(lr);
	do {
		memcpy(before, lr->dev, sizeof(before));
		nr_made = lr->nr_made;
		lr->what = "an end before a step";
		if (!step_begins(lr, &step, first, &end))
			return false;
		if (!step_fits(lr, first, end)) {
			step_undone(lr, before, nr_made);
			round_forgotten(lr, first);
			lr->what = lr->state.alive ? "a step" : "a step before a life";
			return false;
		}
		lr->what = "the end of a step";
		if (lr->state.alive && !ends_fit(lr))
			return false;
		lr_groups_free(lr, first, end);
		first = end;
		/* After each of the first steps, and some later ones. */
		if (!crashes || first == lr->nr_groups || (++nr > 4 && nr % 16))
			continue;
		if (!crash_fits(lr, first))
			return false;
		if (nr % 3 == 1 && !interrupt_fits(lr, first, 2 << nr % 4))
			return false;
	} while (first < lr->nr_groups);
	round_ends(lr);
	return true;
}

static bool checkpoint_fits(struct lr *lr)
{
	return rounds_fit(lr, true);
}

/* Begin a checkpoint that keeps all segments of earlier ones. */
static void part_begins(struct lr_dev *d)
{
	struct kvt_seg_table *segs = &d->part->segs;
	u32 stays = min(d->log, d->ahead + d->drain + 1);

	segs->nr_log = d->log;
	segs->nr_image = segs->nr_base + d->old;
	segs->useless = d->log - stays;
	segs->saving = true;
	segs->full = false;
}

static void part_ends(struct lr_dev *d)
{
	struct kvt_seg_table *segs = &d->part->segs;

	segs->nr_free += segs->useless;
	d->log -= segs->useless;
	segs->useless = 0;
	segs->saving = false;
}

/* Take all segments that such a checkpoint may use, or a part of them: some of them for bases. */
static void part_take(struct lr_dev *d, u32 parts)
{
	struct kvt_seg_table *segs = &d->part->segs;
	u32 nr = segs->nr_free, i;

	nr -= min(nr, kvt_room_keep(d->part, KVT_ROOM_BASES));
	for (i = 0; i < nr / parts; i++) {
		if (!take(d, i % 3 ? KVT_ROOM_BASES : KVT_ROOM_REST, 1))
			return;
		segs->nr_base += !!(i % 3);
		d->old += !(i % 3);
	}
}

/* Make it, if it is allowed.  Returns whether there is room for what it commits at its end. */
static bool part_fits(struct lr *lr, u32 parts)
{
	bool may, fits;
	u32 i;

	for (i = 0; i < lr->devs.nr; i++)
		part_begins(&lr->dev[i]);
	may = kvt_room_spare(&lr->space);
	if (may) {
		others_take(lr);
		for (i = 0; i < lr->devs.nr; i++)
			part_take(&lr->dev[i], parts);
		others_take(lr);
	}
	lr->what = "the end of a checkpoint of what has changed";
	fits = !may || ends_fit(lr);
	for (i = 0; i < lr->devs.nr; i++) {
		if (!may)
			lr->dev[i].part->segs.useless = 0;
		part_ends(&lr->dev[i]);
	}
	groups_fill(lr);
	return fits;
}

/* A store with or without a checkpoint, before a life begins. */
static void life_set(struct lr *lr, bool saved)
{
	u32 i;

	for (i = 0; i < lr->devs.nr; i++) {
		struct lr_dev *d = &lr->dev[i];
		struct kvt_seg_table *segs = &d->part->segs;

		*segs = (struct kvt_seg_table) { .nr = segs->nr, .nr_free = segs->nr };
		spin_lock_init(&segs->lock);
		d->log = 0;
		d->old = 0;
		d->before = 0;
		d->rest[0] = d->rest[1];
		d->open = 0;
	}
	lr->nr_made = 0;
	lr->nr_groups = 0;
	if (!saved)
		groups_fill(lr);
}

/*
 * Begin a life: one segment of streams, and three of commit records: the current one and two more.
 */
static bool life_begins(struct lr *lr)
{
	u32 i;

	if (!life_may_begin(lr))
		return false;
	for (i = 0; i < lr->devs.nr; i++)
		lr->dev[i].part->segs.nr_free -= !!lr->dev[i].streams + 3;
	return true;
}

static void others_go_on(struct lr *lr)
{
	lr->writes = true;
	lr->ended = 0;
}

static bool streams_go_on(struct lr *lr)
{
	const struct kvt_part *part;
	u32 i;

	lr->what = "streams after a checkpoint";
	for (i = 0; i < lr->devs.nr; i++) {
		part = &lr->space.part[i];
		if (part->segs.nr_free < kvt_room_keep(part, KVT_ROOM_STREAM) +
					 !!lr->dev[i].streams)
			return false;
	}
	return true;
}

/* Whether there is room for checkpoints of a full log, and for streams after each. */
static bool life_fits(struct lr *lr, bool saved)
{
	u32 round;

	life_set(lr, saved);
	if (saved) {
		groups_fill(lr);
		if (!life_saves(lr))
			return false;
	}
	if (!life_begins(lr))
		return false;
	others_go_on(lr);
	/* A checkpoint that a user asks for may free nothing, as the log is short. */
	if (!saved && !checkpoint_fits(lr))
		return false;
	others_go_on(lr);
	for (round = 0; round < LR_ROUNDS; round++) {
		groups_fill(lr);
		if (round && !part_fits(lr, round))
			return false;
		others_take(lr);
		if (!checkpoint_fits(lr))
			return false;
		/* If what was committed at its end is too much, another one frees that. */
		if (!streams_go_on(lr) && (!checkpoint_fits(lr) || !streams_go_on(lr)))
			return false;
		others_go_on(lr);
	}
	return true;
}

static bool lives_fit(struct lr *lr, u64 live)
{
	u32 saved;

	for (saved = 0; saved <= 1; saved++) {
		lr_live(lr, live);
		if (!life_fits(lr, saved))
			return false;
	}
	return true;
}

/* With an empty store, a half-full one, and a full one. */
static bool checkpoints_fit(struct lr *lr)
{
	u64 half = lr->max / 2;

	return lives_fit(lr, 0) && lives_fit(lr, half) && lives_fit(lr, 2 * half);
}

static void a_full_device_has_room_for_one_checkpoint_after_another(struct kunit *test)
{
	lr_check_some(test, checkpoints_fit);
}

/* While the store grows, as streams take segments on all devices. */
static bool growing_checkpoints_fit(struct lr *lr)
{
	lr->grows = true;
	return lives_fit(lr, 0) && lives_fit(lr, lr->max / 2);
}

static void a_full_device_has_room_for_what_grows_on_others(struct kunit *test)
{
	lr_check_some(test, growing_checkpoints_fit);
}

/* A checkpoint takes all that it gets: it finds more to write than the log has counted. */
static bool end_fits_anyway(struct lr *lr, u64 live)
{
	u32 i;

	lr_live(lr, live);
	life_set(lr, true);
	lr->writes = true;
	if (!life_begins(lr))
		return false;
	others_take(lr);
	round_begins(lr);
	kvt_room_step_rest(&lr->space, false);
	for (i = 0; i < lr->devs.nr; i++)
		take_all(&lr->dev[i], KVT_ROOM_BASES);
	others_take(lr);
	lr->what = "the end of a checkpoint that takes too much";
	return ends_fit(lr);
}

static bool ends_fit_anyway(struct lr *lr)
{
	return end_fits_anyway(lr, 0) && end_fits_anyway(lr, lr->max / 2) &&
	       end_fits_anyway(lr, lr->max);
}

static void a_checkpoint_leaves_room_for_what_it_commits(struct kunit *test)
{
	lr_check_all(test, ends_fit_anyway);
}

/* A step takes all that it gets, and frees nothing. */
static bool step_takes_all(struct lr *lr, bool stopped)
{
	struct kvt_room_step step = { .stopped = stopped };
	u32 i;

	kvt_room_step(&lr->space, &step);
	for (i = 0; i < lr->devs.nr; i++)
		take_all(&lr->dev[i], KVT_ROOM_BASES);
	others_take(lr);
	lr->what = "the end of a step that takes all";
	return ends_fit(lr);
}

/*
 * Two such steps.  Between them writers are stopped.  Nevertheless there is room for what is
 * committed, and for a life after a crash.
 */
static bool step_leaves(struct lr *lr, u64 live)
{
	u32 i;

	lr_live(lr, live);
	life_set(lr, true);
	others_go_on(lr);
	if (!life_begins(lr))
		return false;
	round_begins(lr);
	others_take(lr);
	/* Otherwise writers are stopped before the first one. */
	if (kvt_room_grows(&lr->space) && !step_takes_all(lr, false))
		return false;
	lr->writes = false;
	if (!ends_fit(lr) || !step_takes_all(lr, true))
		return false;
	lr->what = "the last epoch after a crash";
	for (i = 0; i < lr->devs.nr; i++)
		if (!kvt_room_secures(lr->dev[i].part, lr->dev[i].ahead + lr->dev[i].drain))
			return false;
	return true;
}

static bool steps_leave(struct lr *lr)
{
	return !lr->space.steps ||
	       (step_leaves(lr, 0) && step_leaves(lr, lr->max / 2) && step_leaves(lr, lr->max));
}

static void a_step_leaves_room_for_the_next_one_and_for_a_life(struct kunit *test)
{
	lr_check_all(test, steps_leave);
}

static bool store_may_hold(struct lr *lr)
{
	u64 capacity = 0;
	u32 i;

	for (i = 0; i < lr->devs.nr; i++) {
		capacity += lr->space.part[i].segs.nr * lr_segment(lr, i);
		if (!in_range(kvt_room_ahead(&lr->space.part[i]), 1, KVT_LOG_AHEAD_MAX))
			return false;
	}
	/* Small records use segments better, and a few large ones change little. */
	return lr->space.any_max && lr->max < capacity &&
	       lr->space.any_max <= kvt_room_live_max(&lr->space);
}

static void every_store_may_hold_something(struct kunit *test)
{
	lr_check_all(test, store_may_hold);
}

/* What a device of 1 GiB holds with 16 CPUs, in percent, if the records are small. */
static void a_small_device_may_hold_much(struct kunit *test)
{
	struct lr *lr = lr_new(test);

	lr_set(lr, 16, 1, KVTREE_LOG_SEGMENT_MIN, 255, LR_EQUAL);
	KUNIT_EXPECT_GE(test, lr->max * 100 / SZ_1G, 60);
	kunit_info(test, "%llu %%\n", lr->max * 100 / SZ_1G);
}

#define LR_CHUNKS	1000

/*
 * Count the segments that chunks fill if each segment loses as much as possible: the first chunk
 * that does not fit is as large as it may be.  Every third such chunk ends with a large record.
 */
static u32 chunks_fill(const struct lr *lr, bool large, struct kvt_live *live)
{
	u32 small = KVT_SAVE_CHUNK_SMALL / KVTREE_LOG_BLOCK, most, rest = 0, nr = 0, i;

	*live = (struct kvt_live) {};
	for (i = 0; i < LR_CHUNKS; i++) {
		u32 blocks = large && nr % 3 == 0 ? KVT_SAVE_CHUNK_BYTES / KVTREE_LOG_BLOCK : small;

		most = blocks;
		if (rest >= most)
			blocks = min(rest - most + 1, small);
		if (blocks > rest) {
			rest = lr_segment(lr, 0) / KVTREE_LOG_BLOCK - 1;
			nr++;
		}
		rest -= blocks;
		live->bytes += (u64)blocks * KVTREE_LOG_BLOCK;
		live->large += blocks > small ? (blocks - small) * KVTREE_LOG_BLOCK : 0;
	}
	return nr;
}

/* Segments that a checkpoint fills on a device: all large records are there, if that is worse. */
static u32 live_segments(const struct lr *lr, u32 i, struct kvt_live live)
{
	return min(DIV_ROUND_UP_ULL(live.bytes, lr_filled_any(lr, i)),
		   DIV_ROUND_UP_ULL(live.bytes + live.large, lr_filled_small(lr, i)));
}

/* Checkpoints are assumed to need no less; the last segment is not full. */
static bool chunks_fit(struct lr *lr)
{
	struct kvt_live live;
	u32 large, nr;

	for (large = 0; large <= 1; large++) {
		nr = chunks_fill(lr, large, &live);
		if (nr > live_segments(lr, 0, live) + 1)
			return false;
	}
	return true;
}

static void segments_hold_chunks_of_any_size(struct kunit *test)
{
	lr_check(lr_new(test), 1, 1, BIT_ULL(LR_MOST), U32_MAX, chunks_fit);
}

static struct kunit_case log_room_cases[] = {
	KT_CASE_LONG(a_full_device_has_room_for_one_checkpoint_after_another),
	KT_CASE_LONG(a_full_device_has_room_for_what_grows_on_others),
	KT_CASE_LONG(a_checkpoint_leaves_room_for_what_it_commits),
	KT_CASE_LONG(a_step_leaves_room_for_the_next_one_and_for_a_life),
	KUNIT_CASE(every_store_may_hold_something),
	KUNIT_CASE(a_small_device_may_hold_much),
	KUNIT_CASE(segments_hold_chunks_of_any_size),
	{}
};

static struct kunit_suite log_room_suite = {
	.name = "kvt_log_room",
	.test_cases = log_room_cases,
};

kunit_test_suite(log_room_suite);
