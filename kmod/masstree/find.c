// SPDX-License-Identifier: GPL-2.0
/*
 * Finding a key: the readers' side of the protocol (EuroSys 2012, figures 6
 * and 7), and how writers get from a key to its locked leaf.
 */

#include <linux/err.h>
#include <linux/processor.h>

#include "compat.h"
#include "table.h"
#include "tree.h"

static bool mt_spend(u32 *budget)
{
	if (!*budget)
		return false;
	--*budget;
	return true;
}

/*
 * Read a node's version, and wait for a writer that is changing the node.  Returns false if the
 * budget is spent.  A reader that has interrupted a writer spends all of it at once.
 */
static bool mt_stable(const struct mt_node *node, u64 *version, u32 *budget)
{
	for (;;) {
		/* Pairs with mt_unlock(): the node is read after its version. */
		*version = smp_load_acquire(&node->version);
		if (likely(!(*version & MT_DIRTY)))
			return true;
		if (mt_on_top())
			*budget = 0;
		if (!mt_spend(budget))
			return false;
		kvt_park_loose(KVT_PARK_READ_WAIT);
		cpu_relax();
	}
}

/**
 * mt_leaf_place() - look for a key in a leaf
 * @leaf: the leaf
 * @perm: its permutation
 * @slice: slice of the key
 * @rank: mt_rank() of the key
 * @at: the key's position in the permutation, or where it would be inserted
 *
 * Return: the key's slot number or -1.
 */
int mt_leaf_place(const struct mt_leaf *leaf, u64 perm, u64 slice, u32 rank, unsigned int *at)
{
	unsigned int size = mt_perm_size(perm);
	unsigned int i;

	for (i = 0; i < size; i++) {
		unsigned int n = mt_perm_slot(perm, i);
		u64 s = READ_ONCE(leaf->slice[n]);
		u32 r;

		if (s < slice)
			continue;
		if (s > slice)
			break;
		r = mt_leaf_rank(leaf, n);
		if (r < rank)
			continue;
		*at = i;
		return r == rank ? (int)n : -1;
	}
	*at = i;
	return -1;
}
KVT_EXPORT_FOR_TESTS(mt_leaf_place);

/* Start at the root of a layer. */
static void mt_probe_at(struct mt_probe *p, struct mt_node *root, u32 off, u64 slice)
{
	p->off = off;
	p->slice = slice;
	p->root = root;
	p->node = root;
	p->above = NULL;
	p->above_version = MT_REF_NONE;
}

static void mt_probe_enter(struct mt_probe *p, struct mt_node *root, u32 off)
{
	mt_probe_at(p, root, off, mt_slice(p->key, p->len, off));
	mt_prefetch(root, true, !off && mt_may_have_cells(p->tree, off));
}

/**
 * mt_probe_prepare() - set up a lookup
 * @probe: the lookup
 * @tree: the tree
 * @key: the key; its bytes must stay valid
 *
 * For callers that descend with mt_probe_descend().
 *
 * Context: under rcu_read_lock().
 */
void mt_probe_prepare(struct mt_probe *probe, struct mt_tree *tree, const struct kvt_key *key)
{
	RCU_LOCKDEP_WARN(!rcu_read_lock_held(), "kvtree: looking up outside of RCU");
	probe->tree = tree;
	probe->key = key->data;
	probe->len = key->len;
	probe->value = NULL;
	probe->place = false;
	probe->budget = MT_READ_BUDGET;
	probe->retries = 0;
	probe->restarts = 0;
}

/**
 * mt_probe_end() - count a lookup's retries
 * @probe: the lookup
 */
void mt_probe_end(struct mt_probe *probe)
{
	struct kvt_stats *stats = probe->tree->index.env.stats;

	if (likely(probe->budget == MT_READ_BUDGET))
		return;
	kvt_stat_add(stats, KVTREE_STAT_READ_RETRY, probe->retries);
	kvt_stat_add(stats, KVTREE_STAT_READ_RESTART, probe->restarts);
	if (IS_ERR(probe->value))
		kvt_stat_inc(stats, KVTREE_STAT_READ_BUSY);
}

enum mt_step {
	MT_STEP_MORE,		/* the next node is being fetched */
	MT_STEP_LEAF,		/* the node is the leaf that covers the slice */
	MT_STEP_RESTART,	/* start again at the root of the layer, or of the tree */
	MT_STEP_BUSY,		/* the budget is spent */
};

static void mt_probe_choose(struct mt_probe *p, struct mt_inner *inner, u64 v)
{
	p->above = inner;
	p->above_version = v;
	p->node = mt_inner_child(inner, p->slice, mt_may_have_cells(p->tree, p->off));
}

/* Start in the first layer, at the node that the table gives, or at the root. */
static void mt_probe_begin(struct mt_probe *p, struct mt_node *root, u64 slice)
{
	p->off = 0;
	p->slice = slice;
	p->root = root;
	p->above = NULL;
	p->table = mt_table(p->tree);
	p->node = mt_table_begin(p->table, root, slice, &p->above_version);
}

static void mt_probe_init(struct mt_probe *probe, struct mt_tree *tree, const struct kvt_key *key)
{
	mt_probe_prepare(probe, tree, key);
	mt_probe_begin(probe, mt_root(tree), mt_slice(probe->key, probe->len, 0));
}

/*
 * Read the prefetched node, and descend one level.  Hand over hand: the child's
 * version is read before the parent's is checked, so a later split that moves the
 * slice out of the child shows in one of them.
 */
static enum mt_step mt_probe_node(struct mt_probe *p, u64 *version)
{
	struct mt_inner *above = p->above;
	u64 v;

	kvt_park_loose(KVT_PARK_READ_CHILD);
	if (!mt_stable(p->node, &v, &p->budget))
		return MT_STEP_BUSY;
	kvt_park_loose(KVT_PARK_READ_VERSION);
	if (above && mt_changed(&above->node, p->above_version)) {
		p->retries++;
		if (!mt_spend(&p->budget) || !mt_stable(&above->node, &v, &p->budget))
			return MT_STEP_BUSY;
		if ((v & MT_DELETED) || (v ^ p->above_version) >= MT_VSPLIT)
			return MT_STEP_RESTART;
		mt_probe_choose(p, above, v);
		return MT_STEP_MORE;
	}
	/* A root that has split or shrunk is no longer its layer's root. */
	if ((v & MT_DELETED) ||
	    (!above && !mt_is_root(p->node) &&
	     !mt_table_holds(p->tree, p->table, p->above_version, v)))
		return MT_STEP_RESTART;
	*version = v;
	if (v & MT_LEAF)
		return MT_STEP_LEAF;
	mt_probe_choose(p, mt_inner(p->node), v);
	return MT_STEP_MORE;
}

static bool mt_probe_busy(struct mt_probe *p)
{
	p->value = ERR_PTR(-EBUSY);
	return false;
}

/* Whether a node that was a layer's root still is, so that a lookup may start there. */
static bool mt_layer_is_there(const struct mt_node *root)
{
	return !mt_is_deleted(root) && mt_is_root(root);
}

static bool mt_probe_restart(struct mt_probe *p)
{
	p->restarts++;
	if (!mt_spend(&p->budget))
		return mt_probe_busy(p);
	if (mt_layer_is_there(p->root))
		mt_probe_enter(p, p->root, p->off);
	else
		mt_probe_enter(p, mt_root(p->tree), 0);
	return true;
}

/*
 * The leaf has changed since its version was read.  Keys only move to the right:
 * follow the links to the leaf that covers the slice now.
 */
static struct mt_leaf *mt_leaf_advance(struct mt_probe *p, struct mt_leaf *leaf, u64 *v)
{
	struct mt_leaf *next;

	p->retries++;
	if (!mt_spend(&p->budget) || !mt_stable(&leaf->node, v, &p->budget))
		return NULL;
	while (!(*v & MT_DELETED)) {
		next = mt_leaf_next(leaf);
		if (!next || p->slice < READ_ONCE(next->lowkey))
			break;
		leaf = next;
		if (!mt_spend(&p->budget) || !mt_stable(&leaf->node, v, &p->budget))
			return NULL;
	}
	return leaf;
}

static bool mt_probe_leaf(struct mt_probe *p, u64 v)
{
	struct mt_leaf *leaf = mt_leaf(p->node);
	u32 rank = mt_rank(p->len, p->off);
	struct kvt_value *value;
	unsigned long slot;
	unsigned int at;
	bool changed;
	u64 data;
	int n;

	/* A key that ends in this slice is in no lower layer. */
	if (p->place && rank != MT_RANK_LONG) {
		p->version = v;
		return false;
	}
	for (;;) {
		if (v & MT_DELETED)
			return mt_probe_restart(p);
		n = mt_leaf_place(leaf, mt_leaf_perm(leaf), p->slice, rank, &at);
		kvt_park_loose(KVT_PARK_READ_SLOT);
		slot = n < 0 ? 0 : mt_leaf_slot(leaf, n);
		data = mt_leaf_data(leaf, n, slot);
		changed = mt_cell_changed(leaf, n, slot);
		kvt_park_loose(KVT_PARK_READ_CHECK);
		if (likely(!changed && !mt_changed(&leaf->node, v)))
			break;
		if (slot == MT_SLOT_BUSY && mt_on_top())
			p->budget = 0;
		cpu_relax();
		leaf = mt_leaf_advance(p, leaf, &v);
		if (!leaf)
			return mt_probe_busy(p);
	}
	p->node = &leaf->node;
	p->version = v;
	if (n < 0)
		return false;
	if (mt_slot_is_layer(slot)) {
		mt_probe_enter(p, mt_slot_to_layer(slot), p->off + MT_SLICE);
		return true;
	}
	if (mt_slot_is_cell(slot)) {
		p->value = mt_slot_cell(slot, data, p->len, p->cell);
		return false;
	}
	/* A caller that only wants the place locks the leaf, then compares the key. */
	if (p->place)
		return false;
	value = mt_slot_value(slot);
	if (rank != MT_RANK_LONG || mt_same_tail(value, p->key, p->len, p->off + MT_SLICE))
		p->value = value;
	return false;
}

/* Returns whether there is more to read. */
static bool mt_probe_step(struct mt_probe *p)
{
	u64 v;

	switch (mt_probe_node(p, &v)) {
	case MT_STEP_MORE:
		return true;
	case MT_STEP_LEAF:
		return mt_probe_leaf(p, v);
	case MT_STEP_RESTART:
		return mt_probe_restart(p);
	default:
		return mt_probe_busy(p);
	}
}

static void mt_probe_run(struct mt_probe *p)
{
	while (mt_probe_step(p))
		;
	mt_probe_end(p);
}

/**
 * mt_probe_find() - look up a key
 * @probe: to be filled
 * @tree: the tree
 * @key: the key
 * @cell: for a value without a block
 *
 * Afterwards @probe->value is the value, NULL, or ERR_PTR(-EBUSY), and @probe->node the
 * leaf in which the key is or would be.
 *
 * Context: under rcu_read_lock(), any context.
 */
void mt_probe_find(struct mt_probe *probe, struct mt_tree *tree, const struct kvt_key *key,
		   struct kvt_cell *cell)
{
	mt_probe_init(probe, tree, key);
	probe->cell = cell;
	mt_probe_run(probe);
}

/**
 * mt_probe_place() - find the leaf of a key
 * @probe: to be filled
 * @tree: the tree
 * @key: the key
 *
 * As mt_probe_find(), for callers that lock the leaf and search it themselves: @probe->value
 * is ERR_PTR(-EBUSY) or has no meaning.
 *
 * Context: under rcu_read_lock(), any context.
 */
void mt_probe_place(struct mt_probe *probe, struct mt_tree *tree, const struct kvt_key *key)
{
	mt_probe_init(probe, tree, key);
	probe->place = true;
	mt_probe_run(probe);
}

/**
 * mt_probe_descend() - find the leaf of a layer that covers a slice
 * @probe: for its budget
 * @root: of the layer
 * @off: of the layer
 * @slice: the slice
 * @version: the leaf's
 *
 * Context: under rcu_read_lock(), any context.
 *
 * Return: the leaf; NULL: the layer has another root or is gone, start again at the
 * root of the tree; ERR_PTR(-EBUSY).
 */
struct mt_leaf *mt_probe_descend(struct mt_probe *probe, struct mt_node *root, u32 off,
				 u64 slice, u64 *version)
{
	enum mt_step step;

	if (off)
		mt_probe_at(probe, root, off, slice);
	else
		mt_probe_begin(probe, root, slice);
	for (;;) {
		do {
			step = mt_probe_node(probe, version);
		} while (step == MT_STEP_MORE);
		if (step == MT_STEP_LEAF)
			return mt_leaf(probe->node);
		if (step == MT_STEP_BUSY || !mt_spend(&probe->budget))
			return ERR_PTR(-EBUSY);
		probe->restarts++;
		if (!mt_layer_is_there(root))
			return NULL;
		mt_probe_at(probe, root, off, slice);
	}
}

/**
 * mt_lock_leaf() - lock the leaf of a layer that covers a slice
 * @tree: the tree
 * @leaf: a leaf that covered the slice at some time in this RCU read section
 * @version: the leaf's, at that time
 * @slice: the slice
 *
 * Only splits reduce what a leaf covers.  Without a split, this does not touch the right
 * neighbour, which is unlikely to be in the cache.
 *
 * Context: under rcu_read_lock(), mt_hold().
 *
 * Return: the leaf, locked and not deleted, or NULL: start again.
 */
struct mt_leaf *mt_lock_leaf(struct mt_tree *tree, struct mt_leaf *leaf, u64 version, u64 slice)
{
	struct mt_leaf *next;
	bool seen = true;

	for (;;) {
		if (mt_lock(&leaf->node, &mt_class_leaf, 0))
			mt_stat(tree, KVTREE_STAT_LOCK_CONTENDED);
		if (mt_is_deleted(&leaf->node))
			break;
		if (seen && (READ_ONCE(leaf->node.version) ^ version) < MT_VSPLIT)
			return leaf;
		next = READ_ONCE(leaf->next);
		if (!next || slice < READ_ONCE(next->lowkey))
			return leaf;
		mt_unlock(&leaf->node, &mt_class_leaf);
		leaf = next;
		seen = false;
	}
	mt_unlock(&leaf->node, &mt_class_leaf);
	return NULL;
}

/**
 * mt_find_layer() - find the root of a layer
 * @probe: for a key of the layer, at least its first @off bytes
 * @off: of the layer, in bytes
 *
 * Context: under rcu_read_lock(), any context.
 *
 * Return: the root; NULL: there is no such layer now; ERR_PTR(-EAGAIN): the
 * tree is changing; ERR_PTR(-EBUSY).
 */
struct mt_node *mt_find_layer(struct mt_probe *probe, u32 off)
{
	struct mt_node *root = mt_root(probe->tree);
	struct mt_leaf *leaf;
	unsigned long slot;
	unsigned int at;
	u32 layer;
	u64 v;
	int n;

	for (layer = 0; layer < off; layer += MT_SLICE) {
		leaf = mt_probe_descend(probe, root, layer,
					mt_slice(probe->key, probe->len, layer), &v);
		if (IS_ERR_OR_NULL(leaf))
			return leaf ? ERR_CAST(leaf) : ERR_PTR(-EAGAIN);
		n = mt_leaf_place(leaf, mt_leaf_perm(leaf), probe->slice,
				  MT_RANK_LONG, &at);
		slot = n < 0 ? 0 : mt_leaf_slot(leaf, n);
		if (mt_changed(&leaf->node, v))
			return ERR_PTR(-EAGAIN);
		if (!mt_slot_is_layer(slot))
			return NULL;
		root = mt_slot_to_layer(slot);
	}
	return root;
}
