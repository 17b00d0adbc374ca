// SPDX-License-Identifier: GPL-2.0
/*
 * Changes of structure are made in steps.  Each step looks at the tree again, in an RCU read
 * section of its own, and does what has not been done yet.  So any writer can take the next step,
 * and a step that lost a race is simply repeated.  A step that lacks memory reports that
 * before it changes anything, and is repeated with the memory.
 */
#include <linux/err.h>
#include <linux/gfp.h>
#include <linux/sched.h>

#include "compat.h"
#include "find.h"
#include "tree.h"

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
		memset(stock->want, 0, sizeof(stock->want));
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

/*
 * Merges make the tree smaller, so the store's limit does not refuse them, nor any step that
 * they need first.
 */
static bool bw_help_passes(const struct bw_help *help)
{
	return help->kind == BW_HELP_TIDY ? help->keeps : help->kind != BW_HELP_POST;
}

/* A stack of steps: each waits for the one above it. */
struct bw_steps {
	unsigned int deep;		/* index of the top */
	struct bw_step {
		struct bw_help todo;
		struct bw_stock stock;	/* with the key, except that of the first step */
	} step[BW_STEPS_DEEP];
};

static void bw_steps_pop(struct bw_tree *tree, struct bw_steps *s)
{
	bw_stock_drop(tree, &s->step[s->deep--].stock);
}

/*
 * Push the step that the top one needs first.  If the stack is full, drop all steps but that
 * one: they will be requested again, and will find it done.  The stack fills up because marked
 * pages can be below each other on every level of the tree.
 */
static void bw_steps_push(struct bw_tree *tree, struct bw_steps *s, const struct bw_help *todo)
{
	struct bw_step *top = &s->step[s->deep], new = { .todo = *todo };

	new.stock.gfp = top->stock.gfp;
	new.stock.pass = top->stock.pass || bw_help_passes(todo);
	bw_stock_move(&new.stock, BW_SLOT_OWN, &top->stock, BW_SLOT_NEXT);
	/* A split has already allocated what its second step needs. */
	if (top->todo.kind == BW_HELP_TIDY)
		bw_stock_move(&new.stock, BW_SLOT_TERM, &top->stock, BW_SLOT_TERM);
	if (s->deep + 1 == BW_STEPS_DEEP) {
		while (s->deep)
			bw_steps_pop(tree, s);
		bw_stock_drop(tree, &s->step[0].stock);
		s->step[0] = new;
	} else {
		s->step[++s->deep] = new;
	}
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
	struct bw_steps s = {
		.step[0] = {
			.todo = *help,
			.stock = { .gfp = gfp, .pass = bw_help_passes(help) },
		},
	};
	struct bw_help todo;
	unsigned int steps;
	int ret = 0;

	for (steps = 0; steps < BW_STEPS_MAX; steps++) {
		todo = s.step[s.deep].todo;
		ret = bw_run(tree, bw_step_of(todo.kind), &todo, &s.step[s.deep].stock);
		if (ret == BW_NEEDS_HELP) {
			bw_steps_push(tree, &s, &todo);
			continue;
		}
		if (ret || !s.deep)
			break;
		bw_steps_pop(tree, &s);
	}
	while (s.deep)
		bw_steps_pop(tree, &s);
	bw_stock_drop(tree, &s.step[0].stock);
	/* There were too many steps: the caller looks at the tree again. */
	return ret == BW_NEEDS_HELP ? 0 : ret;
}
KVT_EXPORT_FOR_TESTS(bw_do_help);

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

/**
 * bw_tidy() - consolidate a page, or split it and tell its parent
 * @tree: the tree
 * @id: the page
 * @space: bytes that the next record of the page needs, or 0 for the default
 * @keeps: that record adds no entry
 * @gfp: how to allocate
 *
 * Context: as bw_run().
 *
 * Return: 0, even if another thread was first; -ENOMEM, -EDQUOT or -EBUSY.
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
 * bw_fold() - merge a page with a neighbour if both are short
 * @tree: the tree
 * @want: a key of the page, valid until this returns
 * @level: the page's level
 * @gfp: how to allocate
 *
 * Context: as bw_run().
 *
 * Return: 0; -ENOMEM, -EDQUOT or -EBUSY.
 */
int bw_fold(struct bw_tree *tree, const struct bw_want *want, u8 level, gfp_t gfp)
{
	struct bw_help help = { .kind = BW_HELP_FOLD, .level = level, .want = *want };

	return bw_do_help(tree, &help, gfp);
}
KVT_EXPORT_FOR_TESTS(bw_fold);
