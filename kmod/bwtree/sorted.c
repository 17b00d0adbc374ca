// SPDX-License-Identifier: GPL-2.0
/*
 * Inserting sorted keys: build pages that have many new keys, instead of a record for each of them.
 *
 * A leaf without a chain is replaced by one that also has the keys that belong there.  If it is
 * full, and several of them follow each other, it splits where they belong.  In sorted order that
 * is mostly after its last key, and then nothing moves: the page that is split off consists of new
 * keys.  It leaves the room that loads in order leave otherwise, too.
 */
#include <linux/err.h>
#include <linux/slab.h>

#include "find.h"
#include "tree.h"

/* Bytes of struct bw_sorted with the new keys of a page. */
#define BW_SORTED_SIZE	4096u
/* Longer keys are inserted one by one, as a page takes few of them at once. */
#define BW_SORTED_KEY	512u
/* Pages that are built before the caller can wait for the memory of old ones. */
#define BW_SORTED_STEPS	8u

/* Keys that are being inserted. */
struct bw_sorted {
	struct bw_help help;		/* of the current step; its key may be in the stock */
	const struct kvt_insert *inserts;
	unsigned int nr;		/* that are left */
	unsigned int added;		/* by the current step */
	/* A page that the current step has found full; it may be another one if it comes again. */
	const struct bw_rec *full;
	/* Records as if the new keys were in the page's chain. */
	u8 deltas[] __aligned(8);
};

/*
 * How many of @n new keys fit into a page that now has the entries of the walk from @from to @nr.
 * A page that cannot be split, because it has too few entries, is never too long.  The walk then
 * has only those, and @fits is the sum of the page with them.
 */
static unsigned int bw_sorted_fit(struct bw_walk *walk, const struct bw_rec *top,
				  unsigned int from, unsigned int nr, unsigned int n, u32 limit,
				  struct bw_sum *fits)
{
	const struct bw_frame frame = bw_frame_of(top);
	unsigned int least = 0, try;
	struct bw_sum sum;

	/* Mostly all of them do, or none. */
	for (try = n; least < n; try = least ? (least + n + 1) / 2 : 1) {
		walk->part[0].nr = try;
		bw_sum(walk, &frame, from, nr + try, &sum);
		if (sum.bytes <= limit || sum.to - sum.from < BW_SPLIT_MIN) {
			least = try;
			*fits = sum;
		} else {
			n = try - 1;
		}
	}
	walk->part[0].nr = least;
	return least;
}

/* Make a record of a new key at offset *@at.  NULL: it exists, belongs elsewhere or has no room. */
static struct bw_delta *bw_sorted_delta(struct bw_sorted *s, const struct bw_rec *top,
					const struct kvt_insert *insert, u32 *at)
{
	const struct bw_want want = bw_want(insert->key.data, insert->key.len);
	struct bw_delta *delta = (struct bw_delta *)(s->deltas + *at);
	unsigned long load;

	*at += ALIGN(sizeof(*delta) + bw_key_tail(want.len), 8);
	if (want.len > BW_SORTED_KEY || *at > BW_SORTED_SIZE - sizeof(*s))
		return NULL;
	if (top->high && bw_cmp(&want, top->high) >= 0)
		return NULL;
	delta->rec = (struct bw_rec) { .kind = BW_PUT };
	if (bw_place(top, &want, &delta->rec, &load))
		return NULL;
	delta->load = (unsigned long)insert->value;
	bw_key_set(&delta->key, &want);
	return delta;
}

/* Add the new keys that belong to a page to its entries.  Returns how many. */
static unsigned int bw_sorted_fill(struct bw_sorted *s, const struct bw_rec *top,
				   struct bw_part *part)
{
	unsigned int i, max = min_t(unsigned int, s->nr, ARRAY_SIZE(part->delta));
	struct bw_delta *delta;
	u32 at = 0;

	for (i = 0; i < max; i++) {
		delta = bw_sorted_delta(s, top, &s->inserts[i], &at);
		if (!delta)
			break;
		part->delta[i] = delta;
	}
	part->nr = i;
	return i;
}

/* Insert keys after those of a full page, or move the entries that come after them elsewhere. */
static int bw_sorted_split(struct bw_tree *tree, struct bw_stock *stock, struct bw_sorted *s,
			   struct bw_rec *top, struct bw_walk *walk, unsigned int n, u32 limit)
{
	unsigned int at = walk->part[0].delta[0]->rec.at;
	struct bw_sum sum;
	bool done;
	int ret;

	n = bw_sorted_fit(walk, top, at, at, at == top->nr ? n : 0, limit, &sum);
	ret = bw_split_off(tree, stock, &s->help, top, walk, at, top->nr + n, &done);
	if (done)
		s->added = n;
	return ret;
}

/* Insert keys that belong to a leaf, or split it.  If it has to split elsewhere, begin() does. */
static int bw_sorted_into(struct bw_tree *tree, struct bw_stock *stock, struct bw_sorted *s,
			  struct bw_rec *top)
{
	u32 at, limit = tree->page_size;
	struct bw_walk walk;
	struct bw_sum sum;
	unsigned int n, fit = 0;
	bool row;
	int ret;

	bw_walk_init(&walk, top);
	n = bw_sorted_fill(s, top, &walk.part[0]);
	if (!n)
		return 0;
	at = walk.part[0].delta[0]->rec.at;
	row = n >= BW_SPLIT_MIN && walk.part[0].delta[n - 1]->rec.at == at;
	if (row && at == top->nr)
		limit -= limit / 8;
	if (top != s->full)
		fit = bw_sorted_fit(&walk, top, 0, top->nr, n, limit, &sum);
	if (!fit) {
		s->full = top;
		return row && at && s->help.id != BW_ROOT ?
		       bw_sorted_split(tree, stock, s, top, &walk, n, limit) : 0;
	}
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
	struct bw_at at;
	int ret;

	ret = bw_seek(tree, &want, 0, BW_SEEK_WRITE, &at);
	if (ret == BW_NEEDS_HELP)
		*help = at.help;
	if (ret)
		return ret;
	if (at.top->kind != BW_BASE)
		return bw_help_tidy(help, at.id);
	*help = (struct bw_help) { .kind = BW_HELP_TIDY, .id = at.id };
	return bw_sorted_into(tree, stock, s, at.top);
}

/* Insert keys into one leaf.  Returns whether more can be expected of the next call. */
static bool bw_sorted_next(struct bw_tree *tree, struct bw_sorted *s, gfp_t gfp)
{
	struct bw_stock stock = { .gfp = gfp };
	bool helped = false;
	int ret;

	s->added = 0;
	s->full = NULL;
	if (s->inserts->key.len > BW_SORTED_KEY)
		return false;
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
	struct bw_sorted *s = kmalloc(BW_SORTED_SIZE, gfp);
	unsigned int steps = BW_SORTED_STEPS, done;

	if (!s)
		return 0;
	s->inserts = inserts;
	s->nr = nr;
	while (bw_sorted_next(bw_tree(index), s, gfp) && --steps)
		;
	done = nr - s->nr;
	kfree(s);
	return done;
}
