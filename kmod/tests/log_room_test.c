// SPDX-License-Identifier: GPL-2.0
/*
 * The reserves of the log, for 1 to 1024 CPUs (and so up to 128 streams), 1 to 8 devices, and
 * devices of 128 MiB to 64 TiB with segments of all sizes.
 *
 * The test models a device as a number of free segments.  Streams and commits take all segments
 * that kvt_room_keep() allows, at every step of a checkpoint, and what they fill stays undurable as
 * long as the log permits.  The checkpoint has to write as much as the store can have grown to
 * since a stream took the last segment.  Nevertheless it must find room, for itself and for what it
 * commits at its end, and so must the next checkpoint.  In between, there may be a checkpoint that
 * leaves unchanged ranges where they are and frees nothing but the log.
 */
#include <linux/log2.h>
#include <linux/math64.h>
#include <linux/percpu_counter.h>
#include <linux/sizes.h>

#include "lib.h"
#include "log/space.h"

/* Bytes, as powers of two. */
#define LR_LEAST	27
#define LR_MOST		46
/* The most blocks that a chunk has beyond its bytes: padding of records, and of columns outside. */
#define LR_PADDING	2
/* How often streams and commits take segments during a checkpoint, and how many are made. */
#define LR_STEPS	3
#define LR_ROUNDS	3
/* The precision with which others_grow() finds how far a store may grow, in bytes. */
#define LR_GROWS	SZ_1M

/* How the devices of a log differ: all but the first have fewer segments, or smaller ones. */
enum lr_kind {
	LR_EQUAL,
	LR_FEWER,
	LR_SMALLER,
	LR_KINDS,
};

/* A device on which checkpoints are made, one after the other. */
struct lr_dev {
	struct kvt_part *part;
	u32 streams;
	u32 ahead;		/* segments filled by streams, and not durable */
	u32 drain;		/* segments for what is in the buffers */
	u32 chunks;		/* segments for a checkpoint: its chunks and its table */
	u32 old;		/* segments of the current checkpoint, and of earlier ones */
	u32 log;		/* segments filled with log */
};

/* The space of an empty log. */
struct lr {
	struct kunit *test;
	struct kvt_log_state state;
	struct kvt_devs devs;
	struct kvt_space space;
	struct kvtree_log_super super[KVTREE_LOG_DEVS_MAX];
	struct lr_dev dev[KVTREE_LOG_DEVS_MAX];
	bool grows;		/* streams write new keys, so the store grows */
	u64 max;		/* the most live bytes */
	u32 large;		/* how many sixteenths of these are in records of maximum size */
	u32 step_segments;	/* the parameter as it was */
};

static void lr_free(void *arg)
{
	struct lr *lr = arg;

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

/* The bytes of a device's segment, and (below) how many of them chunks fill at least. */
static u64 lr_segment(const struct lr *lr, u32 i)
{
	return (u64)le32_to_cpu(lr->super[i].segment_blocks) * KVTREE_LOG_BLOCK;
}

static u64 lr_filled(const struct lr *lr, u32 i)
{
	return lr_segment(lr, i) - KVT_LOG_CHUNK_BYTES;
}

static u64 lr_filled_small(const struct lr *lr, u32 i)
{
	return lr_segment(lr, i) - KVT_LOG_CHUNK_SMALL;
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

/* Whether a claim holds for devices of one size, with segments of all sizes. */
static void lr_check(struct lr *lr, u32 cpus, u32 devs, u64 bytes,
		     bool (*holds)(struct lr *lr))
{
	u32 blocks, kind;
	u64 nr;

	for (blocks = KVTREE_LOG_SEGMENT_MIN; blocks <= KVTREE_LOG_SEGMENT_MAX; blocks *= 2) {
		nr = bytes / KVTREE_LOG_BLOCK / blocks;
		if (nr < KVTREE_LOG_SEGMENTS_MIN)
			break;
		for (kind = LR_EQUAL; kind < (devs == 1 ? LR_EQUAL + 1 : LR_KINDS); kind++) {
			lr_set(lr, cpus, devs, blocks, nr, kind);
			if (!holds(lr))
				KUNIT_FAIL_AND_ABORT(lr->test,
						     "%u CPUs, %u devices: %llu segments of %u blocks, kind: %u, live: %llu, large: %u",
						     cpus, devs, nr, blocks, kind,
						     kvt_live_bytes(&lr->space), lr->large);
		}
	}
}

/* The live records are small, large, or mixed; this changes from size to size. */
static void lr_check_all(struct kunit *test, bool (*holds)(struct lr *lr))
{
	/* With more CPUs there are no more streams: KVTREE_LOG_STREAMS_MAX. */
	static const u32 cpus[] = { 1, 2, 3, 5, 8, 12, 16, 24, 48, 64, 96, 128, 1024 };
	static const u32 large[] = { 0, 1, 5, 16 };
	struct lr *lr = lr_new(test);
	u32 i, devs, shift;

	for (i = 0; i < ARRAY_SIZE(cpus); i++) {
		for (devs = 1; devs <= KVTREE_LOG_DEVS_MAX; devs++) {
			for (shift = LR_LEAST; shift <= LR_MOST; shift++) {
				lr->large = large[(i + devs + shift) % ARRAY_SIZE(large)];
				lr_check(lr, cpus[i], devs, BIT_ULL(shift), holds);
			}
			cond_resched();
		}
	}
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

/* The most that a checkpoint has to write, if @live bytes were live at the last segment taken. */
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
	then.bytes += then.bytes / KVT_SAVE_EXTENT_BYTES * LR_PADDING * KVTREE_LOG_BLOCK;
	return then;
}

/* Segments that a checkpoint fills on a device: all large records are there, if that is worse. */
static u32 live_segments(const struct lr *lr, u32 i, struct kvt_live live)
{
	u64 here = mul_u64_u64_div_u64(live.bytes, lr->space.part[i].share, lr->space.shares);

	/* With several devices, one may get a chunk more than its share: see saved.c. */
	if (lr->devs.nr > 1)
		here += KVT_LOG_CHUNK_BYTES;
	return min(DIV_ROUND_UP_ULL(here, lr_filled(lr, i)),
		   DIV_ROUND_UP_ULL(here + live.large, lr_filled_small(lr, i)));
}

static void lr_count(struct lr *lr, u64 live)
{
	struct kvt_live now = lr_of(lr, live);

	percpu_counter_set(&lr->space.live, now.bytes);
	atomic64_set(&lr->space.large, now.large);
}

/*
 * Set the live bytes, and the segments that a checkpoint fills then.  Bases have a segment that is
 * partly filled, and so has the rest.
 */
static void lr_live(struct lr *lr, u64 live)
{
	struct kvt_live same = live_then(lr, live, false), large = live_then(lr, live, true);
	u32 i;

	lr_count(lr, live);
	for (i = 0; i < lr->devs.nr; i++)
		lr->dev[i].chunks = max(live_segments(lr, i, same),
					live_segments(lr, i, large)) + 1;
}

static bool take(struct lr_dev *d, enum kvt_room room, u32 nr)
{
	struct kvt_seg_table *segs = &d->part->segs;

	if (segs->nr_free < kvt_room_keep(d->part, room) + nr)
		return false;
	segs->nr_free -= nr;
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
	u64 live = kvt_live_bytes(&lr->space), step;

	for (step = roundup_pow_of_two(lr->max); step >= LR_GROWS; step /= 2)
		if (live + step <= lr->max && grows_from(lr, live + step))
			live += step;
	lr_live(lr, live);
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

	for (i = 0; i < lr->devs.nr; i++)
		take_all(&lr->dev[i], KVT_ROOM_STREAM);
	if (lr->grows)
		others_grow(lr);
	for (i = 0; i < lr->devs.nr; i++)
		take_all(&lr->dev[i], KVT_ROOM_COMMIT);
}

/* Take the segments that a checkpoint fills up to a step. */
static bool step_fits(struct lr_dev *d, u32 step)
{
	struct kvt_seg_table *segs = &d->part->segs;
	u32 chunks = DIV_ROUND_UP_ULL((u64)d->chunks * step, LR_STEPS);

	if (chunks <= segs->taken)
		return true;
	if (!take(d, KVT_ROOM_SAVE, chunks - segs->taken))
		return false;
	segs->taken = chunks;
	return true;
}

/* Take segments for what a checkpoint commits at its end; for its commit record first, or last. */
static bool end_fits(struct lr_dev *d, bool record_first)
{
	if (record_first)
		return take(d, KVT_ROOM_LAST, 1) && take(d, KVT_ROOM_DRAIN, d->drain);
	return take(d, KVT_ROOM_DRAIN, d->drain) && take(d, KVT_ROOM_LAST, 1);
}

/* Begin: only segments that are not durable, or from buffers, and one of commit records stay. */
static void checkpoint_begins(struct lr_dev *d)
{
	struct kvt_seg_table *segs = &d->part->segs;
	u32 stays = min(d->log, d->ahead + d->drain + 1);

	segs->useless = d->old + d->log - stays;
	segs->taken = 0;
	segs->saving = true;
	segs->full = true;
	d->log = stays;
}

static bool checkpoint_ends(struct lr_dev *d, bool record_first)
{
	struct kvt_seg_table *segs = &d->part->segs;

	if (!end_fits(d, record_first))
		return false;
	d->log += d->drain + 1;
	d->old = segs->taken;
	segs->nr_free += segs->useless;
	segs->useless = 0;
	segs->saving = false;
	return true;
}

/* Make a checkpoint.  Returns whether there is room for all of it. */
static bool checkpoint_fits(struct lr *lr, bool record_first)
{
	u32 i, step;

	for (i = 0; i < lr->devs.nr; i++)
		checkpoint_begins(&lr->dev[i]);
	for (step = 1; step <= LR_STEPS; step++) {
		others_take(lr);
		for (i = 0; i < lr->devs.nr; i++)
			if (!step_fits(&lr->dev[i], step))
				return false;
	}
	others_take(lr);
	for (i = 0; i < lr->devs.nr; i++)
		if (!checkpoint_ends(&lr->dev[i], record_first))
			return false;
	return true;
}

/* Begin a checkpoint that keeps all segments of earlier ones. */
static void part_begins(struct lr_dev *d)
{
	struct kvt_seg_table *segs = &d->part->segs;
	u32 stays = min(d->log, d->ahead + d->drain + 1);

	segs->nr_log = d->log;
	segs->nr_image = d->old;
	segs->useless = d->log - stays;
	segs->taken = 0;
	segs->saving = true;
	segs->full = false;
	d->log = stays;
}

/* Undo part_begins(): such a checkpoint is not allowed now. */
static void part_forgoes(struct lr_dev *d)
{
	struct kvt_seg_table *segs = &d->part->segs;

	d->log += segs->useless;
	segs->useless = 0;
	segs->saving = false;
}

/* Take all segments that such a checkpoint may use, or a part of them. */
static void part_take(struct lr_dev *d, u32 parts)
{
	struct kvt_seg_table *segs = &d->part->segs;
	u32 keep = kvt_room_keep(d->part, KVT_ROOM_SAVE);

	segs->taken = (segs->nr_free - min(segs->nr_free, keep)) / parts;
	segs->nr_free -= segs->taken;
}

/* Make it, if it is allowed.  Returns whether there is room for what it commits at its end. */
static bool part_fits(struct lr *lr, u32 parts)
{
	bool may;
	u32 i, old;

	for (i = 0; i < lr->devs.nr; i++)
		part_begins(&lr->dev[i]);
	may = kvt_room_spare(&lr->space);
	for (i = 0; !may && i < lr->devs.nr; i++)
		part_forgoes(&lr->dev[i]);
	if (!may)
		return true;
	others_take(lr);
	for (i = 0; i < lr->devs.nr; i++)
		part_take(&lr->dev[i], parts);
	others_take(lr);
	for (i = 0; i < lr->devs.nr; i++) {
		old = lr->dev[i].old;
		if (!checkpoint_ends(&lr->dev[i], true))
			return false;
		lr->dev[i].old += old;
	}
	others_take(lr);
	return true;
}

/* Begin a life, with a checkpoint of all that is live or with none. */
static bool life_begins(struct lr_dev *d, bool saved)
{
	struct kvt_seg_table *segs = &d->part->segs;

	d->old = saved ? d->chunks : 0;
	d->log = 0;
	segs->nr_free = segs->nr - d->old;
	if (!kvt_room_begins(d->part, 0))
		return false;
	/* One segment of streams, and three of commit records: the current one and the next two. */
	segs->nr_free -= !!d->streams + 3;
	return true;
}

static bool streams_go_on(const struct lr *lr)
{
	const struct kvt_part *part;
	u32 i;

	for (i = 0; i < lr->devs.nr; i++) {
		part = &lr->space.part[i];
		if (part->segs.nr_free <= kvt_room_keep(part, KVT_ROOM_STREAM))
			return false;
	}
	return true;
}

/* Whether there is room for checkpoints of a full log, and for streams after each. */
static bool life_fits(struct lr *lr, bool saved)
{
	u32 i, round;

	for (i = 0; i < lr->devs.nr; i++)
		if (!life_begins(&lr->dev[i], saved))
			return false;
	/* A checkpoint that a user asks for may free nothing, as the log is short. */
	if (!saved && !checkpoint_fits(lr, true))
		return false;
	for (round = 0; round < LR_ROUNDS; round++) {
		if (round && !part_fits(lr, round))
			return false;
		others_take(lr);
		/* Its commit may take the record's segment before the others, or after them. */
		if (!checkpoint_fits(lr, round % 2 == 0) || !streams_go_on(lr))
			return false;
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
	lr_check_all(test, checkpoints_fit);
}

/* While the store grows, as streams take segments on all devices. */
static bool growing_checkpoints_fit(struct lr *lr)
{
	lr->grows = true;
	return lives_fit(lr, 0) && lives_fit(lr, lr->max / 2);
}

static void a_full_device_has_room_for_what_grows_on_others(struct kunit *test)
{
	lr_check_all(test, growing_checkpoints_fit);
}

/* A checkpoint takes all that it gets: it finds more to write than the log has counted. */
static bool end_fits_anyway(struct lr *lr, u64 live)
{
	u32 i;

	lr_live(lr, live);
	for (i = 0; i < lr->devs.nr; i++)
		if (!life_begins(&lr->dev[i], true))
			return false;
	others_take(lr);
	for (i = 0; i < lr->devs.nr; i++) {
		checkpoint_begins(&lr->dev[i]);
		part_take(&lr->dev[i], 1);
	}
	others_take(lr);
	for (i = 0; i < lr->devs.nr; i++)
		if (!end_fits(&lr->dev[i], i % 2))
			return false;
	return true;
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

/* End a step that is not the last one of its checkpoint, and frees nothing. */
static bool step_ends(struct lr_dev *d)
{
	struct kvt_seg_table *segs = &d->part->segs;

	if (!end_fits(d, true))
		return false;
	d->log += d->drain + 1;
	d->old += segs->taken;
	segs->taken = 0;
	segs->leave = 0;
	return true;
}

/* Make such a step, with half of the room.  Returns whether there is any. */
static bool step_begins(struct lr *lr, u32 tries)
{
	u32 taken = 0, i;

	if (kvt_room_step(&lr->space, 0, tries, false) == U64_MAX ||
	    kvt_room_step_begin(&lr->space, false))
		return false;
	for (i = 0; i < lr->devs.nr; i++) {
		part_take(&lr->dev[i], 2);
		taken += lr->dev[i].part->segs.taken;
	}
	return taken;
}

/* Whether there is room on all devices when the streams' full buffers have been committed. */
static bool all_have(const struct lr *lr, bool (*has)(const struct lr_dev *d))
{
	u32 end, i;
	bool may;

	for (i = 0; i < lr->devs.nr; i++) {
		const struct lr_dev *d = &lr->dev[i];

		end = d->drain + 1;
		if (d->part->segs.nr_free < end)
			return false;
		d->part->segs.nr_free -= end;
		may = has(d);
		d->part->segs.nr_free += end;
		if (!may)
			return false;
	}
	return true;
}

/* For a checkpoint of everything before the next life. */
static bool next_saves(const struct lr_dev *d)
{
	return d->part->segs.nr_free >= d->chunks;
}

/* For the next life, with an epoch that it carries, to end without a checkpoint. */
static bool next_ends(const struct lr_dev *d)
{
	return kvt_room_ends(d->part, d->ahead + d->drain);
}

/*
 * Make such steps as long as there is room.  Others fill the streams' buffers again each time.  The
 * life can be ended after each step, and if a crash ends it, the next one can begin; with a
 * checkpoint if @saves.
 */
static bool steps_leave_room(struct lr *lr, u32 tries, bool saves)
{
	u32 i;

	for (i = 0; i < lr->devs.nr; i++)
		checkpoint_begins(&lr->dev[i]);
	while (step_begins(lr, tries)) {
		others_take(lr);
		for (i = 0; i < lr->devs.nr; i++)
			if (!step_ends(&lr->dev[i]))
				return false;
		if (!all_have(lr, next_saves) && (saves || !all_have(lr, next_ends)))
			return false;
	}
	return true;
}

/* Forget a checkpoint that has not ended. */
static void checkpoint_forgotten(struct lr_dev *d)
{
	struct kvt_seg_table *segs = &d->part->segs;

	segs->saving = false;
	segs->useless = 0;
	segs->taken = 0;
	segs->leave = 0;
}

/*
 * Begin steps when the log is empty; or, if @parts is not 0, when it is full; if it is more than 1,
 * earlier checkpoints have left only a part of the room that is kept for one.  So there is room
 * for a checkpoint at first, unless one has failed, or there is only such a part.  With a full list
 * of lives, the next one can begin only with a checkpoint.
 */
static bool steps_fit(struct lr *lr, u64 live, u32 parts, u32 tries, bool full)
{
	u32 free, left, i;

	lr_live(lr, live);
	for (i = 0; i < lr->devs.nr; i++) {
		lr->super[i].nr_lives = cpu_to_le32(full ? KVTREE_LOG_LIVES_MAX : 1);
		checkpoint_forgotten(&lr->dev[i]);
		if (!life_begins(&lr->dev[i], true))
			return false;
	}
	if (parts)
		others_take(lr);
	for (i = 0; i < lr->devs.nr; i++) {
		free = lr->dev[i].part->segs.nr_free;
		left = free / max(parts, 1U);
		lr->dev[i].part->segs.nr_free = left;
		lr->dev[i].old += free - left;
	}
	return steps_leave_room(lr, tries, full || (!tries && parts <= 1));
}

/* In turn, steps are small, or as large as there is room for. */
static bool all_steps_fit(struct lr *lr)
{
	u32 parts, tries, full;
	u64 half = lr->max / 2;

	WRITE_ONCE(kvt_log_step_segments, !kvt_log_step_segments);
	for (full = 0; full <= 1; full++)
		for (tries = 0; tries <= 1; tries++)
			for (parts = 0; parts <= LR_ROUNDS; parts++)
				if (!steps_fit(lr, 0, parts, tries, full) ||
				    !steps_fit(lr, half, parts, tries, full) ||
				    !steps_fit(lr, 2 * half, parts, tries, full))
					return false;
	return true;
}

static void the_next_life_can_begin_after_each_step(struct kunit *test)
{
	lr_check_all(test, all_steps_fit);
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
	return lr->space.any_max && lr->max < capacity / 2 &&
	       lr->space.any_max <= kvt_room_live_max(&lr->space);
}

static void every_store_may_hold_something_and_less_than_half(struct kunit *test)
{
	lr_check_all(test, store_may_hold);
}

#define LR_CHUNKS	1000

/*
 * Count the segments that chunks fill if each segment loses as much as possible: the first chunk
 * that does not fit is as large as it may be.  Every third such chunk ends with a large record.
 */
static u32 chunks_fill(const struct lr *lr, bool large, struct kvt_live *live)
{
	u32 small = KVT_LOG_CHUNK_SMALL / KVTREE_LOG_BLOCK, most, rest = 0, nr = 0, i;

	*live = (struct kvt_live) {};
	for (i = 0; i < LR_CHUNKS; i++) {
		u32 blocks = large && nr % 3 == 0 ? KVT_LOG_CHUNK_BYTES / KVTREE_LOG_BLOCK : small;

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
	lr_check(lr_new(test), 1, 1, BIT_ULL(LR_MOST), chunks_fit);
}

static struct kunit_case log_room_cases[] = {
	KT_CASE_LONG(a_full_device_has_room_for_one_checkpoint_after_another),
	KT_CASE_LONG(a_full_device_has_room_for_what_grows_on_others),
	KT_CASE_LONG(a_checkpoint_leaves_room_for_what_it_commits),
	KT_CASE_LONG(the_next_life_can_begin_after_each_step),
	KUNIT_CASE(every_store_may_hold_something_and_less_than_half),
	KUNIT_CASE(segments_hold_chunks_of_any_size),
	{}
};

static struct kunit_suite log_room_suite = {
	.name = "kvt_log_room",
	.test_cases = log_room_cases,
};

kunit_test_suite(log_room_suite);
