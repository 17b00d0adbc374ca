/* SPDX-License-Identifier: LGPL-2.1-only */
/*
 * kvtree on a program's own io_uring.
 *
 * Inline functions that fill in operations (kvtree_op_*) and SQEs that execute them
 * (kvtree_prep_*), as io_uring_prep_*() of liburing do.  They call nothing, and need
 * no library.  Include <liburing.h> first if the program uses it.
 */
#ifndef _KVTREE_URING_H
#define _KVTREE_URING_H

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include <linux/io_uring.h>
#include <linux/kvtree.h>

#include "kvtree.h"

/* Headers of older kernels lack it. */
#ifndef IORING_URING_CMD_MULTISHOT
#define IORING_URING_CMD_MULTISHOT	(1U << 1)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Operations by hand
 * ==================
 *
 * These calls fill in a struct kvtree_op, for kvtree_prep_op() and the like,
 * kvtree_submit() or kvtree_ring_op().  A key of up to KVTREE_KEY_INLINE bytes is
 * copied.  A longer key, and a value, must stay until the operation has completed.  The
 * kernel changes an operation that it executes: fill it in again before it is used
 * again.  The kernel checks everything that these calls do not.
 */

/**
 * kvtree_op_init() - fill in an operation on a key
 * @op: the operation
 * @opcode: enum kvtree_opcode
 * @key: the key
 * @flags: KVTREE_F_*, without those that say where key and columns are
 *
 * For columns, add KVTREE_F_COLS to the operation's flags afterwards, and set `arg` to
 * the descriptors (struct kvtree_col), `ncols`, `val` and `val_len`.
 *
 * Return: 0, or
 *	-E2BIG		the key, or in other calls the value, is too long for its field
 *	-EINVAL		a flag, or in other calls the column, is out of its range
 */
static inline int kvtree_op_init(struct kvtree_op *op, unsigned int opcode,
				 struct kvtree_slice key, unsigned int flags)
{
	/* These select the layout, which is chosen here. */
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
		op->key = (__u64)(uintptr_t)key.data;
	}
	return 0;
}

/**
 * kvtree_op_get() - fill in a get
 * @op: the operation
 * @key: the key
 * @buf: where the value goes
 * @size: room at @buf, in bytes; more than KVTREE_VALUE_MAX is not used
 *
 * Return: as kvtree_op_init()
 */
static inline int kvtree_op_get(struct kvtree_op *op, struct kvtree_slice key,
				void *buf, size_t size)
{
	int err = kvtree_op_init(op, KVTREE_OP_GET, key, 0);

	if (err)
		return err;
	op->val = (__u64)(uintptr_t)buf;
	op->val_len = size < KVTREE_VALUE_MAX ? (__u32)size : KVTREE_VALUE_MAX;
	return 0;
}

/**
 * kvtree_op_put() - fill in a put; see kvtree_put()
 * @op: the operation
 * @key: the key
 * @val: the value
 * @flags: as for kvtree_put()
 *
 * Return: as kvtree_op_init()
 */
static inline int kvtree_op_put(struct kvtree_op *op, struct kvtree_slice key,
				struct kvtree_slice val, unsigned int flags)
{
	int err = kvtree_op_init(op, KVTREE_OP_PUT, key, flags);

	if (err)
		return err;
	if (val.len > UINT32_MAX)
		return -E2BIG;
	op->val = (__u64)(uintptr_t)val.data;
	op->val_len = (__u32)val.len;
	return 0;
}

/**
 * kvtree_op_cas() - fill in a compare-and-swap; see kvtree_cas()
 * @op: the operation
 * @key: the key
 * @val: the value
 * @flags: as for kvtree_cas()
 * @version: the version that the key must have, 0 for a key that does not exist
 *
 * Return: as kvtree_op_init()
 */
static inline int kvtree_op_cas(struct kvtree_op *op, struct kvtree_slice key,
				struct kvtree_slice val, unsigned int flags,
				uint64_t version)
{
	int err = kvtree_op_put(op, key, val, flags);

	if (err)
		return err;
	op->opcode = KVTREE_OP_CAS;
	op->version = version;
	return 0;
}

/**
 * kvtree_op_del() - fill in a removal; see kvtree_del()
 * @op: the operation
 * @key: the key
 * @flags: as for kvtree_del()
 * @version: with KVTREE_F_VERSION: the version that the key must have, else 0
 *
 * Return: as kvtree_op_init()
 */
static inline int kvtree_op_del(struct kvtree_op *op, struct kvtree_slice key,
				unsigned int flags, uint64_t version)
{
	int err = kvtree_op_init(op, KVTREE_OP_REMOVE, key, flags);

	if (err)
		return err;
	op->version = version;
	return 0;
}

/**
 * kvtree_op_add() - fill in an addition; see kvtree_add()
 * @op: the operation
 * @key: the key
 * @col: the column that holds the number
 * @delta: what to add
 * @flags: as for kvtree_add()
 *
 * The operation's `arg` becomes the number before the addition.
 *
 * Return: as kvtree_op_init()
 */
static inline int kvtree_op_add(struct kvtree_op *op, struct kvtree_slice key,
				unsigned int col, int64_t delta, unsigned int flags)
{
	int err = kvtree_op_init(op, KVTREE_OP_ADD, key, flags);

	if (err)
		return err;
	if (col >= KVTREE_COLS_MAX)
		return -EINVAL;
	op->col = (__u8)col;
	op->arg = (__u64)delta;
	return 0;
}

/**
 * kvtree_op_scan() - fill in a scan
 * @op: the operation
 * @start: the key where it starts
 * @scan: its end, limit, columns and flags; all zero: every record from @start on.  It
 *	must stay until the operation has completed, and has `count` and `out_flags` then
 * @buf: where the records go, each a struct kvtree_rec: its key is `hdr_len` bytes after
 *	its start, the value behind the key, the next record `rec_len` bytes after its
 *	start.  Align it to 8 bytes to read them there.  NULL for kvtree_prep_multishot()
 * @size: room at @buf, in bytes
 *
 * Return: as kvtree_op_init()
 */
static inline int kvtree_op_scan(struct kvtree_op *op, struct kvtree_slice start,
				 struct kvtree_scan *scan, void *buf, size_t size)
{
	int err = kvtree_op_init(op, KVTREE_OP_SCAN, start, 0);

	if (err)
		return err;
	if (size > UINT32_MAX)
		return -E2BIG;
	op->arg = (__u64)(uintptr_t)scan;
	op->arg_size = sizeof(*scan);
	op->val = (__u64)(uintptr_t)buf;
	op->val_len = (__u32)size;
	return 0;
}

/**
 * kvtree_op_sync() - fill in a sync; see kvtree_sync()
 * @op: the operation
 */
static inline void kvtree_op_sync(struct kvtree_op *op)
{
	memset(op, 0, sizeof(*op));
	op->opcode = KVTREE_OP_SYNC;
}

/*
 * SQEs by hand
 * ============
 *
 * These calls fill in an SQE of a program's own io_uring.  Set its user_data, and add
 * to its flags, after that: io_uring_sqe_set_flags() replaces them.  The descriptor is
 * a session's: see kvtree_fd().  Include <liburing.h> before <kvtree_uring.h>.
 */

/* Begin a command.  Returns where its argument goes. */
static inline void *_kvtree_prep_cmd(struct io_uring_sqe *sqe, int fd, __u32 cmd)
{
	memset(sqe, 0, sizeof(*sqe));
	sqe->opcode = IORING_OP_URING_CMD;
	sqe->fd = fd;
	sqe->cmd_op = cmd;
	return sqe->cmd;
}

/**
 * kvtree_prep_op() - fill in an SQE that executes an operation
 * @sqe: the SQE, of any size
 * @fd: the session's descriptor
 * @op: the operation; it must stay until it has completed, and has its outcome then
 */
static inline void kvtree_prep_op(struct io_uring_sqe *sqe, int fd, struct kvtree_op *op)
{
	struct kvtree_uring_op *arg;

	arg = (struct kvtree_uring_op *)_kvtree_prep_cmd(sqe, fd, KVTREE_URING_OP);
	arg->op = (__u64)(uintptr_t)op;
	arg->op_size = sizeof(*op);
	arg->flags = 0;
}

/**
 * kvtree_prep_op_inline() - fill in an SQE that contains an operation
 * @sqe: the SQE, of a ring with IORING_SETUP_SQE128
 * @fd: the session's descriptor
 * @op: the operation, copied
 * @out: where the operation with its outcome goes; it must stay until the completion.
 *	NULL if the completion, with the result and on IORING_SETUP_CQE32 the version,
 *	is enough
 */
static inline void kvtree_prep_op_inline(struct io_uring_sqe *sqe, int fd,
					 const struct kvtree_op *op, struct kvtree_op *out)
{
	struct kvtree_uring_inline *arg;

	arg = (struct kvtree_uring_inline *)_kvtree_prep_cmd(sqe, fd, KVTREE_URING_OP_INLINE);
	arg->op = *op;
	arg->out = (__u64)(uintptr_t)out;
	arg->reserved = 0;
}

/**
 * kvtree_prep_batch() - fill in an SQE that executes operations in order
 * @sqe: the SQE, of any size
 * @fd: the session's descriptor
 * @ops: the operations; they must stay until they have completed
 * @nr: their number, at most KVTREE_BATCH_MAX
 *
 * The completion has the number of operations executed, which may be less than @nr
 * (submit the rest again), or a negative errno if none was.
 */
static inline void kvtree_prep_batch(struct io_uring_sqe *sqe, int fd,
				     struct kvtree_op *ops, unsigned int nr)
{
	struct kvtree_uring_batch *arg;

	arg = (struct kvtree_uring_batch *)_kvtree_prep_cmd(sqe, fd, KVTREE_URING_BATCH);
	arg->ops = (__u64)(uintptr_t)ops;
	arg->nr = nr;
	arg->op_size = sizeof(*ops);
	arg->flags = 0;
}

/**
 * kvtree_prep_cancel() - fill in an SQE that cancels changes that wait
 * @sqe: the SQE, of any size
 * @fd: the session's descriptor
 * @user_data: of the SQE to be canceled
 * @flags: KVTREE_CANCEL_ALL (all that have this @user_data), KVTREE_CANCEL_ANY (all,
 *	whatever theirs is), or 0
 *
 * The completion has the number canceled; -ENOENT if no such command waits, perhaps
 * because it has completed; -EALREADY if it is being executed, or was executed and waits
 * to be durable.
 */
static inline void kvtree_prep_cancel(struct io_uring_sqe *sqe, int fd, __u64 user_data,
				      __u32 flags)
{
	struct kvtree_uring_cancel *arg;

	arg = (struct kvtree_uring_cancel *)_kvtree_prep_cmd(sqe, fd, KVTREE_URING_CANCEL);
	arg->user_data = user_data;
	arg->flags = flags;
	arg->reserved = 0;
}

/**
 * kvtree_prep_fixed() - have an operation use a registered buffer
 * @sqe: an SQE of kvtree_prep_op() or kvtree_prep_op_inline()
 * @index: the buffer's number; the value, or the room for it, is within the buffer
 *
 * Call it after the one that fills in the SQE.
 */
static inline void kvtree_prep_fixed(struct io_uring_sqe *sqe, __u16 index)
{
	sqe->uring_cmd_flags |= IORING_URING_CMD_FIXED;
	sqe->buf_index = index;
}

/**
 * kvtree_prep_multishot() - have a scan complete once for each provided buffer it fills
 * @sqe: an SQE of kvtree_prep_op() or kvtree_prep_op_inline() with a scan without a buffer
 * @group: the group of provided buffers
 *
 * The completions of buffers have IORING_CQE_F_MORE.  The last one, without it, has no
 * buffer: 0 at the end of the scan, or a negative errno.
 *
 * Call it after the one that fills in the SQE.
 */
static inline void kvtree_prep_multishot(struct io_uring_sqe *sqe, __u16 group)
{
	sqe->uring_cmd_flags |= IORING_URING_CMD_MULTISHOT;
	sqe->flags |= IOSQE_BUFFER_SELECT;
	sqe->buf_group = group;
}

#ifdef __cplusplus
}
#endif

#endif /* _KVTREE_URING_H */
