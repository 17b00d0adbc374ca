// SPDX-License-Identifier: GPL-2.0
/*
 * Inserting sorted keys: find and lock a leaf once, and fill it with the keys that belong there.
 *
 * Each of them is inserted as mt_insert_slot() does it, but one permutation publishes all.  A leaf
 * that is full is left to begin() and commit().  As change->then is set, all keys stay in it when
 * it splits, and the new leaf takes the next ones.
 */
#include <linux/err.h>
#include <linux/string.h>

#include "tree.h"

/* A locked leaf that is being filled. */
struct mt_filling {
	struct mt_tree *tree;
	struct mt_leaf *leaf;
	u32 off;			/* of its layer */
	const struct kvt_key *first;	/* a key of the layer */
	u64 perm;			/* to be published */
};

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
	unsigned long slot;
	unsigned int at, n;

	if (mt_perm_size(f->perm) == MT_LEAF_WIDTH || !mt_leaf_covers(leaf, slice) ||
	    !mt_fill_place(f, slice, rank, &at))
		return false;
	if (kvt_value_is_cell(insert->value) &&
	    (f->off || rank == MT_RANK_LONG || !mt_has_cells(leaf)))
		return false;
	mt_note_length(f->tree, &insert->key);
	mt_note_cell(f->tree, insert->value);
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

static unsigned int mt_fill(struct mt_filling *f, const struct kvt_insert *inserts,
			    unsigned int nr)
{
	unsigned int i;

	f->perm = f->leaf->perm;
	for (i = 0; i < nr; i++)
		if (!mt_same_layer(&inserts[i].key, f->first, f->off) ||
		    !mt_fill_one(f, &inserts[i]))
			break;
	kvt_park(KVT_PARK_INSERT_WRITTEN);
	if (i)
		mt_leaf_set_perm(f->leaf, f->perm);
	return i;
}

/* Fill the leaf of the first key. */
static unsigned int mt_fill_leaf(struct mt_tree *tree, const struct kvt_insert *inserts,
				 unsigned int nr)
{
	struct mt_filling f = { .tree = tree, .first = &inserts->key };
	struct mt_probe probe;
	unsigned int done = 0;

	mt_probe_place(&probe, tree, &inserts->key);
	if (IS_ERR(probe.value))
		return 0;
	f.off = probe.off;
	kvt_park_loose(KVT_PARK_WRITE_FOUND);
	mt_hold();
	f.leaf = mt_lock_leaf(tree, mt_leaf(probe.node), probe.version, probe.slice);
	if (f.leaf) {
		done = mt_fill(&f, inserts, nr);
		mt_unlock(&f.leaf->node, &mt_class_leaf);
	}
	mt_release();
	return done;
}

/**
 * mt_insert_sorted() - see struct kvt_index_ops
 * @index: the tree
 * @inserts: the keys
 * @nr: how many
 * @gfp: not used: it allocates nothing
 *
 * Return: how many were inserted.
 */
unsigned int mt_insert_sorted(struct kvt_index *index, const struct kvt_insert *inserts,
			      unsigned int nr, gfp_t gfp)
{
	unsigned int done;

	rcu_read_lock();
	done = mt_fill_leaf(mt_tree(index), inserts, nr);
	rcu_read_unlock();
	return done;
}
