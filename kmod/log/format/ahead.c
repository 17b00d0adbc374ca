// SPDX-License-Identifier: GPL-2.0
/*
 * Reading ahead.  The pieces of a range are small, but a checkpoint has written those of successive
 * ranges one after the other.  So where such ranges are read one after the other, one read gets
 * the first pieces of several ranges, and another one their second pieces, which a later
 * checkpoint has written.
 *
 * If that fails, the pieces of these ranges are read alone.  So nothing depends on what no piece
 * needs, and the error is that of the first piece that cannot be read.  No other read ahead is
 * tried for them: a disk may take seconds to fail.
 */
#include "format.h"

/* Blocks that are read, though nothing needs them, rather than read what follows by itself. */
#define AHEAD_GAP	4

/* Blocks of a segment. */
struct span {
	u32 first;
	u32 end;
};

/* A piece's blocks, with those between its records and their columns. */
static struct span piece_span(const struct kvt_log_piece *piece)
{
	u32 end = piece->outside_len ? piece->outside + piece->outside_len :
				       piece->offset + piece->len;

	return (struct span) {
		.first = piece->pos.block + piece->offset / KVTREE_LOG_BLOCK,
		.end = piece->pos.block + DIV_ROUND_UP(end, KVTREE_LOG_BLOCK),
	};
}

/* Whether the piece needs most of these blocks. */
static bool span_dense(const struct span *span, const struct kvt_log_piece *piece)
{
	return span->end - span->first <=
	       DIV_ROUND_UP(kvt_log_piece_bytes(piece), KVTREE_LOG_BLOCK) + AHEAD_GAP;
}

/* Whether one read of at most @most blocks can get what @span has, and @piece as well. */
static bool span_extend(struct span *span, u32 most, const struct kvt_log_piece *piece)
{
	struct span more = piece_span(piece);

	if (more.first < span->first || more.first > span->end + AHEAD_GAP ||
	    more.end - span->first > most || !span_dense(&more, piece))
		return false;
	span->end = max(span->end, more.end);
	return true;
}

/*
 * How many blocks to read for the @nr'th piece of range @i, and for those of the next ranges up to
 * @end; 0: only for this one.
 */
static u32 ahead_blocks(const struct kvt_log_reader *reader, const struct kvt_log_directory *dir,
			u32 i, u32 end, u32 nr)
{
	const struct kvt_log_piece *piece = &dir->range[i]->piece[nr], *next;
	struct span span = piece_span(piece);
	bool follows = false;

	if (span.end - span.first > reader->ahead_blocks || !span_dense(&span, piece))
		return 0;
	while (++i < end) {
		if (dir->range[i]->nr_pieces <= nr)
			continue;
		next = &dir->range[i]->piece[nr];
		if (next->dev != piece->dev || next->pos.segment != piece->pos.segment ||
		    !span_extend(&span, reader->ahead_blocks, next))
			break;
		follows = true;
	}
	return follows ? span.end - span.first : 0;
}

static bool ahead_has(const struct kvt_log_ahead *ahead, u32 dev, u64 block, u32 blocks)
{
	return ahead->dev == dev && block >= ahead->block &&
	       block + blocks <= ahead->block + ahead->blocks;
}

static bool ahead_read(struct kvt_log_reader *reader, struct kvt_log_ahead *ahead, u32 dev,
		       u64 block, u32 blocks)
{
	struct kvt_log_set *set = reader->set;

	if (!ahead->buf)
		ahead->buf = kvt_env_alloc_raw((size_t)reader->ahead_blocks * KVTREE_LOG_BLOCK);
	ahead->blocks = 0;
	if (!ahead->buf || set->read(set, set->dev[dev].slot, block, blocks, ahead->buf))
		return false;
	ahead->dev = dev;
	ahead->block = block;
	ahead->blocks = blocks;
	return true;
}

/**
 * kvt_log_ahead_get() - get a piece of a range, and read those of the next ranges ahead
 * @reader: its memory
 * @dir: loaded
 * @i: the range
 * @end: ranges up to this one are read after it, in order, with the same reader
 * @nr: which piece
 *
 * Return: the piece's blocks, valid until another range is read; NULL: the caller has to read the
 * piece, as nothing follows it, or something that does could not be read.
 */
const u8 *kvt_log_ahead_get(struct kvt_log_reader *reader, const struct kvt_log_directory *dir,
			    u32 i, u32 end, u32 nr)
{
	const struct kvt_log_piece *piece = &dir->range[i]->piece[nr];
	const struct kvtree_log_super *super = reader->set->dev[piece->dev].super;
	u64 block = kvt_log_pos_block(super, &piece->pos) + piece->offset / KVTREE_LOG_BLOCK;
	struct span span = piece_span(piece);
	struct kvt_log_ahead *ahead;
	u32 blocks;

	if (nr >= KVT_LOG_AHEAD || i < reader->ahead[nr].alone)
		return NULL;
	ahead = &reader->ahead[nr];
	if (!ahead_has(ahead, piece->dev, block, span.end - span.first)) {
		blocks = ahead_blocks(reader, dir, i, end, nr);
		if (!blocks)
			return NULL;
		if (!ahead_read(reader, ahead, piece->dev, block, blocks)) {
			ahead->alone = end;
			return NULL;
		}
	}
	return ahead->buf + (block - ahead->block) * KVTREE_LOG_BLOCK;
}
