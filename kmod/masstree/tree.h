/* SPDX-License-Identifier: GPL-2.0 */
/* The parts of the Masstree engine, for each other.  See masstree.c. */
#ifndef KVT_MASSTREE_TREE_H
#define KVT_MASSTREE_TREE_H

#include <linux/bitmap.h>
#include <linux/bottom_half.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/preempt.h>
#include <linux/rcupdate.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/workqueue.h>

#include "base/index.h"
#include "base/park.h"
#include "base/quota.h"
#include "base/reclaim.h"
#include "base/stats.h"
#include "node.h"

/* How often a reader waits or retries before it gives up. */
#define MT_READ_BUDGET	1024

/* Limit on queued checks of layers: 16384 of short keys, 64 of the longest. */
#define MT_CHECK_BYTES	(512 << 10)

/* Bytes of the keys that bound a sweep. */
#define MT_SWEEP_KEY	32u

/* Keys among which the worker sweeps for thin layers. */
struct mt_range {
	u32 from_len;
	u32 to_len;
	u8 from[MT_SWEEP_KEY];
	u8 to[MT_SWEEP_KEY];		/* and what begins with it, if it is as long as this */
};

struct mt_table;

struct mt_tree {
	struct kvt_index index;
	/* What lookups read. */
	struct mt_node *root;		/* of the first layer */
	struct mt_table *table;		/* that leads into it, or NULL: see table.c */
	bool cells[2];			/* there have been cells in the first layer, in others */
	/* Bit n: there has been a key of n bytes, at most a slice. */
	unsigned long short_lens;

	/* Layers to sweep for: see layer.c. */
	struct mt_range sweep;
	spinlock_t sweep_lock;		/* of @sweep_needed and @sweep */
	bool sweep_needed;
	bool ending;			/* the worker must end at once */
	unsigned long sweep_due;	/* not before, in jiffies; the worker's */
	/* Layers that a worker should check. */
	struct llist_head checks;
	atomic_t check_bytes;		/* that they take, at most MT_CHECK_BYTES */
	struct delayed_work check_work;

	/* Tables: see table.c. */
	struct mutex table_lock;	/* serializes makers */
	struct mt_table *table_made;	/* the last one */
	bool tabling;			/* there is one, or one is being made */
	int table_enough;		/* make another after this many changes ... */
	atomic_t table_changes;		/* ... of inner nodes, since it was begun */
	raw_spinlock_t table_swap;	/* of @table and @table_turns */
	unsigned int table_turns;	/* of numbers, since it was begun */
	struct llist_head graves;	/* deleted nodes to which it may lead */
	unsigned long table_due;	/* not before, in jiffies */
	unsigned int table_rest;	/* how many times as long as it took; the worker's */
	struct delayed_work table_work;
};

static inline struct mt_tree *mt_tree(struct kvt_index *index)
{
	return container_of(index, struct mt_tree, index);
}

static inline struct mt_node *mt_root(const struct mt_tree *tree)
{
	return smp_load_acquire(&tree->root);	/* pairs with mt_set_root() */
}

static inline void mt_set_root(struct mt_tree *tree, struct mt_node *root)
{
	smp_store_release(&tree->root, root);	/* pairs with mt_root() */
}

static inline void mt_stat(struct mt_tree *tree, enum kvtree_stat id)
{
	kvt_stat_inc(tree->index.env.stats, id);
}

/* Calls of mt_hold() by this CPU's thread: not 0 if it holds nodes, or is about to. */
DECLARE_PER_CPU(unsigned int, mt_held);

/*
 * Node locks are held with bottom halves and preemption off, in that order.  Interrupts that
 * come on top only read the count.
 */
static inline void mt_hold(void)
{
	local_bh_disable();
	preempt_disable();
	__this_cpu_inc(mt_held);
}

static inline void mt_release(void)
{
	__this_cpu_dec(mt_held);
	preempt_enable();
	local_bh_enable();
}

/*
 * Whether this reader has interrupted a thread that holds nodes, and that cannot continue before
 * the reader ends.  A holder has preemption off, so a reader finds only the count of a thread
 * that it has interrupted.
 */
static inline bool mt_on_top(void)
{
	return this_cpu_read(mt_held);
}

/* Whether a value is the key's.  The nodes have compared the first @at bytes. */
static inline bool mt_same_tail(const struct kvt_value *value, const u8 *key, u32 len, u32 at)
{
	return value->key_len == len && !memcmp(kvt_value_suffix(value, at), key + at, len - at);
}

/* Whether a key is in the layer at @off, to which another one belongs. */
static inline bool mt_same_layer(const struct kvt_key *key, const struct kvt_key *other, u32 off)
{
	return !off || (key->len > off && !memcmp(key->data, other->data, off));
}

/* Whether a locked leaf covers a slice that is not before its first key's. */
static inline bool mt_leaf_covers(const struct mt_leaf *leaf, u64 slice)
{
	const struct mt_leaf *next = leaf->next;

	return !next || slice < READ_ONCE(next->lowkey);
}

/* Note the length of a key of one slice before readers can find the key: see prefix.c. */
static inline void mt_note_length(struct mt_tree *tree, const struct kvt_key *key)
{
	if (key->len <= MT_SLICE && !test_bit(key->len, &tree->short_lens))
		set_bit(key->len, &tree->short_lens);
}

/* Note that there is a cell in the layer at @off before readers can find it. */
static inline void mt_note_cell(struct mt_tree *tree, const struct kvt_value *value, u32 off)
{
	if (kvt_value_is_cell(value) && unlikely(!READ_ONCE(tree->cells[!!off])))
		WRITE_ONCE(tree->cells[!!off], true);
}

/* node.c */
int mt_node_init(void);
void mt_node_exit(void);
struct mt_leaf *mt_leaf_alloc(struct mt_tree *tree, bool cells, gfp_t gfp, int *err);
struct mt_inner *mt_inner_alloc(struct mt_tree *tree, gfp_t gfp, int *err);
void mt_leaf_free(struct mt_tree *tree, struct mt_leaf *leaf);
void mt_inner_free(struct mt_tree *tree, struct mt_inner *inner);
void mt_leaf_retire(struct mt_tree *tree, struct mt_leaf *leaf);
void mt_inner_retire(struct mt_tree *tree, struct mt_inner *inner);
void mt_inner_exhume(struct mt_tree *tree, struct mt_inner *inner);
void mt_node_register(struct mt_tree *tree);

/* find.c */

/*
 * A lookup that handles changes: it waits, continues, or gives up when its budget is spent.
 */
struct mt_probe {
	struct mt_tree *tree;
	const u8 *key;
	u32 len;
	u32 off;			/* of the layer */
	u64 slice;			/* at off */
	struct mt_node *root;		/* of the layer, when it was entered */
	struct mt_node *node;		/* next to be read; at the end the leaf */
	u64 version;			/* at the end the leaf's, when it covered the slice */
	struct mt_inner *above;		/* where node was found, NULL where the lookup begins */
	u64 above_version;		/* or, without one, what the table says of node */
	const struct mt_table *table;	/* which says that */
	bool place;			/* only its place is wanted */
	struct kvt_value *value;	/* at the end the result */
	struct kvt_cell *cell;		/* where that is if it has no block */
	u32 budget;
	u32 retries;
	u32 restarts;
};

void mt_probe_prepare(struct mt_probe *probe, struct mt_tree *tree, const struct kvt_key *key);
void mt_probe_find(struct mt_probe *probe, struct mt_tree *tree, const struct kvt_key *key,
		   struct kvt_cell *cell);
void mt_probe_place(struct mt_probe *probe, struct mt_tree *tree, const struct kvt_key *key);
void mt_probe_end(struct mt_probe *probe);
struct mt_leaf *mt_probe_descend(struct mt_probe *probe, struct mt_node *root, u32 off,
				 u64 slice, u64 *version);

int mt_leaf_place(const struct mt_leaf *leaf, u64 perm, u64 slice, u32 rank, unsigned int *at);

struct mt_leaf *mt_lock_leaf(struct mt_tree *tree, struct mt_leaf *leaf, u64 version, u64 slice);
struct mt_node *mt_find_layer(struct mt_probe *probe, u32 off);

/* The child of an inner node that covers a slice; also prefetch it, perhaps a leaf with cells. */
static __always_inline struct mt_node *mt_inner_child(struct mt_inner *inner, u64 slice,
						      bool cells)
{
	unsigned int at = mt_inner_search(inner, mt_inner_nkeys(inner), slice);
	struct mt_node *child = READ_ONCE(inner->child[at]);

	mt_prefetch(child, inner->level == 1, cells);
	return child;
}

/* Whether leaves of a layer may have cells. */
static __always_inline bool mt_may_have_cells(const struct mt_tree *tree, u32 off)
{
	return READ_ONCE(tree->cells[!!off]);
}

/* lookup.c */
void mt_get_batch(struct kvt_index *index, struct kvt_lookup *lookups, struct kvt_cell *cells,
		  unsigned int nr);

/* change.c */
int mt_begin(struct kvt_change *change);
int mt_commit(struct kvt_change *change, struct kvt_value *value);
void mt_abort(struct kvt_change *change);
void mt_finish(struct kvt_change *change);

/* sorted.c */
unsigned int mt_insert_sorted(struct kvt_index *index, const struct kvt_insert *inserts,
			      unsigned int nr, gfp_t gfp);

/* unlink.c */

/* The outcome of unlinking an empty leaf. */
enum mt_unlinked {
	MT_UNLINK_NOTHING,		/* it is no longer empty, or was gone */
	MT_UNLINK_GONE,			/* it is out of its layer */
	MT_UNLINK_THIN,			/* the same, and the worker should check the layer */
	MT_UNLINK_LAST,			/* still there, since nothing else is in the layer */
};

enum mt_unlinked mt_unlink_leaf(struct mt_tree *tree, struct mt_leaf *leaf, u8 *gone);

/* stem.c */

/*
 * A leaf that is alone in its layer, and the layers above that lead only to it, all locked.
 */
struct mt_stem {
	struct mt_leaf *leaf;
	struct mt_node *root;		/* of the topmost of the layers */
	unsigned int layers;
	struct mt_leaf *top;		/* holds that root in @slot */
	unsigned int slot;
};

bool mt_stem_lock(struct mt_stem *stem, struct mt_leaf *leaf);
void mt_stem_remove(struct mt_stem *stem);
void mt_stem_collapse(struct mt_stem *stem, struct kvt_value *value);
void mt_stem_unlock(struct mt_stem *stem);
void mt_stem_retire(struct mt_tree *tree, const struct mt_stem *stem);

/* layer.c */
void mt_layer_init(struct mt_tree *tree);
void mt_layer_exit(struct mt_tree *tree);
void mt_layer_check_later(struct mt_tree *tree, const u8 *key, u32 off);
bool mt_layer_is_thin(const struct mt_node *root);
void mt_sweep(struct kvt_index *index);

/* An entry of a leaf, read while the leaf did not change. */
struct mt_entry {
	u64 slice;
	unsigned long slot;
	u64 data;			/* of a cell */
	u8 rank;
};

/* Where an iterator is in a layer. */
struct mt_spot {
	struct mt_leaf *leaf;
	u64 version;			/* the leaf's, when it was found */
	u64 perm;
	u64 order;			/* numbers of the slots that are left, the next lowest */
	u32 off;			/* of its layer */
	u8 left;			/* how many slots */
	bool compare;			/* the next one may come before the position by now */
};

/* ahead.c */

/* Layers whose values are prefetched after their roots. */
#define MT_AHEAD_BELOW	6

/* What is prefetched for an iterator that goes forward. */
struct mt_ahead {
	u32 off;			/* of the layer */
	u32 budget;			/* how many more values are worth it */
	u8 window;			/* of how many leaves to prefetch the values */
	u8 near;			/* of how many they were prefetched, after this leaf */
	u8 far;				/* how many more leaves were prefetched, after those */
	u8 child;			/* of @parent, to be prefetched next */
	u8 nr_below;			/* roots in @below */
	u16 leaf_bytes;			/* of a leaf like this one */
	struct mt_leaf *leaf;		/* its values are next, or NULL */
	struct mt_inner *parent;	/* its children are next, or NULL */
	struct mt_leaf *first;		/* its parent is next, or NULL */
	struct mt_node *below[MT_AHEAD_BELOW];	/* roots of layers; their values are next */
};

void mt_ahead_start(struct mt_ahead *ahead, const struct mt_spot *s);
void mt_ahead_stop(struct mt_ahead *ahead, u32 off);
void mt_ahead_turn(struct mt_ahead *ahead, const struct mt_spot *s);
void mt_ahead_rest(struct mt_ahead *ahead, u32 want);

/* iter.c */

/* As many as a key can lead through. */
#define MT_LAYERS	(KVTREE_KEY_MAX / MT_SLICE)
/* Spots that are kept of the layers on the way to the position. */
#define MT_ITER_SPOTS	8

struct mt_iter {
	struct kvt_iter iter;
	/* The rest is valid for one RCU read section. */
	struct mt_spot *now;		/* where the position is, or NULL */
	struct mt_ahead ahead;
	/* Layers above @now that may have entries left; the first layer always is one. */
	DECLARE_BITMAP(more, MT_LAYERS);
	struct mt_spot spot[MT_ITER_SPOTS];	/* see mt_iter_spot() */
};

struct kvt_value *mt_iter_step(struct mt_iter *it, bool sweeping, struct kvt_cell *cell);
int mt_iter_next(struct kvt_iter *iter, struct kvt_pair *pairs, unsigned int max);
void mt_iter_rest(struct kvt_iter *iter);

#endif /* KVT_MASSTREE_TREE_H */
