// SPDX-License-Identifier: GPL-2.0
/* Running one operation: see run.h. */
#include <linux/errno.h>

#include "core/write.h"
#include "load.h"
#include "log/log.h"
#include "run.h"
#include "scan.h"

static int op_sync(const struct kvt_op_ctx *ctx)
{
	if (!ctx->store->log || !ctx->sync)
		return -EOPNOTSUPP;
	kvt_op_want_sync(ctx, kvt_log_dirty_epoch(ctx->store->log));
	return 0;
}

/* One attempt, from loading the data to the outcome. */
static int op_update_once(const struct kvt_op_ctx *ctx, struct kvtree_op *op,
			  const struct kvt_key *key)
{
	struct kvt_write write;
	int err;

	err = kvt_load(ctx, op, key, &write) ?: kvt_write(ctx, &write);
	kvt_unload(&write);
	return err;
}

/* While an update waits for an event or a page fault, it holds nothing of the store. */
static int op_update(const struct kvt_op_ctx *ctx, struct kvtree_op *op, const struct kvt_key *key)
{
	int err;

	do {
		err = kvt_write_admit(ctx) ?: op_update_once(ctx, op, key);
		if (likely(err != -EAGAIN))
			return err;
		err = kvt_write_wait(ctx);
	} while (!err);
	return err;
}

static int op_run(const struct kvt_op_ctx *ctx, struct kvtree_op *op, const struct kvt_key *key)
{
	switch (op->opcode) {
	case KVTREE_OP_NOP:
		return 0;
	case KVTREE_OP_GET:
		return kvt_get(ctx, op, key);
	case KVTREE_OP_SCAN:
		return kvt_scan(ctx, op, key);
	case KVTREE_OP_SYNC:
		return op_sync(ctx);
	default:
		return op_update(ctx, op, key);
	}
}

/* An operation that points to its key. */
static noinline int op_run_pointed(const struct kvt_op_ctx *ctx, struct kvtree_op *op)
{
	struct kvt_op_key key __uninitialized;
	int ret;

	ret = kvt_load_key(ctx, op, &key);
	if (!ret)
		ret = op_run(ctx, op, &key.key);
	kvt_unload_key(&key);
	return ret;
}

/**
 * kvt_op_execute() - execute an operation
 * @ctx: the caller's context
 * @op: the operation, checked; in and out, except @op->result
 *
 * Context: process context; sleeps if @ctx allows it.
 *
 * Return: as kvt_op_run().
 */
int kvt_op_execute(const struct kvt_op_ctx *ctx, struct kvtree_op *op)
{
	struct kvt_key key = { .data = op->key_inline, .len = op->key_len };

	if (op->flags & KVTREE_F_KEY_INLINE)
		return op_run(ctx, op, &key);
	return op_run_pointed(ctx, op);
}

/**
 * kvt_op_run() - check and execute an operation
 * @ctx: the caller's context
 * @op: the operation, in and out; kvt_op_report() sets @op->result
 *
 * Context: process context; sleeps if @ctx allows it.
 *
 * Return: the result.  After KVT_INTERRUPTED, or if kvt_op_blocked() is true for it, nothing
 * has happened.
 */
int kvt_op_run(const struct kvt_op_ctx *ctx, struct kvtree_op *op)
{
	return kvt_op_check(ctx, op) ?: kvt_op_execute(ctx, op);
}

/**
 * kvt_op_report() - record and count the result of an operation
 * @ctx: the caller's context
 * @op: the operation
 * @result: of kvt_op_run()
 *
 * Context: any.
 */
void kvt_op_report(const struct kvt_op_ctx *ctx, struct kvtree_op *op, int result)
{
	op->result = result;
	kvt_op_count(&ctx->store->stats, op->opcode, result);
}
