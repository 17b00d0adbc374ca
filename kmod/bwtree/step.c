// SPDX-License-Identifier: GPL-2.0
/*
 * Changes of structure are made in steps.  Each step looks at the tree anew, in an RCU read
 * section of its own, and does what has not been done yet.  So any writer can take the next step,
 * and a step that lost a race is simply repeated.  A step that lacks memory reports that
 * before it changes anything, and is repeated with the memory.
 */
#include <linux/err.h>
#include <linux/gfp.h>
#include <linux/sched.h>

#include "bwtree.h"
#include "compat.h"

/* Tries of a step if the caller may not sleep. */
#define BW_ATOMIC_TRIES	32
/* Steps on the stack before the oldest ones are dropped. */
#define BW_STEPS_DEEP	6
/* Steps that one call of bw_do_help() makes at most. */
#define BW_STEPS_MAX	64

/**
 * bw_run() - repeat a step until it is done
 * @tree: the tree
 * @fn: the step
 * @help: the request; if the step returns BW_NEEDS_HELP, what has to be done first
 * @stock: memory for the step; the caller frees what is left
 *
 * Context: outside of RCU read sections; sleeps if the stock's gfp allows it.
 *
 * Return: what the step returned; -ENOMEM, -EDQUOT; -EBUSY only if the caller may not
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

/* Merges make the tree smaller, so the store's limit does not refuse them. */
static bool bw_help_passes(const struct bw_help *help)
{
	return help->kind == BW_HELP_TIDY ? help->keeps : help->kind != BW_HELP_POST;
}

/* A stack of steps: each waits for the one above it. */
struct bw_steps {
	unsigned int deep;		/* index of the top */
	bool forgotten;			/* entry 0 only holds the key of entry 1 */
	struct bw_stock stock[BW_STEPS_DEEP];
	struct bw_help todo[BW_STEPS_DEEP];
};

/*
 * The stack is full: drop all steps and keep only what the top one needs first.  Its key may
 * be in the stock of any of them, so copy it.  The dropped steps will be requested again, and
 * will find this one done.  The stack fills up because marked pages can be below each other
 * on every level of the tree.
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

/* Push the step that the top one needs first.  Returns 0 or -ENOMEM. */
static int bw_steps_push(struct bw_tree *tree, struct bw_steps *s, struct bw_help *help,
			 const struct bw_stock *empty)
{
	struct bw_stock stock = *empty;
	int err = 0;

	/* A split has already allocated what its second step needs. */
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
 * bw_do_help() - finish a change of structure and those it depends on
 * @tree: the tree
 * @help: the change to finish
 * @gfp: how to allocate
 *
 * Context: as bw_run().
 *
 * Return: 0: the caller looks again; -ENOMEM, -EDQUOT or -EBUSY.
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
	return ret;
}

/**
 * bw_clear_way() - finish all changes of structure on the path to a key
 * @tree: the tree
 * @want: the key, valid until this returns
 * @level: where the path ends
 * @gfp: how to allocate
 *
 * Context: as bw_run().
 *
 * Return: 0; -ENOENT: the tree has no such level; -ENOMEM, -EDQUOT or -EBUSY.
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
