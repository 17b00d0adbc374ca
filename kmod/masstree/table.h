/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A table of the inner nodes above the leaves of the first layer: a lookup finds its node there
 * instead of going down from the root.  See table.c for the protocol.
 */
#ifndef KVT_MT_TABLE_H
#define KVT_MT_TABLE_H

#include <linux/minmax.h>
#include <linux/rcupdate.h>
#include <linux/types.h>

#include "tree.h"

/*
 * A node and its vsplit in one word:
 *
 *	63                                14 13         0
 *	+-----------------------------------+------------+
 *	| bits 55 to 6 of the node's address| vsplit     |
 *	+-----------------------------------+------------+
 *
 * The address ends in six zeros, and begins with the eight bits that all have in common.
 */
#define MT_REF_SHIFT		8
#define MT_REF_VSPLIT_BITS	14
#define MT_REF_NONE		0ull
#define MT_REF_TOP		GENMASK(63, 64 - MT_REF_SHIFT)

/*
 * The bits of vsplit that are kept repeat after 2^14 splits of a node, that is after four turns of
 * this.  Two turns, of any nodes, withdraw the table.  vinsert overflows into vsplit every 2^28
 * changes; a turn that is reached in this way is counted at the node's next split.
 */
#define MT_TABLE_TURN		(1u << (MT_REF_VSPLIT_BITS - 2))
#define MT_TABLE_TURNS		2

struct mt_table_entry {
	u64 bound;			/* the smallest slice; the first entry's is 0 */
	u64 ref;			/* the node that covers them, or MT_REF_NONE */
};

struct mt_table {
	size_t size;			/* bytes of all of it */
	unsigned long top;		/* what the addresses begin with */
	u64 base;			/* where the first bucket begins; it has all below */
	u32 shift;
	u32 nr;				/* entries */
	u32 nr_buckets;
	u32 *bucket;			/* the entry of its first slice; one more than there are */
	struct mt_table_entry entry[];	/* by bound; and MT_TABLE_PAD more */
};

/* Buckets with at most this many bounds are searched without branches. */
#define MT_TABLE_NEAR	3
#define MT_TABLE_PAD	MT_TABLE_NEAR

static __always_inline u32 mt_ref_vsplit(u64 version)
{
	return (version / MT_VSPLIT) & (BIT(MT_REF_VSPLIT_BITS) - 1);
}

static __always_inline struct mt_node *mt_ref_node(const struct mt_table *t, u64 ref)
{
	u64 address = ref >> MT_REF_VSPLIT_BITS << (MT_REF_VSPLIT_BITS - MT_REF_SHIFT);

	return (struct mt_node *)(t->top | (unsigned long)address);
}

/* The entry that covers @slice. */
static __always_inline unsigned int mt_table_at(const struct mt_table *t, u64 slice)
{
	u64 bucket = slice > t->base ? (slice - t->base) >> t->shift : 0;
	const struct mt_table_entry *e;
	u32 low, high, middle;

	bucket = min_t(u64, bucket, t->nr_buckets - 1);
	low = t->bucket[bucket];
	high = t->bucket[bucket + 1];
	if (likely(high - low <= MT_TABLE_NEAR)) {
		e = &t->entry[low + 1];
		low += (slice >= e[0].bound) + (slice >= e[1].bound) + (slice >= e[2].bound);
		/* ~0 is a slice, too. */
		return min(low, t->nr - 1);
	}
	while (low < high) {
		middle = high - (high - low) / 2;
		if (slice >= t->entry[middle].bound)
			low = middle;
		else
			high = middle - 1;
	}
	return low;
}

static __always_inline const struct mt_table *mt_table(const struct mt_tree *tree)
{
	return smp_load_acquire(&tree->table);	/* pairs with mt_table_publish() */
}

/* What the table says of a slice: a node and its vsplit, or MT_REF_NONE. */
static __always_inline u64 mt_table_find(const struct mt_table *t, u64 slice)
{
	/* Pairs with mt_table_split(). */
	return smp_load_acquire(&t->entry[mt_table_at(t, slice)].ref);
}

/*
 * Where a lookup in the first layer begins: the node to which the table leads, and in @ref what the
 * table says of it; or the root, and MT_REF_NONE.  It is prefetched.  Under RCU.
 */
static __always_inline struct mt_node *mt_table_begin(const struct mt_table *t,
						      struct mt_node *root, u64 slice, u64 *ref)
{
	struct mt_node *node;

	*ref = t ? mt_table_find(t, slice) : MT_REF_NONE;
	if (unlikely(*ref == MT_REF_NONE)) {
		mt_prefetch(root, true, true);
		return root;
	}
	node = mt_ref_node(t, *ref);
	mt_prefetch(node, false, false);
	return node;
}

/*
 * Whether a node of this version covers what the table says.  The table must still be in use: it is
 * withdrawn before any node has split so often that the bits kept of its vsplit repeat.
 */
static __always_inline bool mt_table_holds(const struct mt_tree *tree, const struct mt_table *t,
					   u64 ref, u64 version)
{
	return ref != MT_REF_NONE &&
	       mt_ref_vsplit(version) == (ref & (BIT(MT_REF_VSPLIT_BITS) - 1)) &&
	       READ_ONCE(tree->table) == t;
}

/*
 * One step of a reader that expects no change: whether the node is clean, and still is where it was
 * found.  The node above it has not changed since (hand over hand, as in mt_probe_node()); or, if
 * @above is NULL, the node is its layer's root, or matches what the table said, which is then in
 * @above_version.
 */
static __always_inline bool mt_fast_enter(const struct mt_tree *tree, const struct mt_table *t,
					  const struct mt_node *node, const struct mt_node *above,
					  u64 above_version, u64 *version)
{
	kvt_park_loose(KVT_PARK_READ_CHILD);
	*version = smp_load_acquire(&node->version);	/* pairs with mt_unlock() */
	kvt_park_loose(KVT_PARK_READ_VERSION);
	if (unlikely(*version & (MT_DIRTY | MT_DELETED)))
		return false;
	if (likely(above))
		return likely(!mt_changed(above, above_version));
	/* A root that has split or shrunk is no longer its layer's root. */
	return likely(mt_is_root(node)) || mt_table_holds(tree, t, above_version, *version);
}

void mt_table_init(struct mt_tree *tree);
void mt_table_exit(struct mt_tree *tree);
void mt_table_split(struct mt_tree *tree, u64 slice, struct mt_inner *const *split,
		    unsigned int nr, struct mt_inner *heir);
bool mt_table_is_old(const struct mt_tree *tree);
void mt_table_later(struct mt_tree *tree);
int mt_table_renew(struct mt_tree *tree);

#endif /* KVT_MT_TABLE_H */
