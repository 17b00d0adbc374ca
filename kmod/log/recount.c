// SPDX-License-Identifier: GPL-2.0
/* A recount of the live bytes, to check the count that writers maintain. */
#include <linux/container_of.h>

#include "base/index.h"
#include "base/mem.h"
#include "base/value.h"
#include "compat.h"
#include "life.h"
#include "log.h"

struct recount {
	struct kvt_walk walk;
	int (*pause)(void *arg);
	void *arg;
	struct kvt_live live;
};

static int recount_see(struct kvt_walk *walk, const struct kvt_value *v)
{
	struct recount *recount = container_of(walk, struct recount, walk);

	recount->live = kvt_live_sum(recount->live, kvt_log_live(v->key_len, v));
	return recount->pause ? recount->pause(recount->arg) : 0;
}

/**
 * kvt_log_recount() - count the live bytes of all values in the index
 * @log: the log
 * @pause: called for each value with @arg, under RCU; an errno ends the count.  May be NULL
 * @arg: its argument
 * @live: set to the live bytes; exact while nothing changes
 *
 * Context: process context, sleeps.
 *
 * Return: 0; -ENOMEM; or what @pause returned.
 */
int kvt_log_recount(struct kvt_log *log, int (*pause)(void *arg), void *arg,
		    struct kvt_live *live)
{
	struct recount recount = { .walk.see = recount_see, .pause = pause, .arg = arg };
	int err;

	err = kvt_index_walk(log->state.env.index, &recount.walk);
	*live = recount.live;
	return err;
}
KVT_EXPORT_FOR_TESTS(kvt_log_recount);

/**
 * kvt_recount_check() - compare the count of live bytes with a recount
 * @log: the log; its store does not change
 *
 * With KVT_AUDITS, each detach does this.
 *
 * Context: process context, sleeps.
 */
void kvt_recount_check(struct kvt_log *log)
{
	s64 counted = percpu_counter_sum(&log->space.live);
	s64 large = atomic64_read(&log->space.large);
	struct kvt_live live;

	if (KVT_AUDITS && !kvt_log_recount(log, NULL, NULL, &live))
		WARN(counted != live.bytes || large != live.large,
		     "kvtree: counted %lld live bytes, %lld of large records, but there are %lld and %lld\n",
		     counted, large, live.bytes, live.large);
}
