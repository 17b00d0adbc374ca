// SPDX-License-Identifier: GPL-2.0
/* The tables of a checkpoint: each device has one, which lists extents on it. */
#include "format.h"

/**
 * kvt_log_table_extent() - get an extent from a checkpoint's table
 * @set: loaded
 * @dev: index of the device
 * @table: of kvt_log_table_read()
 * @i: less than its nr_extents
 * @extent: filled
 */
void kvt_log_table_extent(const struct kvt_log_set *set, u32 dev,
			  const struct kvtree_log_table *table, u32 i,
			  struct kvt_log_extent *extent)
{
	const struct kvtree_log_extent *from = &table->extents[i];

	*extent = (struct kvt_log_extent) {
		.pos = kvt_log_pos_load(&from->pos),
		.dev = dev,
		.blocks = le32_to_cpu(from->blocks),
		.crc = le32_to_cpu(from->crc),
		.stream = le32_to_cpu(from->stream),
		.generation = le64_to_cpu(table->generation),
		.epoch = le64_to_cpu(table->epoch),
		.saved = true,
		.directory = kvt_log_has_ranges(set->dev[dev].super),
	};
}

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

/* A directory's extents are listed in the order in which they were written, and never twice. */
static bool extent_follows(const struct kvt_log_extent *extent,
			   const struct kvt_log_extent *before)
{
	if (extent->pos.sequence != before->pos.sequence)
		return extent->pos.sequence > before->pos.sequence;
	return extent->pos.segment == before->pos.segment &&
	       extent->pos.block >= before->pos.block + before->blocks;
}

/* Whether the extents are possible, and in total not larger than the device's segments. */
static bool table_sane(const struct kvt_log_set *set, u32 dev,
		       const struct kvtree_log_table *table)
{
	const struct kvtree_log_super *super = set->dev[dev].super;
	struct kvt_log_extent extent, before = {};
	u64 blocks = 0, i;

	for (i = 0; i < le64_to_cpu(table->nr_extents); i++) {
		kvt_log_table_extent(set, dev, table, i, &extent);
		blocks += extent.blocks;
		if (!kvt_log_pos_valid(super, &extent.pos, extent.blocks) ||
		    blocks > kvt_log_dev_blocks(super))
			return false;
		if (extent.directory && !extent_follows(&extent, &before))
			return false;
		before = extent;
	}
	return true;
}

static int table_load(struct kvt_log_set *set, u32 dev, struct kvtree_log_table **table)
{
	const struct kvtree_log_super *super = set->dev[dev].super;
	struct kvt_log_pos pos = kvt_log_pos_load(&super->checkpoint.table);
	u32 blocks = le32_to_cpu(super->checkpoint.blocks);
	int err;

	if (!kvt_log_pos_valid(super, &pos, blocks))
		return KVT_LOG_DAMAGED;
	*table = kvt_env_alloc_raw((size_t)blocks * KVTREE_LOG_BLOCK);
	if (!*table)
		return -ENOMEM;
	err = set->read(set, set->dev[dev].slot, kvt_log_pos_block(super, &pos), blocks, *table);
	if (err)
		return err;
	return table_sound(super, &pos, *table) && table_sane(set, dev, *table) ?
	       KVT_LOG_SOUND : KVT_LOG_DAMAGED;
}

/**
 * kvt_log_table_wrong() - report that a device's part of the checkpoint is damaged or unreadable
 * @set: the devices
 * @dev: index of the device
 * @verdict: only KVT_LOG_DAMAGED and -EIO are reported
 */
void kvt_log_table_wrong(struct kvt_log_set *set, u32 dev, int verdict)
{
	const struct kvtree_log_checkpoint *cp = &set->dev[dev].super->checkpoint;

	if (verdict == KVT_LOG_DAMAGED || verdict == -EIO)
		kvt_log_say(set, "device %u: the checkpoint of epoch %llu %s", dev + 1,
			    (unsigned long long)le64_to_cpu(cp->epoch),
			    verdict == -EIO ? "cannot be read" : "is damaged");
}

/**
 * kvt_log_table_read() - read a device's table of the checkpoint
 * @set: loaded
 * @dev: index of the device
 * @table: to be freed with kvt_env_free(); NULL: the device has none
 *
 * The extents are checked: they are in segments, and in total not larger than these.
 *
 * Return: KVT_LOG_SOUND; KVT_LOG_DAMAGED or -EIO, which was reported; -ENOMEM.
 */
int kvt_log_table_read(struct kvt_log_set *set, u32 dev, struct kvtree_log_table **table)
{
	int verdict;

	*table = NULL;
	if (!set->dev[dev].super->checkpoint.blocks)
		return KVT_LOG_SOUND;
	verdict = table_load(set, dev, table);
	if (!verdict)
		return KVT_LOG_SOUND;
	kvt_env_free(*table);
	*table = NULL;
	kvt_log_table_wrong(set, dev, verdict);
	return verdict;
}
KVT_EXPORT_FOR_TESTS(kvt_log_table_read);
