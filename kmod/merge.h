/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A merge: a value and changes of some of its columns make another value.
 *
 * Done in two steps, because the first says how much memory the second needs:
 * kvt_merge_plan() and kvt_merge_fill().  Neither allocates nor sleeps.
 */
#ifndef KVT_MERGE_H
#define KVT_MERGE_H

#include <linux/types.h>

#include "value.h"

struct kvt_merge {
	/* In. */
	const struct kvt_value *old;	/* NULL: there is none */
	const struct kvt_column *edits;	/* strictly ascending by id */
	unsigned int nr;
	u32 key_len;
	/* Out of kvt_merge_plan(). */
	u32 size;			/* bytes of the block */
	u32 excess;			/* bytes that must move from the block to blobs */
	bool plain;
	u32 ncols;
	u32 nblobs;
};

int kvt_merge_plan(struct kvt_merge *merge);
void kvt_merge_fill(const struct kvt_merge *merge, struct kvt_value *v, unsigned long *kept);

#endif /* KVT_MERGE_H */
