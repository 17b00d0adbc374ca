// SPDX-License-Identifier: GPL-2.0
/* A value and changes of some of its columns make another value. */
#include <linux/bitmap.h>
#include <linux/errno.h>
#include <linux/string.h>

#include "compat.h"
#include "merge.h"

/* Walks the columns of the value that is to be, ascending by id. */
struct merge_walk {
	const struct kvt_merge *merge;
	unsigned int old;	/* position in the old value */
	unsigned int nold;
	unsigned int edit;	/* position in the edits */
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
	walk_start(&walk, merge);
	while (walk_next(&walk, &col)) {
		merge->ncols++;
		merge->plain = merge->ncols == 1 && !col.id && !col.blob;
		total += col.len;
		if (col.blob) {
			merge->nblobs++;
			continue;
		}
		in_block += col.len;
		if (col.len > KVT_INLINE_ALWAYS)
			in_budget += col.len;
	}
	merge->excess = in_budget > KVT_INLINE_MAX ? in_budget - KVT_INLINE_MAX : 0;
	merge->size = kvt_value_head_size(merge->key_len) + in_block;
	if (!merge->plain)
		merge->size += merge->ncols * KVT_VALUE_ENTRY +
			       merge->nblobs * sizeof(struct kvt_blob *);
	return total > KVTREE_VALUE_MAX ? -E2BIG : 0;
}
KVT_EXPORT_FOR_TESTS(kvt_merge_plan);

/**
 * kvt_merge_fill() - build the merged value
 * @merge: planned, with the same old value and edits, and without excess
 * @v: of kvt_value_alloc(), with room for at least @merge->size bytes
 * @kept: a bitmap of KVTREE_COLS_MAX column ids, set where @v and the old
 *	value share a blob; see kvt_value_retire()
 *
 * Copies at most about 8 KiB.
 *
 * Context: any that @merge->old is valid in.
 */
void kvt_merge_fill(const struct kvt_merge *merge, struct kvt_value *v, unsigned long *kept)
{
	u32 head = kvt_value_head_size(merge->key_len);
	u32 blobs = head + merge->ncols * KVT_VALUE_ENTRY;
	u32 data = blobs + merge->nblobs * sizeof(struct kvt_blob *);
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
		if (col.blob) {
			kvt_value_set_column(v, i++, &col, blobs);
			blobs += sizeof(struct kvt_blob *);
			if (walk.kept)
				__set_bit(col.id, kept);
		} else {
			kvt_value_set_column(v, i++, &col, data);
			data += col.len;
		}
	}
}
KVT_EXPORT_FOR_TESTS(kvt_merge_fill);
