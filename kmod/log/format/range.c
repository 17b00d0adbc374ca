// SPDX-License-Identifier: GPL-2.0
/*
 * Reading a range of a checkpoint.  Its pieces are read from the newest to the oldest; records in
 * an older piece are ignored if a newer piece covers their keys.
 *
 * The pieces that fit into memory together, mostly all of them, are merged: where the records of
 * each are in order, as those are that kvtree has written, their keys come in order, too.
 */
#include "format.h"

/* A range that is being read. */
struct reading {
	struct kvt_log_reader *reader;
	const struct kvt_log_range *range;
	const struct kvt_log_range *next;	/* NULL: there is none */
	const struct kvt_log_directory *dir;
	u32 i;					/* of the range */
	u32 end;				/* of the ranges that are read after it */
	u32 seed;				/* of the keys' hashes */
	u32 at;					/* where the reader's memory is free */
	struct kvt_log_run *run;		/* the one that is being read */
	const struct kvt_log_run *parsed;	/* the reader's columns are of its entry */
	/* Those in memory, by their next keys. */
	u32 nr_runs;
	struct kvt_log_run *order[KVTREE_LOG_PIECES_MAX];
};

static bool bit_test(const u8 *map, u32 bit)
{
	return map[bit / 8] >> bit % 8 & 1;
}

/* Set all bits that a number in a cover represents: those with the same low cover_bits bits. */
static bool cover_add(struct kvt_log_run *run, u32 number)
{
	u32 step = 1U << run->piece->cover_bits, bit;

	if (number >= step)
		return false;
	for (bit = number; bit < 8 * KVTREE_LOG_COVER_BYTES; bit += step)
		run->cover[bit / 8] |= 1U << bit % 8;
	return true;
}

static bool cover_map(struct kvt_log_run *run, const u8 *map)
{
	u32 bit;

	for (bit = 0; bit < 8 * KVTREE_LOG_COVER_BYTES; bit++)
		if (bit_test(map, bit) && !cover_add(run, bit))
			return false;
	return true;
}

static bool cover_list(struct kvt_log_run *run, const u8 *list, u32 len)
{
	u32 at, number, last = 0;

	for (at = 0; at < len; at += sizeof(__le16)) {
		number = list[at] | list[at + 1] << 8;
		if ((at && number <= last) || !cover_add(run, number))
			return false;
		last = number;
	}
	return true;
}

/* Read the first record of a delta, which is its cover. */
static int cover_read(struct kvt_log_run *run)
{
	struct kvt_log_entry entry;
	int verdict;
	u32 len;

	run->after.types = KVT_LOG_COVERS;
	verdict = kvt_log_records_next(&run->after, &entry);
	if (verdict)
		return verdict == KVT_LOG_END ? KVT_LOG_DAMAGED : verdict;
	len = entry.cols[0].len;
	if (!entry.plain || entry.key_len || len % sizeof(__le16) || len > KVTREE_LOG_COVER_BYTES)
		return KVT_LOG_DAMAGED;
	memset(run->cover, 0, sizeof(run->cover));
	if (len < KVTREE_LOG_COVER_BYTES ? !cover_list(run, entry.cols[0].data, len) :
					   !cover_map(run, entry.cols[0].data))
		return KVT_LOG_DAMAGED;
	return KVT_LOG_SOUND;
}

static u32 blocks_of(u32 offset, u32 len)
{
	return len ? DIV_ROUND_UP(offset % KVTREE_LOG_BLOCK + len, KVTREE_LOG_BLOCK) : 0;
}

/* Whether the reader has room for one more piece; for one alone it has: kvt_log_piece_sane(). */
static bool piece_fits(const struct reading *r, const struct kvt_log_piece *piece)
{
	return r->at / KVTREE_LOG_BLOCK + blocks_of(piece->offset, piece->len) +
	       blocks_of(piece->outside, piece->outside_len) <= r->reader->merge_blocks;
}

/* Read the blocks with some bytes of the piece's chunk; *@data is set to their offset in memory. */
static int bytes_read(struct reading *r, u32 offset, u32 len, u32 *data)
{
	struct kvt_log_set *set = r->reader->set;
	struct kvt_log_pos pos = r->run->piece->pos;
	u32 blocks = blocks_of(offset, len);
	int err;

	*data = r->at;
	if (!len)
		return 0;
	*data += offset % KVTREE_LOG_BLOCK;
	pos.block += offset / KVTREE_LOG_BLOCK;
	err = set->read(set, set->dev[r->run->piece->dev].slot,
			kvt_log_pos_block(r->run->super, &pos), blocks, r->reader->buf + r->at);
	if (!err)
		r->at += blocks * KVTREE_LOG_BLOCK;
	return err;
}

/* Read a piece into memory, to two places there: the records, and their columns. */
static int piece_read(struct reading *r, struct kvt_log_records *in)
{
	const struct kvt_log_piece *piece = r->run->piece;

	in->data = r->reader->buf;
	return bytes_read(r, piece->offset, piece->len, &in->at) ?:
	       bytes_read(r, piece->outside, piece->outside_len, &in->outside);
}

/* Find a piece in what was read ahead, or read it. */
static int piece_fetch(struct reading *r, struct kvt_log_records *in)
{
	const struct kvt_log_piece *piece = r->run->piece;
	u32 crc = kvt_log_piece_crc_begin(r->run->super, piece);
	int err;

	in->reader = r->reader;
	in->data = kvt_log_ahead_get(r->reader, r->dir, r->i, r->end, piece - r->range->piece);
	in->at = piece->offset % KVTREE_LOG_BLOCK;
	in->outside = piece->outside_len ? piece->outside - (piece->offset - in->at) : in->at;
	err = in->data ? 0 : piece_read(r, in);
	if (err)
		return err;
	in->end = in->at + piece->len;
	in->outside_end = in->outside + piece->outside_len;
	r->reader->bytes += kvt_log_piece_bytes(piece);
	crc = kvt_crc32c(crc, in->data + in->at, piece->len);
	crc = kvt_crc32c(crc, in->data + in->outside, piece->outside_len);
	return crc == piece->crc ? KVT_LOG_SOUND : KVT_LOG_DAMAGED;
}

/* Advance to the next record. */
static int run_next(struct reading *r)
{
	struct kvt_log_run *run = r->run;
	int verdict;

	run->next = run->after;
	verdict = kvt_log_records_next(&run->after, &run->entry);
	r->parsed = run;
	run->end = verdict == KVT_LOG_END;
	if (run->end)
		return run->nr == run->piece->records ? KVT_LOG_SOUND : KVT_LOG_DAMAGED;
	run->nr++;
	return verdict;
}

static int run_begin(struct reading *r, u32 i)
{
	struct kvt_log_run *run = &r->reader->run[i];
	int verdict;

	r->run = run;
	run->piece = &r->range->piece[i];
	run->super = r->reader->set->dev[run->piece->dev].super;
	run->nr = 0;
	verdict = piece_fetch(r, &run->after);
	if (!verdict && run->piece->delta)
		verdict = cover_read(run);
	run->after.types = KVT_LOG_VALUES;
	return verdict ?: run_next(r);
}

static bool key_inside(const struct reading *r, const struct kvt_log_entry *entry)
{
	return kvt_log_key_cmp(entry->key, entry->key_len, r->range->key, r->range->key_len) >= 0 &&
	       (!r->next || kvt_log_key_cmp(entry->key, entry->key_len, r->next->key,
					    r->next->key_len) < 0);
}

/* Whether a newer piece covers a hash. */
static bool run_covered(const struct reading *r, u32 bit)
{
	const struct kvt_log_run *newer = &r->reader->run[r->range->nr_pieces];

	while (--newer > r->run)
		if (bit_test(newer->cover, bit))
			return true;
	return false;
}

static int value_read(struct reading *r)
{
	struct kvt_log_run *run = r->run;
	struct kvt_log_records again;
	u32 bit = 0;

	/* Without deltas there are no covers. */
	if (r->range->nr_pieces > 1)
		bit = kvt_log_key_hash(r->seed, run->entry.key, run->entry.key_len);
	if (run->piece->delta && !bit_test(run->cover, bit))
		return KVT_LOG_DAMAGED;
	r->reader->records++;
	if (!r->reader->entry || !key_inside(r, &run->entry) || run_covered(r, bit))
		return KVT_LOG_SOUND;
	/* A record of another piece may have been parsed since: read the columns again. */
	if (r->parsed != run) {
		again = run->next;
		kvt_log_records_next(&again, &run->entry);
	}
	return r->reader->entry(r->reader, &run->entry);
}

/*
 * Put the first run, which has advanced, where its key belongs.  Its key is compared with those of
 * others, but not these with each other: however long they are, the work is in proportion to what
 * is read.
 */
static void runs_order(struct reading *r)
{
	struct kvt_log_run *run = r->order[0], *next;
	u32 i;

	for (i = 0; i + 1 < r->nr_runs; i++) {
		next = r->order[i + 1];
		if (!run->end && kvt_log_key_cmp(run->entry.key, run->entry.key_len,
						 next->entry.key, next->entry.key_len) <= 0)
			break;
		r->order[i] = next;
	}
	r->order[i] = run;
	r->nr_runs -= run->end;
}

static void runs_add(struct reading *r)
{
	memmove(&r->order[1], &r->order[0], r->nr_runs++ * sizeof(r->order[0]));
	r->order[0] = r->run;
	runs_order(r);
}

static int runs_merge(struct reading *r)
{
	int verdict = KVT_LOG_SOUND;

	while (!verdict && r->nr_runs) {
		r->run = r->order[0];
		verdict = value_read(r) ?: run_next(r);
		if (!verdict)
			runs_order(r);
	}
	return verdict;
}

/* Read the newest of the first *@nr pieces, as many as fit, into memory, and their records. */
static int pieces_read(struct reading *r, u32 *nr)
{
	int verdict;

	r->at = 0;
	do {
		verdict = run_begin(r, --*nr);
		if (!verdict)
			runs_add(r);
		kvt_env_rest();
	} while (!verdict && *nr && piece_fits(r, &r->range->piece[*nr - 1]));
	if (!verdict)
		verdict = runs_merge(r);
	if (verdict)
		return verdict;
	r->run = NULL;
	return r->reader->piece ? r->reader->piece(r->reader) : KVT_LOG_SOUND;
}

static void piece_wrong(const struct reading *r, int verdict)
{
	const struct kvt_log_run *run = r->run;
	struct kvt_log_extent at;

	if (!run)
		return;
	at = (struct kvt_log_extent) {
		.pos = {
			.segment = run->piece->pos.segment,
			.block = run->piece->pos.block + run->piece->offset / KVTREE_LOG_BLOCK,
		},
		.dev = run->piece->dev,
		.epoch = le64_to_cpu(run->super->checkpoint.epoch),
		.saved = true,
	};
	if (verdict == KVT_LOG_NEWER)
		kvt_log_extent_newer(r->reader->set, &at);
	kvt_log_extent_wrong(r->reader->set, &at, verdict);
}

/**
 * kvt_log_range_read() - read a range of a checkpoint
 * @reader: its entry() is called for the record of each key
 * @dir: loaded
 * @i: which range
 * @end: those before this one are read after it, with the same reader
 *
 * Return: KVT_LOG_SOUND; KVT_LOG_DAMAGED, KVT_LOG_NEWER or -EIO, which was reported; or what
 * @reader's entry() or piece() returned.
 */
int kvt_log_range_read(struct kvt_log_reader *reader, const struct kvt_log_directory *dir, u32 i,
		       u32 end)
{
	struct reading r = {
		.reader = reader,
		.range = dir->range[i],
		.next = i + 1 < dir->nr ? dir->range[i + 1] : NULL,
		.dir = dir,
		.i = i,
		.end = end,
		.seed = kvt_log_key_seed(reader->set->dev[0].super),
	};
	u32 nr = r.range->nr_pieces;
	int verdict = KVT_LOG_SOUND;

	while (!verdict && nr)
		verdict = pieces_read(&r, &nr);
	piece_wrong(&r, verdict);
	return verdict;
}
KVT_EXPORT_FOR_TESTS(kvt_log_range_read);
