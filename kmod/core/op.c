// SPDX-License-Identifier: GPL-2.0
/* Operations: see op.h. */
#include <linux/bits.h>
#include <linux/nospec.h>

#include "base/stats.h"
#include "ctx.h"
#include "op.h"

/**
 * DOC: The life of an operation
 *
 * Every request to a store is an operation (struct kvtree_op).  It comes by ioctl, alone or in a
 * batch, by a command of io_uring, by a kfunc, or by a post.  These ways in differ in where the
 * operation comes from, how its data get into kernel memory, and how they wait.  The rest is the
 * same for all.
 *
 * **An update**, which changes a key, takes these steps.  From *admit* on at the latest it is
 * inside the store, except during page faults while it loads::
 *
 *	step     where                               holds, besides the store
 *	-------  ----------------------------------  -------------------------------------
 *	check    kvt_op_check()                      nothing
 *	admit    kvt_write_admit()                   nothing
 *	load     kvt_load(), or bpf/write.c          its key and data, as they come
 *	prepare  writer_prepare()                    its data, what it may need
 *	begin    begin() of the engine               ... and the key's place
 *	decide   writer_decide(), kvt_log_reserve()  ... and a bag, what it is charged, its note
 *	commit   commit(), kvt_log_publish()         ... the place no longer
 *	settle   writer_settle(), finish()           what it did not need
 *	report   writer_report()                     nothing: the operation has its outcome
 *	sync     kvt_op_wait_durable()               nothing
 *
 * From the end of *begin* to the end of *commit* it is in an RCU read section, with preemption and
 * bottom halves off; it neither sleeps nor allocates, and calls no program.  *prepare* asks the
 * validator, under RCU.  All other steps may sleep if the way in allows it.
 *
 * **Retries.**  Until *commit* neither the store nor the operation has changed.  An update that
 * lacks something releases the place, gets what it lacks, and prepares again (enum writer_step).
 * But before it waits for other threads, because the store has too much memory to be freed
 * (*admit*) or its log has no room (*decide*), it frees its own data, and afterwards starts again
 * at *admit*.
 *
 * **Waiting.**  An ioctl sleeps.  So do batches (those of io_uring on its workers) and posts that
 * could not be made at once (in their store's queue).  A command of io_uring goes to a worker to
 * sleep for memory or for a page of its process; it waits for an event without a thread, and keeps
 * only the operation (api/wait.h).  A kfunc does not wait: the program gets -EAGAIN, -EBUSY or
 * -ENOMEM.
 *
 * **After commit** the outcome is final, whatever happens to the caller.  Later errors only change
 * what the caller is told: -EFAULT if the outcome could not be copied, -EIO if it will not be
 * durable, -EINTR if the caller was killed before it was.
 *
 * **Gets and scans** are checked and read under RCU.  A get copies up to KVT_COPIED_MAX bytes of a
 * plain value under RCU, too, with page faults disabled; longer values, several columns and scans
 * are copied after it.  The most common get does all of this in one RCU read section
 * (kvt_get_quick()), without a reference on the store.
 */

/* Fields of struct kvtree_op that an opcode uses; the others must be zero. */
#define USES_KEY	BIT(0)
#define USES_VAL	BIT(1)
#define USES_VERSION	BIT(2)
#define USES_ARG	BIT(3)
#define USES_COL	BIT(4)
#define USES_SCAN	BIT(5)	/* `arg` points to a struct kvtree_scan of arg_size bytes */

struct op_rule {
	u16 flags;		/* allowed besides KVTREE_F_KEY_INLINE and _SYNC */
	u8 uses;
	u8 access;
	u8 stat;
	bool changes;		/* a key */
};

static const struct op_rule op_rules[KVTREE_OP_NR] = {
	[KVTREE_OP_NOP] = {
		.stat = KVTREE_STAT_NR,
	},
	[KVTREE_OP_GET] = {
		.flags = KVTREE_F_COLS | KVTREE_F_ALL_COLS,
		.uses = USES_KEY | USES_VAL | USES_VERSION,
		.access = KVTREE_OPEN_READ,
		.stat = KVTREE_STAT_GET,
	},
	[KVTREE_OP_PUT] = {
		.flags = KVTREE_F_COLS | KVTREE_F_WHOLE | KVTREE_F_CREATE | KVTREE_F_REPLACE,
		.uses = USES_KEY | USES_VAL | USES_VERSION,
		.access = KVTREE_OPEN_WRITE,
		.stat = KVTREE_STAT_PUT,
		.changes = true,
	},
	[KVTREE_OP_CAS] = {
		.flags = KVTREE_F_COLS | KVTREE_F_WHOLE,
		.uses = USES_KEY | USES_VAL | USES_VERSION,
		.access = KVTREE_OPEN_WRITE,
		.stat = KVTREE_STAT_CAS,
		.changes = true,
	},
	[KVTREE_OP_REMOVE] = {
		.flags = KVTREE_F_VERSION,
		.uses = USES_KEY | USES_VERSION,
		.access = KVTREE_OPEN_WRITE,
		.stat = KVTREE_STAT_REMOVE,
		.changes = true,
	},
	[KVTREE_OP_ADD] = {
		.flags = KVTREE_F_REPLACE,
		.uses = USES_KEY | USES_VERSION | USES_ARG | USES_COL,
		/* ADD returns the number before. */
		.access = KVTREE_OPEN_READ | KVTREE_OPEN_WRITE,
		.stat = KVTREE_STAT_ADD,
		.changes = true,
	},
	[KVTREE_OP_SCAN] = {
		.uses = USES_KEY | USES_VAL | USES_ARG | USES_SCAN,
		.access = KVTREE_OPEN_READ,
		.stat = KVTREE_STAT_SCAN,
	},
	[KVTREE_OP_SYNC] = {
		/* It writes the changes of all users, and flushes the devices. */
		.access = KVTREE_OPEN_WRITE,
		.stat = KVTREE_STAT_NR,
	},
};

/* The opcode must have been checked; otherwise this returns the rule of any opcode. */
static const struct op_rule *op_rule(u8 opcode)
{
	return &op_rules[array_index_nospec(opcode, KVTREE_OP_NR)];
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
	if (rule->changes)
		allowed |= KVTREE_F_SYNC;
	if (op->flags & ~allowed)
		return -EINVAL;
	if ((op->flags & KVTREE_F_CREATE) && (op->flags & KVTREE_F_REPLACE))
		return -EINVAL;
	if ((op->flags & (KVTREE_F_ALL_COLS | KVTREE_F_WHOLE)) && !(op->flags & KVTREE_F_COLS))
		return -EINVAL;
	if (op->flags & KVTREE_F_SYNC && (!ctx->sync || !ctx->store->log))
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
	/* The size of a scan and the number of columns share 16 bits. */
	if (rule->uses & USES_SCAN)
		return kvt_struct_size_check(op->arg_size, KVTREE_SCAN_SIZE_VER0);
	if (!cols && op->ncols)
		return -EINVAL;
	return op->ncols > KVTREE_COLS_MAX ? -E2BIG : 0;
}

/**
 * kvt_op_check() - check whether an operation may be executed
 * @ctx: the caller's context
 * @op: the operation, not checked
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
	rule = op_rule(op->opcode);
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
 * Return: true for PUT, CAS, REMOVE and ADD.
 */
bool kvt_op_is_update(const struct kvtree_op *op)
{
	return op_rule(op->opcode)->changes;
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
	return op_rule(op->opcode)->uses & USES_VAL;
}

/**
 * kvt_op_access() - rights that an operation needs
 * @opcode: the operation's, in range
 *
 * Context: any.
 *
 * Return: KVTREE_OPEN_*.
 */
unsigned int kvt_op_access(u8 opcode)
{
	return op_rule(opcode)->access;
}

/**
 * kvt_op_is_answer() - whether a result is an answer rather than a failure
 * @result: its result
 *
 * Context: any.
 *
 * Return: true for success and for a condition that did not hold; false if the
 * operation was refused or failed.
 */
bool kvt_op_is_answer(int result)
{
	return result >= 0 || result == -ENOENT || result == -EEXIST ||
	       result == -ECANCELED || result == -EMSGSIZE;
}

/**
 * kvt_op_count() - count an operation
 * @stats: its store's
 * @opcode: the operation's
 * @result: its result
 *
 * Context: any.
 */
void kvt_op_count(struct kvt_stats *stats, u8 opcode, int result)
{
	if (!kvt_op_is_answer(result)) {
		kvt_stat_inc(stats, KVTREE_STAT_ERROR);
		return;
	}
	if (op_rule(opcode)->stat < KVTREE_STAT_NR)
		kvt_stat_inc(stats, op_rule(opcode)->stat);
	if (result == -ENOENT && opcode == KVTREE_OP_GET)
		kvt_stat_inc(stats, KVTREE_STAT_GET_MISS);
	else if (result == -ECANCELED && opcode == KVTREE_OP_CAS)
		kvt_stat_inc(stats, KVTREE_STAT_CAS_FAIL);
}
