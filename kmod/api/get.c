// SPDX-License-Identifier: GPL-2.0
/*
 * GET.
 *
 * The common case, column 0 alone, is copied to user space straight from the value, under
 * RCU.  A longer one is copied outside of RCU, with a reference to its blob.  A subset of columns
 * is gathered first, in a buffer and by references (out.h).  All copies run with page faults
 * disabled.  On a fault the GET drops all references, brings in the page and looks the key up
 * again.
 */
#include <linux/err.h>
#include <linux/log2.h>
#include <linux/minmax.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>

#include "base/park.h"
#include "out.h"
#include "run.h"
#include "user.h"

/* A GET of at most this many columns, with this many bytes in all, allocates nothing. */
#define GET_FEW		8
#define GET_SMALL	256

/* A GET with columns. */
struct get_cols {
	struct kvtree_col *cols;	/* in and out */
	unsigned int ncols;
	bool all;
	/* The lookup's result: bytes to copy, and blobs to take references to. */
	u32 copied;
	u32 blobs;
	struct kvt_out out;
	void *mem;			/* of @out, or NULL: it is @small */
	struct kvtree_col few[GET_FEW];
	u8 small[GET_SMALL];
};

/*
 * Copy to the caller's `val`, without page faults.  Returns the bytes copied, -EMSGSIZE, or -EAGAIN
 * if a page is absent.
 */
static __always_inline int get_data(struct kvt_fixed *fixed, struct kvtree_op *op,
				    const u8 *data, u32 len)
{
	if (unlikely(len > op->val_len)) {
		op->val_len = len;
		return -EMSGSIZE;
	}
	return kvt_val_out_nofault(fixed, op->val, data, len) ?: len;
}

static __always_inline int get_plain_value(struct kvt_fixed *fixed, struct kvtree_op *op,
					   const struct kvt_value *v)
{
	const u8 *data;
	u32 len;

	data = kvt_value_plain_data(v, &len);
	return get_data(fixed, op, data, len);
}

/**
 * kvt_get_copy() - copy column 0 to user space if that needs no sleep
 * @ctx: the operation's context
 * @op: a GET without columns; its version and, for -EMSGSIZE, val_len are set
 * @v: the value found
 * @pinned: on -EAGAIN set to column 0; takes a reference to its blob if it has one
 * @room: bytes of blobs that may still be copied or pinned; reduced if one is
 *
 * Context: under the rcu_read_lock() under which @v was found.
 *
 * Return: bytes copied; -EMSGSIZE; -EAGAIN: outside of RCU, call kvt_get_copy_pinned() if
 * @pinned->blob was set, and kvt_get() otherwise.
 */
int kvt_get_copy(const struct kvt_op_ctx *ctx, struct kvtree_op *op, const struct kvt_value *v,
		 struct kvt_column *pinned, u32 *room)
{
	struct kvt_column col;
	int ret;

	op->version = v->version;
	if (likely(kvt_value_plain(v))) {
		ret = get_plain_value(ctx->fixed, op, v);
		if (unlikely(ret == -EAGAIN))
			kvt_value_column(v, 0, pinned);
		return ret;
	}
	if (!kvt_value_find(v, 0, &col))
		return 0;
	*pinned = col;
	if (!col.blob || col.len > op->val_len)
		return get_data(ctx->fixed, op, col.data, col.len);
	pinned->blob = NULL;
	if (col.len > *room)
		return -EAGAIN;
	*room -= col.len;
	if (col.len <= KVT_COPIED_MAX)
		return get_data(ctx->fixed, op, col.data, col.len);
	kvt_blob_get(col.blob);
	pinned->blob = col.blob;
	return -EAGAIN;
}

/**
 * kvt_get_quick() - try to execute a GET without a reference and without sleeping
 * @store: the store
 * @op: the operation, kvt_op_is_quick_get(), in and out
 *
 * Context: under kvt_store_enter_rcu(), in the task that owns the memory.
 *
 * Return: true: @op->result is set, and kvt_stat_get() must follow while the store is entered;
 * false: nothing was done, use kvt_get().
 */
bool kvt_get_quick(struct kvt_store *store, struct kvtree_op *op)
{
	const struct kvt_key key = { .data = op->key_inline, .len = op->key_len };
	struct kvt_index *index = store->index;
	const struct kvt_value *v;
	struct kvt_cell cell;

	v = index->ops->get(index, &key, &cell);
	if (!IS_ERR_OR_NULL(v) && likely(kvt_value_plain(v))) {
		op->version = v->version;
		op->result = get_plain_value(NULL, op, v);
	} else if (!v) {
		op->version = 0;
		op->result = -ENOENT;
	} else {
		return false;
	}
	return likely(op->result != -EAGAIN);
}

/**
 * kvt_get_copy_pinned() - copy a pinned blob to user space
 * @ctx: the operation's context
 * @op: the GET
 * @pinned: from kvt_get_copy(); this drops its reference
 *
 * Context: process context.
 *
 * Return: bytes copied, -EFAULT, or -EAGAIN after a page fault: unpin everything else and
 * call kvt_get().
 */
int kvt_get_copy_pinned(const struct kvt_op_ctx *ctx, const struct kvtree_op *op,
			struct kvt_column *pinned)
{
	int err;

	kvt_park_loose(KVT_PARK_GET_PINNED);
	err = kvt_val_out(ctx, op->val, 0, pinned->data, pinned->len);
	kvt_blob_put(pinned->blob);
	return err ?: pinned->len;
}

/* Whether a column is copied, after @copied bytes of others; if not, a reference is taken. */
static bool get_copies(const struct kvt_column *col, u32 copied)
{
	return !col->blob || copied + col->len <= KVT_COPIED_MAX;
}

/* Describe the wanted columns.  Returns the sum of their lengths, or -EMSGSIZE. */
static int get_describe(struct get_cols *get, struct kvtree_op *op, const struct kvt_value *v)
{
	unsigned int i, n = get->all ? kvt_value_ncols(v) : get->ncols;
	struct kvt_column col = {};
	u32 total = 0;

	op->version = v->version;
	get->copied = 0;
	get->blobs = 0;
	for (i = 0; i < n; i++) {
		if (get->all)
			kvt_value_column(v, i, &col);
		else if (!kvt_value_find(v, get->cols[i].id, &col))
			col.len = KVTREE_COL_ABSENT;
		if (!get->all)
			col.id = get->cols[i].id;
		if (i < get->ncols)
			get->cols[i] = (struct kvtree_col) { .id = col.id, .len = col.len };
		if (col.len == KVTREE_COL_ABSENT)
			continue;
		total += col.len;
		if (get_copies(&col, get->copied))
			get->copied += col.len;
		else
			get->blobs++;
	}
	if (n > get->ncols || total > op->val_len) {
		op->val_len = total;
		if (get->all)
			op->ncols = n;
		return -EMSGSIZE;
	}
	get->ncols = n;
	return total;
}

static void get_gather(struct get_cols *get, const struct kvt_value *v)
{
	struct kvt_column col;
	unsigned int i;

	for (i = 0; i < get->ncols; i++) {
		if (!kvt_value_find(v, get->cols[i].id, &col))
			continue;
		/* Copy its bytes, without a reference. */
		if (get_copies(&col, get->out.fill))
			col.blob = NULL;
		kvt_out_column(&get->out, &col);
	}
}

/* Look up, describe and gather.  Returns bytes or an error; -ENOBUFS: the output is too small. */
static int get_lookup(const struct kvt_op_ctx *ctx, struct kvtree_op *op,
		      const struct kvt_key *key, struct get_cols *get)
{
	struct kvt_index *index = ctx->store->index;
	struct kvt_cell cell;
	struct kvt_value *v;
	int ret;

	/* Forget the last lookup's result. */
	get->ncols = op->ncols;
	op->version = 0;
	do {
		rcu_read_lock();
		v = index->ops->get(index, key, &cell);
		if (!v)
			ret = -ENOENT;
		else if (IS_ERR(v))
			ret = PTR_ERR(v);
		else
			ret = get_describe(get, op, v);
		if (ret >= 0 && !kvt_out_fits(&get->out, get->copied, get->blobs))
			ret = -ENOBUFS;
		if (ret >= 0)
			get_gather(get, v);
		rcu_read_unlock();
	} while (kvt_op_again(ctx, v));
	return ret;
}

/* Make room for the lookup's result.  If the value grows meanwhile, the next try makes more. */
static int get_make_room(const struct kvt_op_ctx *ctx, struct get_cols *get)
{
	u32 nr = max_t(u32, get->out.blob_room, get->blobs);
	u32 blobs_size = nr * sizeof(struct kvt_out_blob);
	u32 size = roundup_pow_of_two(blobs_size + max_t(u32, get->out.room, get->copied));

	kvfree(get->mem);
	get->mem = kvmalloc(size, kvt_op_gfp_scratch(ctx));
	if (!get->mem)
		return -ENOMEM;
	kvt_out_init(&get->out, get->mem + blobs_size, size - blobs_size, get->mem, nr);
	return 0;
}

static int get_gathered(const struct kvt_op_ctx *ctx, struct kvtree_op *op,
			const struct kvt_key *key, struct get_cols *get)
{
	unsigned int tries = 0;
	int ret, err;

	kvt_out_init(&get->out, get->small, sizeof(get->small), NULL, 0);
	for (;;) {
		ret = get_lookup(ctx, op, key, get);
		err = ret > 0 ? kvt_out_flush(&get->out, ctx, op->val, 0) : 0;
		if (ret == -ENOBUFS)
			err = get_make_room(ctx, get);
		else if (err == -EAGAIN)
			err = kvt_val_fault_out(ctx, op->val, ret, &tries);
		else
			break;
		if (err)
			break;
	}
	kvt_out_exit(&get->out);
	kvfree(get->mem);
	return err ?: ret;
}

/* Try once.  Returns -EAGAIN if a page fault stopped the copy of @pinned->len bytes. */
static int get_plain_once(const struct kvt_op_ctx *ctx, struct kvtree_op *op,
			  const struct kvt_key *key, struct kvt_column *pinned)
{
	struct kvt_index *index = ctx->store->index;
	u32 room = KVTREE_VALUE_MAX;
	struct kvt_cell cell;
	struct kvt_value *v;
	int ret;

	do {
		rcu_read_lock();
		v = index->ops->get(index, key, &cell);
		pinned->blob = NULL;
		if (!v)
			ret = -ENOENT;
		else if (IS_ERR(v))
			ret = PTR_ERR(v);
		else
			ret = kvt_get_copy(ctx, op, v, pinned, &room);
		rcu_read_unlock();
	} while (kvt_op_again(ctx, v));

	if (likely(ret != -EAGAIN) || !pinned->blob)
		return ret;
	return kvt_get_copy_pinned(ctx, op, pinned);
}

static int get_plain(const struct kvt_op_ctx *ctx, struct kvtree_op *op,
		     const struct kvt_key *key)
{
	struct kvt_column pinned;
	unsigned int tries = 0;
	int ret;

	for (;;) {
		ret = get_plain_once(ctx, op, key, &pinned);
		if (likely(ret != -EAGAIN))
			return ret;
		/* An empty value needs no valid buffer. */
		if (!pinned.len)
			return 0;
		ret = kvt_val_fault_out(ctx, op->val, pinned.len, &tries);
		if (ret)
			return ret;
		op->version = 0;
	}
}

static int get_cols_valid(const struct get_cols *get)
{
	unsigned int i;

	for (i = 0; i < get->ncols; i++) {
		if (get->cols[i].id >= KVTREE_COLS_MAX || get->cols[i].reserved)
			return -EINVAL;
		if (i && get->cols[i].id <= get->cols[i - 1].id)
			return -EINVAL;
	}
	return 0;
}

static int get_columns(const struct kvt_op_ctx *ctx, struct kvtree_op *op,
		       const struct kvt_key *key)
{
	size_t size = array_size(op->ncols, sizeof(struct kvtree_col));
	struct get_cols get;
	int ret = 0;

	get.ncols = op->ncols;
	get.all = op->flags & KVTREE_F_ALL_COLS;
	get.mem = NULL;
	get.cols = get.few;
	if (op->ncols > GET_FEW)
		get.cols = kmalloc(size, kvt_op_gfp_scratch(ctx));
	if (!get.cols)
		return -ENOMEM;
	if (!get.all)
		ret = kvt_copy_in(ctx, get.cols, op->arg, size) ?: get_cols_valid(&get);
	if (!ret)
		ret = get_gathered(ctx, op, key, &get);
	if (ret >= 0) {
		op->ncols = get.ncols;
		size = array_size(get.ncols, sizeof(*get.cols));
		ret = kvt_copy_out(ctx, op->arg, get.cols, size) ?: ret;
	}
	if (get.cols != get.few)
		kfree(get.cols);
	return ret;
}

/**
 * kvt_get() - execute a GET
 * @ctx: the operation's context
 * @op: the operation, checked
 * @key: its key, in kernel memory
 *
 * Context: process context; sleeps if @ctx allows it.
 *
 * Return: bytes copied, or -ENOENT, -EMSGSIZE, -EFAULT, -EINVAL, -ENOMEM,
 * -EINTR; -EAGAIN: it would have to sleep.
 */
int kvt_get(const struct kvt_op_ctx *ctx, struct kvtree_op *op, const struct kvt_key *key)
{
	op->version = 0;
	if (op->flags & KVTREE_F_COLS)
		return get_columns(ctx, op, key);
	return get_plain(ctx, op, key);
}
