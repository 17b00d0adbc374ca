// SPDX-License-Identifier: GPL-2.0
/*
 * Room: how many segments are reserved, and how much a store may hold, so that a checkpoint
 * can always be made.  Nothing else frees segments.
 *
 * Each device is judged on its own, since any of them may fill first: a small one may hold
 * commit records only.  Between checkpoints each keeps what the next one needs there.  That grows
 * with what is live, whichever device the records are on: so a stream takes a segment only if all
 * devices have what they should keep.  The free segments are used from left to right:
 *
 *	streams stop | one segment | ordinary     | what the checkpoint writes here,
 *	here         | for commit  | commits stop | and what it commits at its end: records
 *	             | records     | here         | in buffers, and one segment for commit
 *	             |             |              | records
 *
 * A writer that finds no room starts a checkpoint, and writers wait for it.
 *
 * kmod/tests/log_room_test.c shows for many numbers of CPUs, devices and segments that this works.
 */
#include <linux/sizes.h>
#include <linux/slab.h>

#include "base/stats.h"
#include "space.h"

/* Segments that commit records have open: the present one, the next, and the one after it. */
#define COMMIT_OPEN	3
/* Those that they fill while a checkpoint is made. */
#define COMMIT_FILL	1
/* What is kept for them: between streams and commits, and for the end of a checkpoint. */
#define COMMIT_MORE	1
#define COMMIT_LAST	1

/* The last segments of a checkpoint: one that is not full, and that of its table. */
#define CHECKPOINT_TABLE	1
#define CHECKPOINT_TAIL		(1 + CHECKPOINT_TABLE)
/* This part of what is live covers padding, and what is counted only roughly. */
#define CHECKPOINT_PADDING	8
#define SMALL_PADDING		256

/* The segment that streams have open, if there are any. */
#define STREAMS_OPEN	1U
/* Bytes of chunks that a stream may still have to write. */
#define STREAM_BYTES	((u64)KVT_LOG_SEALED_BYTES + KVT_LOG_CHUNK_BYTES)

/*
 * What a device has to hold besides two checkpoints, in segments.  Writers may wait for a
 * checkpoint, but for nothing else: when it counts, there is room for the next one.
 */
struct reserve {
	u32 filled;	/* by streams, with what was not durable when a checkpoint began */
	u32 buffers;	/* what was in their buffers then */
	u32 end;	/* what it commits at its end */
	u32 next_end;	/* room for as much at the end of the next one */
	u32 open;	/* is written to: one by the streams, and those of commit records */
	u32 commits;	/* commit records written meanwhile, and room for more */
	u32 next;	/* what streams get after it, or else they would wait for the next one */
	u32 tails;	/* of both checkpoints */
};

/* An attach reads a log of more than this part of log_replay_mb, and of what is live, slowly. */
#define SLOW_FEW	4
#define SLOW_PART	16

/*
 * How much of the log is read soon enough, however little is live.  The least is more than an
 * epoch without records takes: or else each checkpoint would ask for the next.
 */
static unsigned int log_replay_mb = 64;
KVT_LOG_PARAM(log_replay_mb, log_replay_mb, 1, UINT_MAX);
MODULE_PARM_DESC(log_replay_mb, "MiB that may be in the log after a checkpoint before the next one is made; more if more is live");

/*
 * How many bytes a segment holds at least, if all records are small.  Of large segments a part is
 * left for directories of the longest keys, for which CHECKPOINT_PADDING is just not enough.
 */
static u64 segment_small(const struct kvt_part *part)
{
	u64 bytes = kvt_part_segment(part) + KVT_LOG_CHUNK_BYTES;

	return bytes - KVT_LOG_CHUNK_SMALL - bytes / SMALL_PADDING;
}

/* Segments of a device that a checkpoint needs: large records may all be on one. */
static u32 checkpoint_segments(const struct kvt_part *part, struct kvt_live live)
{
	u64 here = mul_u64_u64_div_u64(live.bytes + live.bytes / CHECKPOINT_PADDING, part->share,
				       part->space->shares);

	/* Of several, one may have a chunk more than its share: see saved_next(). */
	if (part->space->devs->nr > 1)
		here += KVT_LOG_CHUNK_BYTES;
	return min(div64_u64(here, kvt_part_segment(part)),
		   div64_u64(here + live.large, segment_small(part))) + CHECKPOINT_TAIL;
}

/* Segments that the contents of all buffers need. */
static u32 drain_segments(const struct kvt_part *part)
{
	u64 bytes = kvt_part_segment(part);

	return div64_u64(kvt_part_streams(part) * STREAM_BYTES + bytes - 1, bytes);
}

/**
 * kvt_room_ahead() - how far the streams of a device may be ahead of what is durable
 * @part: on the device
 *
 * Return: segments that they may have filled, 1..KVT_LOG_AHEAD_MAX.
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
 * Return: not so many that their buffers need more than a part of small devices.
 */
u32 kvt_room_streams(const struct kvt_space *space)
{
	u32 nr = U32_MAX, i;

	for (i = 0; i < space->devs->nr; i++)
		nr = min(nr, space->part[i].segs.nr);
	return nr / (KVTREE_LOG_SEGMENTS_MIN / 2) * space->devs->nr;
}
KVT_EXPORT_FOR_TESTS(kvt_room_streams);

/* Segments that a checkpoint commits at its end. */
static u32 end_segments(const struct kvt_part *part)
{
	return drain_segments(part) + COMMIT_LAST;
}

/* Segments of a device that no checkpoint can use. */
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
 * How much of a checkpoint a device's table can describe, which is in one segment: bytes of
 * records, whatever they are.
 */
static u64 table_bytes(const struct kvt_part *part)
{
	u64 bytes = (u64)(le32_to_cpu(part->dev->super->segment_blocks) - 1) * KVTREE_LOG_BLOCK;
	const struct kvtree_log_table *table;
	u64 nr = (bytes - sizeof(*table)) / sizeof(table->extents[0]);

	return (nr - KVT_SAVERS_MAX) * KVT_SAVE_EXTENT_BYTES;
}

/* What a device's part of a checkpoint may have; less its own large records if @small. */
static u64 part_max(const struct kvt_part *part, bool small)
{
	u64 bytes = small ? segment_small(part) : kvt_part_segment(part);

	return min(part->half * bytes, table_bytes(part));
}

/* So much less is kept for padding, and because it is not counted exactly. */
static u64 room_max(const struct kvt_space *space, u64 max)
{
	max -= max / CHECKPOINT_PADDING;
	return max > kvt_live_slack(space) ? max - kvt_live_slack(space) : 0;
}

/* How much the store may hold if its records are small: no device's part is more than it may be. */
static void room_init_small(struct kvt_space *space)
{
	u64 max = U64_MAX, chunk;
	u32 i;

	space->large_devs = 1;
	for (i = 0; i < space->devs->nr; i++) {
		const struct kvt_part *part = &space->part[i];

		chunk = space->devs->nr > 1 ? KVT_LOG_CHUNK_BYTES : 0;
		chunk = part_max(part, true) - min(part_max(part, true), chunk);
		max = min(max, mul_u64_u64_div_u64(chunk, space->shares, part->share));
		space->large_devs = max(space->large_devs,
					div64_u64(space->shares + part->share - 1, part->share));
	}
	space->small_max = room_max(space, max);
}

/**
 * kvt_room_init() - find out how much the store may hold, and how much of it where
 * @space: the space
 * @nr_streams: how many streams take a part of it
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
	space->live_max = room_max(space, space->shares);
	room_init_small(space);
}
KVT_EXPORT_FOR_TESTS(kvt_room_init);

/**
 * kvt_room_holds() - whether checkpoints can always be made of what is live
 * @space: the space
 * @live: what is
 *
 * Context: any.
 *
 * Return: true if so.
 */
bool kvt_room_holds(const struct kvt_space *space, struct kvt_live live)
{
	if (live.bytes <= space->live_max)
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
 * Return: bytes of records, if no more of them are large than now.
 */
u64 kvt_room_live_max(const struct kvt_space *space)
{
	u64 large = min_t(u64, atomic64_read(&space->large),
			  div64_u64(space->small_max, space->large_devs));

	return max(space->live_max, space->small_max - space->large_devs * large);
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
			growth += kvt_part_segment(part) + KVT_LOG_CHUNK_BYTES +
				  streams * STREAM_BYTES;
	}
	return growth;
}

/* What a checkpoint has to hold: what is live now, or will be again after a crash. */
static struct kvt_live room_live(const struct kvt_space *space)
{
	return kvt_live_most(kvt_live_now(space),
			     kvt_live_most(kvt_live_get(&space->live_closed),
					   kvt_live_get(&space->live_durable)));
}

/* The segments that it needs then, however the store grows meanwhile. */
static u32 checkpoint_most(const struct kvt_part *part)
{
	struct kvt_live live = room_live(part->space), then = live;
	u64 growth = kvt_live_slack(part->space) + room_growth(part->space);
	u32 max = checkpoint_segments(part, live);

	/* It may be more than this log would take: see kvt_streams_init(). */
	max = max(max, part->half + CHECKPOINT_TAIL);
	then.bytes += growth;
	then.large += growth;
	return min(checkpoint_segments(part, then), max);
}

/* Segments that the next checkpoint needs beyond what the present one frees. */
static u32 checkpoint_next(const struct kvt_part *part, u32 need)
{
	u32 useless = READ_ONCE(part->segs.useless);

	return need > useless ? need - useless : 0;
}

/*
 * Segments that others leave to checkpoints: those that the next one needs.  While one is being
 * made, those that it has not taken yet, and as many as the next one will need beyond what this
 * one frees.
 */
static u32 checkpoint_keep(const struct kvt_part *part)
{
	const struct kvt_seg_table *segs = &part->segs;
	u32 need = checkpoint_most(part), end = end_segments(part);
	u32 next = checkpoint_next(part, need + end), taken = READ_ONCE(segs->taken);

	if (!READ_ONCE(segs->saving))
		return next;
	return (need > taken ? need - taken : CHECKPOINT_TABLE) + end + next;
}

/*
 * Segments that a checkpoint leaves free when it saves.  Of one that does not write all it is not
 * known how much that is, nor that it frees more than the log: the next one has its room.
 */
static u32 save_keep(const struct kvt_part *part)
{
	u32 end = end_segments(part);

	if (!part->space->state->alive)
		return 0;
	if (READ_ONCE(part->segs.full))
		return COMMIT_LAST;
	return CHECKPOINT_TABLE + end + checkpoint_next(part, checkpoint_most(part) + end);
}

/**
 * kvt_room_keep() - how many segments to leave free
 * @part: of the space, on a device
 * @room: what a segment is wanted for
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
	case KVT_ROOM_DRAIN:
		/* The checkpoint's table comes after it, and commit records may have had theirs. */
		return CHECKPOINT_TABLE;
	case KVT_ROOM_SAVE:
		return save_keep(part);
	default:
		return 0;
	}
}
KVT_EXPORT_FOR_TESTS(kvt_room_keep);

/* Whether some device has less left for the log than such a part of what the log has there. */
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
 * Return: true if fewer segments are left for the log on some device than it has there.
 */
bool kvt_room_low(const struct kvt_space *space)
{
	return room_less(space, 1);
}

/**
 * kvt_room_short() - whether a checkpoint has to be made quickly
 * @space: the space
 *
 * Return: true if fewer are left for the log on some device than half of what it has there.
 */
bool kvt_room_short(const struct kvt_space *space)
{
	return room_less(space, 2);
}

/**
 * kvt_room_spare() - whether a checkpoint may leave segments as they are that it could free
 * @space: the space; kvt_segs_save_begin() has counted what it frees at least
 *
 * Segments of earlier checkpoints, of which a part is live, may take twice as much as is live.
 *
 * Return: false if all has to be written again, so that there is room for the streams, and for the
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

/**
 * kvt_room_describes() - whether a directory is a small part of a checkpoint
 * @space: the space
 * @bytes: of its records
 *
 * That of a checkpoint that writes all is, as each range has as much as it should then.
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
 * However much room there is: all of the log is read when the store is attached.  A checkpoint
 * writes what is live.  If each comes after as much log, half of what is written are checkpoints.
 *
 * Return: true if a recovery would replay more than a checkpoint would write, and not just a
 * little.
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
 * @carried: segments that an epoch is carried to before
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
 * @carried: segments that an epoch is carried to before
 *
 * Return: false if there is no room for what it would accept until none is left.
 */
bool kvt_room_ends(const struct kvt_part *part, u32 carried)
{
	return part->segs.nr_free >= COMMIT_OPEN + carried + end_segments(part) + CHECKPOINT_TABLE;
}

/**
 * kvt_room_slow() - whether an attach would take long for the log
 * @space: the space
 *
 * Return: true if a checkpoint should come before the log ends.
 */
bool kvt_room_slow(const struct kvt_space *space)
{
	u64 few = (u64)READ_ONCE(log_replay_mb) * SZ_1M / SLOW_FEW;

	return space->replay_bytes > max(few, kvt_live_bytes(space) / SLOW_PART);
}

/**
 * kvt_room_stop_writers() - have writers wait until a checkpoint has made room
 * @space: the space
 *
 * Context: process context.
 */
void kvt_room_stop_writers(struct kvt_space *space)
{
	struct kvt_log_state *state = space->state;

	if (!test_and_set_bit(KVT_LOG_FULL, &state->flags))
		kvt_stat_inc(state->env.stats, KVTREE_STAT_LOG_FULL);
	queue_delayed_work(state->wq, &state->checkpoint, 0);
}

static enum kvtree_log_kind room_kind(enum kvt_room room)
{
	switch (room) {
	case KVT_ROOM_STREAM:
	case KVT_ROOM_DRAIN:
		return KVTREE_LOG_KIND_STREAM;
	case KVT_ROOM_SAVE:
	case KVT_ROOM_TABLE:
		return KVTREE_LOG_KIND_CHECKPOINT;
	default:
		return KVTREE_LOG_KIND_COMMIT;
	}
}

/* Whether a device has free what checkpoints need there. */
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
 * kvt_room_grows() - whether the store may grow by what streams write to one more segment
 * @space: the space
 *
 * Context: process context; no table's lock is held.
 *
 * Return: true if each device has room for its part of a checkpoint of all that is live then.
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

/* Take a free segment, if one is left for what it is wanted for. */
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

/* The same, and write its header. */
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
 * @stream: of the first records that it will hold
 * @pos: filled: its first block after the header
 *
 * Context: process context, sleeps.
 *
 * Return: 0; KVT_LOG_NO_ROOM: none is left for that, or, for a stream, another device has less
 * than it has to keep, and if it was for a stream or an ordinary commit, writers wait; or an error
 * of the device.
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
