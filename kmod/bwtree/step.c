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
/* How deep steps wait for each other before the first of them are forgotten. */
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

/* Steps that wait for each other: each for the next. */
struct bw_steps {
	unsigned int deep;		/* the last */
	bool forgotten;			/* the first only keeps the key of the second */
	struct bw_stock stock[BW_STEPS_DEEP];
	struct bw_help todo[BW_STEPS_DEEP];
};

/*
 * There are too many: forget them, but for what the last needs first, whose key may stand in
 * the stock of any.  Whoever needs them looks anew, and finds that done.  Pages with a mark
 * can be below each other in as many levels as the tree has.
 */
static int bw_steps_forget(struct bw_tree *tree, struct bw_steps *s, struct bw_help *help,
			   const struct bw_stock *empty)
{
	struct bw_stock keeper = *empty;
	struct bw_key *key;
	int err;

	bw_stock_get(&keeper, BW_SLOT_KEY, bw_key_size(help->want.len));
	err = bw_stock_fill(tree, &keeper);
	if (err)
		return err;
	key = keeper.obj[BW_SLOT_KEY];
	bw_key_set(key, &help->want);
	help->want = bw_want_key(key);
	for (; s->deep; s->deep--)
		bw_stock_drop(tree, &s->stock[s->deep]);
	bw_stock_drop(tree, &s->stock[0]);
	s->stock[0] = keeper;
	s->forgotten = true;
	return 0;
}

/* The last step needs another first.  0, or -ENOMEM. */
static int bw_steps_push(struct bw_tree *tree, struct bw_steps *s, struct bw_help *help,
			 const struct bw_stock *empty)
{
	struct bw_stock stock = *empty;
	int err = 0;

	/* A split has got ready what its second step needs. */
	if (s->todo[s->deep].kind == BW_HELP_TIDY)
		bw_stock_move(&stock, &s->stock[s->deep], BW_SLOT_C);
	if (s->deep + 1 == BW_STEPS_DEEP)
		err = bw_steps_forget(tree, s, help, empty);
	if (err) {
		bw_stock_drop(tree, &stock);
		return err;
	}
	s->todo[++s->deep] = *help;
	s->stock[s->deep] = stock;
	return 0;
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
	struct bw_steps s = { .todo[0] = *help, .stock[0] = empty };
	struct bw_help first;
	unsigned int steps;
	int ret = 0;

	for (steps = 0; steps < BW_STEPS_MAX; steps++) {
		first = s.todo[s.deep];
		ret = bw_run(tree, bw_step_of(first.kind), &first, &s.stock[s.deep]);
		if (ret == BW_NEEDS_HELP) {
			ret = bw_steps_push(tree, &s, &first, &empty);
			if (!ret)
				continue;
		}
		if (ret)
			break;
		bw_stock_drop(tree, &s.stock[s.deep]);
		if (s.deep-- == s.forgotten) {
			if (s.forgotten)
				bw_stock_drop(tree, &s.stock[0]);
			return 0;
		}
	}
	do {
		bw_stock_drop(tree, &s.stock[s.deep]);
	} while (s.deep--);
	/* What was begun may be left half done.  The limit will refuse it again. */
	if (ret != -EDQUOT)
		bw_tidy_later(tree);
	return ret;
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
