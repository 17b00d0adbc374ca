// SPDX-License-Identifier: GPL-2.0
/*
 * Chains: evaluating the records of a page.  Nothing here loads from the mapping table; a
 * chain never changes.
 */

#include "compat.h"
#include "tree.h"

/**
 * bw_leaf_find_in() - look up a key, given its group
 * @top: the newest record of the leaf that covers it
 * @want: the key
 * @group: of its place in the leaf's base, from bw_prefetch_place()
 *
 * Return: its value, or NULL.
 */
struct kvt_value *bw_leaf_find_in(const struct bw_rec *top, const struct bw_want *want,
				  unsigned int group)
{
	unsigned int i, low = 0, high = BW_LENS;
	bool merged = top->has_merge, less, same;
	const struct bw_delta *delta;
	const struct bw_page *page;

	for (;; top = top->next) {
		switch (top->kind) {
		case BW_PUT:
		case BW_DEL:
			delta = bw_delta(top);
			if (unlikely(want->head == delta->key.head)) {
				if (bw_is_key(want, &delta->key))
					return top->kind == BW_PUT ? (void *)delta->load : NULL;
				break;
			}
			less = want->head < delta->key.head;
			high = less && top->at < high ? top->at : high;
			low = !less && top->at > low ? top->at : low;
			break;
		case BW_MERGE:
			if (bw_cmp(want, bw_merge(top)->sep) < 0)
				break;
			for (top = bw_merge(top)->other; top->kind != BW_BASE; top = top->next) {
				if (top->kind == BW_SPLIT)
					continue;
				delta = bw_delta(top);
				if (bw_is_key(want, &delta->key))
					return top->kind == BW_PUT ? (void *)delta->load : NULL;
			}
			fallthrough;
		case BW_BASE:
			page = bw_page(top);
			/* A merged page has two bases; a record has a place in one of them. */
			if (unlikely(merged)) {
				low = 0;
				high = top->nr;
				group = bw_page_group(page, want);
			}
			high = min_t(unsigned int, high, top->nr);
			i = bw_page_lower_in(page, group, want, min(low, high), high, &same);
			return same ? (void *)bw_page_load(page, i) : NULL;
		default:
			break;
		}
	}
}

/* Whether a term's range covers a key or, with @before, the keys just below it. */
static bool bw_term_has(const struct bw_term *term, const struct bw_want *want, bool before)
{
	int from = bw_cmp(want, term->from);
	int to = term->to ? bw_cmp(want, term->to) : -1;

	return before ? from > 0 && to <= 0 : from >= 0 && to < 0;
}

/* The side of a BW_MERGE that covers a key, or the keys just below it. */
static const struct bw_rec *bw_side(const struct bw_rec *merge, const struct bw_want *want,
				    bool before)
{
	int diff = bw_cmp(want, bw_merge(merge)->sep);

	return (before ? diff > 0 : diff >= 0) ? bw_merge(merge)->other : merge->next;
}

/**
 * bw_inner_find() - find the child for a key
 * @top: the newest record of the inner page that covers the key
 * @want: the key
 * @before: look for keys less than this one
 *
 * Return: the child's id.
 */
u32 bw_inner_find(const struct bw_rec *top, const struct bw_want *want, bool before)
{
	const struct bw_page *page;
	unsigned int i;
	bool same;

	while (top->kind != BW_BASE) {
		switch (top->kind) {
		case BW_TERM_ADD:
		case BW_TERM_DEL:
			if (bw_term_has(bw_term(top), want, before))
				return bw_delta(top)->load;
			top = top->next;
			break;
		case BW_MERGE:
			top = bw_side(top, want, before);
			break;
		default:
			top = top->next;
		}
	}
	page = bw_page(top);
	i = bw_page_lower(page, want, 0, top->nr, &same);
	if (i && (before || !same))
		i--;
	return bw_page_load(page, i);
}
KVT_EXPORT_FOR_TESTS(bw_inner_find);

/* Add a delta to a part, unless a newer one there has the same key. */
static void bw_part_add(struct bw_part *part, const struct bw_delta *delta)
{
	struct bw_want want = bw_want_key(&delta->key);
	unsigned int low = 0, high = part->nr, mid;
	int diff;

	while (low < high) {
		mid = (low + high) / 2;
		diff = bw_cmp(&want, &part->delta[mid]->key);
		if (!diff)
			return;
		if (diff < 0)
			high = mid;
		else
			low = mid + 1;
	}
	if (WARN_ON_ONCE(part->nr == BW_CHAIN_MAX))
		return;
	memmove(part->delta + low + 1, part->delta + low,
		(part->nr - low) * sizeof(*part->delta));
	part->delta[low] = delta;
	part->nr++;
	if (bw_is_leaf(&delta->rec))
		kvt_value_prefetch_far((void *)delta->load, delta->key.len);
}

/* Keep only one side of a key in a part. */
static void bw_part_cut(struct bw_part *part, const struct bw_key *sep, bool right)
{
	struct bw_want want = bw_want_key(sep);
	unsigned int i, nr = 0;

	for (i = 0; i < part->nr; i++)
		if ((bw_cmp(&want, &part->delta[i]->key) <= 0) == right)
			part->delta[nr++] = part->delta[i];
	part->nr = nr;
	if (right)
		part->low = sep;
	else if (!part->high || bw_cmp(&want, part->high) < 0)
		part->high = sep;
}

/**
 * bw_part_load() - load the piece of a page that covers a key
 * @top: the page's newest record
 * @want: the key
 * @before: or keys less than this one
 * @part: to be filled
 */
void bw_part_load(const struct bw_rec *top, const struct bw_want *want, bool before,
		  struct bw_part *part)
{
	const struct bw_rec *side;
	struct bw_want high;
	bool clip = false;
	bool same;

	part->nr = 0;
	part->low = NULL;
	part->high = top->high;
	while (top->kind != BW_BASE) {
		switch (top->kind) {
		case BW_MERGE:
			side = bw_side(top, want, before);
			bw_part_cut(part, bw_merge(top)->sep, side != top->next);
			top = side;
			continue;
		case BW_SPLIT:
			clip = true;
			break;
		default:
			if (clip) {
				high = bw_want_key(&bw_delta(top)->key);
				if (bw_cmp(&high, part->high) >= 0)
					break;
			}
			bw_part_add(part, bw_delta(top));
		}
		top = top->next;
	}
	part->base = bw_page(top);
	part->begin = 0;
	part->end = top->nr;
	if (!part->low)
		part->low = bw_page_low(part->base);
	if (clip) {
		high = bw_want_key(part->high);
		part->end = bw_page_lower(part->base, &high, 0, top->nr, &same);
	}
}

static void bw_delta_ent(const struct bw_delta *delta, struct bw_ent *ent)
{
	*ent = (struct bw_ent) {
		.slice = delta->key.head,
		.tail = delta->key.tail,
		.len = delta->key.len,
		.load = delta->load,
	};
}

static void bw_insert_ent(const struct kvt_insert *insert, struct bw_ent *ent)
{
	const struct bw_want want = bw_want(insert->key.data, insert->key.len);

	*ent = (struct bw_ent) {
		.slice = want.head,
		.tail = want.tail,
		.len = want.len,
		.load = (unsigned long)insert->value,
	};
}

static bool bw_delta_is_gone(const struct bw_delta *delta)
{
	return delta->rec.kind == BW_DEL || delta->rec.kind == BW_TERM_DEL;
}

/**
 * bw_part_next() - the next entry
 * @part: the part
 * @i: next entry of its base
 * @d: next of its deltas
 * @ent: to be filled
 *
 * Return: false at the end.
 */
bool bw_part_next(const struct bw_part *part, u16 *i, u8 *d, struct bw_ent *ent)
{
	const struct bw_delta *delta;

	for (;;) {
		delta = *d < part->nr ? part->delta[*d] : NULL;
		if (!delta || delta->rec.at > *i) {
			if (*i >= part->end)
				return false;
			bw_page_ent(part->base, (*i)++, ent);
			return true;
		}
		(*d)++;
		if (delta->rec.in_base)
			(*i)++;
		if (bw_delta_is_gone(delta))
			continue;
		bw_delta_ent(delta, ent);
		return true;
	}
}

/**
 * bw_part_prev() - the previous entry
 * @part: the part
 * @i: the entry of its base that was last
 * @d: the delta that was last
 * @ent: to be filled
 *
 * Return: false at the beginning.
 */
bool bw_part_prev(const struct bw_part *part, u16 *i, u8 *d, struct bw_ent *ent)
{
	const struct bw_delta *delta;
	bool same;

	for (;;) {
		delta = *d ? part->delta[*d - 1] : NULL;
		same = delta && delta->rec.in_base;
		if (!delta || delta->rec.at + same < *i) {
			if (*i <= part->begin)
				return false;
			bw_page_ent(part->base, --(*i), ent);
			return true;
		}
		(*d)--;
		if (same)
			*i = delta->rec.at;
		if (bw_delta_is_gone(delta))
			continue;
		bw_delta_ent(delta, ent);
		return true;
	}
}

/**
 * bw_find_merge() - find the record by which a page got its right sibling's content
 * @top: the page's newest record
 *
 * Return: the record, or NULL.
 */
const struct bw_merge *bw_find_merge(const struct bw_rec *top)
{
	if (!top->has_merge)
		return NULL;
	while (top->kind != BW_MERGE)
		top = top->next;
	return bw_merge(top);
}

/**
 * bw_walk_init() - begin to walk all entries of a page
 * @walk: to be filled
 * @top: the page's newest record
 */
void bw_walk_init(struct bw_walk *walk, const struct bw_rec *top)
{
	const struct bw_merge *merge = bw_find_merge(top);
	struct bw_want want = {};

	bw_part_load(top, &want, false, &walk->part[0]);
	walk->parts = 1;
	if (merge) {
		want = bw_want_key(merge->sep);
		bw_part_load(top, &want, false, &walk->part[1]);
		walk->parts = 2;
	}
	walk->row_nr = 0;
	walk->row_at = 0;
	bw_walk_rewind(walk);
}

/**
 * bw_walk_rewind() - return to the first entry
 * @walk: from bw_walk_init()
 */
void bw_walk_rewind(struct bw_walk *walk)
{
	walk->p = 0;
	walk->i = 0;
	walk->d = 0;
	walk->r = 0;
}

/* How many new keys are next; all of them are, or none. */
static unsigned int bw_walk_row(const struct bw_walk *walk)
{
	return walk->i == walk->row_at ? walk->row_nr - walk->r : 0;
}

/**
 * bw_walk_run() - count the next entries of the base without a record between them
 * @walk: from bw_walk_init()
 * @max: the maximum
 *
 * Return: how many; @walk->i may be advanced by that.
 */
unsigned int bw_walk_run(const struct bw_walk *walk, unsigned int max)
{
	const struct bw_part *part = &walk->part[walk->p];
	unsigned int end = part->end;

	if (walk->d < part->nr)
		end = min_t(unsigned int, end, part->delta[walk->d]->rec.at);
	if (walk->r < walk->row_nr)
		end = min_t(unsigned int, end, walk->row_at);
	return end > walk->i ? min(end - walk->i, max) : 0;
}

/**
 * bw_walk_skip() - skip the next entries with keys of some length
 * @walk: of bw_walk_init()
 * @key_len: the length, or BW_LENS: any
 * @max: the most entries
 *
 * Return: how many it has skipped; 0: the next one may have that length all the same.
 */
unsigned int bw_walk_skip(struct bw_walk *walk, u32 key_len, unsigned int max)
{
	unsigned int i, n = min(bw_walk_row(walk), max);

	if (n) {
		for (i = 0; i < n; i++, walk->r++)
			if (key_len != BW_LENS && walk->row[walk->r].key.len != key_len)
				break;
		return i;
	}
	if (key_len != BW_LENS && bw_walk_base(walk)->key_len != key_len)
		return 0;
	n = bw_walk_run(walk, max);
	walk->i += n;
	return n;
}

/**
 * bw_walk_to() - go to an entry
 * @walk: of bw_walk_init()
 * @nr: its number
 */
void bw_walk_to(struct bw_walk *walk, unsigned int nr)
{
	struct bw_ent ent;
	unsigned int n;

	bw_walk_rewind(walk);
	for (; nr; nr -= n) {
		n = bw_walk_skip(walk, BW_LENS, nr);
		if (n)
			continue;
		bw_walk_next(walk, &ent);
		n = 1;
	}
}

/**
 * bw_walk_next() - the next entry
 * @walk: of bw_walk_init()
 * @ent: to be filled
 *
 * Return: false at the end.
 */
bool bw_walk_next(struct bw_walk *walk, struct bw_ent *ent)
{
	if (bw_walk_row(walk)) {
		bw_insert_ent(&walk->row[walk->r++], ent);
		return true;
	}
	while (!bw_part_next(&walk->part[walk->p], &walk->i, &walk->d, ent)) {
		if (walk->p + 1 == walk->parts)
			return false;
		walk->p++;
		walk->i = 0;
		walk->d = 0;
	}
	return true;
}

/**
 * bw_rec_init() - begin a record that precedes others
 * @rec: the record
 * @kind: its kind
 * @top: the page's newest record
 */
void bw_rec_init(struct bw_rec *rec, enum bw_kind kind, struct bw_rec *top)
{
	*rec = *top;
	rec->kind = kind;
	rec->depth++;
	rec->own = false;
	rec->in_base = false;
	rec->at = 0;
	rec->next = top;
}

/**
 * bw_place() - find a key's place in its page
 * @top: the page's newest record
 * @want: the key
 * @rec: a record of the key; its at and in_base are set
 * @load: set to the key's current load
 *
 * Return: whether the key exists.
 */
bool bw_place(const struct bw_rec *top, const struct bw_want *want, struct bw_rec *rec,
	      unsigned long *load)
{
	const struct bw_page *page = top->base;
	unsigned int group = bw_prefetch_place(page, want);
	bool same;

	while (top->kind != BW_BASE) {
		if (top->kind == BW_MERGE) {
			top = bw_side(top, want, false);
			continue;
		}
		if (top->kind != BW_SPLIT && bw_is_key(want, &bw_delta(top)->key)) {
			rec->at = top->at;
			rec->in_base = top->in_base;
			*load = bw_delta(top)->load;
			return !bw_delta_is_gone(bw_delta(top));
		}
		top = top->next;
	}
	if (unlikely(bw_page(top) != page)) {
		page = bw_page(top);
		group = bw_page_group(page, want);
	}
	rec->at = bw_page_lower_in(page, group, want, 0, top->nr, &same);
	if (same) {
		rec->in_base = true;
		*load = bw_page_load(page, rec->at);
	}
	return same;
}
