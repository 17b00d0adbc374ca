// SPDX-License-Identifier: GPL-2.0
/* Pages that have become too long are consolidated, or split and posted to the parent. */
#include <linux/err.h>

#include "compat.h"
#include "find.h"
#include "swap.h"
#include "tree.h"

/* A page that cannot be split may grow to this many times the page size. */
#define BW_LONG	8

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

	page = bw_stock_get(stock, BW_SLOT_PAGE, sum->size + space);
	if (!page)
		return -ENOMEM;
	bw_page_fill(page, bw_mem_room(page), walk, sum, &frame);
	kvt_park_loose(KVT_PARK_BW_CONSOLIDATED);
	err = bw_replace(tree, help->id, top, page, stock->pass,
			 BW_NR_CONSOLIDATE);
	if (!err) {
		bw_stock_take(stock, BW_SLOT_PAGE);
		bw_nr_add(tree, BW_NR_FOLDED_RECORDS, depth);
	}
	/* A writer was faster; a later one will consolidate. */
	return err == -EAGAIN ? 0 : err;
}

/* Split in the middle, or near the end at which keys are loaded in order. */
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

/* The shortest key that separates the two halves, in a slot of the stock. */
static struct bw_key *bw_split_key(struct bw_stock *stock, enum bw_slot slot,
				   struct bw_walk *walk, unsigned int m, u8 level)
{
	struct bw_ent before, ent;
	struct bw_key *sep;
	u32 len;

	bw_walk_to(walk, m - 1);
	bw_walk_next(walk, &before);
	bw_walk_next(walk, &ent);
	/* An inner page's first key must be its first child's. */
	len = level ? ent.len : bw_ent_common(&before, &ent, 0) + 1;
	sep = bw_stock_get(stock, slot, bw_key_size(len));
	if (sep)
		bw_ent_key(&ent, len, sep);
	return sep;
}

/* Build a base page of some entries, in a slot of the stock. */
static struct bw_page *bw_build(struct bw_stock *stock, enum bw_slot slot, struct bw_walk *walk,
				const struct bw_frame *frame, unsigned int from,
				unsigned int to, u32 space)
{
	struct bw_sum sum;
	void *obj;

	bw_sum(walk, frame, from, to, &sum);
	obj = bw_stock_get(stock, slot, sum.size + space);
	return obj ? bw_page_fill(obj, bw_mem_room(obj), walk, &sum, frame) : NULL;
}

/*
 * Take back a page that nothing leads to.  A thread that goes through all ids may have
 * found and consolidated it, so its newest record need not be the one that was published.
 */
static void bw_unpublish(struct bw_tree *tree, struct bw_stock *stock, enum bw_slot slot, u32 id)
{
	struct bw_rec *top = (struct bw_rec *)xchg(bw_map_entry(tree->map, id), 0);

	bw_stock_take(stock, slot);
	bw_count_chain(tree, top->depth, 0);
	bw_uncharge(tree, top->level, bw_chain_bytes(top));
	bw_chain_retire(tree, top);
}

/* Build a root with two children: one for the keys below @sep, one for the others. */
static struct bw_page *bw_build_root(struct bw_stock *stock, const struct bw_frame *frame,
				     const struct bw_key *sep)
{
	struct bw_ent term[2] = { { }, bw_ent_of_key(sep) };
	struct bw_sum sum;
	void *obj;

	term[0].load = stock->id[0];
	term[1].load = stock->id[1];
	bw_sum_pair(term, frame, &sum);
	obj = bw_stock_get(stock, BW_SLOT_PAGE, sum.size);
	return obj ? bw_page_fill_pair(obj, bw_mem_room(obj), term, &sum, frame) : NULL;
}

/* Move the root's content to two new pages, and make it their parent. */
static int bw_split_root(struct bw_tree *tree, struct bw_stock *stock, struct bw_rec *top,
			 struct bw_walk *walk, unsigned int m, const struct bw_key *sep)
{
	struct bw_frame left = bw_frame_of(top), right = left, above = left;
	struct bw_page *a, *b, *root;
	u8 level = top->level;

	if (!bw_stock_has_ids(stock, 2))
		return -ENOMEM;
	left.high = sep;
	left.right = stock->id[1];
	right.low = sep;
	above.level++;
	a = bw_build(stock, BW_SLOT_LOWER, walk, &left, 0, m, bw_space_of(top));
	b = a ? bw_build(stock, BW_SLOT_UPPER, walk, &right, m, top->nr, bw_space_of(top)) : NULL;
	root = b ? bw_build_root(stock, &above, sep) : NULL;
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
		bw_unpublish(tree, stock, BW_SLOT_LOWER, stock->id[0]);
		bw_unpublish(tree, stock, BW_SLOT_UPPER, stock->id[1]);
		bw_uncharge_obj(tree, above.level, root);
		return 0;
	}
	bw_uncharge(tree, level, bw_chain_bytes(top));
	bw_chain_retire(tree, top);
	bw_stock_take(stock, BW_SLOT_LOWER);
	bw_stock_take(stock, BW_SLOT_UPPER);
	bw_stock_take(stock, BW_SLOT_PAGE);
	bw_touch(tree->map, stock->id[0]);
	bw_touch(tree->map, stock->id[1]);
	bw_stock_take_ids(stock, 2);
	bw_count_page(tree, level, 1);
	bw_count_page(tree, above.level, 1);
	bw_stat(tree, KVTREE_STAT_ROOT_GROW);
	return 0;
}

/* Bytes of the term of a page from @low to @to, which is NULL for the last page. */
static u32 bw_post_size(const struct bw_want *low, const struct bw_key *to)
{
	struct bw_ent high;

	if (!to)
		return bw_term_size(low->len, NULL, NULL);
	high = bw_ent_of_key(to);
	return bw_term_size(low->len, NULL, &high);
}

/*
 * Move the entries from @m on to a new right sibling, which must then be posted.  The walk has @nr
 * of them: all those of the page, or more.
 */
static int bw_split_page(struct bw_tree *tree, struct bw_stock *stock, struct bw_help *help,
			 struct bw_rec *top, struct bw_walk *walk, unsigned int m, unsigned int nr,
			 const struct bw_key *sep)
{
	const struct bw_want low = bw_want_key(sep);
	struct bw_frame frame = bw_frame_of(top);
	bool ids = bw_stock_has_ids(stock, 1);
	struct bw_split *split;
	struct bw_page *page;
	void *term;

	split = bw_stock_get(stock, BW_SLOT_SPLIT, sizeof(*split) + bw_key_tail(low.len));
	/* Memory for the second step, unless the parent changes too much before that. */
	term = bw_stock_get(stock, BW_SLOT_TERM, bw_post_size(&low, top->high));
	frame.low = sep;
	page = bw_build(stock, BW_SLOT_UPPER, walk, &frame, m, nr, bw_space_of(top));
	if (!ids || !split || !term || !page)
		return -ENOMEM;

	bw_rec_init(&split->rec, BW_SPLIT, top);
	split->rec.own = true;
	bw_key_set(&split->sep, &low);
	split->rec.high = &split->sep;
	split->rec.right = stock->id[0];
	split->rec.nr = m;
	if (m < top->nr)
		split->rec.bytes -= min(split->rec.bytes, page->rec.bytes);
	if (bw_charge_obj(tree, top->level, page))
		return -EDQUOT;
	bw_publish(tree, stock->id[0], &page->rec);
	kvt_park_loose(KVT_PARK_BW_SPLIT_BUILT);
	if (!bw_swap(tree, help->id, top, &split->rec, BW_NR_SPLIT)) {
		bw_unpublish(tree, stock, BW_SLOT_UPPER, stock->id[0]);
		return 0;
	}
	bw_stock_take(stock, BW_SLOT_UPPER);
	bw_stock_take(stock, BW_SLOT_SPLIT);
	bw_touch(tree->map, stock->id[0]);
	bw_stock_take_ids(stock, 1);
	bw_count_page(tree, top->level, 1);
	bw_stat(tree, top->level ? KVTREE_STAT_SPLIT_INNER : KVTREE_STAT_SPLIT_LEAF);
	kvt_park_loose(KVT_PARK_BW_SPLIT_HALF);
	*help = (struct bw_help) { .kind = BW_HELP_POST, .level = top->level, .want = low };
	return BW_NEEDS_HELP;
}

/* Descend to a page as a writer does, by the page's first key. */
static int bw_split_seek(struct bw_tree *tree, struct bw_stock *stock, struct bw_help *help,
			 const struct bw_key *low, u8 level, struct bw_at *at)
{
	const struct bw_want want = bw_want_key(low);
	int ret = bw_seek(tree, &want, level, BW_SEEK_WRITE, at);

	return ret == BW_NEEDS_HELP ? bw_request(stock, help, &at->help) : ret;
}

/*
 * May a page be split?  A page that is published, but not yet linked, must not be split by
 * another thread: if the exchange that links it fails, the page is freed, and the page split
 * off would remain.
 *
 * The parents must lead to the page and to its right sibling.  The second step of a split can
 * fail, or wait for memory: without this condition, readers might have to pass any number of
 * pages that no parent knows.
 *
 * Returns 0, -ENOENT: nothing leads to the page; or as bw_tidy_step().
 */
static int bw_may_split(struct bw_tree *tree, struct bw_stock *stock, struct bw_help *help,
			const struct bw_rec *top)
{
	struct bw_at at;
	int ret;

	if (help->id == BW_ROOT)
		return 0;
	ret = bw_split_seek(tree, stock, help, bw_page_low(top->base), top->level, &at);
	if (ret)
		return ret;
	if (at.id != help->id || at.top != top)
		return -ENOENT;
	return top->high ? bw_split_seek(tree, stock, help, top->high, top->level, &at) : 0;
}

/**
 * bw_tidy_step() - consolidate a page, or split it
 * @tree: the tree
 * @stock: memory
 * @help: the page's id
 *
 * Context: under rcu_read_lock().
 *
 * Return: 0: done, or another thread was first; BW_NEEDS_HELP: @help is what must be done
 * next, to tell the parent after a split, or before one; -ENOMEM, when the stock has noted
 * what it lacks; -EDQUOT; -EBUSY.
 */
int bw_tidy_step(struct bw_tree *tree, struct bw_stock *stock, struct bw_help *help)
{
	struct bw_rec *top = bw_load_any(tree, help->id);
	struct bw_frame frame;
	const struct bw_key *sep;
	enum bw_slot slot;
	struct bw_walk walk;
	struct bw_sum sum;
	unsigned int m;
	bool too_long;
	int ret;

	/* The id may have been freed and reused. */
	if (!top || top->kind == BW_REMOVE)
		return 0;
	bw_walk_init(&walk, top);
	frame = bw_frame_of(top);
	bw_sum(&walk, &frame, 0, top->nr, &sum);
	/*
	 * A split can be refused: do not split for a caller that must succeed, nor if a record
	 * waits for room: then a split has already failed for lack of memory or ids.
	 */
	too_long = sum.bytes > tree->page_size && top->nr >= BW_SPLIT_MIN && !stock->pass &&
		   (!help->space || sum.bytes >= BW_LONG * tree->page_size);
	/*
	 * A page with a marked term is not split either: finish that merge first.  The merge
	 * itself may need room in the chain; then consolidate.
	 */
	if (too_long && top->has_mark) {
		if (top->depth < BW_CHAIN_MAX - BW_CHAIN_SPARE)
			return bw_help_finish(stock, help, top);
		too_long = false;
	}
	if (!too_long)
		return top->depth || help->space ?
		       bw_consolidate(tree, stock, help, top, &walk, &sum) : 0;
	ret = bw_may_split(tree, stock, help, top);
	if (ret)
		return ret == -ENOENT ? 0 : ret;
	m = bw_split_at(top, &walk);
	/* A page that is split off must be posted next, by this key. */
	slot = help->id == BW_ROOT ? BW_SLOT_SEP : BW_SLOT_NEXT;
	sep = bw_split_key(stock, slot, &walk, m, top->level);
	if (!sep)
		return -ENOMEM;
	if (help->id == BW_ROOT)
		return bw_split_root(tree, stock, top, &walk, m, sep);
	return bw_split_page(tree, stock, help, top, &walk, m, top->nr, sep);
}
KVT_EXPORT_FOR_TESTS(bw_tidy_step);

/**
 * bw_extend() - replace a page by one with more entries
 * @tree: the tree
 * @stock: memory
 * @help: the page's id
 * @top: the page, a leaf without a chain
 * @walk: its entries and the new ones
 * @sum: of those that the new page has
 *
 * Context: under rcu_read_lock().
 *
 * Return: 0; -EAGAIN: another thread was first; -ENOMEM, when the stock has noted what it lacks;
 * -EDQUOT.
 */
int bw_extend(struct bw_tree *tree, struct bw_stock *stock, struct bw_help *help,
	      struct bw_rec *top, struct bw_walk *walk, const struct bw_sum *sum)
{
	struct bw_frame frame = bw_frame_of(top);
	struct bw_page *page;
	int err;

	page = bw_stock_get(stock, BW_SLOT_PAGE, sum->size + BW_SPACE_LEAF);
	if (!page)
		return -ENOMEM;
	bw_page_fill(page, bw_mem_room(page), walk, sum, &frame);
	err = bw_replace(tree, help->id, top, page, false, BW_NR_CONSOLIDATE);
	if (!err)
		bw_stock_take(stock, BW_SLOT_PAGE);
	return err;
}

/**
 * bw_split_off() - split a full page where new keys belong
 * @tree: the tree
 * @stock: memory
 * @help: the page's id; then what must be done next
 * @top: the page, a leaf without a chain, and not the root
 * @walk: its entries, and perhaps new ones after them
 * @m: how many stay, at least 1; all of them if there are new ones
 * @nr: how many entries the walk has
 * @done: set if the page was split
 *
 * Context: under rcu_read_lock().
 *
 * Return: BW_NEEDS_HELP: @help is what must be done next, with its key in the stock; 0: another
 * thread was first; -ENOMEM, when the stock has noted what it lacks; -EDQUOT; -EBUSY.
 */
int bw_split_off(struct bw_tree *tree, struct bw_stock *stock, struct bw_help *help,
		 struct bw_rec *top, struct bw_walk *walk, unsigned int m, unsigned int nr,
		 bool *done)
{
	const struct bw_key *sep;
	int ret;

	*done = false;
	ret = bw_may_split(tree, stock, help, top);
	if (ret)
		return ret == -ENOENT ? 0 : ret;
	sep = bw_split_key(stock, BW_SLOT_NEXT, walk, m, top->level);
	if (!sep)
		return -ENOMEM;
	ret = bw_split_page(tree, stock, help, top, walk, m, nr, sep);
	*done = ret == BW_NEEDS_HELP;
	return ret;
}

/* Insert the term of a page that begins at @low into its parent, or replace it if @there. */
static int bw_post_term(struct bw_tree *tree, struct bw_stock *stock, const struct bw_at *at,
			u32 id, const struct bw_rec *page, const struct bw_want *low, bool there)
{
	struct bw_ent high, *end = NULL;
	struct bw_term *term;
	void *obj;

	if (page->high) {
		high = bw_ent_of_key(page->high);
		end = &high;
	}
	obj = bw_stock_get(stock, BW_SLOT_TERM, bw_term_size(low->len, NULL, end));
	if (!obj)
		return -ENOMEM;
	term = bw_term_fill(obj, BW_TERM_ADD, at->top, id, low, NULL, end);
	term->delta.rec.nr += !there;
	term->delta.rec.bytes += sizeof(u64) + sizeof(u32) + bw_key_tail(low->len);
	kvt_park_loose(KVT_PARK_BW_POST_BUILT);
	if (!bw_swap(tree, at->id, at->top, &term->delta.rec, BW_NR_POST))
		return -EAGAIN;
	bw_stock_take(stock, BW_SLOT_TERM);
	kvt_park_loose(KVT_PARK_BW_POSTED);
	return 0;
}

/**
 * bw_post_step() - insert the term of a page that was split off into its parent
 * @tree: the tree
 * @stock: memory
 * @help: a key of the page, and its level
 *
 * This finds the page between the load and the exchange of the parent.  A page is removed
 * only after the parent has marked its term: if its removal had begun, or ended, in
 * between, the parent would have changed, and the exchange would fail.
 *
 * Context: under rcu_read_lock().
 *
 * Return: 0 if the parent knows the page; otherwise as bw_tidy_step().
 */
int bw_post_step(struct bw_tree *tree, struct bw_stock *stock, struct bw_help *help)
{
	const struct bw_want want = help->want;
	struct bw_help first = *help;
	struct bw_rec *child, *right;
	struct bw_rec place = { };
	struct bw_want low;
	unsigned long load;
	struct bw_at at;
	u32 id, right_id;
	bool there;
	int ret;

	ret = bw_step_seek(tree, stock, help, help->level + 1, &at);
	if (ret)
		return ret == -ENOENT ? 0 : ret;
	id = bw_inner_find(at.top, &want, false);
	child = bw_load(tree, id);
	if (child->kind == BW_REMOVE) {
		first = bw_help_removal(child, &want);
		return bw_request(stock, help, &first);
	}
	if (!child->high || bw_cmp(&want, child->high) < 0)
		return 0;
	right_id = child->right;
	right = bw_load(tree, right_id);
	if (right->kind == BW_REMOVE) {
		first = bw_help_removal(right, &want);
		return bw_request(stock, help, &first);
	}
	if (at.top->depth >= BW_CHAIN_INNER)
		return bw_help_tidy(help, at.id);
	low = bw_want_key(child->high);
	there = bw_place(at.top, &low, &place, &load);
	/*
	 * The term belongs to a page that was merged before its left sibling was split at the
	 * same key: finish the merge before replacing the term.
	 */
	if (there && load != right_id) {
		first.kind = BW_HELP_FINISH;
		return at.top->has_mark ? bw_request(stock, help, &first) : -EAGAIN;
	}
	return bw_post_term(tree, stock, &at, right_id, right, &low, there);
}
