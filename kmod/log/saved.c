// SPDX-License-Identifier: GPL-2.0
/*
 * The output of a checkpoint: chunks with pieces, the directory of ranges, and a table on each
 * device that lists the directory's extents there.
 */
#include <linux/math64.h>
#include <linux/slab.h>

#include "checkpoint.h"

/**
 * kvt_saved_room() - make sure that a device has room for a number of blocks in a row
 * @saved: the checkpoint's output
 * @i: the device's index
 * @place: where the checkpoint appends them
 * @blocks: how many
 *
 * Context: process context, sleeps; the caller has @saved to itself, or holds its lock.
 *
 * Return: 0, and kvt_part.image has their position; KVT_LOG_NO_ROOM; or an error of the device.
 */
int kvt_saved_room(struct kvt_saved *saved, u32 i, enum kvt_place place, u32 blocks)
{
	enum kvt_room room = place == KVT_PLACE_BASES ? KVT_ROOM_BASES : KVT_ROOM_REST;
	struct kvt_part *part = &saved->log->space.part[i];

	if (blocks > le32_to_cpu(part->dev->super->segment_blocks) - 1)
		return KVT_LOG_NO_ROOM;
	if (kvt_part_fits(part, &part->image[place], blocks))
		return 0;
	return kvt_room_take(part, room, 0, &part->image[place]);
}

/* Choose the device in @devs that has got the smallest part of its share so far. */
static u32 saved_next(const struct kvt_saved *saved, unsigned long devs)
{
	const struct kvt_log *log = saved->log;
	u64 part, least = U64_MAX;
	u32 i, next = 0;

	for_each_set_bit(i, &devs, log->devs.nr) {
		part = mul_u64_u64_div_u64(saved->dev[i].blocks, log->space.shares,
					   log->space.part[i].share);
		if (part < least) {
			least = part;
			next = i;
		}
	}
	return next;
}

/*
 * Blocks to leave free after a chunk.  A chunk goes to another device if this one has no room, but
 * the table of a device with parts of the directory cannot: it must fit there at any time.
 */
static u32 saved_behind(const struct kvt_saved *saved, u32 i, enum kvt_place place, u32 blocks)
{
	const struct kvtree_log_super *super = saved->log->devs.dev[i].super;
	u32 table = kvt_saved_table_blocks(saved->dev[i].nr + 1);

	if (place != KVT_PLACE_REST || blocks + table >= le32_to_cpu(super->segment_blocks))
		return 0;
	return table;
}

/* Choose a device for a chunk, and a place on it: @to->dev, @to->pos. */
static int saved_place(struct kvt_saved *saved, enum kvt_place place, u32 blocks,
		       struct kvt_log_extent *to)
{
	unsigned long devs = BIT(saved->log->devs.nr) - 1;
	int err = KVT_LOG_NO_ROOM;
	struct kvt_log_pos *at;
	u32 behind;

	mutex_lock(&saved->lock);
	while (devs && err == KVT_LOG_NO_ROOM) {
		to->dev = saved_next(saved, devs);
		__clear_bit(to->dev, &devs);
		behind = saved_behind(saved, to->dev, place, blocks);
		err = kvt_saved_room(saved, to->dev, place, blocks + behind);
	}
	if (!err) {
		at = &saved->log->space.part[to->dev].image[place];
		to->pos = *at;
		at->block += blocks;
		saved->dev[to->dev].blocks += blocks;
	}
	mutex_unlock(&saved->lock);
	return err;
}

/**
 * kvt_saved_write() - write a chunk to the device that is furthest behind its share
 * @saved: the checkpoint's output
 * @place: where the checkpoint appends it
 * @buf: the chunk's records
 * @stage: KVT_LOG_BUF_BYTES of memory
 * @extent: filled: the chunk, and where it is
 *
 * Context: process context, sleeps.
 *
 * Return: 0; KVT_LOG_NO_ROOM; or an error of a device.
 */
int kvt_saved_write(struct kvt_saved *saved, enum kvt_place place, struct kvt_log_buf *buf,
		    u8 *stage, struct kvt_log_extent *extent)
{
	struct kvt_log_pos pos;
	struct kvt_io io;
	int err;

	*extent = (struct kvt_log_extent) {};
	err = saved_place(saved, place, kvt_chunk_blocks(buf), extent);
	if (err)
		return err;
	pos = extent->pos;
	kvt_saved_count(saved, kvt_chunk_blocks(buf));
	kvt_io_init(&io);
	err = kvt_chunk_write(&saved->log->devs.dev[extent->dev], buf, 0, &pos, stage, extent, &io);
	return kvt_io_wait(&io) ?: err;
}

/* The number of ranges that stay as they are. */
static u32 saved_kept(const struct kvt_saved *saved)
{
	u32 nr = saved->old->nr, i;

	for (i = 0; i < saved->nr_jobs; i++)
		nr -= saved->jobs[i].end - saved->jobs[i].first;
	return nr;
}

/* Add unchanged ranges to the directory. */
static void saved_copy(struct kvt_saved *saved, u32 first, u32 end)
{
	struct kvt_log_directory *dir = &saved->dir;

	memcpy(dir->range + dir->nr, saved->old->range + first,
	       (end - first) * sizeof(*dir->range));
	dir->nr += end - first;
}

/**
 * kvt_saved_keep() - begin the new directory with the ranges that stay as they are
 * @saved: the checkpoint's output; its jobs are known
 * @more: how many ranges will be added; there is room for them afterwards
 *
 * Context: process context, may sleep.
 *
 * Return: 0; -ENOMEM; KVT_LOG_NO_ROOM: there would be too many ranges.
 */
int kvt_saved_keep(struct kvt_saved *saved, u32 more)
{
	u32 room = more + saved_kept(saved), at = 0, i;
	struct kvt_log_directory *dir = &saved->dir;

	if (room > KVTREE_LOG_RANGES_MAX)
		return KVT_LOG_NO_ROOM;
	dir->range = kvmalloc_array(room, sizeof(*dir->range), GFP_KERNEL);
	if (!dir->range)
		return -ENOMEM;
	dir->room = room;
	for (i = 0; i < saved->nr_jobs; i++) {
		saved_copy(saved, at, saved->jobs[i].first);
		at = saved->jobs[i].end;
	}
	saved_copy(saved, at, saved->old->nr);
	return 0;
}

/* Make room in the table for one more extent. */
static int table_grow(struct kvt_saved_dev *d)
{
	u32 room = d->room ? d->room * 2 : 128;
	struct kvtree_log_table *table;

	if (d->nr < d->room)
		return 0;
	table = kvzalloc(struct_size(table, extents, room), GFP_KERNEL);
	if (!table)
		return -ENOMEM;
	if (d->table)
		memcpy(table, d->table, struct_size(table, extents, d->nr));
	kvfree(d->table);
	d->table = table;
	d->room = room;
	return 0;
}

/**
 * kvt_saved_flush() - write a buffer with a part of the directory
 * @saved: the checkpoint's output
 * @buf: the buffer; empty afterwards
 * @stage: KVT_LOG_BUF_BYTES of memory
 *
 * Context: process context, sleeps.
 *
 * Return: 0; KVT_LOG_NO_ROOM; -ENOMEM; or an error of a device.
 */
int kvt_saved_flush(struct kvt_saved *saved, struct kvt_log_buf *buf, u8 *stage)
{
	struct kvt_log_extent extent;
	struct kvtree_log_extent *to;
	struct kvt_saved_dev *d;
	int err;

	err = kvt_saved_write(saved, KVT_PLACE_REST, buf, stage, &extent);
	if (err)
		return err;
	d = &saved->dev[extent.dev];
	err = table_grow(d);
	if (err)
		return err;
	to = &d->table->extents[d->nr++];
	kvt_log_pos_store(&to->pos, &extent.pos);
	to->blocks = cpu_to_le32(extent.blocks);
	to->crc = cpu_to_le32(extent.crc);
	kvt_buf_reset(buf);
	return 0;
}
KVT_EXPORT_FOR_TESTS(kvt_saved_flush);

/**
 * kvt_saved_done() - count records that were written, and show the progress
 * @saved: the output
 * @bytes: of the records
 *
 * Context: process context, sleeps.
 */
void kvt_saved_done(struct kvt_saved *saved, u64 bytes)
{
	u64 percent;

	/* The lock keeps the progress from going back. */
	mutex_lock(&saved->lock);
	saved->done += bytes;
	if (saved->size) {
		percent = min(div64_u64(saved->done * 100, saved->size), 99ULL);
		WRITE_ONCE(saved->log->image.progress, percent + 1);
	}
	mutex_unlock(&saved->lock);
}

/**
 * kvt_saved_describe() - add a range's record to a buffer with a part of the directory
 * @saved: the checkpoint's output
 * @buf: the buffer, which has room for it
 * @range: the range
 *
 * Context: process context.
 */
void kvt_saved_describe(struct kvt_saved *saved, struct kvt_log_buf *buf,
			const struct kvt_log_range *range)
{
	u32 size = range->nr_pieces * sizeof(struct kvtree_log_piece), i;
	u32 len = kvt_log_record_size(range->key_len, size);
	struct kvtree_log_record *rec = kvt_log_record_begin(buf, KVTREE_LOG_RANGE, len);
	u8 *at = (u8 *)(rec + 1) + range->key_len;

	rec->key_len = cpu_to_le16(range->key_len);
	rec->value = cpu_to_le32(size);
	memcpy(rec + 1, range->key, range->key_len);
	for (i = 0; i < range->nr_pieces; i++, at += sizeof(struct kvtree_log_piece)) {
		const struct kvt_log_piece *piece = &range->piece[i];
		struct kvtree_log_piece raw;

		kvt_log_piece_store(&raw, piece);
		memcpy(at, &raw, sizeof(raw));
		saved->dev[piece->dev].records += piece->records;
		saved->dev[piece->dev].bytes += kvt_log_piece_bytes(piece);
	}
}

/**
 * kvt_saved_exit() - free the output's memory, and the ranges of a checkpoint that has failed
 * @saved: of kvt_save()
 */
void kvt_saved_exit(struct kvt_saved *saved)
{
	u32 i;

	kvt_directory_discard(&saved->dir, saved->old);
	kvfree(saved->jobs);
	kvfree(saved->left);
	for (i = 0; i < KVTREE_LOG_DEVS_MAX; i++)
		kvfree(saved->dev[i].table);
}
