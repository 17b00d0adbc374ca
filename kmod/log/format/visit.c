// SPDX-License-Identifier: GPL-2.0
/*
 * Visiting what a recovery finds: check each segment's header once, and check that extents and
 * pieces are in total not larger than their device's segments.
 */
#include "format.h"

/**
 * kvt_log_visit_begin() - begin to visit what a recovery restores
 * @visit: filled; kvt_log_visit_end() must follow, whatever is returned
 * @set: the devices
 * @sink: its callbacks get what is visited
 *
 * Return: 0 or -ENOMEM.
 */
int kvt_log_visit_begin(struct kvt_log_visit *visit, struct kvt_log_set *set,
			struct kvt_log_sink *sink)
{
	const struct kvtree_log_super *super;
	u32 dev;

	*visit = (struct kvt_log_visit) { .set = set, .sink = sink };
	for (dev = 0; dev < set->nr_devs; dev++) {
		super = set->dev[dev].super;
		visit->left[dev] = kvt_log_dev_blocks(super) * KVTREE_LOG_BLOCK;
		visit->seen[dev] = kvt_env_alloc(le32_to_cpu(super->nr_segments) / 8 + 1);
		if (!visit->seen[dev])
			return -ENOMEM;
	}
	return 0;
}

/**
 * kvt_log_visit_end() - free a visit's memory
 * @visit: of kvt_log_visit_begin()
 */
void kvt_log_visit_end(struct kvt_log_visit *visit)
{
	u32 dev;

	for (dev = 0; dev < visit->set->nr_devs; dev++)
		kvt_env_free(visit->seen[dev]);
}

/**
 * kvt_log_visit_segment() - on the first visit, pass a segment to the sink and check its header
 * @visit: of kvt_log_visit_begin()
 * @in: something in it, with its life and epoch
 * @kind: what it should hold
 *
 * Return: KVT_LOG_SOUND; KVT_LOG_DAMAGED or -EIO, which was reported; -ENOMEM.
 */
int kvt_log_visit_segment(struct kvt_log_visit *visit, const struct kvt_log_extent *in,
			  enum kvtree_log_kind kind)
{
	u8 *seen = &visit->seen[in->dev][in->pos.segment / 8], bit = 1 << in->pos.segment % 8;
	struct kvt_log_sink *sink = visit->sink;

	if (*seen & bit)
		return KVT_LOG_SOUND;
	*seen |= bit;
	sink->segments++;
	if (sink->segment)
		sink->segment(sink, in->dev, in->pos.segment, kind);
	return kvt_log_segment_check(visit->set, in, kind);
}

/**
 * kvt_log_visit_extent() - check an extent's segment, and pass it to the sink
 * @visit: of kvt_log_visit_begin()
 * @extent: the extent, which is in one segment; one of a directory is not passed on
 * @kind: what the segment should hold
 *
 * Return: as kvt_log_visit_segment(); or what the sink returned.
 */
int kvt_log_visit_extent(struct kvt_log_visit *visit, const struct kvt_log_extent *extent,
			 enum kvtree_log_kind kind)
{
	return kvt_log_extent_take(visit->set, extent, &visit->left[extent->dev]) ?:
	       kvt_log_visit_segment(visit, extent, kind) ?:
	       (extent->directory ? KVT_LOG_SOUND : visit->sink->extent(visit->sink, extent));
}

/**
 * kvt_log_visit_piece() - count a piece against its device, and check its segment
 * @visit: of kvt_log_visit_begin()
 * @piece: the piece
 *
 * Return: as kvt_log_visit_segment().
 */
int kvt_log_visit_piece(struct kvt_log_visit *visit, const struct kvt_log_piece *piece)
{
	const struct kvt_log_extent at = {
		.pos = piece->pos,
		.dev = piece->dev,
		.generation = piece->generation,
		.epoch = le64_to_cpu(visit->set->dev[piece->dev].super->checkpoint.epoch),
		.saved = true,
	};

	return kvt_log_bytes_take(visit->set, &at, kvt_log_piece_bytes(piece),
				  &visit->left[piece->dev]) ?:
	       kvt_log_visit_segment(visit, &at, KVTREE_LOG_KIND_CHECKPOINT);
}
