// SPDX-License-Identifier: GPL-2.0
/* What the tree is charged to its store. */
#include "tree.h"

/**
 * bw_charge() - charge memory before publishing it
 * @tree: the tree
 * @level: of the page
 * @bytes: how much; negative to give back
 *
 * Return: 0 or -EDQUOT.
 */
int bw_charge(struct bw_tree *tree, u8 level, s64 bytes)
{
	int err;

	if (bytes <= 0) {
		bw_uncharge(tree, level, -bytes);
		return 0;
	}
	err = kvt_quota_charge(tree->index.env.quota, bytes);
	if (!err)
		kvt_stat_add(tree->index.env.stats,
			     level ? KVTREE_STAT_INNER_BYTES : KVTREE_STAT_LEAF_BYTES, bytes);
	return err;
}

/**
 * bw_uncharge() - give back what was charged
 * @tree: the tree
 * @level: of the page
 * @bytes: how much
 */
void bw_uncharge(struct bw_tree *tree, u8 level, s64 bytes)
{
	if (!bytes)
		return;
	kvt_quota_uncharge(tree->index.env.quota, bytes);
	kvt_stat_add(tree->index.env.stats,
		     level ? KVTREE_STAT_INNER_BYTES : KVTREE_STAT_LEAF_BYTES, -bytes);
}
