// SPDX-License-Identifier: GPL-2.0
/* User memory that is not there: page faults, taken outside of the store. */
#include "user.h"

/**
 * kvt_copy_in_faulting() - copy from user space, with page faults
 * @ctx: on whose behalf; it may sleep
 * @to: where to
 * @from: user address
 * @n: bytes
 *
 * Context: process context, sleeps, perhaps for ever; leaves the store meanwhile.
 *
 * Return: 0, -EFAULT or -ESTALE.
 */
int kvt_copy_in_faulting(const struct kvt_op_ctx *ctx, void *to, u64 from, size_t n)
{
	bool was_inside = kvt_op_step_out(ctx);
	unsigned long left = copy_from_user(to, u64_to_user_ptr(from), n);

	return kvt_op_step_in(ctx, was_inside) ?: left ? -EFAULT : 0;
}

/**
 * kvt_copy_out_faulting() - copy to user space, with page faults
 * @ctx: on whose behalf; it may sleep
 * @to: user address
 * @from: where from
 * @n: bytes
 *
 * Context: process context, sleeps, perhaps for ever; leaves the store meanwhile.
 *
 * Return: 0, -EFAULT or -ESTALE.
 */
int kvt_copy_out_faulting(const struct kvt_op_ctx *ctx, u64 to, const void *from, size_t n)
{
	bool was_inside = kvt_op_step_out(ctx);
	unsigned long left = copy_to_user(u64_to_user_ptr(to), from, n);

	return kvt_op_step_in(ctx, was_inside) ?: left ? -EFAULT : 0;
}

/**
 * kvt_copy_outcome() - copy an operation that was executed to user space
 * @ctx: on whose behalf
 * @to: user address
 * @op: where from
 *
 * It cannot be executed again, so this takes page faults even where @ctx does not
 * allow it.  Whether the store was destroyed meanwhile kvt_op_inside() tells: that
 * changes nothing for what was executed.
 *
 * Context: process context, may sleep; leaves the store then.
 *
 * Return: 0 or -EFAULT.
 */
int kvt_copy_outcome(const struct kvt_op_ctx *ctx, u64 to, const struct kvtree_op *op)
{
	bool was_inside, copied;

	pagefault_disable();
	copied = kvt_copy_op_out(to, op);
	pagefault_enable();
	if (likely(copied))
		return 0;
	was_inside = kvt_op_step_out(ctx);
	copied = kvt_copy_op_out(to, op);
	kvt_op_step_in(ctx, was_inside);
	return copied ? 0 : -EFAULT;
}
