// SPDX-License-Identifier: GPL-2.0
/* Descent and lookups. */
#include <linux/err.h>

#include "bwtree.h"
#include "compat.h"

/* Lookups of a batch that are overlapped. */
#define BW_BATCH	16

/* Charge one page to a budget, which never falls below zero. */
static bool bw_spend(unsigned int *budget)
{
	if (!*budget)
		return false;
	--*budget;
	return true;
}

enum bw_frozen {
	BW_FROZEN_TRUE,		/* what is below the record is still valid */
	BW_FROZEN_MOVED,	/* it belongs to the page at->id now */
	BW_FROZEN_STALE,	/* restart from the root */
};

/*
 * A reader has reached a page whose removal has begun.  The frozen chain is valid until the
 * left sibling takes it over, which changes the sibling's entry.  So the read takes effect
 * when that entry is loaded.
 */
static enum bw_frozen bw_read_frozen(struct bw_tree *tree, struct bw_at *at,
				     const struct bw_want *want, unsigned int *budget)
{
	struct bw_remove *remove = bw_remove(at->top);
	struct bw_want low = bw_want_key(&remove->low);
	struct bw_rec *top;
	u32 id = remove->left;
	int diff;

	for (;;) {
		if (!bw_spend(budget))
			return BW_FROZEN_STALE;
		top = bw_load(tree, id);
		if (top->kind == BW_REMOVE)
			return BW_FROZEN_STALE;
		if (id == BW_ROOT && top->level != remove->rec.level)
			break;
		if (top->level != remove->rec.level)
			return BW_FROZEN_STALE;
		diff = top->high ? bw_cmp(&low, top->high) : -1;
		if (diff < 0 || (!diff && top->right != at->id)) {
			at->id = id;
			return BW_FROZEN_MOVED;
		}
		if (!diff)
			break;
		id = top->right;
	}
	/* The root is its parent: the page is about to become the root. */
	if (id == BW_ROOT && (top->level != remove->rec.level + 1 ||
			      bw_inner_find(top, want, false) != at->id))
		return BW_FROZEN_STALE;
	at->top = remove->rec.next;
	at->guard_id = id;
	at->guard = top;
	return BW_FROZEN_TRUE;
}

static int bw_needs(struct bw_at *at, enum bw_help_kind kind, u8 level,
		    const struct bw_want *want)
{
	at->help = (struct bw_help) { .kind = kind, .level = level, .want = *want };
	return BW_NEEDS_HELP;
}

/* Whether the writer must finish the removal of the child first. */
static bool bw_child_is_marked(const struct bw_rec *top, u32 child)
{
	return top->flags & BW_MARKED && bw_page_load(top->base, top->base->marked) == child;
}

/*
 * bw_seek(), from a page on whose first key is not greater than the key, and that was found
 * in the same RCU read section: so its id is not another page's yet.
 */
static int bw_seek_from(struct bw_tree *tree, u32 from, const struct bw_want *want, u8 level,
			enum bw_seek_mode mode, struct bw_at *at)
{
	bool before = mode == BW_SEEK_BEFORE, reader = mode <= BW_SEEK_BEFORE;
	unsigned int budget = BW_READ_BUDGET;
	struct bw_rec *top;
	bool leaf;
	int diff;

restart:
	at->id = from;
	at->above = NULL;
	leaf = false;
	while (bw_spend(&budget)) {
		kvt_park_loose(KVT_PARK_BW_SEEK);
		top = bw_load(tree, at->id);
		bw_prefetch(top);
		if (leaf && mode == BW_SEEK_SCAN)
			bw_prefetch_page(top, tree->page_size);
		at->guard_id = at->id;
		at->guard = top;
		at->top = top;
		if (at->id == BW_ROOT && top->level < level)
			return -ENOENT;
		if (unlikely(top->kind == BW_REMOVE)) {
			if (!reader)
				return bw_help_remove(&at->help, top, want);
			switch (bw_read_frozen(tree, at, want, &budget)) {
			case BW_FROZEN_MOVED:
				continue;
			case BW_FROZEN_STALE:
				bw_stat(tree, KVTREE_STAT_READ_RESTART);
				from = BW_ROOT;
				goto restart;
			case BW_FROZEN_TRUE:
				top = at->top;
			}
		}
		if (top->high) {
			diff = bw_cmp(want, top->high);
			if (before ? diff > 0 : diff >= 0) {
				if (!reader && mode != BW_SEEK_LAZY)
					return bw_needs(at, BW_HELP_POST, top->level, want);
				at->id = top->right;
				continue;
			}
		}
		if (top->level == level) {
			if (top->depth && !level) {
				bw_prefetch_chain(top);
				bw_prefetch(&top->base->rec);
			}
			return 0;
		}
		leaf = top->level == 1;
		at->above_id = at->id;
		at->above = top;
		at->id = bw_inner_find(top, want, before);
		if (mode == BW_SEEK_WRITE && bw_child_is_marked(top, at->id))
			return bw_needs(at, BW_HELP_FINISH, top->level - 1, want);
	}
	bw_stat(tree, KVTREE_STAT_READ_BUSY);
	return -EBUSY;
}

/**
 * bw_seek() - find the page of a level that covers a key
 * @tree: the tree
 * @want: the key
 * @level: the level
 * @mode: for whom
 * @at: to be filled
 *
 * Context: under rcu_read_lock(); readers in any context.
 *
 * Return: 0; -ENOENT: the tree has fewer levels; -EBUSY: the budget is spent;
 * BW_NEEDS_HELP: only for writers, see @at->help.
 */
int bw_seek(struct bw_tree *tree, const struct bw_want *want, u8 level, enum bw_seek_mode mode,
	    struct bw_at *at)
{
	return bw_seek_from(tree, BW_ROOT, want, level, mode, at);
}
KVT_EXPORT_FOR_TESTS(bw_seek);

/**
 * bw_get() - see struct kvt_index_ops
 * @index: the tree
 * @key: the key
 *
 * Context: under rcu_read_lock(), any context.
 *
 * Return: the value, NULL, or ERR_PTR(-EBUSY).
 */
struct kvt_value *bw_get(struct kvt_index *index, const struct kvt_key *key)
{
	const struct bw_want want = bw_want(key->data, key->len);
	struct kvt_value *value;
	struct bw_at at;

	RCU_LOCKDEP_WARN(!rcu_read_lock_held(), "kvtree: looking up outside of RCU");
	if (unlikely(bw_seek(bw_tree(index), &want, 0, BW_SEEK_READ, &at)))
		return ERR_PTR(-EBUSY);
	value = bw_leaf_find(at.top, &want);
	kvt_value_prefetch(value);
	return value;
}

/* The leaf that a lookup of a batch will visit, or BW_ROOT if it is not known. */
static u32 bw_guess_leaf(struct bw_tree *tree, const struct bw_want *want)
{
	struct bw_at at;
	u32 id;

	if (bw_seek(tree, want, 1, BW_SEEK_READ, &at))
		return BW_ROOT;
	id = bw_inner_find(at.top, want, false);
	prefetch(bw_map_entry(tree->map, id));
	return id;
}

/* Prefetch the position of a key in the base of its leaf, which has arrived. */
static void bw_guess_place(const struct bw_rec *top, const struct bw_want *want)
{
	const struct bw_page *base = top->base;

	/* The chain below a BW_REMOVE may have been freed. */
	if (top->kind == BW_REMOVE)
		return;
	if (top->depth)
		bw_prefetch_chain(top);
	bw_prefetch_group(base, bw_page_group(base, want));
}

/*
 * Look up at most BW_BATCH keys: prefetch for all of them, level by level, and then look
 * each up by itself.
 */
static void bw_get_some(struct kvt_index *index, struct kvt_lookup *lookups, unsigned int nr)
{
	struct bw_want want[BW_BATCH] __uninitialized;
	struct bw_tree *tree = bw_tree(index);
	u32 id[BW_BATCH] __uninitialized;
	unsigned int i;

	for (i = 0; i < nr; i++) {
		want[i] = bw_want(lookups[i].key.data, lookups[i].key.len);
		id[i] = bw_guess_leaf(tree, &want[i]);
	}
	for (i = 0; i < nr; i++)
		bw_prefetch(bw_load(tree, id[i]));
	for (i = 0; i < nr; i++)
		bw_guess_place(bw_load(tree, id[i]), &want[i]);
	for (i = 0; i < nr; i++) {
		lookups[i].value = bw_get(index, &lookups[i].key);
		kvt_value_prefetch(lookups[i].value);
	}
}

/**
 * bw_get_batch() - see struct kvt_index_ops
 * @index: the tree
 * @lookups: the keys, and what they map to
 * @nr: their number
 *
 * Context: under rcu_read_lock(), any context.
 */
void bw_get_batch(struct kvt_index *index, struct kvt_lookup *lookups, unsigned int nr)
{
	unsigned int some;

	for (; nr; nr -= some, lookups += some) {
		some = min_t(unsigned int, nr, BW_BATCH);
		bw_get_some(index, lookups, some);
	}
}

/* A lookup of the longest stored prefix of a key. */
struct bw_prefix {
	struct bw_tree *tree;
	const u8 *key;
	struct bw_want want;		/* the longest prefix that is left */
	/* The piece of a leaf that covers it, ... */
	struct bw_part part;
	u32 common;			/* ... what the key has in common with its first key ... */
	u32 least;			/* ... and the shortest prefix that it covers */
	/* A page above it, and the first key of that. */
	u32 above_id;
	const struct bw_key *above_low;
};

static void bw_prefix_cut(struct bw_prefix *p, u32 len)
{
	p->want = bw_want(p->key, len);
}

/*
 * Find the piece of a leaf that covers the longest prefix left, starting from the page above
 * the last one if that covers it.  0 or -EBUSY.
 */
static int bw_prefix_seek(struct bw_prefix *p)
{
	u32 from = BW_ROOT;
	struct bw_want low;
	struct bw_at at;

	if (p->above_id != BW_ROOT && bw_cmp(&p->want, p->above_low) >= 0)
		from = p->above_id;
	if (bw_seek_from(p->tree, from, &p->want, 0, BW_SEEK_READ, &at))
		return -EBUSY;
	p->above_id = BW_ROOT;
	if (at.above) {
		p->above_id = at.above_id;
		p->above_low = bw_page_low(at.above->base);
	}
	bw_part_load(at.top, &p->want, false, &p->part);
	low = bw_want_key(p->part.low);
	p->common = bw_want_common(&p->want, &low);
	/* Unless the key begins with it, what they have in common is less than it. */
	p->least = p->common + (p->common < low.len);
	return 0;
}

/* How many bytes an entry's key has in common with a key: at least @from. */
static u32 bw_common(const struct bw_ent *ent, const struct bw_want *want, u32 from)
{
	const struct bw_ent it = { .slice = want->head, .tail = want->tail, .len = want->len };

	return bw_ent_common(ent, &it, from);
}

/* The last entry of a piece that is not greater than a key.  False: there is none. */
static bool bw_part_upto(const struct bw_part *part, const struct bw_want *want,
			 struct bw_ent *ent)
{
	bool same;
	u16 i = bw_page_lower(part->base, want, part->begin, part->end, &same) + same;
	u8 d = 0;

	while (d < part->nr && bw_cmp(want, &part->delta[d]->key) >= 0)
		d++;
	return bw_part_prev(part, &i, &d, ent);
}

/* The longest prefix in the piece; NULL: shorter ones are left, or none if @least is 0. */
static struct kvt_value *bw_prefix_look(struct bw_prefix *p)
{
	struct bw_ent ent;
	u32 len;

	while (p->want.len >= p->least && bw_part_upto(&p->part, &p->want, &ent)) {
		/* The entry has at least as much in common with the key as the first one. */
		len = bw_common(&ent, &p->want, p->common);
		if (len == ent.len)
			return (struct kvt_value *)ent.load;
		bw_prefix_cut(p, len);
	}
	if (p->want.len >= p->least && p->least)
		bw_prefix_cut(p, p->least - 1);
	return NULL;
}

/**
 * bw_get_prefix() - see struct kvt_index_ops
 * @index: the tree
 * @key: the key
 *
 * The last entry that is not greater than the key is its longest prefix in the tree, or shares
 * some bytes with the key and then differs.  Then no stored prefix of the key is longer than
 * the bytes that the two share.  If a piece of a leaf has no such entry, only prefixes that are
 * less than the piece's first key are left.  So each look leaves shorter prefixes only, and
 * each page is found with a budget of its own: however long the keys are that somebody has put
 * between the prefixes, the pages looked at grow no faster than the key's length.
 *
 * Context: under rcu_read_lock(), any context.
 *
 * Return: the value, NULL, or ERR_PTR(-EBUSY).
 */
struct kvt_value *bw_get_prefix(struct kvt_index *index, const struct kvt_key *key)
{
	struct bw_prefix p = { .tree = bw_tree(index), .key = key->data, .above_id = BW_ROOT };
	struct kvt_value *value;
	int err;

	bw_prefix_cut(&p, key->len);
	do {
		err = bw_prefix_seek(&p);
		if (err)
			return ERR_PTR(err);
		value = bw_prefix_look(&p);
	} while (!value && p.least);
	kvt_value_prefetch(value);
	return value;
}
