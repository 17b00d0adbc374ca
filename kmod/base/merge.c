// SPDX-License-Identifier: GPL-2.0
/* Building a value from another one and changes of some of its columns. */
#include <linux/errno.h>
#include <linux/string.h>

#include "compat.h"
#include "merge.h"

/* Walks the columns of the future value, ascending by id. */
struct merge_walk {
	const struct kvt_merge *merge;
	unsigned int old;	/* position in the old value */
	unsigned int nold;
	unsigned int edit;	/* position in the edits, of the next */
	bool kept;		/* the column comes from the old value */
};

static void walk_start(struct merge_walk *walk, const struct kvt_merge *merge)
{
	*walk = (struct merge_walk) {
		.merge = merge,
		.nold = merge->old ? kvt_value_ncols(merge->old) : 0,
	};
}

static bool walk_next(struct merge_walk *walk, struct kvt_column *col)
{
	const struct kvt_merge *merge = walk->merge;
	const struct kvt_column *edit;

	for (;;) {
		edit = walk->edit < merge->nr ? &merge->edits[walk->edit] : NULL;
		if (walk->old < walk->nold) {
			kvt_value_column(merge->old, walk->old, col);
			if (!edit || col->id < edit->id) {
				walk->old++;
				walk->kept = true;
				return true;
			}
			if (col->id == edit->id)
				walk->old++;
		}
		if (!edit)
			return false;
		walk->edit++;
		if (edit->len == KVTREE_COL_ABSENT)
			continue;
		*col = *edit;
		walk->kept = false;
		return true;
	}
}

/*
 * Columns in the block have @excess bytes too many: move longer ones to blobs first, and
 * among those of similar length the ones with lower ids.  Returns the bytes moved.
 */
static u32 merge_move(struct kvt_merge *merge, u32 excess)
{
	struct merge_walk walk;
	struct kvt_column col;
	u32 moved = 0, len;

	for (len = KVT_BLOB_MIN / 2; moved < excess; len /= 2) {
		walk_start(&walk, merge);
		while (moved < excess && walk_next(&walk, &col)) {
			if (col.len <= len || test_bit(col.id, merge->apart))
				continue;
			__set_bit(col.id, merge->apart);
			merge->nblobs++;
			moved += col.len;
		}
	}
	return moved;
}

/* Look for columns that must be kept apart and are in no blob. */
static void merge_seek_blobs(struct kvt_merge *merge)
{
	struct kvt_blob *spare;
	struct merge_walk walk;
	struct kvt_column col;

	walk_start(&walk, merge);
	while (walk_next(&walk, &col)) {
		if (col.blob || !test_bit(col.id, merge->apart))
			continue;
		if (!walk.kept) {
			merge->edits_lack = true;
			continue;
		}
		if (merge->old_lacks)
			continue;
		spare = llist_entry(*merge->rest, struct kvt_blob, retire);
		if (*merge->rest && spare->len == col.len)
			merge->rest = &spare->retire.next;
		else
			merge->old_lacks = col.len;
	}
}

/**
 * kvt_merge_plan() - how large a merged value will be
 * @merge: in and out
 *
 * Context: any that @merge->old is valid in.
 *
 * Return: 0, or -E2BIG: more than KVTREE_VALUE_MAX bytes.
 */
int kvt_merge_plan(struct kvt_merge *merge)
{
	u32 in_block = 0, in_budget = 0;
	struct merge_walk walk;
	struct kvt_column col;
	u64 total = 0;

	merge->ncols = 0;
	merge->nblobs = 0;
	merge->plain = false;
	merge->edits_lack = false;
	merge->old_lacks = 0;
	merge->rest = &merge->spare;
	bitmap_zero(merge->apart, KVTREE_COLS_MAX);
	walk_start(&walk, merge);
	while (walk_next(&walk, &col)) {
		merge->ncols++;
		merge->plain = merge->ncols == 1 && !col.id && col.len <= KVT_BLOB_MIN;
		total += col.len;
		if (col.len > KVT_BLOB_MIN) {
			__set_bit(col.id, merge->apart);
			merge->nblobs++;
			continue;
		}
		in_block += col.len;
		if (col.len > KVT_INLINE_ALWAYS)
			in_budget += col.len;
	}
	if (in_budget > KVT_INLINE_MAX)
		in_block -= merge_move(merge, in_budget - KVT_INLINE_MAX);
	if (merge->nblobs)
		merge_seek_blobs(merge);
	merge->size = kvt_value_head_size(merge->key_len) + in_block;
	if (!merge->plain)
		merge->size += merge->ncols * KVT_VALUE_ENTRY +
			       merge->nblobs * sizeof(struct kvt_blob *);
	return total > KVTREE_VALUE_MAX ? -E2BIG : 0;
}
KVT_EXPORT_FOR_TESTS(kvt_merge_plan);

/**
 * kvt_merge_give_blobs() - move the edits to blobs that must be kept apart
 * @merge: planned
 * @edits: its edits
 * @mem: which cgroup is charged, and how to allocate
 *
 * Context: as @mem->gfp says; outside of what @merge->old is valid in.
 *
 * Return: 0 or -ENOMEM.
 */
int kvt_merge_give_blobs(const struct kvt_merge *merge, struct kvt_column *edits,
			 const struct kvt_mem *mem)
{
	struct kvt_column *col;
	unsigned int i;
	int err = 0;

	for (i = 0; i < merge->nr && !err; i++) {
		col = &edits[i];
		if (!col->blob && col->len != KVTREE_COL_ABSENT && test_bit(col->id, merge->apart))
			err = kvt_blob_move(mem, col);
	}
	return err;
}
KVT_EXPORT_FOR_TESTS(kvt_merge_give_blobs);

/**
 * kvt_merge_fill() - build the merged value
 * @merge: planned, with the same old value, edits and spares, and ready
 * @v: of kvt_value_alloc(), with room for at least @merge->size bytes
 * @kept: a bitmap of KVTREE_COLS_MAX column ids, set where @v and the old
 *	value share a blob; see kvt_value_retire()
 *
 * Edits kept apart are in their own blobs, and other columns that moved are in the
 * spares before @merge->rest.  Copies at most about 12 KiB.
 *
 * Context: any that @merge->old is valid in.
 */
void kvt_merge_fill(const struct kvt_merge *merge, struct kvt_value *v, unsigned long *kept)
{
	u32 head = kvt_value_head_size(merge->key_len);
	u32 blobs = head + merge->ncols * KVT_VALUE_ENTRY;
	u32 data = blobs + merge->nblobs * sizeof(struct kvt_blob *);
	struct llist_node *spare = merge->spare;
	struct merge_walk walk;
	struct kvt_column col;
	unsigned int i = 0;

	bitmap_zero(kept, KVTREE_COLS_MAX);
	v->size = merge->size;
	walk_start(&walk, merge);
	if (merge->plain) {
		v->ncols = 0;
		walk_next(&walk, &col);
		memcpy((u8 *)v + head, col.data, col.len);
		return;
	}
	kvt_value_set_table(v, merge->ncols);
	while (walk_next(&walk, &col)) {
		if (!test_bit(col.id, merge->apart)) {
			/* In the old value it may be in a blob. */
			col.blob = NULL;
			kvt_value_set_column(v, i++, &col, data);
			data += col.len;
			continue;
		}
		if (!col.blob) {
			col.blob = llist_entry(spare, struct kvt_blob, retire);
			memcpy(col.blob->data, col.data, col.len);
			spare = spare->next;
		} else if (walk.kept) {
			__set_bit(col.id, kept);
		}
		kvt_value_set_column(v, i++, &col, blobs);
		blobs += sizeof(struct kvt_blob *);
	}
}
KVT_EXPORT_FOR_TESTS(kvt_merge_fill);
