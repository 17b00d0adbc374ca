// SPDX-License-Identifier: GPL-2.0
/*
 * Inserting sorted keys: find and lock a leaf once, and fill it with the keys that belong there.
 *
 * Each of them is inserted as mt_insert_slot() does it, but one permutation publishes all.  The
 * first key that finds no room is inserted by begin() and commit().  All keys stay in a leaf that
 * splits then, and the new one takes the next keys before anyone can find it.
 */
#include <linux/err.h>
#include <linux/string.h>

#include "split.h"

/* Find the place of a key.  Returns false if it exists, or one of the same slice and rank. */
static bool mt_fill_place(const struct mt_filling *f, u64 slice, u32 rank, unsigned int *at)
{
	unsigned int size = mt_perm_size(f->perm);

	*at = size;
	if (!size || f->leaf->slice[mt_perm_slot(f->perm, size - 1)] < slice)
		return true;
	return mt_leaf_place(f->leaf, f->perm, slice, rank, at) < 0;
}

/* Put a key into a free slot, to which the permutation will lead.  Returns false if it cannot. */
static bool mt_fill_one(struct mt_filling *f, const struct kvt_insert *insert)
{
	u32 rank = mt_rank(insert->key.len, f->off);
	u64 slice = mt_slice(insert->key.data, insert->key.len, f->off), data = 0;
	struct mt_leaf *leaf = f->leaf;
	bool takes_cell = rank != MT_RANK_LONG && mt_has_cells(leaf);
	unsigned long slot;
	unsigned int at, n;

	if (!mt_leaf_covers(leaf, slice))
		return false;
	f->full = mt_perm_size(f->perm) == MT_LEAF_WIDTH;
	if (f->full || !mt_fill_place(f, slice, rank, &at))
		return false;
	if (kvt_value_is_cell(insert->value) && !takes_cell)
		return false;
	/* It stays a block, but those that follow need not be. */
	if (takes_cell && !kvt_value_is_cell(insert->value) && kvt_value_fits_cell(insert->value))
		kvt_index_learn_cell(&f->tree->index, insert->key.len, true);
	mt_note_length(f->tree, &insert->key);
	mt_note_cell(f->tree, insert->value, f->off);
	slot = mt_value_to_slot(insert->value, &data);
	n = mt_perm_slot(f->perm, mt_perm_size(f->perm));
	/* As in mt_insert_slot(): readers of an older permutation must retry. */
	if (leaf->stale & BIT(n)) {
		mt_mark(&leaf->node, MT_INSERTING);
		leaf->stale &= ~BIT(n);
		kvt_park(KVT_PARK_INSERT_REUSE);
	}
	mt_leaf_fill(leaf, n, slice, rank, slot, data);
	f->perm = mt_perm_insert(f->perm, at);
	return true;
}

/**
 * mt_fill() - put keys into a leaf
 * @f: the leaf, and its permutation, to which the keys are added; the caller publishes it
 * @inserts: the keys, sorted
 * @nr: how many
 *
 * Context: mt_hold().
 *
 * Return: how many have found a place there.
 */
unsigned int mt_fill(struct mt_filling *f, const struct kvt_insert *inserts, unsigned int nr)
{
	unsigned int i;

	for (i = 0; i < nr; i++)
		if (!mt_same_layer(&inserts[i].key, f->first, f->off) ||
		    !mt_fill_one(f, &inserts[i]))
			break;
	return i;
}

/* Fill the leaf of the first key.  *@full: the next one belongs there, too, but finds no room. */
static unsigned int mt_fill_leaf(struct mt_tree *tree, const struct kvt_insert *inserts,
				 unsigned int nr, bool *full)
{
	struct mt_filling f = { .tree = tree, .first = &inserts->key };
	struct mt_probe probe;
	unsigned int done = 0;

	rcu_read_lock();
	mt_probe_place(&probe, tree, &inserts->key);
	if (IS_ERR(probe.value))
		goto out;
	f.off = probe.off;
	kvt_park_loose(KVT_PARK_WRITE_FOUND);
	mt_hold();
	f.leaf = mt_lock_leaf(tree, mt_leaf(probe.node), probe.version, probe.slice);
	if (f.leaf) {
		f.perm = f.leaf->perm;
		done = mt_fill(&f, inserts, nr);
		kvt_park(KVT_PARK_INSERT_WRITTEN);
		if (done)
			mt_leaf_set_perm(f.leaf, f.perm);
		mt_unlock(&f.leaf->node, &mt_class_leaf);
	}
	mt_release();
	*full = f.full;
out:
	rcu_read_unlock();
	return done;
}

/*
 * Insert the first key.  If *@full, its leaf probably splits: insert those that follow it in the
 * new leaf, too.  *@full is then as of mt_fill_leaf().  Returns how many were inserted.
 */
static unsigned int mt_insert_first(struct kvt_index *index, const struct kvt_insert *inserts,
				    unsigned int nr, gfp_t gfp, bool *full)
{
	struct kvt_change change = {
		.index = index,
		.key = inserts->key,
		.gfp = gfp,
		.may_insert = true,
		.wants_cell = kvt_value_fits_cell(inserts->value),
	};
	struct mt_change *c = mt_change(&change);
	unsigned int done = 0;

	c->inserts = inserts;
	c->nr_inserts = *full ? nr : 1;
	if (mt_begin(&change))
		goto out;
	if (change.old || (kvt_value_is_cell(inserts->value) && !change.takes_cell)) {
		mt_abort(&change);
		goto out;
	}
	mt_commit(&change, inserts->value);
	done = 1 + c->nr_more;
	*full = c->full;
out:
	mt_finish(&change);
	return done;
}

/**
 * mt_insert_sorted() - see struct kvt_index_ops
 * @index: the tree
 * @inserts: the keys
 * @nr: how many
 * @gfp: how to allocate nodes
 *
 * Return: how many were inserted.
 */
unsigned int mt_insert_sorted(struct kvt_index *index, const struct kvt_insert *inserts,
			      unsigned int nr, gfp_t gfp)
{
	unsigned int done = 0, n;
	bool full = false;

	do {
		n = full ? 0 : mt_fill_leaf(mt_tree(index), &inserts[done], nr - done, &full);
		if (!n)
			n = mt_insert_first(index, &inserts[done], nr - done, gfp, &full);
		done += n;
	} while (n && done < nr);
	return done;
}
