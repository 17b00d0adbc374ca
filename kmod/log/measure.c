// SPDX-License-Identifier: GPL-2.0
/* Measuring: how much each range of a checkpoint holds now. */
#include <linux/err.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>

#include "base/index.h"
#include "base/mem.h"
#include "checkpoint.h"

/* Values visited in one RCU read section. */
#define MEASURE_BATCH	512

struct measure {
	const struct kvt_checkpoints *cps;
	const struct kvt_log_directory *dir;
	u32 at;				/* the range of the last key */
	struct kvt_live *live;		/* of each range */
};

/* Whether the iterator's key is beyond the range that the key before it was in. */
static bool range_ends(const struct measure *measure, const struct kvt_iter *iter)
{
	const struct kvt_log_range *next;

	if (measure->at + 1 == measure->dir->nr)
		return false;
	next = measure->dir->range[measure->at + 1];
	return kvt_iter_cmp(iter, next->key, next->key_len) >= 0;
}

static void measure_add(struct measure *measure, const struct kvt_iter *iter,
			const struct kvt_value *v)
{
	struct kvt_live *live;

	if (range_ends(measure, iter))
		measure->at = kvt_log_directory_find(measure->dir, iter->key, iter->len);
	live = &measure->live[measure->at];
	*live = kvt_live_sum(*live, kvt_log_live(iter->len, v));
}

/* Returns false at the end. */
static bool measure_batch(struct measure *measure, struct kvt_iter *iter)
{
	unsigned int left = MEASURE_BATCH;
	struct kvt_value *v;

	rcu_read_lock();
	do {
		v = kvt_iter_one(iter);
		if (!IS_ERR_OR_NULL(v))
			measure_add(measure, iter, v);
	} while (!IS_ERR_OR_NULL(v) && --left);
	rcu_read_unlock();
	iter->index->ops->iter_rest(iter);
	return v;
}

static int measure_run(struct measure *measure, struct kvt_iter *iter)
{
	int err = 0;

	while (!err && measure_batch(measure, iter)) {
		err = kvt_save_ends(measure->cps, current);
		cond_resched();
	}
	return err;
}

/**
 * kvt_measure() - measure what each range holds now
 * @cps: the log's checkpoints
 * @dir: the ranges
 * @costs: set to what each has, to be freed with kvfree(); exact while nothing changes
 *
 * Context: process context, sleeps.
 *
 * Return: 0; -ENOMEM; or as kvt_save_ends().
 */
int kvt_measure(const struct kvt_checkpoints *cps, const struct kvt_log_directory *dir,
		struct kvt_live **costs)
{
	struct kvt_index *index = cps->commits.log.state.env.index;
	struct kvt_iter *iter = kvzalloc(index->ops->iter_size, GFP_KERNEL);
	struct measure measure = { .cps = cps, .dir = dir };
	int err = -ENOMEM;

	measure.live = kvcalloc(dir->nr, sizeof(*measure.live), GFP_KERNEL);
	if (iter && measure.live) {
		iter->index = index;
		iter->bound = KVT_AT;
		index->ops->iter_rest(iter);
		err = measure_run(&measure, iter);
	}
	kvfree(iter);
	if (err)
		kvfree(measure.live);
	else
		*costs = measure.live;
	return err;
}
