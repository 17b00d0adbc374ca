// SPDX-License-Identifier: GPL-2.0
/*
 * Inserting sorted keys: build pages that have many new keys, instead of a record for each of them.
 *
 * A leaf without a chain is replaced by one that also has the new keys that belong between two of
 * its entries.  If it is full, it splits there.  In sorted order that is mostly after its last key,
 * and then nothing moves: the page that is split off consists of new keys.  It leaves the room that
 * loads in order leave otherwise, too.
 */
#include <linux/err.h>

#include "find.h"
#include "tree.h"

/* Pages that are built before the caller can wait for the memory of old ones. */
#define BW_SORTED_STEPS	8u

/* Keys that are being inserted. */
struct bw_sorted {
	struct bw_help help;		/* of the current step; its key may be in the stock */
	const struct kvt_insert *inserts;
	unsigned int nr;		/* that are left */
	unsigned int added;		/* by the current step */
};

/* Whether a key comes before an entry of a leaf, if there is one, and before its end. */
static bool bw_sorted_before(const struct bw_rec *top, unsigned int at,
			     const struct kvt_insert *insert)
{
	const struct bw_want want = bw_want(insert->key.data, insert->key.len);
	struct bw_ent ent;

	if (top->high && bw_cmp(&want, top->high) >= 0)
		return false;
	if (at == top->base->rec.nr)
		return true;
	bw_page_ent(top->base, at, &ent);
	return bw_ent_cmp(&want, &ent) < 0;
}

/* Count the first keys that belong before the same entry of a leaf's base, which is @at. */
static unsigned int bw_sorted_row(const struct bw_sorted *s, const struct bw_rec *top,
				  unsigned int max, unsigned int *at)
{
	const struct kvt_key *key = &s->inserts->key;
	const struct bw_want want = bw_want(key->data, key->len);
	unsigned int least = 0, n = min(s->nr, max), try;
	bool same;

	/* If that is the entry of the first key, no new key comes before it. */
	*at = bw_page_lower(top->base, &want, 0, top->base->rec.nr, &same);
	/* Mostly all of them do. */
	for (try = n; least < n; try = (least + n + 1) / 2) {
		if (bw_sorted_before(top, *at, &s->inserts[try - 1]))
			least = try;
		else
			n = try - 1;
	}
	return n;
}

/*
 * How many of the first @n new keys fit into a page that has the walk's entries from @from to @nr.
 * A page that cannot be split, because it has too few entries, is never too long.  The walk then
 * has only those, and @fits is the sum of the page with them.
 */
static unsigned int bw_sorted_fit(struct bw_walk *walk, const struct bw_rec *top,
				  unsigned int from, unsigned int nr, unsigned int n, u32 limit,
				  struct bw_sum *fits)
{
	const struct bw_frame frame = bw_frame_of(top);
	unsigned int least = 0, try = n, all, guess;
	bool guessed = false;
	struct bw_sum sum;

	while (least < n) {
		walk->row_nr = try;
		all = nr + try - from;
		bw_sum(walk, &frame, from, nr + try, &sum);
		if (sum.bytes <= limit || all < BW_SPLIT_MIN) {
			least = try;
			*fits = sum;
			/* There is hardly room for another one. */
			if (all >= BW_SPLIT_MIN && sum.bytes + sum.bytes / all > limit)
				break;
		} else {
			n = try - 1;
		}
		/* Entries are mostly of about the same size. */
		guess = all * limit / sum.bytes + from;
		guess = guess > nr + least ? min(guess - nr, n) : least + 1;
		try = guessed ? (least + n + 1) / 2 : guess;
		guessed = true;
	}
	walk->row_nr = least;
	return least;
}

/* Insert keys after those of a full page, or move the entries that come after them elsewhere. */
static int bw_sorted_split(struct bw_tree *tree, struct bw_stock *stock, struct bw_sorted *s,
			   struct bw_rec *top, struct bw_walk *walk, unsigned int n, u32 limit)
{
	unsigned int at = walk->row_at;
	struct bw_sum sum;
	bool done;
	int ret;

	n = bw_sorted_fit(walk, top, at, at, at == top->nr ? n : 0, limit, &sum);
	ret = bw_split_off(tree, stock, &s->help, top, walk, at, top->nr + n, &done);
	if (done)
		s->added = n;
	return ret;
}

/* Whether a page may be split before an entry, to let @n new keys follow those before it. */
static bool bw_sorted_splits(const struct bw_sorted *s, const struct bw_rec *top, unsigned int at,
			     unsigned int n)
{
	if (!at || n < BW_SPLIT_MIN || s->help.id == BW_ROOT)
		return false;
	return at == top->nr || top->nr >= BW_SPLIT_MIN;
}

/*
 * Insert @n keys before an entry of a leaf, or split it there.  If it has to be split elsewhere,
 * begin() does that.
 */
static int bw_sorted_into(struct bw_tree *tree, struct bw_stock *stock, struct bw_sorted *s,
			  struct bw_rec *top, unsigned int at, unsigned int n)
{
	u32 limit = tree->page_size;
	unsigned int fit = 0;
	struct bw_walk walk;
	struct bw_sum sum;
	int ret;

	bw_walk_init(&walk, top);
	walk.row = s->inserts;
	walk.row_at = at;
	if (at == top->nr)
		limit -= limit / 8;
	if (top->nr < BW_SPLIT_MIN || top->bytes + BW_ENT_MIN <= limit)
		fit = bw_sorted_fit(&walk, top, 0, top->nr, n, limit, &sum);
	if (!fit)
		return bw_sorted_splits(s, top, at, n) ?
		       bw_sorted_split(tree, stock, s, top, &walk, n, limit) : 0;
	ret = bw_extend(tree, stock, &s->help, top, &walk, &sum);
	if (!ret)
		s->added = fit;
	return ret;
}

/* Insert the next keys into the leaf where they belong. */
static int bw_sorted_step(struct bw_tree *tree, struct bw_stock *stock, struct bw_help *help)
{
	struct bw_sorted *s = container_of(help, struct bw_sorted, help);
	const struct kvt_key *key = &s->inserts->key;
	const struct bw_want want = bw_want(key->data, key->len);
	struct bw_at leaf;
	unsigned int at, n, few;
	int ret;

	ret = bw_seek(tree, &want, 0, BW_SEEK_WRITE, &leaf);
	if (ret == BW_NEEDS_HELP)
		*help = leaf.help;
	if (ret)
		return ret;
	n = bw_sorted_row(s, leaf.top, tree->page_size / BW_ENT_MIN, &at);
	/* A few keys between others are not worth a new page, nor the last ones its chain. */
	few = at < leaf.top->base->rec.nr ? BW_CHAIN_LEAF : BW_SPLIT_MIN;
	if (n < few && (n < s->nr || leaf.top->kind != BW_BASE))
		return 0;
	if (leaf.top->kind != BW_BASE)
		return bw_help_tidy(help, leaf.id);
	*help = (struct bw_help) { .kind = BW_HELP_TIDY, .id = leaf.id };
	return bw_sorted_into(tree, stock, s, leaf.top, at, n);
}

/* Insert keys into one leaf.  Returns whether more can be expected of the next call. */
static bool bw_sorted_next(struct bw_tree *tree, struct bw_sorted *s, gfp_t gfp)
{
	struct bw_stock stock = { .gfp = gfp };
	bool helped = false;
	int ret;

	s->added = 0;
	ret = bw_run(tree, bw_sorted_step, &s->help, &stock);
	/* A page that was split off is there even if its parent is not told now. */
	if (ret == BW_NEEDS_HELP) {
		helped = true;
		ret = bw_do_help(tree, &s->help, gfp);
	}
	bw_stock_drop(tree, &stock);
	s->inserts += s->added;
	s->nr -= s->added;
	return s->nr && !ret && (s->added || helped);
}

/**
 * bw_insert_sorted() - see struct kvt_index_ops
 * @index: the tree
 * @inserts: the keys
 * @nr: how many
 * @gfp: how to allocate
 *
 * Return: how many were inserted.
 */
unsigned int bw_insert_sorted(struct kvt_index *index, const struct kvt_insert *inserts,
			      unsigned int nr, gfp_t gfp)
{
	struct bw_sorted s = { .inserts = inserts, .nr = nr };
	unsigned int steps = BW_SORTED_STEPS;

	while (bw_sorted_next(bw_tree(index), &s, gfp) && --steps)
		;
	return nr - s.nr;
}
