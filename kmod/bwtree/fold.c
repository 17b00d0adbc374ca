// SPDX-License-Identifier: GPL-2.0
/*
 * Pages that have become too short are merged with their right or left neighbour, in four
 * steps.  A root with a single child is replaced by that child, in two steps.
 */
#include <linux/err.h>

#include "compat.h"
#include "swap.h"
#include "tree.h"

/* The longest chain that may become part of another, in records. */
#define BW_CHAIN_FOLD	8

/* A term of an inner page, and its two neighbours. */
struct bw_terms {
	struct bw_ent before, it, after;
	bool has_before, has_it, has_after;
};

/* Find the term of a child. */
static void bw_terms_of_child(const struct bw_rec *top, u32 id, struct bw_terms *t)
{
	struct bw_walk walk;
	struct bw_ent ent;

	*t = (struct bw_terms) {};
	bw_walk_init(&walk, top);
	while (bw_walk_next(&walk, &ent)) {
		if (t->has_it) {
			t->after = ent;
			t->has_after = true;
			return;
		}
		if (ent.load == id) {
			t->it = ent;
			t->has_it = true;
		} else {
			t->before = ent;
			t->has_before = true;
		}
	}
}

/* Find the term of the child that covers a key: the last one that is not greater. */
static void bw_terms_of_key(const struct bw_rec *top, const struct bw_want *want,
			    struct bw_terms *t)
{
	struct bw_walk walk;
	struct bw_ent ent;

	*t = (struct bw_terms) {};
	bw_walk_init(&walk, top);
	while (bw_walk_next(&walk, &ent)) {
		if (t->has_it && bw_ent_cmp(want, &ent) < 0) {
			t->after = ent;
			t->has_after = true;
			return;
		}
		t->before = t->it;
		t->has_before = t->has_it;
		t->it = ent;
		t->has_it = true;
	}
}

/*
 * Whether two neighbours are at most half a page together.  Their prefix may be shorter than those
 * that they have now: if a split made them again, this would go on for ever.
 */
static bool bw_fits_half(const struct bw_tree *tree, const struct bw_rec *left,
			 const struct bw_rec *right)
{
	u32 most = tree->page_size / 2, common;
	struct bw_ent first, last;

	if (left->bytes + right->bytes > most)
		return false;
	bw_ent_at(left, 0, &first);
	bw_ent_at(right, right->nr - 1, &last);
	common = bw_ent_common(&first, &last, 0);
	return bw_bytes_with(left, common) + bw_bytes_with(right, common) <= most;
}

/* May two neighbours be merged?  0: no. */
static int bw_may_merge(struct bw_tree *tree, u32 left_id, u32 right_id)
{
	struct bw_rec *left = bw_load(tree, left_id), *right = bw_load(tree, right_id);

	if (left->kind == BW_REMOVE || right->kind == BW_REMOVE)
		return -EAGAIN;
	/* A page that is not posted yet lies between them. */
	if (left->right != right_id)
		return 0;
	/* Pages too short to be split may be merged, however long their keys are. */
	return !left->nr || !right->nr || left->nr + right->nr < BW_SPLIT_MIN ||
	       bw_fits_half(tree, left, right);
}

/**
 * bw_mark_step() - choose a page to be merged with its left sibling, and mark its term
 * @tree: the tree
 * @stock: memory
 * @help: a key of the page or of its right sibling, and their level
 *
 * Context: under rcu_read_lock().
 *
 * Return: 0 if nothing is to be merged; otherwise as bw_tidy_step().
 */
int bw_mark_step(struct bw_tree *tree, struct bw_stock *stock, struct bw_help *help)
{
	const struct bw_want want = help->want;
	struct bw_help finish = *help;
	struct bw_want mark;
	struct bw_frame frame;
	struct bw_terms t;
	struct bw_page *page;
	struct bw_walk walk;
	struct bw_rec *right;
	struct bw_sum sum;
	struct bw_at at;
	int ret;

	ret = bw_step_seek(tree, stock, help, help->level + 1, &at);
	if (ret)
		return ret == -ENOENT ? 0 : ret;
	/* Any key of the parent finds it again. */
	finish.kind = BW_HELP_FINISH;
	if (at.top->has_mark)
		return bw_request(stock, help, &finish);
	if (at.top->nr == 1 && at.id == BW_ROOT) {
		*help = (struct bw_help) { .kind = BW_HELP_COLLAPSE };
		return BW_NEEDS_HELP;
	}
	if (at.top->nr < 2)
		return 0;
	bw_terms_of_key(at.top, &want, &t);
	ret = t.has_before ? bw_may_merge(tree, t.before.load, t.it.load) : 0;
	if (!ret && t.has_after) {
		ret = bw_may_merge(tree, t.it.load, t.after.load);
		t.it = t.after;
	}
	if (ret <= 0)
		return ret;

	right = bw_load(tree, t.it.load);
	if (right->kind == BW_REMOVE)
		return -EAGAIN;
	mark = bw_want_key(bw_page_low(right->base));
	frame = bw_frame_of(at.top);
	frame.mark = &mark;
	bw_walk_init(&walk, at.top);
	bw_sum(&walk, &frame, 0, at.top->nr, &sum);
	page = bw_stock_get(stock, BW_SLOT_PAGE, sum.size);
	if (!page || !bw_stock_get(stock, BW_SLOT_NEXT, bw_key_size(want.len)))
		return -ENOMEM;
	bw_page_fill(page, bw_mem_room(page), &walk, &sum, &frame);
	if (WARN_ON_ONCE(!page->rec.has_mark || !page->marked))
		return 0;
	ret = bw_replace(tree, at.id, at.top, page, stock->pass, BW_NR_MERGE);
	if (ret)
		return ret;
	bw_stock_take(stock, BW_SLOT_PAGE);
	kvt_park_loose(KVT_PARK_BW_MARKED);
	return bw_request(stock, help, &finish);
}
KVT_EXPORT_FOR_TESTS(bw_mark_step);

/* State of the second to fourth step of a merge. */
struct bw_fold {
	struct bw_at parent;
	struct bw_terms t;
	struct bw_rec *page;		/* chain of the page to be removed */
	struct bw_remove *remove;	/* its newest record after the second step */
	struct bw_want low;		/* the page's first key */
	/* Where its term's range ends; NULL: it has no end. */
	const struct bw_ent *to;
	struct bw_ent high;
};

/* Build the record that freezes a page, in a slot of the stock. */
static struct bw_remove *bw_remove_fill(struct bw_tree *tree, struct bw_stock *stock,
					struct bw_rec *top, u32 id, u32 left)
{
	const struct bw_want low = bw_want_key(bw_page_low(top->base));
	struct bw_remove *remove;

	remove = bw_stock_get(stock, BW_SLOT_REMOVE, sizeof(*remove) + bw_key_tail(low.len));
	if (!remove)
		return NULL;
	bw_rec_init(&remove->rec, BW_REMOVE, top);
	remove->rec.own = true;
	remove->id = id;
	remove->left = left;
	remove->map = tree->map;
	remove->merged = false;
	bw_key_set(&remove->low, &low);
	return remove;
}

/*
 * Find the page's present left sibling: a split may have put another page between.
 * -ENOENT: the sibling has already taken the page over; -EAGAIN: the parent has changed.
 */
static int bw_fold_left(struct bw_tree *tree, const struct bw_fold *f, u32 from, struct bw_at *left)
{
	u32 id = f->t.it.load;
	int diff;

	for (left->id = from;; left->id = left->top->right) {
		left->top = bw_load(tree, left->id);
		if (left->top->kind == BW_REMOVE)
			return -EAGAIN;
		diff = left->top->high ? bw_cmp(&f->low, left->top->high) : -1;
		if (diff < 0 || (!diff && left->top->right != id))
			return -ENOENT;
		if (!diff)
			return 0;
	}
}

/* Must a page's chain be consolidated before a merge? */
static bool bw_fold_is_long(const struct bw_rec *top)
{
	return top->has_merge || top->depth > BW_CHAIN_FOLD;
}

/* Second step: freeze the page. */
static int bw_fold_remove(struct bw_tree *tree, struct bw_stock *stock, struct bw_help *help,
			  struct bw_fold *f)
{
	struct bw_rec *top = f->page;
	struct bw_remove *remove;
	u32 id = f->t.it.load;
	struct bw_at left;
	int ret;

	/* If one of its own terms is marked, that merge must be finished first. */
	if (top->has_mark)
		return bw_help_finish(stock, help, top);
	if (bw_fold_is_long(top))
		return bw_help_tidy(help, id);
	/* Consolidate the left sibling now, as that allocates; no other merge can lengthen it. */
	ret = bw_fold_left(tree, f, f->t.before.load, &left);
	if (ret)
		return -EAGAIN;
	if (bw_fold_is_long(left.top))
		return bw_help_tidy(help, left.id);
	remove = bw_remove_fill(tree, stock, top, id, f->t.before.load);
	if (!remove)
		return -ENOMEM;
	if (!bw_swap(tree, id, top, &remove->rec, BW_NR_MERGE))
		return -EAGAIN;
	bw_stock_take(stock, BW_SLOT_REMOVE);
	f->remove = remove;
	kvt_park_loose(KVT_PARK_BW_REMOVED);
	return 0;
}

/*
 * Third step: the left sibling takes over the page's content, unless it has already.
 * Writers may have lengthened the sibling's chain, which has room for BW_CHAIN_FOLD more.
 */
static int bw_fold_merge(struct bw_tree *tree, struct bw_stock *stock, struct bw_fold *f)
{
	struct bw_remove *remove = f->remove;
	struct bw_merge *merge;
	struct bw_at left;
	int ret;

	ret = bw_fold_left(tree, f, remove->left, &left);
	if (ret)
		return ret == -ENOENT ? 0 : ret;
	merge = bw_stock_get(stock, BW_SLOT_MERGE, sizeof(*merge));
	if (!merge)
		return -ENOMEM;
	bw_rec_init(&merge->rec, BW_MERGE, left.top);
	merge->rec.own = true;
	merge->rec.has_merge = true;
	merge->rec.depth += f->page->depth;
	merge->rec.nr += f->page->nr;
	merge->rec.bytes += f->page->bytes;
	merge->rec.right = f->page->right;
	merge->rec.high = f->page->high;
	merge->other = f->page;
	merge->sep = bw_page_low(f->page->base);
	if (!bw_swap(tree, left.id, left.top, &merge->rec, BW_NR_MERGE))
		return -EAGAIN;
	bw_stock_take(stock, BW_SLOT_MERGE);
	WRITE_ONCE(remove->merged, true);
	kvt_park_loose(KVT_PARK_BW_MERGED);
	return 0;
}

/* Fourth step: remove the term, the last link to the page. */
static int bw_fold_unpost(struct bw_tree *tree, struct bw_stock *stock, struct bw_fold *f)
{
	struct bw_rec *top = f->parent.top;
	struct bw_term *term;
	u8 level = top->level;
	void *obj;

	obj = bw_stock_get(stock, BW_SLOT_TERM, bw_term_size(f->low.len, &f->t.before, f->to));
	if (!obj)
		return -ENOMEM;
	term = bw_term_fill(obj, BW_TERM_DEL, top, f->t.before.load, &f->low, &f->t.before, f->to);
	term->delta.rec.has_mark = false;
	term->delta.rec.nr--;
	term->delta.rec.bytes -= min_t(u32, term->delta.rec.bytes, sizeof(u64) + sizeof(u32));
	if (!bw_swap(tree, f->parent.id, top, &term->delta.rec, BW_NR_MERGE))
		return -EAGAIN;
	bw_stock_take(stock, BW_SLOT_TERM);
	kvt_park_loose(KVT_PARK_BW_UNPOSTED);
	bw_count_page(tree, level - 1, -1);
	bw_stat(tree, KVTREE_STAT_NODE_UNLINK);
	bw_remove_retire(tree, f->remove);
	return 0;
}

/**
 * bw_finish_step() - finish a merge that a parent has marked
 * @tree: the tree
 * @stock: memory
 * @help: a key of the parent, and the level below it
 *
 * Context: under rcu_read_lock().
 *
 * Return: 0 if the merge is complete; otherwise as bw_tidy_step().
 */
int bw_finish_step(struct bw_tree *tree, struct bw_stock *stock, struct bw_help *help)
{
	struct bw_fold f = {};
	int ret;

	ret = bw_step_seek(tree, stock, help, help->level + 1, &f.parent);
	if (ret)
		return ret == -ENOENT ? 0 : ret;
	if (!f.parent.top->has_mark)
		return 0;
	if (f.parent.top->depth >= BW_CHAIN_MAX - BW_CHAIN_SPARE)
		return bw_help_tidy(help, f.parent.id);
	bw_terms_of_child(f.parent.top, bw_marked_child(f.parent.top), &f.t);
	if (WARN_ON_ONCE(!f.t.has_it || !f.t.has_before))
		return 0;
	f.page = bw_load(tree, f.t.it.load);
	if (f.page->kind == BW_REMOVE) {
		f.remove = bw_remove(f.page);
		f.page = f.remove->rec.next;
		f.low = bw_want_key(&f.remove->low);
	} else {
		f.low = bw_want_key(bw_page_low(f.page->base));
	}
	if (f.t.has_after) {
		f.to = &f.t.after;
	} else if (f.parent.top->high) {
		f.high = bw_ent_of_key(f.parent.top->high);
		f.to = &f.high;
	}

	/* Allocate everything first, so that only a change of the parent can stop the merge. */
	if ((!f.remove && !bw_stock_get(stock, BW_SLOT_REMOVE, sizeof(struct bw_remove) +
					bw_key_tail(f.low.len))) ||
	    !bw_stock_get(stock, BW_SLOT_MERGE, sizeof(struct bw_merge)) ||
	    !bw_stock_get(stock, BW_SLOT_TERM, bw_term_size(f.low.len, &f.t.before, f.to)))
		return -ENOMEM;
	ret = f.remove ? 0 : bw_fold_remove(tree, stock, help, &f);
	if (!ret)
		ret = bw_fold_merge(tree, stock, &f);
	return ret ?: bw_fold_unpost(tree, stock, &f);
}

/**
 * bw_collapse_step() - make the root's only child the root
 * @tree: the tree
 * @stock: memory
 * @help: the request
 *
 * Freezes the child, then installs its chain in the root's entry.
 *
 * Context: under rcu_read_lock().
 *
 * Return: 0 if nothing is left to do; otherwise as bw_tidy_step().
 */
int bw_collapse_step(struct bw_tree *tree, struct bw_stock *stock, struct bw_help *help)
{
	struct bw_rec *root = bw_load(tree, BW_ROOT), *child;
	const struct bw_want first = {};
	struct bw_remove *remove;
	u8 level = root->level;
	s64 bytes;
	u32 id;

	if (!level || root->nr != 1 || root->has_mark)
		return 0;
	id = bw_inner_find(root, &first, false);
	kvt_park_loose(KVT_PARK_BW_ROOT_ALONE);
	child = bw_load(tree, id);
	/* As long as the child stays as it is now, the root has no other one. */
	if (bw_load(tree, BW_ROOT) != root)
		return -EAGAIN;
	if (child->kind != BW_REMOVE) {
		/* It has a right sibling that is not posted. */
		if (child->right != BW_ROOT)
			return 0;
		remove = bw_remove_fill(tree, stock, child, id, BW_ROOT);
		if (!remove)
			return -ENOMEM;
		if (!bw_swap(tree, id, child, &remove->rec, BW_NR_MERGE))
			return -EAGAIN;
		bw_stock_take(stock, BW_SLOT_REMOVE);
		kvt_park_loose(KVT_PARK_BW_ROOT_FROZEN);
		child = &remove->rec;
	}
	remove = bw_remove(child);
	bytes = bw_chain_bytes(root);
	if (!bw_swap(tree, BW_ROOT, root, remove->rec.next, BW_NR_MERGE))
		return -EAGAIN;
	bw_uncharge(tree, level, bytes);
	bw_chain_retire(tree, root);
	kvt_park_loose(KVT_PARK_BW_ROOT_TAKEN);
	bw_count_page(tree, level, -1);
	bw_stat(tree, KVTREE_STAT_ROOT_SHRINK);
	bw_remove_retire(tree, remove);
	return 0;
}
