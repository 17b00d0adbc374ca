// SPDX-License-Identifier: LGPL-2.1-only
/*
 * Columns: the caller's arrays turned into the kernel's descriptors and back,
 * and the calls for the columns of a single key.
 */
#include <stdlib.h>

#include "internal.h"

/* Room for the data of columns that kvtree_get_cols() tries first. */
#define GET_COLS_ROOM	4096

/**
 * kvt_cols_describe() - make the descriptors of columns to be stored
 * @desc: room for @nr descriptors, at most KVTREE_COLS_MAX
 * @cols: the columns
 * @nr: their number
 * @bytes: the bytes of data in all of them
 *
 * The kernel checks that ids ascend.
 *
 * Return: 0, or -EINVAL or -E2BIG for what a descriptor cannot hold
 */
int kvt_cols_describe(struct kvtree_col *desc, const struct kvtree_column *cols,
		      size_t nr, size_t *bytes)
{
	size_t i, sum = 0;

	for (i = 0; i < nr; i++) {
		if (cols[i].id > UINT16_MAX)
			return -EINVAL;
		desc[i].id = (__u16)cols[i].id;
		desc[i].reserved = 0;
		desc[i].len = cols[i].len;
		if (cols[i].len == KVTREE_COL_ABSENT)
			continue;
		/* Refuse it here, before the sum is allocated. */
		if (cols[i].len > KVTREE_VALUE_MAX)
			return -E2BIG;
		sum += cols[i].len;
	}
	if (sum > KVTREE_VALUE_MAX)
		return -E2BIG;
	*bytes = sum;
	return 0;
}

/**
 * kvt_cols_gather() - copy the data of columns into one buffer
 * @data: the buffer, of the size that kvt_cols_describe() returned
 * @cols: the columns
 * @nr: their number
 */
void kvt_cols_gather(void *data, const struct kvtree_column *cols, size_t nr)
{
	char *p = data;
	size_t i;

	for (i = 0; i < nr; i++) {
		if (cols[i].len == KVTREE_COL_ABSENT || !cols[i].len)
			continue;
		memcpy(p, cols[i].data, cols[i].len);
		p += cols[i].len;
	}
}

/**
 * kvt_cols_ids() - make the descriptors of columns to be read
 * @desc: room for @nr descriptors
 * @ids: the columns' ids; NULL for all columns of the value
 * @nr: number of descriptors
 *
 * Return: the flags that the operation needs
 */
int kvt_cols_ids(struct kvtree_col *desc, const uint16_t *ids, size_t nr)
{
	size_t i;

	memset(desc, 0, nr * sizeof(*desc));
	if (!ids)
		return KVTREE_F_COLS | KVTREE_F_ALL_COLS;
	for (i = 0; i < nr; i++)
		desc[i].id = ids[i];
	return KVTREE_F_COLS;
}

/**
 * kvt_cols_scatter() - point columns at their data
 * @cols: filled in
 * @desc: the descriptors that the kernel filled in
 * @nr: their number
 * @data: the data that they describe
 */
void kvt_cols_scatter(struct kvtree_column *cols, const struct kvtree_col *desc,
		      size_t nr, const void *data)
{
	const char *p = data;
	size_t i;

	for (i = 0; i < nr; i++) {
		cols[i].id = desc[i].id;
		cols[i].len = desc[i].len;
		cols[i].data = NULL;
		if (desc[i].len == KVTREE_COL_ABSENT)
			continue;
		cols[i].data = p;
		p += desc[i].len;
	}
}

KVTREE_API int kvtree_get_cols(const struct kvtree *kv, struct kvtree_slice key,
			       const uint16_t *ids, size_t nr,
			       struct kvtree_columns **cols)
{
	struct kvtree_col desc[KVTREE_COLS_MAX];
	struct kvtree_columns *found = NULL, *p;
	size_t room = GET_COLS_ROOM, head;
	struct kvtree_op op;
	char *data = NULL;
	int ret;

	if (!ids)
		nr = ARRAY_SIZE(desc);
	if (nr > ARRAY_SIZE(desc))
		return -E2BIG;
	head = sizeof(*found) + nr * sizeof(*found->col);
	/* The value may grow between two calls: retry until it fits. */
	for (;;) {
		ret = kvtree_op_init(&op, KVTREE_OP_GET, key, 0);
		if (ret)
			break;
		p = realloc(found, head + room);
		if (!p) {
			ret = -ENOMEM;
			break;
		}
		found = p;
		data = (char *)found + head;
		op.flags |= (__u16)kvt_cols_ids(desc, ids, nr);
		op.arg = kvt_ptr(desc);
		op.ncols = (__u16)nr;
		op.val = kvt_ptr(data);
		op.val_len = (__u32)room;
		ret = kvt_run_one(kv, &op);
		if (ret != -EMSGSIZE)
			break;
		if (op.val_len <= room) {
			ret = -EBADMSG;
			break;
		}
		room = op.val_len;
	}
	if (ret < 0) {
		free(found);
		return ret;
	}
	found->version = op.version;
	found->nr = op.ncols;
	found->col = (struct kvtree_column *)(found + 1);
	kvt_cols_scatter(found->col, desc, found->nr, data);
	*cols = found;
	return 0;
}

/* Execute a put or a compare-and-swap that has no value yet. */
static int store_cols(const struct kvtree *kv, struct kvtree_op *op,
		      const struct kvtree_column *cols, size_t nr, uint64_t *version)
{
	struct kvtree_col desc[KVTREE_COLS_MAX];
	void *data = NULL;
	size_t bytes;
	int ret;

	if (nr > ARRAY_SIZE(desc))
		return -E2BIG;
	ret = kvt_cols_describe(desc, cols, nr, &bytes);
	if (ret)
		return ret;
	if (nr == 1) {
		/* A single column needs no copy. */
		op->val = bytes ? kvt_ptr(cols[0].data) : 0;
	} else if (bytes) {
		data = malloc(bytes);
		if (!data)
			return -ENOMEM;
		kvt_cols_gather(data, cols, nr);
		op->val = kvt_ptr(data);
	}
	op->flags |= KVTREE_F_COLS;
	op->arg = kvt_ptr(desc);
	op->ncols = (__u16)nr;
	op->val_len = (__u32)bytes;
	ret = kvt_run_change(kv, op, version);
	free(data);
	return ret;
}

KVTREE_API int kvtree_put_cols(const struct kvtree *kv, struct kvtree_slice key,
			       const struct kvtree_column *cols, size_t nr,
			       unsigned int flags, uint64_t *version)
{
	struct kvtree_op op;
	int err;

	err = kvtree_op_init(&op, KVTREE_OP_PUT, key, flags);
	return err ? err : store_cols(kv, &op, cols, nr, version);
}

KVTREE_API int kvtree_cas_cols(const struct kvtree *kv, struct kvtree_slice key,
			       const struct kvtree_column *cols, size_t nr,
			       unsigned int flags, uint64_t *version)
{
	struct kvtree_op op;
	int err;

	if (!version)
		return -EINVAL;
	err = kvtree_op_init(&op, KVTREE_OP_CAS, key, flags);
	if (err)
		return err;
	op.version = *version;
	return store_cols(kv, &op, cols, nr, version);
}
