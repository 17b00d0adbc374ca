// SPDX-License-Identifier: GPL-2.0
/* Lookups of keys, one or many at once. */
#include <linux/err.h>

#include "compat.h"
#include "find.h"
#include "tree.h"

/* Lookups of a batch that are overlapped. */
#define BW_BATCH	16

/**
 * bw_get() - see struct kvt_index_ops
 * @index: the tree
 * @key: the key
 * @cell: not used: every value has a block
 *
 * Context: under rcu_read_lock(), any context.
 *
 * Return: the value, NULL, or ERR_PTR(-EBUSY).
 */
struct kvt_value *bw_get(struct kvt_index *index, const struct kvt_key *key,
			 struct kvt_cell *cell)
{
	const struct bw_want want = bw_want(key->data, key->len);
	struct kvt_value *value;
	struct bw_at at;

	RCU_LOCKDEP_WARN(!rcu_read_lock_held(), "kvtree: looking up outside of RCU");
	if (unlikely(bw_seek(bw_tree(index), &want, 0, BW_SEEK_READ, &at)))
		return ERR_PTR(-EBUSY);
	value = bw_leaf_find(at.top, &want);
	kvt_value_prefetch(value);
	return value;
}

/* The leaf that a lookup of a batch will visit, or BW_ROOT if it is not known. */
static u32 bw_guess_leaf(struct bw_tree *tree, const struct bw_want *want)
{
	struct bw_at at;
	u32 id;

	if (bw_seek(tree, want, 1, BW_SEEK_READ, &at))
		return BW_ROOT;
	id = bw_inner_find(at.top, want, false);
	prefetch(bw_map_entry(tree->map, id));
	return id;
}

/* Prefetch the position of a key in the base of its leaf, which has arrived. */
static void bw_guess_place(const struct bw_rec *top, const struct bw_want *want)
{
	const struct bw_page *base = top->base;

	/* The chain below a BW_REMOVE may have been freed. */
	if (top->kind == BW_REMOVE)
		return;
	if (top->depth)
		bw_prefetch_chain(top);
	bw_prefetch_place(base, want);
}

/*
 * Look up at most BW_BATCH keys: prefetch for all of them, level by level, and then look
 * each up by itself.
 */
static void bw_get_some(struct kvt_index *index, struct kvt_lookup *lookups, unsigned int nr)
{
	struct bw_want want[BW_BATCH] __uninitialized;
	struct bw_tree *tree = bw_tree(index);
	u32 id[BW_BATCH] __uninitialized;
	unsigned int i;

	for (i = 0; i < nr; i++) {
		want[i] = bw_want(lookups[i].key.data, lookups[i].key.len);
		id[i] = bw_guess_leaf(tree, &want[i]);
	}
	for (i = 0; i < nr; i++)
		bw_prefetch(bw_load(tree, id[i]));
	for (i = 0; i < nr; i++)
		bw_guess_place(bw_load(tree, id[i]), &want[i]);
	for (i = 0; i < nr; i++) {
		lookups[i].value = bw_get(index, &lookups[i].key, NULL);
		kvt_value_prefetch(lookups[i].value);
	}
}

/**
 * bw_get_batch() - see struct kvt_index_ops
 * @index: the tree
 * @lookups: the keys, and what they map to
 * @cells: not used: every value has a block
 * @nr: their number
 *
 * Context: under rcu_read_lock(), any context.
 */
void bw_get_batch(struct kvt_index *index, struct kvt_lookup *lookups, struct kvt_cell *cells,
		  unsigned int nr)
{
	unsigned int some;

	for (; nr; nr -= some, lookups += some) {
		some = min_t(unsigned int, nr, BW_BATCH);
		bw_get_some(index, lookups, some);
	}
}
