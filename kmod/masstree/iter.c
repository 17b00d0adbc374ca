// SPDX-License-Identifier: GPL-2.0
/*
 * Iterators.  The position is a key (see struct kvt_iter); within one RCU read
 * section the iterator also keeps a copy of the leaf that it read last.  A leaf
 * is copied whole, between two looks at its version, and only what lies beyond
 * the position is returned: so keys come in order, each at most once, whatever
 * happens to the nodes, and a key that is there throughout is not missed.
 *
 * Forward, the next leaf is the one linked to the right; backward, it is looked
 * up: the one that covers what is smaller than this leaf's lowkey.
 */

#include <linux/err.h>
#include <linux/string.h>

#include "masstree.h"

/* After so many entries of a leaf the next has arrived. */
#define MT_ITER_AHEAD	2

/*
 * Nodes looked at in one call.  More than twice the layers that a key can have,
 * so that every call in which nothing was looked at twice gets further.
 */
#define MT_ITER_WORK	(3 * KVTREE_KEY_MAX / MT_SLICE)

static struct mt_iter *mt_iter(struct kvt_iter *iter)
{
	return container_of(iter, struct mt_iter, iter);
}

/* Where an entry of a layer stands, seen from the position, in key order. */
enum mt_order {
	MT_BEFORE,
	MT_SAME,		/* the position's key; KVT_PAST: begins with it */
	MT_BEHIND,
	MT_INSIDE,		/* a layer, and the position is in it */
};

static enum mt_order mt_order(bool before)
{
	return before ? MT_BEFORE : MT_BEHIND;
}

/* Compare a value's key with the position, behind the slice at @off. */
static enum mt_order mt_order_value(const struct kvt_iter *iter, const struct kvt_value *value,
				    u32 off)
{
	u32 at = off + MT_SLICE;
	u32 have = value->key_len - at;
	u32 want = iter->len - at;
	int diff = memcmp(kvt_value_suffix(value, at), iter->key + at, min(have, want));

	if (diff)
		return mt_order(diff < 0);
	if (have == want || (have > want && iter->bound == KVT_PAST))
		return MT_SAME;
	return mt_order(have < want);
}

/* Compare an entry with a position of which at most a slice is left at @off. */
static enum mt_order mt_order_short(const struct kvt_iter *iter, const struct mt_entry *e,
				    u64 slice, u32 left)
{
	if (iter->bound == KVT_PAST) {
		u64 mask = left ? ~0ull << (64 - 8 * left) : 0;

		if ((e->slice & mask) != (slice & mask))
			return mt_order(e->slice < slice);
		return MT_SAME;
	}
	if (e->slice != slice)
		return mt_order(e->slice < slice);
	if (e->rank != left)
		return mt_order(e->rank < left);
	return MT_SAME;
}

static enum mt_order mt_order_entry(const struct kvt_iter *iter, const struct mt_entry *e, u32 off)
{
	u64 slice = mt_slice(iter->key, iter->len, off);
	u32 left = iter->len - off;

	if (left <= MT_SLICE)
		return mt_order_short(iter, e, slice, left);
	if (e->slice != slice)
		return mt_order(e->slice < slice);
	if (e->rank != MT_RANK_LONG)
		return MT_BEFORE;
	if (mt_slot_is_layer(e->slot))
		return MT_INSIDE;
	return mt_order_value(iter, mt_slot_value(e->slot), off);
}

/* Is there something to return in the entry? */
static bool mt_iter_wants(const struct kvt_iter *iter, const struct mt_entry *e, u32 off)
{
	switch (mt_order_entry(iter, e, off)) {
	case MT_BEFORE:
		return iter->reverse;
	case MT_BEHIND:
		return !iter->reverse;
	case MT_SAME:
		return iter->reverse ? iter->bound != KVT_AFTER : iter->bound == KVT_AT;
	default:
		return true;
	}
}

/* Keep the entries beyond the position, of so many that were copied. */
static void mt_iter_select(struct mt_iter *it, unsigned int nr)
{
	const struct kvt_iter *iter = &it->iter;
	u64 slice = mt_slice(iter->key, iter->len, it->off);
	bool exact = iter->bound != KVT_PAST || iter->len - it->off >= MT_SLICE;
	struct mt_entry *e, *to = it->entry;
	bool wanted;

	for (e = it->entry; e < it->entry + nr; e++) {
		if (exact && e->slice != slice)
			wanted = iter->reverse ? e->slice < slice : e->slice > slice;
		else
			wanted = mt_iter_wants(iter, e, it->off);
		if (!wanted)
			continue;
		mt_prefetch_slot(e->slot);
		if (to != e)
			*to = *e;
		to++;
	}
	it->at = 0;
	it->nr = to - it->entry;
}

/*
 * Fetch the values of a leaf that is to come, and the leaf behind it.  What
 * they are will be read again when their turn comes.
 */
static void mt_iter_fetch(const struct mt_leaf *leaf)
{
	u64 perm = mt_leaf_perm(leaf);
	unsigned int i;

	mt_prefetch(mt_leaf_next(leaf), true);
	for (i = 0; i < mt_perm_size(perm); i++)
		mt_prefetch_slot(mt_leaf_slot(leaf, mt_perm_slot(perm, i)));
}

/* Copy a leaf, in the iterator's direction.  False: it has changed since its version was read. */
static bool mt_iter_load(struct mt_iter *it, struct mt_leaf *leaf, u64 v, u32 off)
{
	u64 perm = mt_leaf_perm(leaf);
	unsigned int nr = mt_perm_size(perm), i, n;
	struct mt_entry *e = it->entry;

	for (i = 0; i < nr; i++, e++) {
		n = mt_perm_slot(perm, it->iter.reverse ? nr - 1 - i : i);
		e->slice = READ_ONCE(leaf->slice[n]);
		e->rank = mt_leaf_rank(leaf, n);
		e->slot = mt_leaf_slot(leaf, n);
	}
	it->next = mt_leaf_next(leaf);
	it->leftmost = !READ_ONCE(leaf->prev);
	it->lowkey = READ_ONCE(leaf->lowkey);
	kvt_park_loose(KVT_PARK_SCAN_COPIED);
	if (mt_changed(&leaf->node, v))
		return false;
	it->leaf = leaf;
	it->off = off;
	if (!it->iter.reverse && it->next)
		mt_prefetch(it->next, true);
	mt_iter_select(it, nr);
	return true;
}

/* The slice whose leaf holds what comes next from the position on. */
static u64 mt_iter_target(const struct kvt_iter *iter, u32 off)
{
	u64 slice = mt_slice(iter->key, iter->len, off);
	u32 left = iter->len - off;

	if (left >= MT_SLICE && iter->bound != KVT_AFTER)
		return slice;
	if (iter->bound == KVT_PAST)
		return slice | (~0ull >> (8 * left));
	/*
	 * Backward from a key that is the smallest with its slice: what comes
	 * next has a smaller slice, and may be in another leaf.
	 */
	if (iter->reverse && iter->bound == KVT_AFTER && left <= MT_SLICE && slice &&
	    iter->key[iter->len - 1])
		return slice - 1;
	return slice;
}

/* Go to the leaf of a layer where the position is.  0, -EAGAIN or -EBUSY. */
static int mt_iter_descend(struct mt_iter *it, struct mt_probe *probe, struct mt_node *root,
			   u32 off)
{
	struct mt_leaf *leaf;
	u64 v;

	it->leaf = NULL;
	leaf = mt_probe_descend(probe, root, off, mt_iter_target(&it->iter, off), &v);
	if (IS_ERR(leaf))
		return PTR_ERR(leaf);
	if (leaf && mt_iter_load(it, leaf, v, off))
		return 0;
	return probe->budget-- ? -EAGAIN : -EBUSY;
}

static void mt_iter_set_slice(struct kvt_iter *iter, u32 off, u64 slice)
{
	put_unaligned_be64(slice, iter->key + off);
}

/* Go down into the layer of an entry, to its beginning or to the position. */
static int mt_iter_enter(struct mt_iter *it, struct mt_probe *probe, const struct mt_entry *e)
{
	struct kvt_iter *iter = &it->iter;
	u32 off = it->off + MT_SLICE;

	if (iter->len <= off || mt_slice(iter->key, iter->len, it->off) != e->slice) {
		mt_iter_set_slice(iter, it->off, e->slice);
		iter->len = off;
		iter->bound = iter->reverse ? KVT_PAST : KVT_AFTER;
	}
	return mt_iter_descend(it, probe, mt_slot_layer(e->slot), off);
}

/* The position becomes the key of an entry. */
static struct kvt_value *mt_iter_return(struct mt_iter *it, const struct mt_entry *e)
{
	struct kvt_value *value = mt_slot_value(e->slot);
	struct kvt_iter *iter = &it->iter;
	u32 at = it->off + MT_SLICE;

	mt_iter_set_slice(iter, it->off, e->slice);
	if (e->rank == MT_RANK_LONG) {
		memcpy(iter->key + at, kvt_value_suffix(value, at), value->key_len - at);
		iter->len = value->key_len;
	} else {
		iter->len = it->off + e->rank;
	}
	iter->bound = KVT_AFTER;
	return value;
}

/*
 * The layer is exhausted: go on behind it, or before it, in the one above,
 * -EAGAIN.  Above the first layer is the end, -ENOENT.
 */
static int mt_iter_ascend(struct mt_iter *it)
{
	struct kvt_iter *iter = &it->iter;

	iter->len = it->off;
	iter->bound = iter->reverse ? KVT_AT : KVT_PAST;
	it->leaf = NULL;
	if (it->off)
		return -EAGAIN;
	if (iter->reverse)
		iter->bound = KVT_AFTER;	/* the empty key has been returned */
	return -ENOENT;
}

/* Behind the last entry of a leaf, to the right. */
static int mt_iter_forward(struct mt_iter *it, struct mt_probe *probe)
{
	struct mt_leaf *next = it->next;
	u64 v;

	if (!next)
		return mt_iter_ascend(it);
	it->leaf = NULL;
	kvt_park_loose(KVT_PARK_SCAN_NEXT);
	/*
	 * A leaf that is gone or changing: look the position up again.  Pairs
	 * with mt_unlock().
	 */
	v = smp_load_acquire(&next->node.version);
	if (v & (MT_DIRTY | MT_DELETED) || !mt_iter_load(it, next, v, it->off))
		return probe->budget-- ? -EAGAIN : -EBUSY;
	return 0;
}

/* Before the first entry of a leaf, to the left. */
static int mt_iter_backward(struct mt_iter *it)
{
	struct kvt_iter *iter = &it->iter;

	if (it->leftmost || !it->lowkey)
		return mt_iter_ascend(it);
	/* The smallest key with this slice is the slice without its last zeros. */
	mt_iter_set_slice(iter, it->off, it->lowkey);
	iter->len = it->off + MT_SLICE - __builtin_ctzll(it->lowkey) / 8;
	iter->bound = KVT_AFTER;
	it->leaf = NULL;
	return -EAGAIN;
}

static struct kvt_value *mt_iter_stop(struct mt_iter *it, struct mt_probe *probe,
				      struct kvt_value *value)
{
	if (IS_ERR_OR_NULL(value))
		mt_iter_rest(&it->iter);
	probe->value = value;
	mt_probe_end(probe);
	return value;
}

/**
 * mt_iter_step() - the next value
 * @it: the iterator
 * @sweeping: stop in front of layers that the worker should look at
 *
 * Context: under rcu_read_lock(), any context.
 *
 * Return: as iter_next() of struct kvt_index_ops; ERR_PTR(-ESTALE): the
 * iterator's key leads to a thin layer.  The next step goes into it again: by
 * then its root may be another, with more below.
 */
struct kvt_value *mt_iter_step(struct mt_iter *it, bool sweeping)
{
	struct kvt_iter *iter = &it->iter;
	struct mt_tree *tree = mt_tree(iter->index);
	const struct kvt_key key = { .data = iter->key };
	struct mt_probe probe;
	unsigned int work;
	int err;

	mt_probe_init(&probe, tree, &key);
	for (work = 0; work < MT_ITER_WORK; work++) {
		struct mt_entry e;

		if (!it->leaf) {
			err = mt_iter_descend(it, &probe, mt_root(tree), 0);
		} else if (it->at == it->nr) {
			err = iter->reverse ? mt_iter_backward(it) : mt_iter_forward(it, &probe);
		} else {
			e = it->entry[it->at++];
			if (!mt_slot_is_layer(e.slot))
				return mt_iter_stop(it, &probe, mt_iter_return(it, &e));
			err = mt_iter_enter(it, &probe, &e);
			if (sweeping && !err && mt_layer_is_thin(mt_slot_layer(e.slot))) {
				iter->len = it->off;
				iter->bound = KVT_AFTER;
				err = -ESTALE;
			}
		}
		if (err == -ENOENT)
			return mt_iter_stop(it, &probe, NULL);
		if (err && err != -EAGAIN)
			return mt_iter_stop(it, &probe, ERR_PTR(err));
	}
	/* Retries may have taken all of the work: -EAGAIN promises progress. */
	return mt_iter_stop(it, &probe,
			    ERR_PTR(probe.budget < MT_READ_BUDGET ? -EBUSY : -EAGAIN));
}

/* The first bytes of an entry's key. */
static u64 mt_iter_head(const struct mt_iter *it, const struct mt_entry *e)
{
	return it->off ? get_unaligned_be64(it->iter.key) : e->slice;
}

/* Deliver what comes next in the leaf, up to a layer. */
static unsigned int mt_iter_run(struct mt_iter *it, struct kvt_pair *pairs, unsigned int max)
{
	unsigned int nr = 0, end = it->nr;
	const struct mt_entry *e;

	if (it->at < MT_ITER_AHEAD)
		end = min_t(unsigned int, end, MT_ITER_AHEAD);
	max = min(max, end - it->at);
	for (e = &it->entry[it->at]; nr < max && !mt_slot_is_layer(e->slot); e++, nr++) {
		pairs[nr].value = mt_slot_value(e->slot);
		pairs[nr].head = mt_iter_head(it, e);
	}
	if (!nr)
		return 0;
	mt_iter_return(it, e - 1);
	it->at += nr;
	return nr;
}

/**
 * mt_iter_next() - see struct kvt_index_ops
 * @iter: the iterator
 * @pairs: to be filled
 * @max: how many at most
 *
 * Context: under rcu_read_lock(), any context.
 *
 * Return: how many, 0, -EBUSY or -EAGAIN.
 */
int mt_iter_next(struct kvt_iter *iter, struct kvt_pair *pairs, unsigned int max)
{
	struct mt_iter *it = mt_iter(iter);
	struct kvt_value *value;
	unsigned int nr;

	/* Nearly always there is another in the leaf. */
	if (likely(it->leaf && it->at < it->nr)) {
		if (it->at == MT_ITER_AHEAD && !iter->reverse && it->next)
			mt_iter_fetch(it->next);
		nr = mt_iter_run(it, pairs, max);
		if (likely(nr))
			return nr;
	}
	value = mt_iter_step(it, false);
	if (IS_ERR_OR_NULL(value))
		return PTR_ERR(value);
	pairs->value = value;
	pairs->head = mt_slice(iter->key, iter->len, 0);
	return 1;
}

/**
 * mt_iter_rest() - see struct kvt_index_ops
 * @iter: the iterator
 */
void mt_iter_rest(struct kvt_iter *iter)
{
	mt_iter(iter)->leaf = NULL;
}
