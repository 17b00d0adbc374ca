// SPDX-License-Identifier: GPL-2.0
/* Extents: consecutive chunks with one checksum. */
#include "format.h"

/**
 * kvt_log_reader_init() - allocate memory for reading extents
 * @reader: zeros, except entry() and piece(); kvt_log_reader_exit() must follow
 * @set: the devices
 *
 * Return: 0 or -ENOMEM.
 */
int kvt_log_reader_init(struct kvt_log_reader *reader, struct kvt_log_set *set)
{
	reader->set = set;
	reader->merge_blocks = KVTREE_LOG_CHUNK_MAX;
	reader->ahead_blocks = KVT_LOG_AHEAD_BLOCKS;
	reader->buf = kvt_env_alloc_raw((size_t)KVTREE_LOG_CHUNK_MAX * KVTREE_LOG_BLOCK);
	return reader->buf ? 0 : -ENOMEM;
}
KVT_EXPORT_FOR_TESTS(kvt_log_reader_init);

/**
 * kvt_log_reader_exit() - free a reader's memory
 * @reader: of kvt_log_reader_init(), or zeros
 */
void kvt_log_reader_exit(struct kvt_log_reader *reader)
{
	u32 i;

	for (i = 0; i < KVT_LOG_AHEAD; i++) {
		kvt_env_free(reader->ahead[i].buf);
		reader->ahead[i] = (struct kvt_log_ahead) {};
	}
	kvt_env_free(reader->buf);
	reader->buf = NULL;
}
KVT_EXPORT_FOR_TESTS(kvt_log_reader_exit);

static int reader_read(struct kvt_log_reader *reader, const struct kvt_log_extent *extent,
		       u32 at, u32 blocks, u8 *to)
{
	const struct kvt_log_dev_super *dev = &reader->set->dev[extent->dev];
	struct kvt_log_pos pos = extent->pos;

	pos.block += at;
	return reader->set->read(reader->set, dev->slot, kvt_log_pos_block(dev->super, &pos),
				 blocks, to);
}

/* The number of blocks of a chunk, from its header; 0: this is not a chunk of the extent. */
static u32 chunk_blocks(const u8 *buf, const struct kvt_log_extent *extent, u32 left)
{
	const struct kvtree_log_chunk *head = (const void *)buf;
	u32 blocks = le32_to_cpu(head->blocks);

	if (le32_to_cpu(head->magic) != KVTREE_LOG_CHUNK_MAGIC || !blocks || blocks > left ||
	    blocks > KVTREE_LOG_CHUNK_MAX || le64_to_cpu(head->epoch) != extent->epoch ||
	    le32_to_cpu(head->stream) != extent->stream)
		return 0;
	return blocks;
}

/* Read the chunk at @at, and set *@blocks to its length. */
static int extent_chunk(struct kvt_log_reader *reader, const struct kvt_log_extent *extent,
			u32 at, u32 *blocks)
{
	u32 left = extent->blocks - at, ahead = min(left, 64U);
	int err;

	err = reader_read(reader, extent, at, ahead, reader->buf);
	if (err)
		return err;
	*blocks = chunk_blocks(reader->buf, extent, left);
	if (!*blocks)
		return KVT_LOG_DAMAGED;
	if (*blocks <= ahead)
		return KVT_LOG_SOUND;
	return reader_read(reader, extent, at + ahead, *blocks - ahead,
			   reader->buf + (size_t)ahead * KVTREE_LOG_BLOCK);
}

/**
 * kvt_log_extent_newer() - report that an extent has a record of a newer format
 * @set: the devices
 * @extent: the extent
 */
void kvt_log_extent_newer(struct kvt_log_set *set, const struct kvt_log_extent *extent)
{
	kvt_log_say(set,
		    "device %u, segment %u, block %u: a record is of a format newer than this program",
		    extent->dev + 1, extent->pos.segment, extent->pos.block);
}

/*
 * Judge an extent that has only sound chunks, except for records of unknown types (@newer).  If the
 * extent's checksum is wrong, damage may have caused these.
 */
static int extent_judge(struct kvt_log_set *set, const struct kvt_log_extent *extent, u32 crc,
			bool newer)
{
	if (crc != extent->crc)
		return KVT_LOG_DAMAGED;
	if (!newer)
		return KVT_LOG_SOUND;
	kvt_log_extent_newer(set, extent);
	return KVT_LOG_NEWER;
}

/**
 * kvt_log_extent_read() - read the records of an extent
 * @reader: its entry() is called for each record
 * @extent: the extent
 *
 * Damage is not reported: whether it is an error depends on the extent's epoch.
 *
 * Return: KVT_LOG_SOUND; KVT_LOG_DAMAGED, and the records passed to @reader may be wrong;
 * KVT_LOG_NEWER, which was reported; -EIO; or what @reader's entry() returned.
 */
int kvt_log_extent_read(struct kvt_log_reader *reader, const struct kvt_log_extent *extent)
{
	const struct kvtree_log_super *super = reader->set->dev[extent->dev].super;
	enum kvt_log_types types = extent->directory ? KVT_LOG_RANGES : KVT_LOG_CHANGES;
	u32 crc = kvt_log_crc(super, extent->generation, &extent->pos, "", 0);
	int verdict = KVT_LOG_SOUND;
	bool newer = false;
	u32 at, blocks;

	if (!kvt_log_pos_valid(super, &extent->pos, extent->blocks))
		return KVT_LOG_DAMAGED;
	for (at = 0; at < extent->blocks; at += blocks) {
		verdict = extent_chunk(reader, extent, at, &blocks);
		if (verdict)
			return verdict;
		crc = kvt_crc32c(crc, reader->buf, (size_t)blocks * KVTREE_LOG_BLOCK);
		if (!newer)
			verdict = kvt_log_chunk_parse(reader, reader->buf, blocks, types);
		newer |= verdict == KVT_LOG_NEWER;
		if (verdict && verdict != KVT_LOG_NEWER)
			return verdict;
		reader->bytes += (size_t)blocks * KVTREE_LOG_BLOCK;
		kvt_env_rest();
	}
	return extent_judge(reader->set, extent, crc, newer);
}

/**
 * kvt_log_extent_check() - read the records of an extent, and report damage
 * @reader: its entry() is called for each record
 * @extent: the extent
 *
 * Return: as kvt_log_extent_read().
 */
int kvt_log_extent_check(struct kvt_log_reader *reader, const struct kvt_log_extent *extent)
{
	int verdict = kvt_log_extent_read(reader, extent);

	kvt_log_extent_wrong(reader->set, extent, verdict);
	return verdict;
}
KVT_EXPORT_FOR_TESTS(kvt_log_extent_check);

/**
 * kvt_log_extent_wrong() - report that an extent is damaged or cannot be read
 * @set: the devices
 * @extent: the extent
 * @verdict: of kvt_log_extent_read(); only KVT_LOG_DAMAGED and -EIO are reported
 */
void kvt_log_extent_wrong(struct kvt_log_set *set, const struct kvt_log_extent *extent,
			  int verdict)
{
	if (verdict != KVT_LOG_DAMAGED && verdict != -EIO)
		return;
	kvt_log_say(set, "device %u, segment %u, block %u: records of %sepoch %llu %s",
		    extent->dev + 1, extent->pos.segment, extent->pos.block,
		    extent->saved ? "the checkpoint of " : "",
		    (unsigned long long)extent->epoch,
		    verdict == -EIO ? "cannot be read" : "are damaged");
}

/**
 * kvt_log_bytes_take() - count the bytes of an extent or a piece against its device's segments
 * @set: the devices
 * @in: its place and epoch
 * @bytes: how many
 * @left: the device's bytes that are not counted yet; reduced
 *
 * Extents and pieces do not overlap.  A forged device may list the same bytes again and again, so
 * that reading it would not end; this check stops it.
 *
 * Return: KVT_LOG_SOUND; KVT_LOG_DAMAGED, which was reported.
 */
int kvt_log_bytes_take(struct kvt_log_set *set, const struct kvt_log_extent *in, u64 bytes,
		       u64 *left)
{
	if (bytes > *left) {
		kvt_log_say(set, "device %u: the records of epoch %llu are more than fit on it",
			    in->dev + 1, (unsigned long long)in->epoch);
		return KVT_LOG_DAMAGED;
	}
	*left -= bytes;
	return KVT_LOG_SOUND;
}

/**
 * kvt_log_extent_take() - count an extent's bytes against its device's segments
 * @set: the devices
 * @extent: the extent
 * @left: as for kvt_log_bytes_take()
 *
 * Return: as kvt_log_bytes_take().
 */
int kvt_log_extent_take(struct kvt_log_set *set, const struct kvt_log_extent *extent, u64 *left)
{
	return kvt_log_bytes_take(set, extent, (u64)extent->blocks * KVTREE_LOG_BLOCK, left);
}
