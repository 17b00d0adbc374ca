// SPDX-License-Identifier: GPL-2.0
/* Allocations in advance, for one step of a change of structure: see enum bw_slot. */
#include <linux/err.h>

#include "compat.h"
#include "tree.h"

/**
 * bw_stock_get() - get an object that was allocated before
 * @stock: the stock
 * @slot: its slot
 * @size: bytes that it must have
 *
 * Return: the object, still the stock's; or NULL, and the stock records what it lacks.
 */
void *bw_stock_get(struct bw_stock *stock, enum bw_slot slot, u32 size)
{
	void *obj = stock->obj[slot];

	if (obj && bw_mem_room(obj) >= size)
		return obj;
	stock->want[slot] = size;
	return NULL;
}

/**
 * bw_stock_take() - take an object that was published
 * @stock: the stock
 * @slot: which
 *
 * Return: the object.
 */
void *bw_stock_take(struct bw_stock *stock, enum bw_slot slot)
{
	void *obj = stock->obj[slot];

	stock->obj[slot] = NULL;
	return obj;
}

/**
 * bw_stock_has_ids() - check whether the stock has enough ids
 * @stock: the stock
 * @nr: how many, at most BW_STOCK_IDS
 *
 * Return: true; or false, and the stock records what it lacks.
 */
bool bw_stock_has_ids(struct bw_stock *stock, u8 nr)
{
	stock->want_ids = nr;
	return stock->nr_ids >= nr;
}

/**
 * bw_stock_take_ids() - take ids that were published
 * @stock: the stock
 * @nr: how many
 */
void bw_stock_take_ids(struct bw_stock *stock, u8 nr)
{
	unsigned int i;

	stock->nr_ids -= nr;
	for (i = 0; i < stock->nr_ids; i++)
		stock->id[i] = stock->id[i + nr];
}

/**
 * bw_stock_fill() - allocate what the stock lacks
 * @tree: the tree
 * @stock: the stock
 *
 * Return: 0, -ENOMEM or -EDQUOT.
 */
int bw_stock_fill(struct bw_tree *tree, struct bw_stock *stock)
{
	enum bw_slot slot;
	int err;

	while (stock->nr_ids < stock->want_ids) {
		err = bw_id_alloc(tree, stock->gfp, &stock->id[stock->nr_ids]);
		if (err)
			return err;
		stock->nr_ids++;
	}
	for (slot = 0; slot < BW_SLOTS; slot++) {
		if (!stock->want[slot])
			continue;
		bw_mem_free(stock->obj[slot]);
		stock->obj[slot] = bw_mem_alloc(stock->want[slot], stock->gfp);
		if (!stock->obj[slot])
			return -ENOMEM;
	}
	return 0;
}

/**
 * bw_stock_drop() - free the rest of a stock
 * @tree: the tree
 * @stock: the stock
 */
void bw_stock_drop(struct bw_tree *tree, struct bw_stock *stock)
{
	unsigned int i;

	for (i = 0; i < BW_SLOTS; i++)
		bw_mem_free(stock->obj[i]);
	while (stock->nr_ids)
		bw_id_free(tree->map, stock->id[--stock->nr_ids]);
}
KVT_EXPORT_FOR_TESTS(bw_stock_drop);

/**
 * bw_stock_move() - give an object to another stock
 * @to: the other one
 * @to_slot: its slot, which is empty
 * @from: the stock
 * @from_slot: its slot
 */
void bw_stock_move(struct bw_stock *to, enum bw_slot to_slot, struct bw_stock *from,
		   enum bw_slot from_slot)
{
	to->obj[to_slot] = bw_stock_take(from, from_slot);
}
