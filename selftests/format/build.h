/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Disks of a store that was detached after a checkpoint of ranges, built from a test's description
 * of the ranges' pieces.
 */
#ifndef FORMAT_BUILD_H
#define FORMAT_BUILD_H

#include "disks.h"

#define FMT_BUILD_EPOCH	40u	/* of the checkpoint */
#define FMT_CHUNK_PIECES 64u

/* A chunk that is being filled. */
struct fmt_chunk {
	u8 *data;			/* the header and records */
	u8 *outside;			/* columns outside of them */
	u32 len;
	u32 outside_len;
	u32 records;
	struct kvt_log_piece *piece[FMT_CHUNK_PIECES];
	u32 pieces;
};

struct fmt_build_dev {
	struct kvtree_log_super super;
	struct kvt_log_pos next;	/* of the next chunk; block 0: in a new segment */
	struct fmt_chunk chunk;
	struct kvtree_log_extent extent[126];	/* of the directory: what one block has */
	u32 extents;
};

struct fmt_build {
	struct fmt_disks *disks;
	u64 generation;
	u64 sequence;
	struct fmt_build_dev dev[FMT_DISKS];
};

/* Zeros, and superblocks without a checkpoint. */
void fmt_build_begin(struct fmt_build *build, struct fmt_disks *disks, u32 nr, u64 seed);
/* Later writes belong to a later life. */
void fmt_build_life(struct fmt_build *build);

/* A piece of the device @piece->dev. It must stay: its place follows when its chunk is written. */
void fmt_build_piece(struct fmt_build *build, struct kvt_log_piece *piece);
void fmt_build_piece_end(struct fmt_build *build, struct kvt_log_piece *piece);
/* A record, of the piece or the directory; columns of more than 2048 bytes are outside of it. */
void fmt_build_record(struct fmt_build *build, u32 dev, const struct kvt_log_entry *entry);
/* Write what chunks there are. */
void fmt_build_flush(struct fmt_build *build, bool directory);
/* List the last extent of a directory again, with another sequence and the same checksums. */
void fmt_build_relist(struct fmt_build *build, u32 dev);
/* Tables and superblocks. */
void fmt_build_end(struct fmt_build *build, u64 version_lease);

#endif /* FORMAT_BUILD_H */
