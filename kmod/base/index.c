// SPDX-License-Identifier: GPL-2.0
/* What all engines share: a walk over everything in an index, and a guess about cells. */
#include <linux/bits.h>
#include <linux/err.h>
#include <linux/hash.h>
#include <linux/percpu.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include "compat.h"
#include "index.h"
#include "value.h"

/*
 * Whether places of long keys have last taken cells: on each CPU a bit for some indexes and
 * lengths of keys.
 */
static DEFINE_PER_CPU(u64, cell_guesses);

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

static u64 cell_guess_bit(const struct kvt_index *index, u32 key_len)
{
	return BIT_ULL(hash_64((unsigned long)index + key_len, 6));
}

/**
 * kvt_index_may_cell() - guess whether the place of a key takes a cell
 * @index: the index
 * @key_len: bytes of the key
 *
 * If the guess is wrong, a change takes longer: it allocates memory that it does not use, or begins
 * again to get some.
 *
 * Context: any.
 *
 * Return: whether it seems so.
 */
bool kvt_index_may_cell(const struct kvt_index *index, u32 key_len)
{
	if (!index->ops->cells || likely(key_len <= KVT_KEY_HEAD))
		return index->ops->cells;
	return this_cpu_read(cell_guesses) & cell_guess_bit(index, key_len);
}
KVT_EXPORT_FOR_TESTS(kvt_index_may_cell);

/**
 * kvt_index_learn_cell() - note whether the place of a key has taken a cell
 * @index: the index
 * @key_len: bytes of the key
 * @takes: whether it does
 *
 * Context: any, preemption off.
 */
void kvt_index_learn_cell(const struct kvt_index *index, u32 key_len, bool takes)
{
	u64 guesses, bit;

	if (likely(key_len <= KVT_KEY_HEAD))
		return;
	guesses = this_cpu_read(cell_guesses);
	bit = cell_guess_bit(index, key_len);
	if (takes != !!(guesses & bit))
		__this_cpu_write(cell_guesses, guesses ^ bit);
}
KVT_EXPORT_FOR_TESTS(kvt_index_learn_cell);
