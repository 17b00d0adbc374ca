// SPDX-License-Identifier: GPL-2.0
/* Loading the checkpoint: tables name its extents. */
#include "format.h"

static bool table_sound(const struct kvtree_log_super *super, const struct kvt_log_pos *pos,
			const struct kvtree_log_table *table)
{
	const struct kvtree_log_checkpoint *cp = &super->checkpoint;
	u32 blocks = le32_to_cpu(cp->blocks);

	return le64_to_cpu(table->magic) == KVTREE_LOG_TABLE_MAGIC &&
	       table->generation == cp->generation && table->epoch == cp->epoch &&
	       le32_to_cpu(table->blocks) == blocks &&
	       le64_to_cpu(table->nr_extents) <=
	       ((u64)blocks * KVTREE_LOG_BLOCK - sizeof(*table)) / sizeof(table->extents[0]) &&
	       le32_to_cpu(table->crc) ==
	       kvt_log_crc_zero(super, le64_to_cpu(cp->generation), pos, table,
				(size_t)blocks * KVTREE_LOG_BLOCK,
				offsetof(struct kvtree_log_table, crc));
}

/* @extent: the table itself, which becomes one after the other of those that it names. */
static int load_extents(struct kvt_log_visit *visit, struct kvt_log_extent *extent,
			const struct kvtree_log_table *table)
{
	int verdict = KVT_LOG_SOUND;
	u64 i;

	for (i = 0; !verdict && i < le64_to_cpu(table->nr_extents); i++) {
		extent->pos = kvt_log_pos_load(&table->extents[i].pos);
		extent->blocks = le32_to_cpu(table->extents[i].blocks);
		extent->crc = le32_to_cpu(table->extents[i].crc);
		extent->stream = le32_to_cpu(table->extents[i].stream);
		if (!kvt_log_pos_valid(visit->set->dev[extent->dev].super, &extent->pos,
				       extent->blocks))
			return KVT_LOG_DAMAGED;
		verdict = kvt_log_visit_extent(visit, extent, KVTREE_LOG_KIND_CHECKPOINT);
	}
	return verdict;
}

static int load_table(struct kvt_log_visit *visit, struct kvt_log_extent *at)
{
	const struct kvt_log_dev_super *dev = &visit->set->dev[at->dev];
	struct kvtree_log_table *table;
	int verdict;

	table = kvt_env_alloc((size_t)at->blocks * KVTREE_LOG_BLOCK);
	if (!table)
		return -ENOMEM;
	verdict = visit->set->read(visit->set, dev->slot, kvt_log_pos_block(dev->super, &at->pos),
				 at->blocks, table);
	if (!verdict && !table_sound(dev->super, &at->pos, table))
		verdict = KVT_LOG_DAMAGED;
	if (!verdict)
		verdict = kvt_log_visit_segment(visit, at, KVTREE_LOG_KIND_CHECKPOINT);
	if (!verdict)
		verdict = load_extents(visit, at, table);
	kvt_env_free(table);
	return verdict;
}

/* A device's part of the checkpoint. */
static int load_dev(struct kvt_log_visit *visit, u32 dev)
{
	const struct kvtree_log_checkpoint *cp = &visit->set->dev[dev].super->checkpoint;
	struct kvt_log_extent at = {
		.pos = kvt_log_pos_load(&cp->table),
		.dev = dev,
		.blocks = le32_to_cpu(cp->blocks),
		.generation = le64_to_cpu(cp->generation),
		.epoch = le64_to_cpu(cp->epoch),
		.saved = true,
	};
	int verdict;

	if (!at.blocks)
		return KVT_LOG_SOUND;
	if (!kvt_log_pos_valid(visit->set->dev[dev].super, &at.pos, at.blocks)) {
		kvt_log_say(visit->set, "device %u: the superblock's checkpoint is wrong", dev + 1);
		return KVT_LOG_DAMAGED;
	}
	verdict = load_table(visit, &at);
	if (verdict == KVT_LOG_DAMAGED || verdict == -EIO)
		kvt_log_say(visit->set, "device %u: the checkpoint of epoch %llu %s", dev + 1,
			    (unsigned long long)at.epoch,
			    verdict == -EIO ? "cannot be read" : "is damaged");
	return verdict;
}

/**
 * kvt_log_load() - give the sink all that is in the checkpoint
 * @visit: of kvt_log_visit_begin()
 *
 * Return: KVT_LOG_SOUND; KVT_LOG_DAMAGED, which was said; -EIO; -ENOMEM; or what the sink returned.
 */
int kvt_log_load(struct kvt_log_visit *visit)
{
	int verdict = KVT_LOG_SOUND;
	u32 dev;

	for (dev = 0; !verdict && dev < visit->set->nr_devs; dev++)
		verdict = load_dev(visit, dev);
	return verdict;
}
