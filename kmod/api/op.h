/* SPDX-License-Identifier: GPL-2.0 */
/*
 * One operation: validate, execute, report.  Here, and in get.c, update.c and
 * scan.c behind it, is decided what GET or CAS mean; batch.c runs many.
 *
 * The operation stands in kernel memory, copied once; what it points to is
 * user memory of the current task.
 */
#ifndef KVT_API_OP_H
#define KVT_API_OP_H

#include <linux/gfp.h>
#include <linux/types.h>
#include <linux/kvtree.h>

#include "core/store.h"
#include "core/value.h"
#include "index.h"

struct iov_iter;
struct kvt_scratch;

/* Bytes of a structure that is handed in: the same where pages are larger. */
#define KVT_STRUCT_MAX	4096u

/*
 * How operations in process context allocate what a store keeps.  It is charged
 * to the store's creator, who must not be killed for what another writes: no
 * allocation is worth the OOM killer, and the writer gets ENOMEM.
 */
#define KVT_GFP_PROCESS	(GFP_KERNEL | __GFP_RETRY_MAYFAIL)

/* ... and what an operation needs while it runs, charged to the caller. */
#define KVT_GFP_SCRATCH	(GFP_KERNEL_ACCOUNT | __GFP_NOWARN)

/* ... by one that does not sleep: -EAGAIN, and somebody runs it again who does. */
#define KVT_GFP_NOWAIT	(GFP_NOWAIT | __GFP_NOWARN)

/*
 * Bytes of blobs that a call may hold references to at once, unless it is a single value's.
 * Whoever is stopped between looking values up and copying them keeps no more of a store.
 */
#define KVT_PINNED_MAX	(256u * 1024)

/* On whose behalf operations run. */
struct kvt_op_ctx {
	struct kvt_store *store;	/* that the caller is inside of */
	bool *inside;			/* cleared if the store was destroyed while a page fault
					 * was taken; NULL: the caller takes none
					 */
	unsigned int access;		/* KVTREE_OPEN_READ and KVTREE_OPEN_WRITE */
	gfp_t gfp;			/* KVT_GFP_PROCESS, or one that does not sleep */
	bool waits;			/* it waits for events; implies a gfp that sleeps */
	bool interruptible;		/* by a signal that is not fatal */
	u64 *sync;			/* raised to the epoch that has to be durable
					 * before the caller is told; not NULL where
					 * operations may ask for that
					 */
	struct kvt_scratch *scratch;
	const struct iov_iter *fixed;	/* `val` in a registered buffer; NULL: it is not */
};

/*
 * Not a result: a signal came before the operation had any effect or outcome.
 * It was not executed.
 */
#define KVT_INTERRUPTED	(-ERESTARTSYS)

/* An operation's key in kernel memory; a long one does not go on the stack. */
struct kvt_op_key {
	struct kvt_key key;
	u8 *large;
	u8 small[128];
};

int kvt_op_check(const struct kvt_op_ctx *ctx, const struct kvtree_op *op);
bool kvt_op_is_update(const struct kvtree_op *op);
bool kvt_op_uses_val(const struct kvtree_op *op);
int kvt_op_copy_key(const struct kvt_op_ctx *ctx, const struct kvtree_op *op, u8 *to);
int kvt_op_load_key(const struct kvt_op_ctx *ctx, const struct kvtree_op *op,
		    struct kvt_op_key *key);
void kvt_op_free_key(struct kvt_op_key *key);
int kvt_op_execute(const struct kvt_op_ctx *ctx, struct kvtree_op *op);
int kvt_op_run(const struct kvt_op_ctx *ctx, struct kvtree_op *op);
void kvt_op_report(const struct kvt_op_ctx *ctx, struct kvtree_op *op, int result);
bool kvt_op_is_answer(int result);
bool kvt_op_again(const struct kvt_op_ctx *ctx, const struct kvt_value *v);

bool kvt_op_step_out(const struct kvt_op_ctx *ctx);
int kvt_op_step_in(const struct kvt_op_ctx *ctx, bool was_inside);
void kvt_op_leave(const struct kvt_op_ctx *ctx);

void kvt_op_want_sync(const struct kvt_op_ctx *ctx, u64 epoch);
int kvt_op_synced(const struct kvt_op_ctx *ctx);

/* get.c */
int kvt_get(const struct kvt_op_ctx *ctx, struct kvtree_op *op, const struct kvt_key *key);
bool kvt_get_quick(struct kvt_store *store, struct kvtree_op *op);
int kvt_get_copy(const struct kvt_op_ctx *ctx, struct kvtree_op *op, const struct kvt_value *v,
		 struct kvt_column *pinned, u32 *room);
int kvt_get_copy_pinned(const struct kvt_op_ctx *ctx, const struct kvtree_op *op,
			struct kvt_column *pinned);

/**
 * kvt_op_is_plain_get() - whether an operation is a GET of column 0, and well-formed
 * @access: KVTREE_OPEN_* of the session
 * @op: the operation, as it came from user space
 *
 * Return: true if kvt_op_check() would find nothing wrong.  If false, that or
 * anything else may be.
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

/**
 * kvt_get_quick_count() - count a GET
 * @store: the store
 * @op: what kvt_get_quick() has executed
 *
 * Context: under the same kvt_store_enter_rcu().
 */
static inline void kvt_get_quick_count(struct kvt_store *store, const struct kvtree_op *op)
{
	kvt_stat_inc(&store->stats, KVTREE_STAT_GET);
	if (op->result == -ENOENT)
		kvt_stat_inc(&store->stats, KVTREE_STAT_GET_MISS);
}

/**
 * kvt_op_inside() - whether the caller is inside of the store
 * @ctx: the context
 *
 * Return: false if the store was destroyed while a page fault was taken: nothing of it
 * is there any more, but for its counters.
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
 * Return: true if it was not executed and is to be run again by somebody who
 * may sleep.
 */
static inline bool kvt_op_blocked(const struct kvt_op_ctx *ctx, int result)
{
	return (result == -EAGAIN || result == -ENOMEM || result == -EBUSY) &&
	       !kvt_op_may_sleep(ctx);
}

#endif /* KVT_API_OP_H */
