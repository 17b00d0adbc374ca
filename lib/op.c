// SPDX-License-Identifier: LGPL-2.1-only
/*
 * Operations: how they reach the kernel, and the calls for a single one.
 */
#include <stdlib.h>
#include <sys/ioctl.h>

#include "internal.h"

/* First guess of kvtree_get(): most values fit. */
#define GET_ROOM	1024

KVTREE_API int kvtree_submit(const struct kvtree *kv, struct kvtree_op *op,
			     size_t nr, size_t *done)
{
	size_t n = 0;
	int err = 0;

	while (n < nr && !err) {
		size_t rest = nr - n;
		struct kvtree_batch batch = {
			.ops = kvt_ptr(op + n),
			.nr = rest < KVTREE_BATCH_MAX ? (__u32)rest : KVTREE_BATCH_MAX,
			.op_size = sizeof(*op),
		};

		/*
		 * A signal makes the call return early, with EINTR or with
		 * success; either way `done` says how far it came.
		 */
		if (ioctl(kv->fd, KVTREE_IOC_BATCH, &batch) < 0 && errno != EINTR)
			err = -errno;
		n += batch.done;
	}
	if (done)
		*done = n;
	return err;
}

/**
 * kvt_run_one() - execute one operation
 * @kv: the session
 * @op: the operation
 *
 * If a signal interrupts the call before the operation was executed, it is
 * repeated.
 *
 * Return: its result, or the negative errno of the call
 */
int kvt_run_one(const struct kvtree *kv, struct kvtree_op *op)
{
	while (ioctl(kv->fd, KVTREE_IOC_OP, op) < 0)
		if (errno != EINTR)
			return -errno;
	return op->result;
}

/**
 * kvt_run_change() - execute one change
 * @kv: the session
 * @op: the operation
 * @version: the version made, removed or, after -ECANCELED, found; may be NULL
 *
 * Return: 0 or a negative errno
 */
int kvt_run_change(const struct kvtree *kv, struct kvtree_op *op, uint64_t *version)
{
	int ret = kvt_run_one(kv, op);

	if (version && (ret >= 0 || ret == -ECANCELED))
		*version = op->version;
	return ret < 0 ? ret : 0;
}

/**
 * kvt_op_init() - lay out an operation on a key
 * @op: the operation
 * @opcode: enum kvtree_opcode
 * @key: the key; it must not be moved or freed if it is longer than KVTREE_KEY_INLINE
 * @flags: the caller's KVTREE_F_*
 *
 * Return: 0, or -E2BIG or -EINVAL for what the fields of the operation cannot
 * hold; the kernel checks everything else
 */
int kvt_op_init(struct kvtree_op *op, unsigned int opcode, struct kvtree_slice key,
		unsigned int flags)
{
	/* The library sets the flags that select the layout. */
	const unsigned int layout = KVTREE_F_KEY_INLINE | KVTREE_F_COLS |
				    KVTREE_F_ALL_COLS;

	if (key.len > UINT16_MAX)
		return -E2BIG;
	if (flags > UINT16_MAX || (flags & layout))
		return -EINVAL;
	memset(op, 0, sizeof(*op));
	op->opcode = (__u8)opcode;
	op->flags = (__u16)flags;
	op->key_len = (__u16)key.len;
	if (key.len <= KVTREE_KEY_INLINE) {
		op->flags |= KVTREE_F_KEY_INLINE;
		if (key.len)
			memcpy(op->key_inline, key.data, key.len);
	} else {
		op->key = kvt_ptr(key.data);
	}
	return 0;
}

/**
 * kvt_op_get() - lay out a get
 * @op: the operation
 * @key: as for kvt_op_init()
 * @buf: where the value goes
 * @size: room at @buf, in bytes
 *
 * Return: as kvt_op_init()
 */
int kvt_op_get(struct kvtree_op *op, struct kvtree_slice key, void *buf, size_t size)
{
	int err = kvt_op_init(op, KVTREE_OP_GET, key, 0);

	if (err)
		return err;
	op->val = kvt_ptr(buf);
	op->val_len = size < KVTREE_VALUE_MAX ? (__u32)size : KVTREE_VALUE_MAX;
	return 0;
}

/**
 * kvt_op_put() - lay out a put
 * @op: the operation
 * @key: as for kvt_op_init()
 * @val: the value; it must not be moved or freed
 * @flags: as for kvtree_put()
 *
 * Return: as kvt_op_init()
 */
int kvt_op_put(struct kvtree_op *op, struct kvtree_slice key, struct kvtree_slice val,
	       unsigned int flags)
{
	int err = kvt_op_init(op, KVTREE_OP_PUT, key, flags);

	if (err)
		return err;
	if (val.len > UINT32_MAX)
		return -E2BIG;
	op->val = kvt_ptr(val.data);
	op->val_len = (__u32)val.len;
	return 0;
}

/**
 * kvt_op_cas() - lay out a compare-and-swap
 * @op: the operation
 * @key: as for kvt_op_init()
 * @val: as for kvt_op_put()
 * @flags: as for kvtree_cas()
 * @version: the version that the key must have, 0 for a key that is not there
 *
 * Return: as kvt_op_init()
 */
int kvt_op_cas(struct kvtree_op *op, struct kvtree_slice key, struct kvtree_slice val,
	       unsigned int flags, uint64_t version)
{
	int err = kvt_op_put(op, key, val, flags);

	if (err)
		return err;
	op->opcode = KVTREE_OP_CAS;
	op->version = version;
	return 0;
}

/**
 * kvt_op_del() - lay out a removal
 * @op: the operation
 * @key: as for kvt_op_init()
 * @flags: as for kvtree_del()
 * @version: with KVTREE_F_VERSION: the version that the key must have
 *
 * Return: as kvt_op_init()
 */
int kvt_op_del(struct kvtree_op *op, struct kvtree_slice key, unsigned int flags,
	       uint64_t version)
{
	int err = kvt_op_init(op, KVTREE_OP_REMOVE, key, flags);

	if (err)
		return err;
	op->version = version;
	return 0;
}

/**
 * kvt_op_add() - lay out an addition
 * @op: the operation
 * @key: as for kvt_op_init()
 * @col: the column that holds the number
 * @delta: what to add
 * @flags: as for kvtree_add()
 *
 * Return: as kvt_op_init()
 */
int kvt_op_add(struct kvtree_op *op, struct kvtree_slice key, unsigned int col,
	       int64_t delta, unsigned int flags)
{
	int err = kvt_op_init(op, KVTREE_OP_ADD, key, flags);

	if (err)
		return err;
	if (col >= KVTREE_COLS_MAX)
		return -EINVAL;
	op->col = (__u8)col;
	op->arg = (__u64)delta;
	return 0;
}

KVTREE_API int kvtree_get_into(const struct kvtree *kv, struct kvtree_slice key,
			       void *buf, size_t size, size_t *len, uint64_t *version)
{
	struct kvtree_op op;
	int ret;

	ret = kvt_op_get(&op, key, buf, size);
	if (ret)
		return ret;
	ret = kvt_run_one(kv, &op);
	if (len && (ret >= 0 || ret == -EMSGSIZE))
		*len = ret >= 0 ? (size_t)ret : op.val_len;
	if (ret < 0)
		return ret;
	if (version)
		*version = op.version;
	return 0;
}

KVTREE_API int kvtree_get(const struct kvtree *kv, struct kvtree_slice key,
			  void **val, size_t *len, uint64_t *version)
{
	size_t room = GET_ROOM, need = 0;
	char *buf = NULL, *p;
	int err;

	/* The value may grow between two calls: retry until it fits. */
	do {
		p = realloc(buf, room + 1);
		if (!p) {
			free(buf);
			return -ENOMEM;
		}
		buf = p;
		err = kvtree_get_into(kv, key, buf, room, &need, version);
		if (err == -EMSGSIZE && need <= room)
			err = -EBADMSG;
		room = need;
	} while (err == -EMSGSIZE);
	if (err) {
		free(buf);
		return err;
	}
	buf[need] = '\0';
	if (len)
		*len = need;
	if (val)
		*val = buf;
	else
		free(buf);
	return 0;
}

KVTREE_API int kvtree_put(const struct kvtree *kv, struct kvtree_slice key,
			  struct kvtree_slice val, unsigned int flags,
			  uint64_t *version)
{
	struct kvtree_op op;
	int err;

	err = kvt_op_put(&op, key, val, flags);
	return err ? err : kvt_run_change(kv, &op, version);
}

KVTREE_API int kvtree_cas(const struct kvtree *kv, struct kvtree_slice key,
			  struct kvtree_slice val, unsigned int flags,
			  uint64_t *version)
{
	struct kvtree_op op;
	int err;

	if (!version)
		return -EINVAL;
	err = kvt_op_cas(&op, key, val, flags, *version);
	return err ? err : kvt_run_change(kv, &op, version);
}

KVTREE_API int kvtree_del(const struct kvtree *kv, struct kvtree_slice key,
			  unsigned int flags, uint64_t *version)
{
	bool only_at = flags & KVTREE_F_VERSION;
	struct kvtree_op op;
	int err;

	if (only_at && !version)
		return -EINVAL;
	err = kvt_op_del(&op, key, flags, only_at ? *version : 0);
	return err ? err : kvt_run_change(kv, &op, version);
}

KVTREE_API int kvtree_add(const struct kvtree *kv, struct kvtree_slice key,
			  unsigned int col, int64_t delta, unsigned int flags,
			  struct kvtree_sum *sum)
{
	struct kvtree_op op;
	int err;

	err = kvt_op_add(&op, key, col, delta, flags);
	if (!err)
		err = kvt_run_change(kv, &op, NULL);
	if (!err && sum) {	/* unsigned: it may wrap around */
		sum->sum = (int64_t)(op.arg + (__u64)delta);
		sum->version = op.version;
	}
	return err;
}

KVTREE_API int kvtree_sync(const struct kvtree *kv)
{
	struct kvtree_op op = { .opcode = KVTREE_OP_SYNC };
	int ret = kvt_run_one(kv, &op);

	return ret < 0 ? ret : 0;
}
