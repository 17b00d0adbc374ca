// SPDX-License-Identifier: GPL-2.0
/*
 * Loading the checkpoint.  The tables list its extents; or, if it consists of ranges, the extents
 * of its directory, which lists the ranges' pieces.
 */
#include "format.h"

/* Ranges that are passed to the sink at once: where their pieces are small, one read gets them. */
#define RANGES_MOST	16U

static int load_table(struct kvt_log_visit *visit, u32 dev, const struct kvtree_log_table *table)
{
	struct kvt_log_extent extent = {
		.pos = kvt_log_pos_load(&visit->set->dev[dev].super->checkpoint.table),
		.dev = dev,
		.generation = le64_to_cpu(table->generation),
		.saved = true,
	};
	int verdict;
	u64 i;

	verdict = kvt_log_visit_segment(visit, &extent, KVTREE_LOG_KIND_CHECKPOINT);
	for (i = 0; !verdict && i < le64_to_cpu(table->nr_extents); i++) {
		kvt_log_table_extent(visit->set, dev, table, i, &extent);
		verdict = kvt_log_visit_extent(visit, &extent, KVTREE_LOG_KIND_CHECKPOINT);
	}
	return verdict;
}

/* Load a device's part of the checkpoint, or of its directory. */
static int load_dev(struct kvt_log_visit *visit, u32 dev)
{
	struct kvtree_log_table *table;
	int verdict;

	verdict = kvt_log_table_read(visit->set, dev, &table);
	if (verdict || !table)
		return verdict;
	verdict = load_table(visit, dev, table);
	kvt_log_table_wrong(visit->set, dev, verdict);
	kvt_env_free(table);
	return verdict;
}

static int visit_range(struct kvt_log_visit *visit, const struct kvt_log_range *range)
{
	int verdict = KVT_LOG_SOUND;
	u32 piece;

	for (piece = 0; !verdict && piece < range->nr_pieces; piece++)
		verdict = kvt_log_visit_piece(visit, &range->piece[piece]);
	return verdict;
}

/* Load the directory, and all ranges. */
static int load_ranges(struct kvt_log_visit *visit)
{
	struct kvt_log_directory *dir = &visit->sink->dir;
	u32 first, end, step, i;
	int verdict;

	verdict = kvt_log_directory_load(visit->set, dir);
	step = max(min(dir->nr / max(visit->sink->parts, 1U), RANGES_MOST), 1U);
	for (first = 0; !verdict && first < dir->nr; first = end) {
		end = min(first + step, dir->nr);
		for (i = first; !verdict && i < end; i++)
			verdict = visit_range(visit, dir->range[i]);
		if (!verdict)
			verdict = visit->sink->ranges(visit->sink, first, end);
	}
	return verdict;
}

/**
 * kvt_log_load() - pass the checkpoint to the sink
 * @visit: of kvt_log_visit_begin()
 *
 * Return: KVT_LOG_SOUND; KVT_LOG_DAMAGED, which was reported; -EIO; -ENOMEM; or what the sink
 * returned.
 */
int kvt_log_load(struct kvt_log_visit *visit)
{
	int verdict = KVT_LOG_SOUND;
	u32 dev;

	for (dev = 0; !verdict && dev < visit->set->nr_devs; dev++)
		verdict = load_dev(visit, dev);
	if (!verdict && kvt_log_has_ranges(visit->set->dev[0].super))
		verdict = load_ranges(visit);
	return verdict;
}
