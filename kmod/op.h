/* SPDX-License-Identifier: GPL-2.0 */
/*
 * One operation: validate, execute, report.  Here, and in get.c, put.c and
 * scan.c behind it, is decided what GET or CAS mean; batch.c runs many.
 *
 * The operation stands in kernel memory, copied once; what it points to is
 * user memory of the current task.
 */
#ifndef KVT_OP_H
#define KVT_OP_H

#include <linux/gfp.h>
#include <linux/types.h>
#include <linux/kvtree.h>

#include "index.h"
#include "store.h"
#include "value.h"

struct kvt_scratch;

/*
 * How operations in process context allocate what a store keeps.  It is charged
 * to the store's creator, who must not be killed for what another writes: no
 * allocation is worth the OOM killer, and the writer gets ENOMEM.
 */
#define KVT_GFP_PROCESS	(GFP_KERNEL | __GFP_RETRY_MAYFAIL)

/* ... and what an operation needs while it runs, charged to the caller. */
#define KVT_GFP_SCRATCH	(GFP_KERNEL_ACCOUNT | __GFP_NOWARN)

/* On whose behalf operations run. */
struct kvt_op_ctx {
	struct kvt_store *store;	/* that the caller is inside of */
	unsigned int access;		/* KVTREE_OPEN_READ and KVTREE_OPEN_WRITE */
	gfp_t gfp;			/* KVT_GFP_PROCESS, or one that does not sleep */
	struct kvt_scratch *scratch;
};

/*
 * Not a result: a signal came before the operation had any effect or outcome.
 * It was not executed.
 */
#define KVT_INTERRUPTED	(-ERESTARTSYS)

int kvt_op_check(const struct kvt_op_ctx *ctx, const struct kvtree_op *op);
bool kvt_op_is_plain_get(const struct kvtree_op *op);
int kvt_op_copy_key(const struct kvtree_op *op, u8 *to);
int kvt_op_run(const struct kvt_op_ctx *ctx, struct kvtree_op *op);
void kvt_op_report(const struct kvt_op_ctx *ctx, struct kvtree_op *op, int result);
bool kvt_op_is_answer(int result);
bool kvt_op_again(const struct kvt_op_ctx *ctx, const struct kvt_value *v);

/* get.c */
int kvt_get(const struct kvt_op_ctx *ctx, struct kvtree_op *op, const struct kvt_key *key);
int kvt_get_copy(struct kvtree_op *op, const struct kvt_value *v, struct kvt_column *pinned);
int kvt_get_copy_pinned(const struct kvtree_op *op, struct kvt_column *pinned);

/* put.c */
int kvt_put(const struct kvt_op_ctx *ctx, struct kvtree_op *op, const struct kvt_key *key);

/* scan.c */
int kvt_scan(const struct kvt_op_ctx *ctx, struct kvtree_op *op, const struct kvt_key *key);

/**
 * kvt_op_may_sleep() - whether operations may wait
 * @ctx: the context
 *
 * Return: true in process context.
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

#endif /* KVT_OP_H */
