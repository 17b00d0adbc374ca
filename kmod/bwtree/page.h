/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Pages of a Bw-tree: keys, base pages, records, and the entries that these make up.
 *
 * See bwtree.c for the protocol.
 */
#ifndef KVT_BW_PAGE_H
#define KVT_BW_PAGE_H

#include <linux/align.h>
#include <linux/atomic.h>
#include <linux/bug.h>
#include <linux/llist.h>
#include <linux/minmax.h>
#include <linux/string.h>
#include <linux/types.h>
#include <linux/unaligned.h>

#include "base/index.h"

struct kvt_value;

/* Key bytes that are compared as one number. */
#define BW_SLICE	8u

/* A chain is consolidated when it has this many records, ... */
#define BW_CHAIN_LEAF	10
#define BW_CHAIN_INNER	6
/* ... and never has more than this. */
#define BW_CHAIN_MAX	32
/* Records that changes of structure may still need then. */
#define BW_CHAIN_SPARE	4
/* Bytes of the word at the end of a leaf's space, which says how much of it is taken. */
#define BW_SPACE_TAKEN	8u
/* Space for records beside a base page, and for that word. */
#define BW_SPACE_LEAF	(BW_CHAIN_LEAF * sizeof(struct bw_delta))

/* A page of fewer entries is never split. */
#define BW_SPLIT_MIN	4u
/* The least bytes of an entry of a leaf's base: a slice and a value. */
#define BW_ENT_MIN	(2 * sizeof(u64))

/* Slices are searched in groups of a cache line; each full group has a sample. */
#define BW_GROUP	8u
#define BW_LINE		64u
/* Bytes that precede a record in its allocation: struct bw_mem. */
#define BW_MEM_HEAD	16u

/* A stored key: its first bytes as a number, followed by the others. */
struct bw_key {
	u64 head;			/* big-endian, padded with zeros */
	u16 len;
	u8 tail[];			/* from the ninth byte on */
};

/* A wanted key. */
struct bw_want {
	u64 head;
	const u8 *tail;
	u32 len;
};

enum bw_kind {
	BW_BASE,
	/* Of leaves. */
	BW_PUT,
	BW_DEL,
	/* Of inner pages: index terms. */
	BW_TERM_ADD,
	BW_TERM_DEL,
	/* Of both. */
	BW_SPLIT,			/* keys from high on are the right sibling's */
	BW_MERGE,			/* this page also has the right sibling's content */
	BW_REMOVE,			/* this page is frozen, to become part of another */
};

/*
 * The beginning of every record.  A page is its newest record; that describes the page as if
 * it were consolidated.
 */
struct bw_rec {
	u8 kind;
	u8 level;			/* 0: leaf */
	u8 depth;			/* records before base pages, including this one */
	/* Of the record alone: */
	u8 own : 1;			/* it is an allocation of its own */
	u8 in_base : 1;			/* its base has the key, too */
	/* Of the page: */
	u8 has_merge : 1;		/* there is a BW_MERGE in its chain */
	u8 has_mark : 1;		/* one of its terms is marked */
	u8 round : 4;			/* of the worker, at the page's last change */
	u16 nr;				/* entries of the page */
	u16 at;				/* of the record: where its key belongs in its base */
	u32 right;			/* sibling; BW_ROOT: there is none */
	u32 bytes;			/* content of the page, approximately */
	const struct bw_key *high;	/* the right sibling's first; NULL: there is none */
	struct bw_page *base;		/* the leftmost */
	struct bw_rec *next;		/* older */
};

/* A change of one entry; in leaves, beside the base page. */
struct bw_delta {
	struct bw_rec rec;
	unsigned long load;		/* a value, or a child's id */
	struct bw_key key;
};

/* A change of an index term: from @from to @to, the child is now @load. */
struct bw_term {
	const struct bw_key *from;
	const struct bw_key *to;	/* NULL: no end */
	struct bw_delta delta;
};

struct bw_split {
	struct bw_rec rec;
	struct bw_key sep;
};

struct bw_merge {
	struct bw_rec rec;
	struct bw_rec *other;		/* the right sibling's newest record */
	const struct bw_key *sep;	/* its first key */
};

struct bw_map;

/*
 * Readers may still find this record when another page has taken over the frozen chain, and
 * the chain has been freed.
 */
struct bw_remove {
	struct bw_rec rec;
	u32 id;
	u32 left;			/* a page to its left, which stays as long as this one */
	struct bw_map *map;
	/* For destroying the tree: */
	bool merged;			/* @rec.next belongs to another page */
	struct bw_key low;		/* the page's first */
};

/*
 * A base page: a sorted array of entries.
 *
 *	| header | high | low | prefix | sample[] | slice[] load[] | len[] | tail[] | tails |
 *	| space ... taken |
 *
 * Keys share the prefix.  After it they have a slice, compared as a number, and a tail.
 * Lengths are stored only if they differ, tails only if there are any.
 *
 * A search waits for memory twice: for the beginning of the page, fetched with all
 * its lines together, and for a group of slices with its loads.  Groups begin with a
 * cache line.  A sample is the last slice of a group; the last group has none if it is not
 * full, and is filled up with the highest slices.
 *
 * A leaf's space is for records, and ends with a word that says how much of it is taken.
 * Nothing else in a page changes, and lookups do not read that line.
 */
struct bw_page {
	struct bw_rec rec;
	u32 size;			/* of the allocation */
	u16 prefix_len;
	u16 key_len;			/* of all keys, or BW_LENS */
	u64 prefix_head;
	u16 off_low;
	u16 off_prefix;
	u16 marked;			/* if @rec.has_mark: which entry has the mark */
	u16 tails;			/* whether there are any */
	u32 off_sample;
	u32 off_slice;
	u32 off_load;
	u32 off_len;
	u32 off_tail;
	u32 end;			/* of the content, before space */
	u8 data[] __aligned(8);
};

#define BW_LENS		0xffff

static inline bool bw_is_leaf(const struct bw_rec *rec)
{
	return !rec->level;
}

#define bw_delta(r)	container_of(r, struct bw_delta, rec)
#define bw_term(r)	container_of(bw_delta(r), struct bw_term, delta)
#define bw_split(r)	container_of(r, struct bw_split, rec)
#define bw_merge(r)	container_of(r, struct bw_merge, rec)
#define bw_remove(r)	container_of(r, struct bw_remove, rec)
#define bw_page(r)	container_of(r, struct bw_page, rec)

static inline const void *bw_page_at(const struct bw_page *page, u32 off)
{
	return (const u8 *)page + off;
}

static inline const u64 *bw_page_slice(const struct bw_page *page)
{
	return bw_page_at(page, page->off_slice);
}

static inline const u64 *bw_page_sample(const struct bw_page *page)
{
	return bw_page_at(page, page->off_sample);
}

/* Where a leaf stores the place of its next record. */
static inline atomic_t *bw_page_taken(struct bw_page *page)
{
	return (atomic_t *)((u8 *)page + ALIGN_DOWN(page->size, 8)) - 2;
}

static inline const struct bw_key *bw_page_low(const struct bw_page *page)
{
	return bw_page_at(page, page->off_low);
}

static inline const u8 *bw_page_prefix(const struct bw_page *page)
{
	return bw_page_at(page, page->off_prefix);
}

static inline unsigned long bw_page_load(const struct bw_page *page, unsigned int i)
{
	if (bw_is_leaf(&page->rec))
		return ((const unsigned long *)bw_page_at(page, page->off_load))[i];
	return ((const u32 *)bw_page_at(page, page->off_load))[i];
}

/* The child of the marked term, in a page that has a mark. */
static inline u32 bw_marked_child(const struct bw_rec *top)
{
	return bw_page_load(top->base, top->base->marked);
}

static inline u32 bw_page_len(const struct bw_page *page, unsigned int i)
{
	if (page->key_len != BW_LENS)
		return page->key_len;
	return ((const u16 *)bw_page_at(page, page->off_len))[i];
}

/* The bytes after prefix and slice. */
static inline const u8 *bw_page_tail(const struct bw_page *page, unsigned int i)
{
	if (!page->tails)
		return NULL;
	return bw_page_at(page, ((const u32 *)bw_page_at(page, page->off_tail))[i]);
}

/* The first bytes of a key as a number, padded with zeros. */
static inline u64 bw_head(const u8 *data, u32 len)
{
	u64 head = 0;

	if (likely(len >= BW_SLICE))
		return get_unaligned_be64(data);
	if (len)
		memcpy(&head, data, len);
	return be64_to_cpu((__force __be64)head);
}

static inline struct bw_want bw_want(const u8 *data, u32 len)
{
	return (struct bw_want) {
		.head = bw_head(data, len),
		.tail = len > BW_SLICE ? data + BW_SLICE : NULL,
		.len = len,
	};
}

static inline struct bw_want bw_want_key(const struct bw_key *key)
{
	return (struct bw_want) { .head = key->head, .tail = key->tail, .len = key->len };
}

/* Eight bytes of a key from @at on, padded with zeros. */
static inline u64 bw_want_slice(const struct bw_want *want, u32 at)
{
	u64 next;

	if (!at)
		return want->head;
	if (at >= want->len)
		return 0;
	if (at >= BW_SLICE)
		return bw_head(want->tail + at - BW_SLICE, want->len - at);
	if (want->len <= BW_SLICE)
		return want->head << (8 * at);
	next = bw_head(want->tail, want->len - BW_SLICE);
	return want->head << (8 * at) | next >> (8 * (BW_SLICE - at));
}

static inline int bw_order(u64 a, u64 b)
{
	return a < b ? -1 : a > b;
}

/* Compare a wanted key with a stored one. */
static inline int bw_cmp(const struct bw_want *want, const struct bw_key *key)
{
	u32 common = min_t(u32, want->len, key->len);
	int diff;

	if (want->head != key->head)
		return bw_order(want->head, key->head);
	if (common > BW_SLICE) {
		diff = memcmp(want->tail, key->tail, common - BW_SLICE);
		if (diff)
			return diff;
	}
	return (int)want->len - (int)key->len;
}

static inline bool bw_is_key(const struct bw_want *want, const struct bw_key *key)
{
	return want->head == key->head && want->len == key->len &&
	       (key->len <= BW_SLICE || !memcmp(want->tail, key->tail, key->len - BW_SLICE));
}

static inline u32 bw_key_size(u32 len)
{
	return ALIGN(sizeof(struct bw_key) + (len > BW_SLICE ? len - BW_SLICE : 0), 8);
}

/* Bytes that a key adds to a structure that ends with it. */
static inline u32 bw_key_tail(u32 len)
{
	return len > BW_SLICE ? len - BW_SLICE : 0;
}

static inline void bw_key_set(struct bw_key *key, const struct bw_want *want)
{
	key->head = want->head;
	key->len = want->len;
	if (want->len > BW_SLICE)
		memcpy(key->tail, want->tail, want->len - BW_SLICE);
}

/* Copy a key's @key->len bytes. */
static inline void bw_key_bytes(const struct bw_key *key, u8 *out)
{
	u8 head[BW_SLICE];

	put_unaligned_be64(key->head, head);
	memcpy(out, head, min_t(u32, key->len, BW_SLICE));
	if (key->len > BW_SLICE)
		memcpy(out + BW_SLICE, key->tail, key->len - BW_SLICE);
}

/* An entry of a page: key and load, wherever they are. */
struct bw_ent {
	const u8 *prefix;
	const u8 *tail;			/* after prefix and slice */
	u64 slice;
	unsigned long load;
	u16 prefix_len;
	u16 len;			/* of the whole key */
	bool marked;
};

/* A key as an entry without a load. */
static inline struct bw_ent bw_ent_of_key(const struct bw_key *key)
{
	return (struct bw_ent) { .slice = key->head, .tail = key->tail, .len = key->len };
}

/*
 * A piece of a page: one base and the deltas that change it, in key order, one
 * for each key.
 */
struct bw_part {
	const struct bw_page *base;
	const struct bw_key *low;	/* it covers the keys from here on ... */
	const struct bw_key *high;	/* ... and below this one, or NULL: all of them */
	u16 begin;			/* entries of the base that belong to this page */
	u16 end;
	u8 nr;
	const struct bw_delta *delta[BW_CHAIN_MAX];
};

/* The entries of a page in key order. */
struct bw_walk {
	struct bw_part part[2];
	u8 parts;
	/* New keys, in order, between two entries of a page without a chain: see sorted.c. */
	const struct kvt_insert *row;
	u16 row_nr;
	u16 row_at;			/* the entry before which they belong */
	/* What is next: */
	u8 p;				/* part */
	u8 d;				/* delta */
	u16 i;				/* entry of the base */
	u16 r;				/* new key */
};

/* The base that has the next entry, unless a record has it. */
static inline const struct bw_page *bw_walk_base(const struct bw_walk *walk)
{
	return walk->part[walk->p].base;
}

/* Some entries of a walk, and the size of a base page of them. */
struct bw_sum {
	unsigned int from, to;
	u32 prefix_len;
	u32 key_len;
	u32 tails;			/* bytes */
	u32 bytes;			/* of its content */
	struct bw_ent first;
	/* The layout. */
	u32 off_low;
	u32 off_prefix;
	u32 off_sample;
	u32 off_slice;
	u32 off_load;
	u32 off_len;
	u32 off_tail;
	u32 size;			/* of the page, without space */
};

/* A base page's properties besides its entries. */
struct bw_frame {
	u8 level;
	u32 right;
	const struct bw_key *low;
	const struct bw_key *high;
	const struct bw_want *mark;	/* the marked term, or NULL */
};

/* page.c */
unsigned int bw_page_lower(const struct bw_page *page, const struct bw_want *want,
			   unsigned int low, unsigned int high, bool *same);
unsigned int bw_page_lower_in(const struct bw_page *page, unsigned int group,
			      const struct bw_want *want, unsigned int low, unsigned int high,
			      bool *same);
unsigned int bw_page_group(const struct bw_page *page, const struct bw_want *want);
void bw_page_ent(const struct bw_page *page, unsigned int i, struct bw_ent *ent);
void bw_ent_copy(const struct bw_ent *ent, u32 from, u32 to, u8 *out);
int bw_ent_cmp(const struct bw_want *want, const struct bw_ent *ent);
void bw_ent_key(const struct bw_ent *ent, u32 len, struct bw_key *key);
u32 bw_ent_common(const struct bw_ent *a, const struct bw_ent *b, u32 from);
u32 bw_want_common(const struct bw_want *a, const struct bw_want *b);
void bw_ent_at(const struct bw_rec *top, unsigned int nr, struct bw_ent *ent);
u32 bw_bytes_with(const struct bw_rec *top, u32 common);
void bw_sum(struct bw_walk *walk, const struct bw_frame *frame, unsigned int from,
	    unsigned int to, struct bw_sum *sum);
struct bw_page *bw_page_fill(void *obj, u32 size, struct bw_walk *walk, const struct bw_sum *sum,
			     const struct bw_frame *frame);
void bw_sum_pair(const struct bw_ent ent[2], const struct bw_frame *frame, struct bw_sum *sum);
struct bw_page *bw_page_fill_pair(void *obj, u32 size, const struct bw_ent ent[2],
				  const struct bw_sum *sum, const struct bw_frame *frame);
struct bw_page *bw_page_empty(void *obj, u32 size, u8 level);
void *bw_page_space(struct bw_page *page, u32 size);
void bw_page_unspace(struct bw_page *page, void *rec, u32 size);

/* chain.c */
struct kvt_value *bw_leaf_find_in(const struct bw_rec *top, const struct bw_want *want,
				  unsigned int group);
u32 bw_inner_find(const struct bw_rec *top, const struct bw_want *want, bool before);
void bw_part_load(const struct bw_rec *top, const struct bw_want *want, bool before,
		  struct bw_part *part);
bool bw_part_next(const struct bw_part *part, u16 *i, u8 *d, struct bw_ent *ent);
bool bw_part_prev(const struct bw_part *part, u16 *i, u8 *d, struct bw_ent *ent);
void bw_walk_init(struct bw_walk *walk, const struct bw_rec *top);
void bw_walk_rewind(struct bw_walk *walk);
unsigned int bw_walk_run(const struct bw_walk *walk, unsigned int max);
unsigned int bw_walk_skip(struct bw_walk *walk, u32 key_len, unsigned int max);
void bw_walk_to(struct bw_walk *walk, unsigned int nr);
bool bw_walk_next(struct bw_walk *walk, struct bw_ent *ent);
void bw_rec_init(struct bw_rec *rec, enum bw_kind kind, struct bw_rec *top);
bool bw_place(const struct bw_rec *top, const struct bw_want *want, struct bw_rec *rec,
	      unsigned long *load);
const struct bw_merge *bw_find_merge(const struct bw_rec *top);

#endif /* KVT_BW_PAGE_H */
