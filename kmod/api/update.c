// SPDX-License-Identifier: GPL-2.0
/* PUT, CAS, REMOVE and ADD: their data are copied in, then written. */
#include <linux/err.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "run.h"
#include "update.h"
#include "user.h"

/*
 * The copy is charged to the store's cgroup, but to its limit only when it is written: until then
 * it is not known what it replaces, and what does not grow is never refused.  It is held for as
 * long as the copying takes, and while this thread is preempted.  A bound for all such copies of
 * a store would have to make others wait for a preempted thread, which the limit does not.
 */
static int load_value_once(const struct kvt_op_ctx *ctx, const struct kvtree_op *op,
			   struct kvt_write *write)
{
	struct kvt_mem mem = kvt_op_mem(ctx);
	u8 *data;
	int err;

	write->value = kvt_value_alloc_whole(&mem, &write->key, op->val_len, &data);
	if (!write->value)
		return -ENOMEM;
	err = kvt_val_in(ctx, op, 0, data, op->val_len);
	if (unlikely(err)) {
		kvt_value_free(write->value);
		write->value = NULL;
	}
	return err;
}

static int load_value(const struct kvt_op_ctx *ctx, const struct kvtree_op *op,
		      struct kvt_update *update)
{
	unsigned int tries = 0;
	int err;

	if (op->val_len > KVTREE_VALUE_MAX)
		return -E2BIG;
	update->write.kind = KVT_WRITE_VALUE;
	do {
		err = load_value_once(ctx, op, &update->write);
		if (likely(err != -EAGAIN))
			return err;
		err = kvt_val_fault_in(ctx, op->val, op->val_len, &tries);
	} while (!err);
	return err;
}

static bool load_in_blob(u32 len)
{
	return len > KVT_BLOB_MIN && len != KVTREE_COL_ABSENT;
}

/* Check the descriptors and enter them into the write's columns. */
static int load_check(struct kvt_update *update, const struct kvtree_op *op,
		      const struct kvtree_col *descs)
{
	const struct kvtree_col *desc;
	unsigned int i;
	u64 total = 0;

	for (i = 0; i < op->ncols; i++) {
		desc = &descs[i];
		if (desc->id >= KVTREE_COLS_MAX || desc->reserved)
			return -EINVAL;
		if (i && desc->id <= descs[i - 1].id)
			return -EINVAL;
		update->write.cols[i] = (struct kvt_column) { .id = desc->id, .len = desc->len };
		if (desc->len == KVTREE_COL_ABSENT)
			continue;
		total += desc->len;
		if (!load_in_blob(desc->len))
			update->data_len += desc->len;
	}
	if (total > KVTREE_VALUE_MAX)
		return -E2BIG;
	return total == op->val_len ? 0 : -EINVAL;
}

/* Free the copies of the columns' data. */
static void load_drop(struct kvt_update *update)
{
	struct kvt_column *col = update->write.cols;
	unsigned int i;

	for (i = 0; i < update->write.ncols; i++, col++) {
		if (col->blob)
			kvt_blob_put(col->blob);
		col->blob = NULL;
	}
	kvfree(update->data);
	update->data = NULL;
}

/* Copy the columns' data. */
static int load_data_once(const struct kvt_op_ctx *ctx, const struct kvtree_op *op,
			  struct kvt_update *update)
{
	struct kvt_mem mem = kvt_op_mem(ctx);
	struct kvt_column *col;
	unsigned int i;
	u32 from = 0;
	int err;
	u8 *to;

	update->data = kvmalloc(update->data_len, kvt_op_gfp_scratch(ctx));
	if (!update->data)
		return -ENOMEM;
	to = update->data;
	for (i = 0; i < update->write.ncols; i++) {
		col = &update->write.cols[i];
		if (col->len == KVTREE_COL_ABSENT)
			continue;
		col->data = to;
		if (load_in_blob(col->len)) {
			col->blob = kvt_blob_alloc(&mem, col->len);
			if (!col->blob)
				return -ENOMEM;
			col->data = col->blob->data;
		} else {
			to += col->len;
		}
		err = kvt_val_in(ctx, op, from, (u8 *)col->data, col->len);
		if (err)
			return err;
		from += col->len;
	}
	return 0;
}

static int load_data(const struct kvt_op_ctx *ctx, const struct kvtree_op *op,
		     struct kvt_update *update)
{
	unsigned int tries = 0;
	int err;

	do {
		err = load_data_once(ctx, op, update);
		if (likely(err != -EAGAIN))
			return err;
		load_drop(update);
		err = kvt_val_fault_in(ctx, op->val, op->val_len, &tries);
	} while (!err);
	return err;
}

static int load_columns(const struct kvt_op_ctx *ctx, const struct kvtree_op *op,
			struct kvt_update *update)
{
	size_t size = array_size(op->ncols, sizeof(struct kvtree_col));
	gfp_t gfp = kvt_op_gfp_scratch(ctx);
	struct kvtree_col *descs;
	int err = -ENOMEM;

	update->write.kind = KVT_WRITE_COLS;
	update->write.cols = kcalloc(op->ncols, sizeof(*update->write.cols), gfp);
	if (!update->write.cols)
		return -ENOMEM;
	update->write.ncols = op->ncols;
	descs = kmalloc(size, gfp);
	if (descs)
		err = kvt_copy_in(ctx, descs, op->arg, size);
	if (!err)
		err = load_check(update, op, descs);
	kfree(descs);
	return err ?: load_data(ctx, op, update);
}

static unsigned int load_conditions(const struct kvtree_op *op)
{
	unsigned int when = 0;

	if (op->opcode == KVTREE_OP_CAS || op->flags & KVTREE_F_VERSION)
		when |= KVT_WHEN_VERSION;
	if (op->flags & KVTREE_F_CREATE)
		when |= KVT_WHEN_NOT_THERE;
	if (op->flags & KVTREE_F_REPLACE || op->opcode == KVTREE_OP_REMOVE)
		when |= KVT_WHEN_THERE;
	return when;
}

/**
 * kvt_update_load() - copy in the data of an operation that changes the store
 * @ctx: on whose behalf
 * @op: the operation, checked
 * @key: its key, in kernel memory that stays valid until kvt_update_free()
 * @update: to be filled; kvt_update_free() must follow, whatever is returned
 *
 * Context: process context; sleeps if @ctx allows it.
 *
 * Return: 0, -EFAULT, -EINVAL, -E2BIG, -ENOMEM, or -EAGAIN: it would have to
 * sleep.
 */
int kvt_update_load(const struct kvt_op_ctx *ctx, const struct kvtree_op *op,
		    const struct kvt_key *key, struct kvt_update *update)
{
	*update = (struct kvt_update) {
		.write = {
			.key = *key,
			.when = load_conditions(op),
			.expect = op->version,
			.whole = op->flags & KVTREE_F_WHOLE,
		},
		.sync = op->flags & KVTREE_F_SYNC || ctx->store->log_sync,
	};
	switch (op->opcode) {
	case KVTREE_OP_REMOVE:
		update->write.kind = KVT_WRITE_REMOVE;
		return 0;
	case KVTREE_OP_ADD:
		update->write.kind = KVT_WRITE_ADD;
		update->write.col = op->col;
		update->write.addend = op->arg;
		return 0;
	default:
		if (op->flags & KVTREE_F_COLS)
			return load_columns(ctx, op, update);
		return load_value(ctx, op, update);
	}
}

/**
 * kvt_update_write() - write an update
 * @ctx: on whose behalf
 * @update: from kvt_update_load(), not yet written
 *
 * Context: as kvt_write().
 *
 * Return: as kvt_write(); after a failure it can be called again.
 */
int kvt_update_write(const struct kvt_op_ctx *ctx, struct kvt_update *update)
{
	struct kvt_write *write = &update->write;
	int err;

	err = kvt_write(ctx, write);
	if (err)
		return err;
	/* It belongs to the store now. */
	write->value = NULL;
	if (update->sync)
		kvt_op_want_sync(ctx, write->epoch);
	return 0;
}

/**
 * kvt_update_report() - enter an update's outcome into its operation
 * @update: the update
 * @op: the operation
 * @result: from kvt_update_write()
 *
 * Context: any.
 */
void kvt_update_report(const struct kvt_update *update, struct kvtree_op *op, int result)
{
	const struct kvt_write *write = &update->write;

	/* A failed operation can be submitted again unchanged. */
	if (!kvt_op_is_answer(result) ||
	    (result == -ENOENT && op->flags & KVTREE_F_VERSION))
		return;
	op->version = write->version;
	if (write->kind == KVT_WRITE_ADD && !result)
		op->arg = write->before;
}

/**
 * kvt_update_free() - free what an update holds
 * @update: from kvt_update_load(), written or not
 *
 * Context: process context, may sleep.
 */
void kvt_update_free(struct kvt_update *update)
{
	struct kvt_write *write = &update->write;

	if (write->value)
		kvt_value_free(write->value);
	if (write->kind == KVT_WRITE_COLS) {
		load_drop(update);
		kfree(write->cols);
	}
}

static int update_once(const struct kvt_op_ctx *ctx, struct kvtree_op *op,
		       const struct kvt_key *key)
{
	struct kvt_update update;
	int err;

	err = kvt_update_load(ctx, op, key, &update);
	if (!err) {
		err = kvt_update_write(ctx, &update);
		kvt_update_report(&update, op, err);
	}
	kvt_update_free(&update);
	return err;
}

/**
 * kvt_update() - execute an operation that changes the store
 * @ctx: on whose behalf
 * @op: the operation, checked
 * @key: its key, in kernel memory
 *
 * While it waits for an event or for its own memory, it holds none of the store's.
 *
 * Context: process context; sleeps if @ctx allows it.
 *
 * Return: 0, or an errno of kvt_update_load(), kvt_write() or what is called around it.
 */
int kvt_update(const struct kvt_op_ctx *ctx, struct kvtree_op *op, const struct kvt_key *key)
{
	int err;

	do {
		err = kvt_write_admit(ctx) ?: update_once(ctx, op, key);
		if (likely(err != -EAGAIN))
			return err;
		err = kvt_write_wait(ctx);
	} while (!err);
	return err;
}
