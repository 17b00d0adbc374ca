/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A merge builds a value from another one and changes of some of its columns.
 *
 * It has two steps, because the first tells how much memory the second needs:
 * kvt_merge_plan() and kvt_merge_fill().  Neither allocates nor sleeps.
 *
 * The plan also decides which columns are kept outside the block, in blobs: those longer
 * than KVT_BLOB_MIN, and the longest of the others until the rest has at most
 * KVT_INLINE_MAX bytes.  So the memory that a value takes depends only on the sizes of its
 * columns, not on the order in which they were written.
 */
#ifndef KVT_BASE_MERGE_H
#define KVT_BASE_MERGE_H

#include <linux/bitmap.h>
#include <linux/types.h>

#include "value.h"

struct kvt_merge {
	/* In. */
	const struct kvt_value *old;	/* NULL: there is none */
	const struct kvt_column *edits;	/* strictly ascending by id */
	unsigned int nr;
	u32 key_len;
	struct llist_node *spare;	/* blobs for columns of .old that are in none */
	/* Out of kvt_merge_plan(). */
	u32 size;			/* bytes of the block */
	bool plain;
	bool edits_lack;		/* blobs: kvt_merge_give_blobs() */
	u32 old_lacks;			/* the length of the spare that comes next; 0: none */
	struct llist_node **rest;	/* link to the first spare that is not used */
	u32 ncols;
	u32 nblobs;
	DECLARE_BITMAP(apart, KVTREE_COLS_MAX);	/* ids of the columns in blobs */
};

int kvt_merge_plan(struct kvt_merge *merge);
int kvt_merge_give_blobs(const struct kvt_merge *merge, struct kvt_column *edits,
			 const struct kvt_mem *mem);
void kvt_merge_fill(const struct kvt_merge *merge, struct kvt_value *v, unsigned long *kept);

/**
 * kvt_merge_ready() - whether the merged value can be built
 * @merge: planned
 *
 * Return: false if a column that must be kept apart is in no blob.
 */
static inline bool kvt_merge_ready(const struct kvt_merge *merge)
{
	return !merge->edits_lack && !merge->old_lacks;
}

#endif /* KVT_BASE_MERGE_H */
