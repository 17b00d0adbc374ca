/* SPDX-License-Identifier: GPL-2.0 */
/* The search for a page of the Bw-tree. */
#ifndef KVT_BWTREE_FIND_H
#define KVT_BWTREE_FIND_H

#include "tree.h"

enum bw_seek_mode {
	BW_SEEK_READ,
	BW_SEEK_SCAN,		/* a reader that continues after the key */
	BW_SEEK_BEFORE,		/* a reader, to the page with keys less than this one */
	BW_SEEK_STEP,		/* a step of a change of structure */
	BW_SEEK_WRITE,
	BW_SEEK_LAZY,		/* a writer that does only what is urgent */
};

int bw_seek_from(struct bw_tree *tree, u32 from, const struct bw_want *want, u8 level,
		 enum bw_seek_mode mode, struct bw_at *at);

/* Find the page of a level that covers a key: see bw_seek_from(). */
static inline int bw_seek(struct bw_tree *tree, const struct bw_want *want, u8 level,
			  enum bw_seek_mode mode, struct bw_at *at)
{
	return bw_seek_from(tree, BW_ROOT, want, level, mode, at);
}

#endif /* KVT_BWTREE_FIND_H */
