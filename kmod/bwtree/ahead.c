// SPDX-License-Identifier: GPL-2.0
/*
 * Prefetching for iterators that go forward: values of the page that is read, and step by step
 * those of the next one.  The iterator says where it is; it reads everything again itself.
 */
#include "tree.h"

/* How many values to prefetch, ... */
#define BW_AHEAD_VALUES	48
/* ... and how many of these also into the first-level cache: see bw_ahead_near(). */
#define BW_AHEAD_NEAR	16
/* How many pairs to return between two steps to the next page. */
#define BW_AHEAD_STRIDE	16

/* What to prefetch next of the next page. */
enum bw_stage {
	BW_STAGE_TOP,		/* its newest record */
	BW_STAGE_BASE,		/* its chain, and the beginning of its base */
	BW_STAGE_LINES,		/* slices and loads */
	BW_STAGE_VALUES,	/* its values may follow those of this page */
	BW_STAGE_NONE,		/* nothing: there is none, or it is being removed */
};

/* Prefetch slices and loads of some entries of a base. */
static void bw_ahead_lines(const struct bw_page *base, unsigned int from, unsigned int nr)
{
	unsigned int i, end = DIV_ROUND_UP(from + min(nr, base->rec.nr - from), BW_GROUP);

	for (i = from / BW_GROUP; i < end; i++) {
		kvt_prefetch_far(bw_page_at(base, base->off_load + i * BW_LINE));
		kvt_prefetch_far(bw_page_at(base, base->off_slice + i * BW_LINE));
	}
}

/* Prefetch more of the next page. */
static void bw_ahead_step(struct bw_ahead *ahead)
{
	const struct bw_rec *top;
	unsigned long entry;

	switch (ahead->stage) {
	case BW_STAGE_TOP:
		if (!ahead->right) {
			ahead->stage = BW_STAGE_NONE;
			return;
		}
		bw_prefetch((const struct bw_rec *)(READ_ONCE(*ahead->right) & ~BW_FREE));
		break;
	case BW_STAGE_BASE:
		/* Pairs with bw_swap(). */
		entry = smp_load_acquire(ahead->right);
		top = (const struct bw_rec *)entry;
		/* What is below a BW_REMOVE may be gone. */
		if (entry & BW_FREE || top->kind == BW_REMOVE) {
			ahead->stage = BW_STAGE_NONE;
			return;
		}
		ahead->next = top->base;
		if (top->kind != BW_BASE) {
			bw_prefetch_chain(top);
			bw_prefetch(&ahead->next->rec);
		}
		break;
	case BW_STAGE_LINES:
		bw_ahead_lines(ahead->next, 0, ahead->budget);
		break;
	default:
		return;
	}
	ahead->stage++;
}

/* The usual length of a page's keys: a slice after what they have in common. */
static u32 bw_usual_len(const struct bw_page *base)
{
	return base->prefix_len + BW_SLICE;
}

/* Prefetch values up to the number wanted.  The iterator is at entry @at of @base. */
static void bw_ahead_values(struct bw_ahead *ahead, const struct bw_page *base, unsigned int at)
{
	const struct bw_page *from = ahead->base;
	unsigned int i = ahead->at, nr, n;
	const unsigned long *loads;

	if (from == base)
		i = max(i, at);
	nr = i - at;
	if (from != base)
		nr += base->rec.nr;
	nr = nr < BW_AHEAD_VALUES ? min(BW_AHEAD_VALUES - nr, ahead->budget) : 0;
	while (nr) {
		if (i == from->rec.nr) {
			if (from != base || ahead->stage != BW_STAGE_VALUES)
				break;
			from = ahead->next;
			ahead->base = from;
			i = 0;
		}
		loads = bw_page_at(from, from->off_load);
		n = min(nr, from->rec.nr - i);
		nr -= n;
		ahead->budget -= n;
		for (n += i; i < n; i++)
			kvt_value_prefetch_far((void *)loads[i], bw_usual_len(from));
	}
	ahead->at = i;
}

/*
 * Prefetch some of the next values into the first-level cache.  They are usually in the
 * second, but after unpredictable loads some processors ignore prefetches into that for a
 * while.
 */
static void bw_ahead_near(const struct bw_ahead *ahead, const struct bw_page *base,
			  unsigned int at, unsigned int nr)
{
	const unsigned long *loads = bw_page_at(base, base->off_load);
	unsigned int i, end = at + nr;

	end = min_t(unsigned int, end, base == ahead->base ? ahead->at : base->rec.nr);
	for (i = at; i < end; i++)
		kvt_value_prefetch((void *)loads[i], bw_usual_len(base));
}

/**
 * bw_ahead_leaf() - prefetch what leads to values, from a key on
 * @ahead: of the iterator
 * @base: the base of the leaf that was found
 * @want: the key
 */
void bw_ahead_leaf(const struct bw_ahead *ahead, const struct bw_page *base,
		   const struct bw_want *want)
{
	unsigned int from = bw_page_group(base, want) * BW_GROUP;

	if (from < base->rec.nr)
		bw_ahead_lines(base, from, min(ahead->budget, base->rec.nr - from));
}

/**
 * bw_ahead_start() - begin to prefetch values, after bw_ahead_leaf() and bw_ahead_next()
 * @ahead: of the iterator
 * @base: the base that it reads
 * @at: the next entry
 */
void bw_ahead_start(struct bw_ahead *ahead, const struct bw_page *base, unsigned int at)
{
	ahead->base = base;
	ahead->at = at;
	bw_ahead_values(ahead, base, at);
	bw_ahead_near(ahead, base, at, BW_AHEAD_NEAR);
}

/**
 * bw_ahead_next() - say which page is next
 * @ahead: of the iterator
 * @right: its entry, or NULL: there is none, or the iterator goes backward
 */
void bw_ahead_next(struct bw_ahead *ahead, const unsigned long *right)
{
	ahead->right = right;
	ahead->stage = BW_STAGE_TOP;
	if (right)
		prefetch(right);
}

/**
 * bw_ahead_turn() - say that the next page is read now, from its first entry on
 * @ahead: of the iterator, after bw_ahead_next() for the page after this one
 * @base: the base of the page
 */
void bw_ahead_turn(struct bw_ahead *ahead, const struct bw_page *base)
{
	/* Usually prefetching has been set up already. */
	if (ahead->base != base) {
		ahead->base = base;
		ahead->at = 0;
		bw_ahead_lines(base, 0, ahead->budget);
	}
	bw_ahead_values(ahead, base, 0);
	bw_ahead_near(ahead, base, 0, BW_AHEAD_NEAR);
}

/**
 * bw_ahead_returned() - say that the iterator has returned pairs
 * @ahead: of the iterator
 * @base: the base that it reads
 * @at: the next entry
 * @nr: how many pairs
 */
void bw_ahead_returned(struct bw_ahead *ahead, const struct bw_page *base, unsigned int at,
		       unsigned int nr)
{
	bw_ahead_values(ahead, base, at);
	bw_ahead_near(ahead, base, at, nr);
	ahead->stride += nr;
	if (ahead->stride < BW_AHEAD_STRIDE)
		return;
	ahead->stride = 0;
	if (ahead->budget > ahead->base->rec.nr - ahead->at)
		bw_ahead_step(ahead);
}
