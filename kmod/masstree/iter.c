// SPDX-License-Identifier: GPL-2.0
/*
 * Iterators.  The position is a key (see struct kvt_iter).  Within one RCU read
 * section the iterator also keeps its spot: the leaf that it read last, that leaf's
 * version and permutation, and which of the slots in the permutation are left.  It
 * returns only keys beyond the position.  So it returns keys in order, each at most once,
 * whatever happens to the nodes, and misses no key that is present throughout.
 *
 * Entries are read from the leaf itself.  While its version is the same, a slot that was
 * in the permutation keeps its slice and its rank: a writer that gives it to another key
 * marks the leaf dirty first.  So the iterator checks the permutation, before it reads several
 * entries or after it has read one, and then the version.  The permutation shows which keys
 * were inserted or removed, the version any other change.  After a change, the iterator
 * searches for its spot again from the position.
 *
 * The slot of a long key may change at any time from a value to a layer and back to another
 * value.  All of its keys are beyond the position, unless the position continues after the same
 * slice.  Then this entry is the next one, and its key is compared when it is returned.
 *
 * Forward, the next leaf is the one linked to the right.  Backward, the iterator
 * looks up the leaf that covers keys below this leaf's lowkey.
 *
 * While it descends, the iterator notes which layers have entries left beyond the path.
 * At the end of a layer it continues in the deepest of these: at its spot there, if that
 * is still kept, or from the root of the tree.  So it visits no layer needlessly, and
 * descends only as deep as the keys there are long.
 */

#include <linux/err.h>
#include <linux/processor.h>
#include <linux/string.h>

#include "tree.h"

/*
 * Nodes to read in one call.  More than twice the layers that a key can have, so that
 * every call that reads nothing twice makes progress.
 */
#define MT_ITER_WORK	(3 * MT_LAYERS)

/* A call that restarts more often returns -EBUSY, not -EAGAIN. */
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

/* Where the spot of a layer is kept, unless that of another layer has replaced it. */
static struct mt_spot *mt_iter_spot(struct mt_iter *it, u32 off)
{
	return &it->spot[off / MT_SLICE % MT_ITER_SPOTS];
}

/* The first @nr slot numbers, the last one lowest. */
static u64 mt_order_reverse(u64 order, unsigned int nr)
{
	u64 to = 0;

	for (; nr; nr--, order >>= 4)
		to = to << 4 | (order & 15);
	return to;
}

/* Whether keys were inserted or removed, or the leaf has changed otherwise. */
static bool mt_spot_changed(const struct mt_spot *s)
{
	return READ_ONCE(s->leaf->perm) != s->perm || mt_changed(&s->leaf->node, s->version);
}

static struct mt_entry mt_spot_entry(const struct mt_spot *s)
{
	unsigned int n = s->order & 15;
	unsigned long slot = mt_leaf_slot(s->leaf, n);

	return (struct mt_entry) {
		.slice = READ_ONCE(s->leaf->slice[n]),
		.slot = slot,
		.data = mt_leaf_data(s->leaf, n, slot),
		.rank = mt_leaf_rank(s->leaf, n),
	};
}

static void mt_spot_pass(struct mt_spot *s, unsigned int nr)
{
	s->left -= nr;
	/* Avoid a shift by 64 bits. */
	s->order = s->left ? s->order >> 4 * nr : 0;
}

/* Skip entries that are not beyond the position.  Returns false if the leaf has changed. */
static bool mt_spot_skip(struct mt_spot *s, const struct kvt_iter *iter)
{
	u64 slice = mt_slice(iter->key, iter->len, s->off), entry_slice;
	bool exact = iter->bound != KVT_PAST || iter->len - s->off >= MT_SLICE;
	struct mt_entry e;
	bool below;

	for (; s->left; mt_spot_pass(s, 1)) {
		entry_slice = READ_ONCE(s->leaf->slice[s->order & 15]);
		below = entry_slice < slice;
		if (exact && entry_slice != slice) {
			if (below == iter->reverse)
				break;
			continue;
		}
		e = mt_spot_entry(s);
		/* Otherwise all that was read of the entry is of one key, and its value as well. */
		if (mt_changed(&s->leaf->node, s->version))
			return false;
		if (mt_iter_wants(iter, &e, s->off)) {
			s->compare = e.rank == MT_RANK_LONG;
			break;
		}
	}
	return true;
}

static void mt_spot_prefetch(const struct mt_spot *s)
{
	u64 order = s->order;
	unsigned int i;

	for (i = 0; i < s->left; i++, order >>= 4)
		mt_prefetch_slot(mt_leaf_slot(s->leaf, order & 15), s->off + MT_SLICE);
}

/* Search a leaf for the position.  Returns false if the leaf has changed since version @v. */
static bool mt_iter_load(struct mt_iter *it, struct mt_leaf *leaf, u64 v, u32 off)
{
	struct mt_spot *s = mt_iter_spot(it, off);
	bool same;

	it->now = NULL;
	s->leaf = leaf;
	s->version = v;
	s->perm = mt_leaf_perm(leaf);
	s->order = mt_perm_order(s->perm);
	s->off = off;
	s->left = mt_perm_size(s->perm);
	s->compare = false;
	if (it->iter.reverse)
		s->order = mt_order_reverse(s->order, s->left);
	same = mt_spot_skip(s, &it->iter);
	kvt_park_loose(KVT_PARK_SCAN_PLACED);
	if (!same || mt_changed(&leaf->node, v))
		return false;
	it->now = s;
	return true;
}

/* The slice to descend to: the leaf that covers it has the next key from the position on. */
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

/* What was read has changed.  Returns -EAGAIN: start at the root; or -EBUSY: give up. */
static int mt_iter_restart(struct mt_iter *it, struct mt_probe *probe)
{
	it->now = NULL;
	probe->restarts++;
	return probe->budget-- ? -EAGAIN : -EBUSY;
}

/* Descend to the leaf of a layer that covers the position.  Returns 0, -EAGAIN or -EBUSY. */
static int mt_iter_descend(struct mt_iter *it, struct mt_probe *probe, struct mt_node *root,
			   u32 off)
{
	struct mt_leaf *leaf;
	u64 v;

	it->now = NULL;
	leaf = mt_probe_descend(probe, root, off, mt_iter_target(&it->iter, off), &v);
	if (IS_ERR_OR_NULL(leaf))
		return leaf ? PTR_ERR(leaf) : -EAGAIN;
	if (!mt_iter_load(it, leaf, v, off))
		return mt_iter_restart(it, probe);
	mt_spot_prefetch(it->now);
	mt_ahead_stop(&it->ahead, off);
	return 0;
}

/*
 * The leaf has changed.  If it still covers all that it covered beyond the position, search it
 * for the position again.  Returns 0, -EAGAIN or -EBUSY.
 */
static int mt_iter_reload(struct mt_iter *it, struct mt_probe *probe)
{
	struct mt_spot *s = it->now;
	struct mt_leaf *leaf = s->leaf;
	u64 v;

	/* Pairs with mt_unlock(). */
	v = smp_load_acquire(&leaf->node.version);
	if (v & (MT_DIRTY | MT_DELETED) || (v ^ s->version) >= MT_VSPLIT ||
	    !mt_iter_load(it, leaf, v, s->off))
		return mt_iter_restart(it, probe);
	probe->retries++;
	return probe->budget-- ? 0 : -EBUSY;
}

static void mt_iter_set_slice(struct kvt_iter *iter, u32 off, u64 slice)
{
	put_unaligned_be64(slice, iter->key + off);
}

/* Whether a layer has entries left after those that were skipped. */
static bool mt_spot_has_more(const struct mt_spot *s, bool reverse)
{
	if (s->left)
		return true;
	return reverse ? READ_ONCE(s->leaf->prev) && READ_ONCE(s->leaf->lowkey) :
			 !!mt_leaf_next(s->leaf);
}

/* Descend into the layer of an entry, to its beginning or to the position. */
static int mt_iter_enter(struct mt_iter *it, struct mt_probe *probe, const struct mt_entry *e)
{
	struct kvt_iter *iter = &it->iter;
	struct mt_spot *s = it->now;
	u32 off = s->off + MT_SLICE;

	/* Always return to the first layer: it is cheap to check for keys inserted meanwhile. */
	__assign_bit(s->off / MT_SLICE, it->more, !s->off || mt_spot_has_more(s, iter->reverse));
	if (iter->len <= off || mt_slice(iter->key, iter->len, s->off) != e->slice) {
		mt_iter_set_slice(iter, s->off, e->slice);
		iter->len = off;
		iter->bound = iter->reverse ? KVT_PAST : KVT_AFTER;
	}
	return mt_iter_descend(it, probe, mt_slot_to_layer(e->slot), off);
}

/*
 * The layer is exhausted.  Returns -EAGAIN: continue in the deepest layer above that has entries
 * left beyond the path to this one; or -ENOENT: this was the first layer.
 */
static int mt_iter_leave(struct mt_iter *it)
{
	u32 up, layer = it->now->off / MT_SLICE;
	struct kvt_iter *iter = &it->iter;
	struct mt_spot *s;

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
	s = mt_iter_spot(it, up);
	if (s->off == up)
		it->now = s;
	return -EAGAIN;
}

/* Go to the next leaf.  Returns false if that is deleted or changing, or has changed. */
static bool mt_iter_turn(struct mt_iter *it, struct mt_leaf *next)
{
	u64 v;

	kvt_park_loose(KVT_PARK_SCAN_NEXT);
	/* Pairs with mt_unlock(). */
	v = smp_load_acquire(&next->node.version);
	if (v & (MT_DIRTY | MT_DELETED) || !mt_iter_load(it, next, v, it->now->off))
		return false;
	mt_ahead_turn(&it->ahead, it->now);
	return true;
}

/* After the last entry of a leaf, go right. */
static int mt_iter_forward(struct mt_iter *it, struct mt_probe *probe)
{
	struct mt_leaf *next = mt_leaf_next(it->now->leaf);

	if (!next)
		return mt_iter_leave(it);
	return mt_iter_turn(it, next) ? 0 : mt_iter_restart(it, probe);
}

/* Before the first entry of a leaf, go left. */
static int mt_iter_backward(struct mt_iter *it)
{
	struct kvt_iter *iter = &it->iter;
	struct mt_spot *s = it->now;
	u64 lowkey = READ_ONCE(s->leaf->lowkey);

	if (!READ_ONCE(s->leaf->prev) || !lowkey)
		return mt_iter_leave(it);
	/* The smallest key with this slice is the slice without trailing zeros. */
	mt_iter_set_slice(iter, s->off, lowkey);
	iter->len = s->off + MT_SLICE - __builtin_ctzll(lowkey) / 8;
	iter->bound = KVT_AFTER;
	it->now = NULL;
	return -EAGAIN;
}

/* Set the position to the key of an entry. */
static void mt_iter_come(struct mt_iter *it, const struct mt_entry *e)
{
	u32 off = it->now->off, at = off + MT_SLICE;
	struct kvt_iter *iter = &it->iter;
	const struct kvt_value *value;

	mt_iter_set_slice(iter, off, e->slice);
	if (e->rank == MT_RANK_LONG) {
		value = mt_slot_value(e->slot);
		memcpy(iter->key + at, kvt_value_suffix(value, at), value->key_len - at);
		iter->len = value->key_len;
	} else {
		iter->len = off + e->rank;
	}
	iter->bound = KVT_AFTER;
}

static struct kvt_value *mt_iter_return(struct mt_iter *it, const struct mt_entry *e,
					struct kvt_cell *cell)
{
	mt_iter_come(it, e);
	return mt_slot_take(e->slot, e->data, it->iter.len, cell);
}

/* The next entry is a cell that changed while it was read.  Returns 0: call again; or -EBUSY. */
static int mt_iter_wait(struct mt_probe *probe, const struct mt_entry *e)
{
	probe->retries++;
	if (e->slot == MT_SLOT_BUSY && mt_on_top())
		probe->budget = 0;
	if (!probe->budget)
		return -EBUSY;
	probe->budget--;
	cpu_relax();
	return 0;
}

/*
 * Read the next entry, or move towards it.  Returns 1: it is @e, and beyond the position; 0: call
 * again; -EAGAIN: the same, after leaving the leaf; -ENOENT: there is none; -EBUSY.
 */
static int mt_iter_look(struct mt_iter *it, struct mt_probe *probe, struct mt_entry *e)
{
	struct kvt_iter *iter = &it->iter;
	struct mt_spot *s = it->now;
	bool changed = false;

	if (!s)
		return mt_iter_descend(it, probe, mt_root(probe->tree), 0);
	if (s->left) {
		*e = mt_spot_entry(s);
		changed = mt_cell_changed(s->leaf, s->order & 15, e->slot);
		kvt_park_loose(KVT_PARK_SCAN_CHECK);
	}
	if (mt_spot_changed(s))
		return mt_iter_reload(it, probe);
	if (!s->left)
		return iter->reverse ? mt_iter_backward(it) : mt_iter_forward(it, probe);
	if (changed)
		return mt_iter_wait(probe, e);
	mt_spot_pass(s, 1);
	if (likely(!s->compare))
		return 1;
	/* A layer may have been created or removed here, and left a key before the position. */
	s->compare = false;
	return mt_iter_wants(iter, e, s->off);
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
 * @cell: for a value without a block
 *
 * Context: under rcu_read_lock(), any context.
 *
 * Return: as iter_next() of struct kvt_index_ops; ERR_PTR(-ESTALE): the
 * iterator's key leads to a thin layer.  The next step enters it again: by then
 * it may have another root, with more below.
 */
struct kvt_value *mt_iter_step(struct mt_iter *it, bool sweeping, struct kvt_cell *cell)
{
	struct kvt_iter *iter = &it->iter;
	const struct kvt_key key = { .data = iter->key };
	struct kvt_value *value;
	struct mt_probe probe;
	unsigned int work;
	struct mt_entry e;
	int ret;

	mt_probe_prepare(&probe, mt_tree(iter->index), &key);
	for (work = 0; work < MT_ITER_WORK; work++) {
		ret = mt_iter_look(it, &probe, &e);
		if (ret == 1) {
			if (!mt_slot_is_layer(e.slot)) {
				if (!iter->reverse)
					mt_ahead_start(&it->ahead, it->now);
				value = mt_iter_return(it, &e, cell);
				return mt_iter_stop(it, &probe, value);
			}
			ret = mt_iter_enter(it, &probe, &e);
			if (sweeping && !ret && mt_layer_is_thin(mt_slot_to_layer(e.slot))) {
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
	/* So many restarts mean that a change does not end while this runs. */
	return mt_iter_stop(it, &probe,
			    ERR_PTR(probe.restarts > MT_ITER_RESTARTS ? -EBUSY : -EAGAIN));
}

/* How many entries precede the first slot that has changed since it was read. */
static unsigned int mt_run_intact(const struct mt_spot *s, const unsigned long *slots,
				  unsigned int nr)
{
	u64 order = s->order;
	unsigned int i;

	smp_rmb();	/* the data before the slots again; pairs with mt_leaf_set_cell() */
	for (i = 0; i < nr; i++, order >>= 4)
		if (READ_ONCE(s->leaf->slot[order & 15]) != slots[i])
			break;
	return i;
}

/*
 * Read entries of a leaf with cells.  Returns how many, and the last of them in @e.  @head: the
 * first bytes of their keys, unless it is the first layer.
 */
static unsigned int mt_run_cells(const struct mt_spot *s, u64 head, struct kvt_pair *pairs,
				 unsigned int max, struct mt_entry *e)
{
	const struct mt_leaf *leaf = s->leaf;
	unsigned long slots[MT_LEAF_WIDTH];
	u64 order = s->order, ranks = READ_ONCE(leaf->ranks);
	unsigned int nr, n;

	for (nr = 0; nr < max; nr++, order >>= 4) {
		n = order & 15;
		slots[nr] = mt_leaf_slot(leaf, n);
		pairs[nr].head = READ_ONCE(leaf->slice[n]);
		if (likely(mt_slot_is_cell(slots[nr]))) {
			if (unlikely(slots[nr] == MT_SLOT_BUSY))
				break;
			pairs[nr].value = mt_slot_cell(slots[nr],
						       mt_leaf_data(leaf, n, slots[nr]),
						       s->off + ((ranks >> 4 * n) & 15),
						       &pairs[nr].cell);
			continue;
		}
		if (mt_slot_is_layer(slots[nr]))
			break;
		pairs[nr].value = mt_slot_value(slots[nr]);
		if (s->off)
			pairs[nr].head = head;
	}
	nr = mt_run_intact(s, slots, nr);
	if (!nr)
		return 0;
	n = (s->order >> 4 * (nr - 1)) & 15;
	e->slot = slots[nr - 1];
	e->slice = READ_ONCE(leaf->slice[n]);
	e->rank = (ranks >> 4 * n) & 15;
	kvt_park_loose(KVT_PARK_SCAN_CHECK);
	return mt_changed(&leaf->node, s->version) ? 0 : nr;
}

/* Read entries of a leaf without cells, as mt_run_cells(). */
static unsigned int mt_run_blocks(const struct mt_spot *s, u64 head, struct kvt_pair *pairs,
				  unsigned int max, struct mt_entry *e)
{
	const struct mt_leaf *leaf = s->leaf;
	u64 order = s->order;
	unsigned long slot;
	unsigned int nr;

	for (nr = 0; nr < max; nr++, order >>= 4) {
		slot = mt_leaf_slot(leaf, order & 15);
		if (mt_slot_is_layer(slot))
			break;
		e->slot = slot;
		e->slice = READ_ONCE(leaf->slice[order & 15]);
		pairs[nr].value = mt_slot_value(slot);
		pairs[nr].head = s->off ? head : e->slice;
	}
	if (!nr)
		return 0;
	e->rank = mt_leaf_rank(leaf, (s->order >> 4 * (nr - 1)) & 15);
	return mt_changed(&leaf->node, s->version) ? 0 : nr;
}

/* Return the leaf's next entries, up to a layer. */
static unsigned int mt_iter_run(struct mt_iter *it, struct kvt_pair *pairs, unsigned int max)
{
	struct mt_spot *s = it->now;
	u64 head = s->off ? get_unaligned_be64(it->iter.key) : 0;
	struct mt_entry e = { };
	unsigned int nr;

	max = min_t(unsigned int, max, s->left);
	/* The slots are read after the permutation. */
	if (mt_leaf_perm(s->leaf) != s->perm)
		return 0;
	kvt_park_loose(KVT_PARK_SCAN_SLOTS);
	if (s->version & MT_CELLS)
		nr = mt_run_cells(s, head, pairs, max, &e);
	else
		nr = mt_run_blocks(s, head, pairs, max, &e);
	if (!nr)
		return 0;
	mt_iter_come(it, &e);
	mt_spot_pass(s, nr);
	return nr;
}

/* Whether this leaf or the next one has an entry to return without a comparison. */
static bool mt_iter_ready(struct mt_iter *it)
{
	struct mt_spot *s = it->now;
	struct mt_leaf *next;

	if (unlikely(!s))
		return false;
	if (!s->left && !it->iter.reverse && !mt_spot_changed(s)) {
		next = mt_leaf_next(s->leaf);
		if (!next || !mt_iter_turn(it, next))
			return false;
		s = it->now;
	}
	return s->left && !s->compare;
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

	if (likely(mt_iter_ready(it))) {
		nr = mt_iter_run(it, pairs, max);
		if (likely(nr))
			return nr;
	}
	value = mt_iter_step(it, false, &pairs->cell);
	if (IS_ERR_OR_NULL(value))
		return PTR_ERR(value);
	pairs->value = value;
	pairs->head = mt_slice(iter->key, iter->len, kvt_value_is_cell(value) ? it->now->off : 0);
	if (max == 1 || !it->now->left)
		return 1;
	return 1 + mt_iter_run(it, pairs + 1, max - 1);
}

/**
 * mt_iter_rest() - see struct kvt_index_ops
 * @iter: the iterator
 */
void mt_iter_rest(struct kvt_iter *iter)
{
	struct mt_iter *it = mt_iter(iter);

	it->now = NULL;
	mt_ahead_rest(&it->ahead, iter->want);
}
