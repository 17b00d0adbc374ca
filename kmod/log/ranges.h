/* SPDX-License-Identifier: GPL-2.0 */
/* Ranges of keys, of which checkpoints consist, and marks for what has changed in each. */
#ifndef KVT_LOG_RANGES_H
#define KVT_LOG_RANGES_H

#include <linux/bitmap.h>
#include <linux/compiler.h>
#include <linux/string.h>
#include <linux/types.h>
#include <linux/unaligned.h>

#include "format/format.h"

/*
 * A mark tells what has changed in a range since the checkpoint: nothing (KVT_MARK_NONE), anything
 * (KVT_MARK_WHOLE), or some keys.  In the last case the mark is the address of a bitmap, in which
 * the bits of these keys' hashes are set.
 */
#define KVT_COVER_BITS	BIT(KVTREE_LOG_COVER_BITS)

#define KVT_MARK_NONE	0UL
#define KVT_MARK_WHOLE	1UL

/* The bitmap of a mark that is neither of these. */
static inline unsigned long *kvt_mark_bits(unsigned long mark)
{
	return (unsigned long *)mark;
}

/* Eight bytes of a key from @at on, as a number; bytes after the key's end are @behind. */
static inline u64 kvt_key_number(const u8 *key, u32 len, u32 at, u8 behind)
{
	__be64 raw;

	if (likely(at + sizeof(raw) <= len))
		return get_unaligned_be64(key + at);
	memset(&raw, behind, sizeof(raw));
	if (at < len)
		memcpy(&raw, key + at, len - at);
	return be64_to_cpu(raw);
}

/* A directory, and the marks of its ranges. */
struct kvt_ranges {
	struct kvt_log_directory dir;	/* one range or more */
	u32 nr_used;			/* ranges that have pieces */
	u64 nr_pieces;			/* of all ranges */
	u64 bytes;			/* of a directory in which each has one more piece */
	u32 same;			/* bytes that all lowest keys but the first begin with */
	u64 *number;			/* of each lowest key, from there on: see ranges.c */
	unsigned long __rcu *marks;	/* one for each range */
};

/* The current checkpoint, as it is known in memory. */
struct kvt_image {
	struct kvt_ranges __rcu *ranges;	/* changed under checkpoint_lock */
	u32 seed;			/* of kvt_log_key_seed() */
	u32 progress;			/* of a checkpoint under way: percent + 1; 0: none */
	unsigned long *todo;		/* left by a failed one of everything; checkpoint_lock */
};

/* What a checkpoint consists of. */
struct kvt_image_count {
	u64 ranges;			/* that have pieces */
	u64 pieces;
};

struct kvt_ranges *kvt_ranges_make(const struct kvt_log_directory *dir);
void kvt_ranges_free(struct kvt_ranges *ranges);
void kvt_directory_discard(struct kvt_log_directory *dir, const struct kvt_log_directory *kept);

void kvt_image_exit(struct kvt_image *image);
int kvt_image_init(struct kvt_image *image, struct kvt_log_directory *dir);
struct kvt_image_count kvt_image_count(const struct kvt_image *image);
void kvt_image_mark(struct kvt_image *image, const u8 *key, u32 len);
unsigned long *kvt_image_take(struct kvt_image *image);
void kvt_image_give(struct kvt_image *image, unsigned long *taken);
void kvt_image_replace(struct kvt_image *image, struct kvt_ranges *ranges, unsigned long *taken);

/* The present ranges.  The caller holds checkpoint_lock, or has the log to itself. */
static inline const struct kvt_ranges *kvt_image_ranges(const struct kvt_image *image)
{
	return rcu_dereference_protected(image->ranges, true);
}

#endif /* KVT_LOG_RANGES_H */
