// SPDX-License-Identifier: GPL-2.0
/*
 * A batch of operations in user memory.
 *
 * Operations are copied in once, a chunk at a time, and executed in order.  Each is copied
 * out right after it ran, so that at most one change goes unreported if the array cannot
 * be written.  Consecutive plain GETs are looked up together, which overlaps the index's
 * memory accesses, and copied out in the same RCU read section.  The keys of a chunk's changes
 * are looked up together as well, ahead of the first of them, for nothing but these accesses.
 * Any page fault leaves the store; if it is destroyed before the fault ends, so does the batch.
 */
#include <linux/err.h>
#include <linux/minmax.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>

#include "batch.h"
#include "compat.h"
#include "load.h"
#include "run.h"
#include "scratch.h"
#include "user.h"

#define KVT_CHUNK	32
/* Looking ahead takes as long for each of a few changes as for each of many, and saves less. */
#define KVT_AHEAD_MIN	4

/* Scratch memory: copied operations, and what is looked up together. */
struct chunk {
	struct kvtree_op ops[KVT_CHUNK];
	struct kvt_lookup lookups[KVT_CHUNK];
	struct kvt_cell cells[KVT_CHUNK];	/* of their values without blocks */
	struct kvt_column pinned[KVT_CHUNK];
	int results[KVT_CHUNK];
	u8 keys[KVTREE_KEY_MAX];
};

/* A batch being executed. */
struct run {
	const struct kvt_op_ctx *ctx;
	u64 ops;		/* user address */
	u32 nr;
	u32 op_size;
	u32 done;
};

static u64 run_op_at(const struct run *run, u32 i)
{
	return run->ops + (u64)i * run->op_size;
}

/* Copy in the next n operations that are not done. */
static int run_try_copy_in(const struct run *run, struct kvtree_op *ops, u32 n, bool sleep)
{
	int err;
	u32 i;

	if (run->op_size == sizeof(*ops))
		return kvt_copy_ops_in(sleep, ops, run_op_at(run, run->done), n);
	for (i = 0; i < n; i++) {
		err = kvt_copy_struct_in(sleep, &ops[i], sizeof(*ops),
					 run_op_at(run, run->done + i), run->op_size);
		if (err)
			return err;
	}
	return 0;
}

/* The same; if a page is missing, leave the store and fault it in. */
static int run_copy_in(const struct run *run, struct kvtree_op *ops, u32 n)
{
	const struct kvt_op_ctx *ctx = run->ctx;
	bool was_inside;
	int err;

	err = run_try_copy_in(run, ops, n, false);
	if (likely(err != -EAGAIN) || !kvt_op_may_sleep(ctx))
		return err;
	was_inside = kvt_op_leave(ctx);
	err = run_try_copy_in(run, ops, n, true);
	return kvt_op_reenter(ctx, was_inside) ?: err;
}

/*
 * Copy out the outcome of an operation, which makes it done.  The operation cannot run
 * again, so this takes page faults even where @ctx forbids sleeping.  (The array was
 * present a moment ago.)
 */
static int run_copy_out(struct run *run, const struct kvtree_op *op)
{
	int err = kvt_copy_outcome(run->ctx, run_op_at(run, run->done), op);

	run->done += !err;
	return err;
}

static u32 run_try_answer(const struct run *run, const struct kvtree_op *ops, u32 n)
{
	return kvt_copy_answers_out(run_op_at(run, run->done), run->op_size, ops, n);
}

/* The same for GETs, which change only the answer fields. */
static int run_answer(struct run *run, const struct kvtree_op *ops, u32 n)
{
	bool was_inside;
	u32 copied;

	pagefault_disable();
	copied = run_try_answer(run, ops, n);
	pagefault_enable();
	run->done += copied;
	if (likely(copied == n))
		return 0;
	ops += copied;
	n -= copied;
	was_inside = kvt_op_leave(run->ctx);
	copied = run_try_answer(run, ops, n);
	kvt_op_reenter(run->ctx, was_inside);
	run->done += copied;
	return copied < n ? -EFAULT : 0;
}

/* Whether a signal ended an operation, which has no outcome then and ends the batch. */
static bool result_ends(int result)
{
	return result == KVT_INTERRUPTED || result == -EINTR;
}

/* Execute one operation.  An error ends the batch. */
static int run_one(struct run *run, struct kvtree_op *op)
{
	int result = kvt_op_run(run->ctx, op);

	if (result_ends(result))
		return result;
	if (!kvt_op_inside(run->ctx))
		return -ESTALE;
	if (kvt_op_blocked(run->ctx, result))
		return -EAGAIN;
	kvt_op_report(run->ctx, op, result);
	return run_copy_out(run, op);
}

/* Count the GETs from @first on that can be looked up together. */
static u32 gets_count(const struct kvt_op_ctx *ctx, struct chunk *chunk, u32 first, u32 nr)
{
	struct kvt_lookup *lookup = chunk->lookups;
	const struct kvtree_op *op;
	u32 used = 0, i;

	for (i = first; i < nr; i++, lookup++) {
		op = &chunk->ops[i];
		if (!kvt_op_is_plain_get(ctx->access, op))
			break;
		lookup->key.len = op->key_len;
		lookup->key.data = op->key_inline;
		if (op->flags & KVTREE_F_KEY_INLINE)
			continue;
		if (op->key_len > sizeof(chunk->keys) - used ||
		    kvt_load_key_to(ctx, op, chunk->keys + used))
			break;
		lookup->key.data = chunk->keys + used;
		used += op->key_len;
	}
	return i - first;
}

/* Look up n GETs, and copy what can be copied under RCU. */
static void gets_lookup(const struct kvt_op_ctx *ctx, struct chunk *chunk, u32 first, u32 n)
{
	struct kvt_index *index = ctx->store->index;
	u32 room = KVT_PINNED_MAX;
	struct kvt_value *v;
	u32 i;

	rcu_read_lock();
	index->ops->get_batch(index, chunk->lookups, chunk->cells, n);
	for (i = 0; i < n; i++) {
		v = chunk->lookups[i].value;
		chunk->pinned[i].blob = NULL;
		if (!IS_ERR_OR_NULL(v)) {
			chunk->results[i] = kvt_get_copy(ctx, &chunk->ops[first + i], v,
							 &chunk->pinned[i], &room);
			continue;
		}
		chunk->ops[first + i].version = 0;
		chunk->results[i] = v ? -EAGAIN : -ENOENT;
	}
	rcu_read_unlock();
}

/* Unpin the blobs of a run's GETs from i on, which will be looked up again. */
static void run_unpin(struct chunk *chunk, u32 i, u32 n)
{
	for (; i < n; i++) {
		if (chunk->results[i] != -EAGAIN || !chunk->pinned[i].blob)
			continue;
		kvt_blob_put(chunk->pinned[i].blob);
		chunk->pinned[i].blob = NULL;
	}
}

/* Finish the i-th GET of a run of n outside of RCU, and return its result. */
static int run_get(struct run *run, struct chunk *chunk, u32 first, u32 i, u32 n)
{
	struct kvtree_op *op = &chunk->ops[first + i];
	int result = chunk->results[i];

	if (likely(result != -EAGAIN))
		return result;
	if (chunk->pinned[i].blob)
		result = kvt_get_copy_pinned(run->ctx, op, &chunk->pinned[i]);
	if (result != -EAGAIN)
		return result;
	/* kvt_get() may take page faults, and may pin as much as one call is allowed to. */
	run_unpin(chunk, i + 1, n);
	return kvt_get(run->ctx, op, &chunk->lookups[i].key);
}

/* Execute a run of n GETs. */
static int run_gets(struct run *run, struct chunk *chunk, u32 first, u32 n)
{
	const struct kvt_op_ctx *ctx = run->ctx;
	u32 i, copied = 0;
	int err = 0, result;

	gets_lookup(ctx, chunk, first, n);
	for (i = 0; i < n; i++) {
		result = run_get(run, chunk, first, i, n);
		if (unlikely(!kvt_op_inside(ctx))) {
			err = -ESTALE;
			break;
		}
		if (likely(result >= 0)) {
			chunk->ops[first + i].result = result;
			copied++;
			continue;
		}
		if (result_ends(result)) {
			err = result;
			break;
		}
		if (kvt_op_blocked(ctx, result)) {
			err = -EAGAIN;
			break;
		}
		kvt_op_report(ctx, &chunk->ops[first + i], result);
	}
	kvt_stat_add(&ctx->store->stats, KVTREE_STAT_GET, copied);
	if (i > 1)
		kvt_stat_add(&ctx->store->stats, KVTREE_STAT_GET_INTERLEAVED, i);
	return run_answer(run, &chunk->ops[first], i) ?: err;
}

/* Whether an operation is a change that is not refused. */
static bool op_changes(const struct kvt_op_ctx *ctx, const struct kvtree_op *op)
{
	return !kvt_op_check(ctx, op) && kvt_op_is_update(op);
}

/*
 * Take the keys of a chunk's changes from @first on, except those for which there is no room or
 * that are not in memory.  Returns how many they are.
 */
static u32 changes_keys(const struct kvt_op_ctx *ctx, struct chunk *chunk, u32 first, u32 nr)
{
	const struct kvtree_op *op;
	u32 used = 0, n = 0, i;
	struct kvt_key *key;

	for (i = first; i < nr; i++) {
		op = &chunk->ops[i];
		if (!op_changes(ctx, op))
			continue;
		key = &chunk->lookups[n].key;
		key->len = op->key_len;
		key->data = op->key_inline;
		if (!(op->flags & KVTREE_F_KEY_INLINE)) {
			/* A page fault is the operation's own, when those before it are done. */
			if (op->key_len > sizeof(chunk->keys) - used ||
			    !kvt_copy_in_nofault(chunk->keys + used, op->key, op->key_len))
				continue;
			key->data = chunk->keys + used;
			used += op->key_len;
		}
		n++;
	}
	return n;
}

/*
 * Look up the keys of a chunk's changes together, so that the memory that each of them will read
 * is fetched at the same time.  Nothing else comes of it: those before it and others may change
 * a key before its turn comes.
 */
static void changes_look_ahead(const struct kvt_op_ctx *ctx, struct chunk *chunk, u32 first,
			       u32 nr)
{
	struct kvt_index *index = ctx->store->index;
	u32 n = changes_keys(ctx, chunk, first, nr);

	if (n < KVT_AHEAD_MIN)
		return;
	rcu_read_lock();
	index->ops->get_batch(index, chunk->lookups, NULL, n);
	rcu_read_unlock();
}

/* Between two operations: should the batch end here? */
static int run_stop(const struct run *run)
{
	/* Each may take seconds (memory.high), and destroying the store waits for this. */
	if (unlikely(kvt_store_dying(run->ctx->store)))
		return -ESTALE;
	if (likely(!signal_pending(current)))
		return 0;
	if (fatal_signal_pending(current))
		return -EINTR;
	return run->ctx->interruptible ? KVT_INTERRUPTED : 0;
}

static int run_chunk(struct run *run, struct chunk *chunk, u32 nr)
{
	bool ahead = false;
	u32 first = 0, n;
	int err;

	err = run_copy_in(run, chunk->ops, nr);
	while (!err && first < nr) {
		/* Execute at least one operation, so that signals cannot starve the caller. */
		err = run->done ? run_stop(run) : 0;
		if (err)
			break;
		n = gets_count(run->ctx, chunk, first, nr);
		/* Copying an outcome or a key may have left the store. */
		if (unlikely(!kvt_op_inside(run->ctx)))
			return -ESTALE;
		if (!n && !ahead && op_changes(run->ctx, &chunk->ops[first])) {
			changes_look_ahead(run->ctx, chunk, first, nr);
			ahead = true;
		}
		if (n)
			err = run_gets(run, chunk, first, n);
		else
			err = run_one(run, &chunk->ops[first]);
		first += max(n, 1U);
	}
	return err;
}

static int run_chunks(struct run *run)
{
	struct chunk *chunk;
	int err = 0;

	chunk = kvt_scratch_take(run->ctx->scratch, KVT_SCRATCH_BATCH, sizeof(*chunk),
				 kvt_op_gfp_scratch(run->ctx));
	if (!chunk)
		return -ENOMEM;
	while (!err && run->done < run->nr) {
		if (!kvt_op_inside(run->ctx) || kvt_store_dying(run->ctx->store))
			err = -ESTALE;
		else
			err = run_chunk(run, chunk, min(run->nr - run->done, KVT_CHUNK));
		cond_resched();
	}
	kvt_scratch_give(run->ctx->scratch, KVT_SCRATCH_BATCH, chunk);
	kvt_stat_inc(&run->ctx->store->stats, KVTREE_STAT_BATCH);
	return err;
}

static int run_single(struct run *run)
{
	struct kvtree_op op;

	return run_copy_in(run, &op, 1) ?: run_one(run, &op);
}

/**
 * kvt_batch_run() - execute a batch
 * @ctx: the context, inside of its store
 * @batch: from user space; @batch->done is set
 *
 * Context: process context; sleeps if @ctx allows it.  It may return outside of the store:
 * see kvt_op_inside().
 *
 * Return: 0, even if a signal or an operation that would have to sleep ended the batch
 * early; -EINVAL, -E2BIG: the batch is malformed; -EFAULT, -E2BIG: an operation or its
 * outcome could not be copied; -ESTALE: the store was destroyed; -ENOMEM; -EINTR: a fatal
 * signal came, after @batch->done operations; -ERESTARTSYS: a signal came before any
 * operation had an outcome; -EAGAIN: the first operation would have to sleep.
 */
int kvt_batch_run(const struct kvt_op_ctx *ctx, struct kvtree_batch *batch)
{
	struct run run = {
		.ctx = ctx,
		.ops = batch->ops,
		.nr = batch->nr,
		.op_size = batch->op_size,
	};
	int err;

	batch->done = 0;
	if (batch->flags || batch->reserved[0] || batch->reserved[1])
		return -EINVAL;
	err = kvt_struct_size_check(batch->op_size, KVTREE_OP_SIZE_VER0);
	if (err)
		return err;
	if (batch->nr > KVTREE_BATCH_MAX)
		return -E2BIG;

	if (run.nr == 1)
		err = run_single(&run);
	else if (run.nr)
		err = run_chunks(&run);
	batch->done = run.done;
	if ((err == KVT_INTERRUPTED || err == -EAGAIN) && run.done)
		err = 0;
	return kvt_op_blocked(ctx, err) ? -EAGAIN : err;
}
KVT_EXPORT_FOR_TESTS(kvt_batch_run);
