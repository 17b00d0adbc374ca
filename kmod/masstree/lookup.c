// SPDX-License-Identifier: GPL-2.0
/*
 * Lookups that only need the value, one or many at once.
 *
 * Nearly all of them meet no change: nothing that they read is dirty, or differs
 * when it is read again.  Such a lookup needs no budget and little state.  Any
 * other starts again as a probe (find.c), which can wait, continue, and give up.
 */
#include <linux/minmax.h>

#include "table.h"
#include "tree.h"

/* How many lookups of a batch run at once. */
#define MT_BATCH	16

/* A lookup that has met no change so far. */
struct mt_fast {
	const u8 *key;
	u32 len;
	u32 off;			/* of the layer */
	u64 slice;			/* at off; of a cell that was found: its data */
	struct mt_node *node;		/* next to be read */
	struct mt_node *above;		/* where node was found, NULL where the lookup begins */
	u64 above_version;		/* or, without one, what the table says of node */
	/* The value found: compare its key from off on.  Or see mt_fast_due(). */
	unsigned long found;
};

enum mt_fast_step {
	MT_FAST_MORE,		/* the next node is being fetched */
	MT_FAST_VALUE,		/* the value is being fetched, if its key is to be compared */
	MT_FAST_CELL,		/* it is a cell: found is its slot */
	MT_FAST_NONE,		/* there is no such key */
	MT_FAST_FAILED,		/* this needs a probe */
};

static __always_inline void mt_fast_layer(struct mt_fast *c, struct mt_node *root, u32 off)
{
	c->off = off;
	c->slice = mt_slice(c->key, c->len, off);
	c->node = root;
	c->above = NULL;
	c->above_version = MT_REF_NONE;
	mt_prefetch(root, true, false);
}

/* Begin in the first layer, from where the table leads to, or at the root. */
static __always_inline void mt_fast_init(struct mt_fast *c, struct mt_tree *tree,
					 const struct mt_table *t, const struct kvt_key *key)
{
	c->key = key->data;
	c->len = key->len;
	c->off = 0;
	c->slice = mt_slice(c->key, c->len, 0);
	c->found = 0;
	c->above = NULL;
	c->node = mt_table_begin(t, mt_root(tree), c->slice, &c->above_version);
}

static __always_inline enum mt_fast_step mt_fast_cell(struct mt_fast *c, int n,
						      unsigned long slot, u64 v)
{
	const struct mt_leaf *leaf = mt_leaf(c->node);
	bool changed;

	c->found = slot;
	c->slice = mt_leaf_data(leaf, n, slot);
	changed = mt_cell_changed(leaf, n, slot);
	kvt_park_loose(KVT_PARK_READ_CHECK);
	return unlikely(changed || mt_changed(&leaf->node, v)) ? MT_FAST_FAILED : MT_FAST_CELL;
}

/* What the leaf has in a slot; less than 0: it has no such key. */
static __always_inline enum mt_fast_step mt_fast_slot(struct mt_fast *c, int n, u64 v)
{
	const struct mt_leaf *leaf = mt_leaf(c->node);
	unsigned long slot;

	kvt_park_loose(KVT_PARK_READ_SLOT);
	slot = n < 0 ? 0 : mt_leaf_slot(leaf, n);
	if (mt_slot_is_cell(slot))
		return mt_fast_cell(c, n, slot, v);
	kvt_park_loose(KVT_PARK_READ_CHECK);
	if (unlikely(mt_changed(&leaf->node, v)))
		return MT_FAST_FAILED;
	if (n < 0)
		return MT_FAST_NONE;
	if (mt_slot_is_layer(slot)) {
		mt_fast_layer(c, mt_slot_to_layer(slot), c->off + MT_SLICE);
		return MT_FAST_MORE;
	}
	c->found = slot;
	c->off += min(c->len - c->off, MT_SLICE);
	kvt_value_prefetch(mt_slot_value(slot), c->len);
	return MT_FAST_VALUE;
}

/*
 * In a batch, the slot of a leaf with cells is not fetched before its number is known.  Until it
 * is read, found is that number and the lowest bit, and above_version the leaf's version.
 */
static __always_inline bool mt_fast_due(const struct mt_fast *c)
{
	return c->found & 1;
}

static __always_inline enum mt_fast_step mt_fast_leaf(struct mt_fast *c, u64 v, bool batch)
{
	const struct mt_leaf *leaf = mt_leaf(c->node);
	int n = mt_leaf_find(leaf, mt_leaf_perm(leaf), c->slice, mt_rank(c->len, c->off));

	if (!batch || n < 0 || !(v & MT_CELLS))
		return mt_fast_slot(c, n, v);
	prefetch(&leaf->data[n]);
	c->above_version = v;
	c->found = 2 * n + 1;
	return MT_FAST_MORE;
}

/* Read the node that was prefetched. */
static __always_inline enum mt_fast_step mt_fast_step(struct mt_fast *c, struct mt_tree *tree,
						      const struct mt_table *t, bool batch)
{
	struct mt_node *node = c->node;
	u64 v;

	if (!mt_fast_enter(tree, t, node, c->above, c->above_version, &v))
		return MT_FAST_FAILED;
	if (v & MT_LEAF)
		return mt_fast_leaf(c, v, batch);
	c->above = node;
	c->above_version = v;
	c->node = mt_inner_child(mt_inner(node), c->slice,
				 !batch && mt_may_have_cells(tree, c->off));
	return MT_FAST_MORE;
}

/* The value found, if it is the key's: after the slice, it may be another key's. */
static __always_inline struct kvt_value *mt_fast_value(const struct mt_fast *c)
{
	struct kvt_value *value = mt_slot_value(c->found);

	if (c->off == c->len || mt_same_tail(value, c->key, c->len, c->off))
		return value;
	return NULL;
}

static noinline struct kvt_value *mt_get_probe(struct mt_tree *tree, const struct kvt_key *key,
					       struct kvt_cell *cell)
{
	struct mt_probe probe;

	mt_probe_find(&probe, tree, key, cell);
	return probe.value;
}

/* What came of a lookup. */
static __always_inline struct kvt_value *mt_fast_result(const struct mt_fast *c,
							struct mt_tree *tree,
							enum mt_fast_step step,
							const struct kvt_key *key,
							struct kvt_cell *cell)
{
	if (step == MT_FAST_CELL)
		return mt_slot_cell(c->found, c->slice, c->len, cell);
	if (likely(step == MT_FAST_VALUE))
		return mt_fast_value(c);
	return step == MT_FAST_NONE ? NULL : mt_get_probe(tree, key, cell);
}

/**
 * mt_get() - see struct kvt_index_ops
 * @index: the tree
 * @key: the key
 * @cell: for a value without a block
 *
 * Context: under rcu_read_lock(), any context.
 *
 * Return: the value, NULL, or ERR_PTR(-EBUSY).
 */
struct kvt_value *mt_get(struct kvt_index *index, const struct kvt_key *key,
			 struct kvt_cell *cell)
{
	struct mt_tree *tree = mt_tree(index);
	const struct mt_table *t = mt_table(tree);
	enum mt_fast_step step;
	struct mt_fast fast;

	RCU_LOCKDEP_WARN(!rcu_read_lock_held(), "kvtree: looking up outside of RCU");
	mt_fast_init(&fast, tree, t, key);
	do {
		step = mt_fast_step(&fast, tree, t, false);
	} while (step == MT_FAST_MORE);
	return mt_fast_result(&fast, tree, step, key, cell);
}

/* Read the slot that has arrived by now. */
static __always_inline enum mt_fast_step mt_batch_slot(struct mt_fast *c)
{
	int n = c->found >> 1;

	c->found = 0;
	return mt_fast_slot(c, n, c->above_version);
}

/* One step of a lookup of a batch.  Returns MT_FAST_MORE until its value is known. */
static __always_inline enum mt_fast_step mt_batch_step(struct mt_fast *c, struct mt_tree *tree,
						       const struct mt_table *t)
{
	enum mt_fast_step step;

	if (!c->found)
		step = mt_fast_step(c, tree, t, true);
	else if (mt_fast_due(c))
		step = mt_batch_slot(c);
	else
		return MT_FAST_VALUE;
	/* It will have arrived when its key is compared. */
	if (step == MT_FAST_VALUE && c->off != c->len)
		return MT_FAST_MORE;
	return step;
}

/*
 * Look up at most MT_BATCH keys, one step of each in turn (EuroSys 2012, 4.8).  Without cells, a
 * lookup ends where its memory has been fetched, or where it would need a probe, which may wait.
 */
static void mt_get_some(struct mt_tree *tree, struct kvt_lookup *lookups,
			struct kvt_cell *cells, unsigned int nr)
{
	struct mt_fast fast[MT_BATCH] __uninitialized;
	struct mt_fast *left[MT_BATCH] __uninitialized;
	const struct mt_table *t = mt_table(tree);
	struct kvt_lookup *lookup;
	enum mt_fast_step step;
	struct mt_fast *c;
	unsigned int i;

	for (i = 0; i < nr; i++) {
		mt_fast_init(&fast[i], tree, t, &lookups[i].key);
		left[i] = &fast[i];
	}
	while (nr) {
		for (i = 0; i < nr;) {
			c = left[i];
			step = mt_batch_step(c, tree, t);
			if (step == MT_FAST_MORE) {
				i++;
				continue;
			}
			left[i] = left[--nr];
			if (unlikely(!cells))
				continue;
			lookup = &lookups[c - fast];
			lookup->value = mt_fast_result(c, tree, step, &lookup->key,
						       &cells[c - fast]);
		}
	}
}

/**
 * mt_get_batch() - see struct kvt_index_ops
 * @index: the tree
 * @lookups: the keys, and their values
 * @cells: for values without blocks, one for each; NULL: only fetch
 * @nr: their number
 *
 * Context: under rcu_read_lock(), any context.
 */
void mt_get_batch(struct kvt_index *index, struct kvt_lookup *lookups, struct kvt_cell *cells,
		  unsigned int nr)
{
	unsigned int some;

	RCU_LOCKDEP_WARN(!rcu_read_lock_held(), "kvtree: looking up outside of RCU");
	for (; nr; nr -= some, lookups += some, cells += cells ? some : 0) {
		some = min_t(unsigned int, nr, MT_BATCH);
		mt_get_some(mt_tree(index), lookups, cells, some);
	}
}
