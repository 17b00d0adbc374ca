// SPDX-License-Identifier: GPL-2.0
/*
 * The longest key that is a prefix of another key.
 *
 * The search follows the key's slices down through the layers.  A prefix that ends in a
 * layer has the key's slice there, with zeros after its end.  Such slices are not greater
 * than the key's, and longer prefixes have greater ones.  So the leaf that covers the key's
 * slice usually covers those of all prefixes of interest.  Shorter ones may be in leaves to
 * the left, for which the search descends the same layer again, at most once for each byte
 * of the slice.  In the first layer, the largest, it does so only if there is nothing below,
 * and only for lengths that a key has ever had.
 *
 * In a layer the search looks for longer prefixes first, and a prefix in a lower layer replaces
 * one from above.  So it can miss a prefix that is present throughout only in favour of a
 * longer one.
 */
#include <linux/err.h>
#include <linux/processor.h>

#include "table.h"
#include "tree.h"

struct mt_prefix {
	struct mt_probe probe;
	struct mt_node *root;		/* of the next layer; NULL: none is left */
	u32 off;			/* of that layer */
	u32 left;			/* bytes of key from off on */
	u64 slice;			/* at off */
	u32 later;			/* in the first layer: length of prefixes yet to search */
	struct kvt_value *best;		/* so far */
	struct kvt_cell *cell;		/* where that is if it has no block */
};

/* What a leaf contributes. */
struct mt_prefix_leaf {
	unsigned long within;		/* slot of the longest that ends in the slice, or 0 */
	u64 data;			/* of that, if it is a cell */
	u32 rank;			/* of that */
	unsigned long beyond;		/* slot of keys that continue after the slice, or 0 */
	u32 rest;			/* other leaves have prefixes up to this length */
};

/* The first bytes of a slice, at least one. */
static u64 mt_slice_head(u64 slice, u32 bytes)
{
	return slice & ~0ull << (64 - 8 * bytes);
}

/*
 * Prefixes longer than the result have slices of at least @lowkey: they are longer than the
 * common prefix of the two, or at least as long as @lowkey without its trailing zeros.
 */
static u32 mt_slices_below(u64 slice, u64 lowkey)
{
	u32 common = slice == lowkey ? MT_SLICE : __builtin_clzll(slice ^ lowkey) / 8;

	return lowkey ? min(common, MT_SLICE - 1 - __builtin_ctzll(lowkey) / 8) : 0;
}

/* The leaf of a layer that covers a slice, or NULL if a node on the way is changing. */
static __always_inline struct mt_leaf *mt_prefix_descend(const struct mt_prefix *p, u64 slice,
							 u64 *version)
{
	const struct mt_table *t = p->off ? NULL : mt_table(p->probe.tree);
	struct mt_node *node, *above = NULL;
	u64 above_version;		/* or, without one, what the table says of node */

	node = mt_table_begin(t, p->root, slice, &above_version);
	while (mt_fast_enter(p->probe.tree, t, node, above, above_version, version)) {
		if (*version & MT_LEAF)
			return mt_leaf(node);
		above = node;
		above_version = *version;
		node = mt_inner_child(mt_inner(node), slice,
				      mt_may_have_cells(p->probe.tree, p->off));
	}
	return NULL;
}

/*
 * Search a leaf for prefixes with at most @most bytes in this slice, and for longer ones if
 * @most is a whole slice and the key continues.  Returns false if the leaf has changed.
 */
static __always_inline bool mt_prefix_read(const struct mt_prefix *p, const struct mt_leaf *leaf,
					   u64 v, u32 most, struct mt_prefix_leaf *seen)
{
	bool beyond = most == MT_SLICE && p->left > MT_SLICE;
	u64 diff, slice = p->slice, perm = mt_leaf_perm(leaf), order = mt_perm_order(perm);
	u32 rank, shift = 64 - 8;	/* a longer prefix has the same bits from here up */
	unsigned int n, at = 0, left = mt_perm_size(perm);
	bool changed;

	*seen = (struct mt_prefix_leaf) { };
	/* Most leaves of a chain of layers have one key or two. */
	for (; left; order >>= 4, left--) {
		n = order & 15;
		diff = READ_ONCE(leaf->slice[n]) ^ slice;
		if (diff >> shift)
			continue;
		rank = mt_leaf_rank(leaf, n);
		if (rank == MT_RANK_LONG) {
			if (beyond && !diff)
				seen->beyond = mt_leaf_slot(leaf, n);
		} else if (rank <= most && 64 - 8 * rank <= shift &&
			   !(diff >> (64 - 8 * rank))) {
			at = n;
			seen->within = mt_leaf_slot(leaf, n);
			seen->data = mt_leaf_data(leaf, n, seen->within);
			seen->rank = rank;
			/* Longer than eight bytes is only a key with the same slice. */
			shift = rank < MT_SLICE ? 64 - 8 - 8 * rank : 0;
		}
	}
	seen->rest = READ_ONCE(leaf->prev) ?
		     mt_slices_below(slice, READ_ONCE(leaf->lowkey)) : 0;
	changed = mt_cell_changed(leaf, at, seen->within);
	kvt_park_loose(KVT_PARK_READ_CHECK);
	return likely(!changed && !mt_changed(&leaf->node, v));
}

/* The value in a slot of a key that continues after the slice, if that key is a prefix. */
static struct kvt_value *mt_prefix_beyond(const struct mt_prefix *p, unsigned long slot)
{
	struct kvt_value *value = mt_slot_value(slot);
	u32 at = p->off + MT_SLICE;

	if (value->key_len > p->probe.len ||
	    memcmp(kvt_value_suffix(value, at), p->probe.key + at, value->key_len - at))
		return NULL;
	return value;
}

/* Take a leaf's longest prefix, and the layer below.  Returns whether the leaf has a prefix. */
static bool mt_prefix_take(struct mt_prefix *p, const struct mt_prefix_leaf *seen,
			   struct mt_node **below)
{
	struct kvt_value *value = NULL;

	if (mt_slot_is_layer(seen->beyond)) {
		*below = mt_slot_to_layer(seen->beyond);
		mt_prefetch(*below, true, false);
	} else if (seen->beyond) {
		value = mt_prefix_beyond(p, seen->beyond);
	}
	if (!value)
		value = mt_slot_take(seen->within, seen->data, p->off + seen->rank, p->cell);
	if (value)
		p->best = value;
	return value;
}

/* The length, at most @most, of the next prefix that may be in the layer; 0: there is none. */
static u32 mt_prefix_next(const struct mt_prefix *p, u32 most)
{
	unsigned long lens = p->off ? ~0ul : READ_ONCE(p->probe.tree->short_lens);

	lens &= GENMASK(most, 0) & ~BIT(0);
	return lens ? __fls(lens) : 0;
}

/*
 * Search a layer for prefixes of at most @most bytes in its slice, and find the layer
 * below.  Returns 0; -EAGAIN: start again at the root of the tree; or -EBUSY.
 */
static int mt_prefix_layer(struct mt_prefix *p, u32 most)
{
	struct mt_prefix_leaf seen;
	struct mt_node *below = NULL;
	struct mt_leaf *leaf;
	u64 v, slice;

	while (most) {
		slice = mt_slice_head(p->slice, most);
		leaf = mt_prefix_descend(p, slice, &v);
		if (unlikely(!leaf))
			leaf = mt_probe_descend(&p->probe, p->root, p->off, slice, &v);
		if (IS_ERR_OR_NULL(leaf))
			return leaf ? PTR_ERR(leaf) : -EAGAIN;
		if (unlikely(!mt_prefix_read(p, leaf, v, most, &seen))) {
			p->probe.retries++;
			if (seen.within == MT_SLOT_BUSY && mt_on_top())
				p->probe.budget = 0;
			if (!p->probe.budget)
				return -EBUSY;
			p->probe.budget--;
			cpu_relax();
			continue;
		}
		if (mt_prefix_take(p, &seen, &below))
			break;
		/* It decreases, whatever was read. */
		most = mt_prefix_next(p, min(seen.rest, most - 1));
		if (!p->off && below) {
			p->later = most;
			break;
		}
	}
	p->root = below;
	return 0;
}

static void mt_prefix_enter(struct mt_prefix *p, u32 off)
{
	p->off = off;
	p->slice = mt_slice(p->probe.key, p->probe.len, off);
	p->left = p->probe.len - off;
}

/* Search all layers once.  Returns 0, -EAGAIN or -EBUSY. */
static int mt_prefix_once(struct mt_prefix *p)
{
	u32 off = 0;
	int err;

	p->best = NULL;
	p->later = 0;
	p->root = mt_root(p->probe.tree);
	do {
		mt_prefix_enter(p, off);
		err = mt_prefix_layer(p, min(p->left, MT_SLICE));
		off += MT_SLICE;
	} while (!err && p->root);
	if (err || p->best || !p->later)
		return err;
	p->root = mt_root(p->probe.tree);
	mt_prefix_enter(p, 0);
	return mt_prefix_layer(p, p->later);
}

/**
 * mt_get_prefix() - see struct kvt_index_ops
 * @index: the tree
 * @key: the key
 * @cell: for a value without a block
 *
 * Context: under rcu_read_lock(), any context.
 *
 * Return: the value, NULL, or ERR_PTR(-EBUSY).
 */
struct kvt_value *mt_get_prefix(struct kvt_index *index, const struct kvt_key *key,
				struct kvt_cell *cell)
{
	const struct kvt_key empty = { .data = key->data };
	struct mt_tree *tree = mt_tree(index);
	struct mt_prefix p;
	int err;

	mt_probe_prepare(&p.probe, tree, key);
	p.cell = cell;
	do {
		err = mt_prefix_once(&p);
	} while (err == -EAGAIN);
	p.probe.value = err ? ERR_PTR(err) : p.best;
	mt_probe_end(&p.probe);
	/* The empty key is the first of all keys, so it is in the first leaf. */
	if (!p.probe.value && READ_ONCE(tree->short_lens) & BIT(0))
		return mt_get(index, &empty, cell);
	return p.probe.value;
}
