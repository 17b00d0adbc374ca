// SPDX-License-Identifier: GPL-2.0
/*
 * Reading a range of a checkpoint.  Its pieces are read from the newest to the oldest; records in
 * an older piece are ignored if a newer piece covers their keys.
 */
#include "format.h"

/* A range that is being read. */
struct reading {
	struct kvt_log_reader *reader;
	const struct kvt_log_range *range;
	const struct kvt_log_range *next;	/* NULL: there is none */
	const struct kvtree_log_super *super;	/* of the piece's device */
	const struct kvt_log_piece *piece;
	u32 seed;				/* of the keys' hashes */
};

static bool bit_test(const u8 *map, u32 bit)
{
	return map[bit / 8] >> bit % 8 & 1;
}

/* Set all bits that a number in a cover represents: those with the same low cover_bits bits. */
static bool cover_add(struct reading *r, u32 number)
{
	u32 step = 1U << r->piece->cover_bits, bit;

	if (number >= step)
		return false;
	for (bit = number; bit < 8 * KVTREE_LOG_COVER_BYTES; bit += step)
		r->reader->cover[bit / 8] |= 1U << bit % 8;
	return true;
}

static bool cover_map(struct reading *r, const u8 *map)
{
	u32 bit;

	for (bit = 0; bit < 8 * KVTREE_LOG_COVER_BYTES; bit++)
		if (bit_test(map, bit) && !cover_add(r, bit))
			return false;
	return true;
}

static bool cover_list(struct reading *r, const u8 *list, u32 len)
{
	u32 at, number, last = 0;

	for (at = 0; at < len; at += sizeof(__le16)) {
		number = list[at] | list[at + 1] << 8;
		if ((at && number <= last) || !cover_add(r, number))
			return false;
		last = number;
	}
	return true;
}

/* Read the first record of a delta, which is its cover. */
static int cover_read(struct reading *r, struct kvt_log_records *in)
{
	struct kvt_log_entry entry;
	int verdict;
	u32 len;

	in->types = KVT_LOG_COVERS;
	verdict = kvt_log_records_next(in, &entry);
	if (verdict)
		return verdict;
	len = entry.cols[0].len;
	if (!entry.plain || entry.key_len || len % sizeof(__le16) || len > KVTREE_LOG_COVER_BYTES)
		return KVT_LOG_DAMAGED;
	memset(r->reader->cover, 0, sizeof(r->reader->cover));
	if (len < KVTREE_LOG_COVER_BYTES ? !cover_list(r, entry.cols[0].data, len) :
					   !cover_map(r, entry.cols[0].data))
		return KVT_LOG_DAMAGED;
	return KVT_LOG_SOUND;
}

static bool key_inside(const struct reading *r, const struct kvt_log_entry *entry)
{
	return kvt_log_key_cmp(entry->key, entry->key_len, r->range->key, r->range->key_len) >= 0 &&
	       (!r->next || kvt_log_key_cmp(entry->key, entry->key_len, r->next->key,
					    r->next->key_len) < 0);
}

static int value_read(struct reading *r, const struct kvt_log_entry *entry)
{
	u32 bit = 0;

	/* Without deltas there are no covers. */
	if (r->range->nr_pieces > 1)
		bit = kvt_log_key_hash(r->seed, entry->key, entry->key_len);
	if (r->piece->delta && !bit_test(r->reader->cover, bit))
		return KVT_LOG_DAMAGED;
	r->reader->records++;
	if (!r->reader->entry || !key_inside(r, entry) || bit_test(r->reader->covered, bit))
		return KVT_LOG_SOUND;
	return r->reader->entry(r->reader, entry);
}

static int values_read(struct reading *r, struct kvt_log_records *in)
{
	struct kvt_log_entry entry;
	u32 nr;
	int verdict;

	in->types = KVT_LOG_VALUES;
	for (nr = 0; !(verdict = kvt_log_records_next(in, &entry)); nr++) {
		verdict = value_read(r, &entry);
		if (verdict)
			return verdict;
	}
	if (verdict != KVT_LOG_END)
		return verdict;
	return nr == r->piece->records ? KVT_LOG_SOUND : KVT_LOG_DAMAGED;
}

/*
 * Read the blocks with some bytes of the piece's chunk to offset @to of the reader's buffer, and
 * add the bytes to the checksum.  *@data is set to their offset in the buffer.
 */
static int bytes_read(struct reading *r, u32 offset, u32 len, u32 to, u32 *data, u32 *crc)
{
	struct kvt_log_set *set = r->reader->set;
	struct kvt_log_pos pos = r->piece->pos;
	u32 begin = offset % KVTREE_LOG_BLOCK;
	int err;

	*data = to;
	if (!len)
		return 0;
	*data += begin;
	pos.block += offset / KVTREE_LOG_BLOCK;
	err = set->read(set, set->dev[r->piece->dev].slot, kvt_log_pos_block(r->super, &pos),
			DIV_ROUND_UP(begin + len, KVTREE_LOG_BLOCK), r->reader->buf + to);
	if (err)
		return err;
	*crc = kvt_crc32c(*crc, r->reader->buf + *data, len);
	return 0;
}

/* Read a piece into memory. */
static int piece_fetch(struct reading *r, struct kvt_log_records *in)
{
	u32 crc = kvt_log_piece_crc_begin(r->super, r->piece);
	int err;

	in->reader = r->reader;
	in->data = r->reader->buf;
	err = bytes_read(r, r->piece->offset, r->piece->len, 0, &in->at, &crc);
	if (err)
		return err;
	in->end = in->at + r->piece->len;
	err = bytes_read(r, r->piece->outside, r->piece->outside_len,
			 ALIGN(in->end, KVTREE_LOG_BLOCK), &in->outside, &crc);
	if (err)
		return err;
	in->outside_end = in->outside + r->piece->outside_len;
	r->reader->bytes += kvt_log_piece_bytes(r->piece);
	return crc == r->piece->crc ? KVT_LOG_SOUND : KVT_LOG_DAMAGED;
}

static int piece_read(struct reading *r)
{
	struct kvt_log_records in;
	int verdict;

	verdict = piece_fetch(r, &in);
	if (!verdict && r->piece->delta)
		verdict = cover_read(r, &in);
	if (!verdict)
		verdict = values_read(r, &in);
	if (!verdict && r->reader->piece)
		verdict = r->reader->piece(r->reader);
	return verdict == KVT_LOG_END ? KVT_LOG_DAMAGED : verdict;
}

static void piece_wrong(const struct reading *r, int verdict)
{
	const struct kvt_log_extent at = {
		.pos = {
			.segment = r->piece->pos.segment,
			.block = r->piece->pos.block + r->piece->offset / KVTREE_LOG_BLOCK,
		},
		.dev = r->piece->dev,
		.epoch = le64_to_cpu(r->super->checkpoint.epoch),
		.saved = true,
	};

	if (verdict == KVT_LOG_NEWER)
		kvt_log_extent_newer(r->reader->set, &at);
	kvt_log_extent_wrong(r->reader->set, &at, verdict);
}

/* Keys that this piece covers are ignored in older ones. */
static void cover_join(struct reading *r)
{
	u32 i;

	for (i = 0; i < KVTREE_LOG_COVER_BYTES; i++)
		r->reader->covered[i] |= r->reader->cover[i];
}

/**
 * kvt_log_range_read() - read a range of a checkpoint
 * @reader: its entry() is called for the record of each key
 * @dir: loaded
 * @i: which range
 *
 * Return: KVT_LOG_SOUND; KVT_LOG_DAMAGED, KVT_LOG_NEWER or -EIO, which was reported; or what
 * @reader's entry() or piece() returned.
 */
int kvt_log_range_read(struct kvt_log_reader *reader, const struct kvt_log_directory *dir, u32 i)
{
	struct reading r = {
		.reader = reader,
		.range = dir->range[i],
		.next = i + 1 < dir->nr ? dir->range[i + 1] : NULL,
		.seed = kvt_log_key_seed(reader->set->dev[0].super),
	};
	int verdict = KVT_LOG_SOUND;
	u32 piece = r.range->nr_pieces;

	memset(reader->covered, 0, sizeof(reader->covered));
	while (!verdict && piece--) {
		r.piece = &r.range->piece[piece];
		r.super = reader->set->dev[r.piece->dev].super;
		verdict = piece_read(&r);
		piece_wrong(&r, verdict);
		if (r.piece->delta)
			cover_join(&r);
		kvt_env_rest();
	}
	return verdict;
}
KVT_EXPORT_FOR_TESTS(kvt_log_range_read);
