// SPDX-License-Identifier: GPL-2.0
/* Value blocks: made, read, retired and freed. */
#include <linux/bitmap.h>
#include <linux/build_bug.h>
#include <linux/kernel.h>
#include <linux/log2.h>
#include <linux/overflow.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "compat.h"
#include "index.h"
#include "mem.h"
#include "reclaim.h"
#include "value.h"

/* An entry of a value's table. */
struct kvt_entry {
	u32 off;		/* from the start of the block: the data, or a blob's pointer */
	u32 len  : 23;
	u32 blob : 1;
	u32 id   : 8;
};

static_assert(sizeof(struct kvt_entry) == KVT_VALUE_ENTRY);
static_assert(ilog2(KVTREE_VALUE_MAX) < 23);
static_assert(ilog2(KVTREE_COLS_MAX) <= 8);
static_assert(sizeof(struct kvt_blob *) <= KVT_INLINE_ALWAYS);
/* Also when they are rounded up. */
static_assert(U16_MAX / 2 >= KVT_VALUE_SIZE_MAX);

static struct kvt_entry *value_table(const struct kvt_value *v)
{
	return (struct kvt_entry *)((u8 *)v + kvt_value_head_size(v->key_len));
}

static struct kvt_blob **value_blob(const struct kvt_value *v, const struct kvt_entry *entry)
{
	return (struct kvt_blob **)((u8 *)v + entry->off);
}

static size_t blob_size(u32 len)
{
	return kvt_mem_size(sizeof(struct kvt_blob) + len);
}

/**
 * kvt_blob_alloc() - allocate a blob
 * @mem: where from
 * @len: bytes of data, at most KVTREE_VALUE_MAX
 *
 * Context: as @mem->gfp says.
 *
 * Return: a blob with one reference, its data to be filled by the caller, or NULL.
 */
struct kvt_blob *kvt_blob_alloc(const struct kvt_mem *mem, u32 len)
{
	struct kvt_blob *blob = kvt_mem_alloc(mem, struct_size(blob, data, len));

	if (!blob)
		return NULL;
	refcount_set(&blob->refs, 1);
	blob->len = len;
	return blob;
}
KVT_EXPORT_FOR_TESTS(kvt_blob_alloc);

/**
 * kvt_blob_move() - put a column's data into a blob
 * @mem: which cgroup is charged, and how to allocate
 * @col: the column, in no blob so far
 *
 * Context: as @mem->gfp says.
 *
 * Return: 0 or -ENOMEM.
 */
int kvt_blob_move(const struct kvt_mem *mem, struct kvt_column *col)
{
	col->blob = kvt_blob_alloc(mem, col->len);
	if (!col->blob)
		return -ENOMEM;
	memcpy(col->blob->data, col->data, col->len);
	col->data = col->blob->data;
	return 0;
}
KVT_EXPORT_FOR_TESTS(kvt_blob_move);

/**
 * kvt_blob_get() - keep a blob beyond the RCU read section
 * @blob: of a value that was found in this RCU read section
 *
 * The value drops its own reference a grace period after it is retired, so there is
 * one here.
 *
 * Context: under rcu_read_lock(), any context.
 */
void kvt_blob_get(struct kvt_blob *blob)
{
	refcount_inc(&blob->refs);
}

/**
 * kvt_blob_put() - drop a reference to a blob
 * @blob: the blob
 *
 * Context: process context, may sleep.
 */
void kvt_blob_put(struct kvt_blob *blob)
{
	if (refcount_dec_and_test(&blob->refs))
		kvt_mem_free(blob, blob_size(blob->len));
}
KVT_EXPORT_FOR_TESTS(kvt_blob_put);

/**
 * kvt_value_alloc() - allocate a value block for a key
 * @mem: where from
 * @key: the key; its tail is copied to the block
 * @size: bytes of the whole block, at least kvt_value_head_size() of the key
 *
 * Context: as @mem->gfp says.
 *
 * Return: a plain value with its data not filled in, or NULL.
 */
struct kvt_value *kvt_value_alloc(const struct kvt_mem *mem, const struct kvt_key *key,
				  size_t size)
{
	size_t room = kvt_mem_size(size);
	struct kvt_value *v = kvt_mem_alloc(mem, room);

	if (!v)
		return NULL;
	v->version = 0;
	v->size = size;
	v->room = room;
	v->key_len = key->len;
	v->ncols = 0;
	if (key->len > KVT_KEY_HEAD)
		memcpy(v->body, key->data + KVT_KEY_HEAD, key->len - KVT_KEY_HEAD);
	return v;
}
KVT_EXPORT_FOR_TESTS(kvt_value_alloc);

/**
 * kvt_value_alloc_whole() - allocate a value that is column 0 alone
 * @mem: where from
 * @key: its key
 * @len: bytes of data, at most KVTREE_VALUE_MAX
 * @data: set to where the caller puts the data
 *
 * Context: as @mem->gfp says.
 *
 * Return: the value, to be freed with kvt_value_free(), or NULL.
 */
struct kvt_value *kvt_value_alloc_whole(const struct kvt_mem *mem, const struct kvt_key *key,
					u32 len, u8 **data)
{
	u32 head = kvt_value_head_size(key->len);
	struct kvt_column col = { .len = len };
	struct kvt_value *v;

	if (len <= KVT_BLOB_MIN) {
		v = kvt_value_alloc(mem, key, head + len);
		if (v)
			*data = (u8 *)v + head;
		return v;
	}
	v = kvt_value_alloc(mem, key, head + sizeof(struct kvt_entry) + sizeof(col.blob));
	if (!v)
		return NULL;
	col.blob = kvt_blob_alloc(mem, len);
	if (!col.blob) {
		kvt_value_free_shell(v);
		return NULL;
	}
	kvt_value_set_table(v, 1);
	kvt_value_set_column(v, 0, &col, head + sizeof(struct kvt_entry));
	*data = col.blob->data;
	return v;
}
KVT_EXPORT_FOR_TESTS(kvt_value_alloc_whole);

/**
 * kvt_value_make_whole() - make a value that is column 0 alone, in a cell if that is possible
 * @mem: where from
 * @key: its key
 * @len: bytes of data, at most KVTREE_VALUE_MAX
 * @data: set to where the caller puts the data
 * @cell: for as long as the value is used; NULL: it must be a block
 *
 * Context: as @mem->gfp says.
 *
 * Return: the value, to be freed with kvt_value_free(), or NULL.
 */
struct kvt_value *kvt_value_make_whole(const struct kvt_mem *mem, const struct kvt_key *key,
				       u32 len, u8 **data, struct kvt_cell *cell)
{
	if (!cell || len > KVT_CELL_MAX)
		return kvt_value_alloc_whole(mem, key, len, data);
	*data = (u8 *)&cell->word[2];
	return kvt_cell_init(cell, key->len, len, 0, 0);
}
KVT_EXPORT_FOR_TESTS(kvt_value_make_whole);

/**
 * kvt_value_of_cell() - make a block of a value that is a cell
 * @mem: where from
 * @key: its key
 * @v: the value
 *
 * Context: as @mem->gfp says.
 *
 * Return: the block, or NULL.
 */
struct kvt_value *kvt_value_of_cell(const struct kvt_mem *mem, const struct kvt_key *key,
				    const struct kvt_value *v)
{
	u32 len = v->size - sizeof(*v);
	struct kvt_value *block = kvt_value_alloc(mem, key, kvt_value_head_size(key->len) + len);

	if (block)
		kvt_value_set_cell(block, v);
	return block;
}

/**
 * kvt_value_set_cell() - give a block the contents of a cell
 * @block: with its key's tail, and room for it; not published
 * @v: the cell, of the same key
 *
 * Context: any.
 */
void kvt_value_set_cell(struct kvt_value *block, const struct kvt_value *v)
{
	u32 head = kvt_value_head_size(v->key_len), len = v->size - sizeof(*v);

	block->version = v->version;
	block->size = head + len;
	block->key_len = v->key_len;
	block->ncols = v->ncols;
	memcpy((u8 *)block + head, v->body, len);
}

/**
 * kvt_value_to_cell() - make a cell of a value
 * @v: the value, which fits: kvt_value_fits_cell()
 * @cell: where
 *
 * Context: any.
 *
 * Return: @cell's value.
 */
struct kvt_value *kvt_value_to_cell(const struct kvt_value *v, struct kvt_cell *cell)
{
	const u8 *from;
	u64 data = 0;
	u32 len;

	if (!kvt_value_plain(v))
		return kvt_cell_init_empty(cell, v->key_len, v->version);
	from = kvt_value_plain_data(v, &len);
	memcpy(&data, from, len);
	return kvt_cell_init(cell, v->key_len, len, v->version, data);
}

/**
 * kvt_value_free() - free a value and its blobs at once
 * @v: a value that no reader can find, or NULL
 *
 * Context: process context, may sleep.
 */
void kvt_value_free(struct kvt_value *v)
{
	struct kvt_column col;
	unsigned int i;

	if (!v)
		return;
	if (!kvt_value_plain(v)) {
		for (i = 0; i < kvt_value_ncols(v); i++) {
			kvt_value_column(v, i, &col);
			if (col.blob)
				kvt_blob_put(col.blob);
		}
	}
	kvt_value_free_shell(v);
}
KVT_EXPORT_FOR_TESTS(kvt_value_free);

/**
 * kvt_value_free_shell() - free a value at once, but not its blobs
 * @v: a value that no reader can find, or NULL; for a cell, nothing is freed
 *
 * Context: process context, may sleep.
 */
void kvt_value_free_shell(struct kvt_value *v)
{
	if (v && !kvt_value_is_cell(v))
		kvt_mem_free(v, v->room);
}
KVT_EXPORT_FOR_TESTS(kvt_value_free_shell);

/**
 * kvt_value_set_table() - give a value a table
 * @v: a value that is being built, not published
 * @ncols: entries, to be filled with kvt_value_set_column()
 *
 * Context: any.
 */
void kvt_value_set_table(struct kvt_value *v, unsigned int ncols)
{
	v->ncols = KVT_VALUE_TABLE | ncols;
}

/**
 * kvt_value_set_column() - fill an entry of a value's table
 * @v: a value that is being built, not published
 * @i: which entry
 * @col: the column; its data are copied, its blob is referred to
 * @off: offset of the data or the pointer in the block, bytes
 *
 * Context: any.
 */
void kvt_value_set_column(struct kvt_value *v, unsigned int i, const struct kvt_column *col,
			  u32 off)
{
	struct kvt_entry *entry = value_table(v) + i;

	entry->off = off;
	entry->len = col->len;
	entry->blob = !!col->blob;
	entry->id = col->id;
	if (col->blob)
		*value_blob(v, entry) = col->blob;
	else
		memcpy((u8 *)v + off, col->data, col->len);
}

/**
 * kvt_value_column() - a column by position
 * @v: the value
 * @i: position, less than kvt_value_ncols()
 * @col: filled
 *
 * Context: any; @col is valid as long as @v is.
 */
void kvt_value_column(const struct kvt_value *v, unsigned int i, struct kvt_column *col)
{
	const struct kvt_entry *entry;

	if (kvt_value_plain(v)) {
		col->id = 0;
		col->data = kvt_value_plain_data(v, &col->len);
		col->blob = NULL;
		return;
	}
	entry = value_table(v) + i;
	col->id = entry->id;
	col->len = entry->len;
	col->blob = entry->blob ? *value_blob(v, entry) : NULL;
	col->data = col->blob ? col->blob->data : (const u8 *)v + entry->off;
}
KVT_EXPORT_FOR_TESTS(kvt_value_column);

/**
 * kvt_value_find() - a column by id
 * @v: the value
 * @id: which column
 * @col: filled if it exists
 *
 * Context: any; @col is valid as long as @v is.
 *
 * Return: whether the value has that column.
 */
bool kvt_value_find(const struct kvt_value *v, u16 id, struct kvt_column *col)
{
	unsigned int low = 0, high = kvt_value_ncols(v), mid;

	while (low < high) {
		mid = (low + high) / 2;
		kvt_value_column(v, mid, col);
		if (col->id == id)
			return true;
		if (col->id < id)
			low = mid + 1;
		else
			high = mid;
	}
	return false;
}

/**
 * kvt_value_charge() - what a value is charged against its store's limit
 * @v: the value
 *
 * This is what it takes from the allocator.  The sizes of all columns determine which are
 * in blobs (kvt_merge_plan()), so putting the same sizes again is never refused.
 *
 * Context: any.
 *
 * Return: bytes.
 */
size_t kvt_value_charge(const struct kvt_value *v)
{
	const struct kvt_entry *entry;
	size_t sum = v->room;
	unsigned int i;

	if (kvt_value_plain(v))
		return sum;
	for (i = 0; i < kvt_value_ncols(v); i++) {
		entry = value_table(v) + i;
		if (entry->blob)
			sum += blob_size(entry->len);
	}
	return sum;
}
KVT_EXPORT_FOR_TESTS(kvt_value_charge);

/*
 * A bag holds values with bits that tell how to free them.  Most values need not be
 * read for that, which would fetch each from memory.
 */
#define BAG_WHOLE	0ul	/* with its blobs */
#define BAG_SHELL	1ul	/* without them */
#define BAG_SLAB	2ul	/* the same, certainly not of vmalloc() */
#define BAG_MASK	3ul

static void *bag_entry(struct kvt_value *v, bool whole)
{
	if (whole)
		return (void *)((unsigned long)v | BAG_WHOLE);
	return (void *)((unsigned long)v | (v->room <= PAGE_SIZE ? BAG_SLAB : BAG_SHELL));
}

static void reclaim_values(void **values, unsigned int nr)
{
	unsigned int i;

	for (i = 0; i < nr; i++) {
		unsigned long how = (unsigned long)values[i] & BAG_MASK;
		void *v = (void *)((unsigned long)values[i] - how);

		/* One by one: kfree_bulk() does not leave them for the next allocation. */
		if (how == BAG_SLAB)
			kfree(v);
		else if (how == BAG_SHELL)
			kvt_value_free_shell(v);
		else
			kvt_value_free(v);
	}
}

static size_t reclaim_blob(struct llist_node *link)
{
	struct kvt_blob *blob = llist_entry(link, struct kvt_blob, retire);
	size_t bytes = blob_size(blob->len);

	kvt_blob_put(blob);
	return bytes;
}

/**
 * kvt_value_setup_reclaim() - tell a reclaim how values and blobs are freed
 * @reclaim: of kvt_reclaim_init()
 *
 * Context: process context.
 */
void kvt_value_setup_reclaim(struct kvt_reclaim *reclaim)
{
	reclaim->free_values = reclaim_values;
	reclaim->free[KVT_GARBAGE_BLOB] = reclaim_blob;
}
KVT_EXPORT_FOR_TESTS(kvt_value_setup_reclaim);

/**
 * kvt_value_retire() - hand a value over to be freed
 * @reclaim: the store's
 * @bag: a bag with room, which is given back
 * @v: a value that is no longer reachable in its index
 * @kept: a bitmap of KVTREE_COLS_MAX column ids: the blobs of those columns
 *	belong to the value that replaced it; NULL: none does
 *
 * Context: any but NMI, not under a node lock.
 */
void kvt_value_retire(struct kvt_reclaim *reclaim, struct kvt_bag *bag, struct kvt_value *v,
		      const unsigned long *kept)
{
	struct kvt_column col;
	unsigned int i;

	if (kvt_value_plain(v)) {
		kvt_reclaim_retire_value(reclaim, bag, bag_entry(v, false), v->room);
		return;
	}
	if (!kept || bitmap_empty(kept, KVTREE_COLS_MAX)) {
		kvt_reclaim_retire_value(reclaim, bag, bag_entry(v, true), kvt_value_charge(v));
		return;
	}
	for (i = 0; i < kvt_value_ncols(v); i++) {
		kvt_value_column(v, i, &col);
		if (col.blob && !test_bit(col.id, kept))
			kvt_reclaim_retire(reclaim, KVT_GARBAGE_BLOB, &col.blob->retire,
					   blob_size(col.len));
	}
	kvt_reclaim_retire_value(reclaim, bag, bag_entry(v, false), v->room);
}
KVT_EXPORT_FOR_TESTS(kvt_value_retire);
