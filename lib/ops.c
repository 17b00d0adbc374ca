// SPDX-License-Identifier: LGPL-2.1-only
/*
 * Operation lists.
 *
 * The operations are stored in one array, as the kernel expects.  Keys, values
 * and room for results are stored in chunks of memory that never move, so the
 * pointers in the operations stay valid while the list grows; clearing a list
 * keeps the chunks.
 */
#include <limits.h>
#include <stdlib.h>

#include "internal.h"

#define CHUNK_SIZE	65536u
#define CHUNK_ALIGN	8u

struct chunk {
	struct chunk *next;
	size_t size;		/* bytes at mem */
	size_t used;
	char mem[];
};

/* What the library stores for an operation in addition to struct kvtree_op. */
struct note {
	/* A get of columns: where the columns found will be described. */
	struct kvtree_columns *found;
	/* An addition: the operand, which the kernel overwrites with the old number. */
	int64_t delta;
};

struct kvtree_ops {
	struct kvtree_op *op;
	struct note *note;
	size_t nr;
	size_t room;		/* elements at op and at note */
	size_t done;
	struct chunk *first;
	struct chunk *cur;	/* chunks before it are full, those behind it empty */
};

KVTREE_API int kvtree_ops_new(struct kvtree_ops **ops)
{
	*ops = calloc(1, sizeof(**ops));
	return *ops ? 0 : -ENOMEM;
}

KVTREE_API void kvtree_ops_free(struct kvtree_ops *ops)
{
	struct chunk *c, *next;

	if (!ops)
		return;
	for (c = ops->first; c; c = next) {
		next = c->next;
		free(c);
	}
	free(ops->op);
	free(ops->note);
	free(ops);
}

KVTREE_API void kvtree_ops_clear(struct kvtree_ops *ops)
{
	struct chunk *c;

	for (c = ops->first; c; c = c->next)
		c->used = 0;
	ops->cur = ops->first;
	ops->nr = 0;
	ops->done = 0;
}

static void *take(struct kvtree_ops *ops, size_t len)
{
	struct chunk *c = ops->cur, *new;
	size_t size;

	len = (len + CHUNK_ALIGN - 1) & ~(size_t)(CHUNK_ALIGN - 1);
	while (c && c->size - c->used < len && c->next) {
		c = c->next;
		ops->cur = c;
	}
	if (!c || c->size - c->used < len) {
		size = len > CHUNK_SIZE ? len : CHUNK_SIZE;
		new = malloc(sizeof(*new) + size);
		if (!new)
			return NULL;
		new->next = NULL;
		new->size = size;
		new->used = 0;
		if (c)
			c->next = new;
		else
			ops->first = new;
		ops->cur = new;
		c = new;
	}
	c->used += len;
	return c->mem + c->used - len;
}

static void *take_copy(struct kvtree_ops *ops, struct kvtree_slice from)
{
	void *copy = take(ops, from.len);

	if (copy && from.len)
		memcpy(copy, from.data, from.len);
	return copy;
}

static int make_room(struct kvtree_ops *ops)
{
	size_t room = ops->room ? 2 * ops->room : 64;
	struct kvtree_op *op;
	struct note *note;

	if (ops->nr < ops->room)
		return 0;
	if (ops->nr >= INT_MAX)
		return -ENOMEM;
	op = realloc(ops->op, room * sizeof(*op));
	if (!op)
		return -ENOMEM;
	ops->op = op;
	note = realloc(ops->note, room * sizeof(*note));
	if (!note)
		return -ENOMEM;
	ops->note = note;
	ops->room = room;
	return 0;
}

/*
 * Make room for an operation after the last one.  finish() adds it to the list: a
 * failure before that leaves the list unchanged.
 */
static int start(struct kvtree_ops *ops, struct kvtree_op **op)
{
	int err = make_room(ops);

	if (err)
		return err;
	*op = &ops->op[ops->nr];
	memset(&ops->note[ops->nr], 0, sizeof(*ops->note));
	return 0;
}

static int finish(struct kvtree_ops *ops, struct kvtree_slice key)
{
	struct kvtree_op *op = &ops->op[ops->nr];
	void *copy;

	if (!(op->flags & KVTREE_F_KEY_INLINE)) {
		copy = take_copy(ops, key);
		if (!copy)
			return -ENOMEM;
		op->key = kvt_ptr(copy);
	}
	return (int)ops->nr++;
}

static int finish_value(struct kvtree_ops *ops, struct kvtree_slice key,
			struct kvtree_slice val)
{
	void *copy;

	if (val.len > KVTREE_VALUE_MAX)
		return -E2BIG;
	copy = take_copy(ops, val);
	if (!copy)
		return -ENOMEM;
	ops->op[ops->nr].val = kvt_ptr(copy);
	return finish(ops, key);
}

KVTREE_API int kvtree_ops_get(struct kvtree_ops *ops, struct kvtree_slice key,
			      void *buf, size_t size)
{
	struct kvtree_op *op;
	int err;

	err = start(ops, &op);
	if (!err)
		err = kvtree_op_get(op, key, buf, size);
	if (err)
		return err;
	if (!buf) {
		buf = take(ops, op->val_len);
		if (!buf)
			return -ENOMEM;
		op->val = kvt_ptr(buf);
	}
	return finish(ops, key);
}

KVTREE_API int kvtree_ops_get_cols(struct kvtree_ops *ops, struct kvtree_slice key,
				   const uint16_t *ids, size_t nr, size_t size)
{
	struct kvtree_columns *found;
	struct kvtree_col *desc;
	struct kvtree_op *op;
	void *data;
	int err;

	if (!ids)
		nr = KVTREE_COLS_MAX;
	if (nr > KVTREE_COLS_MAX)
		return -E2BIG;
	err = start(ops, &op);
	if (!err)
		err = kvtree_op_get(op, key, NULL, size);
	if (err)
		return err;
	desc = take(ops, nr * sizeof(*desc));
	found = take(ops, sizeof(*found) + nr * sizeof(*found->col));
	data = take(ops, op->val_len);
	if (!desc || !found || !data)
		return -ENOMEM;
	found->col = (struct kvtree_column *)(found + 1);
	ops->note[ops->nr].found = found;
	op->flags |= (__u16)kvt_cols_ids(desc, ids, nr);
	op->arg = kvt_ptr(desc);
	op->ncols = (__u16)nr;
	op->val = kvt_ptr(data);
	return finish(ops, key);
}

KVTREE_API int kvtree_ops_put(struct kvtree_ops *ops, struct kvtree_slice key,
			      struct kvtree_slice val, unsigned int flags)
{
	struct kvtree_op *op;
	int err;

	err = start(ops, &op);
	if (!err)
		err = kvtree_op_put(op, key, val, flags);
	return err ? err : finish_value(ops, key, val);
}

KVTREE_API int kvtree_ops_cas(struct kvtree_ops *ops, struct kvtree_slice key,
			      struct kvtree_slice val, unsigned int flags,
			      uint64_t version)
{
	struct kvtree_op *op;
	int err;

	err = start(ops, &op);
	if (!err)
		err = kvtree_op_cas(op, key, val, flags, version);
	return err ? err : finish_value(ops, key, val);
}

KVTREE_API int kvtree_ops_put_cols(struct kvtree_ops *ops, struct kvtree_slice key,
				   const struct kvtree_column *cols, size_t nr,
				   unsigned int flags)
{
	struct kvtree_col *desc;
	struct kvtree_op *op;
	size_t bytes;
	void *data;
	int err;

	if (nr > KVTREE_COLS_MAX)
		return -E2BIG;
	err = start(ops, &op);
	if (!err)
		err = kvtree_op_init(op, KVTREE_OP_PUT, key, flags);
	if (err)
		return err;
	desc = take(ops, nr * sizeof(*desc));
	if (!desc)
		return -ENOMEM;
	err = kvt_cols_describe(desc, cols, nr, &bytes);
	if (err)
		return err;
	data = take(ops, bytes);
	if (!data)
		return -ENOMEM;
	kvt_cols_gather(data, cols, nr);
	op->flags |= KVTREE_F_COLS;
	op->arg = kvt_ptr(desc);
	op->ncols = (__u16)nr;
	op->val = kvt_ptr(data);
	op->val_len = (__u32)bytes;
	return finish(ops, key);
}

KVTREE_API int kvtree_ops_del(struct kvtree_ops *ops, struct kvtree_slice key,
			      unsigned int flags, uint64_t version)
{
	struct kvtree_op *op;
	int err;

	err = start(ops, &op);
	if (!err)
		err = kvtree_op_del(op, key, flags, version);
	return err ? err : finish(ops, key);
}

KVTREE_API int kvtree_ops_add(struct kvtree_ops *ops, struct kvtree_slice key,
			      unsigned int col, int64_t delta, unsigned int flags)
{
	struct kvtree_op *op;
	int err;

	err = start(ops, &op);
	if (!err)
		err = kvtree_op_add(op, key, col, delta, flags);
	if (err)
		return err;
	ops->note[ops->nr].delta = delta;
	return finish(ops, key);
}

/**
 * kvt_ops_rest() - the operations of a list that have not been executed
 * @ops: the list
 * @op: the first of them; may be NULL
 *
 * Return: their number
 */
size_t kvt_ops_rest(const struct kvtree_ops *ops, struct kvtree_op **op)
{
	if (op)
		*op = ops->op + ops->done;
	return ops->nr - ops->done;
}

/**
 * kvt_ops_advance() - mark operations as executed
 * @ops: the list
 * @nr: how many of kvt_ops_rest()
 */
void kvt_ops_advance(struct kvtree_ops *ops, size_t nr)
{
	size_t i = ops->done;

	for (ops->done += nr; i < ops->done; i++) {
		struct kvtree_columns *found = ops->note[i].found;
		const struct kvtree_op *op = &ops->op[i];

		if (!found || op->result < 0)
			continue;
		found->version = op->version;
		found->nr = op->ncols;
		kvt_cols_scatter(found->col, (void *)(uintptr_t)op->arg,
				 op->ncols, (void *)(uintptr_t)op->val);
	}
}

KVTREE_API int kvtree_ops_run(struct kvtree_ops *ops, const struct kvtree *kv)
{
	struct kvtree_op *op;
	size_t nr, done;
	int err;

	nr = kvt_ops_rest(ops, &op);
	err = kvtree_submit(kv, op, nr, &done);
	kvt_ops_advance(ops, done);
	return err;
}

KVTREE_API size_t kvtree_ops_count(const struct kvtree_ops *ops)
{
	return ops->nr;
}

KVTREE_API size_t kvtree_ops_done(const struct kvtree_ops *ops)
{
	return ops->done;
}

static const struct kvtree_op *executed(const struct kvtree_ops *ops, size_t n)
{
	return n < ops->done ? &ops->op[n] : NULL;
}

KVTREE_API int kvtree_ops_result(const struct kvtree_ops *ops, size_t n)
{
	const struct kvtree_op *op = executed(ops, n);

	return op ? op->result : -EINPROGRESS;
}

KVTREE_API const void *kvtree_ops_value(const struct kvtree_ops *ops, size_t n,
					size_t *len)
{
	const struct kvtree_op *op = executed(ops, n);

	if (!op || op->opcode != KVTREE_OP_GET || ops->note[n].found)
		return NULL;
	if (len && (op->result >= 0 || op->result == -EMSGSIZE))
		*len = op->result >= 0 ? (size_t)op->result : op->val_len;
	return op->result >= 0 ? (void *)(uintptr_t)op->val : NULL;
}

KVTREE_API const struct kvtree_columns *
kvtree_ops_columns(const struct kvtree_ops *ops, size_t n)
{
	const struct kvtree_op *op = executed(ops, n);

	return op && op->result >= 0 ? ops->note[n].found : NULL;
}

KVTREE_API uint64_t kvtree_ops_version(const struct kvtree_ops *ops, size_t n)
{
	const struct kvtree_op *op = executed(ops, n);

	if (!op || (op->result < 0 && op->result != -ECANCELED))
		return 0;
	return op->version;
}

KVTREE_API int64_t kvtree_ops_sum(const struct kvtree_ops *ops, size_t n)
{
	const struct kvtree_op *op = executed(ops, n);

	if (!op || op->opcode != KVTREE_OP_ADD || op->result < 0)
		return 0;
	return (int64_t)(op->arg + (__u64)ops->note[n].delta);
}
