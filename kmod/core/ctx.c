// SPDX-License-Identifier: GPL-2.0
/* Retrying, waiting, and leaving the store, for all kinds of callers. */
#include <linux/err.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>

#include "ctx.h"
#include "log/log.h"

/**
 * kvt_op_again() - whether a lookup must be repeated
 * @ctx: the caller's context
 * @v: the lookup's return value
 *
 * Context: outside of RCU read sections.
 *
 * Return: true if readers' bounded retries were spent and it makes sense to
 * try again; this reschedules.
 */
bool kvt_op_again(const struct kvt_op_ctx *ctx, const struct kvt_value *v)
{
	if (likely(v != ERR_PTR(-EBUSY)))
		return false;
	if (!kvt_op_may_sleep(ctx) || fatal_signal_pending(current))
		return false;
	cond_resched();
	return true;
}

/**
 * kvt_op_want_sync() - make the caller wait until an epoch is durable
 * @ctx: the caller's context; its store is durable
 * @epoch: the epoch
 *
 * Context: any.
 */
void kvt_op_want_sync(const struct kvt_op_ctx *ctx, u64 epoch)
{
	if (ctx->sync && *ctx->sync < epoch)
		*ctx->sync = epoch;
}

/**
 * kvt_op_leave() - leave the store, to take page faults or for good
 * @ctx: the caller's context
 *
 * The caller must not hold anything of the store: no reference, no charge, no RCU.
 *
 * Context: process context, may sleep.
 *
 * Return: whether the store was left, for kvt_op_reenter().
 */
bool kvt_op_leave(const struct kvt_op_ctx *ctx)
{
	if (!ctx->inside || !*ctx->inside)
		return false;
	*ctx->inside = false;
	kvt_store_leave(ctx->store);
	return true;
}

/**
 * kvt_op_reenter() - reenter the store
 * @ctx: the caller's context
 * @was_inside: of kvt_op_leave()
 *
 * Context: any.
 *
 * Return: 0, or -ESTALE: the store was destroyed meanwhile.
 */
int kvt_op_reenter(const struct kvt_op_ctx *ctx, bool was_inside)
{
	if (was_inside)
		*ctx->inside = kvt_store_enter(ctx->store);
	return kvt_op_inside(ctx) ? 0 : -ESTALE;
}

/**
 * kvt_op_wait_durable() - wait until changes are durable, if their operations require it
 * @ctx: the caller's context, with @ctx->sync
 *
 * Context: process context, sleeps; inside the store, unless it was destroyed.
 *
 * Return: 0; -EIO: it never will be; -EINTR: a fatal signal came.
 */
int kvt_op_wait_durable(const struct kvt_op_ctx *ctx)
{
	if (!*ctx->sync)
		return 0;
	/* A detach makes everything durable. */
	if (!kvt_op_inside(ctx))
		return kvt_store_wait_gone(ctx->store);
	return kvt_log_sync(ctx->store->log, *ctx->sync);
}
