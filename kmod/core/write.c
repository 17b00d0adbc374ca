// SPDX-License-Identifier: GPL-2.0
/* A write: one change of one key. */
#include <linux/bottom_half.h>
#include <linux/preempt.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/string.h>

#include "compat.h"
#include "hook.h"
#include "op.h"
#include "writer.h"

/* Bound retries when the caller cannot sleep. */
#define WRITER_TRIES	64

static void writer_init(struct writer *w, const struct kvt_op_ctx *ctx,
			const struct kvt_write *write)
{
	const struct kvtree_op *op = write->op;

	memset(w, 0, sizeof(*w));
	w->ctx = ctx;
	w->store = ctx->store;
	w->write = write;
	w->op = op;
	w->change.index = ctx->store->index;
	w->change.key = write->key;
	w->change.gfp = ctx->gfp | __GFP_ACCOUNT | __GFP_NOWARN;
	w->change.may_insert = !write_wants_key(op) && !(write_wants_version(op) && op->version);
	w->change.removes = write_removes(op);
	w->merge.key_len = write->key.len;
	w->merge.edits = write->cols;
	w->merge.nr = write->ncols;
	if (write_adds(op)) {
		w->sum.id = op->col;
		w->sum.len = sizeof(w->sum_data);
		w->sum.data = w->sum_data;
		w->merge.edits = &w->sum;
		w->merge.nr = 1;
	}
}

/* The new value as it was prepared. */
static struct kvt_value *writer_prepared(const struct writer *w)
{
	return w->block ?: w->write->value;
}

static enum writer_step writer_new_bag(struct writer *w)
{
	w->bag = kvt_bag_new(w->change.gfp);
	return w->bag ? WRITER_AGAIN : writer_fail(w, -ENOMEM);
}

/* With nothing held, get ready what is needed while the place is held. */
static enum writer_step writer_prepare(struct writer *w)
{
	int err = 0;

	/* A bag may not be needed: an insertion leaves it to later writers. */
	if (unlikely(!w->bag && !kvt_bag_is_there(&w->store->reclaim)))
		w->bag = kvt_bag_new(w->change.gfp);
	if (write_merges(w->op))
		err = kvt_writer_alloc(w);
	else if (unlikely(w->no_cell))
		err = kvt_writer_leave_cell(w);
	if (err)
		return writer_fail(w, err);
	w->verdict.turn = 0;
	if (unlikely(kvt_hook_validator(w->store)) && !write_removes(w->op))
		return kvt_writer_validate(w);
	return WRITER_GO;
}

/* The place is held: make the value to publish. */
static enum writer_step writer_make(struct writer *w)
{
	if (write_removes(w->op))
		return WRITER_GO;
	/* The validator was attached, detached or replaced meanwhile. */
	if (unlikely(kvt_hook_validator(w->store) != w->verdict.turn))
		return WRITER_AGAIN;
	if (!write_merges(w->op))
		return WRITER_GO;
	if (likely(!w->verdict.turn))
		return kvt_writer_merge(w, w->change.old);
	return value_version(w->change.old) == w->verdict.seen ? WRITER_GO : WRITER_AGAIN;
}

/* The place is held: get a bag to retire the old value, once it is replaced. */
static enum writer_step writer_bag(struct writer *w)
{
	if (!kvt_value_has_block(w->change.old))
		return WRITER_GO;
	if (!w->bag)
		w->bag = kvt_bag_take(&w->store->reclaim);
	return unlikely(!w->bag) ? WRITER_NO_BAG : WRITER_GO;
}

/* The limit refuses the charge.  Retry if a block of the right size, or none, might be accepted. */
static enum writer_step writer_over(struct writer *w, int err)
{
	/* Only now, after the merge, the block tells that the place might take it as a cell. */
	if (!w->change.wants_cell && kvt_value_fits_cell(w->new))
		return WRITER_AGAIN;
	if (!write_merges(w->op) || !kvt_writer_wastes(w))
		return writer_fail(w, err);
	w->guesses = 0;
	return WRITER_AGAIN;
}

/* The place is held, and the new value is made: choose its version. */
static enum writer_step writer_stamp(struct writer *w)
{
	const struct kvt_value *old = w->change.old;
	struct kvt_value *new = writer_prepared(w);

	w->new = new;
	if (!new)
		return WRITER_GO;
	new->version = kvt_store_next_version(w->store, old ? old->version : 0);
	w->new = kvt_value_placed(&w->change, new, &w->cell);
	if (likely(w->new))
		return WRITER_GO;
	w->no_cell = true;
	return WRITER_AGAIN;
}

/* The place is held: charge what the store grows by. */
static enum writer_step writer_charge(struct writer *w)
{
	const struct kvt_value *old = w->change.old, *new = w->new;
	struct kvt_quota *quota = &w->store->quota;
	int err;

	w->delta = (new ? kvt_value_charge(new) : 0) - (old ? kvt_value_charge(old) : 0);
	if (w->delta > 0) {
		err = kvt_quota_charge(quota, w->delta);
		if (err)
			return writer_over(w, err);
	}
	if (new && !old) {
		err = kvt_quota_charge_keys(quota, 1);
		if (err)
			kvt_quota_uncharge(quota, w->delta);
		return writer_after(w, err);
	}
	return WRITER_GO;
}

/* Undo writer_charge(): nothing was published. */
static void writer_uncharge(struct writer *w)
{
	struct kvt_quota *quota = &w->store->quota;

	if (w->delta > 0)
		kvt_quota_uncharge(quota, w->delta);
	if (!w->change.old)
		kvt_quota_uncharge_keys(quota, 1);
}

/* The place is held: do everything that comes before the commit, except to log it. */
static enum writer_step writer_decide(struct writer *w)
{
	struct kvt_value *old = w->change.old;
	enum writer_step step;

	step = writer_check(w, old) ?: writer_make(w) ?: writer_stamp(w) ?: writer_bag(w) ?:
	       writer_charge(w);
	if (step)
		return step;

	if (w->new)
		w->version = w->new->version;
	else
		kvt_store_raise_floor(w->store, old->version);
	return WRITER_GO;
}

/* The place is held, and the change is decided: log it before it is published. */
static enum writer_step writer_log(struct writer *w)
{
	int err;

	if (!w->store->log)
		return WRITER_GO;
	err = kvt_log_reserve(w->store->log, &w->note, &w->write->key, w->change.old, w->new);
	if (!err)
		return WRITER_GO;
	writer_uncharge(w);
	return writer_fail(w, err);
}

/* The change is published, and nothing is held any more. */
static void writer_settle(struct writer *w)
{
	struct kvt_store *store = w->store;
	bool removed = write_removes(w->op);

	kvt_writer_hand_over(w);
	if (w->delta < 0)
		kvt_quota_uncharge(&store->quota, -w->delta);
	if (removed)
		kvt_quota_uncharge_keys(&store->quota, 1);
	kvt_stat_add(&store->stats, KVTREE_STAT_VALUE_BYTES, w->delta);
	if (!w->change.old)
		kvt_stat_inc(&store->stats, KVTREE_STAT_VALUES);
	else if (removed)
		kvt_stat_add(&store->stats, KVTREE_STAT_VALUES, -1);
}

static int writer_begin(struct writer *w)
{
	struct mem_cgroup *memcg = set_active_memcg(w->store->memcg);
	const struct kvt_value *new = writer_prepared(w);
	int err;

	w->begun = true;
	w->change.wants_cell = new && kvt_value_fits_cell(new);
	err = w->change.index->ops->begin(&w->change);
	set_active_memcg(memcg);
	return err;
}

/* Allocations of finish() are charged as those of begin(). */
static void writer_finish(struct writer *w)
{
	struct mem_cgroup *memcg = set_active_memcg(w->store->memcg);

	w->change.index->ops->finish(&w->change);
	set_active_memcg(memcg);
}

/* The place is held, and the change is logged: publish it, and retire the old value. */
static enum writer_step writer_commit(struct writer *w)
{
	int err = w->change.index->ops->commit(&w->change, w->new);

	if (w->store->log)
		kvt_log_publish(&w->note, !err);
	if (err) {
		writer_uncharge(w);
		return WRITER_AGAIN;
	}
	if (kvt_value_has_block(w->change.old)) {
		kvt_value_retire(&w->store->reclaim, w->bag, w->change.old, w->kept);
		w->bag = NULL;
	}
	return WRITER_GO;
}

/* Give back a bag that was not needed.  An empty one is kept for the next attempt. */
static void writer_return_bag(struct writer *w)
{
	if (!w->bag || !w->bag->nr)
		return;
	kvt_bag_put(&w->store->reclaim, w->bag);
	w->bag = NULL;
}

/*
 * Disable preemption until writer_may_go(), after the place is released.  On PREEMPT_RT, bottom
 * halves must be enabled, as they were disabled, while preemptible: so commit() must not be the
 * last to do it.
 */
static void writer_stays(void)
{
	if (IS_ENABLED(CONFIG_PREEMPT_RT))
		local_bh_disable();
	preempt_disable();
}

static void writer_may_go(void)
{
	preempt_enable();
	if (IS_ENABLED(CONFIG_PREEMPT_RT))
		local_bh_enable();
}

/*
 * Go once from begin() to commit() or abort().  The values in a bag cannot be freed while the
 * writer has it.  So it is not preempted until it has given the bag back, after it has released
 * the place.
 */
static enum writer_step writer_try(struct writer *w)
{
	enum writer_step step;
	int err;

	err = writer_begin(w);
	if (err)
		return writer_fail(w, err);
	writer_stays();
	step = writer_decide(w) ?: writer_log(w);
	if (step)
		w->change.index->ops->abort(&w->change);
	else
		step = writer_commit(w);
	writer_return_bag(w);
	writer_may_go();
	if (!step)
		writer_settle(w);
	return step;
}

/* Nothing is held: decide whether to start again. */
static enum writer_step writer_retry(struct writer *w)
{
	if (kvt_op_may_sleep(w->ctx)) {
		cond_resched();
		return fatal_signal_pending(current) ? writer_fail(w, -EINTR) : WRITER_AGAIN;
	}
	return ++w->tries == WRITER_TRIES ? writer_fail(w, -EBUSY) : WRITER_AGAIN;
}

/* Try once, from the preparation to what has to be done before the next attempt. */
static enum writer_step writer_attempt(struct writer *w)
{
	enum writer_step step = writer_prepare(w) ?: writer_try(w);

	if (step == WRITER_NO_BAG)
		step = writer_new_bag(w);
	return step == WRITER_AGAIN ? writer_retry(w) : step;
}

/**
 * kvt_write_cell() - the cell for a write's value
 * @ctx: the caller's context
 * @write: the write, with its key
 *
 * Context: any.
 *
 * Return: the write's cell, or NULL: the store's engine keeps no value of this key in its nodes, or
 * it does not seem so.
 */
struct kvt_cell *kvt_write_cell(const struct kvt_op_ctx *ctx, struct kvt_write *write)
{
	return kvt_index_may_cell(ctx->store->index, write->key.len) ? &write->cell : NULL;
}
KVT_EXPORT_FOR_TESTS(kvt_write_cell);

/**
 * kvt_write_admit() - wait until a write may begin
 * @ctx: the caller's context
 *
 * This comes before the write's data take memory.  It waits until less memory of the store waits to
 * be freed than the bound, and may free some of it.
 *
 * Context: as kvt_write().
 *
 * Return: 0; -EAGAIN: it would have to wait, and @ctx may not; -EINTR: a fatal signal came.
 */
int kvt_write_admit(const struct kvt_op_ctx *ctx)
{
	return kvt_reclaim_throttle(&ctx->store->reclaim, ctx->waits);
}
KVT_EXPORT_FOR_TESTS(kvt_write_admit);

/* Whether the change must be durable before it is reported. */
static bool writer_syncs(const struct writer *w)
{
	return w->op->flags & KVTREE_F_SYNC || w->store->log_sync;
}

/*
 * Report the outcome.  An operation that failed can be submitted again unchanged.  So can a removal
 * of a version, if the key does not exist.
 */
static void writer_report(const struct writer *w, struct kvtree_op *op, int result)
{
	if (!kvt_op_is_answer(result) || (result == -ENOENT && op->flags & KVTREE_F_VERSION))
		return;
	op->version = w->version;
	if (write_adds(op) && !result)
		op->arg = w->before;
}

static void writer_exit(struct writer *w)
{
	if (w->begun)
		writer_finish(w);
	kvt_writer_drop(w);
	kvt_bag_put(&w->store->reclaim, w->bag);
}

/**
 * kvt_write() - change one key
 * @ctx: the caller's context
 * @write: what to do, and its outcome
 *
 * On failure nothing has changed, and the caller still owns what @write refers to; columns may
 * have been moved to blobs.  On success the store owns the value, and the blobs that @write->cols
 * no longer refer to; the caller has to wait as @ctx->sync says.
 *
 * Context: process context, outside of RCU read sections and locks; if
 * @ctx->gfp does not allow to sleep, any but NMI.
 *
 * Return: 0; -ENOENT, -EEXIST, -ECANCELED: the conditions do not hold; -EINVAL:
 * not a number; -E2BIG: too large; -EDQUOT; -ENOMEM; -EKEYREJECTED: the store's
 * validator refused; -EINTR: a fatal signal came; -EAGAIN: it has to wait for an event
 * (kvt_write_wait(), then kvt_write_admit()); -EBUSY: only if it may not sleep; of a durable
 * store -ENOSPC: its devices are full, and -EROFS: writing to them has failed.
 */
int kvt_write(const struct kvt_op_ctx *ctx, struct kvt_write *write)
{
	struct writer w __uninitialized;
	enum writer_step step;
	int err;

	/* Loading the data may have taken long: the bound may be exceeded now. */
	if (unlikely(kvt_reclaim_throttle(&ctx->store->reclaim, false)))
		return -EAGAIN;
	writer_init(&w, ctx, write);
	do {
		step = writer_attempt(&w);
	} while (step == WRITER_AGAIN);
	writer_exit(&w);
	err = step == WRITER_FAIL ? w.err : 0;
	writer_report(&w, write->op, err);
	if (err)
		return err;
	/* It is not the one that is published if it was a cell, or has become one. */
	if (unlikely(w.new != write->value))
		kvt_value_free_shell(write->value);
	write->value = NULL;
	if (writer_syncs(&w))
		kvt_op_want_sync(ctx, w.note.epoch);
	return 0;
}
KVT_EXPORT_FOR_TESTS(kvt_write);

/**
 * kvt_write_wait() - wait for the room in the log that a write lacked
 * @ctx: the caller's context, after -EAGAIN
 *
 * The caller holds neither its data nor anything else of the store.  kvt_write_admit() is next.
 *
 * Context: as kvt_write().
 *
 * Return: 0: try again; -EAGAIN: @ctx may not wait; -EINTR: a fatal signal came; -ESTALE: the
 * store ends.
 */
int kvt_write_wait(const struct kvt_op_ctx *ctx)
{
	int err = 0;

	if (!ctx->waits)
		return -EAGAIN;
	if (ctx->store->log)
		err = kvt_log_wait_space(ctx->store->log);
	cond_resched();
	return err ?: fatal_signal_pending(current) ? -EINTR : 0;
}
KVT_EXPORT_FOR_TESTS(kvt_write_wait);
