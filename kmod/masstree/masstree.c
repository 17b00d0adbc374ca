// SPDX-License-Identifier: GPL-2.0
/*
 * Masstree: the engine as a whole.
 */

#include <linux/err.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include "compat.h"
#include "masstree.h"

/**
 * DOC: The Masstree engine
 *
 * After "Cache craftiness for fast multicore key-value storage" (Mao, Kohler,
 * Morris, EuroSys 2012).  Section numbers below are the paper's.
 *
 * **Shape.** A trie of B+-trees.  The tree of the first layer is indexed by the
 * first eight bytes of the key (its first slice, read as a big-endian number,
 * so that comparing numbers compares strings), the trees of the second layer
 * by the next eight, and so on.  A key stands in the first layer in which it
 * differs from all others::
 *
 *	layer 0            [ "Fukushim"* | "Kyoto" | "Sapporo" ]
 *	                        |
 *	layer 1            [ "a" | "a-ken" ]        both begin with "Fukushim"
 *
 * A leaf entry is a slice and a rank: 0 to 8 for a key that ends within the
 * slice, 9 for a key that goes on.  At most one entry per slice has rank 9;
 * when a second such key comes, a new layer takes both.  So at most ten entries
 * have the same slice, and they always share a leaf; inner nodes need slices
 * only.
 *
 * **Nodes.** ::
 *
 *	leaf  | version parent perm ranks next prev lowkey stale | slice[16] | slot[16] |
 *	inner | version parent nkeys level | slice[14] | child[15] |
 *
 * What lies behind the slice of a rank 9 key is in its value block, not in the
 * leaf: the reader compares it on the line that holds the value's header,
 * which it needs next anyway, a leaf never has to grow or copy suffixes, and a
 * key keeps its suffix when it moves between layers.  The paper keeps suffixes
 * in the leaf or in a block beside it, and marks slots LAYER and, while they
 * change, UNSTABLE.  Here the slot is one word that says by its lowest bit
 * whether it holds a value or a layer; it changes in one store, so there is no
 * unstable state, and no length that could be read apart from its pointer.
 *
 * **Readers** take no lock and write nothing.  They run under RCU.  A node's
 * version is read first; if it is dirty (inserting, splitting), the reader
 * waits.  Then the node is read, then the version again; if it has changed, so
 * may have what was read.  Going down, the child's version is read before the
 * parent's is checked (hand over hand, 4.6.4): whatever happens to the child
 * later, the reader will see by the child.  A change of vsplit in an inner node
 * sends the reader back to the root, a change of vinsert only to the node
 * again.  In a leaf it follows the links to the right, as keys move to the
 * right only: a leaf covers the slices from its lowkey to that of the next
 * leaf.  A deleted node sends the reader to the root.
 *
 * A reader may run in an interrupt or an NMI on top of the writer that it
 * waits for.  So all waiting is counted, and after MT_READ_BUDGET times the
 * reader gives up with -EBUSY.  Writers keep nodes dirty for a short time only,
 * with preemption and bottom halves off.
 *
 * A lookup for the longest key that another begins with (prefix.c) reads leaves in
 * the same way.  What it returns was there at some time, and nothing longer that
 * begins alike was there throughout.
 *
 * **Writers** go down like readers, lock the leaf, and look for the key in it.  If the
 * leaf's vsplit is what it was when its version was read, it covers what it did then.
 * Otherwise they go to the right from lock to lock.  An entry's
 * value is replaced by one store, seen by readers at once.  A new key is
 * written to a free slot and becomes visible with the store of the permutation,
 * which gives order and number of the slots (4.6.2); nothing is dirty.  A key
 * is removed by a store of the permutation, too.  A slot that a removed key has
 * left is remembered as stale; its next use marks the leaf dirty and bumps
 * vinsert, as readers may have found the old key there (4.6.5).
 *
 * Before the place of a key is held, everything that the change can need is
 * allocated: begin() locks, finds out, unlocks and allocates if something is
 * missing, and begins again.  It then holds all nodes that a split will reach:
 * the leaf, its full ancestors, the first one with room, or, if the root of a
 * layer splits, the leaf above whose slot holds the root.  commit() cannot fail.
 *
 * **Splits.**  The upper keys move to a new right neighbour, which is complete
 * before anything leads to it.  The old node is dirty until the parent knows the
 * new one, so a reader that came by the old parent waits or sees vsplit change.
 * Keys with the same slice stay together.  At the
 * right or left end of a layer all old keys stay on one side, so sequential
 * loads leave full nodes.  A node knows its parent, and a layer's root the leaf of the
 * layer above whose slot holds it, with a bit that says so (MT_ROOT); readers that come
 * to a root check that.  Both change only under the lock of what they name.  So the split
 * of a root finds the slot where it has to enter the new one, and the split of a leaf
 * tells the layers whose slots move.
 *
 * **New layers.**  Two keys can have hundreds of slices in common.  The chain
 * of one-entry layers is built before the leaf is locked, and published with
 * the two keys at its end by one store into the slot.
 *
 * **Removal.**  A leaf that becomes empty is unlinked by the remover: left
 * neighbour, leaf and right neighbour are locked in this order, then the
 * ancestors that have no other child, and the first that has.  The range of the
 * leaf goes to its left neighbour; if the leaf was in the first child of that
 * ancestor, to the right one, whose lowkey is lowered.  Nodes are marked deleted
 * when nothing leads to them any more.  Any leaf can go, the leftmost included.
 *
 * With the last key of a layer the layer goes, and so does each layer above that leads to
 * this one only (stem.c).  The remover locks all of them from the bottom up, takes the
 * slot that leads there out of the first leaf that has something else, and marks them
 * deleted.  So a removal works in proportion to its key's length, and nobody meets an
 * empty layer, but for a moment: if the last two leaves of one are emptied at a time,
 * whoever comes second to unlink his does it.
 *
 * The **worker** (layer.c) folds layers that lead to one value only into the slot above,
 * and makes the only child of a root the root.  It, too, publishes the new state before it
 * marks the old nodes deleted, so that no reader has to wait for it.
 *
 * **Lock order.**  Leaves of a layer from left to right, inner nodes from the
 * bottom up, then the leaf of the layer above that holds the root, and so on.  Locking a
 * lower layer while a node of an upper one is locked never happens.
 *
 * **Iterators** keep a key between RCU read sections.  Within one they keep
 * copies of some leaves on the way down to the key, which are compared with
 * the leaves before anything is returned, and they know to which layers on the
 * way they have to come back (iter.c).
 *
 * **Memory.**  Nodes that readers may hold are marked deleted, unlocked and
 * retired; the store's reclaim frees them after a grace period.  Values belong
 * to the caller of commit().
 */

static struct kvt_index *mt_create(const struct kvt_index_env *env)
{
	struct mt_tree *tree;
	struct mt_leaf *root;
	int err;

	tree = kzalloc(sizeof(*tree), GFP_KERNEL);
	if (!tree)
		return ERR_PTR(-ENOMEM);
	tree->index.ops = &kvt_masstree_ops;
	tree->index.env = *env;
	root = mt_leaf_alloc(tree, GFP_KERNEL_ACCOUNT, &err);
	if (!root) {
		kfree(tree);
		return ERR_PTR(err);
	}
	mt_set_up(&root->node, NULL);
	tree->root = &root->node;
	mt_node_register(tree);
	mt_layer_init(tree);
	return &tree->index;
}

/* A list of nodes to free, linked through what was above them. */
static void mt_doom(struct mt_node **list, struct mt_node *node)
{
	node->above = *list;
	*list = node;
}

static void mt_destroy_leaf(struct mt_tree *tree, struct mt_leaf *leaf, struct mt_node **list)
{
	struct kvt_reclaim *reclaim = tree->index.env.reclaim;
	unsigned int i;
	void *value;

	for (i = 0; i < mt_perm_size(leaf->perm); i++) {
		unsigned long slot = leaf->slot[mt_perm_slot(leaf->perm, i)];

		if (mt_slot_is_layer(slot)) {
			mt_doom(list, mt_slot_to_layer(slot));
			continue;
		}
		value = mt_slot_value(slot);
		reclaim->free_values(&value, 1);
	}
	mt_leaf_free(tree, leaf);
}

static void mt_destroy_inner(struct mt_tree *tree, struct mt_inner *inner, struct mt_node **list)
{
	unsigned int i;

	for (i = 0; i <= inner->nkeys; i++)
		mt_doom(list, inner->child[i]);
	mt_inner_free(tree, inner);
}

/* Free all that hangs on the root; no recursion, however deep the layers are. */
static void mt_destroy(struct kvt_index *index)
{
	struct mt_tree *tree = mt_tree(index);
	struct mt_node *list = NULL;
	struct mt_node *node;

	mt_layer_exit(tree);
	mt_doom(&list, tree->root);
	while ((node = list)) {
		list = node->above;
		if (mt_is_leaf(node))
			mt_destroy_leaf(tree, mt_leaf(node), &list);
		else
			mt_destroy_inner(tree, mt_inner(node), &list);
		cond_resched();
	}
	kfree(tree);
}

const struct kvt_index_ops kvt_masstree_ops = {
	.name = "masstree",
	.iter_size = sizeof(struct mt_iter),
	.create = mt_create,
	.destroy = mt_destroy,
	.get = mt_get,
	.get_batch = mt_get_batch,
	.get_prefix = mt_get_prefix,
	.begin = mt_begin,
	.commit = mt_commit,
	.abort = mt_abort,
	.finish = mt_finish,
	.iter_next = mt_iter_next,
	.iter_rest = mt_iter_rest,
	.sweep = mt_sweep,
};
KVT_EXPORT_FOR_TESTS(kvt_masstree_ops);

/**
 * kvt_masstree_init() - get the engine ready
 *
 * Return: 0 or -ENOMEM.
 */
int kvt_masstree_init(void)
{
	return mt_node_init();
}

/**
 * kvt_masstree_exit() - give back what kvt_masstree_init() took
 *
 * Context: may sleep.  No tree is left and all that was retired is freed.
 */
void kvt_masstree_exit(void)
{
	mt_node_exit();
}
