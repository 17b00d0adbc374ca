/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Disks in memory, as a store may have left them.  The log's own functions write them,
 * structure by structure, so that a case decides what they contain.
 */
#ifndef KVT_TESTS_LOG_DISK_H
#define KVT_TESTS_LOG_DISK_H

#include <kunit/test.h>

#include "log/life.h"

#define LD_DISKS	3
#define LD_SEGMENTS	KVTREE_LOG_SEGMENTS_MIN
#define LD_BLOCKS	(KVTREE_LOG_DATA_START + LD_SEGMENTS * KVTREE_LOG_SEGMENT_MIN)
/* Segments of each disk. */
#define LD_COMMIT	0
#define LD_STREAM	1
#define LD_AHEAD	2
#define LD_GENERATION	1

struct ld_record {
	const char *key;
	u64 version;
	const char *value;	/* NULL: a removal */
};

struct ld {
	struct kunit *test;
	struct kvt_log_set set;
	struct kvtree_log_super *super[LD_DISKS];
	u8 **block[LD_DISKS];		/* NULL: zeros */
	struct kvt_log_pos commit[LD_DISKS];	/* of the next trailer */
	struct kvt_log_pos stream[LD_DISKS];	/* of the next extent */
	u8 devices;			/* in the next trailers: who takes part */
	u64 unreadable;			/* a block of the first disk */
	int unreadable_err;		/* the error of reading it; 0: none */
	char said[200];
	u32 epochs;			/* that the last recovery went through */
};

/* Make disks with a life that begins with epoch 1 and has no end. */
struct ld *ld_new(struct kunit *test, u32 nr);
/* Write the superblocks as they are in @ld->super. */
void ld_write_supers(struct ld *ld);
/* End the first life with @epoch, or not at all if that is 0, and write the superblocks. */
void ld_end_life(struct ld *ld, u64 epoch);
/* Write extents of one chunk each; @extent is filled. */
void ld_add_extent(struct ld *ld, u32 disk, u64 epoch, const struct ld_record *records, u32 nr,
		   struct kvt_log_extent *extent);
void ld_add_trailer(struct ld *ld, u32 disk, u64 epoch, const struct kvt_log_extent *extents,
		    u32 nr);
/* Change a byte. */
void ld_damage(struct ld *ld, u32 disk, u64 block, u32 at);
/* From here on reading a block of the first disk fails; 0: no block does. */
void ld_unreadable(struct ld *ld, u64 block, int err);
u8 *ld_block(struct ld *ld, u32 disk, u64 block);

#endif /* KVT_TESTS_LOG_DISK_H */
