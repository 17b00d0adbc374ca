// SPDX-License-Identifier: GPL-2.0
/* Where everything stands: see map.h. */
#include "map.h"

const char *const fmt_kind_names[FMT_KINDS] = {
	[FMT_SUPER] = "superblock", [FMT_SEGMENT] = "segment header",
	[FMT_TRAILER] = "commit record", [FMT_TABLE] = "checkpoint table", [FMT_EXTENT] = "records",
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
		.block = kvt_log_pos_block(set->dev[dev].super, pos), .generation = generation,
		.pos = *pos,
	};
}

static void add_extents(struct fmt_map *map, struct kvt_log_set *set, u32 parent,
			const struct kvtree_log_extent *extents, u64 nr)
{
	const struct fmt_place from = map->place[parent];
	struct fmt_place place;
	struct kvt_log_pos pos;
	u64 i;

	add_segment(map, &from);
	for (i = 0; i < nr; i++) {
		pos = kvt_log_pos_load(&extents[i].pos);
		place = place_make(set, FMT_EXTENT, from.dev, from.generation, &pos,
				   le32_to_cpu(extents[i].blocks));
		place.parent = parent;
		place.nr = (u32)i;
		fmt_map_add(map, &place);
		add_segment(map, &place);
	}
}

static void add_life(struct fmt_map *map, struct kvt_log_set *set, u32 dev, u32 life, u64 last)
{
	struct fmt_place place;
	struct kvt_log_walk walk;
	struct kvt_log_pos at;
	u32 parent;

	if (kvt_log_walk_init(&walk, set, dev) || kvt_log_walk_life(&walk, life))
		fmt_die("a life cannot be followed");
	/* Also the record of an epoch that is dropped. */
	for (at = walk.pos; walk.epoch <= last && !kvt_log_walk_next(&walk); at = walk.pos) {
		place = place_make(set, FMT_TRAILER, dev, walk.generation, &at,
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
		seal_zero(map, disks, place, offsetof(struct kvtree_log_trailer, crc));
		break;
	case FMT_TABLE:
		seal_zero(map, disks, place, offsetof(struct kvtree_log_table, crc));
		break;
	default:
		seal_extent(map, disks, place);
	}
}
