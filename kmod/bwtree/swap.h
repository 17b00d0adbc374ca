/* SPDX-License-Identifier: GPL-2.0 */
/* The exchange of a page's newest record, by which all changes are published. */
#ifndef KVT_BWTREE_SWAP_H
#define KVT_BWTREE_SWAP_H

#include "tree.h"

/* The time between two rounds of the worker. */
#define BW_TIDY_DELAY	msecs_to_jiffies(250)

void bw_tidy_later(struct bw_tree *tree);

/*
 * Make @new the page's newest record, if @old still is.  Usually @old is the next of @new.
 * @nr counts swaps of this kind; the next counter counts those that fail.
 */
static inline bool bw_swap(struct bw_tree *tree, u32 id, struct bw_rec *old,
			   struct bw_rec *new, enum bw_nr nr)
{
	unsigned long expect = (unsigned long)old;

	/* Releases what @new points to: pairs with bw_load(). */
	if (!try_cmpxchg(bw_map_entry(tree->map, id), &expect, (unsigned long)new)) {
		bw_nr_add(tree, nr + 1, 1);
		return false;
	}
	bw_touch(tree->map, id);
	bw_nr_add(tree, nr, 1);
	bw_count_chain(tree, old->depth, new->depth);
	if (new->own && new->next == old)
		bw_count_record(tree, new, 1);
	/* The worker continues changes of structure that were left unfinished. */
	if (nr != BW_NR_UPDATE)
		bw_tidy_later(tree);
	return true;
}

#endif /* KVT_BWTREE_SWAP_H */
