// SPDX-License-Identifier: GPL-2.0
/*
 * Changing a key: begin() finds its page and makes a record ready, commit() puts it in
 * front of the others, if it is still the same page.
 */
#include <linux/err.h>
#include <linux/gfp.h>
#include <linux/sched.h>

#include "bwtree.h"

/* Tries of a change that may not sleep. */
#define BW_ATOMIC_TRIES	16

struct bw_change {
	struct bw_want want;
	struct bw_rec *top;		/* of the page when it was found */
	struct bw_delta *delta;		/* made ready; NULL: the change needs none */
	void *own;			/* memory for it that is not beside the page; charged */
	u32 id;
	u32 size;			/* of the delta */
	bool beside;			/* @delta stands beside the page */
	bool short_page;		/* a removal has left little in it */
};

static struct bw_change *bw_change(struct kvt_change *change)
{
	BUILD_BUG_ON(sizeof(struct bw_change) > sizeof(change->engine));
	return (struct bw_change *)change->engine;
}

/* From begin() to commit(), as every engine: bottom halves first. */
static void bw_hold(void)
{
	local_bh_disable();
	preempt_disable();
}

static void bw_release(void)
{
	preempt_enable();
	local_bh_enable();
}

/* Get memory for a record: beside the page, or what was allocated for it. */
static bool bw_delta_get(struct bw_change *c, struct bw_page *base)
{
	c->delta = bw_page_space(base, c->size);
	c->beside = c->delta;
	if (!c->delta)
		c->delta = c->own;
	return c->delta;
}

static int bw_own_get(struct bw_tree *tree, struct bw_change *c, gfp_t gfp)
{
	void *own = bw_mem_alloc(c->size, gfp, NULL);
	int err;

	if (!own)
		return -ENOMEM;
	err = bw_charge(tree, 0, bw_mem_size(own));
	if (err)
		bw_mem_free(own);
	else
		c->own = own;
	return err;
}

/* The leaf is found: look at the key's value, and make a record ready if one may come. */
static int bw_prepare(struct kvt_change *change, struct bw_change *c, const struct bw_at *at)
{
	struct bw_rec place = { };
	unsigned long load;

	change->old = NULL;
	c->id = at->id;
	c->top = at->top;
	c->delta = NULL;
	if (bw_place(c->top, &c->want, &place, &load))
		change->old = (struct kvt_value *)load;
	else if (!change->may_insert)
		return 0;
	if (!bw_delta_get(c, c->top->base))
		return -ENOMEM;
	bw_rec_init(&c->delta->rec, BW_PUT, c->top);
	c->delta->rec.at = place.at;
	c->delta->rec.flags |= place.flags & BW_SAME;
	if (!c->beside)
		c->delta->rec.flags |= BW_OWN | BW_CHARGED;
	bw_key_set(&c->delta->key, &c->want);
	return 0;
}

/* What is to be done before a change can go on, outside of RCU. */
enum bw_need {
	BW_NEED_NOTHING,
	BW_NEED_HELP,
	BW_NEED_TIDY,		/* the page's chain has become long */
	BW_NEED_TIDY_NOW,	/* ... too long for another record */
	BW_NEED_MEMORY,
};

/* Find the place and hold it.  Unless nothing is needed, nothing is held. */
static int bw_try_begin(struct bw_tree *tree, struct kvt_change *change, struct bw_change *c,
			struct bw_at *at, bool lazy, enum bw_need *need)
{
	int ret;

	*need = BW_NEED_NOTHING;
	rcu_read_lock();
	bw_hold();
	ret = bw_seek(tree, &c->want, 0, lazy ? BW_SEEK_LAZY : BW_SEEK_WRITE, at);
	if (ret == BW_NEEDS_HELP)
		*need = BW_NEED_HELP;
	else if (!ret && at->top->depth >= BW_CHAIN_MAX - BW_CHAIN_SPARE)
		*need = BW_NEED_TIDY_NOW;
	else if (!ret && !lazy && at->top->depth >= BW_CHAIN_LEAF)
		*need = BW_NEED_TIDY;
	else if (!ret && bw_prepare(change, c, at))
		*need = !lazy && at->top->depth >= BW_CHAIN_LEAF / 2 ? BW_NEED_TIDY :
								       BW_NEED_MEMORY;
	if (!ret && *need == BW_NEED_NOTHING) {
		kvt_park_loose(KVT_PARK_BW_BEGUN);
		__release(RCU);	/* for sparse: bw_end() does it */
		return 0;
	}
	bw_release();
	rcu_read_unlock();
	return ret == -EBUSY ? ret : 0;
}

/* The end of what bw_try_begin() began. */
static void bw_end(void)
{
	bw_release();
	__acquire(RCU);
	rcu_read_unlock();
}

/* Do what is needed.  What is not urgent is left to others if there is no memory. */
static int bw_meet_need(struct bw_tree *tree, struct kvt_change *change, struct bw_change *c,
			const struct bw_at *at, enum bw_need need, bool *lazy)
{
	int err;

	switch (need) {
	case BW_NEED_HELP:
		err = bw_do_help(tree, &at->help, change->gfp);
		if (err && at->help.kind == BW_HELP_POST) {
			*lazy = true;
			return 0;
		}
		return err;
	case BW_NEED_TIDY:
		*lazy = bw_tidy(tree, at->id, 0, false, change->gfp);
		return 0;
	case BW_NEED_TIDY_NOW:
		return bw_tidy(tree, at->id, c->size, !change->may_insert, change->gfp);
	default:
		err = bw_own_get(tree, c, change->gfp);
		/* A removal does not grow the store, and passes at its limit. */
		if (err == -EDQUOT)
			err = bw_tidy(tree, at->id, c->size, !change->may_insert, change->gfp);
		return err;
	}
}

/**
 * bw_begin() - see struct kvt_index_ops
 * @change: key, gfp, may_insert
 *
 * Return: 0 with the key's place found, -ENOMEM, -EDQUOT or -EBUSY.
 */
int bw_begin(struct kvt_change *change)
{
	bool may_sleep = gfpflags_allow_blocking(change->gfp);
	struct bw_tree *tree = bw_tree(change->index);
	struct bw_change *c = bw_change(change);
	unsigned int tries = 0;
	enum bw_need need;
	bool lazy = false;
	struct bw_at at;
	int err;

	c->want = bw_want(change->key.data, change->key.len);
	c->size = sizeof(*c->delta) + bw_key_tail(change->key.len);
	for (;;) {
		err = bw_try_begin(tree, change, c, &at, lazy, &need);
		if (!err && need == BW_NEED_NOTHING)
			return 0;
		if (!err)
			err = bw_meet_need(tree, change, c, &at, need, &lazy);
		if (err && !(err == -EBUSY && may_sleep))
			return err;
		if (may_sleep)
			cond_resched();
		else if (++tries == BW_ATOMIC_TRIES)
			return -EBUSY;
	}
}

static void bw_undo(struct bw_change *c)
{
	if (c->delta && c->beside)
		bw_page_unspace(c->top->base, c->delta, c->size);
	c->delta = NULL;
}

/**
 * bw_commit() - see struct kvt_index_ops
 * @change: between bw_begin() and bw_finish()
 * @value: the new value, or NULL to remove the key
 *
 * Return: 0, or -EAGAIN: another writer was first.
 */
int bw_commit(struct kvt_change *change, struct kvt_value *value)
{
	struct bw_tree *tree = bw_tree(change->index);
	struct bw_change *c = bw_change(change);
	struct bw_delta *delta = c->delta;
	struct bw_rec *rec;
	u32 bytes = 2 * sizeof(u64) + bw_key_tail(change->key.len);

	if (WARN_ON_ONCE(!delta)) {
		bw_end();
		return -EAGAIN;
	}
	rec = &delta->rec;
	WRITE_ONCE(rec->base->round, READ_ONCE(tree->round));
	if (value) {
		delta->load = (unsigned long)value;
		if (!change->old) {
			rec->nr++;
			rec->bytes += bytes;
		}
	} else {
		rec->kind = BW_DEL;
		delta->load = 0;
		rec->nr--;
		rec->bytes -= min(rec->bytes, bytes);
		c->short_page = bw_is_underfull(tree, rec);
	}
	kvt_park_loose(KVT_PARK_BW_COMMIT);
	if (!bw_swap(tree, c->id, c->top, rec)) {
		bw_undo(c);
		bw_end();
		return -EAGAIN;
	}
	if (!c->beside)
		c->own = NULL;
	c->delta = NULL;
	bw_end();
	bw_tidy_later(tree);
	return 0;
}

/**
 * bw_abort() - see struct kvt_index_ops
 * @change: after bw_begin()
 */
void bw_abort(struct kvt_change *change)
{
	bw_undo(bw_change(change));
	bw_end();
}

/**
 * bw_finish() - see struct kvt_index_ops
 * @change: after its last bw_commit() or bw_abort()
 */
void bw_finish(struct kvt_change *change)
{
	struct bw_tree *tree = bw_tree(change->index);
	struct bw_change *c = bw_change(change);

	if (c->own) {
		bw_uncharge(tree, 0, bw_mem_size(c->own));
		bw_mem_free(c->own);
	}
	/* If it fails, the worker will come by. */
	if (c->short_page)
		bw_fold(tree, &c->want, 0, change->gfp);
}
