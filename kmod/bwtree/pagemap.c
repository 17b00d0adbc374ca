// SPDX-License-Identifier: GPL-2.0
/*
 * The mapping table.  It grows by exchanging a pointer that was NULL, and never shrinks.
 * Free ids form a list through their entries.  Its head counts its changes, to tell an
 * id that came back from one that stayed (ABA).
 */
#include <linux/err.h>
#include <linux/slab.h>

#include "compat.h"
#include "tree.h"

/**
 * bw_map_new() - create a mapping table with only the id BW_ROOT
 *
 * The initial pieces are not charged to the store's limit, as the store itself is not; pieces
 * that are added later are.
 *
 * Context: may sleep.
 *
 * Return: the table, with one reference, or NULL.
 */
struct bw_map *bw_map_new(void)
{
	struct bw_map *map = kzalloc(sizeof(*map), GFP_KERNEL_ACCOUNT);

	if (!map)
		return NULL;
	refcount_set(&map->refs, 1);
	map->limit = BW_IDS_MAX;
	map->twigs[0] = kzalloc(sizeof(*map->twigs[0]), GFP_KERNEL_ACCOUNT);
	if (map->twigs[0])
		map->twigs[0]->leaves[0] = kzalloc(sizeof(*map->twigs[0]->leaves[0]),
						   GFP_KERNEL_ACCOUNT);
	if (map->twigs[0] && map->twigs[0]->leaves[0]) {
		atomic_set(&map->next, BW_ROOT + 1);
		return map;
	}
	bw_map_put(map);
	return NULL;
}

/**
 * bw_map_put() - drop a reference
 * @map: the table; the last reference frees it
 */
void bw_map_put(struct bw_map *map)
{
	unsigned int i, j;

	if (!refcount_dec_and_test(&map->refs))
		return;
	for (i = 0; i < BW_FAN && map->twigs[i]; i++) {
		for (j = 0; j < BW_FAN && map->twigs[i]->leaves[j]; j++)
			kfree(map->twigs[i]->leaves[j]);
		kfree(map->twigs[i]);
	}
	kfree(map);
}

/* Charge, allocate and publish a piece, unless another thread does. */
static int bw_map_piece(struct bw_tree *tree, void **where, size_t size, gfp_t gfp)
{
	void *piece, *expect = NULL;
	int err;

	err = bw_charge(tree, 1, size);
	if (err)
		return err;
	piece = kzalloc(size, gfp);
	/* Pairs with bw_map_entry(). */
	if (piece && try_cmpxchg(where, &expect, piece)) {
		atomic64_add(size, &tree->map_bytes);
		bw_nr_add(tree, BW_NR_MAP_BYTES, size);
		return 0;
	}
	bw_uncharge(tree, 1, size);
	kfree(piece);
	return piece ? 0 : -ENOMEM;
}

/* Make room for an id that was never used. */
static int bw_map_grow(struct bw_tree *tree, u32 id, gfp_t gfp)
{
	struct bw_map *map = tree->map;
	struct bw_twigs **twigs = &map->twigs[id >> (2 * BW_FAN_SHIFT)];
	struct bw_leaves **leaves;
	int err;

	if (id >= map->limit)
		return -ENOMEM;
	if (!smp_load_acquire(twigs)) {	/* pairs with bw_map_piece() */
		err = bw_map_piece(tree, (void **)twigs, sizeof(**twigs), gfp);
		if (err)
			return err;
	}
	/* Pairs with bw_map_piece(). */
	leaves = &smp_load_acquire(twigs)->leaves[(id >> BW_FAN_SHIFT) & (BW_FAN - 1)];
	if (!smp_load_acquire(leaves))	/* the same */
		return bw_map_piece(tree, (void **)leaves, sizeof(**leaves), gfp);
	return 0;
}

/* Take a free id off the list, or 0. */
static u32 bw_map_pop(struct bw_map *map)
{
	s64 head = atomic64_read_acquire(&map->free);	/* pairs with bw_id_free() */
	unsigned long entry;
	u64 next;
	u32 id;

	for (;;) {
		id = head;
		if (!id)
			return 0;
		/* If another thread has taken it, the exchange fails. */
		entry = READ_ONCE(*bw_map_entry(map, id));
		next = ((u64)(head >> 32) + 1) << 32 | (u32)(entry >> 1);
		kvt_park_loose(KVT_PARK_BW_ID_SEEN);
		if (atomic64_try_cmpxchg(&map->free, &head, next))
			break;
	}
	WRITE_ONCE(*bw_map_entry(map, id), 0);
	return id;
}

/**
 * bw_id_alloc() - take an id for a page
 * @tree: the tree
 * @gfp: for the mapping table, if it has to grow
 * @id: set to the id
 *
 * Return: 0, -ENOMEM or -EDQUOT.
 */
int bw_id_alloc(struct bw_tree *tree, gfp_t gfp, u32 *id)
{
	struct bw_map *map = tree->map;
	int next, err;

	*id = bw_map_pop(map);
	if (*id)
		return 0;
	next = atomic_read(&map->next);
	do {
		err = bw_map_grow(tree, next, gfp);
		if (err)
			return err;
	} while (!atomic_try_cmpxchg(&map->next, &next, next + 1));
	*id = next;
	return 0;
}
KVT_EXPORT_FOR_TESTS(bw_id_alloc);

/**
 * bw_id_free() - give an id back
 * @map: the table
 * @id: the id; no reader can have a link to its page
 */
void bw_id_free(struct bw_map *map, u32 id)
{
	s64 head = atomic64_read(&map->free);
	u64 next;

	do {
		WRITE_ONCE(*bw_map_entry(map, id), (unsigned long)(u32)head << 1 | BW_FREE);
		next = ((u64)(head >> 32) + 1) << 32 | id;
	} while (!atomic64_try_cmpxchg(&map->free, &head, next));
}
KVT_EXPORT_FOR_TESTS(bw_id_free);
