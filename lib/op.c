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

KVTREE_API int kvtree_get_into(const struct kvtree *kv, struct kvtree_slice key,
			       void *buf, size_t size, size_t *len, uint64_t *version)
{
	struct kvtree_op op;
	int ret;

	ret = kvtree_op_get(&op, key, buf, size);
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

	err = kvtree_op_put(&op, key, val, flags);
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
	err = kvtree_op_cas(&op, key, val, flags, *version);
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
	err = kvtree_op_del(&op, key, flags, only_at ? *version : 0);
	return err ? err : kvt_run_change(kv, &op, version);
}

KVTREE_API int kvtree_add(const struct kvtree *kv, struct kvtree_slice key,
			  unsigned int col, int64_t delta, unsigned int flags,
			  struct kvtree_sum *sum)
{
	struct kvtree_op op;
	int err;

	err = kvtree_op_add(&op, key, col, delta, flags);
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
	struct kvtree_op op;

	kvtree_op_sync(&op);
	return kvt_run_change(kv, &op, NULL);
}
