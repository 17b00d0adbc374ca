// SPDX-License-Identifier: GPL-2.0
/*
 * Room: reserve free segments, and limit how much a store may hold, so that a checkpoint of
 * everything can always be made.  Only checkpoints free segments.
 *
 * Such a checkpoint is written in steps if it does not fit at once.  A step writes the ranges
 * again whose bases are in some segments, and these become free: see plan.c.  So what a checkpoint
 * needs in the end is what its bases fill (A), less the segments that bases have now (B).  As the
 * steps that gain most come first, it needs most room before the first step or after the last.
 * Therefore
 *
 *	K = max(0, A - B) + S + E
 *
 * segments are kept on each device: streams and ordinary commits take a segment only if all
 * devices have K free afterwards.  S is for the steps themselves: one old segment is free only when
 * its ranges have been written elsewhere, and there are two directories at a time.  E is for what
 * is committed while steps are made, and for the beginning of another life after a crash.
 *
 * Writing bases does not change the sum of free segments and B, nor does freeing what they
 * replace.  So whatever ends a checkpoint, and after any of its steps, there is room for the next.
 *
 * On a small device, S and E are more than a second copy of what is live.  There, checkpoints are
 * written at once, and K = A + one directory + what a checkpoint commits at its end.
 *
 * Each device is checked on its own, since any of them may run out first: a small one may hold
 * only commit records.  What a checkpoint writes grows with the live data, no matter which device
 * the records are written to; so a stream takes a segment only if all devices have enough free
 * segments.
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
/* Of these, the ones with which a life begins. */
#define COMMIT_FIRST	2
/* Segments that commit records fill while a checkpoint is made. */
#define COMMIT_FILL	1
/* Segments kept for commit records: from the streams, and for the end of a step. */
#define COMMIT_MORE	1
#define COMMIT_LAST	1

/* The last segment of bases, which is partly filled, and the one of what else a step writes. */
#define BASES_TAIL	1
#define REST_TAIL	1
/*
 * Divisors: this part of the live bytes, or of a segment, allows for padding and rough counts.  A
 * chunk of bases has KVT_SAVE_BYTES at least, and two blocks of padding at most: a twentieth.  The
 * rest is for the last chunks of the workers in each step, which have less.
 */
#define CHECKPOINT_PADDING	16
#define SMALL_PADDING		256

/* A step writes as much before it frees a segment; and it has an open segment at each place. */
#define STEP_OPEN		(1 + BASES_TAIL + REST_TAIL)
/* Divisors: the log and a directory have room for this part of a device's segments. */
#define LOG_PART		8
#define DIRECTORY_PART		128
/* Divisor: a directory of at most this part of what is live is small. */
#define DIRECTORY_SMALL		16

/* Segments that the streams of a device hold open, if it has streams. */
#define STREAMS_OPEN	1U
/* Bytes of chunks that a stream may have in its buffers. */
#define STREAM_BYTES	((u64)KVT_LOG_SEALED_BYTES + KVT_LOG_CHUNK_BYTES)

/*
 * The segments that a device needs besides those of one checkpoint, or of two if these are written
 * at once.  Writers may have to wait for one checkpoint, but for nothing else: once it has taken
 * effect, there is room for more records, and for the next one.
 */
struct reserve {
	u32 keep;	/* for the next one, besides its bases */
	u32 tails;	/* of bases: see BASES_TAIL */
	u32 rest;	/* for the directory of the current one; REST_TAIL */
	u32 filled;	/* by streams, with records that were not durable when it began */
	u32 buffers;	/* for the records that were in the streams' buffers then */
	u32 end;	/* for what it committed at its end */
	u32 open;	/* being written to: one by the streams, and those of commit records */
	u32 commits;	/* filled by commit records since */
	u32 next;	/* for streams and commits afterwards */
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

static u32 beyond(u32 nr, u32 keep)
{
	return nr > keep ? nr - keep : 0;
}

/* The bytes that a segment holds at least if all records are small. */
static u64 segment_small(const struct kvt_part *part)
{
	u64 bytes = kvt_part_bytes(part);

	return bytes - KVT_SAVE_CHUNK_SMALL - bytes / SMALL_PADDING;
}

/* The same if they may be of any size. */
static u64 segment_any(const struct kvt_part *part)
{
	return kvt_part_bytes(part) - KVT_SAVE_CHUNK_BYTES;
}

/* Segments that bases of what is live need on a device; all large records may be on this one. */
static u32 checkpoint_segments(const struct kvt_part *part, struct kvt_live live)
{
	u64 here = mul_u64_u64_div_u64(live.bytes + live.bytes / CHECKPOINT_PADDING, part->share,
				       part->space->shares);

	return min(div64_u64(here, segment_any(part)),
		   div64_u64(here + live.large, segment_small(part))) + BASES_TAIL;
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
	return nr / KVTREE_LOG_SEGMENTS_MIN * space->devs->nr;
}
KVT_EXPORT_FOR_TESTS(kvt_room_streams);

/* Segments for what a checkpoint commits at its end. */
static u32 end_segments(const struct kvt_part *part)
{
	return drain_segments(part) + COMMIT_LAST;
}

/* Segments that an epoch which is not durable may have on a device. */
static u32 epoch_most(const struct kvt_part *part)
{
	return min(kvt_part_streams(part), STREAMS_OPEN) * (kvt_room_ahead(part) + 1) +
	       drain_segments(part);
}

/*
 * Segments for the beginning of a life after a crash, before a checkpoint: it must carry the last
 * epoch.  See kvt_room_secures().
 */
static u32 life_segments(const struct kvt_part *part)
{
	return COMMIT_FIRST + epoch_most(part);
}

/*
 * E: what is committed while steps are made, and a life after a crash.  Once writers are stopped,
 * only one step has records to commit at its end; later ones write commit records, and so does
 * the end of the life, if there is no room for a checkpoint.
 */
static u32 kept_for_ends(const struct kvt_part *part)
{
	return end_segments(part) + 2 * COMMIT_LAST + life_segments(part);
}

/* The bytes of directories that a segment holds at least: their chunks are small. */
static u64 segment_rest(const struct kvt_part *part)
{
	u64 bytes = kvt_part_bytes(part);

	return bytes - KVT_LOG_BUF_BYTES - bytes / SMALL_PADDING;
}

/* Segments for this many bytes of directories, not counting one that is partly filled. */
static u32 rest_segments(const struct kvt_part *part, u64 directory)
{
	u64 bytes = mul_u64_u64_div_u64(directory, part->share, part->space->shares);
	u64 segment = segment_rest(part);

	return min(div64_u64(bytes + segment - 1, segment), U32_MAX / 4);
}

/* Segments of a device that are reserved for its parts of directories. */
static u32 directory_segments(const struct kvt_part *part, u32 nr)
{
	return div_u64((u64)nr * part->segs.nr + DIRECTORY_PART - 1, DIRECTORY_PART);
}

/* The directories that a checkpoint writes before it frees one. */
static u32 nr_directories(const struct kvt_part *part)
{
	return part->space->steps ? 2 : 1;
}

/* Segments kept for neither bases nor directories. */
static u32 kept_anyway(const struct kvt_part *part)
{
	if (part->space->steps)
		return kept_for_ends(part) + STEP_OPEN;
	return end_segments(part) + REST_TAIL;
}

/* Segments of a device that checkpoints cannot use for bases. */
static u32 reserve_segments(const struct kvt_part *part)
{
	u32 open = min(kvt_part_streams(part), STREAMS_OPEN);
	const struct reserve r = {
		.keep = kept_anyway(part) + directory_segments(part, nr_directories(part)),
		.tails = (part->space->steps ? 1 : 2) * BASES_TAIL,
		.rest = directory_segments(part, 1) + REST_TAIL,
		.filled = open * kvt_room_ahead(part),
		.buffers = drain_segments(part),
		.end = end_segments(part),
		.open = open + COMMIT_OPEN,
		.commits = COMMIT_FILL + COMMIT_LAST,
		.next = open + COMMIT_MORE,
	};
	u32 log = r.filled + r.buffers + r.end + r.open + r.commits + r.next;

	return r.keep + r.tails + r.rest + max(log, part->segs.nr / LOG_PART);
}

/* Segments of a device that the bases of one checkpoint may fill. */
static u32 most_segments(const struct kvt_part *part)
{
	u32 reserve = reserve_segments(part), nr = part->segs.nr;

	if (nr <= reserve)
		return 0;
	return (nr - reserve) / (part->space->steps ? 1 : 2);
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

	return (nr - KVT_SAVERS_MAX) * KVT_SAVE_BYTES;
}

/* The most bytes of a device's part of a checkpoint; if @small, with kvt_live.large added. */
static u64 part_max(const struct kvt_part *part, bool small)
{
	u64 bytes = kvt_room_segment(part, small);

	return min(part->most * bytes, table_bytes(part));
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
	u64 max = U64_MAX, bytes;
	u32 i;

	space->large_devs = 1;
	for (i = 0; i < space->devs->nr; i++) {
		const struct kvt_part *part = &space->part[i];

		bytes = part_max(part, true);
		max = min(max, mul_u64_u64_div_u64(bytes, space->shares, part->share));
		space->large_devs = max(space->large_devs,
					div64_u64(space->shares + part->share - 1, part->share));
	}
	space->small_most = room_max(space, max);
}

/**
 * kvt_room_describe() - note how large the directory of ranges is
 * @space: the space; kvt_room_init() was called before
 * @bytes: of the directory
 *
 * If it is larger than the part of the devices that is reserved for it, the store may hold less.
 * There may be three directories at a time: see struct reserve.
 *
 * Context: any.
 */
void kvt_room_describe(struct kvt_space *space, u64 bytes)
{
	u64 less = bytes > space->described ? 3 * (bytes - space->described) : 0;

	WRITE_ONCE(space->directory, bytes);
	WRITE_ONCE(space->any_max, space->any_most - min(space->any_most, less));
	WRITE_ONCE(space->small_max, space->small_most - min(space->small_most, less));
}
KVT_EXPORT_FOR_TESTS(kvt_room_describe);

/* Compute the limits if checkpoints of everything may have several steps, or if they cannot. */
static void room_init(struct kvt_space *space, bool steps)
{
	u32 i;

	space->steps = steps;
	space->shares = 0;
	space->described = 0;
	for (i = 0; i < space->devs->nr; i++) {
		struct kvt_part *part = &space->part[i];

		part->most = most_segments(part);
		part->share = part_max(part, false) ?: 1;
		space->shares += part->share;
		space->described += part->segs.nr * segment_rest(part) / DIRECTORY_PART;
	}
	space->any_most = room_max(space, space->shares);
	room_init_small(space);
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
	u64 at_once;

	space->nr_streams = nr_streams;
	room_init(space, false);
	at_once = space->any_most;
	room_init(space, true);
	if (space->any_most < at_once)
		room_init(space, false);
	kvt_room_describe(space, space->directory);
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
	if (live.bytes <= READ_ONCE(space->any_max))
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
	max = max(max, part->most + BASES_TAIL);
	then.bytes += growth;
	then.large += growth;
	return min(checkpoint_segments(part, then), max);
}

/* Segments for directories, of the present size or of the size for which room is reserved. */
static u32 directories(const struct kvt_part *part, u32 nr)
{
	return max(rest_segments(part, nr * READ_ONCE(part->space->directory)),
		   directory_segments(part, nr));
}

/*
 * K without A: S + E if checkpoints have steps; otherwise one directory, and what a checkpoint
 * commits at its end.
 */
static u32 kept_besides_bases(const struct kvt_part *part)
{
	return kept_anyway(part) + directories(part, nr_directories(part));
}

/* K: segments that are left free between checkpoints if this many have bases. */
static u32 kept_with(const struct kvt_part *part, u32 bases)
{
	u32 most = checkpoint_most(part);

	if (part->space->steps)
		most = beyond(most, bases);
	return most + kept_besides_bases(part);
}

static u32 kept(const struct kvt_part *part)
{
	return kept_with(part, READ_ONCE(part->segs.nr_base));
}

/*
 * What streams and commits leave free: during a checkpoint, also what it commits and its directory;
 * and its bases, unless these count as what the next one frees.  They also leave what the current
 * step may take, so that it need not be made again.
 */
static u32 log_keep(const struct kvt_part *part)
{
	u32 keep = kept(part);

	if (READ_ONCE(part->segs.saving))
		keep += end_segments(part) + REST_TAIL +
			directories(part, 1) +
			(part->space->steps ? 0 : checkpoint_most(part));
	return max(keep, READ_ONCE(part->segs.leave) + READ_ONCE(part->segs.planned));
}

/*
 * Segments that a checkpoint leaves free when it saves: those for what it commits at its end, and
 * what the current step leaves.  If it does not write everything, it is not known how much it will
 * write, and it may free only the log: keep room for the next one.
 */
static u32 save_keep(const struct kvt_part *part)
{
	if (!part->space->state->alive)
		return 0;
	if (READ_ONCE(part->segs.full))
		return READ_ONCE(part->segs.leave);
	return end_segments(part) + beyond(kept(part), READ_ONCE(part->segs.useless));
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
		return log_keep(part) + COMMIT_MORE;
	case KVT_ROOM_COMMIT:
		return log_keep(part);
	case KVT_ROOM_BASES:
	case KVT_ROOM_REST:
		return save_keep(part);
	default:
		return 0;
	}
}
KVT_EXPORT_FOR_TESTS(kvt_room_keep);

/**
 * kvt_room_left() - how many segments streams may take now
 * @part: of the space, on a device
 *
 * Context: any.
 *
 * Return: a number of segments.
 */
u32 kvt_room_left(const struct kvt_part *part)
{
	return beyond(READ_ONCE(part->segs.nr_free), kvt_room_keep(part, KVT_ROOM_STREAM));
}

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

/* Segments for a device's part of a checkpoint of everything, in one step. */
static u32 whole_segments(const struct kvt_part *part, u64 directory)
{
	return checkpoint_segments(part, kvt_live_now(part->space)) +
	       rest_segments(part, directory) + REST_TAIL;
}

/* Whether all devices have room for it. */
static bool room_is_there(const struct kvt_space *space, u64 directory)
{
	const struct kvt_part *part;
	u32 i;

	for (i = 0; i < space->devs->nr; i++) {
		part = &space->part[i];
		if (READ_ONCE(part->segs.nr_free) < save_keep(part) +
						    whole_segments(part, directory))
			return false;
	}
	return true;
}

/* Whether small steps are wanted, and there is always room for them. */
static bool small_steps(const struct kvt_space *space)
{
	return space->steps && READ_ONCE(kvt_log_step_segments);
}

/*
 * The most segments that a step writes on a device, if small ones are wanted.  Each step writes the
 * whole directory, so it should write at least as much of the ranges.
 */
static u32 step_segments(const struct kvt_part *part, u64 directory)
{
	return max(rest_segments(part, 2 * directory),
		   READ_ONCE(kvt_log_step_segments));
}

/**
 * kvt_room_small() - whether segments hold more than if all records might be large
 * @space: the space
 *
 * Context: any.
 *
 * Return: true if so: see struct kvt_live.
 */
bool kvt_room_small(const struct kvt_space *space)
{
	struct kvt_live live = kvt_live_now(space);
	const struct kvt_part *part = &space->part[0];

	return div64_u64(live.bytes + live.large, segment_small(part)) <
	       div64_u64(live.bytes, segment_any(part));
}
KVT_EXPORT_FOR_TESTS(kvt_room_small);

/**
 * kvt_room_segment() - how much a segment holds at least
 * @part: on its device
 * @small: of kvt_room_small()
 *
 * Context: any.
 *
 * Return: bytes, to be compared with kvt_room_cost().
 */
u64 kvt_room_segment(const struct kvt_part *part, bool small)
{
	return small ? segment_small(part) : segment_any(part);
}
KVT_EXPORT_FOR_TESTS(kvt_room_segment);

/*
 * Set what a step leaves free: for what it commits, for what the next one commits if writers go on,
 * and for a life after a crash.  @rest: nothing of that but what it commits.
 */
static void steps_leave(struct kvt_space *space, bool stopped, bool rest)
{
	struct kvt_part *part;
	u32 i, end;

	for (i = 0; i < space->devs->nr; i++) {
		part = &space->part[i];
		end = stopped ? COMMIT_LAST : end_segments(part);
		if (!rest && space->steps)
			end += (stopped ? 0 : end + 2 * COMMIT_LAST) + life_segments(part);
		WRITE_ONCE(part->segs.leave, end);
	}
}

/*
 * Bytes of records for which a device has room in a step.  Writers that go on keep half of what
 * they may take.
 */
static u64 step_bytes(struct kvt_part *part, u64 directory, bool stopped)
{
	u32 free = READ_ONCE(part->segs.nr_free);
	u32 nr = beyond(free, save_keep(part) + BASES_TAIL + REST_TAIL);

	if (!stopped)
		nr -= min(nr, beyond(free, log_keep(part)) / 2);
	if (small_steps(part->space))
		nr = min(nr, step_segments(part, directory));
	WRITE_ONCE(part->segs.planned, nr + BASES_TAIL + REST_TAIL);
	return nr * kvt_room_segment(part, kvt_room_small(part->space));
}

/**
 * kvt_room_step() - how much a step of a checkpoint of everything may write
 * @space: the space
 * @step: what is known about the step
 *
 * This also sets how many segments the step leaves free.  If it is not everything, then unless
 * kvt_room_grows(), writers must be stopped, and what they have written be committed, before the
 * step is made.
 *
 * Context: process context; under the log's checkpoint_lock.
 *
 * Return: bytes of records, as of kvt_room_cost(); U64_MAX: everything, as there is room for it.
 */
u64 kvt_room_step(struct kvt_space *space, const struct kvt_room_step *step)
{
	u64 directory = space->directory, room = 0;
	u32 i;

	steps_leave(space, step->stopped, false);
	for (i = 0; i < space->devs->nr; i++)
		WRITE_ONCE(space->part[i].segs.planned, 0);
	if (!(step->tries || small_steps(space)) && room_is_there(space, directory)) {
		for (i = 0; i < space->devs->nr; i++)
			WRITE_ONCE(space->part[i].segs.planned,
				   whole_segments(&space->part[i], directory));
		return U64_MAX;
	}
	for (i = 0; i < space->devs->nr; i++)
		room += step_bytes(&space->part[i], directory, step->stopped);
	room -= room / CHECKPOINT_PADDING;
	return (room > directory ? room - directory : 0) >> step->tries;
}
KVT_EXPORT_FOR_TESTS(kvt_room_step);

/**
 * kvt_room_net() - how much more a checkpoint of everything may write than it frees
 * @space: the space
 *
 * Context: any.
 *
 * Return: bytes of records, as of kvt_room_cost(), after which there is room for the next one.
 */
u64 kvt_room_net(const struct kvt_space *space)
{
	bool small = kvt_room_small(space);
	u64 room = 0;
	u32 i;

	for (i = 0; i < space->devs->nr; i++) {
		const struct kvt_part *part = &space->part[i];
		u32 keep = kept_besides_bases(part) + BASES_TAIL;

		room += beyond(READ_ONCE(part->segs.nr_free), keep) *
			kvt_room_segment(part, small);
	}
	return room - room / CHECKPOINT_PADDING;
}
KVT_EXPORT_FOR_TESTS(kvt_room_net);

/**
 * kvt_room_step_rest() - let the next step use what others leave
 * @space: the space; kvt_room_step() was called before
 * @stopped: as passed to kvt_room_step()
 *
 * Context: process context; under the log's checkpoint_lock.
 */
void kvt_room_step_rest(struct kvt_space *space, bool stopped)
{
	steps_leave(space, stopped, true);
}
KVT_EXPORT_FOR_TESTS(kvt_room_step_rest);

/**
 * kvt_room_describes() - whether the directory is a small part of a checkpoint
 * @space: the space
 *
 * It is always a small part of a checkpoint that writes everything: all ranges have their full
 * size then.
 *
 * Return: false if it may take more than is kept for checkpoints.
 */
bool kvt_room_describes(const struct kvt_space *space)
{
	u64 least = kvt_live_bytes(space) / DIRECTORY_SMALL, bytes = space->directory;
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
 * kvt_room_secures() - whether a life can begin only in order to carry the last epoch
 * @part: of the space, on a device
 * @carried: segments that the carried epoch takes
 *
 * Return: false if there is no room for it.
 */
bool kvt_room_secures(const struct kvt_part *part, u32 carried)
{
	return part->segs.nr_free >= COMMIT_FIRST + carried;
}
KVT_EXPORT_FOR_TESTS(kvt_room_secures);

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
	case KVT_ROOM_BASES:
	case KVT_ROOM_REST:
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

/**
 * kvt_room_regrows() - whether the store may grow when useless segments are free
 * @space: the space; a checkpoint has ended
 *
 * Context: process context; under the log's checkpoint_lock.
 *
 * Return: false if streams get no segment then.
 */
bool kvt_room_regrows(const struct kvt_space *space)
{
	const struct kvt_seg_table *segs;
	const struct kvt_part *part;
	u32 keep, i;

	for (i = 0; i < space->devs->nr; i++) {
		part = &space->part[i];
		segs = &part->segs;
		keep = kept_with(part, READ_ONCE(segs->nr_base) - segs->useless_bases) +
		       COMMIT_MORE + !!kvt_part_streams(part);
		if (READ_ONCE(segs->nr_free) + segs->useless < keep)
			return false;
	}
	return true;
}
KVT_EXPORT_FOR_TESTS(kvt_room_regrows);

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
	if (!err && room == KVT_ROOM_BASES)
		kvt_segs_base(segs, pos->segment, true);
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
