// SPDX-License-Identifier: GPL-2.0
/*
 * Prefetching for iterators that go forward: the leaves that come next, their values, and the
 * layers below them.  All of it is guessing; the iterator reads everything again itself.
 *
 * To follow the links from leaf to leaf is to wait for each.  The children of a leaf's parent are
 * known all at once.  What is found in the parent may be out of date, but it was part of the tree
 * in this RCU read section, so it may be read.
 */
#include <linux/minmax.h>

#include "base/prefetch.h"
#include "tree.h"

/* Leaves after the one that is read whose values are prefetched ... */
#define MT_AHEAD_NEAR	5
/* ... and further leaves that are prefetched without their values. */
#define MT_AHEAD_FAR	3
/* Values of a usual leaf. */
#define MT_AHEAD_USUAL	10
/* Not the place of a layer. */
#define MT_AHEAD_NONE	U32_MAX

static void mt_ahead_prefetch(const void *node, size_t size)
{
	const u8 *p = node, *end = p + size;

	for (; p < end; p += 64)
		kvt_prefetch_far(p);
}

static void mt_ahead_prefetch_leaf(struct mt_ahead *ahead, const void *leaf)
{
	mt_ahead_prefetch(leaf, ahead->leaf_bytes);
	ahead->far++;
}

/* The parent of a leaf; NULL: it has none, or is deleted. */
static struct mt_inner *mt_ahead_parent(const struct mt_leaf *leaf)
{
	unsigned long above = mt_above(&leaf->node);

	/* In a deleted node it is a link.  Pairs with mt_mark_deleted() and mt_set_parent(). */
	smp_rmb();
	if (above & MT_ROOT || mt_is_deleted(&leaf->node))
		return NULL;
	return (struct mt_inner *)above;
}

/*
 * Prefetch the next leaf, or what leads to it.  False: what leads to it has to arrive first, or
 * there is none.
 */
static bool mt_ahead_step(struct mt_ahead *ahead)
{
	struct mt_inner *parent = ahead->parent;
	struct mt_leaf *first = ahead->first;
	unsigned int nkeys;

	ahead->first = NULL;
	if (first) {
		ahead->parent = mt_ahead_parent(first);
		ahead->child = 1;
		if (ahead->parent)
			mt_ahead_prefetch(ahead->parent, sizeof(struct mt_inner));
		return false;
	}
	if (!parent)
		return false;
	nkeys = mt_inner_nkeys(parent);
	if (ahead->child <= nkeys) {
		mt_ahead_prefetch_leaf(ahead, READ_ONCE(parent->child[ahead->child++]));
		return true;
	}
	ahead->parent = NULL;
	ahead->first = mt_leaf_next(mt_leaf(READ_ONCE(parent->child[nkeys])));
	if (ahead->first)
		mt_ahead_prefetch_leaf(ahead, ahead->first);
	return false;
}

/* Prefetch leaves until there are @nr after those with prefetched values. */
static void mt_ahead_leaves(struct mt_ahead *ahead, unsigned int nr)
{
	while (ahead->far < nr && ahead->far * MT_AHEAD_USUAL < ahead->budget)
		if (!mt_ahead_step(ahead))
			return;
}

/**
 * mt_ahead_stop() - say that the iterator comes to another place in a layer
 * @ahead: of the iterator
 * @off: of the layer
 */
void mt_ahead_stop(struct mt_ahead *ahead, u32 off)
{
	if (ahead->off == off)
		ahead->off = MT_AHEAD_NONE;
}

/* Prefetch a value, or a layer's root. */
static void mt_ahead_slot(struct mt_ahead *ahead, unsigned long slot, u32 key_len)
{
	struct mt_node *root;

	if (!mt_slot_is_layer(slot)) {
		kvt_value_prefetch_far(mt_slot_value(slot), key_len);
		return;
	}
	root = mt_slot_to_layer(slot);
	mt_ahead_prefetch(root, sizeof(struct mt_leaf));
	if (ahead->nr_below < MT_AHEAD_BELOW)
		ahead->below[ahead->nr_below++] = root;
}

/* Prefetch what a leaf of a layer has. */
static void mt_ahead_slots(struct mt_ahead *ahead, const struct mt_leaf *leaf, u32 off)
{
	u64 perm = mt_leaf_perm(leaf), order = mt_perm_order(perm);
	unsigned int i, nr = min(mt_perm_size(perm), ahead->budget);

	/* Where one is a cell, the others most often are. */
	for (i = 0; i < nr; i++, order >>= 4) {
		unsigned long slot = mt_leaf_slot(leaf, order & 15);

		if (mt_slot_is_cell(slot))
			break;
		mt_ahead_slot(ahead, slot, off + MT_SLICE);
	}
	ahead->budget -= nr;
}

/* Prefetch the values of layers whose roots have been prefetched, if these are leaves. */
static void mt_ahead_below(struct mt_ahead *ahead)
{
	struct mt_node *below[MT_AHEAD_BELOW];
	unsigned int i, nr = ahead->nr_below;

	if (!nr)
		return;
	memcpy(below, ahead->below, sizeof(below));
	ahead->nr_below = 0;
	for (i = 0; i < nr; i++)
		if (mt_is_leaf(below[i]))
			mt_ahead_slots(ahead, mt_leaf(below[i]), ahead->off + MT_SLICE);
}

/* Prefetch the values of the next leaf. */
static void mt_ahead_values(struct mt_ahead *ahead)
{
	const struct mt_leaf *leaf = ahead->leaf;

	/* The iterator may be further than it seems: it begins anew. */
	if (mt_is_deleted(&leaf->node))
		mt_ahead_stop(ahead, ahead->off);

	mt_ahead_slots(ahead, leaf, ahead->off);
	ahead->near++;
	ahead->far -= !!ahead->far;
	ahead->leaf = mt_leaf_next(leaf);
}

/* How many leaves to prefetch without their values. */
static unsigned int mt_ahead_far(const struct mt_ahead *ahead)
{
	return min_t(unsigned int, ahead->window, MT_AHEAD_FAR);
}

/* Prefetch the values of as many leaves as the window has, and the leaves after them. */
static void mt_ahead_go(struct mt_ahead *ahead)
{
	unsigned int far = mt_ahead_far(ahead);

	mt_ahead_leaves(ahead, far);
	while (ahead->near < ahead->window && ahead->leaf && ahead->budget) {
		mt_ahead_values(ahead);
		mt_ahead_leaves(ahead, far);
	}
}

/* Find @leaf in its parent: the children after it are the next leaves. */
static void mt_ahead_siblings(struct mt_ahead *ahead, const struct mt_leaf *leaf)
{
	struct mt_inner *parent = mt_ahead_parent(leaf);
	unsigned int i = 0, nkeys;

	ahead->first = NULL;
	ahead->parent = parent;
	ahead->far = 0;
	if (!parent)
		return;
	nkeys = mt_inner_nkeys(parent);
	while (i <= nkeys && READ_ONCE(parent->child[i]) != &leaf->node)
		i++;
	ahead->child = i + 1;
}

/**
 * mt_ahead_start() - begin to prefetch, if that has not begun in this layer
 * @ahead: of the iterator
 * @s: where the iterator is
 *
 * Context: under rcu_read_lock(), any context.
 */
void mt_ahead_start(struct mt_ahead *ahead, const struct mt_spot *s)
{
	struct mt_leaf *next;

	if (likely(ahead->off == s->off))
		return;
	next = mt_leaf_next(s->leaf);
	/* A layer of one leaf is read on the way through another layer. */
	if (!next)
		return;
	ahead->off = s->off;
	ahead->leaf = next;
	ahead->leaf_bytes = mt_leaf_bytes(mt_has_cells(s->leaf));
	ahead->near = 0;
	/* The one that is returned now has been passed. */
	ahead->budget -= min_t(u32, ahead->budget, s->left + 1);
	mt_ahead_siblings(ahead, s->leaf);
	mt_ahead_leaves(ahead, ahead->window + mt_ahead_far(ahead));
	mt_ahead_go(ahead);
}

/**
 * mt_ahead_turn() - prefetch more
 * @ahead: of the iterator
 * @s: where the iterator is: it has just come to the next leaf of the layer
 *
 * Context: under rcu_read_lock(), any context.
 */
void mt_ahead_turn(struct mt_ahead *ahead, const struct mt_spot *s)
{
	/* Another layer came between; or the iterator has caught up, since leaves were deleted. */
	if (ahead->off != s->off || ahead->leaf == s->leaf) {
		mt_ahead_stop(ahead, s->off);
		mt_ahead_start(ahead, s);
		return;
	}
	ahead->near -= !!ahead->near;
	/* An iterator that has come so far will probably go on. */
	if (ahead->window < MT_AHEAD_NEAR)
		ahead->window++;
	/* The roots have arrived; those that are prefetched now are read at the next leaf. */
	mt_ahead_below(ahead);
	mt_ahead_go(ahead);
}

/**
 * mt_ahead_rest() - forget all nodes
 * @ahead: of the iterator
 * @want: how many pairs are wanted; 0: unknown
 */
void mt_ahead_rest(struct mt_ahead *ahead, u32 want)
{
	ahead->off = MT_AHEAD_NONE;
	ahead->nr_below = 0;
	ahead->budget = want ?: U32_MAX;
	ahead->window = want ? MT_AHEAD_NEAR : 1;
}
