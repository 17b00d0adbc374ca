/* SPDX-License-Identifier: GPL-2.0 */
/*
 * User memory of the current task, as operations read and write it.
 *
 * Every copy first runs without page faults.  If it meets one, an operation that may sleep
 * leaves the store, takes the fault, and reenters; it gets -ESTALE if the store was
 * destroyed meanwhile.  An operation that may not sleep gets -EAGAIN, whether the page is
 * absent or not mapped at all; running it again where it may sleep tells which.  `val`
 * may point into a registered buffer of an io_uring; its pages are always present.
 *
 * None of these functions may be called under a node lock.  In an RCU read section only
 * kvt_val_out_nofault() may be called; with a reference on anything of the store, this and
 * kvt_val_in() and kvt_val_out(), which copy values, since these can be long.  If a page is
 * absent, the operation drops everything it holds, faults the page in, and starts again.
 */
#ifndef KVT_API_USER_H
#define KVT_API_USER_H

#include <linux/uaccess.h>
#include <linux/uio.h>

#include "run.h"

/*
 * Copy operations and short values word by word, which takes less time than the start of a
 * string instruction.  If another thread changes a field meanwhile, the old or the new
 * content is read.
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
	size_t words = n / sizeof(*from);

	if (!user_access_begin(to, n))
		return false;
	for (; words >= 4; words -= 4, to += 4, from += 4) {
		unsafe_put_user(from[0], to + 0, fault);
		unsafe_put_user(from[1], to + 1, fault);
		unsafe_put_user(from[2], to + 2, fault);
		unsafe_put_user(from[3], to + 3, fault);
	}
	for (; words; words--)
		unsafe_put_user(*from++, to++, fault);
	unsafe_copy_to_user((void __user *)to, (const void *)from, n % sizeof(*from), fault);
	user_access_end();
	return true;
fault:
	user_access_end();
	return false;
}

/**
 * kvt_copy_ops_in() - copy operations from user space
 * @sleep: whether it may sleep
 * @ops: destination
 * @from: user address
 * @n: how many
 *
 * Context: process context, outside any store; sleeps if @sleep.
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
 * kvt_copy_answers_out() - copy the fields that GETs change in their operations
 * @to: user address of the first
 * @stride: bytes from one to the next there
 * @ops: the operations
 * @n: how many; @n times @stride must not overflow
 *
 * Context: process context; sleeps, outside of any store, unless page faults are
 * disabled.
 *
 * Return: how many were copied before a fault.
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
 * @op: the operation
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

/*
 * Copy from user space without page faults.  Returns whether all was copied.  Like the other
 * copies here, and unlike copy_from_user_nofault(), it accepts addresses with a tag in their
 * upper byte, which arm64 lets processes use.
 */
static __always_inline bool kvt_copy_in_nofault(void *to, u64 from, size_t n)
{
	unsigned long left;

	pagefault_disable();
	left = copy_from_user(to, u64_to_user_ptr(from), n);
	pagefault_enable();
	return !left;
}

/* user.c */
int kvt_copy_in_faulting(const struct kvt_op_ctx *ctx, void *to, u64 from, size_t n);
int kvt_copy_out_faulting(const struct kvt_op_ctx *ctx, u64 to, const void *from, size_t n);
int kvt_copy_other_size_in(const struct kvt_op_ctx *ctx, void *to, size_t ksize, u64 from,
			   size_t usize);

int kvt_copy_outcome(const struct kvt_op_ctx *ctx, u64 to, const struct kvtree_op *op);

int kvt_val_fault_in(const struct kvt_op_ctx *ctx, u64 val, size_t n, unsigned int *tries);
int kvt_val_fault_out(const struct kvt_op_ctx *ctx, u64 val, size_t n, unsigned int *tries);

/**
 * kvt_copy_in() - copy from user space
 * @ctx: the caller's context
 * @to: destination
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
	if (likely(kvt_copy_in_nofault(to, from, n)))
		return 0;
	return kvt_op_may_sleep(ctx) ? kvt_copy_in_faulting(ctx, to, from, n) : -EAGAIN;
}

/**
 * kvt_copy_out() - copy to user space
 * @ctx: the caller's context
 * @to: user address
 * @from: source
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
 * kvt_copy_struct_in() - copy a structure, given its size in user space
 * @sleep: whether it may sleep
 * @to: destination
 * @ksize: its size here
 * @from: user address
 * @usize: its size there, at most KVT_STRUCT_MAX
 *
 * Context: process context; sleeps if @sleep, outside of any store.
 *
 * Return: 0; -E2BIG: the part that is not known here is not zero; -EFAULT; -EAGAIN.
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

/**
 * kvt_copy_sized_in() - copy a structure to which an operation points
 * @ctx: the caller's context
 * @to: destination
 * @ksize: its size here
 * @from: user address
 * @usize: its size there, at most KVT_STRUCT_MAX
 *
 * Context: process context; sleeps if @ctx allows it.
 *
 * Return: 0; -E2BIG: the part that is not known here is not zero; -EFAULT; -ESTALE;
 * -EAGAIN: it would have to sleep.
 */
static __always_inline int kvt_copy_sized_in(const struct kvt_op_ctx *ctx, void *to,
					     size_t ksize, u64 from, size_t usize)
{
	if (likely(usize == ksize))
		return kvt_copy_in(ctx, to, from, ksize);
	return kvt_copy_other_size_in(ctx, to, ksize, from, usize);
}

/*
 * A registered buffer.  Its pages are found one after the other, so a copy that continues where
 * the last one ended does not seek from the start.
 */
struct kvt_fixed {
	struct iov_iter all;
	struct iov_iter rest;	/* from @at on */
	size_t at;
};

static inline struct iov_iter *kvt_fixed_seek(struct kvt_fixed *fixed, size_t at)
{
	if (at < fixed->at || !fixed->at) {
		fixed->rest = fixed->all;
		fixed->at = 0;
	}
	iov_iter_advance(&fixed->rest, at - fixed->at);
	fixed->at = at;
	return &fixed->rest;
}

/* Copy to or from a registered buffer, from @at on. */
static inline int kvt_fixed_out(struct kvt_fixed *fixed, size_t at, const void *from, size_t n)
{
	size_t done = copy_to_iter(from, n, kvt_fixed_seek(fixed, at));

	fixed->at += done;
	return done == n ? 0 : -EFAULT;
}

static inline int kvt_fixed_in(struct kvt_fixed *fixed, size_t at, void *to, size_t n)
{
	size_t done = copy_from_iter(to, n, kvt_fixed_seek(fixed, at));

	fixed->at += done;
	return done == n ? 0 : -EFAULT;
}

/**
 * kvt_val_in() - copy from an operation's `val` without page faults
 * @ctx: the caller's context
 * @op: the operation
 * @at: offset of the copy
 * @to: destination
 * @n: bytes; @at + @n is at most @op->val_len
 *
 * Context: process context.
 *
 * Return: 0; -EAGAIN: drop everything and call kvt_val_fault_in(); -EFAULT.
 */
static inline int kvt_val_in(const struct kvt_op_ctx *ctx, const struct kvtree_op *op,
			     size_t at, void *to, size_t n)
{
	if (unlikely(ctx->fixed))
		return kvt_fixed_in(ctx->fixed, at, to, n);
	if (likely(kvt_copy_in_nofault(to, op->val + at, n)))
		return 0;
	/* Without bytes, any address will do. */
	return n ? -EAGAIN : 0;
}

/**
 * kvt_val_out() - copy to an operation's `val` without page faults
 * @ctx: the caller's context
 * @val: the operation's `val`
 * @at: offset of the copy
 * @from: source
 * @n: bytes; @at + @n is at most its val_len
 *
 * Context: process context.
 *
 * Return: 0; -EAGAIN: drop everything and call kvt_val_fault_out(); -EFAULT.
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
 * kvt_val_out_nofault() - copy to `val` without page faults, also under RCU
 * @fixed: the operation context's
 * @val: the operation's `val`
 * @from: source
 * @n: bytes, at most its val_len
 *
 * Context: task context, also under RCU.  Never sleeps.
 *
 * Return: 0 or -EAGAIN.
 */
static inline int kvt_val_out_nofault(struct kvt_fixed *fixed, u64 val, const void *from,
				      size_t n)
{
	bool copied;

	if (unlikely(fixed))
		return kvt_fixed_out(fixed, 0, from, n) ? -EAGAIN : 0;
	if (n > KVT_COPY_SHORT)
		return copy_to_user_nofault(u64_to_user_ptr(val), from, n) ? -EAGAIN : 0;
	pagefault_disable();
	copied = kvt_words_out(u64_to_user_ptr(val), from, n);
	pagefault_enable();
	return copied ? 0 : -EAGAIN;
}

#endif /* KVT_API_USER_H */
