// SPDX-License-Identifier: GPL-2.0
/*
 * Appending: all streams of a device write their chunks to one segment, and then to the next.
 *
 * A worker gets the place of its chunk before it writes, so several workers can write at the same
 * time.
 */
#include "space.h"

/**
 * kvt_append_init() - prepare to append; the first chunk takes a segment
 * @part: of the space, on a device
 *
 * Context: process context; before any stream appends.
 */
void kvt_append_init(struct kvt_part *part)
{
	part->append = (struct kvt_append) { .ahead = kvt_room_ahead(part) };
	mutex_init(&part->append.lock);
}

/* Whether an epoch is closed and a checkpoint waits for it. */
static bool append_drains(const struct kvt_log_state *state, u64 epoch)
{
	return epoch <= READ_ONCE(state->drain) && epoch <= READ_ONCE(state->closed);
}

/*
 * Take a segment.  If none is left, an epoch that a checkpoint waits for gets one of those that
 * are kept for this.  Writers wait then, so only what is in the buffers has to be written.
 */
static int append_take(struct kvt_part *part, u32 stream, u64 epoch, struct kvt_log_pos *pos)
{
	int err = kvt_room_take(part, KVT_ROOM_STREAM, stream, pos);

	if (err == KVT_LOG_NO_ROOM && append_drains(part->space->state, epoch))
		err = kvt_room_take(part, KVT_ROOM_DRAIN, stream, pos);
	return err;
}

/*
 * Whether the streams have filled as many segments as they may with records that are not durable.
 * The next checkpoint cannot free such segments.
 */
static bool append_ahead(const struct kvt_part *part)
{
	const struct kvt_append *append = &part->append;

	return append->filled[append->nr_filled % append->ahead] >
	       READ_ONCE(part->space->state->durable);
}

/*
 * Whether a chunk has to wait until some of these records are durable.  That is so for the open
 * epoch.  Closed epochs go on, in segments that only closed epochs use while this lasts.
 */
static bool append_waits(const struct kvt_part *part, u64 epoch)
{
	return epoch >= READ_ONCE(part->space->state->epoch) && append_ahead(part);
}

/* Close the current segment. */
static void append_filled(struct kvt_part *part)
{
	struct kvt_append *append = &part->append;

	append->filled[append->nr_filled++ % append->ahead] = append->epoch;
	kvt_segs_shut(&part->segs, append->pos.segment);
}

/* Make sure that the current segment has room for a chunk. */
static int append_segment(struct kvt_part *part, u32 stream, u32 blocks, u64 epoch)
{
	struct kvt_append *append = &part->append;
	bool fits = kvt_part_fits(part, &append->pos, blocks);
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
 * kvt_append() - take a place for a chunk
 * @part: of the space, on the stream's device
 * @stream: the chunk's stream
 * @blocks: of the chunk
 * @epoch: of its records
 * @pos: filled: the chunk's place
 *
 * Context: process context, sleeps.
 *
 * Return: 0, and no checkpoint frees the place before the epoch is durable; KVT_LOG_BEHIND: too
 * many segments are not durable yet; KVT_LOG_NO_ROOM; or an error of the device.
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
