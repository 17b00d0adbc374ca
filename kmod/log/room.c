// SPDX-License-Identifier: GPL-2.0
/*
 * Room: which segments the streams leave, and how much a store may hold, so that a
 * checkpoint, which alone frees any, can always be made.
 */
#include "internal.h"

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
	return div64_u64(live + live / 8, kvt_room_segment(dev) * dev->log->nr_devs) + 2;
}

/* Bytes of chunks that a stream may have not written yet. */
#define STREAM_BYTES	(KVT_LOG_SEALED_BYTES + KVT_LOG_CHUNK_BYTES)

/* Segments that what is in the buffers takes. */
static u32 drain_segments(const struct kvt_log_dev *dev)
{
	u64 bytes = kvt_room_segment(dev);

	return kvt_dev_streams(dev) * div64_u64(STREAM_BYTES + bytes - 1, bytes);
}

/**
 * kvt_room_live_max() - how much the store may hold
 * @log: the log, its streams made
 *
 * Writers may have to wait for a checkpoint, and nothing else: when it counts there is
 * room for the next one.  These are on the device then: that checkpoint, and room for
 * the next; what the streams had filled and was not durable when it began, and what of
 * that epoch was in the buffers; what it waited for at its end, and room for as much
 * at the end of the next; the segments that the streams have open; commit records.
 *
 * Return: bytes of records.
 */
u64 kvt_room_live_max(const struct kvt_log *log)
{
	u64 max = U64_MAX, here;
	u32 i, fixed;

	for (i = 0; i < log->nr_devs; i++) {
		const struct kvt_log_dev *dev = &log->dev[i];

		fixed = 2 * KVT_COMMIT_KEEP + 3 * drain_segments(dev) +
			kvt_dev_streams(dev) * (kvt_stream_ahead(dev) + 1) + 1 +
			2 * checkpoint_segments(dev, 0);
		here = dev->segs.nr > fixed ? (dev->segs.nr - fixed) / 2 : 0;
		max = min(max, here * kvt_room_segment(dev) * log->nr_devs);
	}
	max -= max / 8;
	return max > kvt_live_slack(log) ? max - kvt_live_slack(log) : 0;
}

/* By how much the store may grow before a stream needs another segment. */
static u64 checkpoint_growth(const struct kvt_log_dev *dev)
{
	return dev->log->nr_streams * (kvt_room_segment(dev) + KVT_LOG_CHUNK_BYTES + STREAM_BYTES);
}

/**
 * kvt_room_keep() - segments that the streams leave
 * @dev: the device
 *
 * Those that a checkpoint needs, and those that the buffers need that it waits for
 * when it has written all.  While one is being made: those that it has not taken yet;
 * and when it counts there must be as many for the next, with those that it frees.
 *
 * Context: any.
 *
 * Return: a number of segments.
 */
u32 kvt_room_keep(const struct kvt_log_dev *dev)
{
	struct kvt_log *log = dev->log;
	u64 live = kvt_live_bytes(log) + kvt_live_slack(log) + checkpoint_growth(dev);
	u32 need = checkpoint_segments(dev, min(live, log->live_max));
	u32 drain = drain_segments(dev), taken, freed;

	if (!READ_ONCE(dev->checkpoint))
		return KVT_COMMIT_KEEP + need + drain;
	taken = READ_ONCE(dev->taken);
	freed = READ_ONCE(dev->freed);
	return KVT_COMMIT_KEEP + (need > taken ? need - taken : 1) + drain +
	       (need + drain > freed ? need + drain - freed : 0);
}
