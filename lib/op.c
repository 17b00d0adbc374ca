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
 * kvt_op_init() - lay out an operation on a key
 * @op: the operation
 * @opcode: enum kvtree_opcode
 * @key: the key; it must not be moved or freed if it is longer than KVTREE_KEY_INLINE
 * @key_len: bytes at @key
 * @flags: the caller's KVTREE_F_*
 *
 * Return: 0, or -E2BIG or -EINVAL for what the fields of the operation cannot
 * hold; the kernel checks everything else
 */
int kvt_op_init(struct kvtree_op *op, unsigned int opcode, const void *key,
		size_t key_len, unsigned int flags)
{
	/* The library sets the flags that select the layout. */
	const unsigned int layout = KVTREE_F_KEY_INLINE | KVTREE_F_COLS |
				    KVTREE_F_ALL_COLS;

	if (key_len > UINT16_MAX)
		return -E2BIG;
	if (flags > UINT16_MAX || (flags & layout))
		return -EINVAL;
	memset(op, 0, sizeof(*op));
	op->opcode = (__u8)opcode;
	op->flags = (__u16)flags;
	op->key_len = (__u16)key_len;
	if (key_len <= KVTREE_KEY_INLINE) {
		op->flags |= KVTREE_F_KEY_INLINE;
		if (key_len)
			memcpy(op->key_inline, key, key_len);
	} else {
		op->key = kvt_ptr(key);
	}
	return 0;
}

KVTREE_API int kvtree_get_into(const struct kvtree *kv, const void *key,
			       size_t key_len, void *buf, size_t size,
			       size_t *len, uint64_t *version)
{
	struct kvtree_op op;
	int ret;

	ret = kvt_op_init(&op, KVTREE_OP_GET, key, key_len, 0);
	if (ret)
		return ret;
	op.val = kvt_ptr(buf);
	op.val_len = size < KVTREE_VALUE_MAX ? (__u32)size : KVTREE_VALUE_MAX;
	ret = kvt_run_one(kv, &op);
	if (len && (ret >= 0 || ret == -EMSGSIZE))
		*len = ret >= 0 ? (size_t)ret : op.val_len;
	if (ret < 0)
		return ret;
	if (version)
		*version = op.version;
	return 0;
}

KVTREE_API int kvtree_get(const struct kvtree *kv, const void *key,
			  size_t key_len, void **val, size_t *len,
			  uint64_t *version)
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
		err = kvtree_get_into(kv, key, key_len, buf, room, &need, version);
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

static int store_value(const struct kvtree *kv, unsigned int opcode,
		       const void *key, size_t key_len, const void *val,
		       size_t len, unsigned int flags, uint64_t *version)
{
	struct kvtree_op op;
	int ret;

	ret = kvt_op_init(&op, opcode, key, key_len, flags);
	if (ret)
		return ret;
	if (len > UINT32_MAX)
		return -E2BIG;
	op.val = kvt_ptr(val);
	op.val_len = (__u32)len;
	if (opcode == KVTREE_OP_CAS)
		op.version = *version;
	ret = kvt_run_one(kv, &op);
	if (version && (ret >= 0 || ret == -ECANCELED))
		*version = op.version;
	return ret < 0 ? ret : 0;
}

KVTREE_API int kvtree_put(const struct kvtree *kv, const void *key,
			  size_t key_len, const void *val, size_t len,
			  unsigned int flags, uint64_t *version)
{
	return store_value(kv, KVTREE_OP_PUT, key, key_len, val, len, flags,
			   version);
}

KVTREE_API int kvtree_cas(const struct kvtree *kv, const void *key,
			  size_t key_len, const void *val, size_t len,
			  unsigned int flags, uint64_t *version)
{
	if (!version)
		return -EINVAL;
	return store_value(kv, KVTREE_OP_CAS, key, key_len, val, len, flags,
			   version);
}

KVTREE_API int kvtree_del(const struct kvtree *kv, const void *key,
			  size_t key_len, unsigned int flags, uint64_t *version)
{
	struct kvtree_op op;
	int ret;

	ret = kvt_op_init(&op, KVTREE_OP_REMOVE, key, key_len, flags);
	if (ret)
		return ret;
	if (flags & KVTREE_F_VERSION) {
		if (!version)
			return -EINVAL;
		op.version = *version;
	}
	ret = kvt_run_one(kv, &op);
	if (version && (ret >= 0 || ret == -ECANCELED))
		*version = op.version;
	return ret < 0 ? ret : 0;
}

KVTREE_API int kvtree_add(const struct kvtree *kv, const void *key,
			  size_t key_len, unsigned int col, int64_t delta,
			  unsigned int flags, int64_t *sum, uint64_t *version)
{
	struct kvtree_op op;
	int ret;

	ret = kvt_op_init(&op, KVTREE_OP_ADD, key, key_len, flags);
	if (ret)
		return ret;
	if (col >= KVTREE_COLS_MAX)
		return -EINVAL;
	op.col = (__u8)col;
	op.arg = (__u64)delta;
	ret = kvt_run_one(kv, &op);
	if (ret < 0)
		return ret;
	if (sum)	/* unsigned: it may wrap around */
		*sum = (int64_t)(op.arg + (__u64)delta);
	if (version)
		*version = op.version;
	return 0;
}

KVTREE_API int kvtree_sync(const struct kvtree *kv)
{
	struct kvtree_op op = { .opcode = KVTREE_OP_SYNC };
	int ret = kvt_run_one(kv, &op);

	return ret < 0 ? ret : 0;
}
