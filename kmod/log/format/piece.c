// SPDX-License-Identifier: GPL-2.0
/* Pieces of a checkpoint's ranges, and the hash bits of keys. */
#include "format.h"

/**
 * kvt_log_piece_load() - convert a piece from the on-disk format
 * @piece: filled, not checked
 * @from: from a device
 */
void kvt_log_piece_load(struct kvt_log_piece *piece, const struct kvtree_log_piece *from)
{
	*piece = (struct kvt_log_piece) {
		.pos = kvt_log_pos_load(&from->pos),
		.generation = le64_to_cpu(from->generation),
		.dev = from->dev,
		.offset = le32_to_cpu(from->offset),
		.len = le32_to_cpu(from->len),
		.outside = le32_to_cpu(from->outside),
		.outside_len = le32_to_cpu(from->outside_len),
		.crc = le32_to_cpu(from->crc),
		.records = le32_to_cpu(from->records),
		.cover_bits = from->cover_bits,
		.delta = from->flags & KVTREE_LOG_PIECE_DELTA,
	};
}
KVT_EXPORT_FOR_TESTS(kvt_log_piece_load);

/**
 * kvt_log_piece_store() - convert a piece to the on-disk format
 * @to: filled
 * @piece: the piece
 */
void kvt_log_piece_store(struct kvtree_log_piece *to, const struct kvt_log_piece *piece)
{
	*to = (struct kvtree_log_piece) {
		.generation = cpu_to_le64(piece->generation),
		.offset = cpu_to_le32(piece->offset),
		.len = cpu_to_le32(piece->len),
		.outside = cpu_to_le32(piece->outside),
		.outside_len = cpu_to_le32(piece->outside_len),
		.crc = cpu_to_le32(piece->crc),
		.records = cpu_to_le32(piece->records),
		.dev = piece->dev,
		.flags = piece->delta ? KVTREE_LOG_PIECE_DELTA : 0,
		.cover_bits = piece->cover_bits,
	};
	kvt_log_pos_store(&to->pos, &piece->pos);
}
KVT_EXPORT_FOR_TESTS(kvt_log_piece_store);

/* Whether the records, and the columns in blocks after them, fit into a chunk and a segment. */
static bool piece_fits(const struct kvtree_log_super *super, const struct kvt_log_piece *piece)
{
	const u32 max = KVTREE_LOG_CHUNK_MAX * KVTREE_LOG_BLOCK;
	u32 end;

	if (piece->offset < sizeof(struct kvtree_log_chunk) || piece->offset > max ||
	    piece->len > max - piece->offset)
		return false;
	end = ALIGN(piece->offset + piece->len, KVTREE_LOG_BLOCK);
	if (piece->outside_len) {
		if (piece->outside < end || piece->outside > max ||
		    piece->outside_len > max - piece->outside)
			return false;
		end = piece->outside + piece->outside_len;
	}
	return kvt_log_pos_valid(super, &piece->pos, DIV_ROUND_UP(end, KVTREE_LOG_BLOCK));
}

/**
 * kvt_log_piece_sane() - whether a piece can be read
 * @set: the devices
 * @from: the piece, from a device
 * @first: it is the first of its range
 *
 * Return: true if its place and its fields are possible.
 */
bool kvt_log_piece_sane(const struct kvt_log_set *set, const struct kvtree_log_piece *from,
			bool first)
{
	struct kvt_log_piece piece;

	kvt_log_piece_load(&piece, from);
	if (piece.dev >= set->nr_devs || piece.delta == first ||
	    from->flags & ~KVTREE_LOG_PIECE_DELTA ||
	    piece.cover_bits > KVTREE_LOG_COVER_BITS || !piece.cover_bits == piece.delta ||
	    (piece.offset | piece.len | piece.outside | piece.outside_len) % 8)
		return false;
	return piece_fits(set->dev[piece.dev].super, &piece);
}

/**
 * kvt_log_piece_crc_begin() - begin the checksum of a piece
 * @super: of the piece's device
 * @piece: its place and generation
 *
 * Return: the checksum, to which kvt_crc32c() adds the records and then the columns outside.
 */
u32 kvt_log_piece_crc_begin(const struct kvtree_log_super *super,
			    const struct kvt_log_piece *piece)
{
	return kvt_log_crc(super, piece->generation, &piece->pos, "", 0);
}
KVT_EXPORT_FOR_TESTS(kvt_log_piece_crc_begin);

/**
 * kvt_log_key_seed() - what the hashes of a store's keys begin with
 * @super: of any of the devices
 *
 * Return: the argument for kvt_log_key_hash().
 */
u32 kvt_log_key_seed(const struct kvtree_log_super *super)
{
	return kvt_crc32c(~0U, super->uuid, sizeof(super->uuid));
}
KVT_EXPORT_FOR_TESTS(kvt_log_key_seed);

/**
 * kvt_log_key_hash() - the hash of a key, which is its bit in covers
 * @seed: of kvt_log_key_seed()
 * @key: the key
 * @len: its bytes
 *
 * Return: less than 1 << KVTREE_LOG_COVER_BITS.
 */
u32 kvt_log_key_hash(u32 seed, const u8 *key, u32 len)
{
	return kvt_crc32c(seed, key, len) & ((1U << KVTREE_LOG_COVER_BITS) - 1);
}
KVT_EXPORT_FOR_TESTS(kvt_log_key_hash);
