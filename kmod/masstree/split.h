/* SPDX-License-Identifier: GPL-2.0 */
/* A change in progress: what begin() holds and commit() uses. */
#ifndef KVT_MT_SPLIT_H
#define KVT_MT_SPLIT_H

#include <linux/build_bug.h>

#include "tree.h"

enum mt_change_kind {
	MT_CHANGE_NONE,		/* the key does not exist and may not be created */
	MT_CHANGE_UPDATE,	/* another value in the slot, or none */
	MT_CHANGE_INSERT,	/* the leaf has room */
	MT_CHANGE_SPLIT,	/* the leaf is full */
	MT_CHANGE_LAYER,	/* another key has the same slice and continues as well */
};

/* What a removal leaves in the layer of the last leaf that it changed. */
enum mt_leftover {
	MT_LEFT_ENOUGH,
	MT_LEFT_EMPTY,		/* the leaf is empty, and to be unlinked */
	MT_LEFT_THIN,		/* the worker should check the layer */
};

struct mt_change {
	enum mt_change_kind kind;
	u32 off;			/* of the layer */
	u64 slice;			/* of the key, there */
	struct mt_leaf *leaf;		/* locked */
	unsigned int at;		/* position in its permutation */
	unsigned int slot;		/* UPDATE, LAYER: the slot */
	struct kvt_value *other;	/* LAYER: the value in the slot */

	/* Sorted keys, the change's is the first of them; one or none: others are not known. */
	const struct kvt_insert *inserts;
	unsigned int nr_inserts;
	unsigned int nr_more;		/* others of them that a split has inserted, too */
	bool full;			/* the new leaf, and the next key belongs there */

	/* SPLIT: locked, from the leaf's parent on; all but the last are full. */
	unsigned int nr_above;
	struct mt_inner *above[MT_HEIGHT_MAX];
	/* If a layer's root splits: the leaf that holds it, locked. */
	struct mt_leaf *up;
	unsigned int up_slot;

	/* Memory set aside. */
	unsigned int nr_leaves;
	unsigned int nr_inners;
	struct mt_leaf *leaves;
	struct mt_leaf *right;		/* of a split */
	struct mt_inner *inners;
	/* Layers built in advance, from chain down to chain_last. */
	unsigned int nr_chain;
	u32 chain_off;
	struct mt_leaf *chain;
	struct mt_leaf *chain_last;

	/* What to report and do after a commit, when nothing is held any more. */
	enum mt_leftover left;		/* in the layer at off */
	struct mt_stem stem;		/* removed, to be retired */
	bool grown;			/* there is a new root */
	u8 gone;			/* nodes that were unlinked */
	u8 nr_split;			/* nodes that have split, from the leaf on ... */
	u8 stay[MT_HEIGHT_MAX + 1];	/* ... and what has stayed in each */
	u32 nr_built;			/* layers, from chain_off on */
	u32 nr_collected;		/* layers after the one at off */
};

static inline struct mt_change *mt_change(struct kvt_change *change)
{
	BUILD_BUG_ON(sizeof(struct mt_change) > sizeof(change->engine));
	return (struct mt_change *)change->engine;
}

/* A leaf that is being filled: locked, or not yet published. */
struct mt_filling {
	struct mt_tree *tree;
	struct mt_leaf *leaf;
	u32 off;			/* of its layer */
	const struct kvt_key *first;	/* a key of the layer */
	u64 perm;			/* to be published */
	bool full;			/* the next key belongs there, but finds no room */
};

unsigned int mt_fill(struct mt_filling *f, const struct kvt_insert *inserts, unsigned int nr);
struct mt_leaf *mt_take_leaf(struct mt_change *c);
struct mt_inner *mt_take_inner(struct mt_change *c);
void mt_insert_split(struct mt_tree *tree, struct kvt_change *change, struct mt_change *c,
		     struct kvt_value *value);
void mt_trace_split(struct mt_tree *tree, const struct mt_change *c);

#endif /* KVT_MT_SPLIT_H */
