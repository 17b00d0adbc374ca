// SPDX-License-Identifier: GPL-2.0
/*
 * Stems: layers that lead to one leaf and nothing else.  Two keys that share 4 KiB create one of
 * 511 layers.  It must disappear with them, since every reader that passes it would pay for its
 * depth and find nothing.  So it is removed at once, by one change at its top.
 *
 *	top	[ "a" | "p"* | "z" ]
 *	                 |			from here on nothing but this one leaf
 *	layers         [ "p"* ]
 *	                 |
 *	leaf           [ "q" ]
 *
 * Meanwhile the whole stem is locked, from the leaf up.  Readers do not notice.  Until the top
 * changes they find the stem's leaf; after that, readers inside the stem still do, until they
 * meet a node marked deleted.  A key to be removed is taken out of the leaf before the top
 * changes.
 */
#include "base/trace.h"
#include "tree.h"

/*
 * If a layer that is not the first consists of a leaf with at most one entry, lock all nodes from
 * the leaf up to the layer's root, and return that.  Otherwise return NULL with only the leaf
 * locked.
 */
static struct mt_node *mt_lock_alone(struct mt_leaf *leaf)
{
	struct mt_node *node = &leaf->node;
	struct mt_inner *parent;

	if (mt_perm_size(leaf->perm) > 1)
		return NULL;
	while ((parent = mt_lock_parent(node, false)) && !parent->nkeys)
		node = &parent->node;
	if (!parent && mt_above(node) != MT_ROOT)
		return node;
	if (parent)
		mt_unlock(&parent->node, NULL);
	while (node != &leaf->node) {
		parent = mt_inner(node);
		node = parent->child[0];
		mt_unlock(&parent->node, NULL);
	}
	return NULL;
}

/**
 * mt_stem_lock() - lock a leaf's stem
 * @stem: to be filled
 * @leaf: locked, with one entry at most
 *
 * Takes time in proportion to the number of layers.  lockdep is told only of the leaf and the
 * top.
 *
 * Context: under rcu_read_lock(), mt_hold().
 *
 * Return: false: there is something else in the leaf's layer, or it is the first.
 */
bool mt_stem_lock(struct mt_stem *stem, struct mt_leaf *leaf)
{
	struct mt_node *root = mt_lock_alone(leaf);

	if (!root)
		return false;
	*stem = (struct mt_stem) { .leaf = leaf };
	do {
		stem->root = root;
		stem->top = mt_lock_up(root, !stem->layers, &stem->slot);
		stem->layers++;
		kvt_park(KVT_PARK_STEM_LOCKED);
		root = mt_lock_alone(stem->top);
	} while (root);
	return true;
}

/* What a node of a stem leads to. */
static struct mt_node *mt_stem_next(struct mt_node *node)
{
	struct mt_leaf *leaf;

	if (!mt_is_leaf(node))
		return mt_inner(node)->child[0];
	leaf = mt_leaf(node);
	return mt_slot_to_layer(leaf->slot[mt_perm_slot(leaf->perm, 0)]);
}

static void mt_stem_mark(struct mt_stem *stem)
{
	struct mt_node *node;

	for (node = stem->root; node != &stem->leaf->node; node = mt_stem_next(node))
		mt_mark_deleted(node);
	mt_mark_deleted(node);
}

/**
 * mt_stem_remove() - remove a stem from the layer above it, and its leaf's entry with it
 * @stem: from mt_stem_lock()
 *
 * The entry goes first: an iterator inside the stem must not return what a lookup from above no
 * longer finds.
 */
void mt_stem_remove(struct mt_stem *stem)
{
	struct mt_leaf *top = stem->top, *leaf = stem->leaf;
	unsigned int at = 0;

	while (mt_perm_slot(top->perm, at) != stem->slot)
		at++;
	kvt_park(KVT_PARK_COLLECT_LOCKED);
	if (mt_perm_size(leaf->perm))
		mt_leaf_set_perm(leaf, mt_perm_remove(leaf->perm, 0));
	kvt_park(KVT_PARK_COLLECT_EMPTIED);
	top->stale |= BIT(stem->slot);
	mt_leaf_set_perm(top, mt_perm_remove(top->perm, at));
	kvt_park(KVT_PARK_COLLECT_REMOVED);
	mt_stem_mark(stem);
	kvt_park(KVT_PARK_COLLECT_MARKED);
}

/**
 * mt_stem_collapse() - replace a stem by the value that it leads to
 * @stem: from mt_stem_lock(), of a leaf with a value
 * @value: that value, in a block
 */
void mt_stem_collapse(struct mt_stem *stem, struct kvt_value *value)
{
	kvt_park(KVT_PARK_COLLAPSE_LOCKED);
	mt_leaf_set_slot(stem->top, stem->slot, (unsigned long)value);
	kvt_park(KVT_PARK_COLLAPSE_PUBLISHED);
	mt_stem_mark(stem);
	kvt_park(KVT_PARK_COLLAPSE_MARKED);
}

/**
 * mt_stem_unlock() - unlock a stem that is no longer part of the tree, and its top
 * @stem: from mt_stem_lock(); its leaf stays locked
 */
void mt_stem_unlock(struct mt_stem *stem)
{
	struct mt_node *node, *next;

	mt_unlock(&stem->top->node, &mt_class_slot);
	for (node = stem->root; node != &stem->leaf->node; node = next) {
		next = mt_stem_next(node);
		mt_unlock(node, NULL);
	}
}

/**
 * mt_stem_retire() - free a stem's nodes once no reader holds them
 * @tree: the tree
 * @stem: from mt_stem_unlock(); its leaf is unlocked as well
 *
 * Only the caller retires them, so they exist without rcu_read_lock().
 *
 * Context: any but NMI, nothing locked.
 */
void mt_stem_retire(struct mt_tree *tree, const struct mt_stem *stem)
{
	struct mt_node *node, *next;

	for (node = stem->root; node != &stem->leaf->node; node = next) {
		next = mt_stem_next(node);
		if (mt_is_leaf(node))
			mt_leaf_retire(tree, mt_leaf(node));
		else
			mt_inner_retire(tree, mt_inner(node));
	}
	mt_leaf_retire(tree, stem->leaf);
	kvt_stat_add(tree->index.env.stats, KVTREE_STAT_LAYERS, -(s64)stem->layers);
}
