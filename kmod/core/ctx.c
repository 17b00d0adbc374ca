// SPDX-License-Identifier: GPL-2.0
/* What decides how an operation goes on, on whosever behalf it runs. */
#include <linux/err.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>

#include "ctx.h"

/**
 * kvt_op_again() - whether a lookup must be repeated
 * @ctx: on whose behalf
 * @v: what it returned
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
 * @ctx: on whose behalf; its store is durable
 * @epoch: the epoch
 *
 * Context: any.
 */
void kvt_op_want_sync(const struct kvt_op_ctx *ctx, u64 epoch)
{
	if (ctx->sync && *ctx->sync < epoch)
		*ctx->sync = epoch;
}
