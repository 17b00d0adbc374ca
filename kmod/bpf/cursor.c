// SPDX-License-Identifier: GPL-2.0
/* Cursors of BPF programs, from a pool for each CPU. */
#include <linux/bitops.h>
#include <linux/cpumask.h>
#include <linux/err.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/topology.h>

#include "base/index.h"
#include "compat.h"
#include "cursor.h"

/* Cursors of a CPU.  Few programs run at once, with few loops each. */
#define CURSORS		16

/* How often iter_next() may ask for a pause, which is impossible here. */
#define CURSOR_TRIES	4

struct cursor_pool {
	unsigned long used;
	void *cursors;
	const struct kvt_store *stores[CURSORS];	/* their users */
} ____cacheline_aligned_in_smp;

static DEFINE_MUTEX(cursors_lock);
static struct cursor_pool *cursor_pools;	/* by CPU; set once */
static size_t cursor_size;			/* set before that */

static void cursors_free(struct cursor_pool *pools)
{
	int cpu;

	if (!pools)
		return;
	for_each_possible_cpu(cpu)
		kvfree(pools[cpu].cursors);
	kvfree(pools);
}

static int cursors_fill(struct cursor_pool *pool, int cpu)
{
	struct kvt_cursor *cursor;
	unsigned int i;

	pool->cursors = kvmalloc_node(CURSORS * cursor_size, GFP_KERNEL | __GFP_ZERO,
				      cpu_to_node(cpu));
	if (!pool->cursors)
		return -ENOMEM;
	for (i = 0; i < CURSORS; i++) {
		cursor = pool->cursors + i * cursor_size;
		cursor->pool = pool;
		cursor->nr = i;
	}
	return 0;
}

static struct cursor_pool *cursors_alloc(void)
{
	struct cursor_pool *pools;
	int cpu;

	cursor_size = ALIGN(offsetof(struct kvt_cursor, iter) + KVT_ITER_SIZE_MAX,
			    SMP_CACHE_BYTES);
	pools = kvcalloc(nr_cpu_ids, sizeof(*pools), GFP_KERNEL);
	if (!pools)
		return NULL;
	for_each_possible_cpu(cpu) {
		if (cursors_fill(&pools[cpu], cpu)) {
			cursors_free(pools);
			return NULL;
		}
	}
	return pools;
}

/**
 * kvt_cursors_prepare() - allocate the pools, unless they exist
 *
 * Context: process context, sleeps.
 *
 * Return: 0 or -ENOMEM.
 */
int kvt_cursors_prepare(void)
{
	int err = 0;

	mutex_lock(&cursors_lock);
	if (!cursor_pools) {
		struct cursor_pool *pools = cursors_alloc();

		/* Pairs with the dependent load in kvt_cursor_get(). */
		smp_store_release(&cursor_pools, pools);
		err = pools ? 0 : -ENOMEM;
	}
	mutex_unlock(&cursors_lock);
	return err;
}
KVT_EXPORT_FOR_TESTS(kvt_cursors_prepare);

/**
 * kvt_cursors_exit() - free the pools
 *
 * Context: module exit: no program is left.
 */
void kvt_cursors_exit(void)
{
	cursors_free(cursor_pools);
}

/*
 * Whether a store took a cursor although it had as many as were free.  This limits one store
 * to half of a pool, and another one to half of the rest, so that some are always left.
 */
static bool pool_is_overdrawn(const struct cursor_pool *pool, const struct kvt_store *store)
{
	unsigned int used = hweight_long(READ_ONCE(pool->used)), i, n = 0;

	for (i = 0; i < CURSORS; i++)
		n += READ_ONCE(pool->stores[i]) == store;
	return n - 1 >= CURSORS - (used - 1);
}

/**
 * kvt_cursor_get() - take a cursor
 * @store: the store that it will read
 *
 * Context: any, including NMI.
 *
 * Return: the cursor, or NULL: all of this CPU are in use, or the store has its share.
 */
struct kvt_cursor *kvt_cursor_get(const struct kvt_store *store)
{
	struct cursor_pool *pools, *pool;
	struct kvt_cursor *cursor;
	unsigned long nr;

	/* The pools are older than the binding that was found: see post_write(). */
	smp_rmb();
	pools = READ_ONCE(cursor_pools);
	if (!pools)
		return NULL;
	/* After a migration, another CPU's cursor does as well. */
	pool = &pools[raw_smp_processor_id()];
	do {
		nr = ffz(READ_ONCE(pool->used));
		if (nr >= CURSORS)
			return NULL;
	} while (test_and_set_bit_lock(nr, &pool->used));
	cursor = pool->cursors + nr * cursor_size;
	WRITE_ONCE(pool->stores[nr], store);
	/* If several programs exceed the share at once, the last one to check sees all others. */
	smp_mb();
	if (likely(!pool_is_overdrawn(pool, store)))
		return cursor;
	kvt_cursor_put(cursor);
	return NULL;
}
KVT_EXPORT_FOR_TESTS(kvt_cursor_get);

/**
 * kvt_cursor_put() - give a cursor back
 * @cursor: the cursor
 *
 * Context: any, including NMI.
 */
void kvt_cursor_put(struct kvt_cursor *cursor)
{
	WRITE_ONCE(cursor->pool->stores[cursor->nr], NULL);
	clear_bit_unlock(cursor->nr, &cursor->pool->used);
}
KVT_EXPORT_FOR_TESTS(kvt_cursor_put);

/**
 * kvt_cursor_seek() - set a cursor's position
 * @cursor: the cursor
 * @index: the index
 * @key: the position's key; it is copied, once
 * @len: bytes of it, at most KVTREE_KEY_MAX
 * @bound: where to begin, relative to the key
 * @reverse: go to smaller keys
 *
 * Context: under rcu_read_lock(), any context.
 */
void kvt_cursor_seek(struct kvt_cursor *cursor, struct kvt_index *index, const u8 *key,
		     u32 len, enum kvt_bound bound, bool reverse)
{
	struct kvt_iter *iter = &cursor->iter;

	iter->index = index;
	iter->reverse = reverse;
	iter->bound = bound;
	iter->len = len;
	memcpy(iter->key, key, len);
	index->ops->iter_rest(iter);
}
KVT_EXPORT_FOR_TESTS(kvt_cursor_seek);

/**
 * kvt_cursor_next() - the next value
 * @cursor: the cursor
 *
 * Context: under the rcu_read_lock() of kvt_cursor_seek(), any context.
 *
 * Return: the value, with its key in @cursor->iter; NULL: there is none;
 * ERR_PTR(-EBUSY).
 */
struct kvt_value *kvt_cursor_next(struct kvt_cursor *cursor)
{
	struct kvt_iter *iter = &cursor->iter;
	unsigned int tries = CURSOR_TRIES;
	struct kvt_value *v;

	/* RCU is held throughout, so everything that iter_next() has read stays valid. */
	do {
		v = kvt_iter_one(iter);
	} while (v == ERR_PTR(-EAGAIN) && --tries);
	return v == ERR_PTR(-EAGAIN) ? ERR_PTR(-EBUSY) : v;
}
KVT_EXPORT_FOR_TESTS(kvt_cursor_next);
