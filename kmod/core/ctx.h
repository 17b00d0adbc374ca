/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The context of an operation from user space or from a BPF program: what it may do, and how
 * it allocates.
 */
#ifndef KVT_CORE_CTX_H
#define KVT_CORE_CTX_H

#include <linux/errno.h>
#include <linux/gfp.h>
#include <linux/types.h>

#include "base/mem.h"
#include "store.h"

struct kvt_fixed;
struct kvt_scratch;
struct kvt_value;

struct kvt_op_ctx {
	struct kvt_store *store;	/* the caller is inside it */
	bool *inside;			/* cleared if the store was destroyed while a page fault
					 * was taken; NULL: the caller takes none
					 */
	unsigned int access;		/* KVTREE_OPEN_READ and KVTREE_OPEN_WRITE */
	gfp_t gfp;			/* KVT_GFP_PROCESS, or one that does not sleep */
	bool waits;			/* it waits for events; implies a gfp that sleeps */
	bool interruptible;		/* by a signal that is not fatal */
	u64 *sync;			/* raised to the epoch that has to be durable
					 * before the operation is reported; not NULL
					 * where operations may ask for that
					 */
	struct kvt_scratch *scratch;
	struct kvt_fixed *fixed;	/* `val` in a registered buffer; NULL: it is not */
};

bool kvt_op_again(const struct kvt_op_ctx *ctx, const struct kvt_value *v);
bool kvt_op_leave(const struct kvt_op_ctx *ctx);
int kvt_op_reenter(const struct kvt_op_ctx *ctx, bool was_inside);
void kvt_op_want_sync(const struct kvt_op_ctx *ctx, u64 epoch);
int kvt_op_wait_durable(const struct kvt_op_ctx *ctx);

/**
 * kvt_op_inside() - whether the caller is inside of the store
 * @ctx: the context
 *
 * Return: false if the store was destroyed during a page fault: only its counters are
 * left.
 */
static inline bool kvt_op_inside(const struct kvt_op_ctx *ctx)
{
	return !ctx->inside || *ctx->inside;
}

/**
 * kvt_op_may_sleep() - whether operations may sleep for memory and page faults
 * @ctx: the context
 *
 * Return: true if they may.
 */
static inline bool kvt_op_may_sleep(const struct kvt_op_ctx *ctx)
{
	return gfpflags_allow_blocking(ctx->gfp);
}

/**
 * kvt_op_mem() - where memory for values comes from
 * @ctx: the context
 *
 * Return: the store's memory cgroup and the context's way to allocate.
 */
static inline struct kvt_mem kvt_op_mem(const struct kvt_op_ctx *ctx)
{
	return (struct kvt_mem) { .memcg = ctx->store->memcg, .gfp = ctx->gfp };
}

/**
 * kvt_op_gfp_scratch() - how to allocate what an operation needs while it runs
 * @ctx: the context
 *
 * Return: flags that sleep if the context may.
 */
static inline gfp_t kvt_op_gfp_scratch(const struct kvt_op_ctx *ctx)
{
	return kvt_op_may_sleep(ctx) ? KVT_GFP_SCRATCH : KVT_GFP_NOWAIT | __GFP_ACCOUNT;
}

/**
 * kvt_op_blocked() - whether a result says that the operation would have to sleep
 * @ctx: the context
 * @result: the operation's
 *
 * Return: true if it was not executed and must be run again in a context that may
 * sleep.
 */
static inline bool kvt_op_blocked(const struct kvt_op_ctx *ctx, int result)
{
	return (result == -EAGAIN || result == -ENOMEM || result == -EBUSY) &&
	       !kvt_op_may_sleep(ctx);
}

#endif /* KVT_CORE_CTX_H */
