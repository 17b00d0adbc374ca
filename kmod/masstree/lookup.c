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
	u64 slice;			/* at off */
	struct mt_node *node;		/* next to be read */
	struct mt_node *above;		/* where node was found, NULL where the lookup begins */
	u64 above_version;		/* or, without one, what the table says of node */
	struct kvt_value *value;	/* found; its key is to be compared from off on */
};

enum mt_fast_step {
	MT_FAST_MORE,		/* the next node is being fetched */
	MT_FAST_VALUE,		/* the value is being fetched, if its key is to be compared */
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
	mt_prefetch(root, true);
}

/* Begin in the first layer, from where the table leads to, or at the root. */
static __always_inline void mt_fast_init(struct mt_fast *c, struct mt_tree *tree,
					 const struct mt_table *t, const struct kvt_key *key)
{
	c->key = key->data;
	c->len = key->len;
	c->off = 0;
	c->slice = mt_slice(c->key, c->len, 0);
	c->value = NULL;
	c->above = NULL;
	c->node = mt_table_begin(t, mt_root(tree), c->slice, &c->above_version);
}

static __always_inline enum mt_fast_step mt_fast_leaf(struct mt_fast *c, u64 v)
{
	const struct mt_leaf *leaf = mt_leaf(c->node);
	u32 rank = mt_rank(c->len, c->off);
	unsigned long slot;
	int n;

	n = mt_leaf_find(leaf, mt_leaf_perm(leaf), c->slice, rank);
	kvt_park_loose(KVT_PARK_READ_SLOT);
	slot = n < 0 ? 0 : mt_leaf_slot(leaf, n);
	kvt_park_loose(KVT_PARK_READ_CHECK);
	if (unlikely(mt_changed(&leaf->node, v)))
		return MT_FAST_FAILED;
	if (n < 0)
		return MT_FAST_NONE;
	if (mt_slot_is_layer(slot)) {
		mt_fast_layer(c, mt_slot_to_layer(slot), c->off + MT_SLICE);
		return MT_FAST_MORE;
	}
	c->off += min(rank, MT_SLICE);
	c->value = mt_slot_value(slot);
	kvt_value_prefetch(c->value);
	return MT_FAST_VALUE;
}

/* Read the node that was prefetched. */
static __always_inline enum mt_fast_step mt_fast_step(struct mt_fast *c, struct mt_tree *tree,
						      const struct mt_table *t)
{
	struct mt_node *node = c->node;
	u64 v;

	if (!mt_fast_enter(tree, t, node, c->above, c->above_version, &v))
		return MT_FAST_FAILED;
	if (v & MT_LEAF)
		return mt_fast_leaf(c, v);
	c->above = node;
	c->above_version = v;
	c->node = mt_inner_child(mt_inner(node), c->slice);
	return MT_FAST_MORE;
}

/* The value found, if it is the key's: after the slice, it may be another key's. */
static __always_inline struct kvt_value *mt_fast_value(const struct mt_fast *c)
{
	if (c->off == c->len || mt_same_tail(c->value, c->key, c->len, c->off))
		return c->value;
	return NULL;
}

static noinline struct kvt_value *mt_get_probe(struct mt_tree *tree, const struct kvt_key *key)
{
	struct mt_probe probe;

	mt_probe_find(&probe, tree, key);
	return probe.value;
}

/**
 * mt_get() - see struct kvt_index_ops
 * @index: the tree
 * @key: the key
 *
 * Context: under rcu_read_lock(), any context.
 *
 * Return: the value, NULL, or ERR_PTR(-EBUSY).
 */
struct kvt_value *mt_get(struct kvt_index *index, const struct kvt_key *key)
{
	struct mt_tree *tree = mt_tree(index);
	const struct mt_table *t = mt_table(tree);
	enum mt_fast_step step;
	struct mt_fast fast;

	RCU_LOCKDEP_WARN(!rcu_read_lock_held(), "kvtree: looking up outside of RCU");
	mt_fast_init(&fast, tree, t, key);
	do {
		step = mt_fast_step(&fast, tree, t);
	} while (step == MT_FAST_MORE);
	if (likely(step == MT_FAST_VALUE))
		return mt_fast_value(&fast);
	if (step == MT_FAST_NONE)
		return NULL;
	return mt_get_probe(tree, key);
}

/* One step of a lookup of a batch.  Returns MT_FAST_MORE until its value is known. */
static __always_inline enum mt_fast_step mt_batch_step(struct mt_fast *c, struct mt_tree *tree,
						       const struct mt_table *t)
{
	enum mt_fast_step step;

	if (c->value)
		return MT_FAST_VALUE;
	step = mt_fast_step(c, tree, t);
	/* It will have arrived when its key is compared. */
	if (step == MT_FAST_VALUE && c->off != c->len)
		return MT_FAST_MORE;
	return step;
}

static __always_inline struct kvt_value *mt_batch_value(struct mt_tree *tree, struct mt_fast *c,
							const struct kvt_key *key,
							enum mt_fast_step step)
{
	if (likely(step == MT_FAST_VALUE))
		return mt_fast_value(c);
	return step == MT_FAST_NONE ? NULL : mt_get_probe(tree, key);
}

/* Look up at most MT_BATCH keys, one step of each in turn (EuroSys 2012, 4.8). */
static void mt_get_some(struct mt_tree *tree, struct kvt_lookup *lookups, unsigned int nr)
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
			lookup = &lookups[c - fast];
			lookup->value = mt_batch_value(tree, c, &lookup->key, step);
			left[i] = left[--nr];
		}
	}
}

/**
 * mt_get_batch() - see struct kvt_index_ops
 * @index: the tree
 * @lookups: the keys, and their values
 * @nr: their number
 *
 * Context: under rcu_read_lock(), any context.
 */
void mt_get_batch(struct kvt_index *index, struct kvt_lookup *lookups, unsigned int nr)
{
	unsigned int some;

	RCU_LOCKDEP_WARN(!rcu_read_lock_held(), "kvtree: looking up outside of RCU");
	for (; nr; nr -= some, lookups += some) {
		some = min_t(unsigned int, nr, MT_BATCH);
		mt_get_some(mt_tree(index), lookups, some);
	}
}
