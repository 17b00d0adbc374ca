// SPDX-License-Identifier: GPL-2.0
/*
 * Removing empty leaves and ancestors from a layer (EuroSys 2012, section 4.6.5).
 */

#include "tree.h"

/* What unlinking a leaf holds. */
struct mt_unlink {
	struct mt_leaf *prev;		/* locked, or NULL */
	struct mt_leaf *leaf;		/* locked, empty */
	struct mt_leaf *next;		/* locked, or NULL */
	/* Ancestors with no other child, locked; they go as well. */
	unsigned int nr_doomed;
	struct mt_inner *doomed[MT_HEIGHT_MAX];
	struct mt_inner *heir;		/* locked: the first with other children */
	struct mt_node *child;		/* of the heir: the topmost node that goes */
};

static void mt_unlock_leaf(struct mt_leaf *leaf)
{
	if (leaf)
		mt_unlock(&leaf->node, &mt_class_leaf);
}

/*
 * Lock the leaf's left neighbour, then the leaf.  The pointer to the left changes
 * only under the lock of the neighbour that it names; NULL stays NULL.
 */
static void mt_unlink_lock_pair(struct mt_unlink *u)
{
	struct mt_leaf *leaf = u->leaf;

	for (;;) {
		u->prev = READ_ONCE(leaf->prev);
		if (u->prev)
			mt_lock(&u->prev->node, &mt_class_leaf, 0);
		mt_lock(&leaf->node, &mt_class_leaf, 1);
		if (mt_is_deleted(&leaf->node) || READ_ONCE(leaf->prev) == u->prev)
			return;
		mt_unlock_leaf(leaf);
		mt_unlock_leaf(u->prev);
	}
}

/* Lock the leaf and its neighbours, from left to right.  Returns whether it is still empty. */
static bool mt_unlink_lock_leaves(struct mt_unlink *u)
{
	struct mt_leaf *leaf = u->leaf;

	mt_unlink_lock_pair(u);
	if (mt_is_deleted(&leaf->node) || mt_perm_size(leaf->perm))
		return false;
	u->next = leaf->next;
	if (u->next)
		mt_lock(&u->next->node, &mt_class_leaf, 2);
	return true;
}

/* Lock the ancestors up to the first that has another child.  False: none has. */
static bool mt_unlink_lock_above(struct mt_unlink *u)
{
	struct mt_inner *parent;

	u->child = &u->leaf->node;
	while ((parent = mt_lock_parent(u->child, true))) {
		if (parent->nkeys) {
			u->heir = parent;
			return true;
		}
		if (WARN_ON_ONCE(u->nr_doomed == MT_HEIGHT_MAX)) {
			mt_unlock(&parent->node, mt_class_of(&parent->node));
			return false;
		}
		u->doomed[u->nr_doomed++] = parent;
		u->child = &parent->node;
	}
	return false;
}

static void mt_unlink_unlock(struct mt_unlink *u)
{
	unsigned int i = u->nr_doomed;

	if (u->heir)
		mt_unlock(&u->heir->node, mt_class_of(&u->heir->node));
	while (i-- > 0)
		mt_unlock(&u->doomed[i]->node, mt_class_of(&u->doomed[i]->node));
	mt_unlock_leaf(u->next);
	mt_unlock_leaf(u->leaf);
	mt_unlock_leaf(u->prev);
}

/* Remove the child from the heir, with the key to its left or, at 0, to its right. */
static void mt_remove_child(struct mt_inner *heir, unsigned int at)
{
	unsigned int i;

	for (i = at ? at : 1; i < heir->nkeys; i++)
		WRITE_ONCE(heir->slice[i - 1], heir->slice[i]);
	WRITE_ONCE(heir->slice[i - 1], ~0ull);
	for (i = at; i < heir->nkeys; i++)
		WRITE_ONCE(heir->child[i], heir->child[i + 1]);
	mt_inner_set_nkeys(heir, heir->nkeys - 1);
}

/*
 * The leaf's range goes to the left neighbour, as in the heir, or, if the heir loses its
 * first child, to the right one: its lowkey is lowered to the leaf's before readers can
 * reach it from the left.
 *
 * The leaf is marked deleted last.  Until then readers find it empty, which is right as
 * long as the neighbours are locked; later nothing leads to it.  A reader that met a
 * deleted leaf still in the tree would return to the tree's root again and again.
 */
static void mt_unlink(struct mt_unlink *u)
{
	struct mt_inner *heir = u->heir;
	unsigned int i, at = 0;

	while (heir->child[at] != u->child)
		at++;
	kvt_park(KVT_PARK_UNLINK_LOCKED);
	if (!at) {
		mt_mark(&u->next->node, MT_SPLITTING);
		WRITE_ONCE(u->next->lowkey, u->leaf->lowkey);
	}
	if (u->next)
		WRITE_ONCE(u->next->prev, u->prev);
	if (u->prev)
		mt_leaf_set_next(u->prev, u->next);
	kvt_park(KVT_PARK_UNLINK_LISTED);
	mt_mark(&heir->node, MT_INSERTING);
	mt_remove_child(heir, at);
	kvt_park(KVT_PARK_UNLINK_PARENT);
	mt_mark_deleted(&u->leaf->node);
	for (i = 0; i < u->nr_doomed; i++)
		mt_mark_deleted(&u->doomed[i]->node);
	kvt_park(KVT_PARK_UNLINK_MARKED);
}

/* Free what was unlinked once no reader holds it. */
static void mt_unlink_retire(struct mt_tree *tree, struct mt_unlink *u)
{
	mt_leaf_retire(tree, u->leaf);
	while (u->nr_doomed)
		mt_inner_retire(tree, u->doomed[--u->nr_doomed]);
	mt_stat(tree, KVTREE_STAT_NODE_UNLINK);
}

/**
 * mt_unlink_leaf() - remove a leaf from its layer if it is empty
 * @tree: the tree
 * @leaf: a leaf that was empty, in this RCU read section
 * @gone: set to the number of removed nodes, for trace_kvt_unlink()
 *
 * Context: under rcu_read_lock(), nothing locked; preemption may be off.
 *
 * Return: the outcome.
 */
enum mt_unlinked mt_unlink_leaf(struct mt_tree *tree, struct mt_leaf *leaf, u8 *gone)
{
	struct mt_unlink u = { .leaf = leaf };
	enum mt_unlinked ret = MT_UNLINK_NOTHING;

	kvt_park_loose(KVT_PARK_UNLINK_FOUND);
	mt_hold();
	if (mt_unlink_lock_leaves(&u)) {
		ret = MT_UNLINK_LAST;
		if (mt_unlink_lock_above(&u)) {
			mt_unlink(&u);
			ret = u.heir->nkeys || !mt_is_root(&u.heir->node) ? MT_UNLINK_GONE :
									    MT_UNLINK_THIN;
		}
	}
	mt_unlink_unlock(&u);
	mt_release();
	if (u.heir) {
		*gone = u.nr_doomed + 1;
		mt_unlink_retire(tree, &u);
	}
	return ret;
}
