// SPDX-License-Identifier: GPL-2.0
/*
 * Iterators.  The position is a key (see struct kvt_iter).  Within one RCU read section the
 * iterator also keeps a piece of a page, its records in order.  Before each result it checks
 * that the page is still the same; if not, it reads the rest of the piece again.
 */
#include <linux/err.h>

#include "find.h"
#include "tree.h"

/* Pages to visit in one call. */
#define BW_ITER_WORK	64

static struct bw_iter *bw_iter(struct kvt_iter *iter)
{
	return container_of(iter, struct bw_iter, iter);
}

static const u8 bw_infinity[KVTREE_KEY_MAX] = { [0 ... KVTREE_KEY_MAX - 1] = 0xff };

/*
 * The key that bounds the remaining keys: forward they are not less than it, backward they are
 * less.  It is the position, with one more byte or with its last byte incremented if need be;
 * sets @undo to the byte to decrement again.
 */
static struct bw_want bw_iter_want(struct kvt_iter *iter, u8 **undo)
{
	u32 len = iter->len;

	*undo = NULL;
	if (iter->bound == KVT_PAST) {
		while (len && iter->key[len - 1] == 0xff)
			len--;
		if (!len)
			return (struct bw_want) {
				.head = ~0ull,
				.tail = bw_infinity,
				.len = KVTREE_KEY_MAX + 1,
			};
		*undo = &iter->key[len - 1];
		++**undo;
	} else if ((iter->bound == KVT_AFTER) != iter->reverse) {
		iter->key[len++] = 0;
	}
	return bw_want(iter->key, len);
}

/* A page was read: find the next one forward, unless that is another piece of this page. */
static void bw_iter_begin(struct bw_iter *it, const struct bw_rec *top)
{
	struct bw_tree *tree = bw_tree(it->iter.index);

	it->ready = true;
	it->run = 0;
	it->right = NULL;
	if (!it->iter.reverse && top->high && it->part.high == top->high)
		it->right = bw_map_entry(tree->map, top->right);
	bw_ahead_next(&it->ahead, it->right);
}

/*
 * The position is the first key of the right sibling: read that page without a descent.
 * Returns false if its removal has begun.
 */
static bool bw_iter_go_right(struct bw_iter *it)
{
	const struct bw_want want = bw_want(it->iter.key, it->iter.len);
	struct bw_rec *top;

	it->entry = it->right;
	/* Pairs with bw_swap(). */
	it->seen = smp_load_acquire(it->entry);
	top = (struct bw_rec *)it->seen;
	if (it->seen & BW_FREE || top->kind == BW_REMOVE)
		return false;
	bw_part_load(top, &want, false, &it->part);
	bw_iter_begin(it, top);
	it->at = 0;
	it->at_delta = 0;
	bw_ahead_turn(&it->ahead, it->part.base);
	return true;
}

/* Read the piece of a page that covers the position. */
static int bw_iter_load(struct bw_iter *it)
{
	struct bw_tree *tree = bw_tree(it->iter.index);
	bool reverse = it->iter.reverse, same;
	struct bw_part *part = &it->part;
	struct bw_want want;
	struct bw_at at;
	unsigned int d;
	u8 *undo;
	int ret;

	want = bw_iter_want(&it->iter, &undo);
	ret = bw_seek(tree, &want, 0, reverse ? BW_SEEK_BEFORE : BW_SEEK_SCAN, &at);
	if (!ret) {
		it->entry = bw_map_entry(tree->map, at.guard_id);
		it->seen = (unsigned long)at.guard;
		if (!reverse)
			bw_ahead_leaf(&it->ahead, at.top->base, &want);
		bw_part_load(at.top, &want, reverse, part);
		bw_iter_begin(it, at.top);
		it->at = bw_page_lower(part->base, &want, part->begin, part->end, &same);
		for (d = 0; d < part->nr; d++)
			if (bw_cmp(&want, &part->delta[d]->key) <= 0)
				break;
		it->at_delta = d;
		if (!reverse)
			bw_ahead_start(&it->ahead, part->base, it->at);
	}
	if (undo)
		--*undo;
	return ret;
}

/* Continue in the next page in the iterator's direction.  Returns false if there is none. */
static bool bw_iter_leave(struct bw_iter *it)
{
	struct kvt_iter *iter = &it->iter;
	const struct bw_key *key = iter->reverse ? it->part.low : it->part.high;

	it->ready = false;
	it->run = 0;
	if (!key || !key->len)
		return false;
	bw_key_bytes(key, iter->key);
	iter->len = key->len;
	iter->bound = iter->reverse ? KVT_AFTER : KVT_AT;
	it->ready = it->right && bw_iter_go_right(it);
	return true;
}

static bool bw_iter_entry(struct bw_iter *it, struct bw_ent *ent)
{
	if (it->iter.reverse)
		return bw_part_prev(&it->part, &it->at, &it->at_delta, ent);
	return bw_part_next(&it->part, &it->at, &it->at_delta, ent);
}

/* Set the position, which has the base's prefix, to the key of an entry of the base. */
static void bw_iter_set(struct kvt_iter *iter, const struct bw_page *base, unsigned int i)
{
	u64 slice = bw_page_slice(base)[i];
	u32 at = base->prefix_len;

	iter->len = bw_page_len(base, i);
	if (iter->len > BW_SLICE)
		put_unaligned_be64(slice, iter->key + at);
	/* In one store, so that an immediate copy of a short key need not wait for several. */
	if (at < BW_SLICE)
		put_unaligned_be64(base->prefix_head | slice >> (8 * at), iter->key);
	if (iter->len > at + BW_SLICE)
		memcpy(iter->key + at + BW_SLICE, bw_page_tail(base, i),
		       iter->len - at - BW_SLICE);
	iter->bound = KVT_AFTER;
}

/* Return entries of the base. */
static unsigned int bw_iter_run(struct bw_iter *it, struct kvt_pair *pairs, unsigned int max)
{
	const struct bw_page *base = it->part.base;
	const unsigned long *loads = bw_page_at(base, base->off_load);
	unsigned int i, at = it->at, nr = min_t(unsigned int, max, it->run - at);
	const u64 *slices = bw_page_slice(base);
	u64 mask = base->prefix_len < BW_SLICE ? ~0ull : 0;
	u32 shift = 8 * base->prefix_len & 63;

	for (i = 0; i < nr; i++) {
		pairs[i].value = (struct kvt_value *)loads[at + i];
		pairs[i].head = base->prefix_head | (slices[at + i] & mask) >> shift;
	}
	it->at += nr;
	bw_iter_set(&it->iter, base, it->at - 1);
	bw_ahead_returned(&it->ahead, base, it->at, nr);
	return nr;
}

/* If entries of the base are next, set up the run and the position's prefix for them. */
static bool bw_iter_start_run(struct bw_iter *it)
{
	const struct bw_part *part = &it->part;
	const struct bw_page *base = part->base;
	u16 run = part->end;

	if (it->iter.reverse)
		return false;
	if (it->at_delta < part->nr)
		run = min(run, part->delta[it->at_delta]->rec.at);
	if (it->at >= run)
		return false;
	it->run = run;
	memcpy(it->iter.key, bw_page_prefix(base), base->prefix_len);
	return true;
}

static noinline int bw_iter_step(struct bw_iter *it, struct kvt_pair *pairs, unsigned int max)
{
	struct kvt_iter *iter = &it->iter;
	struct bw_ent ent;
	unsigned int work;

	for (work = 0; work < BW_ITER_WORK; work++) {
		if (!it->ready || READ_ONCE(*it->entry) != it->seen)
			if (bw_iter_load(it))
				return -EBUSY;
		if (bw_iter_start_run(it))
			return bw_iter_run(it, pairs, max);
		if (bw_iter_entry(it, &ent)) {
			bw_ent_copy(&ent, 0, ent.len, iter->key);
			iter->len = ent.len;
			iter->bound = KVT_AFTER;
			pairs->head = bw_head(iter->key, iter->len);
			pairs->value = (struct kvt_value *)ent.load;
			return 1;
		}
		if (!bw_iter_leave(it))
			return 0;
	}
	return -EAGAIN;
}

/**
 * bw_iter_next() - see struct kvt_index_ops
 * @iter: the iterator
 * @pairs: to be filled
 * @max: how many at most
 *
 * Context: under rcu_read_lock(), any context.
 *
 * Return: how many, 0, -EBUSY or -EAGAIN.
 */
int bw_iter_next(struct kvt_iter *iter, struct kvt_pair *pairs, unsigned int max)
{
	struct bw_iter *it = bw_iter(iter);

	if (likely(it->at < it->run && READ_ONCE(*it->entry) == it->seen))
		return bw_iter_run(it, pairs, max);
	return bw_iter_step(it, pairs, max);
}

/**
 * bw_iter_rest() - see struct kvt_index_ops
 * @iter: the iterator
 */
void bw_iter_rest(struct kvt_iter *iter)
{
	bw_iter(iter)->ready = false;
	bw_iter(iter)->run = 0;
	bw_iter(iter)->ahead.budget = iter->want ?: UINT_MAX;
}
