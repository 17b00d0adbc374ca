// SPDX-License-Identifier: GPL-2.0
/* Loading an operation's key and data: see load.h. */
#include <linux/errno.h>
#include <linux/overflow.h>
#include <linux/slab.h>

#include "base/value.h"
#include "core/ctx.h"
#include "load.h"
#include "user.h"

/**
 * kvt_load_key_to() - copy the key that an operation points to
 * @ctx: the caller's context
 * @op: the operation, checked, without KVTREE_F_KEY_INLINE
 * @to: room for @op->key_len bytes
 *
 * Context: process context; sleeps if @ctx allows it.
 *
 * Return: 0, -EFAULT, -ESTALE, or -EAGAIN: it would have to sleep.
 */
int kvt_load_key_to(const struct kvt_op_ctx *ctx, const struct kvtree_op *op, u8 *to)
{
	return kvt_copy_in(ctx, to, op->key, op->key_len);
}

/**
 * kvt_load_key() - load an operation's key into kernel memory
 * @ctx: the caller's context
 * @op: the operation, checked
 * @key: to be filled; kvt_unload_key() must follow, whatever is returned
 *
 * Context: process context; sleeps if @ctx allows it.
 *
 * Return: 0, -EFAULT, -ENOMEM, -ESTALE, or -EAGAIN: it would have to sleep.
 */
int kvt_load_key(const struct kvt_op_ctx *ctx, const struct kvtree_op *op,
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
	return kvt_load_key_to(ctx, op, to);
}

/**
 * kvt_unload_key() - free a key
 * @key: the key
 *
 * Context: process context, may sleep.
 */
void kvt_unload_key(struct kvt_op_key *key)
{
	kfree(key->large);
}

/*
 * The copy is charged to the store's cgroup at once, but to its limit only when it is written: the
 * value that it replaces is not known before, and a value that is not larger is never refused.
 * The copy exists for as long as copying takes, also while this thread is preempted.  A bound on
 * all such copies of a store would make other threads wait for a preempted one; the limit does not.
 */
static int load_value_once(const struct kvt_op_ctx *ctx, struct kvt_write *write)
{
	const struct kvtree_op *op = write->op;
	struct kvt_mem mem = kvt_op_mem(ctx);
	u8 *data;
	int err;

	write->value = kvt_value_make_whole(&mem, &write->key, op->val_len, &data,
					    kvt_write_cell(ctx, write));
	if (!write->value)
		return -ENOMEM;
	err = kvt_val_in(ctx, op, 0, data, op->val_len);
	if (unlikely(err)) {
		kvt_value_free(write->value);
		write->value = NULL;
	}
	return err;
}

static int load_value(const struct kvt_op_ctx *ctx, struct kvt_write *write)
{
	const struct kvtree_op *op = write->op;
	unsigned int tries = 0;
	int err;

	if (op->val_len > KVTREE_VALUE_MAX)
		return -E2BIG;
	do {
		err = load_value_once(ctx, write);
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

/* Check the descriptors and make the write's columns.  Adds up in *len those in no blob. */
static int load_check(struct kvt_write *write, const struct kvtree_col *descs, u32 *len)
{
	const struct kvtree_op *op = write->op;
	const struct kvtree_col *desc;
	unsigned int i;
	u64 total = 0;

	for (i = 0; i < op->ncols; i++) {
		desc = &descs[i];
		if (desc->id >= KVTREE_COLS_MAX || desc->reserved)
			return -EINVAL;
		if (i && desc->id <= descs[i - 1].id)
			return -EINVAL;
		write->cols[i] = (struct kvt_column) { .id = desc->id, .len = desc->len };
		if (desc->len == KVTREE_COL_ABSENT)
			continue;
		total += desc->len;
		if (!load_in_blob(desc->len))
			*len += desc->len;
	}
	if (total > KVTREE_VALUE_MAX)
		return -E2BIG;
	return total == op->val_len ? 0 : -EINVAL;
}

/* Free the copies of the columns' data. */
static void load_drop(struct kvt_write *write)
{
	struct kvt_column *col = write->cols;
	unsigned int i;

	for (i = 0; i < write->ncols; i++, col++) {
		if (col->blob)
			kvt_blob_put(col->blob);
		col->blob = NULL;
	}
	kvfree(write->data);
	write->data = NULL;
}

/* Copy the columns' data. */
static int load_data_once(const struct kvt_op_ctx *ctx, struct kvt_write *write, u32 len)
{
	const struct kvtree_op *op = write->op;
	struct kvt_mem mem = kvt_op_mem(ctx);
	struct kvt_column *col;
	unsigned int i;
	u32 from = 0;
	int err;
	u8 *to;

	write->data = kvmalloc(len, kvt_op_gfp_scratch(ctx));
	if (!write->data)
		return -ENOMEM;
	to = write->data;
	for (i = 0; i < write->ncols; i++) {
		col = &write->cols[i];
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

static int load_data(const struct kvt_op_ctx *ctx, struct kvt_write *write, u32 len)
{
	const struct kvtree_op *op = write->op;
	unsigned int tries = 0;
	int err;

	do {
		err = load_data_once(ctx, write, len);
		if (likely(err != -EAGAIN))
			return err;
		load_drop(write);
		err = kvt_val_fault_in(ctx, op->val, op->val_len, &tries);
	} while (!err);
	return err;
}

static int load_columns(const struct kvt_op_ctx *ctx, struct kvt_write *write)
{
	const struct kvtree_op *op = write->op;
	size_t size = array_size(op->ncols, sizeof(struct kvtree_col));
	gfp_t gfp = kvt_op_gfp_scratch(ctx);
	struct kvtree_col *descs;
	int err = -ENOMEM;
	u32 len = 0;

	write->cols = kcalloc(op->ncols, sizeof(*write->cols), gfp);
	if (!write->cols)
		return -ENOMEM;
	write->ncols = op->ncols;
	descs = kmalloc(size, gfp);
	if (descs)
		err = kvt_copy_in(ctx, descs, op->arg, size);
	if (!err)
		err = load_check(write, descs, &len);
	kfree(descs);
	return err ?: load_data(ctx, write, len);
}

/**
 * kvt_load() - copy in the data of an operation that changes the store
 * @ctx: the caller's context
 * @op: the operation, checked; it stays valid until kvt_unload(), as does its key
 * @key: its key, in kernel memory
 * @write: to be filled; kvt_unload() must follow, whatever is returned
 *
 * Context: process context; sleeps if @ctx allows it.
 *
 * Return: 0, -EFAULT, -EINVAL, -E2BIG, -ENOMEM, -ESTALE, -EINTR, or -EAGAIN: it would have to
 * sleep.
 */
int kvt_load(const struct kvt_op_ctx *ctx, struct kvtree_op *op, const struct kvt_key *key,
	     struct kvt_write *write)
{
	*write = (struct kvt_write) { .op = op, .key = *key };
	if (op->opcode == KVTREE_OP_REMOVE || op->opcode == KVTREE_OP_ADD)
		return 0;
	return op->flags & KVTREE_F_COLS ? load_columns(ctx, write) : load_value(ctx, write);
}

/**
 * kvt_unload() - free what a write still holds
 * @write: from kvt_load(), written or not
 *
 * Context: process context, may sleep.
 */
void kvt_unload(struct kvt_write *write)
{
	if (write->value)
		kvt_value_free(write->value);
	if (write->cols) {
		load_drop(write);
		kfree(write->cols);
	}
}
