// SPDX-License-Identifier: GPL-2.0
/*
 * Room: which segments are kept for what, and how much a store may hold, so that a
 * checkpoint, which alone frees any, can always be made.
 *
 * Every device is looked at alone, since the log of any may come to its end first:
 * a small one may have nothing but commit records.  Between checkpoints it keeps what
 * the next one needs, in this order of use:
 *
 *	streams stop | one segment | ordinary     | what the checkpoint writes here,
 *	here         | for commit  | commits stop | what it waits for at its end: records
 *	             | records     | here         | in buffers, one segment for commit
 *	             |             |              | records
 *
 * Who finds no room has the writers wait, and a checkpoint made.
 */
#include "../stats.h"
#include "internal.h"

/* Segments for commit records: between streams and commits, and for a checkpoint. */
#define COMMIT_MORE	1
#define COMMIT_LAST	1
/* Those that commit records have open: the present one, the next, and one behind. */
#define COMMIT_OPEN	3

/**
 * kvt_room_segment() - bytes that a segment takes at least
 * @dev: the device
 *
 * Return: its size less what may be left unused at its end.
 */
u64 kvt_room_segment(const struct kvt_log_dev *dev)
{
	return (u64)le32_to_cpu(dev->super->segment_blocks) * KVTREE_LOG_BLOCK -
	       KVT_LOG_CHUNK_BYTES;
}

/*
 * Segments of a device that a checkpoint takes.  Its table is in the last one, and
 * chunks are padded to blocks; with a reserve for what is not counted exactly.
 */
static u32 checkpoint_segments(const struct kvt_log_dev *dev, u64 live)
{
	u64 here = mul_u64_u64_div_u64(live + live / 8, dev->share, dev->log->shares);

	return div64_u64(here, kvt_room_segment(dev)) + 2;
}

/* Bytes of chunks that a stream may have not written yet. */
#define STREAM_BYTES	(KVT_LOG_SEALED_BYTES + KVT_LOG_CHUNK_BYTES)

/* Segments that what is in the buffers takes. */
static u32 drain_segments(const struct kvt_log_dev *dev)
{
	u64 bytes = kvt_room_segment(dev);

	return kvt_dev_streams(dev) * div64_u64(STREAM_BYTES + bytes - 1, bytes);
}

/*
 * Segments of a device that a checkpoint has no use of.  Writers may have to wait for a
 * checkpoint, and nothing else: when it counts there is room for the next one.  These
 * are on the device then, beside that checkpoint and room for the next: what the streams
 * had filled and was not durable when it began, and what of that epoch was in the
 * buffers; what it waited for at its end, and room for as much at the end of the next;
 * the segments that are open; commit records that were written meanwhile, and room for
 * more.
 */
static u32 fixed_segments(const struct kvt_log_dev *dev)
{
	/* The last two of a checkpoint are in use twice, too. */
	return COMMIT_OPEN + 1 + COMMIT_MORE + COMMIT_LAST + 3 * drain_segments(dev) +
	       kvt_dev_streams(dev) * (kvt_stream_ahead(dev) + 1) + 1 + 2 * 2;
}

/**
 * kvt_room_init() - find out how much the store may hold, and how much of it where
 * @log: the log, its streams made
 *
 * A device gets as large a part of a checkpoint as it has room for, and as its table can
 * describe.
 */
void kvt_room_init(struct kvt_log *log)
{
	u32 i, fixed;
	u64 max;

	log->shares = 0;
	for (i = 0; i < log->nr_devs; i++) {
		struct kvt_log_dev *dev = &log->dev[i];

		fixed = fixed_segments(dev);
		dev->share = dev->segs.nr > fixed + 1 ? (dev->segs.nr - fixed) / 2 : 1;
		dev->share = min(dev->share * kvt_room_segment(dev), kvt_save_max(dev));
		log->shares += dev->share;
	}
	max = log->shares - log->shares / 8;
	log->live_max = max > kvt_live_slack(log) ? max - kvt_live_slack(log) : 0;
}
KVT_EXPORT_FOR_TESTS(kvt_room_init);

/* By how much the store may grow before a stream needs another segment. */
static u64 checkpoint_growth(const struct kvt_log_dev *dev)
{
	return dev->log->nr_streams *
	       (kvt_room_segment(dev) + KVT_LOG_CHUNK_BYTES + STREAM_BYTES);
}

/* What a checkpoint has to hold: what is there now, or is back again after a crash. */
static u64 room_live(const struct kvt_log_dev *dev)
{
	const struct kvt_log *log = dev->log;
	u64 live = max3(kvt_live_bytes(log), READ_ONCE(log->live_closed),
			READ_ONCE(log->live_durable));

	return min(live + kvt_live_slack(log) + checkpoint_growth(dev), log->live_max);
}

/*
 * What is left for a checkpoint by those that do not belong to it.  While one is being
 * made: what it has not taken yet; and when it counts there must be as much for the
 * next, with what it frees.
 */
static u32 checkpoint_keep(const struct kvt_log_dev *dev)
{
	const struct kvt_seg_table *segs = &dev->segs;
	u32 need = checkpoint_segments(dev, room_live(dev)), taken = READ_ONCE(segs->taken);
	u32 rest = drain_segments(dev) + COMMIT_LAST, useless = READ_ONCE(segs->useless);
	u32 next = need + rest > useless ? need + rest - useless : 0;

	if (!READ_ONCE(segs->saving))
		return next;
	return (need > taken ? need - taken : 1) + rest + next;
}

/**
 * kvt_room_keep() - segments that are left to others
 * @dev: the device
 * @room: by whom
 *
 * Context: any; exact under the lock of its table.
 *
 * Return: a number of segments.
 */
u32 kvt_room_keep(const struct kvt_log_dev *dev, enum kvt_room room)
{
	switch (room) {
	case KVT_ROOM_STREAM:
		return checkpoint_keep(dev) + COMMIT_MORE;
	case KVT_ROOM_COMMIT:
		return checkpoint_keep(dev);
	case KVT_ROOM_DRAIN:
		/* The checkpoint's table comes after it. */
		return COMMIT_LAST + 1;
	case KVT_ROOM_SAVE:
		return dev->log->alive ? COMMIT_LAST : 0;
	default:
		return 0;
	}
}

/**
 * kvt_room_low() - whether it is time for a checkpoint
 * @dev: the device
 *
 * Return: true if its log has more segments than it can still take.
 */
bool kvt_room_low(const struct kvt_log_dev *dev)
{
	return READ_ONCE(dev->segs.nr_free) <
	       READ_ONCE(dev->segs.nr_log) + kvt_room_keep(dev, KVT_ROOM_STREAM);
}

/**
 * kvt_room_short() - whether a checkpoint has to be made quickly
 * @dev: the device
 *
 * Return: true if its log can take no more than half of what it has.
 */
bool kvt_room_short(const struct kvt_log_dev *dev)
{
	return READ_ONCE(dev->segs.nr_free) <
	       READ_ONCE(dev->segs.nr_log) / 2 + kvt_room_keep(dev, KVT_ROOM_STREAM);
}

/**
 * kvt_room_begins() - whether a life can begin, and end with a checkpoint
 * @dev: the device
 *
 * Return: false if a checkpoint should be made before.
 */
bool kvt_room_begins(const struct kvt_log_dev *dev)
{
	return dev->segs.nr_free >= COMMIT_OPEN + kvt_room_keep(dev, KVT_ROOM_STREAM);
}

/**
 * kvt_room_none() - there is no room: let writers wait until a checkpoint makes some
 * @log: the log
 *
 * Context: process context.
 */
void kvt_room_none(struct kvt_log *log)
{
	if (!test_and_set_bit(KVT_LOG_FULL, &log->flags))
		kvt_stat_inc(log->env.stats, KVTREE_STAT_LOG_FULL);
	queue_delayed_work(kvt_log_wq, &log->checkpoint, 0);
}

/**
 * kvt_room_take() - take a segment, and see that there will be others
 * @dev: the device
 * @room: what for
 * @stream: whose records it will hold
 * @pos: filled: its first block behind the header
 *
 * Context: process context, sleeps.
 *
 * Return: 0; -ENOSPC: there is none, and writers wait if this one is not kept for a
 * checkpoint; or an error of the device.
 */
int kvt_room_take(struct kvt_log_dev *dev, enum kvt_room room, u32 stream,
		  struct kvt_log_pos *pos)
{
	bool ordinary = room == KVT_ROOM_STREAM || room == KVT_ROOM_COMMIT;
	int err = kvt_segs_take(dev, room, stream, pos);

	if (ordinary && err == -ENOSPC)
		kvt_room_none(dev->log);
	else if (ordinary && !err && kvt_room_low(dev))
		queue_delayed_work(kvt_log_wq, &dev->log->checkpoint, 0);
	return err;
}
