// SPDX-License-Identifier: GPL-2.0
/* Preparing a write while nothing is held, and building its merged value. */
#include <linux/bitops.h>
#include <linux/err.h>
#include <linux/llist.h>
#include <linux/rcupdate.h>
#include <linux/unaligned.h>

#include "hook.h"
#include "writer.h"

/* After this many blocks of the wrong size, take one that is always large enough. */
#define WRITER_GUESSES	3

/* Whether the result of the planned merge can be a cell. */
static bool writer_may_be_cell(const struct writer *w)
{
	return w->change.index->ops->cells && !w->no_cell &&
	       (w->merge.plain || !w->merge.ncols) &&
	       w->merge.key_len <= KVT_KEY_HEAD && w->merge.size <= sizeof(w->cell);
}

/* Whether the block has room for the result. */
static bool writer_has_room(const struct writer *w)
{
	if (kvt_value_is_cell(w->block))
		return writer_may_be_cell(w);
	return w->merge.size <= w->block->room;
}

/**
 * kvt_writer_wastes() - whether the block takes more than the merge needs
 * @w: the writer; the merge is planned
 *
 * Context: any.
 *
 * Return: true if another block would be smaller.
 */
bool kvt_writer_wastes(const struct writer *w)
{
	if (kvt_value_is_cell(w->block))
		return false;
	return writer_may_be_cell(w) || w->block->room > kvt_mem_size(w->merge.size);
}

static int writer_take_cell(struct writer *w)
{
	if (w->block && kvt_value_is_cell(w->block))
		return 0;
	w->guesses++;
	kvt_value_free_shell(w->block);
	w->block = kvt_cell_init(&w->cell, w->merge.key_len, 0, 0, 0);
	return 0;
}

/* Get a block with room for the planned merge. */
static int writer_alloc(struct writer *w)
{
	struct kvt_mem mem = kvt_op_mem(w->ctx);
	u32 size = w->merge.size;

	if (writer_may_be_cell(w) &&
	    (w->guesses < WRITER_GUESSES || (w->block && kvt_value_is_cell(w->block))))
		return writer_take_cell(w);
	if (w->guesses >= WRITER_GUESSES)
		size = KVT_VALUE_SIZE_MAX;
	if (w->block && w->block->room == kvt_mem_size(size))
		return 0;
	w->guesses++;
	kvt_value_free_shell(w->block);
	w->block = kvt_value_alloc(&mem, &w->write->key, size);
	return w->block ? 0 : -ENOMEM;
}

/**
 * kvt_writer_leave_cell() - get a block for a value that its leaf cannot keep as a cell
 * @w: the writer of a whole value, with no_cell set
 *
 * Context: nothing is held; sleeps if the writer may.
 *
 * Return: 0 or -ENOMEM.
 */
int kvt_writer_leave_cell(struct writer *w)
{
	struct kvt_mem mem = kvt_op_mem(w->ctx);

	if (!w->block)
		w->block = kvt_value_of_cell(&mem, &w->write->key, w->write->value);
	return w->block ? 0 : -ENOMEM;
}

/* Free the spare blobs that the planned merge does not use. */
static void writer_free_spares(struct writer *w)
{
	struct llist_node *link, *next;

	for (link = *w->merge.rest; link; link = next) {
		next = link->next;
		kvt_blob_put(llist_entry(link, struct kvt_blob, retire));
	}
	*w->merge.rest = NULL;
}

/* Get the next blob to which a column of the old value moves. */
static int writer_get_spare(struct writer *w)
{
	struct kvt_mem mem = kvt_op_mem(w->ctx);
	struct kvt_blob *blob;

	writer_free_spares(w);
	blob = kvt_blob_alloc(&mem, w->merge.old_lacks);
	if (!blob)
		return -ENOMEM;
	blob->retire.next = NULL;
	*w->merge.rest = &blob->retire;
	return 0;
}

/* Get the blobs that the planned merge lacks. */
static int writer_get_blobs(struct writer *w)
{
	struct kvt_mem mem = kvt_op_mem(w->ctx);
	int err = 0;

	if (w->merge.edits_lack)
		err = kvt_merge_give_blobs(&w->merge, w->write->cols, &mem);
	if (!err && w->merge.old_lacks)
		err = writer_get_spare(w);
	return err;
}

/* Look at the present value to learn how large the merged one will be. */
static int writer_look(struct writer *w)
{
	struct kvt_index *index = w->change.index;
	struct kvt_cell cell;
	struct kvt_value *v;
	int err;

	do {
		rcu_read_lock();
		v = index->ops->get(index, &w->write->key, &cell);
		w->merge.old = IS_ERR(v) || w->op->flags & KVTREE_F_WHOLE ? NULL : v;
		err = IS_ERR(v) ? PTR_ERR(v) : kvt_merge_plan(&w->merge);
		w->merge.old = NULL;
		rcu_read_unlock();
	} while (kvt_op_again(w->ctx, v));
	/* Only the value found while the place is held decides. */
	return err == -E2BIG ? 0 : err;
}

/**
 * kvt_writer_alloc() - get memory for the value that a merge makes
 * @w: the writer
 *
 * Context: nothing is held; sleeps if the writer may.
 *
 * Return: 0, -ENOMEM, or an errno of the engine's get().
 */
int kvt_writer_alloc(struct writer *w)
{
	int err;

	/* A counter usually is column 0 alone: do not look it up. */
	if (write_adds(w->op) && !w->op->col && !w->block)
		err = kvt_merge_plan(&w->merge);
	else
		err = writer_look(w);
	while (!err && !kvt_merge_ready(&w->merge))
		err = writer_get_blobs(w) ?: writer_look(w);
	return err ?: writer_alloc(w);
}

/* Compute the number that ADD stores. */
static int writer_add(struct writer *w, const struct kvt_value *old)
{
	struct kvt_column col = {};

	w->before = 0;
	if (old && kvt_value_find(old, w->op->col, &col)) {
		if (col.len != sizeof(w->sum_data))
			return -EINVAL;
		w->before = get_unaligned_le64(col.data);
	} else if (write_wants_key(w->op)) {
		/* Without the column, answer as for a missing key. */
		w->version = 0;
		return -ENOENT;
	}
	put_unaligned_le64(w->before + w->op->arg, w->sum_data);
	return 0;
}

/**
 * kvt_writer_merge() - build the merged value, if there is room for it
 * @w: the writer
 * @old: the present value, or NULL
 *
 * Context: under RCU, or while the place is held.  Does not sleep, and copies about 12 KiB at most.
 *
 * Return: WRITER_GO; WRITER_AGAIN: the block is too small or too large; WRITER_FAIL.
 */
enum writer_step kvt_writer_merge(struct writer *w, const struct kvt_value *old)
{
	int err = 0;

	if (write_adds(w->op))
		err = writer_add(w, old);
	if (err)
		return writer_fail(w, err);
	w->merge.old = w->op->flags & KVTREE_F_WHOLE ? NULL : old;
	err = kvt_merge_plan(&w->merge);
	if (err)
		return writer_fail(w, err);
	if (!kvt_merge_ready(&w->merge) || !writer_has_room(w))
		return WRITER_AGAIN;
	if (unlikely(kvt_writer_wastes(w)) && w->guesses <= WRITER_GUESSES)
		return WRITER_AGAIN;
	kvt_merge_fill(&w->merge, w->block, w->kept);
	return WRITER_GO;
}

static enum writer_step writer_ask(struct writer *w, const struct kvt_value *v)
{
	return writer_after(w, kvt_hook_validate(w->store, &w->write->key, v, &w->verdict.turn));
}

/* Merge with the present value, and ask the validator, under RCU. */
static enum writer_step writer_foresee(struct writer *w, const struct kvt_value *old)
{
	enum writer_step step;

	step = writer_check(w, old) ?: kvt_writer_merge(w, old);
	w->merge.old = NULL;
	w->verdict.seen = value_version(old);
	return step ?: writer_ask(w, w->block);
}

/**
 * kvt_writer_validate() - ask the store's validator
 * @w: the writer
 *
 * It is asked about the block that will be published, and before the place is held, since programs
 * must not run while it is.  If the old value has been replaced by the time the place is held, a
 * merge starts again.
 *
 * Context: nothing is held; reschedules if the writer may sleep.
 *
 * Return: WRITER_GO, WRITER_AGAIN, WRITER_FAIL.
 */
enum writer_step kvt_writer_validate(struct writer *w)
{
	struct kvt_index *index = w->change.index;
	struct kvt_value *v = NULL;
	enum writer_step step;
	struct kvt_cell cell;

	do {
		rcu_read_lock();
		if (write_merges(w->op))
			v = index->ops->get(index, &w->write->key, &cell);
		if (IS_ERR(v))
			step = writer_fail(w, PTR_ERR(v));
		else if (write_merges(w->op))
			step = writer_foresee(w, v);
		else
			step = writer_ask(w, w->block ?: w->write->value);
		rcu_read_unlock();
	} while (kvt_op_again(w->ctx, v));
	return step;
}

/**
 * kvt_writer_hand_over() - note that the value is published
 * @w: the writer; after a merge, the store owns the caller's blobs in that value
 *
 * Context: any.
 */
void kvt_writer_hand_over(struct writer *w)
{
	unsigned int i;

	/* A block that has become a cell was not needed. */
	if (w->new == w->block)
		w->block = NULL;
	if (!write_merges(w->op))
		return;
	w->merge.spare = *w->merge.rest;
	w->merge.rest = &w->merge.spare;
	for (i = 0; i < w->write->ncols; i++)
		if (test_bit(w->write->cols[i].id, w->merge.apart))
			w->write->cols[i].blob = NULL;
}

/**
 * kvt_writer_drop() - free what was not used
 * @w: the writer
 *
 * Context: nothing is held.
 */
void kvt_writer_drop(struct writer *w)
{
	kvt_value_free_shell(w->block);
	w->merge.rest = &w->merge.spare;
	writer_free_spares(w);
}
