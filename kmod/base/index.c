// SPDX-License-Identifier: GPL-2.0
/* What all engines share: a walk over everything in an index. */
#include <linux/err.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include "compat.h"
#include "index.h"

/* Visit one value.  Returns 0 at the end, 1 to continue, or an errno. */
static int walk_step(struct kvt_walk *walk, struct kvt_iter *iter)
{
	struct kvt_value *v;
	int ret = 0;

	rcu_read_lock();
	v = kvt_iter_one(iter);
	if (!IS_ERR_OR_NULL(v))
		ret = walk->see(walk, v);
	rcu_read_unlock();
	iter->index->ops->iter_rest(iter);
	if (ret > 0) {
		const struct kvt_key key = { .data = iter->key, .len = iter->len };

		ret = walk->act(walk, &key);
	}
	cond_resched();
	return ret ?: !!v;
}

/**
 * kvt_index_walk() - go through all values of an index, in the order of their keys
 * @index: the index, which the caller keeps
 * @walk: what to do
 *
 * Each RCU read section covers one value.  A key that is present throughout is seen
 * once; one that is inserted or removed meanwhile may be.
 *
 * Context: process context, sleeps.
 *
 * Return: 0; -ENOMEM; or the errno with which @walk's functions ended it.
 */
int kvt_index_walk(struct kvt_index *index, struct kvt_walk *walk)
{
	struct kvt_iter *iter = kvzalloc(index->ops->iter_size, GFP_KERNEL);
	int ret;

	if (!iter)
		return -ENOMEM;
	iter->index = index;
	iter->bound = KVT_AT;
	index->ops->iter_rest(iter);
	do {
		ret = walk_step(walk, iter);
	} while (ret > 0);
	kvfree(iter);
	return ret;
}
KVT_EXPORT_FOR_TESTS(kvt_index_walk);
