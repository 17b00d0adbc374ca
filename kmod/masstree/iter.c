// SPDX-License-Identifier: GPL-2.0
/*
 * Iterators.  The position is a key (see struct kvt_iter).  Within one RCU read
 * section the iterator also keeps a copy of the leaf that it read last.  It copies
 * the whole leaf between two reads of its version, and returns only keys beyond the
 * position.  So keys come in order, each at most once, whatever happens to the
 * nodes, and a key that is there throughout is not missed.
 *
 * Before the iterator returns an entry of the copy, it compares it with the leaf.
 * The slot reveals another value, the permutation keys that came or went, and the
 * version anything else.  If something changed, it copies the leaf again, from the
 * position on.
 *
 * Forward, the next leaf is the one linked to the right.  Backward, the iterator
 * looks up the leaf that covers keys below this leaf's lowkey.
 *
 * On the way down through layers, the iterator notes in which of them something is
 * left beyond the path.  After the end of a layer it continues in the deepest of
 * these: in the copy of its leaf, if that still exists, or from the root of the
 * tree.  So it visits no layer needlessly, and returns only to layers whose keys
 * are as long as the path is deep.
 */

#include <linux/err.h>
#include <linux/string.h>

#include "tree.h"

/* After this many entries of a leaf, the next leaf has arrived in the cache. */
#define MT_ITER_AHEAD	2
#define MT_ITER_NEVER	U8_MAX

/*
 * Nodes to read in one call.  More than twice the layers that a key can have, so that
 * every call that reads nothing twice makes progress.
 */
#define MT_ITER_WORK	(3 * MT_LAYERS)

/* How often one call may restart and still say that another may get further. */
#define MT_ITER_RESTARTS	16

static struct mt_iter *mt_iter(struct kvt_iter *iter)
{
	return container_of(iter, struct mt_iter, iter);
}

/* Where an entry of a layer is relative to the position, in key order. */
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

/* Compare a value's key with the position after the slice at @off. */
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

/* Compare an entry with a position that has at most a slice left at @off. */
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

/* Whether the entry has something to return. */
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

/* Find the first entry beyond the position, and prefetch what it and later ones hold. */
static void mt_copy_begin(struct mt_copy *c, const struct kvt_iter *iter)
{
	u64 slice = mt_slice(iter->key, iter->len, c->off);
	bool exact = iter->bound != KVT_PAST || iter->len - c->off >= MT_SLICE;
	const struct mt_entry *e = c->entry, *end = e + c->nr;
	bool wanted = false;

	for (; e < end && !wanted; e += !wanted) {
		if (exact && e->slice != slice)
			wanted = iter->reverse ? e->slice < slice : e->slice > slice;
		else
			wanted = mt_iter_wants(iter, e, c->off);
	}
	c->at = e - c->entry;
	c->fetch = c->next && !iter->reverse ? c->at + MT_ITER_AHEAD : MT_ITER_NEVER;
	for (; e < end; e++)
		mt_prefetch_slot(e->slot);
}

/*
 * Prefetch the values of a coming leaf, and the leaf after it.  They will be read again when
 * their turn comes.
 */
static void mt_iter_fetch(const struct mt_leaf *leaf)
{
	u64 perm = mt_leaf_perm(leaf);
	unsigned int i;

	mt_prefetch(mt_leaf_next(leaf), true);
	for (i = 0; i < mt_perm_size(perm); i++)
		mt_prefetch_slot(mt_leaf_slot(leaf, mt_perm_slot(perm, i)));
}

/*
 * Where the copy of a layer's leaf is, or was, since another layer's may have replaced it.
 */
static struct mt_copy *mt_iter_copy(struct mt_iter *it, u32 off)
{
	return &it->copy[off / MT_SLICE % MT_ITER_COPIES];
}

/* The first so many slot numbers, the last one lowest. */
static u64 mt_order_reverse(u64 order, unsigned int nr)
{
	u64 to = 0;

	for (; nr; nr--, order >>= 4)
		to = to << 4 | (order & 15);
	return to;
}

/* Copy a leaf, in the iterator's direction.  False: it has changed since its version was read. */
static bool mt_iter_load(struct mt_iter *it, struct mt_leaf *leaf, u64 v, u32 off)
{
	u64 perm = mt_leaf_perm(leaf), order = mt_perm_order(perm);
	struct mt_copy *c = mt_iter_copy(it, off);
	struct mt_entry *e = c->entry;
	unsigned int n;

	it->now = NULL;
	c->nr = mt_perm_size(perm);
	if (it->iter.reverse)
		order = mt_order_reverse(order, c->nr);
	c->leaf = leaf;
	c->version = v;
	c->perm = perm;
	c->order = order;
	c->off = off;
	for (; e < c->entry + c->nr; e++, order >>= 4) {
		n = order & 15;
		e->slice = READ_ONCE(leaf->slice[n]);
		e->rank = mt_leaf_rank(leaf, n);
		e->slot = mt_leaf_slot(leaf, n);
	}
	c->next = mt_leaf_next(leaf);
	c->leftmost = !READ_ONCE(leaf->prev);
	c->lowkey = READ_ONCE(leaf->lowkey);
	kvt_park_loose(KVT_PARK_SCAN_COPIED);
	if (mt_changed(&leaf->node, v))
		return false;
	if (!it->iter.reverse && c->next)
		mt_prefetch(c->next, true);
	mt_copy_begin(c, &it->iter);
	it->now = c;
	return true;
}

/* The current content of an entry's slot. */
static unsigned long mt_copy_slot(const struct mt_copy *c, const struct mt_entry *e)
{
	return mt_leaf_slot(c->leaf, (c->order >> 4 * (e - c->entry)) & 15);
}

/* The slice whose leaf has the next key from the position on. */
static u64 mt_iter_target(const struct kvt_iter *iter, u32 off)
{
	u64 slice = mt_slice(iter->key, iter->len, off);
	u32 left = iter->len - off;

	if (left >= MT_SLICE && iter->bound != KVT_AFTER)
		return slice;
	if (iter->bound == KVT_PAST)
		return slice | (~0ull >> (8 * left));
	/*
	 * Backward from the smallest key with its slice, the next key has a
	 * smaller slice, and may be in another leaf.
	 */
	if (iter->reverse && iter->bound == KVT_AFTER && left <= MT_SLICE && slice &&
	    iter->key[iter->len - 1])
		return slice - 1;
	return slice;
}

/* What was read has changed: start at the root, -EAGAIN, or give up, -EBUSY. */
static int mt_iter_restart(struct mt_iter *it, struct mt_probe *probe)
{
	it->now = NULL;
	probe->restarts++;
	return probe->budget-- ? -EAGAIN : -EBUSY;
}

/* Go to the leaf of a layer that has the position.  0, -EAGAIN or -EBUSY. */
static int mt_iter_descend(struct mt_iter *it, struct mt_probe *probe, struct mt_node *root,
			   u32 off)
{
	struct mt_leaf *leaf;
	u64 v;

	it->now = NULL;
	leaf = mt_probe_descend(probe, root, off, mt_iter_target(&it->iter, off), &v);
	if (IS_ERR_OR_NULL(leaf))
		return leaf ? PTR_ERR(leaf) : -EAGAIN;
	return mt_iter_load(it, leaf, v, off) ? 0 : mt_iter_restart(it, probe);
}

/*
 * The leaf has changed since it was copied.  Copy it again if it still covers everything
 * that it had beyond the position.  0, -EAGAIN or -EBUSY.
 */
static int mt_iter_reload(struct mt_iter *it, struct mt_probe *probe)
{
	struct mt_copy *c = it->now;
	struct mt_leaf *leaf = c->leaf;
	u64 v;

	/* Pairs with mt_unlock(). */
	v = smp_load_acquire(&leaf->node.version);
	if (v & (MT_DIRTY | MT_DELETED) || (v ^ c->version) >= MT_VSPLIT ||
	    !mt_iter_load(it, leaf, v, c->off))
		return mt_iter_restart(it, probe);
	probe->retries++;
	return probe->budget-- ? 0 : -EBUSY;
}

static void mt_iter_set_slice(struct kvt_iter *iter, u32 off, u64 slice)
{
	put_unaligned_be64(slice, iter->key + off);
}

/* Whether something is left in a layer after the copied entries that were returned. */
static bool mt_copy_has_more(const struct mt_copy *c, bool reverse)
{
	return c->at < c->nr || (reverse ? !c->leftmost && c->lowkey : !!c->next);
}

/* Descend into the layer of an entry, to its beginning or to the position. */
static int mt_iter_enter(struct mt_iter *it, struct mt_probe *probe, const struct mt_entry *e)
{
	struct kvt_iter *iter = &it->iter;
	struct mt_copy *c = it->now;
	u32 off = c->off + MT_SLICE;

	/* What was put in the first layer meanwhile is a look away. */
	__assign_bit(c->off / MT_SLICE, it->more, !c->off || mt_copy_has_more(c, iter->reverse));
	if (iter->len <= off || mt_slice(iter->key, iter->len, c->off) != e->slice) {
		mt_iter_set_slice(iter, c->off, e->slice);
		iter->len = off;
		iter->bound = iter->reverse ? KVT_PAST : KVT_AFTER;
	}
	return mt_iter_descend(it, probe, mt_slot_to_layer(e->slot), off);
}

/*
 * The layer is exhausted: continue in the deepest layer above it that has something left
 * beyond the path to this one, -EAGAIN.  Above the first layer is the end, -ENOENT.
 */
static int mt_iter_leave(struct mt_iter *it)
{
	u32 up, layer = it->now->off / MT_SLICE;
	struct kvt_iter *iter = &it->iter;
	struct mt_copy *c;

	it->now = NULL;
	if (!layer) {
		iter->len = 0;
		/* The empty key has been returned. */
		iter->bound = iter->reverse ? KVT_AFTER : KVT_PAST;
		return -ENOENT;
	}
	up = find_last_bit(it->more, layer) * MT_SLICE;
	iter->len = up + MT_SLICE;
	iter->bound = iter->reverse ? KVT_AT : KVT_PAST;
	c = mt_iter_copy(it, up);
	if (c->off == up)
		it->now = c;
	return -EAGAIN;
}

/* After the last entry of a leaf, go right. */
static int mt_iter_forward(struct mt_iter *it, struct mt_probe *probe)
{
	struct mt_copy *c = it->now;
	struct mt_leaf *next = c->next;
	u64 v;

	if (!next)
		return mt_iter_leave(it);
	kvt_park_loose(KVT_PARK_SCAN_NEXT);
	/*
	 * The leaf is gone or changing: look up the position again.  Pairs with
	 * mt_unlock().
	 */
	v = smp_load_acquire(&next->node.version);
	if (v & (MT_DIRTY | MT_DELETED) || !mt_iter_load(it, next, v, c->off))
		return mt_iter_restart(it, probe);
	return 0;
}

/* Before the first entry of a leaf, go left. */
static int mt_iter_backward(struct mt_iter *it)
{
	struct kvt_iter *iter = &it->iter;
	struct mt_copy *c = it->now;

	if (!mt_copy_has_more(c, true))
		return mt_iter_leave(it);
	/* The smallest key with this slice is the slice without trailing zeros. */
	mt_iter_set_slice(iter, c->off, c->lowkey);
	iter->len = c->off + MT_SLICE - __builtin_ctzll(c->lowkey) / 8;
	iter->bound = KVT_AFTER;
	it->now = NULL;
	return -EAGAIN;
}

/* The position becomes the key of an entry. */
static struct kvt_value *mt_iter_return(struct mt_iter *it, const struct mt_entry *e)
{
	struct kvt_value *value = mt_slot_value(e->slot);
	struct kvt_iter *iter = &it->iter;
	u32 off = it->now->off, at = off + MT_SLICE;

	mt_iter_set_slice(iter, off, e->slice);
	if (e->rank == MT_RANK_LONG) {
		memcpy(iter->key + at, kvt_value_suffix(value, at), value->key_len - at);
		iter->len = value->key_len;
	} else {
		iter->len = off + e->rank;
	}
	iter->bound = KVT_AFTER;
	return value;
}

/*
 * Check the next entry, or go to where it is.  1: it is the one before @it->now->at, and has
 * the current content of its slot; 0: call again; -EAGAIN: the same, from the root; -ENOENT:
 * there is none; -EBUSY.
 */
static int mt_iter_look(struct mt_iter *it, struct mt_probe *probe)
{
	struct kvt_iter *iter = &it->iter;
	struct mt_copy *c = it->now;
	unsigned long slot = 0;
	struct mt_entry *e;

	if (!c)
		return mt_iter_descend(it, probe, mt_root(probe->tree), 0);
	e = &c->entry[c->at];
	if (c->at < c->nr)
		slot = mt_copy_slot(c, e);
	if (READ_ONCE(c->leaf->perm) != c->perm || mt_changed(&c->leaf->node, c->version))
		return mt_iter_reload(it, probe);
	if (c->at == c->nr)
		return iter->reverse ? mt_iter_backward(it) : mt_iter_forward(it, probe);
	c->at++;
	if (likely(slot == e->slot))
		return 1;
	/* A layer may have come or gone, and left a key here that is before the position. */
	e->slot = slot;
	return mt_iter_wants(iter, e, c->off);
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
 * @sweeping: stop before layers that the worker should check
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
	const struct kvt_key key = { .data = iter->key };
	const struct mt_entry *e;
	struct kvt_value *value;
	struct mt_probe probe;
	unsigned int work;
	int ret;

	mt_probe_init(&probe, mt_tree(iter->index), &key);
	for (work = 0; work < MT_ITER_WORK; work++) {
		ret = mt_iter_look(it, &probe);
		if (ret == 1) {
			e = &it->now->entry[it->now->at - 1];
			if (!mt_slot_is_layer(e->slot)) {
				value = mt_iter_return(it, e);
				return mt_iter_stop(it, &probe, value);
			}
			ret = mt_iter_enter(it, &probe, e);
			if (sweeping && !ret && mt_layer_is_thin(mt_slot_to_layer(e->slot))) {
				iter->len = it->now->off;
				iter->bound = KVT_AFTER;
				ret = -ESTALE;
			}
		}
		if (ret == -ENOENT)
			return mt_iter_stop(it, &probe, NULL);
		if (ret && ret != -EAGAIN)
			return mt_iter_stop(it, &probe, ERR_PTR(ret));
	}
	/* A few changes came in between; or there is one that does not end while it is read. */
	return mt_iter_stop(it, &probe,
			    ERR_PTR(probe.restarts > MT_ITER_RESTARTS ? -EBUSY : -EAGAIN));
}

/* Deliver what comes next in the leaf, up to a layer, or to what has changed. */
static unsigned int mt_iter_run(struct mt_iter *it, struct kvt_pair *pairs, unsigned int max)
{
	struct mt_copy *c = it->now;
	const struct mt_entry *e = &c->entry[c->at];
	u64 head = c->off ? get_unaligned_be64(it->iter.key) : 0;
	unsigned int nr = 0;

	if (c->at >= c->fetch) {
		mt_iter_fetch(c->next);
		c->fetch = MT_ITER_NEVER;
	}
	max = min_t(unsigned int, max, min(c->nr, c->fetch) - c->at);
	/* The slots are read behind it. */
	if (mt_leaf_perm(c->leaf) != c->perm)
		return 0;
	for (; nr < max; e++, nr++) {
		if (mt_slot_is_layer(e->slot) || mt_copy_slot(c, e) != e->slot)
			break;
		pairs[nr].value = mt_slot_value(e->slot);
		pairs[nr].head = c->off ? head : e->slice;
	}
	if (!nr || mt_changed(&c->leaf->node, c->version))
		return 0;
	mt_iter_return(it, e - 1);
	c->at += nr;
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
	struct mt_copy *c = it->now;
	struct kvt_value *value;
	unsigned int nr;

	/* The leaf almost always has another. */
	if (likely(c && c->at < c->nr)) {
		nr = mt_iter_run(it, pairs, max);
		if (likely(nr))
			return nr;
	}
	value = mt_iter_step(it, false);
	if (IS_ERR_OR_NULL(value))
		return PTR_ERR(value);
	pairs->value = value;
	pairs->head = mt_slice(iter->key, iter->len, 0);
	if (max == 1 || it->now->at == it->now->nr)
		return 1;
	return 1 + mt_iter_run(it, pairs + 1, max - 1);
}

/**
 * mt_iter_rest() - see struct kvt_index_ops
 * @iter: the iterator
 */
void mt_iter_rest(struct kvt_iter *iter)
{
	mt_iter(iter)->now = NULL;
}
