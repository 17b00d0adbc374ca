// SPDX-License-Identifier: GPL-2.0
/*
 * Masstree: the engine as a whole.
 */

#include <linux/err.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include "compat.h"
#include "table.h"
#include "tree.h"

/**
 * DOC: The Masstree engine
 *
 * After "Cache craftiness for fast multicore key-value storage" (Mao, Kohler,
 * Morris, EuroSys 2012).  Section numbers below are the paper's.
 *
 * **Shape.** A trie of B+-trees.  The tree of the first layer is indexed by the
 * first eight bytes of the key (its first slice, read as a big-endian number,
 * so that comparing numbers compares strings), the trees of the second layer
 * by the next eight, and so on.  A key is in the first layer in which it
 * differs from all others::
 *
 *	layer 0            [ "Fukushim"* | "Kyoto" | "Sapporo" ]
 *	                        |
 *	layer 1            [ "a" | "a-ken" ]        both begin with "Fukushim"
 *
 * A leaf entry is a slice and a rank: 0 to 8 for a key that ends within the
 * slice, 9 for a longer key.  At most one entry per slice has rank 9; when a
 * second such key comes, both move to a new layer.  So at most ten entries
 * have the same slice, and they always share a leaf; inner nodes need only
 * slices.
 *
 * **Nodes.** ::
 *
 *	leaf  | version parent perm ranks next prev lowkey stale | slice[16] | slot[16] | data[16] |
 *	inner | version parent nkeys level tabled turn | slice[14] | child[15] |
 *
 * The suffix of a rank 9 key, after its slice, is in its value block, not in
 * the leaf.  The reader compares it on the cache line of the value's header,
 * which it needs next anyway; a leaf never has to grow or copy suffixes; and a
 * key keeps its suffix when it moves between layers.  The paper keeps suffixes
 * in the leaf or in a block beside it, and marks slots LAYER and, while they
 * change, UNSTABLE.  Here a slot is one word; its lowest bits say whether it
 * holds a block, a layer or a cell.  One store replaces a block or a layer, so
 * there is no unstable state, and no length that could be read apart from its
 * pointer.
 *
 * **Cells.** A value that is column 0 alone, of up to eight bytes, needs no block if
 * its key ends in the leaf's layer: the slot holds its version and its length, and
 * another word of the leaf its data.  Such a value is a cell.  Readers copy it.  To
 * replace it, a writer sets the slot to MT_SLOT_BUSY, writes the data, and then the
 * slot.  A reader that finds another slot after it has read the data reads both again.
 * The versions of a key only increase, so a slot never becomes what it was before, unless
 * another key has got it; that changes the leaf's version, which the reader checks last.
 * So an update disturbs only readers of this slot, and neither allocates nor retires
 * memory.  A cell may replace a block in the same slot, and a block a cell.
 *
 * Only some leaves have room for the data (MT_CELLS): the first one, and those made by
 * a split of a leaf that has a cell, or by a split to insert a value that might be one.
 * In other leaves small values have blocks, too.  A layer begins without room, since most
 * have few keys.  When a layer's last key moves to the layer above (layer.c), where it
 * continues after its slice, a cell becomes a block.
 *
 * **Readers** take no lock and write nothing.  They run under RCU.  A reader
 * first reads a node's version, and waits while it is dirty (inserting,
 * splitting).  It then reads the node, then the version again; if that has
 * changed, it cannot trust what it read.  On the way down it reads the child's
 * version before it checks the parent's (hand over hand, 4.6.4), so it will
 * notice any later change of the child.  If vsplit of an inner node has changed,
 * the reader returns to the root of the layer; if only vinsert has, it rereads the
 * node.  From a leaf it follows the links to the right, since keys only move to the
 * right: a leaf covers the slices from its lowkey to that of the next leaf.  A
 * deleted node sends the reader to the root of the layer as well.  If that root is
 * deleted or no longer a root, the reader returns to the root of the tree.  So
 * changes in one layer do not make readers go through those above it again.
 *
 * A reader may run in an interrupt or an NMI that has interrupted a writer holding
 * nodes, which a counter per CPU tells (mt_hold()).  If it then meets a dirty node or
 * a busy cell, it gives up at once with -EBUSY, since that may be the writer's.
 * Any other reader counts its waits and retries, and gives up after
 * MT_READ_BUDGET of them.  Writers keep nodes dirty only for a short time, with
 * preemption and bottom halves off.
 *
 * In the first layer, if there is a table, lookups, changes and iterators start at the inner node
 * above the leaf, which the table gives.  A worker remakes the table from time to time (table.c).
 *
 * A lookup for the longest prefix of a key (prefix.c) reads leaves in the same
 * way.  The key that it returns was present at some time during the lookup, and
 * no longer prefix was present throughout.
 *
 * **Writers** descend like readers, lock the leaf, and look for the key in it.  If the
 * leaf's vsplit has not changed since its version was read, the leaf still covers
 * the key.  Otherwise they move right from lock to lock.  Replacing an entry's
 * block takes one store, which readers see at once.  A new key is written to a
 * free slot and becomes visible with a store of the permutation, which gives the
 * order and number of the used slots (4.6.2); nothing is dirty meanwhile.
 * Removing a key is a store of the permutation as well.  The slot of a removed
 * key is remembered as stale.  Its next use marks the leaf dirty and increments
 * vinsert, as readers may have found the old key there (4.6.5).
 *
 * Everything that the change can need is allocated before the key's place is
 * held: begin() locks and checks; if something is missing, it unlocks, allocates
 * and starts again.  In the end it holds all nodes that a split will change: the
 * leaf, its full ancestors and the first one with room, or, if the root of a
 * layer splits, the leaf above that holds the root in a slot.  commit() cannot fail.
 *
 * Several keys in order (sorted.c) are written to free slots of the same leaf, and one
 * store of the permutation makes them all visible.
 *
 * **Splits.**  The upper keys move to a new right neighbour, which is complete
 * before anything leads to it.  The old node stays dirty until the parent knows the
 * new one, so a reader that came through the old parent waits or sees vsplit
 * change.  Keys with the same slice stay together.  At the right or left end of a
 * layer all old keys stay on one side, so sequential loads leave full nodes; they do so
 * elsewhere, too, if the caller inserts a key that follows the new one.  A node points
 * to its parent.  A layer's root points to the leaf of the layer above that holds it,
 * marked by a bit (MT_ROOT); readers that reach a root check the bit.  These
 * pointers change only under the lock of the node that they point to.  So the split
 * of a root finds the slot for the new root, and the split of a leaf updates the
 * roots of the layers that move to the new leaf.
 *
 * **New layers.**  Two keys can have hundreds of slices in common.  The writer
 * builds the chain of one-entry layers before it locks the leaf, and publishes
 * it, with the two keys at its end, by one store into the slot.
 *
 * **Removal.**  The remover of a leaf's last key unlinks the leaf.  It locks left
 * neighbour, leaf and right neighbour in this order, then the ancestors that have
 * no other child, and the first that has.  The leaf's range goes to its left
 * neighbour, or, if the leaf was in the first child of that ancestor, to the right
 * one, by lowering its lowkey.  Nodes are marked deleted when nothing leads to
 * them any more.  Any leaf can be removed, including the leftmost.
 *
 * Removing the last key of a layer removes the layer, and each layer above that leads
 * only to this one (stem.c).  The remover locks all of them from the bottom up, takes
 * the key out of its leaf, takes the slot that leads there out of the first leaf with
 * anything else, and marks them deleted.  So the work of a removal is in proportion to
 * its key's length.  Empty layers exist only for a moment: if a layer's last two leaves
 * become empty at the same time, the second thread to unlink its leaf removes the layer.
 *
 * The **worker** (layer.c) folds layers that lead to only one value into the slot above,
 * and makes the only child of a root the root.  It, too, publishes the new state before it
 * marks the old nodes deleted, so that readers never wait for it; until then the child cannot
 * split.  It remembers a bounded number of layers that removals have left thin.  For others it
 * sweeps the keys between the first and the last of them.
 *
 * **Lock order.**  Leaves of a layer from left to right, inner nodes from the
 * bottom up, then the leaf of the layer above that holds the root, and so on.  No
 * thread locks a node of a lower layer while it holds one of an upper layer.
 *
 * **Iterators** keep a key between RCU read sections.  Within one they know where
 * they are in some of the leaves on the path to the key, read entries between two checks
 * of a leaf, and remember the layers on the path to which they must return (iter.c).
 * Forward, they prefetch what comes next (ahead.c).
 *
 * **Memory.**  Nodes that readers may hold are marked deleted, unlocked and
 * retired; the store's reclaim frees them after a grace period.  Inner nodes to which a table may
 * lead are retired when there is another table.  Blocks belong to the caller of commit().
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
	root = mt_leaf_alloc(tree, true, GFP_KERNEL_ACCOUNT, &err);
	if (!root) {
		kfree(tree);
		return ERR_PTR(err);
	}
	mt_set_up(&root->node, NULL);
	tree->root = &root->node;
	mt_node_register(tree);
	mt_table_init(tree);
	mt_layer_init(tree);
	return &tree->index;
}

/* Add a node to a list of nodes to free, linked through above. */
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
		if (mt_slot_is_cell(slot))
			continue;
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

static void mt_stop(struct kvt_index *index)
{
	mt_layer_exit(mt_tree(index));
}

/* Free everything below the root, without recursion, since layers can be deep. */
static void mt_destroy(struct kvt_index *index)
{
	struct mt_tree *tree = mt_tree(index);
	struct mt_node *list = NULL;
	struct mt_node *node;

	mt_layer_exit(tree);
	mt_table_exit(tree);
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
	.cells = true,
	.create = mt_create,
	.stop = mt_stop,
	.destroy = mt_destroy,
	.get = mt_get,
	.get_batch = mt_get_batch,
	.get_prefix = mt_get_prefix,
	.begin = mt_begin,
	.commit = mt_commit,
	.abort = mt_abort,
	.finish = mt_finish,
	.insert_sorted = mt_insert_sorted,
	.iter_next = mt_iter_next,
	.iter_rest = mt_iter_rest,
	.sweep = mt_sweep,
};
KVT_EXPORT_FOR_TESTS(kvt_masstree_ops);
static_assert(sizeof(struct mt_iter) <= KVT_ITER_SIZE_MAX);

/**
 * kvt_masstree_init() - prepare the engine
 *
 * Return: 0 or -ENOMEM.
 */
int kvt_masstree_init(void)
{
	return mt_node_init();
}

/**
 * kvt_masstree_exit() - undo kvt_masstree_init()
 *
 * Context: may sleep.  No tree is left, and all retired nodes are freed.
 */
void kvt_masstree_exit(void)
{
	mt_node_exit();
}
