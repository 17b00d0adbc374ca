// SPDX-License-Identifier: GPL-2.0
/*
 * Appending: the chunks of all streams of a device go to one segment, and then to the next.
 *
 * A place is given out before anything is written to it, so several workers write at a time.
 */
#include "space.h"

/**
 * kvt_append_init() - begin without a segment
 * @part: of the space, on a device
 *
 * Context: process context; before any stream appends.
 */
void kvt_append_init(struct kvt_part *part)
{
	part->append = (struct kvt_append) { .ahead = kvt_room_ahead(part) };
	mutex_init(&part->append.lock);
}

/* Whether a checkpoint waits for an epoch to which nothing is added any more. */
static bool append_drains(const struct kvt_log_state *state, u64 epoch)
{
	return epoch <= READ_ONCE(state->drain) && epoch <= READ_ONCE(state->closed);
}

/*
 * Take a segment.  What a checkpoint waits for gets one that was kept for it; writers
 * wait then, so that no more comes than was in the buffers.
 */
static int append_take(struct kvt_part *part, u32 stream, u64 epoch, struct kvt_log_pos *pos)
{
	int err = kvt_room_take(part, KVT_ROOM_STREAM, stream, pos);

	if (err == KVT_LOG_NO_ROOM && append_drains(part->space->state, epoch))
		err = kvt_room_take(part, KVT_ROOM_DRAIN, stream, pos);
	return err;
}

/*
 * Whether as many segments as may be are filled with what is not durable: those are of no use to
 * the next checkpoint, which cannot free them.
 */
static bool append_ahead(const struct kvt_part *part)
{
	const struct kvt_append *append = &part->append;

	return append->filled[append->nr_filled % append->ahead] >
	       READ_ONCE(part->space->state->durable);
}

/*
 * Whether an epoch has to wait until that is durable: an open one.  A closed one goes on, in
 * segments that are only for such epochs then.
 */
static bool append_waits(const struct kvt_part *part, u64 epoch)
{
	return epoch >= READ_ONCE(part->space->state->epoch) && append_ahead(part);
}

/* The present segment gets nothing more. */
static void append_filled(struct kvt_part *part)
{
	struct kvt_append *append = &part->append;

	append->filled[append->nr_filled++ % append->ahead] = append->epoch;
	kvt_segs_shut(&part->segs, append->pos.segment);
}

/* A segment with room for a chunk. */
static int append_segment(struct kvt_part *part, u32 stream, u32 blocks, u64 epoch)
{
	u32 size = le32_to_cpu(part->dev->super->segment_blocks);
	struct kvt_append *append = &part->append;
	bool fits = append->pos.block && blocks <= size - append->pos.block;
	struct kvt_log_pos pos;
	int err;

	if ((!fits || append->closed) && append_waits(part, epoch))
		return KVT_LOG_BEHIND;
	if (fits)
		return 0;
	err = append_take(part, stream, epoch, &pos);
	if (err)
		return err;
	append->closed = append_ahead(part);
	if (append->pos.block)
		append_filled(part);
	append->pos = pos;
	return 0;
}

/**
 * kvt_append() - take the place of a chunk
 * @part: of the space, on the stream's device
 * @stream: that the chunk is of
 * @blocks: of the chunk
 * @epoch: of its records
 * @pos: filled: where it goes
 *
 * Context: process context, sleeps.
 *
 * Return: 0, and no checkpoint frees the place before the epoch is durable; KVT_LOG_BEHIND: too
 * much is not durable; KVT_LOG_NO_ROOM; or an error of the device.
 */
int kvt_append(struct kvt_part *part, u32 stream, u32 blocks, u64 epoch, struct kvt_log_pos *pos)
{
	struct kvt_append *append = &part->append;
	int err;

	mutex_lock(&append->lock);
	err = append_segment(part, stream, blocks, epoch);
	if (!err) {
		*pos = append->pos;
		append->pos.block += blocks;
		append->epoch = max(append->epoch, epoch);
		kvt_segs_used(&part->segs, pos->segment, epoch);
	}
	mutex_unlock(&append->lock);
	return err;
}
KVT_EXPORT_FOR_TESTS(kvt_append);
