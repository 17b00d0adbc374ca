/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Nodes of a Masstree: layout, version word, permutation.
 *
 * See masstree.c for the protocol.
 */
#ifndef KVT_MT_NODE_H
#define KVT_MT_NODE_H

#include <linux/bitops.h>
#include <linux/bits.h>
#include <linux/bug.h>
#include <linux/cache.h>
#include <linux/compiler.h>
#include <linux/llist.h>
#include <linux/lockdep.h>
#include <linux/minmax.h>
#include <linux/prefetch.h>
#include <linux/types.h>
#include <linux/unaligned.h>

#include "../value.h"

#define MT_LEAF_WIDTH	15
#define MT_INNER_WIDTH	14		/* keys; one child more */
#define MT_HEIGHT_MAX	20		/* levels of inner nodes that a writer locks */
#define MT_SLICE	8u		/* key bytes per layer */
#define MT_RANK_LONG	9u		/* rank of a key that goes on behind its slice */

/*
 * Version word (EuroSys 2012, figure 3).  The lock holder is the only one who
 * changes it, but for the lock bit.
 *
 *	63        36 35        8 7     5   4     3        2         1       0
 *	+-----------+-----------+-------+------+---------+---------+--------+------+
 *	|  vsplit   |  vinsert  |   0   | leaf | deleted | split-  | insert-| lock |
 *	|           |           |       |      |         | ting    | ing    |      |
 *	+-----------+-----------+-------+------+---------+---------+--------+------+
 */
#define MT_LOCK		BIT_ULL(0)
#define MT_INSERTING	BIT_ULL(1)
#define MT_SPLITTING	BIT_ULL(2)
#define MT_DELETED	BIT_ULL(3)
#define MT_LEAF		BIT_ULL(4)
#define MT_VINSERT	BIT_ULL(8)
#define MT_VSPLIT	BIT_ULL(36)
#define MT_DIRTY	(MT_INSERTING | MT_SPLITTING)

struct mt_inner;

/* What every node begins with. */
struct mt_node {
	u64 version;
	union {
		struct mt_inner *parent;	/* NULL: root of its layer */
		struct llist_node retire;	/* of a deleted inner node */
	};
};

/*
 * A leaf ("border node").  The first cache line is all that says where a key
 * stands; slices and slots follow, whole node prefetched together.
 *
 *	0        8        16     24        40     48     56      64
 *	| version| parent | perm | klen[15]| next | prev | lowkey|
 *	64                       184                      304   312
 *	| slice[15]              | slot[15]               |stale|retire|
 *
 * A slot holds a value block, or, with MT_SLOT_LAYER set, the root of the next
 * layer.  Slots of keys with at most eight bytes left hold values only; of
 * keys with the same slice and more bytes there is at most one, and its slot
 * tells by itself, in one load, whether it is a value or a layer.
 */
struct mt_leaf {
	struct mt_node node;
	u64 perm;
	u8 klen[MT_LEAF_WIDTH];		/* rank: 0..8 bytes of the slice, or MT_RANK_LONG */
	u8 pad;
	struct mt_leaf *next;
	struct mt_leaf *prev;
	u64 lowkey;			/* smallest slice, except in the leftmost leaf */
	u64 slice[MT_LEAF_WIDTH];
	unsigned long slot[MT_LEAF_WIDTH];
	u16 stale;			/* slots whose key was removed: see mt_insert_slot() */
	struct llist_node retire;
} ____cacheline_aligned;

struct mt_inner {
	struct mt_node node;
	u8 nkeys;
	u8 level;			/* 1: its children are leaves */
	u64 slice[MT_INNER_WIDTH];	/* ~0 from nkeys on */
	struct mt_node *child[MT_INNER_WIDTH + 1];
} ____cacheline_aligned;

#define MT_SLOT_LAYER	1ul

static inline bool mt_slot_is_layer(unsigned long slot)
{
	return slot & MT_SLOT_LAYER;
}

static inline struct mt_node *mt_slot_layer(unsigned long slot)
{
	return (struct mt_node *)(slot & ~MT_SLOT_LAYER);
}

static inline struct kvt_value *mt_slot_value(unsigned long slot)
{
	return (struct kvt_value *)slot;
}

static inline unsigned long mt_layer_slot(struct mt_node *root)
{
	return (unsigned long)root | MT_SLOT_LAYER;
}

static inline struct mt_leaf *mt_leaf(struct mt_node *node)
{
	return container_of(node, struct mt_leaf, node);
}

static inline struct mt_inner *mt_inner(struct mt_node *node)
{
	return container_of(node, struct mt_inner, node);
}

static inline bool mt_is_leaf(const struct mt_node *node)
{
	return READ_ONCE(node->version) & MT_LEAF;
}

/* Fetch all lines of a node at once (EuroSys 2012, section 4.2). */
static inline void mt_prefetch(const void *node)
{
	const char *p = node;
	unsigned int i;

	for (i = 0; i < sizeof(struct mt_leaf); i += 64)
		prefetch(p + i);
}

/* Slices: eight bytes of key, big end first, padded with zeros. */

static inline u64 mt_slice(const u8 *key, u32 len, u32 off)
{
	u32 left = len - off;
	u64 slice = 0;
	u32 i;

	if (left >= MT_SLICE)
		return get_unaligned_be64(key + off);
	for (i = 0; i < left; i++)
		slice |= (u64)key[off + i] << (56 - 8 * i);
	return slice;
}

static inline u32 mt_rank(u32 len, u32 off)
{
	return min(len - off, MT_RANK_LONG);
}

/*
 * Permutation (section 4.6.2): the low four bits count the keys, then follow
 * fifteen slot numbers, first those of the keys in order, then the free ones.
 */

#define MT_PERM_EMPTY	0xedcba98765432100ull

static inline unsigned int mt_perm_size(u64 perm)
{
	return perm & 15;
}

static inline unsigned int mt_perm_slot(u64 perm, unsigned int i)
{
	return (perm >> (4 * i + 4)) & 15;
}

/* Whether a slot is a key's. */
static inline bool mt_perm_has(u64 perm, unsigned int slot)
{
	const u64 ones = 0x111111111111111ull;
	u64 x = (perm >> 4) ^ slot * ones;

	/* It stands once in the permutation: the one nibble of x that is 0. */
	return __ffs64((x - ones) & ~x & ones << 3) < 4 * mt_perm_size(perm);
}

/* Position @i gets the first free slot, which is mt_perm_slot(perm, size). */
static inline u64 mt_perm_insert(u64 perm, unsigned int i)
{
	unsigned int size = mt_perm_size(perm);
	u64 slot = mt_perm_slot(perm, size);
	u64 below = GENMASK_ULL(4 * i + 3, 0);
	u64 live = GENMASK_ULL(4 * size + 7, 0);
	/* Slots i..size-1 move up by one; the one at size is cut off. */
	u64 moved = ((perm & live & ~below) << 4) & live;

	return ((perm & ~live) | moved | (slot << (4 * i + 4)) | (perm & below)) + 1;
}

/* The slot at position @i becomes the last of the free ones. */
static inline u64 mt_perm_remove(u64 perm, unsigned int i)
{
	u64 slot = mt_perm_slot(perm, i);
	u64 below = GENMASK_ULL(4 * i + 3, 0);
	u64 above = (perm & ~below) >> 4;

	return ((above & ~below) | (slot << 60) | (perm & below)) - 1;
}

/* Version word */

/* Has the node changed since @v was read?  Pairs with mt_mark(), mt_unlock(). */
static inline bool mt_changed(const struct mt_node *node, u64 v)
{
	smp_rmb();	/* what was read of the node, before its version again */
	return (READ_ONCE(node->version) ^ v) & ~MT_LOCK;
}

/* Readers must not use the node until it is unlocked.  Lock holder only. */
static inline void mt_mark(struct mt_node *node, u64 dirty)
{
	WRITE_ONCE(node->version, READ_ONCE(node->version) | dirty);
	smp_wmb();	/* the mark, before any change; pairs with mt_changed() */
}

/* The node is not part of the tree any more.  Lock holder only. */
static inline void mt_mark_deleted(struct mt_node *node)
{
	mt_mark(node, MT_DELETED);
}

static inline bool mt_is_deleted(const struct mt_node *node)
{
	return READ_ONCE(node->version) & MT_DELETED;
}

/*
 * Lock classes.  The order in which a thread takes node locks:
 *
 *	leaves of a layer from left to right  (subclasses 0, 1, 2)
 *	-> inner nodes from the bottom up      (a class per level)
 *	-> the leaf of the upper layer whose slot holds this layer's root
 *
 * New nodes are born locked (subclass MT_SUB_NEW), nobody can wait for them.
 */
#define MT_SUB_NEW	3

struct mt_lock_class {
#ifdef CONFIG_DEBUG_LOCK_ALLOC
	struct lockdep_map map;
#endif
};

extern struct mt_lock_class mt_class_leaf;
extern struct mt_lock_class mt_class_slot;
extern struct mt_lock_class mt_class_inner[MT_HEIGHT_MAX + 1];

static inline struct mt_lock_class *mt_class_of(struct mt_node *node)
{
	if (mt_is_leaf(node))
		return &mt_class_leaf;
	return &mt_class_inner[min_t(unsigned int, mt_inner(node)->level, MT_HEIGHT_MAX)];
}

#ifdef CONFIG_DEBUG_LOCK_ALLOC
static inline void mt_lock_acquired(struct mt_lock_class *class, unsigned int sub, bool try)
{
	lock_acquire_exclusive(&class->map, sub, try, NULL, _RET_IP_);
}

static inline void mt_lock_released(struct mt_lock_class *class)
{
	lock_release(&class->map, _RET_IP_);
}
#else
static inline void mt_lock_acquired(struct mt_lock_class *class, unsigned int sub, bool try) { }
static inline void mt_lock_released(struct mt_lock_class *class) { }
#endif

/*
 * Publishing and reading what is published.  Whoever sees a permutation, a
 * slot, a number of keys, a link or a root sees what it leads to as written
 * before it was set.
 */

static inline u64 mt_leaf_perm(const struct mt_leaf *leaf)
{
	return smp_load_acquire(&leaf->perm);	/* pairs with mt_leaf_set_perm() */
}

static inline unsigned long mt_leaf_slot(const struct mt_leaf *leaf, unsigned int n)
{
	return smp_load_acquire(&leaf->slot[n]);	/* pairs with mt_leaf_set_slot() */
}

static inline struct mt_leaf *mt_leaf_next(const struct mt_leaf *leaf)
{
	return smp_load_acquire(&leaf->next);	/* pairs with mt_leaf_set_next() */
}

static inline unsigned int mt_inner_nkeys(const struct mt_inner *inner)
{
	return smp_load_acquire(&inner->nkeys);	/* pairs with mt_inner_set_nkeys() */
}

static inline void mt_leaf_set_perm(struct mt_leaf *leaf, u64 perm)
{
	smp_store_release(&leaf->perm, perm);	/* pairs with mt_leaf_perm() */
}

static inline void mt_leaf_set_slot(struct mt_leaf *leaf, unsigned int n, unsigned long slot)
{
	smp_store_release(&leaf->slot[n], slot);	/* pairs with mt_leaf_slot() */
}

static inline void mt_leaf_set_next(struct mt_leaf *leaf, struct mt_leaf *next)
{
	smp_store_release(&leaf->next, next);	/* pairs with mt_leaf_next() */
}

static inline void mt_inner_set_nkeys(struct mt_inner *inner, unsigned int nkeys)
{
	smp_store_release(&inner->nkeys, nkeys);	/* pairs with mt_inner_nkeys() */
}

static inline void mt_set_parent(struct mt_node *node, struct mt_inner *parent)
{
	WRITE_ONCE(node->parent, parent);
}

/* Write a slot that no permutation that may still be read shows. */
static inline void mt_leaf_fill(struct mt_leaf *leaf, unsigned int n, u64 slice, u32 rank,
				unsigned long slot)
{
	WRITE_ONCE(leaf->slice[n], slice);
	WRITE_ONCE(leaf->klen[n], rank);
	mt_leaf_set_slot(leaf, n, slot);
}

bool mt_lock(struct mt_node *node, struct mt_lock_class *class, unsigned int sub);
void mt_unlock(struct mt_node *node, struct mt_lock_class *class);
struct mt_inner *mt_lock_parent(struct mt_node *node);

/**
 * mt_inner_search() - which child covers a slice
 * @inner: the node
 * @nkeys: its number of keys
 * @slice: what to look for
 *
 * Always the same four looks, and no branch: which way it went would be
 * anybody's guess.  Keys that are not there are greater than all others.
 *
 * Return: the number of keys that are not greater than @slice.
 */
static inline unsigned int mt_inner_search(const struct mt_inner *inner, unsigned int nkeys,
					   u64 slice)
{
	unsigned int at;

	static_assert(MT_INNER_WIDTH == 7 + 4 + 2 + 1);
	at = slice >= READ_ONCE(inner->slice[6]) ? 7 : 0;
	at += slice >= READ_ONCE(inner->slice[at + 3]) ? 4 : 0;
	at += slice >= READ_ONCE(inner->slice[at + 1]) ? 2 : 0;
	at += slice >= READ_ONCE(inner->slice[at]) ? 1 : 0;
	/* ~0 is a slice, too. */
	return min(at, nkeys);
}

/**
 * mt_leaf_find() - look for a key in a leaf
 * @leaf: the leaf
 * @perm: its permutation
 * @slice: slice of the key
 * @rank: mt_rank() of the key
 *
 * Goes through the slots, not through the permutation: less to compute, and
 * the addresses do not depend on what is read.
 *
 * Return: the key's slot number or -1.
 */
static __always_inline int mt_leaf_find(const struct mt_leaf *leaf, u64 perm, u64 slice,
					u32 rank)
{
	const u64 *s;
	int n;

	for (s = leaf->slice; s < leaf->slice + MT_LEAF_WIDTH; s++) {
		if (likely(READ_ONCE(*s) != slice))
			continue;
		n = s - leaf->slice;
		/* It may be another key's, or have been one's that was removed. */
		if (READ_ONCE(leaf->klen[n]) == rank && mt_perm_has(perm, n))
			return n;
	}
	return -1;
}

#endif /* KVT_MT_NODE_H */
