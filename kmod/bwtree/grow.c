// SPDX-License-Identifier: GPL-2.0
/* Pages that have become too long: consolidated, split, posted to the parent. */
#include <linux/err.h>

#include "../compat.h"
#include "bwtree.h"

/* A page that cannot be split may become so many times as long as others. */
#define BW_LONG	8

/**
 * bw_frame_of() - what is in a page besides its entries
 * @top: the page's newest record
 *
 * Return: the frame of its next base page.
 */
struct bw_frame bw_frame_of(const struct bw_rec *top)
{
	return (struct bw_frame) {
		.level = top->level,
		.right = top->right,
		.low = bw_page_low(top->base),
		.high = top->high,
	};
}

/**
 * bw_replace() - replace all of a page's chain
 * @tree: the tree
 * @id: the page
 * @old: its newest record; the chain is retired
 * @new: what takes its place
 * @pass: not to be refused by the limit
 * @nr: as what it is counted
 *
 * Return: 0, -EDQUOT, or -EAGAIN: @old is not its newest record.
 */
int bw_replace(struct bw_tree *tree, u32 id, struct bw_rec *old, struct bw_page *new, bool pass,
	       enum bw_nr nr)
{
	u32 had = bw_chain_bytes(old), now;
	u8 level = old->level;

	if (bw_charge_instead(tree, level, new, had, pass))
		return -EDQUOT;
	now = bw_charged(new);
	if (!bw_swap(tree, id, old, &new->rec, nr)) {
		bw_uncharge_instead(tree, level, new, had);
		return -EAGAIN;
	}
	if (now < had)
		bw_uncharge(tree, level, had - now);
	bw_chain_retire(tree, old);
	return 0;
}

static u32 bw_space_of(const struct bw_rec *top)
{
	return top->level ? 0 : BW_SPACE_LEAF;
}

static int bw_consolidate(struct bw_tree *tree, struct bw_stock *stock, struct bw_help *help,
			  struct bw_rec *top, struct bw_walk *walk, const struct bw_sum *sum)
{
	struct bw_frame frame = bw_frame_of(top);
	struct bw_page *page;
	u32 space = help->space ? ALIGN(help->space, 8) + BW_SPACE_TAKEN : bw_space_of(top);
	u8 depth = top->depth;
	int err;

	page = bw_stock_get(stock, BW_SLOT_A, sum->size + space);
	if (!page)
		return -ENOMEM;
	bw_page_fill(page, stock->size[BW_SLOT_A], walk, sum, &frame);
	kvt_park_loose(KVT_PARK_BW_CONSOLIDATED);
	err = bw_replace(tree, help->id, top, page, stock->pass,
			 BW_NR_CONSOLIDATE);
	if (!err) {
		bw_stock_take(stock, BW_SLOT_A);
		bw_nr_add(tree, BW_NR_FOLDED_RECORDS, depth);
	}
	/* Whoever was first will be followed by another who consolidates. */
	return err == -EAGAIN ? 0 : err;
}

/* Where a page is split: in the middle, but behind what was loaded in order. */
static unsigned int bw_split_at(const struct bw_rec *top, struct bw_walk *walk)
{
	unsigned int nr = top->nr;
	struct bw_ent ent;
	bool first = true;

	if (top->kind != BW_PUT && top->kind != BW_TERM_ADD)
		return nr / 2;
	bw_walk_rewind(walk);
	while (bw_walk_next(walk, &ent)) {
		if (first && ent.load == bw_delta(top)->load && top->level == 0)
			return nr / 8 + 1;
		first = false;
	}
	return ent.load == bw_delta(top)->load ? nr - nr / 8 - 1 : nr / 2;
}

/*
 * The first key of what is split off, as short as it can be.  It is made as a record,
 * which is not published, for bw_split_root().
 */
static struct bw_delta *bw_split_key(struct bw_stock *stock, struct bw_walk *walk,
				     unsigned int m, u8 level)
{
	struct bw_ent before, ent;
	struct bw_delta *sep;
	unsigned int i;
	u32 len;

	bw_walk_rewind(walk);
	bw_walk_next(walk, &ent);
	for (i = 0; i < m; i++) {
		before = ent;
		bw_walk_next(walk, &ent);
	}
	/* An inner page's first key has to be that of its first child. */
	len = level ? ent.len : bw_ent_common(&before, &ent) + 1;
	sep = bw_stock_get(stock, BW_SLOT_KEY, sizeof(*sep) + bw_key_tail(len));
	if (!sep)
		return NULL;
	sep->rec = (struct bw_rec) { .kind = BW_TERM_ADD };
	bw_ent_key(&ent, len, &sep->key);
	return sep;
}

/**
 * bw_term_size() - what an index term record takes
 * @key: bytes of its key
 * @from: bytes of the key where its range begins, if that is another, or 0
 * @to: the key where its range ends, or NULL
 *
 * Return: bytes.
 */
u32 bw_term_size(u32 key, u32 from, const struct bw_want *to)
{
	return ALIGN(sizeof(struct bw_term) + bw_key_tail(key), 8) + bw_key_size(from) +
	       (to ? bw_key_size(to->len) : 0);
}

/**
 * bw_term_fill() - make an index term record
 * @obj: memory, of bw_term_size()
 * @kind: BW_TERM_ADD or BW_TERM_DEL
 * @top: the inner page's newest record
 * @child: where the range leads to now
 * @key: the term's key
 * @from: where the range begins, or NULL: with the key
 * @to: where the range ends, or NULL: nowhere
 *
 * Return: the record.
 */
struct bw_term *bw_term_fill(void *obj, enum bw_kind kind, struct bw_rec *top, u32 child,
			     const struct bw_want *key, const struct bw_want *from,
			     const struct bw_want *to)
{
	u8 *more = (u8 *)obj + ALIGN(sizeof(struct bw_term) + bw_key_tail(key->len), 8);
	struct bw_term *term = obj;
	unsigned long load;

	bw_rec_init(&term->delta.rec, kind, top);
	term->delta.rec.flags |= BW_OWN;
	term->delta.load = child;
	bw_key_set(&term->delta.key, key);
	term->from = &term->delta.key;
	if (from) {
		bw_key_set((struct bw_key *)more, from);
		term->from = (struct bw_key *)more;
		more += bw_key_size(from->len);
	}
	term->to = NULL;
	if (to) {
		bw_key_set((struct bw_key *)more, to);
		term->to = (struct bw_key *)more;
	}
	bw_place(top, key, &term->delta.rec, &load);
	return term;
}

/* A base page of some entries, in a slot of the stock. */
static struct bw_page *bw_build(struct bw_stock *stock, enum bw_slot slot, struct bw_walk *walk,
				const struct bw_frame *frame, unsigned int from,
				unsigned int to, u32 space)
{
	struct bw_sum sum;
	void *obj;

	bw_sum(walk, frame, from, to, &sum);
	obj = bw_stock_get(stock, slot, sum.size + space);
	return obj ? bw_page_fill(obj, stock->size[slot], walk, &sum, frame) : NULL;
}

/*
 * Nothing will lead to a page; but who goes through all ids may have found it, and
 * have consolidated it.
 */
static void bw_unpublish(struct bw_tree *tree, struct bw_stock *stock, enum bw_slot slot, u32 id)
{
	struct bw_rec *top = (struct bw_rec *)xchg(bw_map_entry(tree->map, id), 0);

	bw_stock_take(stock, slot);
	bw_count_chain(tree, top->depth, 0);
	bw_uncharge(tree, top->level, bw_chain_bytes(top));
	bw_chain_retire(tree, top);
}

/* A page of two children.  Its walk is large, and its caller has one on the stack. */
static noinline struct bw_page *
bw_build_root(struct bw_stock *stock, const struct bw_frame *frame, const struct bw_page *page,
	      struct bw_delta *sep)
{
	struct bw_delta first = { .rec.kind = BW_TERM_ADD, .load = stock->id[0] };
	/* Of its base nothing is used. */
	struct bw_walk walk = { .parts = 1, .part[0] = { .base = page, .nr = 2 } };

	sep->load = stock->id[1];
	walk.part[0].delta[0] = &first;
	walk.part[0].delta[1] = sep;
	return bw_build(stock, BW_SLOT_C, &walk, frame, 0, 2, 0);
}

/* The root's content goes to two new pages, and it becomes their parent. */
static int bw_split_root(struct bw_tree *tree, struct bw_stock *stock, struct bw_rec *top,
			 struct bw_walk *walk, unsigned int m, struct bw_delta *sep)
{
	struct bw_frame left = bw_frame_of(top), right = left, above = left;
	struct bw_page *a, *b, *root;
	u8 level = top->level;

	if (!bw_stock_has_ids(stock, 2))
		return -ENOMEM;
	left.high = &sep->key;
	left.right = stock->id[1];
	right.low = &sep->key;
	above.level++;
	a = bw_build(stock, BW_SLOT_A, walk, &left, 0, m, bw_space_of(top));
	b = a ? bw_build(stock, BW_SLOT_B, walk, &right, m, top->nr, bw_space_of(top)) : NULL;
	root = b ? bw_build_root(stock, &above, a, sep) : NULL;
	if (!root)
		return -ENOMEM;

	if (bw_charge_obj(tree, above.level, root) || bw_charge_obj(tree, level, a) ||
	    bw_charge_obj(tree, level, b)) {
		bw_uncharge_obj(tree, above.level, root);
		bw_uncharge_obj(tree, level, a);
		bw_uncharge_obj(tree, level, b);
		return -EDQUOT;
	}
	bw_publish(tree, stock->id[0], &a->rec);
	bw_publish(tree, stock->id[1], &b->rec);
	kvt_park_loose(KVT_PARK_BW_ROOT_BUILT);
	if (!bw_swap(tree, BW_ROOT, top, &root->rec, BW_NR_SPLIT)) {
		bw_unpublish(tree, stock, BW_SLOT_A, stock->id[0]);
		bw_unpublish(tree, stock, BW_SLOT_B, stock->id[1]);
		bw_uncharge_obj(tree, above.level, root);
		return 0;
	}
	bw_uncharge(tree, level, bw_chain_bytes(top));
	bw_chain_retire(tree, top);
	bw_stock_take(stock, BW_SLOT_A);
	bw_stock_take(stock, BW_SLOT_B);
	bw_stock_take(stock, BW_SLOT_C);
	bw_stock_take_ids(stock, 2);
	bw_count_page(tree, level, 1);
	bw_count_page(tree, above.level, 1);
	bw_stat(tree, KVTREE_STAT_ROOT_GROW);
	return 0;
}

static u32 bw_post_size(const struct bw_want *low, const struct bw_page *page)
{
	struct bw_want high;

	if (!page->rec.high)
		return bw_term_size(low->len, 0, NULL);
	high = bw_want_key(page->rec.high);
	return bw_term_size(low->len, 0, &high);
}

/* The upper entries go to a new right sibling, which is then to be posted. */
static int bw_split_page(struct bw_tree *tree, struct bw_stock *stock, struct bw_help *help,
			 struct bw_rec *top, struct bw_walk *walk, unsigned int m,
			 struct bw_delta *sep)
{
	const struct bw_want low = bw_want_key(&sep->key);
	struct bw_frame frame = bw_frame_of(top);
	struct bw_split *split;
	struct bw_page *page;

	if (!bw_stock_has_ids(stock, 1))
		return -ENOMEM;
	frame.low = &sep->key;
	page = bw_build(stock, BW_SLOT_A, walk, &frame, m, top->nr, bw_space_of(top));
	if (!page)
		return -ENOMEM;
	split = bw_stock_get(stock, BW_SLOT_B, sizeof(*split) + bw_key_tail(low.len));
	/* What the second step will need, unless the parent changes much meanwhile. */
	if (!split || !bw_stock_get(stock, BW_SLOT_C, bw_post_size(&low, page)))
		return -ENOMEM;

	bw_rec_init(&split->rec, BW_SPLIT, top);
	split->rec.flags |= BW_OWN;
	bw_key_set(&split->sep, &low);
	split->rec.high = &split->sep;
	split->rec.right = stock->id[0];
	split->rec.nr = m;
	split->rec.bytes -= min(split->rec.bytes, page->rec.bytes);
	if (bw_charge_obj(tree, top->level, page))
		return -EDQUOT;
	bw_publish(tree, stock->id[0], &page->rec);
	kvt_park_loose(KVT_PARK_BW_SPLIT_BUILT);
	if (!bw_swap(tree, help->id, top, &split->rec, BW_NR_SPLIT)) {
		bw_unpublish(tree, stock, BW_SLOT_A, stock->id[0]);
		return 0;
	}
	bw_stock_take(stock, BW_SLOT_A);
	bw_stock_take(stock, BW_SLOT_B);
	bw_stock_take_ids(stock, 1);
	bw_count_page(tree, top->level, 1);
	bw_stat(tree, top->level ? KVTREE_STAT_SPLIT_INNER : KVTREE_STAT_SPLIT_LEAF);
	kvt_park_loose(KVT_PARK_BW_SPLIT_HALF);
	*help = (struct bw_help) { .kind = BW_HELP_POST, .level = top->level, .want = low };
	return BW_NEEDS_HELP;
}

/*
 * Does the page's first key lead to it?  Nobody else may split a page that is published and
 * waits for the exchange by which something leads to it: if that loses, the page goes, but
 * what was split off would stay.
 */
static bool bw_is_reached(struct bw_tree *tree, u32 id, const struct bw_rec *top)
{
	const struct bw_want low = bw_want_key(bw_page_low(top->base));
	struct bw_at at;

	return id == BW_ROOT || (!bw_seek(tree, &low, top->level, BW_SEEK_READ, &at) &&
				 at.id == id && at.top == top);
}

/**
 * bw_tidy_step() - consolidate a page, or split it
 * @tree: the tree
 * @stock: memory
 * @help: the page's id
 *
 * Context: under rcu_read_lock().
 *
 * Return: 0: done, or overtaken; BW_NEEDS_HELP: split, and the parent is to know of it;
 * -ENOMEM: the stock says what it lacks; -EDQUOT.
 */
int bw_tidy_step(struct bw_tree *tree, struct bw_stock *stock, struct bw_help *help)
{
	struct bw_rec *top = bw_load_any(tree, help->id);
	struct bw_frame frame;
	struct bw_delta *sep;
	struct bw_walk walk;
	struct bw_sum sum;
	unsigned int m;
	bool too_long;

	/* It may be another page by now, or none. */
	if (!top || top->kind == BW_REMOVE)
		return 0;
	bw_walk_init(&walk, top);
	frame = bw_frame_of(top);
	bw_sum(&walk, &frame, 0, top->nr, &sum);
	/*
	 * A page is not split for what must not be refused, as a split can be; nor if a record
	 * waits for room, as a split has failed then for want of memory or ids.
	 */
	too_long = sum.bytes > tree->page_size && top->nr >= BW_SPLIT_MIN && !stock->pass &&
		   (!help->space || sum.bytes >= BW_LONG * tree->page_size);
	/*
	 * Nor while one of its terms is about to go, so that is to be finished first.  But who
	 * is about to do that may need room for it.
	 */
	if (too_long && top->flags & BW_MARKED) {
		if (top->depth < BW_CHAIN_MAX - BW_CHAIN_SPARE)
			return bw_help_finish(stock, help, top);
		too_long = false;
	}
	if (!too_long)
		return top->depth || help->space ?
		       bw_consolidate(tree, stock, help, top, &walk, &sum) : 0;
	if (!bw_is_reached(tree, help->id, top))
		return 0;
	m = bw_split_at(top, &walk);
	sep = bw_split_key(stock, &walk, m, top->level);
	if (!sep)
		return -ENOMEM;
	if (help->id == BW_ROOT)
		return bw_split_root(tree, stock, top, &walk, m, sep);
	return bw_split_page(tree, stock, help, top, &walk, m, sep);
}
KVT_EXPORT_FOR_TESTS(bw_tidy_step);

/**
 * bw_tidy() - consolidate a page, or split it and tell its parent
 * @tree: the tree
 * @id: the page
 * @space: bytes that a record beside it will take, or 0 for what is usual
 * @keeps: that record brings no new entry
 * @gfp: for memory
 *
 * Context: as bw_run().
 *
 * Return: 0, also if another was first; -ENOMEM, -EDQUOT or -EBUSY.
 */
int bw_tidy(struct bw_tree *tree, u32 id, u32 space, bool keeps, gfp_t gfp)
{
	struct bw_help help = {
		.kind = BW_HELP_TIDY,
		.id = id,
		.space = space,
		.keeps = keeps,
	};

	return bw_do_help(tree, &help, gfp);
}
KVT_EXPORT_FOR_TESTS(bw_tidy);

/**
 * bw_post_step() - tell a parent of a page that it does not know
 * @tree: the tree
 * @stock: memory
 * @help: a key of the page, and its level
 *
 * Between the load of the parent and its exchange the page is found to be there.
 * Had its removal begun since, or been completed before, the parent would have
 * changed, as a page is removed only after its parent has marked its term.
 *
 * Context: under rcu_read_lock().
 *
 * Return: 0: done; as bw_tidy_step().
 */
int bw_post_step(struct bw_tree *tree, struct bw_stock *stock, struct bw_help *help)
{
	const struct bw_want want = help->want;
	struct bw_want low, high;
	struct bw_rec *child, *right;
	struct bw_rec place = { };
	struct bw_term *term;
	unsigned long load;
	struct bw_at at;
	u32 id, right_id;
	bool there;
	void *obj;
	int ret;

	ret = bw_seek(tree, &want, help->level + 1, BW_SEEK_STEP, &at);
	if (ret) {
		*help = ret == BW_NEEDS_HELP ? at.help : *help;
		return ret == -ENOENT ? 0 : ret;
	}
	id = bw_inner_find(at.top, &want, false);
	child = bw_load(tree, id);
	if (child->kind == BW_REMOVE)
		return bw_help_remove(help, child, &want);
	if (!child->high || bw_cmp(&want, child->high) < 0)
		return 0;
	right_id = child->right;
	right = bw_load(tree, right_id);
	if (right->kind == BW_REMOVE)
		return bw_help_remove(help, right, &want);
	if (at.top->depth >= BW_CHAIN_INNER)
		return bw_help_tidy(help, at.id);
	low = bw_want_key(child->high);
	there = bw_place(at.top, &low, &place, &load);
	/*
	 * The term of a page that was merged, and its left sibling has been split where
	 * that began: before another takes its place, the merge is to be finished.
	 */
	if (there && load != right_id) {
		help->kind = BW_HELP_FINISH;
		return at.top->flags & BW_MARKED ? BW_NEEDS_HELP : -EAGAIN;
	}
	if (right->high)
		high = bw_want_key(right->high);
	obj = bw_stock_get(stock, BW_SLOT_C, bw_term_size(low.len, 0, right->high ? &high : NULL));
	if (!obj)
		return -ENOMEM;
	term = bw_term_fill(obj, BW_TERM_ADD, at.top, right_id, &low, NULL,
			    right->high ? &high : NULL);
	term->delta.rec.nr += !there;
	term->delta.rec.bytes += sizeof(u64) + sizeof(u32) + bw_key_tail(low.len);
	kvt_park_loose(KVT_PARK_BW_POST_BUILT);
	if (!bw_swap(tree, at.id, at.top, &term->delta.rec, BW_NR_POST))
		return -EAGAIN;
	bw_stock_take(stock, BW_SLOT_C);
	kvt_park_loose(KVT_PARK_BW_POSTED);
	return 0;
}
