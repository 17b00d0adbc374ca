// SPDX-License-Identifier: GPL-2.0
/*
 * Changes of structure go in steps.  A step looks at the tree anew, in an RCU read
 * section of its own, and does what is to be done next, if it still is; so whoever
 * comes by can do it, and a step that was overtaken is just done again.  A step that
 * lacks memory says so, before it has changed anything, and is done again with it.
 */
#include <linux/err.h>
#include <linux/gfp.h>
#include <linux/sched.h>

#include "../compat.h"
#include "bwtree.h"

/* Tries of a step by somebody who may not sleep. */
#define BW_ATOMIC_TRIES	32
/* How deep steps wait for each other before everything is looked at anew. */
#define BW_STEPS_DEEP	6
/* Steps in a row that somebody does who helps. */
#define BW_STEPS_MAX	64

/**
 * bw_run() - do a step until it is done
 * @tree: the tree
 * @fn: the step
 * @help: what it is about; what it needs first if it returns BW_NEEDS_HELP
 * @stock: what is left in it is the caller's
 *
 * Context: outside of RCU read sections; sleeps if the stock's gfp allows it.
 *
 * Return: what the step returned; -ENOMEM, -EDQUOT; -EBUSY, only if it may not
 * sleep.
 */
int bw_run(struct bw_tree *tree, bw_step_fn fn, struct bw_help *help, struct bw_stock *stock)
{
	bool may_sleep = gfpflags_allow_blocking(stock->gfp);
	unsigned int tries = 0;
	int ret;

	for (;;) {
		stock->want = BW_SLOTS;
		stock->want_ids = 0;
		rcu_read_lock();
		ret = fn(tree, stock, help);
		rcu_read_unlock();
		if (ret == -ENOMEM) {
			ret = bw_stock_fill(tree, stock);
			if (ret)
				return ret;
		} else if (ret != -EAGAIN) {
			return ret;
		}
		if (may_sleep)
			cond_resched();
		else if (++tries == BW_ATOMIC_TRIES)
			return -EBUSY;
	}
}
KVT_EXPORT_FOR_TESTS(bw_run);

static bw_step_fn bw_step_of(enum bw_help_kind kind)
{
	switch (kind) {
	case BW_HELP_POST:
		return bw_post_step;
	case BW_HELP_FINISH:
		return bw_finish_step;
	case BW_HELP_COLLAPSE:
		return bw_collapse_step;
	case BW_HELP_FOLD:
		return bw_mark_step;
	default:
		return bw_tidy_step;
	}
}

/* Merges make the tree smaller, and so the store: its limit does not refuse them. */
static bool bw_help_passes(const struct bw_help *help)
{
	return help->kind == BW_HELP_TIDY ? help->keeps : help->kind != BW_HELP_POST;
}

/**
 * bw_do_help() - finish a change of structure, or what it is waiting for
 * @tree: the tree
 * @help: what stands in the way
 * @gfp: for its memory
 *
 * Context: as bw_run().
 *
 * Return: 0: look again; -ENOMEM, -EDQUOT or -EBUSY.
 */
int bw_do_help(struct bw_tree *tree, const struct bw_help *help, gfp_t gfp)
{
	const struct bw_stock empty = { .gfp = gfp, .pass = bw_help_passes(help) };
	struct bw_stock stock[BW_STEPS_DEEP];
	struct bw_help todo[BW_STEPS_DEEP];
	unsigned int steps, deep = 0;
	struct bw_help first;
	int ret = 0;

	todo[0] = *help;
	stock[0] = empty;
	for (steps = 0; steps < BW_STEPS_MAX; steps++) {
		first = todo[deep];
		ret = bw_run(tree, bw_step_of(first.kind), &first, &stock[deep]);
		if (ret == BW_NEEDS_HELP && deep + 1 < BW_STEPS_DEEP) {
			/* Its key may stand in the stock of the step that needs it. */
			todo[++deep] = first;
			stock[deep] = empty;
			/* A split has got ready what its second step needs. */
			if (todo[deep - 1].kind == BW_HELP_TIDY)
				bw_stock_move(&stock[deep], &stock[deep - 1], BW_SLOT_C);
			continue;
		}
		if (ret)
			break;
		bw_stock_drop(tree, &stock[deep]);
		if (!deep--)
			return 0;
	}
	do {
		bw_stock_drop(tree, &stock[deep]);
	} while (deep--);
	/* What was begun may be left half done.  The limit will refuse it again. */
	if (ret != -EDQUOT)
		bw_tidy_later(tree);
	return ret == BW_NEEDS_HELP ? 0 : ret;
}

/**
 * bw_clear_way() - finish all changes of structure on the way to a key
 * @tree: the tree
 * @want: the key, that stays
 * @level: where the way ends
 * @gfp: for memory
 *
 * Context: as bw_run().
 *
 * Return: 0, -ENOENT: there is no such level; -ENOMEM, -EDQUOT or -EBUSY.
 */
int bw_clear_way(struct bw_tree *tree, const struct bw_want *want, u8 level, gfp_t gfp)
{
	struct bw_at at;
	int ret;

	for (;;) {
		rcu_read_lock();
		ret = bw_seek(tree, want, level, BW_SEEK_WRITE, &at);
		rcu_read_unlock();
		if (ret != BW_NEEDS_HELP)
			return ret;
		ret = bw_do_help(tree, &at.help, gfp);
		if (ret)
			return ret;
		if (gfpflags_allow_blocking(gfp))
			cond_resched();
	}
}
