// SPDX-License-Identifier: GPL-2.0
/* Descent: finding the page of a level that covers a key. */
#include <linux/err.h>

#include "compat.h"
#include "find.h"
#include "tree.h"

/* Charge one page to a budget, which never falls below zero. */
static bool bw_spend(unsigned int *budget)
{
	if (!*budget)
		return false;
	--*budget;
	return true;
}

enum bw_frozen {
	BW_FROZEN_TRUE,		/* the chain below the record is still valid */
	BW_FROZEN_MOVED,	/* it is part of the page at->id now */
	BW_FROZEN_STALE,	/* restart from the root */
};

/*
 * A reader has reached a page that is being removed.  The frozen chain is valid until the
 * left sibling takes it over, which changes the sibling's entry.  So the read takes effect
 * when that entry is loaded.
 */
static enum bw_frozen bw_read_frozen(struct bw_tree *tree, struct bw_at *at,
				     const struct bw_want *want, unsigned int *budget)
{
	struct bw_remove *remove = bw_remove(at->top);
	struct bw_want low = bw_want_key(&remove->low);
	struct bw_rec *top;
	u32 id = remove->left;
	int diff;

	for (;;) {
		if (!bw_spend(budget))
			return BW_FROZEN_STALE;
		top = bw_load(tree, id);
		if (top->kind == BW_REMOVE)
			return BW_FROZEN_STALE;
		if (id == BW_ROOT && top->level != remove->rec.level)
			break;
		if (top->level != remove->rec.level)
			return BW_FROZEN_STALE;
		diff = top->high ? bw_cmp(&low, top->high) : -1;
		if (diff < 0 || (!diff && top->right != at->id)) {
			at->id = id;
			return BW_FROZEN_MOVED;
		}
		if (!diff)
			break;
		id = top->right;
	}
	/* The root is its parent: the page is about to become the root. */
	if (id == BW_ROOT && (top->level != remove->rec.level + 1 ||
			      bw_inner_find(top, want, false) != at->id))
		return BW_FROZEN_STALE;
	at->top = remove->rec.next;
	at->guard_id = id;
	at->guard = top;
	return BW_FROZEN_TRUE;
}

static int bw_needs(struct bw_at *at, enum bw_help_kind kind, u8 level,
		    const struct bw_want *want)
{
	at->help = (struct bw_help) { .kind = kind, .level = level, .want = *want };
	return BW_NEEDS_HELP;
}

static __always_inline void bw_at_set(struct bw_at *at, struct bw_rec *top)
{
	at->guard_id = at->id;
	at->guard = top;
	at->top = top;
}

/* The chain and the base of a leaf will be read. */
static __always_inline void bw_prefetch_found(const struct bw_rec *top)
{
	if (!top->depth || top->level)
		return;
	bw_prefetch_chain(top);
	bw_prefetch(&top->base->rec);
}

/**
 * bw_seek_from() - find the page of a level that covers a key, from a given page on
 * @tree: the tree
 * @from: the page: its first key is not greater than @want, and it was found in the same RCU
 *	read section, so that its id has not been reused
 * @want: the key
 * @level: the level
 * @mode: kind of caller
 * @at: to be filled
 *
 * Context: under rcu_read_lock(); readers in any context.
 *
 * Return: 0; -ENOENT: the tree has fewer levels; -EBUSY: the budget is spent;
 * BW_NEEDS_HELP: only for writers, see @at->help.
 */
int bw_seek_from(struct bw_tree *tree, u32 from, const struct bw_want *want, u8 level,
		 enum bw_seek_mode mode, struct bw_at *at)
{
	bool before = mode == BW_SEEK_BEFORE, reader = mode <= BW_SEEK_BEFORE;
	unsigned int budget = BW_READ_BUDGET;
	struct bw_rec *top;
	bool leaf;
	int diff;

restart:
	at->id = from;
	at->above = NULL;
	leaf = false;
	while (bw_spend(&budget)) {
		kvt_park_loose(KVT_PARK_BW_SEEK);
		top = bw_load(tree, at->id);
		bw_prefetch(top);
		if (leaf && mode == BW_SEEK_SCAN)
			bw_prefetch_rest(top, tree->page_size);
		bw_at_set(at, top);
		if (at->id == BW_ROOT && top->level < level)
			return -ENOENT;
		if (unlikely(top->kind == BW_REMOVE)) {
			if (!reader) {
				at->help = bw_help_removal(top, want);
				return BW_NEEDS_HELP;
			}
			switch (bw_read_frozen(tree, at, want, &budget)) {
			case BW_FROZEN_MOVED:
				continue;
			case BW_FROZEN_STALE:
				bw_stat(tree, KVTREE_STAT_READ_RESTART);
				from = BW_ROOT;
				goto restart;
			case BW_FROZEN_TRUE:
				top = at->top;
			}
		}
		if (top->high) {
			diff = bw_cmp(want, top->high);
			if (before ? diff > 0 : diff >= 0) {
				if (!reader && mode != BW_SEEK_LAZY)
					return bw_needs(at, BW_HELP_POST, top->level, want);
				at->id = top->right;
				continue;
			}
		}
		if (top->level == level) {
			bw_prefetch_found(top);
			return 0;
		}
		leaf = top->level == 1;
		at->above_id = at->id;
		at->above = top;
		at->id = bw_inner_find(top, want, before);
		if (mode == BW_SEEK_WRITE && top->has_mark &&
		    bw_marked_child(top) == at->id)
			return bw_needs(at, BW_HELP_FINISH, top->level - 1, want);
	}
	bw_stat(tree, KVTREE_STAT_READ_BUSY);
	return -EBUSY;
}
KVT_EXPORT_FOR_TESTS(bw_seek_from);
