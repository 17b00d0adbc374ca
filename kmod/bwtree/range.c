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

/* So many groups of a base page have their values fetched ahead, ... */
#define BW_ITER_AHEAD	6
/* ... and so many fetched once more, nearer: see bw_iter_fetch_near(). */
#define BW_ITER_NEAR	1
/* So many more have what leads to the values fetched, ... */
#define BW_ITER_LINES	3
/* ... and before the last so many fetching begins in the next page. */
#define BW_ITER_LEAD	6

/* What of the next page is being fetched. */
enum bw_ahead {
	BW_AHEAD_ENTRY,
	BW_AHEAD_TOP,
	BW_AHEAD_BASE,
	BW_AHEAD_LINES,
	BW_AHEAD_NONE,		/* nothing: there is none, or it is about to go */
};

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

/* Fetch what leads to the values of a group of a base. */
static __always_inline void bw_iter_fetch_lines(const struct bw_page *base, unsigned int group)
{
	prefetch(bw_page_at(base, base->off_load + group * BW_LINE));
	prefetch(bw_page_at(base, base->off_slice + group * BW_LINE));
}

/* Fetch more of the next page forward.  What it is will be read again when its turn comes. */
static void bw_iter_fetch_next(struct bw_iter *it)
{
	const struct bw_rec *top;
	unsigned long entry;
	unsigned int i;

	switch (it->stage) {
	case BW_AHEAD_ENTRY:
		if (!it->right) {
			it->stage = BW_AHEAD_NONE;
			return;
		}
		bw_prefetch((const struct bw_rec *)(READ_ONCE(*it->right) & ~BW_FREE));
		break;
	case BW_AHEAD_TOP:
		/* Pairs with bw_swap(). */
		entry = smp_load_acquire(it->right);
		top = (const struct bw_rec *)entry;
		/* What is below a BW_REMOVE may be gone. */
		if (entry & BW_FREE || top->kind == BW_REMOVE) {
			it->stage = BW_AHEAD_NONE;
			return;
		}
		it->next = top->base;
		if (top->kind != BW_BASE) {
			bw_prefetch_chain(top);
			bw_prefetch(&it->next->rec);
		}
		break;
	case BW_AHEAD_BASE:
		for (i = 0; i <= BW_ITER_LINES; i++)
			bw_iter_fetch_lines(it->next, i);
		break;
	default:
		return;
	}
	it->stage++;
}

/*
 * Fetch the values of a group of this page into the first level of the cache.  Usually
 * they are in the second; but there are processors that for a while leave out fetching
 * into that, after loads of which they could foretell nothing.
 */
static __always_inline void bw_iter_fetch_near(const struct bw_iter *it, unsigned int i)
{
	const struct bw_page *base = it->part.base;
	const unsigned long *loads = bw_page_at(base, base->off_load);
	unsigned int end = min(i + BW_GROUP, base->rec.nr);

	for (; i < end; i++)
		prefetch((void *)loads[i]);
}

/* Fetch the values of another group. */
static void bw_iter_fetch(struct bw_iter *it)
{
	const struct bw_page *base = it->ahead;
	unsigned int i = it->ahead_at, end;
	const unsigned long *loads;

	if (i >= base->rec.nr && base == it->part.base && it->stage == BW_AHEAD_LINES) {
		base = it->next;
		it->ahead = base;
		i = 0;
	}
	loads = bw_page_at(base, base->off_load);
	end = min(ALIGN(i + 1, BW_GROUP), base->rec.nr);
	end = i + min(end - i, it->budget);
	it->budget -= end - i;
	for (; i < end; i++)
		bw_prefetch_far((void *)loads[i]);
	it->ahead_at = i;
	if (!it->budget)
		return;
	if (i + BW_ITER_LINES * BW_GROUP < base->rec.nr)
		bw_iter_fetch_lines(base, i / BW_GROUP + BW_ITER_LINES);
	if (i + BW_ITER_LEAD * BW_GROUP >= base->rec.nr && base == it->part.base)
		bw_iter_fetch_next(it);
}

/* At the beginning of a group. */
static noinline void bw_iter_ahead(struct bw_iter *it, unsigned int i)
{
	bw_iter_fetch_near(it, i + BW_ITER_NEAR * BW_GROUP);
	if (it->budget)
		bw_iter_fetch(it);
}

/* A page was read: where is the next one forward, unless it is another piece of this one? */
static void bw_iter_begin(struct bw_iter *it, const struct bw_rec *top)
{
	struct bw_tree *tree = bw_tree(it->iter.index);

	it->ready = true;
	it->run = 0;
	it->right = NULL;
	it->stage = BW_AHEAD_ENTRY;
	if (!it->iter.reverse && top->high && it->part.high == top->high) {
		it->right = bw_map_entry(tree->map, top->right);
		prefetch(it->right);
	}
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
	bw_iter_begin(it, top);
	it->at = 0;
	it->at_delta = 0;
	/* Usually that is where fetching is. */
	if (it->ahead != it->part.base) {
		it->ahead = it->part.base;
		it->ahead_at = 0;
	}
	return true;
}

/* The leaf is found: fetch what leads to the values that come first. */
static void bw_iter_fetch_first(const struct bw_page *base, const struct bw_want *want)
{
	unsigned int i, group = bw_page_group(base, want);

	for (i = 0; i <= BW_ITER_LINES && (group + i) * BW_GROUP < base->rec.nr; i++)
		bw_iter_fetch_lines(base, group + i);
}

/* The place is found, too: fetch these values. */
static void bw_iter_fetch_begin(struct bw_iter *it)
{
	unsigned int i;

	it->ahead = it->part.base;
	it->ahead_at = it->at;
	for (i = 0; i < BW_ITER_AHEAD && it->budget; i++)
		bw_iter_fetch(it);
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
		if (!reverse)
			bw_iter_fetch_first(at.top->base, &want);
		bw_part_load(at.top, &want, reverse, part);
		bw_iter_begin(it, at.top);
		it->at = bw_page_lower(part->base, &want, part->begin, part->end, &same);
		for (d = 0; d < part->nr; d++)
			if (bw_cmp(&want, &part->delta[d]->key) <= 0)
				break;
		it->at_delta = d;
		if (!reverse)
			bw_iter_fetch_begin(it);
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
	it->run = 0;
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

/* The position becomes the key of the next entry of the base. */
static __always_inline struct kvt_value *bw_iter_base(struct bw_iter *it)
{
	const struct bw_page *base = it->part.base;
	struct kvt_iter *iter = &it->iter;
	unsigned int i = it->at++;
	u64 slice = bw_page_slice(base)[i];
	u32 at = base->prefix_len;

	iter->len = bw_page_len(base, i);
	if (iter->len > BW_SLICE)
		put_unaligned_be64(slice, iter->key + at);
	/* In one piece: who copies a short key at once waits for the last store only. */
	if (at < BW_SLICE)
		put_unaligned_be64(base->prefix_head | slice >> (8 * at), iter->key);
	if (iter->len > at + BW_SLICE)
		memcpy(iter->key + at + BW_SLICE, bw_page_tail(base, i),
		       iter->len - at - BW_SLICE);
	iter->bound = KVT_AFTER;
	if (!(i % BW_GROUP))
		bw_iter_ahead(it, i);
	return (struct kvt_value *)((const unsigned long *)bw_page_at(base, base->off_load))[i];
}

/* Do entries of the base come next, and up to where?  Their prefix becomes the position's. */
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

static struct kvt_value *bw_iter_step(struct bw_iter *it)
{
	struct kvt_iter *iter = &it->iter;
	struct bw_ent ent;
	unsigned int work;

	for (work = 0; work < BW_ITER_WORK; work++) {
		if (!it->ready || READ_ONCE(*it->entry) != it->seen)
			if (bw_iter_load(it))
				return ERR_PTR(-EBUSY);
		if (bw_iter_start_run(it))
			return bw_iter_base(it);
		if (bw_iter_entry(it, &ent)) {
			bw_ent_copy(&ent, 0, ent.len, iter->key);
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

	if (likely(it->at < it->run && READ_ONCE(*it->entry) == it->seen))
		return bw_iter_base(it);
	return bw_iter_step(it);
}

/**
 * bw_iter_rest() - see struct kvt_index_ops
 * @iter: the iterator
 */
void bw_iter_rest(struct kvt_iter *iter)
{
	bw_iter(iter)->ready = false;
	bw_iter(iter)->run = 0;
	bw_iter(iter)->budget = iter->want ?: UINT_MAX;
}
