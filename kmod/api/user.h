/* SPDX-License-Identifier: GPL-2.0 */
/*
 * User memory of the current task, as operations read and write it.
 *
 * Everything is copied without page faults at first.  An operation that may sleep then
 * leaves the store, takes the fault, and enters again; it gets -ESTALE if the store was
 * destroyed meanwhile.  One that may not gets -EAGAIN for a page that is not there, or
 * that is nobody's: whoever runs it again where it may sleep learns which.  What `val`
 * points to may stand in a registered buffer of an io_uring, whose pages are always there.
 *
 * None of it may be called under a node lock or in an RCU read section, or with a
 * reference on anything of the store, but for kvt_val_out_nofault(), and for what copies
 * values, which can be long: kvt_val_in() and kvt_val_out().  Where these meet a page that
 * is not there, the operation lets go of whatever it holds, has the page brought in, and
 * begins again.
 */
#ifndef KVT_API_USER_H
#define KVT_API_USER_H

#include <linux/uaccess.h>
#include <linux/uio.h>

#include "op.h"

/*
 * Operations, and short values: word by word, which is less than what a string
 * instruction takes to begin.  A field that another thread changes meanwhile is
 * read as it was or as it is.
 */
#define KVT_COPY_SHORT	64u

static __always_inline bool kvt_words_in(u64 *to, const u64 __user *from, size_t n)
{
	if (!user_access_begin(from, n))
		return false;
	for (n /= sizeof(*to); n >= 4; n -= 4, to += 4, from += 4) {
		unsafe_get_user(to[0], from + 0, fault);
		unsafe_get_user(to[1], from + 1, fault);
		unsafe_get_user(to[2], from + 2, fault);
		unsafe_get_user(to[3], from + 3, fault);
	}
	for (; n; n--)
		unsafe_get_user(*to++, from++, fault);
	user_access_end();
	return true;
fault:
	user_access_end();
	return false;
}

static __always_inline bool kvt_words_out(u64 __user *to, const u64 *from, size_t n)
{
	if (!user_access_begin(to, n))
		return false;
	for (n /= sizeof(*from); n >= 4; n -= 4, to += 4, from += 4) {
		unsafe_put_user(from[0], to + 0, fault);
		unsafe_put_user(from[1], to + 1, fault);
		unsafe_put_user(from[2], to + 2, fault);
		unsafe_put_user(from[3], to + 3, fault);
	}
	for (; n; n--)
		unsafe_put_user(*from++, to++, fault);
	user_access_end();
	return true;
fault:
	user_access_end();
	return false;
}

/**
 * kvt_copy_ops_in() - copy operations from user space
 * @sleep: whether it may
 * @ops: where to
 * @from: user address
 * @n: how many
 *
 * Context: process context; sleeps if @sleep, outside of any store.
 *
 * Return: 0, -EFAULT, or -EAGAIN: it would have to sleep.
 */
static __always_inline int kvt_copy_ops_in(bool sleep, struct kvtree_op *ops, u64 from,
					   u32 n)
{
	bool copied;

	if (sleep)
		return kvt_words_in((u64 *)ops, u64_to_user_ptr(from), n * sizeof(*ops)) ?
			0 : -EFAULT;
	pagefault_disable();
	copied = kvt_words_in((u64 *)ops, u64_to_user_ptr(from), n * sizeof(*ops));
	pagefault_enable();
	return copied ? 0 : -EAGAIN;
}

/**
 * kvt_copy_answers_out() - copy what GETs change in their operations
 * @to: user address of the first
 * @stride: bytes from one to the next there
 * @ops: where from
 * @n: how many, at most what @stride times it is no overflow for
 *
 * Context: process context; sleeps, outside of any store, unless page faults are
 * disabled.
 *
 * Return: how many were copied before one faulted.
 */
static __always_inline u32 kvt_copy_answers_out(u64 to, size_t stride,
						const struct kvtree_op *ops, u32 n)
{
	struct kvtree_op __user *user;
	u32 i = 0;

	if (!user_access_begin(u64_to_user_ptr(to), n * stride))
		return 0;
	for (; i < n; i++) {
		user = u64_to_user_ptr(to + i * stride);
		unsafe_put_user(ops[i].val_len, &user->val_len, fault);
		unsafe_put_user(ops[i].version, &user->version, fault);
		unsafe_put_user(ops[i].result, &user->result, fault);
	}
fault:
	user_access_end();
	return i;
}

/**
 * kvt_copy_op_out() - copy an operation to user space
 * @to: user address
 * @op: where from
 *
 * Context: process context; sleeps, outside of any store, unless page faults are
 * disabled.
 *
 * Return: true, or false if it faulted.
 */
static __always_inline bool kvt_copy_op_out(u64 to, const struct kvtree_op *op)
{
	return kvt_words_out(u64_to_user_ptr(to), (const u64 *)op, sizeof(*op));
}

/* user.c */
int kvt_copy_in_faulting(const struct kvt_op_ctx *ctx, void *to, u64 from, size_t n);
int kvt_copy_out_faulting(const struct kvt_op_ctx *ctx, u64 to, const void *from, size_t n);

int kvt_copy_outcome(const struct kvt_op_ctx *ctx, u64 to, const struct kvtree_op *op);

int kvt_val_fault_in(const struct kvt_op_ctx *ctx, u64 val, size_t n, unsigned int *tries);
int kvt_val_fault_out(const struct kvt_op_ctx *ctx, u64 val, size_t n, unsigned int *tries);

/**
 * kvt_copy_in() - copy from user space
 * @ctx: on whose behalf
 * @to: where to
 * @from: user address
 * @n: bytes
 *
 * Context: process context; sleeps if @ctx allows it.
 *
 * Return: 0, -EFAULT, -ESTALE, or -EAGAIN: it would have to sleep.
 */
static __always_inline int kvt_copy_in(const struct kvt_op_ctx *ctx, void *to, u64 from,
				       size_t n)
{
	if (likely(!copy_from_user_nofault(to, u64_to_user_ptr(from), n)))
		return 0;
	return kvt_op_may_sleep(ctx) ? kvt_copy_in_faulting(ctx, to, from, n) : -EAGAIN;
}

/**
 * kvt_copy_out() - copy to user space
 * @ctx: on whose behalf
 * @to: user address
 * @from: where from
 * @n: bytes
 *
 * Context: process context; sleeps if @ctx allows it.
 *
 * Return: 0, -EFAULT, -ESTALE, or -EAGAIN: it would have to sleep.
 */
static __always_inline int kvt_copy_out(const struct kvt_op_ctx *ctx, u64 to,
					const void *from, size_t n)
{
	if (likely(!copy_to_user_nofault(u64_to_user_ptr(to), from, n)))
		return 0;
	return kvt_op_may_sleep(ctx) ? kvt_copy_out_faulting(ctx, to, from, n) : -EAGAIN;
}

/**
 * kvt_copy_struct_in() - copy a structure whose size the user says
 * @sleep: whether it may
 * @to: where to
 * @ksize: its size here
 * @from: user address
 * @usize: its size there, at most a page
 *
 * Context: process context; sleeps if @sleep, outside of any store.
 *
 * Return: 0, -E2BIG: what is not known here is not zero; -EFAULT, -EAGAIN.
 */
static inline int kvt_copy_struct_in(bool sleep, void *to, size_t ksize, u64 from,
				     size_t usize)
{
	int err;

	if (sleep)
		return copy_struct_from_user(to, ksize, u64_to_user_ptr(from), usize);
	pagefault_disable();
	err = copy_struct_from_user(to, ksize, u64_to_user_ptr(from), usize);
	pagefault_enable();
	return err == -EFAULT ? -EAGAIN : err;
}

/* Copy to or from a registered buffer, from @at on. */
static inline int kvt_fixed_out(const struct iov_iter *fixed, size_t at, const void *from,
				size_t n)
{
	struct iov_iter iter = *fixed;

	iov_iter_advance(&iter, at);
	return copy_to_iter(from, n, &iter) == n ? 0 : -EFAULT;
}

static inline int kvt_fixed_in(const struct iov_iter *fixed, size_t at, void *to, size_t n)
{
	struct iov_iter iter = *fixed;

	iov_iter_advance(&iter, at);
	return copy_from_iter(to, n, &iter) == n ? 0 : -EFAULT;
}

/**
 * kvt_val_in() - copy from what an operation's `val` points to, without a page fault
 * @ctx: on whose behalf
 * @op: the operation
 * @at: bytes before what is copied
 * @to: where to
 * @n: bytes; @at + @n is at most @op->val_len
 *
 * Context: process context.
 *
 * Return: 0; -EAGAIN: kvt_val_fault_in() is to follow, when nothing is held; -EFAULT.
 */
static inline int kvt_val_in(const struct kvt_op_ctx *ctx, const struct kvtree_op *op,
			     size_t at, void *to, size_t n)
{
	if (unlikely(ctx->fixed))
		return kvt_fixed_in(ctx->fixed, at, to, n);
	if (likely(!copy_from_user_nofault(to, u64_to_user_ptr(op->val + at), n)))
		return 0;
	/* No bytes may be anywhere. */
	return n ? -EAGAIN : 0;
}

/**
 * kvt_val_out() - copy to where an operation's `val` points, without a page fault
 * @ctx: on whose behalf
 * @val: the operation's `val`
 * @at: bytes before what is copied
 * @from: where from
 * @n: bytes; @at + @n is at most its val_len
 *
 * Context: process context.
 *
 * Return: 0; -EAGAIN: kvt_val_fault_out() is to follow, when nothing is held; -EFAULT.
 */
static inline int kvt_val_out(const struct kvt_op_ctx *ctx, u64 val, size_t at,
			      const void *from, size_t n)
{
	if (unlikely(ctx->fixed))
		return kvt_fixed_out(ctx->fixed, at, from, n);
	if (likely(!copy_to_user_nofault(u64_to_user_ptr(val + at), from, n)))
		return 0;
	return n ? -EAGAIN : 0;
}

/**
 * kvt_val_out_nofault() - copy to where `val` points, without a page fault
 * @fixed: the operation context's
 * @val: the operation's `val`
 * @from: where from
 * @n: bytes, at most its val_len
 *
 * Context: task context, also under RCU.  Never sleeps.
 *
 * Return: 0 or -EAGAIN.
 */
static inline int kvt_val_out_nofault(const struct iov_iter *fixed, u64 val,
				      const void *from, size_t n)
{
	bool copied;

	if (unlikely(fixed))
		return kvt_fixed_out(fixed, 0, from, n) ? -EAGAIN : 0;
	if (n > KVT_COPY_SHORT || n % sizeof(u64))
		return copy_to_user_nofault(u64_to_user_ptr(val), from, n) ? -EAGAIN : 0;
	pagefault_disable();
	copied = kvt_words_out(u64_to_user_ptr(val), from, n);
	pagefault_enable();
	return copied ? 0 : -EAGAIN;
}

#endif /* KVT_API_USER_H */
