// SPDX-License-Identifier: GPL-2.0
/*
 * Changing a key: begin() finds its page and prepares a record, commit() prepends it if
 * the page has not changed.
 */
#include <linux/err.h>
#include <linux/gfp.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>

#include "find.h"
#include "swap.h"
#include "tree.h"

/* Tries of a change that may not sleep. */
#define BW_ATOMIC_TRIES	16

struct bw_change {
	struct bw_want want;
	struct bw_rec *top;		/* of the page when it was found */
	struct bw_delta *delta;		/* prepared; NULL: the change needs none */
	void *own;			/* memory for it, if not beside the page */
	u32 id;
	u32 size;			/* of the delta */
	gfp_t gfp;
	bool grows;			/* the key does not exist */
	bool beside;			/* @delta is beside the page */
	bool short_page;		/* a removal has left little in the page */
};

static struct bw_change *bw_change(struct kvt_change *change)
{
	BUILD_BUG_ON(sizeof(struct bw_change) > sizeof(change->engine));
	return (struct bw_change *)change->engine;
}

/* Held from begin() to commit().  Every engine disables bottom halves first. */
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

/* Get memory for a record: beside the page, or allocated for it. */
static bool bw_delta_get(struct bw_change *c, struct bw_page *base)
{
	c->delta = bw_page_space(base, c->size);
	c->beside = c->delta;
	/* It is not charged if the key existed before and the limit is reached. */
	if (!c->delta && c->own && (!c->grows || bw_charged(c->own)))
		c->delta = c->own;
	return c->delta;
}

static int bw_own_get(struct bw_tree *tree, struct bw_change *c)
{
	int err;

	if (!c->own)
		c->own = bw_mem_alloc(c->size, c->gfp);
	if (!c->own)
		return -ENOMEM;
	err = bw_charge_obj(tree, 0, c->own);
	return c->grows ? err : 0;
}

/* What must be done, outside RCU, before a change can continue. */
enum bw_need {
	BW_NEED_NOTHING,
	BW_NEED_HELP,
	BW_NEED_TIDY,		/* the page's chain has become long */
	BW_NEED_TIDY_NOW,	/* ... too long for another record */
	BW_NEED_MEMORY,
};

/* The leaf is found: get the key's value, and prepare a record if the change may need one. */
static enum bw_need bw_prepare(struct kvt_change *change, struct bw_change *c,
			       const struct bw_at *at, bool lazy)
{
	unsigned int depth = at->top->depth;
	struct bw_rec place = { };
	unsigned long load;

	change->old = NULL;
	c->id = at->id;
	c->top = at->top;
	c->delta = NULL;
	prefetchw(bw_page_taken(c->top->base));
	if (bw_place(c->top, &c->want, &place, &load))
		change->old = (struct kvt_value *)load;
	else if (!change->may_insert)
		return BW_NEED_NOTHING;
	c->grows = !change->old;
	if (depth >= BW_CHAIN_MAX - BW_CHAIN_SPARE)
		return BW_NEED_TIDY_NOW;
	if (!lazy && depth >= BW_CHAIN_LEAF)
		return BW_NEED_TIDY;
	if (!bw_delta_get(c, c->top->base))
		return !lazy && depth >= BW_CHAIN_LEAF / 2 ? BW_NEED_TIDY : BW_NEED_MEMORY;
	bw_rec_init(&c->delta->rec, BW_PUT, c->top);
	c->delta->rec.at = place.at;
	c->delta->rec.in_base = place.in_base;
	if (!c->beside)
		c->delta->rec.own = true;
	bw_key_set(&c->delta->key, &c->want);
	return BW_NEED_NOTHING;
}

/* Find the key's place and hold it, unless @need must be met first. */
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
	else if (!ret)
		*need = bw_prepare(change, c, at, lazy);
	if (!ret && *need == BW_NEED_NOTHING) {
		kvt_park_loose(KVT_PARK_BW_BEGUN);
		__release(RCU);	/* for sparse: bw_end() does it */
		return 0;
	}
	bw_release();
	rcu_read_unlock();
	return ret == -EBUSY ? ret : 0;
}

/* End what bw_try_begin() began. */
static void bw_end(void)
{
	bw_release();
	__acquire(RCU);
	rcu_read_unlock();
}

/*
 * How changes that shrink the tree allocate.  The memory cgroup may be at its limit, and each
 * charge would try to reclaim memory, mostly in vain.  These changes need little and free more,
 * so they may exceed the limit for that time, and do not wait.
 */
static gfp_t bw_gfp_shrink(gfp_t gfp)
{
	return (gfp & ~(__GFP_DIRECT_RECLAIM | __GFP_RETRY_MAYFAIL)) | __GFP_HIGH;
}

/*
 * An allocation that does not wait has failed.  Returns whether the change may retry and wait;
 * the memory is charged as before.
 */
static bool bw_gfp_wait(const struct kvt_change *change, struct bw_change *c)
{
	if (gfpflags_allow_blocking(c->gfp) || !gfpflags_allow_blocking(change->gfp))
		return false;
	c->gfp |= change->gfp;
	return true;
}

/* Do what is needed.  Without memory, leave what is not urgent to other writers: set @lazy. */
static int bw_meet_need(struct bw_tree *tree, const struct kvt_change *change,
			struct bw_change *c, const struct bw_at *at, enum bw_need need, bool *lazy)
{
	bool urgent = *lazy;
	int err;

	switch (need) {
	case BW_NEED_HELP:
		err = bw_do_help(tree, &at->help, c->gfp);
		break;
	case BW_NEED_TIDY:
		err = bw_tidy(tree, at->id, 0, false, c->gfp);
		break;
	case BW_NEED_TIDY_NOW:
		urgent = true;
		err = bw_tidy(tree, at->id, c->size, !c->grows, c->gfp);
		break;
	default:
		urgent = true;
		err = bw_own_get(tree, c);
	}
	if (err == -ENOMEM && bw_gfp_wait(change, c))
		return 0;
	if (!err || urgent)
		return err;
	*lazy = true;
	return 0;
}

/**
 * bw_begin() - see struct kvt_index_ops
 * @change: key, gfp, may_insert, removes
 *
 * The limit does not refuse changes without a new key.  Removals that may sleep do not fail for
 * lack of memory.
 *
 * Return: 0 with the key's place found, -ENOMEM, -EDQUOT, -EBUSY or -EINTR.
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
	c->gfp = change->removes ? bw_gfp_shrink(change->gfp) : change->gfp;
	for (;;) {
		err = bw_try_begin(tree, change, c, &at, lazy, &need);
		if (!err && need == BW_NEED_NOTHING)
			return 0;
		if (!err)
			err = bw_meet_need(tree, change, c, &at, need, &lazy);
		/* Wait for memory rather than fail, and do not charge it. */
		if (err == -ENOMEM && change->removes && may_sleep &&
		    !(c->gfp & __GFP_NOFAIL))
			c->gfp = GFP_KERNEL | __GFP_NOFAIL;
		else if (err == -EBUSY && may_sleep)
			/* What this writer has left to others may keep it busy. */
			lazy = false;
		else if (err)
			return err;
		if (!may_sleep && ++tries == BW_ATOMIC_TRIES)
			return -EBUSY;
		if (may_sleep && fatal_signal_pending(current))
			return -EINTR;
		if (may_sleep)
			cond_resched();
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
	rec->round = READ_ONCE(tree->round);
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
	if (!bw_swap(tree, c->id, c->top, rec, BW_NR_UPDATE)) {
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
		bw_uncharge_obj(tree, 0, c->own);
		bw_mem_free(c->own);
	}
	/* If it fails, the worker will do it. */
	if (c->short_page)
		bw_fold(tree, &c->want, 0, bw_gfp_shrink(change->gfp));
}
