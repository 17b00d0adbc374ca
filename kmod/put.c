// SPDX-License-Identifier: GPL-2.0
/* PUT and CAS: the value or its columns are copied in, then written. */
#include <linux/err.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "op.h"
#include "write.h"

/* Columns copied from user space. */
struct put_cols {
	struct kvt_column *cols;
	unsigned int ncols;
	u8 *data;		/* of those that are not in blobs */
	u32 data_len;
};

static int put_value(const struct kvt_op_ctx *ctx, struct kvtree_op *op, struct kvt_write *write)
{
	struct kvt_mem mem = kvt_op_mem(ctx);
	u8 *data;
	int err;

	if (op->val_len > KVTREE_VALUE_MAX)
		return -E2BIG;
	write->kind = KVT_WRITE_VALUE;
	write->value = kvt_value_alloc_whole(&mem, &write->key, op->val_len, &data);
	if (!write->value)
		return -ENOMEM;
	err = -EFAULT;
	if (!copy_from_user(data, u64_to_user_ptr(op->val), op->val_len))
		err = kvt_write(ctx, write);
	if (err)
		kvt_value_free(write->value);
	return err;
}

static bool put_in_blob(u32 len)
{
	return len > KVT_BLOB_MIN && len != KVTREE_COL_ABSENT;
}

/* Check the descriptors and enter them in put->cols. */
static int put_check(struct put_cols *put, const struct kvtree_op *op,
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
		put->cols[i] = (struct kvt_column) { .id = desc->id, .len = desc->len };
		if (desc->len == KVTREE_COL_ABSENT)
			continue;
		total += desc->len;
		if (!put_in_blob(desc->len))
			put->data_len += desc->len;
	}
	if (total > KVTREE_VALUE_MAX)
		return -E2BIG;
	return total == op->val_len ? 0 : -EINVAL;
}

static void put_free(struct put_cols *put)
{
	unsigned int i;

	for (i = 0; i < put->ncols; i++)
		if (put->cols[i].blob)
			kvt_blob_put(put->cols[i].blob);
	kvfree(put->data);
	kfree(put->cols);
}

/* Copy the columns' data. */
static int put_load(const struct kvt_op_ctx *ctx, struct put_cols *put, const u8 __user *from)
{
	struct kvt_mem mem = kvt_op_mem(ctx);
	struct kvt_column *col;
	unsigned int i;
	u8 *to;

	put->data = kvmalloc(put->data_len, KVT_GFP_SCRATCH);
	if (!put->data)
		return -ENOMEM;
	to = put->data;
	for (i = 0; i < put->ncols; i++) {
		col = &put->cols[i];
		if (col->len == KVTREE_COL_ABSENT)
			continue;
		col->data = to;
		if (put_in_blob(col->len)) {
			col->blob = kvt_blob_alloc(&mem, col->len);
			if (!col->blob)
				return -ENOMEM;
			col->data = col->blob->data;
		} else {
			to += col->len;
		}
		if (copy_from_user((u8 *)col->data, from, col->len))
			return -EFAULT;
		from += col->len;
	}
	return 0;
}

static int put_write(const struct kvt_op_ctx *ctx, struct put_cols *put, struct kvt_write *write)
{
	unsigned int i;
	int err;

	write->kind = KVT_WRITE_COLS;
	write->cols = put->cols;
	write->ncols = put->ncols;
	err = kvt_write(ctx, write);
	if (!err)
		for (i = 0; i < put->ncols; i++)
			put->cols[i].blob = NULL;
	return err;
}

static int put_columns(const struct kvt_op_ctx *ctx, struct kvtree_op *op,
		       struct kvt_write *write)
{
	struct put_cols put = { .ncols = op->ncols };
	struct kvtree_col *descs;
	int err = 0;

	descs = kmalloc_array(op->ncols, sizeof(*descs), KVT_GFP_SCRATCH);
	put.cols = kcalloc(op->ncols, sizeof(*put.cols), KVT_GFP_SCRATCH);
	if (!descs || !put.cols)
		err = -ENOMEM;
	else if (copy_from_user(descs, u64_to_user_ptr(op->arg),
				array_size(op->ncols, sizeof(*descs))))
		err = -EFAULT;
	else
		err = put_check(&put, op, descs);
	kfree(descs);
	if (!err)
		err = put_load(ctx, &put, u64_to_user_ptr(op->val));
	if (!err)
		err = put_write(ctx, &put, write);
	if (!put.cols)
		put.ncols = 0;
	put_free(&put);
	return err;
}

/**
 * kvt_put() - execute a PUT or a CAS
 * @ctx: on whose behalf
 * @op: the operation, checked
 * @key: its key, in kernel memory
 *
 * Context: process context, sleeps.
 *
 * Return: 0, or an errno of kvt_write(), or -EFAULT, -EINVAL, -E2BIG.
 */
int kvt_put(const struct kvt_op_ctx *ctx, struct kvtree_op *op, const struct kvt_key *key)
{
	struct kvt_write write = {
		.key = *key,
		.whole = op->flags & KVTREE_F_WHOLE,
	};
	int err;

	if (op->opcode == KVTREE_OP_CAS) {
		write.when = KVT_WHEN_VERSION;
		write.expect = op->version;
	}
	if (op->flags & KVTREE_F_CREATE)
		write.when |= KVT_WHEN_NOT_THERE;
	if (op->flags & KVTREE_F_REPLACE)
		write.when |= KVT_WHEN_THERE;
	if (op->flags & KVTREE_F_COLS)
		err = put_columns(ctx, op, &write);
	else
		err = put_value(ctx, op, &write);
	/* A failed operation can be tried again as it stands. */
	if (kvt_op_is_answer(err))
		op->version = write.version;
	return err;
}
