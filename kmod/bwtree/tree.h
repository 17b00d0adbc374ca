/* SPDX-License-Identifier: GPL-2.0 */
/* What the files of the Bw-tree engine share.  bwtree.c has the protocol. */
#ifndef KVT_BWTREE_TREE_H
#define KVT_BWTREE_TREE_H

#include <linux/atomic.h>
#include <linux/bitmap.h>
#include <linux/bitops.h>
#include <linux/bits.h>
#include <linux/bottom_half.h>
#include <linux/llist.h>
#include <linux/minmax.h>
#include <linux/preempt.h>
#include <linux/rcupdate.h>
#include <linux/refcount.h>
#include <linux/string.h>
#include <linux/workqueue.h>

#include "ahead.h"
#include "base/index.h"
#include "base/park.h"
#include "base/quota.h"
#include "base/reclaim.h"
#include "base/stats.h"
#include "base/value.h"
#include "page.h"

/* How many pages a reader visits before it gives up. */
#define BW_READ_BUDGET	1024

/* The root's id never changes, only its page. */
#define BW_ROOT		0u

/*
 * The mapping table: a tree of three levels, all of them arrays of BW_FAN, that grows at
 * its end.  An entry is a page's newest record, or 0.  An entry with BW_FREE has no page: it
 * holds the next free id or, while readers may still use this id, the record that removed
 * the page.
 */
#define BW_FAN_SHIFT	10
#define BW_FAN		1024u		/* 2 to the BW_FAN_SHIFT */
#define BW_IDS_MAX	(BW_FAN * BW_FAN * BW_FAN)
#define BW_FREE		BIT(0)

struct bw_leaves {
	unsigned long entry[BW_FAN];
};

struct bw_twigs {
	struct bw_leaves *leaves[BW_FAN];
};

/* This many ids share a bit that has the worker look at them; many more in large trees. */
#define BW_TOUCH_IDS	256u
#define BW_TOUCH_BITS	16384u

struct bw_map {
	refcount_t refs;		/* the tree, and ids that wait for a grace period */
	u32 limit;			/* ids that may be in use; less only in tests */
	atomic_t next;			/* the lowest id never used */
	atomic64_t free;		/* list: number of changes << 32 | first id */
	struct bw_twigs *twigs[BW_FAN];
	/* Ids of pages that the worker should look at: see bw_touch(). */
	DECLARE_BITMAP(touched, BW_TOUCH_BITS);
};

struct bw_tree {
	struct kvt_index index;
	struct bw_map *map;
	u32 page_size;			/* bytes of content at which a page splits */
	atomic64_t map_bytes;		/* charged for the mapping table */
	/* A worker consolidates pages that do not change any more: see tidy.c. */
	bool busy;			/* there were changes since its last round */
	bool asleep;			/* it is not queued */
	bool ending;			/* its round must end at once */
	u8 round;
	u8 delays;			/* consecutive rounds ended by lack of memory */
	u32 resume;			/* where the next one begins */
	struct delayed_work work;
};

static inline struct bw_tree *bw_tree(struct kvt_index *index)
{
	return container_of(index, struct bw_tree, index);
}

static inline void bw_stat(struct bw_tree *tree, enum kvtree_stat id)
{
	kvt_stat_inc(tree->index.env.stats, id);
}

/* The engine's own counters: see bw_stats in bwtree.c. */
enum bw_nr {
	/* Exchanges of an entry by kind, each followed by those that lost. */
	BW_NR_UPDATE,
	BW_NR_UPDATE_FAIL,
	BW_NR_CONSOLIDATE,
	BW_NR_CONSOLIDATE_FAIL,
	BW_NR_SPLIT,
	BW_NR_SPLIT_FAIL,
	BW_NR_POST,
	BW_NR_POST_FAIL,
	BW_NR_MERGE,			/* steps of merges, and of the root's collapse */
	BW_NR_MERGE_FAIL,
	BW_NR_CHAIN_RECORDS,
	/* Pages with chains of 1 record, 2 or 3, 4 to 7, 8 to 15, more. */
	BW_NR_CHAINS,
	BW_NR_CHAINS_LAST = BW_NR_CHAINS + 4,
	BW_NR_FOLDED_RECORDS,
	BW_NR_RECORD_BYTES,
	BW_NR_MAP_BYTES,
	BW_NRS
};

#define BW_CHAIN_CLASSES	(BW_NR_CHAINS_LAST - BW_NR_CHAINS + 1)

static inline void bw_nr_add(const struct bw_tree *tree, enum bw_nr nr, s64 n)
{
	kvt_stat_add(tree->index.env.stats, KVT_STAT_ENGINE + nr, n);
}

/* pagemap.c */
struct bw_map *bw_map_new(void);
void bw_map_put(struct bw_map *map);
int bw_id_alloc(struct bw_tree *tree, gfp_t gfp, u32 *id);
void bw_id_free(struct bw_map *map, u32 id);

static inline unsigned long *bw_map_entry(const struct bw_map *map, u32 id)
{
	struct bw_leaves *leaves;
	struct bw_twigs *twigs;

	/* Pairs with bw_map_piece(). */
	twigs = smp_load_acquire(&map->twigs[id >> (2 * BW_FAN_SHIFT)]);
	/* Pairs with bw_map_piece(). */
	leaves = smp_load_acquire(&twigs->leaves[(id >> BW_FAN_SHIFT) & (BW_FAN - 1)]);
	return &leaves->entry[id & (BW_FAN - 1)];
}

/* The newest record of a page to which a link was just found. */
static inline struct bw_rec *bw_load(const struct bw_tree *tree, u32 id)
{
	/* Pairs with bw_swap() and bw_publish(). */
	return (struct bw_rec *)(smp_load_acquire(bw_map_entry(tree->map, id)) & ~BW_FREE);
}

/* As bw_load(), but for any id; NULL: it has no page. */
static inline struct bw_rec *bw_load_any(const struct bw_tree *tree, u32 id)
{
	unsigned long entry;

	/* Pairs with bw_swap() and bw_publish(). */
	entry = smp_load_acquire(bw_map_entry(tree->map, id));
	return entry & BW_FREE ? NULL : (struct bw_rec *)entry;
}

static inline unsigned int bw_touch_bit(u32 id)
{
	return id / BW_TOUCH_IDS % BW_TOUCH_BITS;
}

/* Have the worker look at a page in its next round. */
static inline void bw_touch(struct bw_map *map, u32 id)
{
	unsigned int bit = bw_touch_bit(id);

	/* Read after the exchange of the page, a full barrier: pairs with bw_care_begin(). */
	if (!test_bit(bit, map->touched))
		set_bit(bit, map->touched);
}

/* memory.c */
void bw_count_record(const struct bw_tree *tree, const struct bw_rec *rec, int sign);

/* Count a page's chain, which had @from records, as one of @to. */
static inline void bw_count_chain(const struct bw_tree *tree, unsigned int from, unsigned int to)
{
	int was = min_t(int, fls(from), BW_CHAIN_CLASSES);
	int is = min_t(int, fls(to), BW_CHAIN_CLASSES);

	bw_nr_add(tree, BW_NR_CHAIN_RECORDS, (int)to - (int)from);
	if (was == is)
		return;
	if (was)
		bw_nr_add(tree, BW_NR_CHAINS + was - 1, -1);
	if (is)
		bw_nr_add(tree, BW_NR_CHAINS + is - 1, 1);
}

/* Put a page in the table, to which nothing leads yet. */
static inline void bw_publish(const struct bw_tree *tree, u32 id, struct bw_rec *rec)
{
	/* Pairs with bw_load(). */
	smp_store_release(bw_map_entry(tree->map, id), (unsigned long)rec);
}

/* charge.c */
int bw_charge(struct bw_tree *tree, u8 level, s64 bytes);
void bw_uncharge(struct bw_tree *tree, u8 level, s64 bytes);

/* memory.c */
void *bw_mem_alloc(size_t size, gfp_t gfp);
void bw_mem_free(void *obj);
u32 bw_mem_size(const void *obj);
u32 bw_mem_room(const void *obj);
int bw_charge_obj(struct bw_tree *tree, u8 level, void *obj);
void bw_uncharge_obj(struct bw_tree *tree, u8 level, void *obj);
int bw_charge_instead(struct bw_tree *tree, u8 level, void *obj, u32 had, bool pass);
void bw_uncharge_instead(struct bw_tree *tree, u8 level, void *obj, u32 had);
u32 bw_charged(const void *obj);
s64 bw_chain_bytes(const struct bw_rec *rec);
void bw_mem_retire(struct bw_tree *tree, void *obj);
void bw_chain_retire(struct bw_tree *tree, struct bw_rec *rec);
void bw_chain_free(struct bw_tree *tree, struct bw_rec *rec);
void bw_remove_retire(struct bw_tree *tree, struct bw_remove *remove);
void bw_memory_register(struct bw_tree *tree);
void bw_count_page(struct bw_tree *tree, u8 level, int nr);

/* stock.c */

/*
 * Memory that a step of a change of structure may need, allocated before it begins.
 * The step takes what it publishes, and reports what is missing by @want and -ENOMEM.
 */
enum bw_slot {
	/* Base pages. */
	BW_SLOT_PAGE,		/* replaces a page's chain */
	BW_SLOT_LOWER,		/* a new page with the root's lower entries, ... */
	BW_SLOT_UPPER,		/* ... with the upper entries of the root or another page */
	/* Records. */
	BW_SLOT_SPLIT,
	BW_SLOT_TERM,		/* for the parent */
	BW_SLOT_REMOVE,
	BW_SLOT_MERGE,
	/* Keys. */
	BW_SLOT_SEP,		/* where the root is split */
	BW_SLOT_NEXT,		/* of the step that must be done before this one */
	BW_SLOT_OWN,		/* of this step, if another one requested it */
	BW_SLOTS
};

#define BW_STOCK_IDS	2

struct bw_stock {
	gfp_t gfp;
	bool pass;		/* ignore the limit, as the tree does not grow */
	u32 want[BW_SLOTS];	/* bytes */
	u8 want_ids;
	u8 nr_ids;
	u32 id[BW_STOCK_IDS];
	void *obj[BW_SLOTS];
};

void *bw_stock_get(struct bw_stock *stock, enum bw_slot slot, u32 size);
void *bw_stock_take(struct bw_stock *stock, enum bw_slot slot);
void bw_stock_move(struct bw_stock *to, enum bw_slot to_slot, struct bw_stock *from,
		   enum bw_slot from_slot);
void bw_stock_take_ids(struct bw_stock *stock, u8 nr);
bool bw_stock_has_ids(struct bw_stock *stock, u8 nr);
int bw_stock_fill(struct bw_tree *tree, struct bw_stock *stock);
void bw_stock_drop(struct bw_tree *tree, struct bw_stock *stock);

/* find.c */

/* What a writer must do before it can continue. */
enum bw_help_kind {
	BW_HELP_NONE,
	BW_HELP_POST,		/* a page at level is not known to its parent */
	BW_HELP_FINISH,		/* the removal of a page at level has begun */
	BW_HELP_COLLAPSE,	/* the root should be replaced by its only child */
	BW_HELP_TIDY,		/* the page id is too long */
	BW_HELP_FOLD,		/* a page at level should be merged with a neighbour */
};

struct bw_help {
	enum bw_help_kind kind;
	u8 level;
	bool keeps;		/* tidy: a waiting record adds no entry */
	u32 space;		/* tidy: bytes to leave for records, or 0 for the default */
	u32 id;
	struct bw_want want;
};

/* A page that was found, and its newest record. */
struct bw_at {
	u32 id;
	struct bw_rec *top;
	/* @top is valid as long as this entry has not changed. */
	u32 guard_id;
	struct bw_rec *guard;
	/* The page from which the search descended to it, or NULL. */
	u32 above_id;
	struct bw_rec *above;
	struct bw_help help;	/* seeking for a writer: what it must do first */
};

#define BW_NEEDS_HELP	1	/* bw_seek(), and steps: see bw_help */

/* lookup.c */
struct kvt_value *bw_get(struct kvt_index *index, const struct kvt_key *key,
			 struct kvt_cell *cell);
void bw_get_batch(struct kvt_index *index, struct kvt_lookup *lookups, struct kvt_cell *cells,
		  unsigned int nr);

/* prefix.c */
struct kvt_value *bw_get_prefix(struct kvt_index *index, const struct kvt_key *key,
				struct kvt_cell *cell);

static inline int bw_help_tidy(struct bw_help *help, u32 id)
{
	*help = (struct bw_help) { .kind = BW_HELP_TIDY, .id = id };
	return BW_NEEDS_HELP;
}

/* What finishes the removal of a page to which @want leads. */
static inline struct bw_help bw_help_removal(const struct bw_rec *remove,
					     const struct bw_want *want)
{
	return (struct bw_help) {
		.kind = bw_remove(remove)->left == BW_ROOT ? BW_HELP_COLLAPSE : BW_HELP_FINISH,
		.level = remove->level,
		.want = *want,
	};
}

/* step.c */
int bw_request(struct bw_stock *stock, struct bw_help *help, const struct bw_help *first);
int bw_help_finish(struct bw_stock *stock, struct bw_help *help, const struct bw_rec *top);
int bw_step_seek(struct bw_tree *tree, struct bw_stock *stock, struct bw_help *help, u8 level,
		 struct bw_at *at);
struct bw_frame bw_frame_of(const struct bw_rec *top);
int bw_replace(struct bw_tree *tree, u32 id, struct bw_rec *old, struct bw_page *new, bool pass,
	       enum bw_nr nr);
u32 bw_term_size(u32 key, const struct bw_ent *from, const struct bw_ent *to);
struct bw_term *bw_term_fill(void *obj, enum bw_kind kind, struct bw_rec *top, u32 child,
			     const struct bw_want *key, const struct bw_ent *from,
			     const struct bw_ent *to);

/* split.c */
int bw_tidy_step(struct bw_tree *tree, struct bw_stock *stock, struct bw_help *help);
int bw_extend(struct bw_tree *tree, struct bw_stock *stock, struct bw_help *help,
	      struct bw_rec *top, struct bw_walk *walk, const struct bw_sum *sum);
int bw_split_off(struct bw_tree *tree, struct bw_stock *stock, struct bw_help *help,
		 struct bw_rec *top, struct bw_walk *walk, unsigned int m, unsigned int nr,
		 bool *done);
int bw_post_step(struct bw_tree *tree, struct bw_stock *stock, struct bw_help *help);

/* fold.c */
int bw_finish_step(struct bw_tree *tree, struct bw_stock *stock, struct bw_help *help);
int bw_collapse_step(struct bw_tree *tree, struct bw_stock *stock, struct bw_help *help);
int bw_mark_step(struct bw_tree *tree, struct bw_stock *stock, struct bw_help *help);

/* help.c */
typedef int (*bw_step_fn)(struct bw_tree *tree, struct bw_stock *stock, struct bw_help *help);

int bw_run(struct bw_tree *tree, bw_step_fn fn, struct bw_help *help, struct bw_stock *stock);
int bw_do_help(struct bw_tree *tree, const struct bw_help *help, gfp_t gfp);
int bw_clear_way(struct bw_tree *tree, const struct bw_want *want, u8 level, gfp_t gfp);
int bw_tidy(struct bw_tree *tree, u32 id, u32 space, bool keeps, gfp_t gfp);
int bw_fold(struct bw_tree *tree, const struct bw_want *want, u8 level, gfp_t gfp);

/* Whether a page is short enough to be merged with a neighbour. */
static inline bool bw_is_underfull(const struct bw_tree *tree, const struct bw_rec *top)
{
	return top->nr <= 1 || top->bytes < tree->page_size / 4;
}

void bw_tidy_init(struct bw_tree *tree);
void bw_tidy_exit(struct bw_tree *tree);
void bw_sweep(struct kvt_index *index);

/* change.c */
int bw_begin(struct kvt_change *change);
int bw_commit(struct kvt_change *change, struct kvt_value *value);
void bw_abort(struct kvt_change *change);
void bw_finish(struct kvt_change *change);

/* sorted.c */
unsigned int bw_insert_sorted(struct kvt_index *index, const struct kvt_insert *inserts,
			      unsigned int nr, gfp_t gfp);

/* iter.c */
struct bw_iter {
	struct kvt_iter iter;
	bool ready;			/* the following is valid in this RCU read section */
	u8 at_delta;			/* of the deltas, as @at of the base */
	u16 at;				/* of the base: forward the next, backward after it */
	u16 run;			/* forward: up to here no delta comes between */
	const unsigned long *entry;	/* entry of the page, to detect changes, ... */
	unsigned long seen;		/* ... and its value then */
	const unsigned long *right;	/* of the next page forward, or NULL */
	struct bw_ahead ahead;
	struct bw_part part;
};

int bw_iter_next(struct kvt_iter *iter, struct kvt_pair *pairs, unsigned int max);
void bw_iter_rest(struct kvt_iter *iter);

#endif /* KVT_BWTREE_TREE_H */
