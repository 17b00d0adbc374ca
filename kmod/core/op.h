/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Operations, from all callers: what an opcode may ask for, which rights it needs, and how it is
 * counted.  core/op.c begins with the life of an operation.
 *
 * The operation is in kernel memory: copied once from user space, or made from what a BPF program
 * asks for.  The size of a structure there is checked here too.
 */
#ifndef KVT_CORE_OP_H
#define KVT_CORE_OP_H

#include <linux/errno.h>
#include <linux/types.h>
#include <linux/kvtree.h>

struct kvt_op_ctx;
struct kvt_stats;

/* The longest structure from user space, whatever the page size. */
#define KVT_STRUCT_MAX	4096u

/**
 * kvt_struct_size_check() - check the size of a structure in user space
 * @size: its size there, bytes
 * @least: its size in the first version
 *
 * Context: any.
 *
 * Return: 0, -EINVAL: too small, -E2BIG: larger than KVT_STRUCT_MAX.
 */
static inline int kvt_struct_size_check(size_t size, size_t least)
{
	if (size < least)
		return -EINVAL;
	return size > KVT_STRUCT_MAX ? -E2BIG : 0;
}

int kvt_op_check(const struct kvt_op_ctx *ctx, const struct kvtree_op *op);
bool kvt_op_is_update(const struct kvtree_op *op);
bool kvt_op_uses_val(const struct kvtree_op *op);
unsigned int kvt_op_access(u8 opcode);
bool kvt_op_is_answer(int result);
void kvt_op_count(struct kvt_stats *stats, u8 opcode, int result);

/**
 * kvt_op_is_plain_get() - whether an operation is a well-formed GET of column 0
 * @access: KVTREE_OPEN_* of the session
 * @op: the operation, as it came from user space
 *
 * Return: true if so, without errors for kvt_op_check() to find; false: it may be anything.
 */
static inline bool kvt_op_is_plain_get(unsigned int access, const struct kvtree_op *op)
{
	u64 stray = op->reserved | op->arg | op->col | op->ncols |
		    (op->flags & ~KVTREE_F_KEY_INLINE);

	if (op->opcode != KVTREE_OP_GET || stray || !(access & KVTREE_OPEN_READ))
		return false;
	if (op->flags)
		return op->key_len <= KVTREE_KEY_INLINE;
	return op->key_len <= KVTREE_KEY_MAX && !op->key_reserved;
}

#endif /* KVT_CORE_OP_H */
