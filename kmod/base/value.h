/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A value: what a key maps to.
 *
 * A value block is immutable once it is published; changing a key's value publishes
 * another block and retires the old one.  Readers use it under rcu_read_lock().
 *
 *	struct kvt_value
 *	+---------+------+------+---------+-------+----------------------+
 *	| version | size | room | key_len | ncols | body                 |
 *	+---------+------+------+---------+-------+----------------------+
 *	body, plain: key tail | pad to 8 | data of column 0
 *	body, table: key tail | pad to 8 | table | blob pointers | column data
 *
 * Nothing in it is written again, not even to retire it (reclaim.h).  Small
 * blocks come in more sizes than kmalloc() has, and 8 bytes of data take 24.
 *
 * The block carries its key's bytes from the ninth on (the "tail").  The index
 * holds the first bytes in its nodes.  The bytes after a node's slice are compared
 * here, on the cache line that the reader needs next anyway.
 *
 * A value with nothing but a short column 0 is plain.  Any other has a table with an
 * entry per column, ascending by id.  A column's data are in the block, or in a blob if
 * they are longer than KVT_BLOB_MIN or the block would hold more than KVT_INLINE_MAX
 * bytes of column data.  Columns of up to 8 bytes, no longer than the pointer to a blob,
 * are always in the block.  So a block can be built while a node is locked: at most
 * about 12 KiB are copied.
 *
 * A cell is a small value, plain or without columns.  It has the layout of a block without a key
 * tail, but was not allocated (room is 0): it is in the caller's struct kvt_cell, either a copy of
 * what the index keeps in its nodes, or about to be kept there.  It is neither charged nor freed.
 *
 * A blob belongs to the newest value that refers to it: a change that keeps the column
 * passes the blob on without counting.  The change that drops the column retires the
 * blob.  A reader that sleeps while it copies takes a reference of its own.
 */
#ifndef KVT_BASE_VALUE_H
#define KVT_BASE_VALUE_H

#include <linux/align.h>
#include <linux/bits.h>
#include <linux/build_bug.h>
#include <linux/gfp_types.h>
#include <linux/llist.h>
#include <linux/prefetch.h>
#include <linux/refcount.h>
#include <linux/string.h>
#include <linux/types.h>
#include <linux/unaligned.h>
#include <linux/kvtree.h>

#include "index.h"
#include "mem.h"

struct kvt_bag;
struct kvt_reclaim;

/* Bytes of a key that are not repeated in its value. */
#define KVT_KEY_HEAD	8u

/* A longer column is a blob. */
#define KVT_BLOB_MIN	2048u
/* Column data in a block, not counting columns of at most KVT_INLINE_ALWAYS bytes. */
#define KVT_INLINE_MAX	4096u
#define KVT_INLINE_ALWAYS	8u

struct kvt_value {
	u64 version;
	u16 size;			/* bytes of the whole block */
	u16 room;			/* bytes that the allocator took for it */
	u16 key_len;			/* bytes of the whole key */
	u16 ncols;			/* KVT_VALUE_TABLE | entries of the table; 0: plain */
	u8 body[];
};

#define KVT_VALUE_TABLE	0x8000u

/* What a cell may have: bytes of data, and a version less than this. */
#define KVT_CELL_MAX		8u
#define KVT_CELL_VERSION_END	BIT_ULL(60)

static_assert(sizeof(struct kvt_cell) == sizeof(struct kvt_value) + KVT_CELL_MAX);

/* Bytes of a column's entry in the table. */
#define KVT_VALUE_ENTRY	8u

/* The largest block that a value can need. */
#define KVT_VALUE_SIZE_MAX	(sizeof(struct kvt_value) + KVTREE_KEY_MAX +		\
				 KVTREE_COLS_MAX * (KVT_VALUE_ENTRY + KVT_INLINE_ALWAYS) +	\
				 KVT_INLINE_MAX)

struct kvt_blob {
	struct llist_node retire;
	refcount_t refs;		/* 1 for the value, more for readers that sleep */
	u32 len;
	u8 data[];
};

/* A column with its data; or an edit, with the column's new data. */
struct kvt_column {
	u16 id;
	u32 len;		/* bytes; in an edit KVTREE_COL_ABSENT to remove it */
	const u8 *data;
	struct kvt_blob *blob;	/* holds the data; NULL: none does */
};

/**
 * kvt_value_suffix() - the bytes of a value's key from a position on
 * @v: the value
 * @at: position in the key, at least KVT_KEY_HEAD and at most @v->key_len
 *
 * Return: pointer to @v->key_len - @at bytes.
 */
static inline const u8 *kvt_value_suffix(const struct kvt_value *v, u32 at)
{
	return v->body + (at - KVT_KEY_HEAD);
}

/**
 * kvt_value_plain() - whether a value is column 0 alone, in its block
 * @v: the value
 *
 * Return: true if it has no table.
 */
static inline bool kvt_value_plain(const struct kvt_value *v)
{
	return !v->ncols;
}

/* A cell's size, room, key_len and ncols as one word: one store is faster than four. */
static __always_inline u64 kvt_cell_shape(u32 key_len, u32 len)
{
	u64 size = sizeof(struct kvt_value) + len;

	if (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)
		return size | (u64)key_len << 32;
	return size << 48 | (u64)key_len << 16;
}

/**
 * kvt_cell_init() - make a plain value in a cell
 * @cell: where
 * @key_len: bytes of its key
 * @len: bytes of its data, at most KVT_CELL_MAX
 * @version: its version
 * @data: its data, in memory order
 *
 * Return: the value.
 */
static __always_inline struct kvt_value *kvt_cell_init(struct kvt_cell *cell, u32 key_len, u32 len,
						       u64 version, u64 data)
{
	cell->word[0] = version;
	cell->word[1] = kvt_cell_shape(key_len, len);
	cell->word[2] = data;
	return (struct kvt_value *)cell;
}

/**
 * kvt_cell_init_empty() - make a value without columns in a cell
 * @cell: where
 * @key_len: bytes of its key
 * @version: its version
 *
 * Return: the value.
 */
static inline struct kvt_value *kvt_cell_init_empty(struct kvt_cell *cell, u32 key_len,
						    u64 version)
{
	struct kvt_value *v = kvt_cell_init(cell, key_len, 0, version, 0);

	v->ncols = KVT_VALUE_TABLE;
	return v;
}

/**
 * kvt_value_is_cell() - whether a value has no block
 * @v: the value
 *
 * Return: true if it is a cell.
 */
static inline bool kvt_value_is_cell(const struct kvt_value *v)
{
	return !v->room;
}

/**
 * kvt_value_has_block() - whether there is something to retire
 * @v: a value that was replaced or removed, or NULL
 *
 * Return: true if there is a value and it is no cell.
 */
static inline bool kvt_value_has_block(const struct kvt_value *v)
{
	return v && !kvt_value_is_cell(v);
}

/**
 * kvt_cell_data() - the data of a cell
 * @v: a value that is a cell
 *
 * Return: its data as they are in memory; what comes after them has no meaning.
 */
static inline u64 kvt_cell_data(const struct kvt_value *v)
{
	return ((const struct kvt_cell *)v)->word[2];
}

/**
 * kvt_value_ncols() - number of columns
 * @v: the value
 *
 * Return: 0..KVTREE_COLS_MAX.
 */
static inline unsigned int kvt_value_ncols(const struct kvt_value *v)
{
	return kvt_value_plain(v) ? 1 : v->ncols & ~KVT_VALUE_TABLE;
}

/**
 * kvt_value_head_size() - bytes of a block before the table or the plain data
 * @key_len: bytes of the key
 *
 * Return: bytes, a multiple of 8.
 */
static inline u32 kvt_value_head_size(u32 key_len)
{
	u32 tail = key_len > KVT_KEY_HEAD ? key_len - KVT_KEY_HEAD : 0;

	return sizeof(struct kvt_value) + ALIGN(tail, 8);
}

/**
 * kvt_value_plain_data() - column 0 of a plain value
 * @v: the value
 * @len: set to its bytes
 *
 * Return: its data.
 */
static inline const u8 *kvt_value_plain_data(const struct kvt_value *v, u32 *len)
{
	u32 head = kvt_value_is_cell(v) ? sizeof(*v) : kvt_value_head_size(v->key_len);

	*len = v->size - head;
	return (const u8 *)v + head;
}

/**
 * kvt_value_fits_cell() - whether a value can be a cell
 * @v: the value
 *
 * Return: true if it can, while its version allows it.
 */
static inline bool kvt_value_fits_cell(const struct kvt_value *v)
{
	u32 len;

	if (!kvt_value_plain(v))
		return !kvt_value_ncols(v);
	kvt_value_plain_data(v, &len);
	return len <= KVT_CELL_MAX;
}

struct kvt_value *kvt_value_to_cell(const struct kvt_value *v, struct kvt_cell *cell);

/**
 * kvt_value_placed() - the value to commit
 * @change: its place is held
 * @v: the new value, with its version
 * @cell: for a small value that has a block, if the place takes cells
 *
 * Return: @v, or it in @cell; NULL: @v is a cell, but must have a block here.
 */
static __always_inline struct kvt_value *kvt_value_placed(const struct kvt_change *change,
							  struct kvt_value *v,
							  struct kvt_cell *cell)
{
	bool takes = change->takes_cell && likely(v->version < KVT_CELL_VERSION_END);

	if (likely(takes == kvt_value_is_cell(v)))
		return v;
	if (!takes)
		return NULL;
	return kvt_value_fits_cell(v) ? kvt_value_to_cell(v, cell) : v;
}

/* Where the last byte is of a value with eight bytes of plain data. */
static __always_inline const void *kvt_value_small_end(const void *v, u32 key_len)
{
	return (const u8 *)v + kvt_value_head_size(key_len) + 7;
}

/**
 * kvt_value_prefetch() - fetch a small value
 * @v: the value, which may also be no address at all
 * @key_len: bytes of its key, or a guess
 *
 * Where it begins and ends: even one of 24 bytes can straddle two cache lines.
 */
static __always_inline void kvt_value_prefetch(const void *v, u32 key_len)
{
	prefetch(v);
	prefetch(kvt_value_small_end(v, key_len));
}

/**
 * kvt_pair_key() - the whole key of a pair
 * @iter: the iterator that returned it, not called since
 * @pair: the pair
 * @key: has room for it, and for a multiple of 8 bytes, not 0; or @iter's key
 *
 * Return: its bytes.
 */
static inline u32 kvt_pair_key(const struct kvt_iter *iter, const struct kvt_pair *pair, u8 *key)
{
	u32 len = pair->value->key_len, at = 0;

	if (len > KVT_KEY_HEAD) {
		if (!kvt_value_is_cell(pair->value)) {
			memcpy(key + KVT_KEY_HEAD, kvt_value_suffix(pair->value, KVT_KEY_HEAD),
			       len - KVT_KEY_HEAD);
		} else {
			at = ALIGN_DOWN(len - 1, KVT_KEY_HEAD);
			if (key != iter->key)
				memcpy(key, iter->key, at);
		}
	}
	put_unaligned_be64(pair->head, key + at);
	return len;
}

struct kvt_blob *kvt_blob_alloc(const struct kvt_mem *mem, u32 len);
int kvt_blob_move(const struct kvt_mem *mem, struct kvt_column *col);
void kvt_blob_get(struct kvt_blob *blob);
void kvt_blob_put(struct kvt_blob *blob);

struct kvt_value *kvt_value_alloc(const struct kvt_mem *mem, const struct kvt_key *key,
				  size_t size);
struct kvt_value *kvt_value_alloc_whole(const struct kvt_mem *mem, const struct kvt_key *key,
					u32 len, u8 **data);
struct kvt_value *kvt_value_make_whole(const struct kvt_mem *mem, const struct kvt_key *key,
				       u32 len, u8 **data, struct kvt_cell *cell);
struct kvt_value *kvt_value_of_cell(const struct kvt_mem *mem, const struct kvt_key *key,
				    const struct kvt_value *v);
void kvt_value_set_cell(struct kvt_value *block, const struct kvt_value *v);
void kvt_value_free(struct kvt_value *v);
void kvt_value_free_shell(struct kvt_value *v);

void kvt_value_column(const struct kvt_value *v, unsigned int i, struct kvt_column *col);
bool kvt_value_find(const struct kvt_value *v, u16 id, struct kvt_column *col);
size_t kvt_value_charge(const struct kvt_value *v);

void kvt_value_setup_reclaim(struct kvt_reclaim *reclaim);
void kvt_value_retire(struct kvt_reclaim *reclaim, struct kvt_bag *bag, struct kvt_value *v,
		      const unsigned long *kept);

/* For merge.c, which builds the table. */
void kvt_value_set_table(struct kvt_value *v, unsigned int ncols);
void kvt_value_set_column(struct kvt_value *v, unsigned int i, const struct kvt_column *col,
			  u32 off);

#endif /* KVT_BASE_VALUE_H */
