// SPDX-License-Identifier: GPL-2.0
/* A map of the disks: see map.h. */
#include "map.h"

const char *const fmt_kind_names[FMT_KINDS] = {
	[FMT_SUPER] = "superblock", [FMT_SEGMENT] = "segment header",
	[FMT_TRAILER] = "commit record", [FMT_TABLE] = "checkpoint table", [FMT_EXTENT] = "records",
	[FMT_DIRECTORY] = "directory", [FMT_PIECE] = "piece",
};

u32 fmt_map_add(struct fmt_map *map, const struct fmt_place *place)
{
	if (map->nr == map->room) {
		map->room = map->room * 2 + 64;
		map->place = fmt_alloc(map->place, map->room * sizeof(*place));
	}
	map->place[map->nr] = *place;
	return map->nr++;
}

void fmt_map_free(struct fmt_map *map)
{
	free(map->place);
	free(map->piece);
	memset(map, 0, sizeof(*map));
}

/* Each once. */
static void add_segment(struct fmt_map *map, const struct fmt_place *like)
{
	struct fmt_place head = *like;
	u32 i;

	head.kind = FMT_SEGMENT;
	head.block -= head.pos.block;
	head.pos.block = 0;
	head.blocks = 1;
	head.begin = 0;
	head.bytes = KVTREE_LOG_BLOCK;
	for (i = 0; i < map->nr; i++)
		if (map->place[i].kind == FMT_SEGMENT && map->place[i].disk == head.disk &&
		    map->place[i].block == head.block)
			return;
	fmt_map_add(map, &head);
}

static struct fmt_place place_make(struct kvt_log_set *set, enum fmt_kind kind, u32 dev,
				   u64 generation, const struct kvt_log_pos *pos, u32 blocks)
{
	return (struct fmt_place) {
		.kind = kind, .dev = dev, .disk = set->dev[dev].slot, .blocks = blocks,
		.bytes = blocks * KVTREE_LOG_BLOCK,
		.block = kvt_log_pos_block(set->dev[dev].super, pos), .generation = generation,
		.pos = *pos,
	};
}

/* A part of a piece: bytes of its chunk. */
static void add_part(struct fmt_map *map, struct kvt_log_set *set, const struct fmt_place *like,
		     u32 offset, u32 len)
{
	const struct kvt_log_piece *piece = &map->piece[like->piece];
	struct kvt_log_pos pos = piece->pos;
	u32 begin = offset % KVTREE_LOG_BLOCK;
	struct fmt_place place;

	if (!len)
		return;
	pos.block += offset / KVTREE_LOG_BLOCK;
	place = place_make(set, FMT_PIECE, piece->dev, piece->generation, &pos,
			   DIV_ROUND_UP(begin + len, KVTREE_LOG_BLOCK));
	place.begin = begin;
	place.bytes = len;
	place.parent = like->parent;
	place.nr = like->nr;
	place.piece = like->piece;
	fmt_map_add(map, &place);
	add_segment(map, &place);
}

/* A piece, which is at @at of the directory's extent. */
static void add_piece(struct fmt_map *map, struct kvt_log_set *set, u32 parent, u32 at,
		      const u8 *from)
{
	struct fmt_place like = { .parent = parent, .nr = at, .piece = map->pieces };
	struct kvtree_log_piece raw;
	struct kvt_log_piece piece;

	memcpy(&raw, from, sizeof(raw));
	kvt_log_piece_load(&piece, &raw);
	map->piece = fmt_alloc(map->piece, (map->pieces + 1) * sizeof(piece));
	map->piece[map->pieces++] = piece;
	add_part(map, set, &like, piece.offset, piece.len);
	add_part(map, set, &like, piece.outside, piece.outside_len);
}

/* Those of a chunk of the directory.  Return: its bytes. */
static u32 add_ranges(struct fmt_map *map, struct kvt_log_set *set, u32 parent, const u8 *extent,
		      u32 chunk)
{
	const struct kvtree_log_chunk *head = (const void *)(extent + chunk);
	struct kvt_log_reader *reader = fmt_alloc(NULL, sizeof(*reader));
	struct kvt_log_records in = {
		.reader = reader, .data = extent, .at = chunk + sizeof(*head),
		.end = chunk + le32_to_cpu(head->records_len), .types = KVT_LOG_RANGES,
	};
	struct kvt_log_entry entry;
	const u8 *at;

	while (!kvt_log_records_next(&in, &entry))
		for (at = entry.cols[0].data; at < entry.cols[0].data + entry.cols[0].len;
		     at += sizeof(struct kvtree_log_piece))
			add_piece(map, set, parent, (u32)(at - extent), at);
	free(reader);
	return le32_to_cpu(head->blocks) * KVTREE_LOG_BLOCK;
}

static void add_directory(struct fmt_map *map, struct kvt_log_set *set, u32 parent)
{
	const struct fmt_place place = map->place[parent];
	u8 *extent = fmt_alloc(NULL, place.bytes);
	u32 at;

	if (set->read(set, place.disk, place.block, place.blocks, extent))
		fmt_die("a directory cannot be read");
	for (at = 0; at < place.bytes; at += add_ranges(map, set, parent, extent, at))
		;
	free(extent);
}

static void add_extents(struct fmt_map *map, struct kvt_log_set *set, u32 parent,
			const struct kvtree_log_extent *extents, u64 nr)
{
	const struct fmt_place from = map->place[parent];
	enum fmt_kind kind = FMT_EXTENT;
	struct fmt_place place;
	struct kvt_log_pos pos;
	u32 at;
	u64 i;

	if (from.kind == FMT_TABLE && kvt_log_has_ranges(set->dev[from.dev].super))
		kind = FMT_DIRECTORY;
	add_segment(map, &from);
	for (i = 0; i < nr; i++) {
		pos = kvt_log_pos_load(&extents[i].pos);
		place = place_make(set, kind, from.dev, from.generation, &pos,
				   le32_to_cpu(extents[i].blocks));
		place.parent = parent;
		place.nr = (u32)i;
		at = fmt_map_add(map, &place);
		add_segment(map, &place);
		if (kind == FMT_DIRECTORY)
			add_directory(map, set, at);
	}
}

static void add_life(struct fmt_map *map, struct kvt_log_set *set, u32 dev, u32 life, u64 last)
{
	struct fmt_place place;
	struct kvt_log_walk walk;
	u32 parent;

	if (kvt_log_walk_init(&walk, set, dev) || kvt_log_walk_life(&walk, life))
		fmt_die("a life cannot be followed");
	/* Also the record of an epoch that is dropped. */
	while (!kvt_log_walk_next(&walk) && le64_to_cpu(walk.trailer->epoch) <= last) {
		place = place_make(set, FMT_TRAILER, dev, walk.generation, &walk.at,
				   le32_to_cpu(walk.trailer->blocks));
		parent = fmt_map_add(map, &place);
		add_extents(map, set, parent, walk.trailer->extents,
			    le32_to_cpu(walk.trailer->nr_extents));
	}
	kvt_log_walk_exit(&walk);
}

static void add_checkpoint(struct fmt_map *map, struct kvt_log_set *set, u32 dev)
{
	const struct kvtree_log_super *super = set->dev[dev].super;
	struct kvt_log_pos pos = kvt_log_pos_load(&super->checkpoint.table);
	u32 blocks = le32_to_cpu(super->checkpoint.blocks), parent;
	struct kvtree_log_table *table;
	struct fmt_place place;

	if (!blocks)
		return;
	place = place_make(set, FMT_TABLE, dev, le64_to_cpu(super->checkpoint.generation), &pos,
			   blocks);
	parent = fmt_map_add(map, &place);
	table = fmt_alloc(NULL, (size_t)blocks * KVTREE_LOG_BLOCK);
	if (set->read(set, place.disk, place.block, blocks, table))
		fmt_die("a table cannot be read");
	add_extents(map, set, parent, table->extents, le64_to_cpu(table->nr_extents));
	free(table);
}

void fmt_map_fill(struct fmt_map *map, struct kvt_log_set *set,
		  const struct kvt_log_found *found)
{
	u32 dev, i;

	for (dev = 0; dev < set->nr_devs; dev++) {
		map->super[dev] = *set->dev[dev].super;
		for (i = 0; i < KVTREE_LOG_SUPER_COPIES; i++)
			fmt_map_add(map, &(struct fmt_place) {
				.kind = FMT_SUPER, .dev = dev, .disk = set->dev[dev].slot,
				.blocks = 1, .block = kvt_log_super_block(i),
				.bytes = KVTREE_LOG_BLOCK,
			});
		add_checkpoint(map, set, dev);
		for (i = 0; i < le32_to_cpu(map->super[dev].nr_lives); i++)
			add_life(map, set, dev, i,
				 le64_to_cpu(map->super[dev].lives[i].last_epoch) ?: found->seen);
	}
}

/* Replace a checksum of 4 bytes. */
static void put_crc(struct fmt_disks *disks, const struct fmt_place *place, size_t off, u32 crc)
{
	__le32 raw = cpu_to_le32(crc);

	fmt_disks_put(disks, place->disk, place->block * KVTREE_LOG_BLOCK + off, &raw, sizeof(raw));
}

static void seal_zero(const struct fmt_map *map, struct fmt_disks *disks,
		      const struct fmt_place *place, size_t off)
{
	put_crc(disks, place, off,
		kvt_log_crc_zero(&map->super[place->dev], place->generation, &place->pos,
				 fmt_block(disks, place->disk, place->block),
				 (size_t)place->blocks * KVTREE_LOG_BLOCK, off));
}

static void seal_trailer(const struct fmt_map *map, struct fmt_disks *disks,
			 const struct fmt_place *place)
{
	const struct kvtree_log_trailer *t = (void *)fmt_block(disks, place->disk, place->block);

	put_crc(disks, place, offsetof(struct kvtree_log_trailer, head_crc),
		kvt_log_trailer_head_crc(&map->super[place->dev], place->generation, &place->pos,
					 t));
	seal_zero(map, disks, place, offsetof(struct kvtree_log_trailer, crc));
}

static void seal_extent(const struct fmt_map *map, struct fmt_disks *disks,
			const struct fmt_place *place)
{
	const struct fmt_place *parent = &map->place[place->parent];
	size_t off = parent->kind == FMT_TABLE ? offsetof(struct kvtree_log_table, extents) :
						 offsetof(struct kvtree_log_trailer, extents);
	u32 crc;

	crc = kvt_log_crc(&map->super[place->dev], place->generation, &place->pos,
			  fmt_block(disks, place->disk, place->block),
			  (size_t)place->blocks * KVTREE_LOG_BLOCK);
	put_crc(disks, parent, off + place->nr * sizeof(struct kvtree_log_extent) +
		offsetof(struct kvtree_log_extent, crc), crc);
	fmt_map_seal(map, disks, place->parent);
}

static void seal_piece(const struct fmt_map *map, struct fmt_disks *disks,
		       const struct fmt_place *place)
{
	const struct kvt_log_piece *piece = &map->piece[place->piece];
	const struct kvtree_log_super *super = &map->super[place->dev];
	const u8 *chunk = fmt_block(disks, place->disk, kvt_log_pos_block(super, &piece->pos));
	u32 crc = kvt_log_piece_crc_begin(super, piece);

	crc = kvt_crc32c(crc, chunk + piece->offset, piece->len);
	crc = kvt_crc32c(crc, chunk + piece->outside, piece->outside_len);
	put_crc(disks, &map->place[place->parent],
		place->nr + offsetof(struct kvtree_log_piece, crc), crc);
	fmt_map_seal(map, disks, place->parent);
}

static void seal_super(struct fmt_disks *disks, const struct fmt_place *place)
{
	struct kvtree_log_super super;

	memcpy(&super, fmt_block(disks, place->disk, place->block), sizeof(super));
	kvt_log_super_seal(&super);
	put_crc(disks, place, offsetof(struct kvtree_log_super, crc), le32_to_cpu(super.crc));
}

void fmt_map_seal(const struct fmt_map *map, struct fmt_disks *disks, u32 i)
{
	const struct fmt_place *place = &map->place[i];

	switch (place->kind) {
	case FMT_SUPER:
		seal_super(disks, place);
		break;
	case FMT_SEGMENT:
		seal_zero(map, disks, place, offsetof(struct kvtree_log_segment, crc));
		break;
	case FMT_TRAILER:
		seal_trailer(map, disks, place);
		break;
	case FMT_TABLE:
		seal_zero(map, disks, place, offsetof(struct kvtree_log_table, crc));
		break;
	case FMT_PIECE:
		seal_piece(map, disks, place);
		break;
	default:
		seal_extent(map, disks, place);
	}
}
