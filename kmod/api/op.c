// SPDX-License-Identifier: GPL-2.0
/* One operation: validate, execute, report. */
#include <linux/bits.h>
#include <linux/err.h>
#include <linux/nospec.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "log/log.h"
#include "op.h"
#include "scan.h"
#include "update.h"
#include "user.h"

/* Fields of struct kvtree_op that an opcode uses; the others must be zero. */
#define USES_KEY	BIT(0)
#define USES_VAL	BIT(1)
#define USES_VERSION	BIT(2)
#define USES_ARG	BIT(3)
#define USES_COL	BIT(4)
#define USES_SCAN	BIT(5)	/* `arg` points to a struct kvtree_scan of arg_size bytes */

typedef int (*op_fn)(const struct kvt_op_ctx *ctx, struct kvtree_op *op,
		     const struct kvt_key *key);

struct op_rule {
	u16 flags;		/* allowed besides KVTREE_F_KEY_INLINE and _SYNC */
	u8 uses;
	u8 access;
	u8 stat;
	op_fn run;
};

static int op_sync(const struct kvt_op_ctx *ctx, struct kvtree_op *op, const struct kvt_key *key)
{
	if (!ctx->store->log || !ctx->sync)
		return -EOPNOTSUPP;
	kvt_op_want_sync(ctx, kvt_log_dirty_epoch(ctx->store->log));
	return 0;
}

static int op_nop(const struct kvt_op_ctx *ctx, struct kvtree_op *op, const struct kvt_key *key)
{
	return 0;
}

static const struct op_rule op_rules[KVTREE_OP_NR] = {
	[KVTREE_OP_NOP] = {
		.stat = KVTREE_STAT_NR,
		.run = op_nop,
	},
	[KVTREE_OP_GET] = {
		.flags = KVTREE_F_COLS | KVTREE_F_ALL_COLS,
		.uses = USES_KEY | USES_VAL | USES_VERSION,
		.access = KVTREE_OPEN_READ,
		.stat = KVTREE_STAT_GET,
		.run = kvt_get,
	},
	[KVTREE_OP_PUT] = {
		.flags = KVTREE_F_COLS | KVTREE_F_WHOLE | KVTREE_F_CREATE | KVTREE_F_REPLACE,
		.uses = USES_KEY | USES_VAL | USES_VERSION,
		.access = KVTREE_OPEN_WRITE,
		.stat = KVTREE_STAT_PUT,
		.run = kvt_update,
	},
	[KVTREE_OP_CAS] = {
		.flags = KVTREE_F_COLS | KVTREE_F_WHOLE,
		.uses = USES_KEY | USES_VAL | USES_VERSION,
		.access = KVTREE_OPEN_WRITE,
		.stat = KVTREE_STAT_CAS,
		.run = kvt_update,
	},
	[KVTREE_OP_REMOVE] = {
		.flags = KVTREE_F_VERSION,
		.uses = USES_KEY | USES_VERSION,
		.access = KVTREE_OPEN_WRITE,
		.stat = KVTREE_STAT_REMOVE,
		.run = kvt_update,
	},
	[KVTREE_OP_ADD] = {
		.flags = KVTREE_F_REPLACE,
		.uses = USES_KEY | USES_VERSION | USES_ARG | USES_COL,
		/* It returns the number before. */
		.access = KVTREE_OPEN_READ | KVTREE_OPEN_WRITE,
		.stat = KVTREE_STAT_ADD,
		.run = kvt_update,
	},
	[KVTREE_OP_SCAN] = {
		.uses = USES_KEY | USES_VAL | USES_ARG | USES_SCAN,
		.access = KVTREE_OPEN_READ,
		.stat = KVTREE_STAT_SCAN,
		.run = kvt_scan,
	},
	[KVTREE_OP_SYNC] = {
		/* It has everybody's changes written, and devices flush. */
		.access = KVTREE_OPEN_WRITE,
		.stat = KVTREE_STAT_NR,
		.run = op_sync,
	},
};

/* The opcode must have been checked; otherwise this is some opcode's. */
static const struct op_rule *op_rule(const struct kvtree_op *op)
{
	return &op_rules[array_index_nospec(op->opcode, KVTREE_OP_NR)];
}

static int op_check_key(const struct kvtree_op *op, const struct op_rule *rule)
{
	if (!(rule->uses & USES_KEY))
		return op->key_len || op->key || op->key_reserved ? -EINVAL : 0;
	if (op->flags & KVTREE_F_KEY_INLINE)
		return op->key_len > KVTREE_KEY_INLINE ? -EINVAL : 0;
	if (op->key_reserved)
		return -EINVAL;
	return op->key_len > KVTREE_KEY_MAX ? -E2BIG : 0;
}

static int op_check_flags(const struct kvt_op_ctx *ctx, const struct kvtree_op *op,
			  const struct op_rule *rule)
{
	u16 allowed = rule->flags;

	if (rule->uses & USES_KEY)
		allowed |= KVTREE_F_KEY_INLINE;
	if (rule->run == kvt_update)
		allowed |= KVTREE_F_SYNC;
	if (op->flags & ~allowed)
		return -EINVAL;
	if ((op->flags & KVTREE_F_CREATE) && (op->flags & KVTREE_F_REPLACE))
		return -EINVAL;
	if ((op->flags & (KVTREE_F_ALL_COLS | KVTREE_F_WHOLE)) && !(op->flags & KVTREE_F_COLS))
		return -EINVAL;
	if (op->flags & KVTREE_F_SYNC && (!ctx->store->log || !ctx->sync))
		return -EOPNOTSUPP;
	return 0;
}

static int op_check_fields(const struct kvtree_op *op, const struct op_rule *rule)
{
	bool cols = op->flags & KVTREE_F_COLS;
	u64 stray = op->reserved;

	if (!(rule->uses & USES_COL))
		stray |= op->col;
	if (!cols && !(rule->uses & USES_ARG))
		stray |= op->arg;
	if (!(rule->uses & USES_VAL))
		stray |= op->val | op->val_len;
	if (!(rule->uses & USES_VERSION))
		stray |= op->version;
	if (stray)
		return -EINVAL;
	/* The same 16 bits are the size of a scan, or a number of columns. */
	if (rule->uses & USES_SCAN)
		return kvt_struct_size_check(op->arg_size, KVTREE_SCAN_SIZE_VER0);
	if (!cols && op->ncols)
		return -EINVAL;
	return op->ncols > KVTREE_COLS_MAX ? -E2BIG : 0;
}

/**
 * kvt_op_check() - check whether an operation may be executed
 * @ctx: on whose behalf
 * @op: the operation, as it came from user space
 *
 * Context: any.
 *
 * Return: 0, -EINVAL, -EACCES, -E2BIG, -EOPNOTSUPP.
 */
int kvt_op_check(const struct kvt_op_ctx *ctx, const struct kvtree_op *op)
{
	const struct op_rule *rule;
	int err;

	if (op->opcode >= KVTREE_OP_NR)
		return -EINVAL;
	rule = op_rule(op);
	if (rule->access & ~ctx->access)
		return -EACCES;
	err = op_check_fields(op, rule);
	if (!err)
		err = op_check_key(op, rule);
	if (!err)
		err = op_check_flags(ctx, op, rule);
	return err;
}

/**
 * kvt_op_is_update() - check whether an operation changes the store
 * @op: the operation, checked
 *
 * Context: any.
 *
 * Return: true if kvt_update_load() takes it.
 */
bool kvt_op_is_update(const struct kvtree_op *op)
{
	return op_rule(op)->run == kvt_update;
}

/**
 * kvt_op_uses_val() - check whether an operation uses `val`
 * @op: the operation, checked
 *
 * Context: any.
 *
 * Return: true if it may.
 */
bool kvt_op_uses_val(const struct kvtree_op *op)
{
	return op_rule(op)->uses & USES_VAL;
}

/**
 * kvt_op_copy_key() - copy the key that an operation points to
 * @ctx: on whose behalf
 * @op: the operation, checked, without KVTREE_F_KEY_INLINE
 * @to: room for @op->key_len bytes
 *
 * Context: process context; sleeps if @ctx allows it.
 *
 * Return: 0, -EFAULT, or -EAGAIN: it would have to sleep.
 */
int kvt_op_copy_key(const struct kvt_op_ctx *ctx, const struct kvtree_op *op, u8 *to)
{
	return kvt_copy_in(ctx, to, op->key, op->key_len);
}

/**
 * kvt_op_load_key() - load an operation's key into kernel memory
 * @ctx: on whose behalf
 * @op: the operation, checked
 * @key: to be filled; kvt_op_free_key() must follow, whatever is returned
 *
 * Context: process context; sleeps if @ctx allows it.
 *
 * Return: 0, -EFAULT, -ENOMEM, or -EAGAIN: it would have to sleep.
 */
int kvt_op_load_key(const struct kvt_op_ctx *ctx, const struct kvtree_op *op,
		    struct kvt_op_key *key)
{
	u8 *to = key->small;

	key->large = NULL;
	key->key.len = op->key_len;
	key->key.data = op->key_inline;
	if (op->flags & KVTREE_F_KEY_INLINE)
		return 0;
	if (op->key_len > sizeof(key->small)) {
		key->large = kmalloc(op->key_len, kvt_op_gfp_scratch(ctx));
		if (!key->large)
			return -ENOMEM;
		to = key->large;
	}
	key->key.data = to;
	return kvt_op_copy_key(ctx, op, to);
}

/**
 * kvt_op_free_key() - free a key from kvt_op_load_key()
 * @key: the key
 *
 * Context: process context, may sleep.
 */
void kvt_op_free_key(struct kvt_op_key *key)
{
	kfree(key->large);
}

/**
 * kvt_op_step_out() - leave the store, to take page faults
 * @ctx: on whose behalf
 *
 * The caller must not hold anything of the store: no reference, no charge, no RCU.
 *
 * Context: process context, may sleep.
 *
 * Return: whether the store was left, for kvt_op_step_in(), which must follow.
 */
bool kvt_op_step_out(const struct kvt_op_ctx *ctx)
{
	if (!ctx->inside || !*ctx->inside)
		return false;
	*ctx->inside = false;
	kvt_store_leave(ctx->store);
	return true;
}

/**
 * kvt_op_step_in() - reenter the store
 * @ctx: on whose behalf
 * @was_inside: of kvt_op_step_out()
 *
 * Context: any.
 *
 * Return: 0, or -ESTALE: the store was destroyed meanwhile.
 */
int kvt_op_step_in(const struct kvt_op_ctx *ctx, bool was_inside)
{
	if (was_inside)
		*ctx->inside = kvt_store_enter(ctx->store);
	return kvt_op_inside(ctx) ? 0 : -ESTALE;
}

/**
 * kvt_op_leave() - leave the store for good
 * @ctx: on whose behalf; with @ctx->inside
 *
 * Context: any.
 */
void kvt_op_leave(const struct kvt_op_ctx *ctx)
{
	kvt_op_step_out(ctx);
}

/**
 * kvt_op_synced() - wait until changes are as durable as their operations require
 * @ctx: on whose behalf, with @ctx->sync
 *
 * Context: process context, sleeps; inside the store, unless it was destroyed.
 *
 * Return: 0; -EIO: it never will be; -EINTR: a fatal signal came.
 */
int kvt_op_synced(const struct kvt_op_ctx *ctx)
{
	if (!*ctx->sync)
		return 0;
	/* A detach makes everything durable. */
	if (!kvt_op_inside(ctx))
		return kvt_store_gone(ctx->store);
	return kvt_log_sync(ctx->store->log, *ctx->sync);
}

/**
 * kvt_op_want_sync() - make the caller wait until an epoch is durable
 * @ctx: on whose behalf; its store is durable
 * @epoch: the epoch
 *
 * Context: any.
 */
void kvt_op_want_sync(const struct kvt_op_ctx *ctx, u64 epoch)
{
	if (ctx->sync && *ctx->sync < epoch)
		*ctx->sync = epoch;
}

/* An operation that points to its key. */
static noinline int op_run_pointed(const struct kvt_op_ctx *ctx, struct kvtree_op *op, op_fn run)
{
	struct kvt_op_key key __uninitialized;
	int ret;

	ret = kvt_op_load_key(ctx, op, &key);
	if (!ret)
		ret = run(ctx, op, &key.key);
	kvt_op_free_key(&key);
	return ret;
}

/**
 * kvt_op_execute() - execute an operation
 * @ctx: on whose behalf
 * @op: the operation, checked; in and out, except @op->result
 *
 * Context: process context; sleeps if @ctx allows it.
 *
 * Return: as kvt_op_run().
 */
int kvt_op_execute(const struct kvt_op_ctx *ctx, struct kvtree_op *op)
{
	struct kvt_key key = { .data = op->key_inline, .len = op->key_len };
	op_fn run = op_rule(op)->run;

	if (op->flags & KVTREE_F_KEY_INLINE)
		return run(ctx, op, &key);
	return op_run_pointed(ctx, op, run);
}

/**
 * kvt_op_run() - check and execute an operation
 * @ctx: on whose behalf
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
 * @ctx: on whose behalf
 * @op: the operation
 * @result: of kvt_op_run()
 *
 * Context: any.
 */
void kvt_op_report(const struct kvt_op_ctx *ctx, struct kvtree_op *op, int result)
{
	struct kvt_stats *stats = &ctx->store->stats;

	op->result = result;
	if (!kvt_op_is_answer(result)) {
		kvt_stat_inc(stats, KVTREE_STAT_ERROR);
		return;
	}
	if (op_rules[op->opcode].stat < KVTREE_STAT_NR)
		kvt_stat_inc(stats, op_rules[op->opcode].stat);
	if (result == -ENOENT && op->opcode == KVTREE_OP_GET)
		kvt_stat_inc(stats, KVTREE_STAT_GET_MISS);
	else if (result == -ECANCELED && op->opcode == KVTREE_OP_CAS)
		kvt_stat_inc(stats, KVTREE_STAT_CAS_FAIL);
}
