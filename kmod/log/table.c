// SPDX-License-Identifier: GPL-2.0
/*
 * The table of a device's segments, which is in memory only: recovery makes it
 * from the checkpoint's table and the trailers.
 */
#include "../stats.h"
#include "internal.h"

/**
 * kvt_segs_init() - make a table in which all are free
 * @segs: filled
 * @nr: how many segments
 *
 * Context: process context, may sleep.
 *
 * Return: 0 or -ENOMEM.
 */
int kvt_segs_init(struct kvt_seg_table *segs, u32 nr)
{
	spin_lock_init(&segs->lock);
	segs->seg = kvcalloc(nr, sizeof(*segs->seg), GFP_KERNEL);
	segs->nr = nr;
	segs->nr_free = nr;
	return segs->seg ? 0 : -ENOMEM;
}

/**
 * kvt_segs_exit() - free a table
 * @segs: the table, or zeros
 */
void kvt_segs_exit(struct kvt_seg_table *segs)
{
	kvfree(segs->seg);
}

/* Under the table's lock. */
static void segs_set(struct kvt_seg_table *segs, u32 segment, enum kvt_seg_state state)
{
	struct kvt_seg *seg = &segs->seg[segment];

	if (seg->state == KVT_SEG_FREE && state != KVT_SEG_FREE)
		segs->nr_free--;
	else if (seg->state != KVT_SEG_FREE && state == KVT_SEG_FREE)
		segs->nr_free++;
	segs->nr_log += (state == KVT_SEG_LOG) - (seg->state == KVT_SEG_LOG);
	seg->state = state;
}

/**
 * kvt_segs_mark() - say what recovery found in a segment
 * @segs: the table
 * @segment: which
 * @state: what it is
 * @epoch: the last one that may be in it
 *
 * Context: process context.
 */
void kvt_segs_mark(struct kvt_seg_table *segs, u32 segment, enum kvt_seg_state state, u64 epoch)
{
	spin_lock(&segs->lock);
	segs_set(segs, segment, state);
	segs->seg[segment].epoch = epoch;
	spin_unlock(&segs->lock);
}

/* Take a free segment if more than @keep are free. */
static int segs_find(struct kvt_seg_table *segs, enum kvt_seg_state state, u32 keep,
		     struct kvt_log_pos *pos)
{
	int err = -ENOSPC;
	u32 i;

	spin_lock(&segs->lock);
	for (i = 0; segs->nr_free > keep && i < segs->nr; i++) {
		u32 segment = segs->next;

		segs->next = segment + 1 == segs->nr ? 0 : segment + 1;
		if (segs->seg[segment].state != KVT_SEG_FREE)
			continue;
		segs_set(segs, segment, state);
		segs->seg[segment].open = true;
		segs->seg[segment].epoch = 0;
		pos->segment = segment;
		pos->sequence = ++segs->sequence;
		pos->block = 0;
		err = 0;
		break;
	}
	spin_unlock(&segs->lock);
	return err;
}

/**
 * kvt_segs_take() - take a free segment and write its header
 * @dev: the device
 * @state: what it becomes
 * @kind: what it will hold
 * @stream: whose chunks
 * @keep: how many must be left
 * @pos: filled: its first block behind the header
 *
 * Context: process context, sleeps.
 *
 * Return: 0; -ENOSPC; -ENOMEM; or an error of the device.
 */
int kvt_segs_take(struct kvt_log_dev *dev, enum kvt_seg_state state, enum kvtree_log_kind kind,
		  u32 stream, u32 keep, struct kvt_log_pos *pos)
{
	struct kvtree_log_segment *head;
	int err;

	head = kmalloc(sizeof(*head), GFP_NOIO | __GFP_NOFAIL);
	err = segs_find(&dev->segs, state, keep, pos);
	if (!err) {
		kvt_log_segment_fill(head, dev->super, dev->log->generation, pos, kind, stream);
		err = kvt_dev_write(dev, kvt_log_pos_block(dev->super, pos), 1, head);
		pos->block = 1;
	}
	kfree(head);
	return err;
}

/**
 * kvt_segs_used() - an epoch has something in a segment
 * @segs: the table
 * @segment: which
 * @epoch: not smaller than those before
 */
void kvt_segs_used(struct kvt_seg_table *segs, u32 segment, u64 epoch)
{
	spin_lock(&segs->lock);
	segs->seg[segment].epoch = epoch;
	spin_unlock(&segs->lock);
}

/**
 * kvt_segs_shut() - nothing more is written to a segment
 * @segs: the table
 * @segment: which
 */
void kvt_segs_shut(struct kvt_seg_table *segs, u32 segment)
{
	spin_lock(&segs->lock);
	segs->seg[segment].open = false;
	spin_unlock(&segs->lock);
}

/**
 * kvt_segs_low() - whether it is time for a checkpoint
 * @segs: the table
 * @keep: segments that the streams leave
 *
 * Return: true if the log has more segments than it can still take.
 */
bool kvt_segs_low(struct kvt_seg_table *segs, u32 keep)
{
	return READ_ONCE(segs->nr_free) < READ_ONCE(segs->nr_log) + keep;
}

/**
 * kvt_segs_short() - whether a checkpoint has to be made quickly
 * @segs: the table
 * @keep: segments that the streams leave
 *
 * Return: true if the log can take no more than half of what it has.
 */
bool kvt_segs_short(struct kvt_seg_table *segs, u32 keep)
{
	return READ_ONCE(segs->nr_free) < READ_ONCE(segs->nr_log) / 2 + keep;
}

/* Give a segment back.  Nobody else changes it. */
static void segs_give(struct kvt_log_dev *dev, u32 segment)
{
	kvt_dev_discard(dev, segment);
	spin_lock(&dev->segs.lock);
	segs_set(&dev->segs, segment, KVT_SEG_FREE);
	spin_unlock(&dev->segs.lock);
}

/* Whether a checkpoint of an epoch makes a segment useless. */
static bool seg_useless(const struct kvt_seg *seg, u64 epoch)
{
	return seg->state == KVT_SEG_CHECKPOINT ||
	       (seg->state == KVT_SEG_LOG && !seg->open && seg->epoch <= epoch);
}

/**
 * kvt_segs_useless() - how many segments a checkpoint will free
 * @segs: the table
 * @epoch: that it contains
 *
 * Return: those that kvt_segs_checkpoint() would give back now; it will not be less.
 */
u32 kvt_segs_useless(struct kvt_seg_table *segs, u64 epoch)
{
	u32 nr = 0, i;

	for (i = 0; i < segs->nr; i++) {
		spin_lock(&segs->lock);
		nr += seg_useless(&segs->seg[i], epoch);
		spin_unlock(&segs->lock);
		cond_resched();
	}
	return nr;
}

/**
 * kvt_segs_checkpoint() - a new checkpoint counts: free what it makes useless
 * @dev: the device
 * @epoch: that it contains
 *
 * Context: process context, sleeps; under the log's checkpoint_lock.
 */
void kvt_segs_checkpoint(struct kvt_log_dev *dev, u64 epoch)
{
	struct kvt_seg_table *segs = &dev->segs;
	bool useless;
	u32 i;

	for (i = 0; i < segs->nr; i++) {
		spin_lock(&segs->lock);
		useless = seg_useless(&segs->seg[i], epoch);
		if (segs->seg[i].state == KVT_SEG_NEW)
			segs_set(segs, i, KVT_SEG_CHECKPOINT);
		spin_unlock(&segs->lock);
		if (useless)
			segs_give(dev, i);
		cond_resched();
	}
}

/**
 * kvt_segs_drop_new() - a checkpoint came to nothing: free what it took
 * @dev: the device
 *
 * Context: process context, sleeps; under the log's checkpoint_lock.
 */
void kvt_segs_drop_new(struct kvt_log_dev *dev)
{
	u32 i;

	for (i = 0; i < dev->segs.nr; i++)
		if (READ_ONCE(dev->segs.seg[i].state) == KVT_SEG_NEW)
			segs_give(dev, i);
}
