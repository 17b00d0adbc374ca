// SPDX-License-Identifier: GPL-2.0
/*
 * The table of a device's segments, which is in memory only: recovery makes it
 * from the checkpoint's table and the trailers.
 */
#include <linux/random.h>

#include "space.h"

/* Segments that a device is told of at once. */
#define GIVE_MAX	64U

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
	/*
	 * An attach that came to no end may have written with the same generation: nothing of
	 * that is where its checksum says that it should be.
	 */
	segs->sequence = get_random_u64() >> 8;
	return segs->seg ? 0 : -ENOMEM;
}
KVT_EXPORT_FOR_TESTS(kvt_segs_init);

/**
 * kvt_segs_exit() - free a table
 * @segs: the table, or zeros
 */
void kvt_segs_exit(struct kvt_seg_table *segs)
{
	kvfree(segs->seg);
}
KVT_EXPORT_FOR_TESTS(kvt_segs_exit);

static bool state_is_image(enum kvt_seg_state state)
{
	return state == KVT_SEG_CHECKPOINT || state == KVT_SEG_NEW;
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
	segs->nr_image += state_is_image(state) - state_is_image(seg->state);
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
KVT_EXPORT_FOR_TESTS(kvt_segs_mark);

/**
 * kvt_segs_take() - take a free segment, if one is left
 * @segs: the table
 * @keep: how many are left for others
 * @state: what it will be
 * @pos: filled: its beginning
 *
 * Context: process context; under the table's lock.
 *
 * Return: 0 or KVT_LOG_NO_ROOM.
 */
int kvt_segs_take(struct kvt_seg_table *segs, u32 keep, enum kvt_seg_state state,
		  struct kvt_log_pos *pos)
{
	u32 segment, i;

	for (i = 0; segs->nr_free > keep && i < segs->nr; i++) {
		segment = segs->next;
		segs->next = segment + 1 == segs->nr ? 0 : segment + 1;
		if (segs->seg[segment].state != KVT_SEG_FREE)
			continue;
		segs_set(segs, segment, state);
		segs->taken += state == KVT_SEG_NEW;
		segs->seg[segment].open = true;
		segs->seg[segment].epoch = 0;
		pos->segment = segment;
		pos->sequence = ++segs->sequence;
		pos->block = 0;
		return 0;
	}
	return KVT_LOG_NO_ROOM;
}

/**
 * kvt_segs_used() - an epoch has something in a segment
 * @segs: the table
 * @segment: which
 * @epoch: streams may be at different ones: the last one counts
 */
void kvt_segs_used(struct kvt_seg_table *segs, u32 segment, u64 epoch)
{
	spin_lock(&segs->lock);
	segs->seg[segment].epoch = max(segs->seg[segment].epoch, epoch);
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

/* Whether a checkpoint of an epoch makes a segment of the log useless. */
static bool seg_replayed(const struct kvt_seg *seg, u64 epoch)
{
	return seg->state == KVT_SEG_LOG && !seg->open && seg->epoch <= epoch;
}

/**
 * kvt_segs_save_begin() - a checkpoint is made from now on
 * @segs: the table
 * @epoch: that it contains
 * @full: it writes all that is live
 *
 * What it will free is counted: when it counts, that will not be less.
 *
 * Context: process context, sleeps; under the log's checkpoint_lock.
 */
void kvt_segs_save_begin(struct kvt_seg_table *segs, u64 epoch, bool full)
{
	u32 nr = 0, i;

	for (i = 0; i < segs->nr; i++) {
		spin_lock(&segs->lock);
		segs->seg[i].kept = false;
		nr += seg_replayed(&segs->seg[i], epoch) ||
		      (full && segs->seg[i].state == KVT_SEG_CHECKPOINT);
		spin_unlock(&segs->lock);
		cond_resched();
	}
	spin_lock(&segs->lock);
	segs->taken = 0;
	segs->useless = nr;
	segs->full = full;
	segs->saving = true;
	spin_unlock(&segs->lock);
}
KVT_EXPORT_FOR_TESTS(kvt_segs_save_begin);

/* Whether a checkpoint of an epoch has made a segment useless. */
static bool seg_useless(const struct kvt_seg *seg, u64 epoch)
{
	return (seg->state == KVT_SEG_CHECKPOINT && !seg->kept) || seg_replayed(seg, epoch);
}

/**
 * kvt_segs_save_end() - a checkpoint counts, or came to nothing: find out what is useless
 * @segs: the table
 * @epoch: that it contains
 * @counts: false: what it took is useless
 *
 * Context: process context, sleeps; under the log's checkpoint_lock; kvt_segs_give() must
 * follow.
 */
void kvt_segs_save_end(struct kvt_seg_table *segs, u64 epoch, bool counts)
{
	u32 nr = 0, i;

	for (i = 0; i < segs->nr; i++) {
		bool made = segs->seg[i].state == KVT_SEG_NEW;

		spin_lock(&segs->lock);
		if (counts ? seg_useless(&segs->seg[i], epoch) : made) {
			segs_set(segs, i, KVT_SEG_USELESS);
			nr++;
		} else if (made) {
			segs_set(segs, i, KVT_SEG_CHECKPOINT);
		}
		spin_unlock(&segs->lock);
		cond_resched();
	}
	spin_lock(&segs->lock);
	segs->useless = nr;
	segs->saving = false;
	spin_unlock(&segs->lock);
}
KVT_EXPORT_FOR_TESTS(kvt_segs_save_end);

/* The next useless segments in a row, from one on.  Nobody else changes them. */
static u32 segs_useless(const struct kvt_seg_table *segs, u32 *at, u32 max)
{
	u32 nr = 0;

	while (*at < segs->nr && READ_ONCE(segs->seg[*at].state) != KVT_SEG_USELESS)
		++*at;
	while (*at + nr < segs->nr && nr < max &&
	       READ_ONCE(segs->seg[*at + nr].state) == KVT_SEG_USELESS)
		nr++;
	return nr;
}

/**
 * kvt_segs_give() - give back what is useless
 * @part: of the space
 * @max: how much of it
 * @discard: tell the device before
 *
 * Context: process context, sleeps; under the log's checkpoint_lock.
 */
void kvt_segs_give(struct kvt_part *part, u32 max, bool discard)
{
	struct kvt_seg_table *segs = &part->segs;
	u32 at = 0, nr, i;

	while ((nr = segs_useless(segs, &at, min(max, GIVE_MAX)))) {
		if (discard)
			kvt_dev_discard(part->dev, at, nr);
		spin_lock(&segs->lock);
		for (i = 0; i < nr; i++)
			segs_set(segs, at + i, KVT_SEG_FREE);
		segs->useless -= nr;
		spin_unlock(&segs->lock);
		at += nr;
		max -= nr;
		cond_resched();
	}
}
