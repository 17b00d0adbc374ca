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
	value = bw_leaf_find_in(at.top, &want, bw_prefetch_place(at.top->base, &want));
	kvt_value_prefetch(value, key->len);
	return value;
}

/* A lookup of a batch. */
struct bw_lookup {
	struct bw_want want;
	const struct bw_rec *top;	/* of the page where it is; NULL: use bw_get() */
	u32 id;				/* of that page */
	unsigned int group;		/* of the key's place in the leaf's base */
};

/* Load the page, and prefetch what bw_lookup_stays() reads. */
static __always_inline void bw_lookup_load(struct bw_lookup *l, struct bw_tree *tree)
{
	kvt_park_loose(KVT_PARK_BW_SEEK);
	l->top = bw_load(tree, l->id);
	bw_prefetch(l->top);
}

/*
 * Whether the page has the key.  If it was split since the lookup read its parent, the key may be
 * its right sibling's.  If it is being removed, the chain below may have been freed.
 */
static __always_inline bool bw_lookup_stays(struct bw_lookup *l)
{
	const struct bw_rec *top = l->top;

	if (likely(top->kind != BW_REMOVE) &&
	    (!top->high || likely(bw_cmp(&l->want, top->high) < 0)))
		return true;
	l->top = NULL;
	return false;
}

/*
 * Descend to the leaf without loading it, unless it is the root, whose id may be an inner page's
 * when it is loaded again.  The pages above usually are in the cache.
 */
static __always_inline void bw_lookup_descend(struct bw_lookup *l, struct bw_tree *tree)
{
	l->id = BW_ROOT;
	do {
		bw_lookup_load(l, tree);
		if (!bw_lookup_stays(l) || !l->top->level)
			return;
		l->id = bw_inner_find(l->top, &l->want, false);
	} while (l->top->level > 1);
	prefetch(bw_map_entry(tree->map, l->id));
}

/* Prefetch the key's place in the leaf: its beginning has arrived. */
static __always_inline void bw_lookup_place(struct bw_lookup *l)
{
	if (!bw_lookup_stays(l))
		return;
	if (l->top->depth)
		bw_prefetch_chain(l->top);
	l->group = bw_prefetch_place(l->top->base, &l->want);
}

/*
 * Look up at most BW_BATCH keys.  Each step prefetches for all of them what the next one reads.
 * The value found is the key's when its leaf is loaded: nothing in a chain changes afterwards.
 * Without @find, the lookups end when the keys' places are being fetched.
 */
static void bw_get_some(struct kvt_index *index, struct kvt_lookup *lookups, unsigned int nr,
			bool find)
{
	struct bw_lookup some[BW_BATCH] __uninitialized;
	struct bw_tree *tree = bw_tree(index);
	struct bw_lookup *l, *end = some + nr;

	for (l = some; l < end; l++) {
		l->want = bw_want(lookups[l - some].key.data, lookups[l - some].key.len);
		bw_lookup_descend(l, tree);
	}
	for (l = some; l < end; l++)
		if (likely(l->top && l->top->level))
			bw_lookup_load(l, tree);
	for (l = some; l < end; l++)
		if (likely(l->top))
			bw_lookup_place(l);
	if (!find)
		return;
	for (l = some; l < end; l++, lookups++) {
		lookups->value = likely(l->top) ? bw_leaf_find_in(l->top, &l->want, l->group) :
						  bw_get(index, &lookups->key, NULL);
		kvt_value_prefetch(lookups->value, lookups->key.len);
	}
}

/**
 * bw_get_batch() - see struct kvt_index_ops
 * @index: the tree
 * @lookups: the keys, and what they map to
 * @cells: not used, since every value has a block; NULL: only fetch
 * @nr: their number
 *
 * Context: under rcu_read_lock(), any context.
 */
void bw_get_batch(struct kvt_index *index, struct kvt_lookup *lookups, struct kvt_cell *cells,
		  unsigned int nr)
{
	unsigned int some;

	RCU_LOCKDEP_WARN(!rcu_read_lock_held(), "kvtree: looking up outside of RCU");
	for (; nr; nr -= some, lookups += some) {
		some = min_t(unsigned int, nr, BW_BATCH);
		bw_get_some(index, lookups, some, cells);
	}
}
