// SPDX-License-Identifier: GPL-2.0
/*
 * Room: reserve free segments, and limit how much a store may hold, so that a checkpoint can
 * always be made.  Only checkpoints free segments.
 *
 * Each device is checked on its own, since any of them may run out first: a small one may hold
 * only commit records.  Between checkpoints, each device keeps enough free segments for its part
 * of the next checkpoint.  That part grows with the live data, no matter which device the records
 * are written to; so a stream takes a segment only if all devices have enough free segments.  A
 * device's free segments are used from left to right:
 *
 *	streams stop | one segment | ordinary     | what the checkpoint writes here,
 *	here         | for commit  | commits stop | and what it commits at its end: records
 *	             | records     | here         | in buffers, and one segment for commit
 *	             |             |              | records
 *
 * If a stream or an ordinary commit gets no segment, a checkpoint starts and writers wait for it.
 *
 * kmod/tests/log_room_test.c tests this with many numbers of CPUs, devices and segments.
 */
#include <linux/sizes.h>
#include <linux/slab.h>

#include "base/mem.h"
#include "base/stats.h"
#include "space.h"

/* Segments that a device's commit records hold open: the current one and the next two. */
#define COMMIT_OPEN	3
/* Segments that commit records fill while a checkpoint is made. */
#define COMMIT_FILL	1
/* Segments kept for commit records: from the streams, and for the end of a checkpoint. */
#define COMMIT_MORE	1
#define COMMIT_LAST	1

/* The last segments of a checkpoint: at each place, one is partly filled. */
#define CHECKPOINT_TAIL		KVT_PLACES
/* Divisors: this part of the live bytes, or of a segment, allows for padding and rough counts. */
#define CHECKPOINT_PADDING	8
#define SMALL_PADDING		256

/* Segments that the streams of a device hold open, if it has streams. */
#define STREAMS_OPEN	1U
/* Bytes of chunks that a stream may have in its buffers. */
#define STREAM_BYTES	((u64)KVT_LOG_SEALED_BYTES + KVT_LOG_CHUNK_BYTES)

/*
 * The segments that a device needs besides those of two checkpoints.  Writers may have to wait
 * for one checkpoint, but for nothing else: once it has taken effect, there is room for the next.
 */
struct reserve {
	u32 filled;	/* by streams, with records that were not durable when a checkpoint began */
	u32 buffers;	/* for the records that were in the streams' buffers then */
	u32 end;	/* for what the checkpoint commits at its end */
	u32 next_end;	/* for as much at the end of the next checkpoint */
	u32 open;	/* being written to: one by the streams, and those of commit records */
	u32 commits;	/* for commit records: COMMIT_FILL and COMMIT_MORE */
	u32 next;	/* for streams afterwards: they need not wait for the next checkpoint */
	u32 tails;	/* CHECKPOINT_TAIL of both checkpoints */
};

/* Divisors: a log larger than these parts of log_replay_mb and of what is live attaches slowly. */
#define SLOW_FEW	4
#define SLOW_PART	16

/*
 * A log of this size is replayed fast enough, however little is live.  The minimum is more than
 * an epoch without records takes; otherwise each checkpoint would trigger the next one.
 */
static unsigned int log_replay_mb = 64;
KVT_LOG_PARAM(log_replay_mb, log_replay_mb, 1, UINT_MAX);
MODULE_PARM_DESC(log_replay_mb, "MiB of log after which the next checkpoint is made; more if more is live");

unsigned int kvt_log_step_segments = KVT_AUDITS ? 1 : 0;
module_param_named(log_step_segments, kvt_log_step_segments, uint, 0644);
MODULE_PARM_DESC(log_step_segments, "segments of a device that a checkpoint of everything writes before it frees others, if its directory is not larger; 0: as many as there is room for");
KVT_EXPORT_FOR_TESTS(kvt_log_step_segments);

/*
 * The bytes that a segment holds at least if all records are small.  A part of large segments is
 * left for directories with the longest keys: for these, CHECKPOINT_PADDING is not quite enough.
 */
static u64 segment_small(const struct kvt_part *part)
{
	u64 bytes = kvt_part_bytes(part);

	return bytes - KVT_LOG_CHUNK_SMALL - bytes / SMALL_PADDING;
}

/* Segments that a checkpoint needs on a device; all large records may be on this one. */
static u32 checkpoint_segments(const struct kvt_part *part, struct kvt_live live)
{
	u64 here = mul_u64_u64_div_u64(live.bytes + live.bytes / CHECKPOINT_PADDING, part->share,
				       part->space->shares);

	/* With several devices, one may get a chunk more than its share: see saved_next(). */
	if (part->space->devs->nr > 1)
		here += KVT_LOG_CHUNK_BYTES;
	return min(div64_u64(here, kvt_part_segment(part)),
		   div64_u64(here + live.large, segment_small(part))) + CHECKPOINT_TAIL;
}

/* Segments that a device needs for the contents of all its streams' buffers. */
static u32 drain_segments(const struct kvt_part *part)
{
	u64 bytes = kvt_part_segment(part);

	return div64_u64(kvt_part_streams(part) * STREAM_BYTES + bytes - 1, bytes);
}

/**
 * kvt_room_ahead() - how far the streams of a device may be ahead of what is durable
 * @part: on the device
 *
 * Return: segments that they may fill with records that are not durable, 1..KVT_LOG_AHEAD_MAX.
 */
u32 kvt_room_ahead(const struct kvt_part *part)
{
	return clamp(part->segs.nr / KVTREE_LOG_SEGMENTS_MIN, 1U, KVT_LOG_AHEAD_MAX);
}
KVT_EXPORT_FOR_TESTS(kvt_room_ahead);

/**
 * kvt_room_streams() - how many streams there is room for
 * @space: the space
 *
 * Return: a number of streams with buffers that need only a part of the smallest device.
 */
u32 kvt_room_streams(const struct kvt_space *space)
{
	u32 nr = U32_MAX, i;

	for (i = 0; i < space->devs->nr; i++)
		nr = min(nr, space->part[i].segs.nr);
	return nr / (KVTREE_LOG_SEGMENTS_MIN / 2) * space->devs->nr;
}
KVT_EXPORT_FOR_TESTS(kvt_room_streams);

/* Segments for what a checkpoint commits at its end. */
static u32 end_segments(const struct kvt_part *part)
{
	return drain_segments(part) + COMMIT_LAST;
}

/* Segments of a device that checkpoints cannot use. */
static u32 reserve_segments(const struct kvt_part *part)
{
	u32 open = min(kvt_part_streams(part), STREAMS_OPEN);
	const struct reserve r = {
		.filled = open * kvt_room_ahead(part),
		.buffers = drain_segments(part),
		.end = end_segments(part),
		.next_end = end_segments(part),
		.open = open + COMMIT_OPEN,
		.commits = COMMIT_FILL + COMMIT_MORE,
		.next = open,
		.tails = 2 * CHECKPOINT_TAIL,
	};

	return r.filled + r.buffers + r.end + r.next_end + r.open + r.commits + r.next +
	       r.tails;
}

/*
 * The bytes of records, of any sizes, that a device's table of a checkpoint can describe.  The
 * table is in one segment.
 */
static u64 table_bytes(const struct kvt_part *part)
{
	u64 bytes = kvt_part_bytes(part) - KVTREE_LOG_BLOCK;
	const struct kvtree_log_table *table;
	u64 nr = (bytes - sizeof(*table)) / sizeof(table->extents[0]);

	return (nr - KVT_SAVERS_MAX) * KVT_SAVE_EXTENT_BYTES;
}

/* The most bytes of a device's part of a checkpoint; if @small, with kvt_live.large added. */
static u64 part_max(const struct kvt_part *part, bool small)
{
	u64 bytes = small ? segment_small(part) : kvt_part_segment(part);

	return min(part->half * bytes, table_bytes(part));
}

/* Subtract an allowance for padding and for inexact counting. */
static u64 room_max(const struct kvt_space *space, u64 max)
{
	max -= max / CHECKPOINT_PADDING;
	return max > kvt_live_slack(space) ? max - kvt_live_slack(space) : 0;
}

/* How much the store may hold if its records are small: each device's part is within its limit. */
static void room_init_small(struct kvt_space *space)
{
	/* A device's chunk beyond its share: see checkpoint_segments(). */
	u64 chunk = space->devs->nr > 1 ? KVT_LOG_CHUNK_BYTES : 0;
	u64 max = U64_MAX, bytes;
	u32 i;

	space->large_devs = 1;
	for (i = 0; i < space->devs->nr; i++) {
		const struct kvt_part *part = &space->part[i];

		bytes = part_max(part, true);
		bytes -= min(bytes, chunk);
		max = min(max, mul_u64_u64_div_u64(bytes, space->shares, part->share));
		space->large_devs = max(space->large_devs,
					div64_u64(space->shares + part->share - 1, part->share));
	}
	space->small_max = room_max(space, max);
}

/**
 * kvt_room_init() - compute how much the store may hold, and each device's share of it
 * @space: the space
 * @nr_streams: how many streams need a part of it
 *
 * A device's part of a checkpoint is as large as its room and its table allow.
 */
void kvt_room_init(struct kvt_space *space, u32 nr_streams)
{
	u32 i, reserve;

	space->nr_streams = nr_streams;
	space->shares = 0;
	for (i = 0; i < space->devs->nr; i++) {
		struct kvt_part *part = &space->part[i];

		reserve = reserve_segments(part);
		part->half = part->segs.nr > reserve + 1 ? (part->segs.nr - reserve) / 2 : 0;
		part->share = part_max(part, false) ?: 1;
		space->shares += part->share;
	}
	space->any_max = room_max(space, space->shares);
	room_init_small(space);
}
KVT_EXPORT_FOR_TESTS(kvt_room_init);

/**
 * kvt_room_holds() - whether there is always room for checkpoints of what is live
 * @space: the space
 * @live: what is live
 *
 * Context: any.
 *
 * Return: true if so.
 */
bool kvt_room_holds(const struct kvt_space *space, struct kvt_live live)
{
	if (live.bytes <= space->any_max)
		return true;
	return live.bytes <= space->small_max &&
	       (likely(!live.large) ||
		live.large <= div64_u64(space->small_max - live.bytes, space->large_devs));
}
KVT_EXPORT_FOR_TESTS(kvt_room_holds);

/**
 * kvt_room_live_max() - how much the store may hold
 * @space: the space
 *
 * Context: any.
 *
 * Return: bytes of records, provided that the large ones do not grow in number or size.
 */
u64 kvt_room_live_max(const struct kvt_space *space)
{
	u64 large = min_t(u64, atomic64_read(&space->large),
			  div64_u64(space->small_max, space->large_devs));

	return max(space->any_max, space->small_max - space->large_devs * large);
}
KVT_EXPORT_FOR_TESTS(kvt_room_live_max);

/* How much the store may grow before the streams need another segment. */
static u64 room_growth(const struct kvt_space *space)
{
	u64 growth = 0;
	u32 streams, i;

	for (i = 0; i < space->devs->nr; i++) {
		const struct kvt_part *part = &space->part[i];

		streams = kvt_part_streams(part);
		if (streams)
			growth += kvt_part_bytes(part) + streams * STREAM_BYTES;
	}
	return growth;
}

/* What a checkpoint must hold: what is live now, or would be live again after a crash. */
static struct kvt_live room_live(const struct kvt_space *space)
{
	return kvt_live_most(kvt_live_now(space),
			     kvt_live_most(kvt_live_get(&space->live_closed),
					   kvt_live_get(&space->live_durable)));
}

/* The most segments that a checkpoint may need, however the store grows before it. */
static u32 checkpoint_most(const struct kvt_part *part)
{
	struct kvt_live live = room_live(part->space), then = live;
	u64 growth = kvt_live_slack(part->space) + room_growth(part->space);
	u32 max = checkpoint_segments(part, live);

	/* The store may hold more than this log would accept: see kvt_streams_init(). */
	max = max(max, part->half + CHECKPOINT_TAIL);
	then.bytes += growth;
	then.large += growth;
	return min(checkpoint_segments(part, then), max);
}

/* Segments that the next checkpoint needs beyond those that the current one frees. */
static u32 checkpoint_next(const struct kvt_part *part, u32 need)
{
	u32 useless = READ_ONCE(part->segs.useless);

	return need > useless ? need - useless : 0;
}

/*
 * Segments that streams and commits leave to checkpoints: those that the next one needs.  While
 * one is being made, those that it has not taken yet, and those that the next one will need beyond
 * what this one frees.  If it has several steps, all that it needs is kept until the last one, and
 * what the current step leaves.
 */
static u32 checkpoint_keep(const struct kvt_part *part)
{
	const struct kvt_seg_table *segs = &part->segs;
	u32 need = checkpoint_most(part), end = end_segments(part);
	u32 next = checkpoint_next(part, need + end), taken = READ_ONCE(segs->taken);

	if (!READ_ONCE(segs->saving))
		return next;
	return max((need > taken ? need - taken : 0) + next, READ_ONCE(segs->leave)) + end;
}

/*
 * Segments that a checkpoint leaves free when it saves: those for what it commits at its end, and
 * those that the current step leaves to later ones.  If it does not write everything, it is not
 * known how much it will write, and it may free only the log: keep room for the next one.
 */
static u32 save_keep(const struct kvt_part *part)
{
	u32 end = end_segments(part);

	if (!part->space->state->alive)
		return 0;
	if (READ_ONCE(part->segs.full))
		return end + READ_ONCE(part->segs.leave);
	return end + checkpoint_next(part, checkpoint_most(part) + end);
}

/**
 * kvt_room_keep() - how many segments to leave free
 * @part: of the space, on a device
 * @room: the use of the segment to be taken
 *
 * Context: any; exact under the lock of its table.
 *
 * Return: a number of segments.
 */
u32 kvt_room_keep(const struct kvt_part *part, enum kvt_room room)
{
	switch (room) {
	case KVT_ROOM_STREAM:
		return checkpoint_keep(part) + COMMIT_MORE;
	case KVT_ROOM_COMMIT:
		return checkpoint_keep(part);
	case KVT_ROOM_SAVE:
		return save_keep(part);
	default:
		return 0;
	}
}
KVT_EXPORT_FOR_TESTS(kvt_room_keep);

/* Whether any device has fewer segments left for the log than the log has there / @divisor. */
static bool room_less(const struct kvt_space *space, u32 divisor)
{
	const struct kvt_part *part;
	u32 i;

	for (i = 0; i < space->devs->nr; i++) {
		part = &space->part[i];
		if (READ_ONCE(part->segs.nr_free) < READ_ONCE(part->segs.nr_log) / divisor +
						    kvt_room_keep(part, KVT_ROOM_STREAM))
			return true;
	}
	return false;
}

/**
 * kvt_room_low() - whether it is time for a checkpoint
 * @space: the space
 *
 * Return: true if any device has fewer segments left for the log than the log has there.
 */
bool kvt_room_low(const struct kvt_space *space)
{
	return room_less(space, 1);
}

/**
 * kvt_room_short() - whether a checkpoint has to be made quickly
 * @space: the space
 *
 * Return: true if any device has fewer segments left for the log than half of those it has there.
 */
bool kvt_room_short(const struct kvt_space *space)
{
	return room_less(space, 2);
}

/**
 * kvt_room_spare() - whether a checkpoint may leave partly live segments as they are
 * @space: the space; kvt_segs_save_begin() has counted what the checkpoint frees at least
 *
 * Segments of earlier checkpoints, which are only partly live, may take twice as much as is live.
 *
 * Return: false if everything must be written again to make room for the streams and for the
 * next checkpoint.
 */
bool kvt_room_spare(const struct kvt_space *space)
{
	u32 i;

	for (i = 0; i < space->devs->nr; i++)
		if (READ_ONCE(space->part[i].segs.nr_image) > 2 * checkpoint_most(&space->part[i]))
			return false;
	return !room_less(space, 2);
}
KVT_EXPORT_FOR_TESTS(kvt_room_spare);

/* Segments of a device for the part of a directory for which CHECKPOINT_PADDING is not enough. */
static u32 directory_segments(const struct kvt_part *part, u64 directory)
{
	u64 allowed = kvt_live_bytes(part->space) / CHECKPOINT_PADDING;

	if (directory <= allowed)
		return 0;
	return div64_u64(directory - allowed, kvt_part_segment(part)) + 1;
}

/* Whether all devices have room for their parts of a checkpoint of everything, in one step. */
static bool room_is_there(const struct kvt_space *space, u64 directory)
{
	const struct kvt_part *part;
	u32 i;

	for (i = 0; i < space->devs->nr; i++) {
		part = &space->part[i];
		if (READ_ONCE(part->segs.nr_free) < kvt_room_keep(part, KVT_ROOM_SAVE) +
				checkpoint_segments(part, kvt_live_now(space)) +
				directory_segments(part, directory))
			return false;
	}
	return true;
}

/*
 * The most segments that a step writes on a device, if small ones are wanted; otherwise the least.
 * Each step writes the whole directory, so it should write at least as much of the ranges.
 */
static u32 step_segments(const struct kvt_part *part, u64 directory)
{
	u64 bytes = mul_u64_u64_div_u64(2 * directory, part->share, part->space->shares);
	u32 wanted = READ_ONCE(kvt_log_step_segments) ?: 1;
	u64 segment = kvt_part_segment(part);

	return min(max(div64_u64(bytes + segment - 1, segment), wanted), U32_MAX / 2);
}

/* Whether they still have it after a step that frees nothing. */
static bool room_stays(const struct kvt_space *space, u64 directory)
{
	const struct kvt_part *part;
	u32 i;

	for (i = 0; i < space->devs->nr; i++) {
		part = &space->part[i];
		if (READ_ONCE(part->segs.nr_free) < step_segments(part, directory) +
						    CHECKPOINT_TAIL + 2 * end_segments(part) +
						    checkpoint_most(part) +
						    directory_segments(part, directory))
			return false;
	}
	return true;
}

/*
 * Whether everything is written in one step.  Small steps that are wanted must not take the room
 * for that; but if it has turned out that there is not enough room, smaller ones may fit.
 */
static bool room_is_whole(const struct kvt_space *space, u64 directory, u32 tries, bool again,
			  bool stays)
{
	if (!space->state->alive)
		return true;
	if (!again && (tries || (stays && READ_ONCE(kvt_log_step_segments))))
		return false;
	return room_is_there(space, directory);
}

/* Segments that the last epoch may have on a device.  After a crash, they are carried. */
static u32 carried_most(const struct kvt_part *part)
{
	return min(kvt_part_streams(part), STREAMS_OPEN) * kvt_room_ahead(part) +
	       drain_segments(part);
}

/*
 * Segments that a step leaves to later ones, besides those for what it commits at its end.  As much
 * may be in the streams' buffers again then, and the next step commits it, or the end of the life
 * if no other step fits.  After a crash, what is free then must suffice to attach: for a checkpoint
 * of everything before a life begins, in one step.  Where there never was as much (@stays: there
 * is), a life must be able to begin and to end without one; but if the superblock has no room for
 * another life, none can.
 */
static u32 step_leave(const struct kvt_part *part, u64 directory, bool stays)
{
	u32 end = end_segments(part);

	if (stays || le32_to_cpu(part->dev->super->nr_lives) == KVTREE_LOG_LIVES_MAX)
		return end + checkpoint_most(part) + directory_segments(part, directory);
	return end + COMMIT_OPEN + carried_most(part) + end;
}

/**
 * kvt_room_step() - how much a step of a checkpoint of everything may write
 * @space: the space
 * @directory: the bytes of the directory's records, which each step writes as well
 * @tries: checkpoints that have failed for lack of room; each makes steps smaller
 * @again: one has just failed for lack of room: if there should be enough, write everything
 *
 * This also sets how many segments the step leaves to later ones; kvt_room_step_begin() must
 * follow, unless everything is written.
 *
 * Context: process context; under the log's checkpoint_lock.
 *
 * Return: bytes of records; U64_MAX: everything, as there is room for it, or no life has begun.
 */
u64 kvt_room_step(struct kvt_space *space, u64 directory, u32 tries, bool again)
{
	bool stays = room_stays(space, directory), small = READ_ONCE(kvt_log_step_segments);
	u32 keep, nr, i;
	u64 room = 0;

	if (room_is_whole(space, directory, tries, again, stays))
		return U64_MAX;
	for (i = 0; i < space->devs->nr; i++) {
		struct kvt_part *part = &space->part[i];

		WRITE_ONCE(part->segs.leave, step_leave(part, directory, stays));
		keep = kvt_room_keep(part, KVT_ROOM_SAVE) + CHECKPOINT_TAIL;
		nr = READ_ONCE(part->segs.nr_free);
		nr = nr > keep ? nr - keep : 0;
		if (small)
			nr = min(nr, step_segments(part, directory));
		room += nr * kvt_part_segment(part);
	}
	room -= room / CHECKPOINT_PADDING;
	return (room > directory ? room - directory : 0) >> tries;
}
KVT_EXPORT_FOR_TESTS(kvt_room_step);

/**
 * kvt_room_step_begin() - begin a step whose extent is known now
 * @space: the space; kvt_room_step() was called before
 * @last: no other step follows, so it leaves nothing to others
 *
 * Context: process context; under the log's checkpoint_lock.
 *
 * Return: 0; KVT_LOG_NO_ROOM: what the step should leave is not there on all devices.
 */
int kvt_room_step_begin(struct kvt_space *space, bool last)
{
	u32 i;

	for (i = 0; i < space->devs->nr; i++) {
		struct kvt_part *part = &space->part[i];

		if (last)
			WRITE_ONCE(part->segs.leave, 0);
		else if (READ_ONCE(part->segs.nr_free) < kvt_room_keep(part, KVT_ROOM_SAVE))
			return KVT_LOG_NO_ROOM;
	}
	return 0;
}
KVT_EXPORT_FOR_TESTS(kvt_room_step_begin);

/**
 * kvt_room_describes() - whether a directory is a small part of a checkpoint
 * @space: the space
 * @bytes: of the directory's records
 *
 * It is always a small part of a checkpoint that writes everything: all ranges have their full
 * size then.
 *
 * Return: false if it may take more than is kept for checkpoints.
 */
bool kvt_room_describes(const struct kvt_space *space, u64 bytes)
{
	u64 least = kvt_live_bytes(space) / (2 * CHECKPOINT_PADDING);
	u32 i;

	for (i = 0; i < space->devs->nr; i++)
		if (bytes > least + kvt_part_segment(&space->part[i]))
			return false;
	return true;
}

/**
 * kvt_room_long() - whether the log is long enough for a checkpoint
 * @space: the space
 *
 * It does not matter how much room is left: an attach reads the whole log.  A checkpoint
 * of everything writes what is live; if one is made each time the log has grown by as much, half of
 * all writes are checkpoints.  Other checkpoints write less, and are made twice as often.
 *
 * Return: true if a recovery would replay more than log_replay_mb, and more bytes than are live, or
 * than half of these unless the last checkpoint since the attach wrote everything.
 */
bool kvt_room_long(const struct kvt_space *space)
{
	u64 few = (u64)READ_ONCE(log_replay_mb) * SZ_1M;

	u64 live = kvt_live_bytes(space) / (READ_ONCE(space->whole) ? 1 : 2);

	return READ_ONCE(space->replay_bytes) > max(few, live);
}

/**
 * kvt_room_begins() - whether a life can begin, and end with a checkpoint
 * @part: of the space, on a device
 * @carried: segments that the carried epoch takes before
 *
 * Return: false if a checkpoint should be made first.
 */
bool kvt_room_begins(const struct kvt_part *part, u32 carried)
{
	return part->segs.nr_free >= COMMIT_OPEN + carried + kvt_room_keep(part, KVT_ROOM_STREAM);
}
KVT_EXPORT_FOR_TESTS(kvt_room_begins);

/**
 * kvt_room_ends() - whether a life can begin, and end without a checkpoint
 * @part: of the space, on a device
 * @carried: segments that the carried epoch takes before
 *
 * Return: false if the changes that it accepts before it runs out of room could not be committed.
 */
bool kvt_room_ends(const struct kvt_part *part, u32 carried)
{
	return part->segs.nr_free >= COMMIT_OPEN + carried + end_segments(part);
}
KVT_EXPORT_FOR_TESTS(kvt_room_ends);

/**
 * kvt_room_slow() - whether an attach would take long because of the log
 * @space: the space
 *
 * Return: true if a checkpoint should be made before a detach.
 */
bool kvt_room_slow(const struct kvt_space *space)
{
	u64 few = (u64)READ_ONCE(log_replay_mb) * SZ_1M / SLOW_FEW;

	return space->replay_bytes > max(few, kvt_live_bytes(space) / SLOW_PART);
}

/**
 * kvt_room_stop_writers() - make writers wait until a checkpoint has made room
 * @space: the space
 *
 * Context: process context.
 */
void kvt_room_stop_writers(struct kvt_space *space)
{
	struct kvt_log_state *state = space->state;

	if (test_and_set_bit(KVT_LOG_FULL, &state->flags)) {
		queue_delayed_work(state->wq, &state->checkpoint, 0);
		return;
	}
	kvt_stat_inc(state->env.stats, KVTREE_STAT_LOG_FULL);
	/* If one failed while there was room, it is queued for much later. */
	mod_delayed_work(state->wq, &state->checkpoint, 0);
}
KVT_EXPORT_FOR_TESTS(kvt_room_stop_writers);

static enum kvtree_log_kind room_kind(enum kvt_room room)
{
	switch (room) {
	case KVT_ROOM_STREAM:
	case KVT_ROOM_DRAIN:
		return KVTREE_LOG_KIND_STREAM;
	case KVT_ROOM_SAVE:
		return KVTREE_LOG_KIND_CHECKPOINT;
	default:
		return KVTREE_LOG_KIND_COMMIT;
	}
}

/* Whether a device has as many free segments as checkpoints need there. */
static bool part_keeps(struct kvt_part *part)
{
	struct kvt_seg_table *segs = &part->segs;
	bool keeps;

	spin_lock(&segs->lock);
	keeps = segs->nr_free >= kvt_room_keep(part, KVT_ROOM_COMMIT);
	spin_unlock(&segs->lock);
	return keeps;
}

/**
 * kvt_room_grows() - whether the store may grow by one more segment of streams' records
 * @space: the space
 *
 * Context: process context; no table's lock is held.
 *
 * Return: true if each device has room for its part of a checkpoint of all that would be live.
 */
bool kvt_room_grows(struct kvt_space *space)
{
	u32 i;

	for (i = 0; i < space->devs->nr; i++)
		if (!part_keeps(&space->part[i]))
			return false;
	return true;
}
KVT_EXPORT_FOR_TESTS(kvt_room_grows);

/* Take a free segment, if one is left for this use. */
static int room_find(struct kvt_part *part, enum kvt_room room, struct kvt_log_pos *pos)
{
	bool saved = room_kind(room) == KVTREE_LOG_KIND_CHECKPOINT;
	struct kvt_seg_table *segs = &part->segs;
	int err;

	if (room == KVT_ROOM_STREAM && !kvt_room_grows(part->space))
		return KVT_LOG_NO_ROOM;
	spin_lock(&segs->lock);
	err = kvt_segs_take(segs, kvt_room_keep(part, room), saved ? KVT_SEG_NEW : KVT_SEG_LOG,
			    pos);
	spin_unlock(&segs->lock);
	return err;
}

/* Take a free segment and write its header. */
static int room_open(struct kvt_part *part, enum kvt_room room, u32 stream,
		     struct kvt_log_pos *pos)
{
	struct kvt_log_dev *dev = part->dev;
	struct kvtree_log_segment *head;
	int err;

	head = kmalloc(sizeof(*head), GFP_NOIO | __GFP_NOFAIL);
	err = room_find(part, room, pos);
	if (!err) {
		kvt_log_segment_fill(head, dev->super, dev->devs->generation, pos, room_kind(room),
				     stream);
		err = kvt_dev_write(dev, kvt_log_pos_block(dev->super, pos), 1, head);
		pos->block = 1;
	}
	kfree(head);
	return err;
}

/**
 * kvt_room_take() - take a segment, and start a checkpoint if few are left
 * @part: of the space, on a device
 * @room: what the segment is for
 * @stream: the stream of its first records
 * @pos: filled: the first block after the segment's header
 *
 * Context: process context, sleeps.
 *
 * Return: 0; KVT_LOG_NO_ROOM: no segment is left for this use, or, for a stream, another device has
 * fewer than it must keep; after a request for a stream or an ordinary commit, writers wait; or an
 * error of the device.
 */
int kvt_room_take(struct kvt_part *part, enum kvt_room room, u32 stream,
		  struct kvt_log_pos *pos)
{
	bool ordinary = room == KVT_ROOM_STREAM || room == KVT_ROOM_COMMIT;
	struct kvt_log_state *state = part->space->state;
	int err = room_open(part, room, stream, pos);

	if (ordinary && err == KVT_LOG_NO_ROOM)
		kvt_room_stop_writers(part->space);
	else if (ordinary && !err && kvt_room_low(part->space))
		queue_delayed_work(state->wq, &state->checkpoint, 0);
	return err;
}
KVT_EXPORT_FOR_TESTS(kvt_room_take);
