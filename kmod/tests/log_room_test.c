// SPDX-License-Identifier: GPL-2.0
/*
 * The reserves of the log, for 1 to 1024 CPUs, which have up to 128 streams, 1 to 8 devices, and
 * devices of 128 MiB to 64 TiB with segments of all sizes.
 *
 * A device is a number of free segments here, and what asks kvt_room_keep() for them is as greedy
 * as it may be: streams and commits take all that they get, at every step of a checkpoint, and
 * nothing that they take is durable if it need not be.  The checkpoint has as much to write as can
 * have come since the last segment was taken.  It must find room all the same, for itself and for
 * what it commits at its end, and so must the next one.  Each device is looked at alone: that
 * streams on others take segments, and more is live then, is not in this.
 */
#include <linux/math64.h>
#include <linux/percpu_counter.h>

#include "lib.h"
#include "log/space.h"

/* Bytes, as powers of two. */
#define LR_LEAST	27
#define LR_MOST		46
/* Blocks that a chunk has at most besides its bytes: of records, and of columns outside of them. */
#define LR_PADDING	2
/* How often others come while a checkpoint is written, and how many are made. */
#define LR_STEPS	3
#define LR_ROUNDS	3

/* The space of a log without anything in it. */
struct lr {
	struct kunit *test;
	struct kvt_log_state state;
	struct kvt_devs devs;
	struct kvt_space space;
	struct kvtree_log_super super;
};

/* A device on which checkpoints are made, one after the other. */
struct lr_dev {
	struct kvt_part *part;
	u32 streams;		/* their segments, and: */
	u32 ahead;		/* filled by them, and not durable */
	u32 drain;		/* for what is in buffers */
	u32 chunks;		/* of a checkpoint */
	u32 old;		/* of the one that counts */
	u32 log;		/* filled */
};

static void lr_free(void *arg)
{
	struct lr *lr = arg;

	percpu_counter_destroy(&lr->space.live);
}

static struct lr *lr_new(struct kunit *test)
{
	struct lr *lr = kunit_kzalloc(test, sizeof(*lr), GFP_KERNEL);
	u32 i;

	KUNIT_ASSERT_NOT_NULL(test, lr);
	KUNIT_ASSERT_EQ(test, 0, percpu_counter_init(&lr->space.live, 0, GFP_KERNEL));
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, lr_free, lr));
	lr->test = test;
	lr->state.alive = true;
	lr->devs.state = &lr->state;
	lr->space.state = &lr->state;
	lr->space.devs = &lr->devs;
	for (i = 0; i < KVTREE_LOG_DEVS_MAX; i++) {
		lr->devs.dev[i] = (struct kvt_log_dev) {
			.devs = &lr->devs, .index = i, .super = &lr->super,
		};
		lr->space.part[i].space = &lr->space;
		lr->space.part[i].dev = &lr->devs.dev[i];
	}
	return lr;
}

/* Devices of so many segments, or the second half as large as the first, and so on. */
static void lr_set(struct lr *lr, u32 cpus, u32 devs, u32 blocks, u32 nr, bool equal)
{
	u32 i;

	lr->devs.nr = devs;
	lr->super.segment_blocks = cpu_to_le32(blocks);
	for (i = 0; i < devs; i++)
		lr->space.part[i].segs = (struct kvt_seg_table) {
			.nr = equal ? nr : max(nr >> (i % 4), KVTREE_LOG_SEGMENTS_MIN),
		};
	kvt_live_init(&lr->space);
	kvt_room_init(&lr->space, min3(kvt_room_streams(&lr->space), cpus, KVTREE_LOG_STREAMS_MAX));
}

/* Whether a claim holds for devices of one size, with segments of all sizes. */
static void lr_check(struct lr *lr, u32 cpus, u32 devs, u64 bytes,
		     bool (*holds)(struct lr *lr))
{
	u32 blocks, equal;
	u64 nr;

	for (blocks = KVTREE_LOG_SEGMENT_MIN; blocks <= KVTREE_LOG_SEGMENT_MAX; blocks *= 2) {
		nr = bytes / KVTREE_LOG_BLOCK / blocks;
		if (nr < KVTREE_LOG_SEGMENTS_MIN)
			break;
		for (equal = devs == 1; equal <= 1; equal++) {
			lr_set(lr, cpus, devs, blocks, nr, equal);
			if (!holds(lr))
				KUNIT_FAIL_AND_ABORT(lr->test,
						     "%u CPUs, %u devices: %llu segments of %u blocks, equal: %u, live: %llu",
						     cpus, devs, nr, blocks, equal,
						     kvt_live_bytes(&lr->space));
		}
	}
}

static void lr_check_all(struct kunit *test, bool (*holds)(struct lr *lr))
{
	/* More have no more streams than KVTREE_LOG_STREAMS_MAX. */
	static const u32 cpus[] = { 1, 2, 3, 5, 8, 12, 16, 24, 48, 64, 96, 128, 1024 };
	struct lr *lr = lr_new(test);
	u32 i, devs, shift;

	for (i = 0; i < ARRAY_SIZE(cpus); i++) {
		for (devs = 1; devs <= KVTREE_LOG_DEVS_MAX; devs++) {
			for (shift = LR_LEAST; shift <= LR_MOST; shift++)
				lr_check(lr, cpus[i], devs, BIT_ULL(shift), holds);
			cond_resched();
		}
	}
}

/* What a checkpoint has to write at most, if so much was live when a segment was taken last. */
static u64 live_then(const struct lr *lr, u64 live)
{
	u64 segment = (u64)le32_to_cpu(lr->super.segment_blocks) * KVTREE_LOG_BLOCK;
	u64 growth = lr->space.nr_streams * (segment + KVT_LOG_SEALED_BYTES + KVT_LOG_CHUNK_BYTES);
	u64 bytes = min(live + growth, lr->space.live_max) + kvt_live_slack(&lr->space);

	return bytes + bytes / KVT_SAVE_EXTENT_BYTES * LR_PADDING * KVTREE_LOG_BLOCK;
}

static struct lr_dev lr_dev_of(struct lr *lr, u32 i, u64 live)
{
	struct kvt_part *part = &lr->space.part[i];
	u64 segment = (u64)le32_to_cpu(lr->super.segment_blocks) * KVTREE_LOG_BLOCK -
		      KVT_LOG_CHUNK_BYTES;
	u64 buffers = KVT_LOG_SEALED_BYTES + KVT_LOG_CHUNK_BYTES;
	struct lr_dev d = { .part = part, .streams = kvt_part_streams(part) };
	u64 here = mul_u64_u64_div_u64(live_then(lr, live), part->share, lr->space.shares);

	d.ahead = d.streams * kvt_room_ahead(part);
	d.drain = d.streams * DIV_ROUND_UP_ULL(buffers, segment);
	/* Of several, one may have a chunk more than its share: see save.c. */
	if (lr->devs.nr > 1)
		here += KVT_LOG_CHUNK_BYTES;
	d.chunks = DIV_ROUND_UP_ULL(here, segment);
	return d;
}

static bool take(struct lr_dev *d, enum kvt_room room, u32 nr)
{
	struct kvt_seg_table *segs = &d->part->segs;

	if (segs->nr_free < kvt_room_keep(d->part, room) + nr)
		return false;
	segs->nr_free -= nr;
	return true;
}

/* All that streams and commits get. */
static void others_take(struct lr_dev *d)
{
	struct kvt_seg_table *segs = &d->part->segs;
	u32 free = segs->nr_free;

	segs->nr_free = min(segs->nr_free, kvt_room_keep(d->part, KVT_ROOM_STREAM));
	segs->nr_free = min(segs->nr_free, kvt_room_keep(d->part, KVT_ROOM_COMMIT));
	d->log += free - segs->nr_free;
}

static bool chunks_take(struct lr_dev *d)
{
	struct kvt_seg_table *segs = &d->part->segs;
	u32 step = DIV_ROUND_UP(d->chunks, LR_STEPS), nr;

	while (segs->taken < d->chunks) {
		others_take(d);
		nr = min(step, d->chunks - segs->taken);
		if (!take(d, KVT_ROOM_SAVE, nr))
			return false;
		segs->taken += nr;
	}
	others_take(d);
	return true;
}

/* What a checkpoint commits at its end.  A record's segment is taken before what it commits. */
static bool end_fits(struct lr_dev *d, bool record_first)
{
	if (record_first)
		return take(d, KVT_ROOM_LAST, 1) && take(d, KVT_ROOM_DRAIN, d->drain);
	return take(d, KVT_ROOM_DRAIN, d->drain) && take(d, KVT_ROOM_LAST, 1);
}

/*
 * Make a checkpoint.  Returns whether there is room for all of it.  What streams may be ahead, what
 * was in their buffers, and a segment of commit records stay in the log.
 */
static bool checkpoint_fits(struct lr_dev *d, bool record_first)
{
	struct kvt_seg_table *segs = &d->part->segs;
	u32 stays = min(d->log, d->ahead + d->drain + 1);

	segs->useless = d->old + d->log - stays;
	segs->taken = 0;
	segs->saving = true;
	d->log = stays;
	if (!chunks_take(d) || !end_fits(d, record_first) || !take(d, KVT_ROOM_TABLE, 1))
		return false;
	d->log += d->drain + 1;
	d->old = d->chunks + 1;
	segs->nr_free += segs->useless;
	segs->useless = 0;
	segs->saving = false;
	return true;
}

/* Begin a life, with a checkpoint of all that is live or with none. */
static bool life_begins(struct lr_dev *d, bool saved)
{
	struct kvt_seg_table *segs = &d->part->segs;

	d->old = saved ? d->chunks + 1 : 0;
	d->log = 0;
	segs->nr_free = segs->nr - d->old;
	if (!kvt_room_begins(d->part, 0))
		return false;
	/* Those of commit records: the present one, the next, and the one after it. */
	segs->nr_free -= d->streams + 3;
	return true;
}

/* Whether there is room for checkpoints of a full log, and for streams after each. */
static bool device_fits(struct lr_dev *d, bool saved)
{
	u32 round;

	if (!life_begins(d, saved))
		return false;
	/* One that somebody asks for may free nothing: the log is short. */
	if (!saved && !checkpoint_fits(d, true))
		return false;
	for (round = 0; round < LR_ROUNDS; round++) {
		others_take(d);
		/* Its commit may need a segment for the record, or one after it. */
		if (!checkpoint_fits(d, round % 2 == 0) ||
		    d->part->segs.nr_free <= kvt_room_keep(d->part, KVT_ROOM_STREAM))
			return false;
	}
	return true;
}

static bool checkpoints_fit(struct lr *lr)
{
	struct lr_dev d;
	u32 i, half;

	/* Nothing, half of what it may hold, or all of it. */
	for (half = 0; half <= 2; half++) {
		percpu_counter_set(&lr->space.live, lr->space.live_max / 2 * half);
		for (i = 0; i < lr->devs.nr; i++) {
			d = lr_dev_of(lr, i, lr->space.live_max / 2 * half);
			if (!device_fits(&d, true) || !device_fits(&d, false))
				return false;
		}
	}
	return true;
}

static void a_full_device_has_room_for_one_checkpoint_after_another(struct kunit *test)
{
	lr_check_all(test, checkpoints_fit);
}

static bool store_may_hold(struct lr *lr)
{
	u64 capacity = 0;
	u32 i;

	for (i = 0; i < lr->devs.nr; i++) {
		capacity += lr->space.part[i].segs.nr * kvt_part_segment(&lr->space.part[i]);
		if (!in_range(kvt_room_ahead(&lr->space.part[i]), 1, KVT_LOG_AHEAD_MAX))
			return false;
	}
	return lr->space.live_max && lr->space.live_max < capacity / 2;
}

static void every_store_may_hold_something_and_less_than_half(struct kunit *test)
{
	lr_check_all(test, store_may_hold);
}

static struct kunit_case log_room_cases[] = {
	KUNIT_CASE(a_full_device_has_room_for_one_checkpoint_after_another),
	KUNIT_CASE(every_store_may_hold_something_and_less_than_half),
	{}
};

static struct kunit_suite log_room_suite = {
	.name = "kvtree_log_room",
	.test_cases = log_room_cases,
};

kunit_test_suite(log_room_suite);
