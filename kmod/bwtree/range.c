// SPDX-License-Identifier: GPL-2.0
/*
 * Iterators.  The position is a key (see struct kvt_iter); within one RCU read section
 * the iterator also keeps a piece of a page, its records in order.  Before each result
 * it looks whether the page is still the same; if not, it reads the part that is to
 * come anew.
 */
#include <linux/err.h>

#include "bwtree.h"

/* Pages looked at in one call. */
#define BW_ITER_WORK	64

/* So many values of a base page are fetched ahead. */
#define BW_ITER_AHEAD	24

static struct bw_iter *bw_iter(struct kvt_iter *iter)
{
	return container_of(iter, struct bw_iter, iter);
}

static const u8 bw_infinity[KVTREE_KEY_MAX] = { [0 ... KVTREE_KEY_MAX - 1] = 0xff };

/*
 * The key where what is to come begins: what is not less forward, what is less
 * backward.  It may be the position with one byte more, or with another last byte:
 * @undo says which, and is to be counted down again.
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

/* Where the next page forward is, unless it is another piece of this one. */
static void bw_iter_look_right(struct bw_iter *it, const struct bw_rec *top)
{
	struct bw_tree *tree = bw_tree(it->iter.index);

	it->right = NULL;
	if (!it->iter.reverse && top->high && it->part.high == top->high) {
		it->right = bw_map_entry(tree->map, top->right);
		prefetch(it->right);
	}
	it->fetched = 0;
	it->prefixed = false;
	it->ready = true;
}

/*
 * The position is the first key of the right sibling: read that, without a way down.
 * False: its removal has begun.
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
	bw_iter_look_right(it, top);
	it->at = 0;
	it->at_delta = 0;
	return true;
}

/* Read the piece of a page where the position is. */
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
	ret = bw_seek(tree, &want, 0, reverse ? BW_SEEK_BEFORE : BW_SEEK_READ, &at);
	if (!ret) {
		it->entry = bw_map_entry(tree->map, at.guard_id);
		it->seen = (unsigned long)at.guard;
		bw_part_load(at.top, &want, reverse, part);
		bw_iter_look_right(it, at.top);
		it->at = bw_page_lower(part->base, &want, part->begin, part->end, &same);
		for (d = 0; d < part->nr; d++)
			if (bw_cmp(&want, &part->delta[d]->key) <= 0)
				break;
		it->at_delta = d;
		it->fetched = it->at;
	}
	if (undo)
		--*undo;
	return ret;
}

/* Go on in the next page of the iterator's direction.  False: there is none. */
static bool bw_iter_leave(struct bw_iter *it)
{
	struct kvt_iter *iter = &it->iter;
	const struct bw_key *key = iter->reverse ? it->part.low : it->part.high;
	u8 head[BW_SLICE];

	it->ready = false;
	if (!key || !key->len)
		return false;
	put_unaligned_be64(key->head, head);
	memcpy(iter->key, head, min_t(u32, key->len, BW_SLICE));
	if (key->len > BW_SLICE)
		memcpy(iter->key + BW_SLICE, key->tail, key->len - BW_SLICE);
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

/* Fetch values that are to come. */
static __always_inline void bw_iter_fetch(struct bw_iter *it)
{
	const struct bw_page *base = it->part.base;
	unsigned int to = min_t(unsigned int, it->at + BW_ITER_AHEAD, it->part.end);
	const unsigned long *loads = bw_page_at(base, base->off_load);

	for (; it->fetched < to; it->fetched++)
		prefetch((void *)loads[it->fetched]);
	if (it->at + BW_ITER_AHEAD == it->part.end && it->right)
		prefetch((void *)READ_ONCE(*it->right));
}

/* Forward, the next entry is one of the base, and the position becomes its key. */
static __always_inline struct kvt_value *bw_iter_base(struct bw_iter *it)
{
	const struct bw_page *base = it->part.base;
	struct kvt_iter *iter = &it->iter;
	unsigned int i = it->at++;
	u32 at = base->prefix_len;

	if (!it->prefixed && at)
		memcpy(iter->key, bw_page_prefix(base), at);
	it->prefixed = true;
	put_unaligned_be64(bw_page_slice(base)[i], iter->key + at);
	iter->len = bw_page_len(base, i);
	if (iter->len > at + BW_SLICE)
		memcpy(iter->key + at + BW_SLICE, bw_page_tail(base, i),
		       iter->len - at - BW_SLICE);
	iter->bound = KVT_AFTER;
	bw_iter_fetch(it);
	return (struct kvt_value *)((const unsigned long *)bw_page_at(base, base->off_load))[i];
}

static __always_inline bool bw_iter_at_base(const struct bw_iter *it)
{
	return !it->iter.reverse && it->at < it->part.end &&
	       (it->at_delta == it->part.nr || it->part.delta[it->at_delta]->rec.at > it->at);
}

/**
 * bw_iter_next() - see struct kvt_index_ops
 * @iter: the iterator
 *
 * Context: under rcu_read_lock(), any context.
 *
 * Return: the value, NULL, ERR_PTR(-EBUSY) or ERR_PTR(-EAGAIN).
 */
struct kvt_value *bw_iter_next(struct kvt_iter *iter)
{
	struct bw_iter *it = bw_iter(iter);
	struct bw_ent ent;
	unsigned int work;

	for (work = 0; work < BW_ITER_WORK; work++) {
		if (!it->ready || READ_ONCE(*it->entry) != it->seen)
			if (bw_iter_load(it))
				return ERR_PTR(-EBUSY);
		if (likely(bw_iter_at_base(it)))
			return bw_iter_base(it);
		if (bw_iter_entry(it, &ent)) {
			bw_ent_copy(&ent, 0, ent.len, iter->key);
			it->prefixed = false;
			iter->len = ent.len;
			iter->bound = KVT_AFTER;
			return (struct kvt_value *)ent.load;
		}
		if (!bw_iter_leave(it))
			return NULL;
	}
	return ERR_PTR(-EAGAIN);
}

/**
 * bw_iter_rest() - see struct kvt_index_ops
 * @iter: the iterator
 */
void bw_iter_rest(struct kvt_iter *iter)
{
	bw_iter(iter)->ready = false;
}
