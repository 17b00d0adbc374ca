// SPDX-License-Identifier: GPL-2.0
/* Page faults on user memory, taken outside of the store. */
#include <linux/pagemap.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>

#include "user.h"

/* Return EFAULT after this many faults without progress. */
#define FAULT_TRIES	1000

/**
 * kvt_copy_in_faulting() - copy from user space, with page faults
 * @ctx: the caller's context; it may sleep
 * @to: where to
 * @from: user address
 * @n: bytes
 *
 * Context: process context, sleeps, perhaps forever; leaves the store meanwhile.
 *
 * Return: 0, -EFAULT or -ESTALE.
 */
int kvt_copy_in_faulting(const struct kvt_op_ctx *ctx, void *to, u64 from, size_t n)
{
	bool was_inside = kvt_op_leave(ctx);
	unsigned long left = copy_from_user(to, u64_to_user_ptr(from), n);

	return kvt_op_reenter(ctx, was_inside) ?: left ? -EFAULT : 0;
}

/**
 * kvt_copy_out_faulting() - copy to user space, with page faults
 * @ctx: the caller's context; it may sleep
 * @to: user address
 * @from: where from
 * @n: bytes
 *
 * Context: process context, sleeps, perhaps forever; leaves the store meanwhile.
 *
 * Return: 0, -EFAULT or -ESTALE.
 */
int kvt_copy_out_faulting(const struct kvt_op_ctx *ctx, u64 to, const void *from, size_t n)
{
	bool was_inside = kvt_op_leave(ctx);
	unsigned long left = copy_to_user(u64_to_user_ptr(to), from, n);

	return kvt_op_reenter(ctx, was_inside) ?: left ? -EFAULT : 0;
}

/**
 * kvt_copy_other_size_in() - copy a structure that has another size in user space
 * @ctx: the caller's context
 * @to: where to
 * @ksize: its size here
 * @from: user address
 * @usize: its size there, at most KVT_STRUCT_MAX
 *
 * Context: process context; sleeps, perhaps forever, if @ctx allows it; leaves the store
 * then.
 *
 * Return: as kvt_copy_sized_in().
 */
int kvt_copy_other_size_in(const struct kvt_op_ctx *ctx, void *to, size_t ksize, u64 from,
			   size_t usize)
{
	bool was_inside;
	int err;

	err = kvt_copy_struct_in(false, to, ksize, from, usize);
	if (err != -EAGAIN || !kvt_op_may_sleep(ctx))
		return err;
	was_inside = kvt_op_leave(ctx);
	err = kvt_copy_struct_in(true, to, ksize, from, usize);
	return kvt_op_reenter(ctx, was_inside) ?: err;
}

/**
 * kvt_copy_outcome() - copy an operation that was executed to user space
 * @ctx: the caller's context
 * @to: user address
 * @op: where from
 *
 * It cannot be executed again, so this takes page faults even where @ctx does not
 * allow it.  kvt_op_inside() tells whether the store was destroyed meanwhile; the
 * operation's outcome remains the same.
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
	was_inside = kvt_op_leave(ctx);
	copied = kvt_copy_op_out(to, op);
	kvt_op_reenter(ctx, was_inside);
	return copied ? 0 : -EFAULT;
}

static int val_fault(const struct kvt_op_ctx *ctx, u64 val, size_t n, unsigned int *tries,
		     bool write)
{
	bool was_inside;
	size_t left;
	int err;

	if (!kvt_op_may_sleep(ctx))
		return -EAGAIN;
	if (ctx->fixed || ++*tries > FAULT_TRIES)
		return -EFAULT;
	was_inside = kvt_op_leave(ctx);
	if (write)
		/* Do not write: the value may be shorter by the next try. */
		left = fault_in_safe_writeable(u64_to_user_ptr(val), n);
	else
		left = fault_in_readable(u64_to_user_ptr(val), n);
	cond_resched();
	err = kvt_op_reenter(ctx, was_inside);
	if (fatal_signal_pending(current))
		return -EINTR;
	return err ?: left ? -EFAULT : 0;
}

/**
 * kvt_val_fault_in() - bring in pages that kvt_val_in() did not find
 * @ctx: the caller's context
 * @val: user address
 * @n: bytes of everything that is copied in one go
 * @tries: 0 at first; set to 0 whenever something could be copied
 *
 * Context: process context, sleeps, perhaps forever; leaves the store meanwhile, so the
 * caller must not hold anything of it.
 *
 * Return: 0: start again; -EFAULT; -ESTALE; -EINTR: a fatal signal came; -EAGAIN: it
 * would have to sleep.
 */
int kvt_val_fault_in(const struct kvt_op_ctx *ctx, u64 val, size_t n, unsigned int *tries)
{
	return val_fault(ctx, val, n, tries, false);
}

/**
 * kvt_val_fault_out() - bring in pages that kvt_val_out() did not find
 * @ctx: the caller's context
 * @val: user address
 * @n: bytes of everything that is copied in one go
 * @tries: 0 at first; set to 0 whenever something could be copied
 *
 * Context: as kvt_val_fault_in().
 *
 * Return: as kvt_val_fault_in().
 */
int kvt_val_fault_out(const struct kvt_op_ctx *ctx, u64 val, size_t n, unsigned int *tries)
{
	return val_fault(ctx, val, n, tries, true);
}
