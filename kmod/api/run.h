/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Running one operation: check, execute, report.  get.c, scan.c and core/write.c define what GET
 * or CAS mean; batch.c runs many operations.
 *
 * The operation itself was copied once into kernel memory.  Its pointers point to user memory of
 * the current task.
 */
#ifndef KVT_API_RUN_H
#define KVT_API_RUN_H

#include <linux/errno.h>
#include <linux/types.h>
#include <linux/kvtree.h>

#include "base/index.h"
#include "base/value.h"
#include "core/ctx.h"
#include "core/op.h"
#include "core/store.h"

/*
 * Bytes of blobs that a call may hold references to at once, unless they are a single value's.
 * This bounds what a task pins if it stops between looking up values and copying them.
 */
#define KVT_PINNED_MAX	(256u * 1024)
/*
 * A GET copies up to this many bytes of long columns under RCU.  Taking a reference instead would
 * write to a cache line that all readers of the value share.
 */
#define KVT_COPIED_MAX	(8u * 1024)

/*
 * Not a result: a signal came before the operation had any effect or outcome.
 * It was not executed.
 */
#define KVT_INTERRUPTED	(-ERESTARTSYS)

int kvt_op_execute(const struct kvt_op_ctx *ctx, struct kvtree_op *op);
int kvt_op_run(const struct kvt_op_ctx *ctx, struct kvtree_op *op);
void kvt_op_report(const struct kvt_op_ctx *ctx, struct kvtree_op *op, int result);

/* get.c */
int kvt_get(const struct kvt_op_ctx *ctx, struct kvtree_op *op, const struct kvt_key *key);
bool kvt_get_quick(struct kvt_store *store, struct kvtree_op *op);
int kvt_get_copy(const struct kvt_op_ctx *ctx, struct kvtree_op *op, const struct kvt_value *v,
		 struct kvt_column *pinned, u32 *room);
int kvt_get_copy_pinned(const struct kvt_op_ctx *ctx, const struct kvtree_op *op,
			struct kvt_column *pinned);

/**
 * kvt_op_is_quick_get() - whether kvt_get_quick() can be tried
 * @access: KVTREE_OPEN_* of the session
 * @op: the operation, as it came from user space
 *
 * Return: true for a plain GET that carries its key.
 */
static inline bool kvt_op_is_quick_get(unsigned int access, const struct kvtree_op *op)
{
	return op->flags == KVTREE_F_KEY_INLINE && kvt_op_is_plain_get(access, op);
}

#endif /* KVT_API_RUN_H */
