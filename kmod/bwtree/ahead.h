/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Prefetching.  All of it is guessing: from a record's address, where its base page begins;
 * from what was read, what will be.  A wrong guess costs time, and changes nothing that the
 * engine finds.
 */
#ifndef KVT_BW_AHEAD_H
#define KVT_BW_AHEAD_H

#include <linux/minmax.h>
#include <linux/prefetch.h>
#include <linux/types.h>

#include "base/prefetch.h"
#include "page.h"

/* Lines of a base page to prefetch at once: header, keys and samples of usual pages. */
#define BW_HEAD_LINES	5u
/* The usual size of a page's allocation, to which it is aligned. */
#define BW_USUAL_PAGE	4096ul

/* Whether a record seems to be beside a base page: no allocation begins where it does. */
static __always_inline bool bw_is_beside(const struct bw_rec *rec)
{
	return ((unsigned long)rec - BW_MEM_HEAD) % BW_LINE;
}

/* Where the allocation of the base page of a record seems to begin. */
static __always_inline unsigned long bw_guess_base(const struct bw_rec *rec)
{
	unsigned long at = (unsigned long)rec - BW_MEM_HEAD;

	return bw_is_beside(rec) ? at & ~(BW_USUAL_PAGE - 1) : at;
}

/* Prefetch a page's newest record, and the beginning of its base page. */
static __always_inline void bw_prefetch(const struct bw_rec *top)
{
	unsigned long at = bw_guess_base(top);
	unsigned int i;

	if (bw_is_beside(top))
		prefetch(top);
	for (i = 0; i < BW_HEAD_LINES; i++)
		prefetch((const u8 *)at + i * BW_LINE);
}

/* Prefetch @size bytes of a base page, after bw_prefetch(). */
static __always_inline void bw_prefetch_rest(const struct bw_rec *top, u32 size)
{
	unsigned long at = bw_guess_base(top), end = at + size;

	for (at += BW_HEAD_LINES * BW_LINE; at < end; at += BW_LINE)
		kvt_prefetch_far((const void *)at);
}

/* Prefetch a leaf's records, which usually precede each other in memory. */
static __always_inline void bw_prefetch_chain(const struct bw_rec *top)
{
	unsigned int i, depth = min_t(unsigned int, top->depth, BW_CHAIN_LEAF);

	for (i = 1; i < depth; i++)
		prefetch((const u8 *)top - i * BW_LINE);
}

/* Prefetch slices and loads of a group of a leaf. */
static __always_inline void bw_prefetch_group(const struct bw_page *base, unsigned int group)
{
	prefetch(bw_page_at(base, base->off_slice + group * BW_LINE));
	prefetch(bw_page_at(base, base->off_load + group * BW_LINE));
}

/*
 * Prefetch a key's place in the base of its leaf, while the leaf's records arrive.  Returns
 * the place's group.
 */
static inline unsigned int bw_prefetch_place(const struct bw_page *base,
					     const struct bw_want *want)
{
	unsigned int group = bw_page_group(base, want);

	bw_prefetch_group(base, group);
	return group;
}

/* How far ahead of an iterator, forward, values are being prefetched. */
struct bw_ahead {
	u32 budget;			/* how many more values are worth it */
	u32 stride;			/* pairs returned since the last step of @stage */
	u16 at;				/* values of @base up to here are on their way */
	u8 stage;			/* of the next page: see enum bw_stage */
	const struct bw_page *base;	/* of the page that is read, or of the next one */
	const struct bw_page *next;	/* base of the next page, if @stage has got that far */
	const unsigned long *right;	/* entry of the next page, or NULL */
};

void bw_ahead_leaf(const struct bw_ahead *ahead, const struct bw_page *base,
		   const struct bw_want *want);
void bw_ahead_start(struct bw_ahead *ahead, const struct bw_page *base, unsigned int at);
void bw_ahead_next(struct bw_ahead *ahead, const unsigned long *right);
void bw_ahead_turn(struct bw_ahead *ahead, const struct bw_page *base);
void bw_ahead_returned(struct bw_ahead *ahead, const struct bw_page *base, unsigned int at,
		       unsigned int nr);

#endif /* KVT_BW_AHEAD_H */
