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

#include "base/park.h"
#include "base/value.h"

#define MT_LEAF_WIDTH	16
#define MT_INNER_WIDTH	14		/* keys; one child more */
#define MT_HEIGHT_MAX	20		/* levels of inner nodes that a writer locks */
#define MT_SLICE	8u		/* key bytes per layer */
#define MT_RANK_LONG	9u		/* rank of a key that continues after its slice */

/*
 * Version word (EuroSys 2012, figure 3).  Only the lock holder changes it, except
 * for the lock bit.
 *
 *	63     36 35      8 7  6   5      4      3        2         1       0
 *	+--------+---------+-----+-------+------+---------+---------+--------+------+
 *	| vsplit | vinsert |  0  | cells | leaf | deleted | split-  | insert-| lock |
 *	|        |         |     |       |      |         | ting    | ing    |      |
 *	+--------+---------+-----+-------+------+---------+---------+--------+------+
 */
#define MT_LOCK		BIT_ULL(0)
#define MT_INSERTING	BIT_ULL(1)
#define MT_SPLITTING	BIT_ULL(2)
#define MT_DELETED	BIT_ULL(3)
#define MT_LEAF		BIT_ULL(4)
#define MT_CELLS	BIT_ULL(5)	/* the leaf has room for data of cells; never changes */
#define MT_VINSERT	BIT_ULL(8)
#define MT_VSPLIT	BIT_ULL(36)
#define MT_DIRTY	(MT_INSERTING | MT_SPLITTING)

struct mt_inner;

/* The beginning of every node. */
struct mt_node {
	u64 version;
	union {
		void *above;			/* see MT_ROOT */
		struct llist_node retire;	/* of a deleted node */
	};
};

/*
 * A leaf ("border node").  The first cache line has everything that locates a key;
 * slices and slots follow.  The whole node is prefetched at once.
 *
 *	0        8        16     24       32     40     48      56     58
 *	| version| parent | perm | ranks  | next | prev | lowkey| stale |
 *	64                                192                          320
 *	| slice[16]                       | slot[16]                     |
 *	320                               448
 *	| data[16], of a leaf with cells  |
 *
 * A slot holds a value block, the root of the next layer, or all of a cell but its data.
 * Slots of keys with at most eight bytes left hold only values.  At most one slot is for
 * keys with the same slice and more bytes, and one load of it tells whether it holds a
 * value or a layer.
 *
 * Cells are for keys that end in the leaf's layer.
 */
struct mt_leaf {
	struct mt_node node;
	u64 perm;
	u64 ranks;			/* 4 bits each: see mt_leaf_rank() */
	struct mt_leaf *next;
	struct mt_leaf *prev;
	u64 lowkey;			/* smallest slice, except in the leftmost leaf */
	u16 stale;			/* slots of removed keys: see mt_insert_slot() */
	u64 slice[MT_LEAF_WIDTH];
	unsigned long slot[MT_LEAF_WIDTH];
	u64 data[];			/* of cells: MT_LEAF_WIDTH of them, or none */
} ____cacheline_aligned;

#define MT_CELLS_BYTES	(MT_LEAF_WIDTH * sizeof(u64))

struct mt_inner {
	struct mt_node node;
	u8 nkeys;
	u8 level;			/* 1: its children are leaves */
	bool tabled;			/* a table may lead here: see table.c */
	u8 turn;			/* of its splits, the last one counted */
	u64 slice[MT_INNER_WIDTH];	/* ~0 from nkeys on */
	struct mt_node *child[MT_INNER_WIDTH + 1];
} ____cacheline_aligned;

/*
 * The four lowest bits of a slot tell what it holds.  Blocks are at multiples of eight, nodes of
 * sixteen.
 *
 *	x000		a value block
 *	0001		the root of a layer
 *	0010 to 0111	a cell of 0 to 5 bytes: its version is in the other bits
 *	1010 to 1100	a cell of 6 to 8 bytes
 *	1101		a cell without any column
 *	1111		a cell that is being written (MT_SLOT_BUSY)
 */
#define MT_SLOT_LAYER	1ul
#define MT_SLOT_EMPTY	13ul
#define MT_SLOT_BUSY	15ul

static inline bool mt_slot_is_layer(unsigned long slot)
{
	return (slot & 7) == MT_SLOT_LAYER;
}

static __always_inline bool mt_slot_is_cell(unsigned long slot)
{
	return slot & 6;
}

static inline unsigned long mt_cell_to_slot(u64 version, u32 len)
{
	return version << 4 | (len + 2 + 2 * (len > 5));
}

static inline u32 mt_cell_len(unsigned long slot)
{
	u32 code = slot & 15;

	return code - 2 - 2 * (code > 7);
}

static inline u64 mt_cell_version(unsigned long slot)
{
	return slot >> 4;
}

/* The slot for a value; for a cell, also sets @data. */
static inline unsigned long mt_value_to_slot(struct kvt_value *value, u64 *data)
{
	if (!kvt_value_is_cell(value))
		return (unsigned long)value;
	*data = kvt_cell_data(value);
	if (unlikely(!kvt_value_plain(value)))
		return value->version << 4 | MT_SLOT_EMPTY;
	return mt_cell_to_slot(value->version, value->size - sizeof(*value));
}

static inline struct mt_node *mt_slot_to_layer(unsigned long slot)
{
	return (struct mt_node *)(slot & ~MT_SLOT_LAYER);
}

static inline struct kvt_value *mt_slot_value(unsigned long slot)
{
	return (struct kvt_value *)slot;
}

/* Prefetch the value in a slot, of a key of this length, or the beginning of the layer's root. */
static __always_inline void mt_prefetch_slot(unsigned long slot, u32 key_len)
{
	if (!mt_slot_is_cell(slot))
		kvt_value_prefetch((void *)(slot & ~MT_SLOT_LAYER), key_len);
}

/* Make a cell from its slot and its data. */
static __always_inline struct kvt_value *mt_slot_cell(unsigned long slot, u64 data, u32 key_len,
						      struct kvt_cell *cell)
{
	if (unlikely((slot & 15) == MT_SLOT_EMPTY))
		return kvt_cell_init_empty(cell, key_len, mt_cell_version(slot));
	return kvt_cell_init(cell, key_len, mt_cell_len(slot), mt_cell_version(slot), data);
}

/* The value in a slot, which holds no layer.  A cell is copied, with its data. */
static __always_inline struct kvt_value *mt_slot_take(unsigned long slot, u64 data, u32 key_len,
						      struct kvt_cell *cell)
{
	if (mt_slot_is_cell(slot))
		return mt_slot_cell(slot, data, key_len, cell);
	return mt_slot_value(slot);
}

static inline unsigned long mt_layer_to_slot(struct mt_node *root)
{
	return (unsigned long)root | MT_SLOT_LAYER;
}

/*
 * node->above is the parent; or, with this bit, for a layer's root, the leaf of the layer
 * above that holds it (NULL for the first layer's root).
 */
#define MT_ROOT		1ul

/* Reads of the node above depend on this load: it was initialized before it was stored here. */
static inline unsigned long mt_above(const struct mt_node *node)
{
	return (unsigned long)READ_ONCE(node->above);
}

static inline bool mt_is_root(const struct mt_node *node)
{
	return mt_above(node) & MT_ROOT;
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

static inline bool mt_has_cells(const struct mt_leaf *leaf)
{
	return !!(READ_ONCE(leaf->node.version) & MT_CELLS);
}

static inline size_t mt_leaf_bytes(bool cells)
{
	return sizeof(struct mt_leaf) + (cells ? MT_CELLS_BYTES : 0);
}

/*
 * Prefetch all lines of a node, leaf or not, with cells or not, at once (EuroSys 2012, section
 * 4.2).  GCC would treat a function that only prefetches as empty, and drop its calls.
 */
static __always_inline void mt_prefetch(const void *node, bool leaf, bool cells)
{
	const char *p = node;
	unsigned int i;

	for (i = 0; i < sizeof(struct mt_inner); i += 64)
		prefetch(p + i);
	static_assert(sizeof(struct mt_leaf) == sizeof(struct mt_inner) + 64);
	if (leaf)
		prefetch(p + i);
	if (leaf && cells) {
		prefetch(p + sizeof(struct mt_leaf));
		prefetch(p + sizeof(struct mt_leaf) + 64);
	}
}

/* Slices: eight bytes of key, big-endian, padded with zeros. */

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
 * Permutation (section 4.6.2): all slot numbers, first those of the keys in order, then
 * the free ones.  The paper counts the keys in the low four bits, and has room for
 * fifteen numbers.  But the other fifteen determine the sixteenth, and no leaf with keys
 * has the number 0 twice.  So 0 is the empty leaf, the low bits are the number of keys
 * minus one, and above them are all slot numbers but the last.
 */

#define MT_PERM_EMPTY	0ull

/* All slot numbers, the first one lowest, while no slot is used. */
#define MT_ORDER_EMPTY	0xfedcba9876543210ull

static inline unsigned int mt_perm_size(u64 perm)
{
	return (perm & 15) + !!perm;
}

/* All slot numbers, the first one lowest. */
static inline u64 mt_perm_order(u64 perm)
{
	u64 order = perm >> 4, last = order;

	/* The xor of all sixteen four-bit numbers is 0. */
	last ^= last >> 32;
	last ^= last >> 16;
	last ^= last >> 8;
	last ^= last >> 4;
	return perm ? order | last << 60 : MT_ORDER_EMPTY;
}

static inline u64 mt_perm_make(u64 order, unsigned int size)
{
	return size ? order << 4 | (size - 1) : MT_PERM_EMPTY;
}

static inline unsigned int mt_perm_slot(u64 perm, unsigned int i)
{
	return (mt_perm_order(perm) >> 4 * i) & 15;
}

/* Whether a slot belongs to a key. */
static inline bool mt_perm_has(u64 perm, unsigned int slot)
{
	const u64 ones = 0x111111111111111ull;
	u64 x = (perm >> 4) ^ slot * ones;

	/* The slot's nibble in x is 0; if none is, the slot is the last one. */
	return __ffs64(((x - ones) & ~x & ones << 3) | BIT_ULL(63)) < 4 * mt_perm_size(perm);
}

/* Position @i gets the first free slot, which is mt_perm_slot(perm, size). */
static inline u64 mt_perm_insert(u64 perm, unsigned int i)
{
	unsigned int size = mt_perm_size(perm);
	u64 order = mt_perm_order(perm);
	u64 slot = (order >> 4 * size) & 15;
	u64 below = BIT_ULL(4 * i) - 1;
	u64 live = GENMASK_ULL(4 * size + 3, 0);
	/* Slots i..size-1 move up by one; the one at size is cut off. */
	u64 moved = ((order & live & ~below) << 4) & live;

	return mt_perm_make((order & ~live) | moved | (slot << 4 * i) | (order & below), size + 1);
}

/* The slot at position @i becomes the last free one, if keys are left. */
static inline u64 mt_perm_remove(u64 perm, unsigned int i)
{
	u64 order = mt_perm_order(perm);
	u64 slot = (order >> 4 * i) & 15;
	u64 below = BIT_ULL(4 * i) - 1;

	return mt_perm_make((order >> 4 & ~below) | slot << 60 | (order & below),
			    mt_perm_size(perm) - 1);
}

/* Version word */

/* Whether the node has changed since @v was read.  Pairs with mt_mark(), mt_unlock(). */
static inline bool mt_changed(const struct mt_node *node, u64 v)
{
	smp_rmb();	/* read the node before its version again */
	return (READ_ONCE(node->version) ^ v) & ~MT_LOCK;
}

/* Readers must not use the node until it is unlocked.  Lock holder only. */
static inline void mt_mark(struct mt_node *node, u64 dirty)
{
	WRITE_ONCE(node->version, READ_ONCE(node->version) | dirty);
	smp_wmb();	/* the mark, before any change; pairs with mt_changed() */
}

/* The node is no longer part of the tree.  Lock holder only. */
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
 *	-> the leaf of the upper layer that holds this layer's root
 *
 * New nodes are created locked (subclass MT_SUB_NEW), without waiting.
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

/* Without a class, lockdep is not told: a stem has more locks than it can count (stem.c). */
#ifdef CONFIG_DEBUG_LOCK_ALLOC
static inline void mt_lock_acquired(struct mt_lock_class *class, unsigned int sub, bool try)
{
	if (class)
		lock_acquire_exclusive(&class->map, sub, try, NULL, _RET_IP_);
}

static inline void mt_lock_released(struct mt_lock_class *class)
{
	if (class)
		lock_release(&class->map, _RET_IP_);
}
#else
static inline void mt_lock_acquired(struct mt_lock_class *class, unsigned int sub, bool try) { }
static inline void mt_lock_released(struct mt_lock_class *class) { }
#endif

/*
 * Publishing, and reading what is published.  A thread that sees a permutation, a slot, a
 * number of keys, a link or a root also sees what was written before it was set.
 */

static inline u64 mt_leaf_perm(const struct mt_leaf *leaf)
{
	return smp_load_acquire(&leaf->perm);	/* pairs with mt_leaf_set_perm() */
}

static inline unsigned long mt_leaf_slot(const struct mt_leaf *leaf, unsigned int n)
{
	return smp_load_acquire(&leaf->slot[n]);	/* pairs with mt_leaf_set_slot() */
}

/* 0..8: the bytes of the slice that are the key's; or MT_RANK_LONG. */
static inline u32 mt_leaf_rank(const struct mt_leaf *leaf, unsigned int n)
{
	return (READ_ONCE(leaf->ranks) >> 4 * n) & 15;
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

/*
 * Replace the value in a slot by a cell, while others may read it.  A reader that gets the new
 * data and then reads the slot again finds it busy, or with a higher version.  Pairs with
 * mt_cell_changed().
 */
static inline void mt_leaf_set_cell(struct mt_leaf *leaf, unsigned int n, unsigned long slot,
				    u64 data)
{
	WRITE_ONCE(leaf->slot[n], MT_SLOT_BUSY);
	smp_wmb();	/* busy, before any data */
	kvt_park(KVT_PARK_CELL_BUSY);
	WRITE_ONCE(leaf->data[n], data);
	kvt_park(KVT_PARK_CELL_WRITTEN);
	mt_leaf_set_slot(leaf, n, slot);
}

/* The data of a slot, if it is a cell's.  For readers, which have not locked the leaf. */
static __always_inline u64 mt_leaf_data(const struct mt_leaf *leaf, unsigned int n,
					unsigned long slot)
{
	if (!mt_slot_is_cell(slot))
		return 0;
	kvt_park_loose(KVT_PARK_READ_DATA);
	return READ_ONCE(leaf->data[n]);
}

/*
 * Whether a cell is being written, or has been since @slot was read.  To be called after the data
 * are read, and before mt_changed(): if another key has got the slot, with the same version and
 * length, only the leaf's version tells.
 */
static __always_inline bool mt_cell_changed(const struct mt_leaf *leaf, unsigned int n,
					    unsigned long slot)
{
	if (!mt_slot_is_cell(slot))
		return false;
	smp_rmb();	/* the data before the slot again; pairs with mt_leaf_set_cell() */
	return unlikely(slot == MT_SLOT_BUSY || READ_ONCE(leaf->slot[n]) != slot);
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
	/* Pairs with mt_ahead_parent(), which reads the parent that it finds here. */
	smp_store_release(&node->above, (void *)parent);
}

/* This leaf's slot now holds the layer's root. */
static inline void mt_set_up(struct mt_node *root, struct mt_leaf *up)
{
	WRITE_ONCE(root->above, (void *)((unsigned long)up | MT_ROOT));
}

/* Put a node below the same parent as another, or make it the root of the same layer. */
static inline void mt_set_beside(struct mt_node *node, const struct mt_node *other)
{
	WRITE_ONCE(node->above, READ_ONCE(other->above));
}

/* Write a slot that is in no permutation that may still be read. */
static inline void mt_leaf_fill(struct mt_leaf *leaf, unsigned int n, u64 slice, u32 rank,
				unsigned long slot, u64 data)
{
	u64 others = leaf->ranks & ~(15ull << 4 * n);

	if (mt_slot_is_cell(slot))
		WRITE_ONCE(leaf->data[n], data);
	WRITE_ONCE(leaf->slice[n], slice);
	WRITE_ONCE(leaf->ranks, others | (u64)rank << 4 * n);
	mt_leaf_set_slot(leaf, n, slot);
}

bool mt_lock(struct mt_node *node, struct mt_lock_class *class, unsigned int sub);
void mt_unlock(struct mt_node *node, struct mt_lock_class *class);
struct mt_inner *mt_lock_parent(struct mt_node *node, bool tell);
struct mt_leaf *mt_lock_up(struct mt_node *root, bool tell, unsigned int *slot);

/**
 * mt_inner_search() - find the child that covers a slice
 * @inner: the node
 * @nkeys: its number of keys
 * @slice: the slice
 *
 * Three keys divide the others into four groups, of which one is searched.  There are always two
 * rounds of three independent comparisons and no branch, since a branch would be unpredictable.
 * Unused keys are greater than all others.
 *
 * Return: the number of keys that are not greater than @slice.
 */
static inline unsigned int mt_inner_search(const struct mt_inner *inner, unsigned int nkeys,
					   u64 slice)
{
	unsigned int at;

	static_assert(MT_INNER_WIDTH == 2 + 3 * (1 + 3));
	at = slice >= READ_ONCE(inner->slice[2]);
	at += slice >= READ_ONCE(inner->slice[6]);
	at += slice >= READ_ONCE(inner->slice[10]);
	/* The first group has two keys, and the one after it is greater. */
	at = 4 * at - !!at;
	at += (slice >= READ_ONCE(inner->slice[at])) + (slice >= READ_ONCE(inner->slice[at + 1])) +
	      (slice >= READ_ONCE(inner->slice[at + 2]));
	/* ~0 may also be a slice. */
	return min(at, nkeys);
}

/**
 * mt_leaf_find() - look for a key in a leaf
 * @leaf: the leaf
 * @perm: its permutation
 * @slice: slice of the key
 * @rank: mt_rank() of the key
 *
 * Walks the slots, not the permutation: there is less to compute, and the addresses do
 * not depend on what is read.
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
		/* It may belong to another key, or to one that was removed. */
		if (mt_leaf_rank(leaf, n) == rank && mt_perm_has(perm, n))
			return n;
	}
	return -1;
}

#endif /* KVT_MT_NODE_H */
