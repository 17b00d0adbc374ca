// SPDX-License-Identifier: GPL-2.0
/*
 * A batch of operations in user memory.
 *
 * Operations are copied in by chunks, each once, executed in order, and copied
 * out each after it was executed, so that at most one change goes unreported
 * if the array cannot be written.  A run of plain GETs is looked up together, the
 * index's memory accesses overlapped, and copied out within the same RCU read
 * section.
 */
#include <linux/err.h>
#include <linux/math.h>
#include <linux/minmax.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/uaccess.h>

#include "batch.h"
#include "op.h"
#include "scratch.h"

#define KVT_CHUNK	32

/* Operations copied in, and what a run of GETs needs: scratch memory. */
struct chunk {
	struct kvtree_op ops[KVT_CHUNK];
	struct kvt_lookup lookups[KVT_CHUNK];
	struct kvt_column pinned[KVT_CHUNK];
	int results[KVT_CHUNK];
	u8 keys[KVTREE_KEY_MAX];
};

/* A batch under way. */
struct run {
	const struct kvt_op_ctx *ctx;
	u8 __user *ops;
	u32 nr;
	u32 op_size;
	u32 done;
};

static void __user *run_op_ptr(const struct run *run, u32 i)
{
	return run->ops + (size_t)i * run->op_size;
}

/* Copy n operations in, from the one after the last that is done. */
static int run_copy_in(const struct run *run, struct kvtree_op *ops, u32 n)
{
	int err;
	u32 i;

	if (run->op_size == sizeof(*ops))
		return copy_from_user(ops, run_op_ptr(run, run->done), n * sizeof(*ops)) ?
			-EFAULT : 0;
	for (i = 0; i < n; i++) {
		err = copy_struct_from_user(&ops[i], sizeof(*ops),
					    run_op_ptr(run, run->done + i), run->op_size);
		if (err)
			return err;
	}
	return 0;
}

/* Copy n outcomes out; what was copied is done. */
static int run_copy_out(struct run *run, const struct kvtree_op *ops, u32 n)
{
	unsigned long left;
	u32 i;

	if (run->op_size == sizeof(*ops)) {
		left = copy_to_user(run_op_ptr(run, run->done), ops, n * sizeof(*ops));
		run->done += n - DIV_ROUND_UP(left, sizeof(*ops));
		return left ? -EFAULT : 0;
	}
	for (i = 0; i < n; i++) {
		if (copy_to_user(run_op_ptr(run, run->done), &ops[i], sizeof(ops[i])))
			return -EFAULT;
		run->done++;
	}
	return 0;
}

/* Execute one operation.  An error ends the batch. */
static int run_one(struct run *run, struct kvtree_op *op)
{
	int result = kvt_op_run(run->ctx, op);

	if (result == KVT_INTERRUPTED)
		return result;
	kvt_op_report(run->ctx, op, result);
	/* A constant size, here and in run_single(), is cheaper to copy. */
	if (copy_to_user(run_op_ptr(run, run->done), op, sizeof(*op)))
		return -EFAULT;
	run->done++;
	return 0;
}

/* How many operations from the first on can be looked up together. */
static u32 gets_count(const struct kvt_op_ctx *ctx, struct chunk *chunk, u32 first, u32 nr)
{
	struct kvt_lookup *lookup = chunk->lookups;
	const struct kvtree_op *op;
	u32 used = 0, i;

	for (i = first; i < nr; i++, lookup++) {
		op = &chunk->ops[i];
		if (!kvt_op_is_plain_get(op) || kvt_op_check(ctx, op))
			break;
		lookup->key.len = op->key_len;
		lookup->key.data = op->key_inline;
		if (op->flags & KVTREE_F_KEY_INLINE)
			continue;
		if (op->key_len > sizeof(chunk->keys) - used ||
		    kvt_op_copy_key(op, chunk->keys + used))
			break;
		lookup->key.data = chunk->keys + used;
		used += op->key_len;
	}
	return i - first;
}

/* Look n GETs up and copy what can be copied under RCU. */
static void gets_lookup(const struct kvt_op_ctx *ctx, struct chunk *chunk, u32 first, u32 n)
{
	struct kvt_index *index = ctx->store->index;
	struct kvt_value *v;
	u32 i;

	rcu_read_lock();
	index->ops->get_batch(index, chunk->lookups, n);
	for (i = 0; i < n; i++) {
		v = chunk->lookups[i].value;
		chunk->pinned[i].blob = NULL;
		chunk->ops[first + i].version = 0;
		if (!v)
			chunk->results[i] = -ENOENT;
		else if (IS_ERR(v))
			chunk->results[i] = -EAGAIN;
		else
			chunk->results[i] = kvt_get_copy(&chunk->ops[first + i], v,
							 &chunk->pinned[i]);
	}
	rcu_read_unlock();
}

/* Execute a run of n GETs. */
static int run_gets(struct run *run, struct chunk *chunk, u32 first, u32 n)
{
	const struct kvt_op_ctx *ctx = run->ctx;
	struct kvtree_op *op;
	int result;
	u32 i;

	gets_lookup(ctx, chunk, first, n);
	for (i = 0; i < n; i++) {
		op = &chunk->ops[first + i];
		result = chunk->results[i];
		if (result == -EAGAIN && chunk->pinned[i].blob)
			result = kvt_get_copy_pinned(op, &chunk->pinned[i]);
		else if (result == -EAGAIN)
			result = kvt_get(ctx, op, &chunk->lookups[i].key);
		kvt_op_report(ctx, op, result);
	}
	if (n > 1)
		kvt_stat_add(&ctx->store->stats, KVTREE_STAT_GET_INTERLEAVED, n);
	return run_copy_out(run, &chunk->ops[first], n);
}

/* Between two operations: whether the batch has to end here. */
static int run_stop(const struct run *run)
{
	if (likely(!signal_pending(current)))
		return 0;
	return fatal_signal_pending(current) ? -EINTR : KVT_INTERRUPTED;
}

static int run_chunk(struct run *run, struct chunk *chunk, u32 nr)
{
	u32 first = 0, n;
	int err;

	err = run_copy_in(run, chunk->ops, nr);
	while (!err && first < nr) {
		/* One operation at least is executed: a signal cannot starve the caller. */
		err = run->done ? run_stop(run) : 0;
		if (err)
			break;
		n = gets_count(run->ctx, chunk, first, nr);
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

	chunk = kvt_scratch_take(run->ctx->scratch, KVT_SCRATCH_BATCH, sizeof(*chunk));
	if (!chunk)
		return -ENOMEM;
	while (!err && run->done < run->nr) {
		if (kvt_store_dying(run->ctx->store))
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
	int err = 0;

	if (run->op_size != sizeof(op))
		err = run_copy_in(run, &op, 1);
	else if (copy_from_user(&op, run->ops, sizeof(op)))
		err = -EFAULT;
	return err ?: run_one(run, &op);
}

/**
 * kvt_batch_run() - execute a batch
 * @ctx: on whose behalf
 * @batch: from user space; @batch->done is set
 *
 * Context: process context, sleeps.
 *
 * Return: 0, also if a signal ended it early; -EINVAL, -E2BIG: the batch is
 * malformed; -EFAULT, -E2BIG: an operation or its outcome could not be copied;
 * -ESTALE: the store was destroyed meanwhile; -ENOMEM; -EINTR: a fatal signal
 * came; -ERESTARTSYS: a signal came before any operation had an outcome.
 */
int kvt_batch_run(const struct kvt_op_ctx *ctx, struct kvtree_batch *batch)
{
	struct run run = {
		.ctx = ctx,
		.ops = u64_to_user_ptr(batch->ops),
		.nr = batch->nr,
		.op_size = batch->op_size,
	};
	int err = 0;

	batch->done = 0;
	if (batch->flags || batch->reserved[0] || batch->reserved[1])
		return -EINVAL;
	if (batch->op_size < KVTREE_OP_SIZE_VER0)
		return -EINVAL;
	if (batch->nr > KVTREE_BATCH_MAX || batch->op_size > PAGE_SIZE)
		return -E2BIG;

	if (run.nr == 1)
		err = run_single(&run);
	else if (run.nr)
		err = run_chunks(&run);
	batch->done = run.done;
	if (err == KVT_INTERRUPTED && run.done)
		err = 0;
	return err;
}
