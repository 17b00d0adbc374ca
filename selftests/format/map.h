/* SPDX-License-Identifier: GPL-2.0 */
/* A map of everything on the disks that a recovery reads. */
#ifndef FORMAT_MAP_H
#define FORMAT_MAP_H

#include "disks.h"

enum fmt_kind {
	FMT_SUPER,
	FMT_SEGMENT,		/* a header */
	FMT_TRAILER,
	FMT_TABLE,
	FMT_EXTENT,
	FMT_DIRECTORY,		/* an extent of it */
	FMT_PIECE,		/* its records, or its columns outside of them */
	FMT_KINDS
};

struct fmt_place {
	enum fmt_kind kind;
	u32 dev;			/* its index */
	u32 disk;			/* its place in the disks */
	u32 blocks;
	u64 block;			/* of the disk */
	/* Whole blocks, but for pieces. */
	u32 begin;			/* in the first block */
	u32 bytes;
	u64 generation;
	struct kvt_log_pos pos;
	/* An extent's: the trailer or table that names it, and where in it. */
	u32 parent;
	u32 nr;
	/* A piece's has the directory's extent as its parent, and there its byte. */
	u32 piece;
};

struct fmt_map {
	struct fmt_place *place;
	u32 nr;
	u32 room;
	struct kvt_log_piece *piece;
	u32 pieces;
	struct kvtree_log_super super[FMT_DISKS];	/* those that count, by device */
};

/* Where a place begins on its disk. */
static inline u64 fmt_place_at(const struct fmt_place *place)
{
	return place->block * KVTREE_LOG_BLOCK + place->begin;
}

extern const char *const fmt_kind_names[FMT_KINDS];

struct kvt_log_set;

u32 fmt_map_add(struct fmt_map *map, const struct fmt_place *place);
void fmt_map_free(struct fmt_map *map);
/* Add everything that a recovery has found; the set must be restorable. */
void fmt_map_fill(struct fmt_map *map, struct kvt_log_set *set,
		  const struct kvt_log_found *found);
/* Correct the checksum of a place's contents, and of all that refers to the place. */
void fmt_map_seal(const struct fmt_map *map, struct fmt_disks *disks, u32 place);

#endif /* FORMAT_MAP_H */
