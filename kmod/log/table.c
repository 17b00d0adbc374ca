// SPDX-License-Identifier: GPL-2.0
/*
 * The table of a device's segments.  It is in memory only: recovery rebuilds it from the
 * checkpoint's table and the trailers.
 */
#include <linux/random.h>

#include "space.h"

/**
 * kvt_segs_init() - make a table in which all segments are free
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
	 * An attach that did not complete may have written with the same generation.  With other
	 * sequence numbers, the checksums of what it wrote do not match.
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

static void segs_free(struct kvt_seg_table *segs, struct kvt_seg *seg)
{
	segs->nr_free++;
	segs->nr_base -= seg->base;
	seg->base = false;
}

/* Under the table's lock. */
static void segs_set(struct kvt_seg_table *segs, u32 segment, enum kvt_seg_state state)
{
	struct kvt_seg *seg = &segs->seg[segment];

	if (seg->state == KVT_SEG_FREE && state != KVT_SEG_FREE)
		segs->nr_free--;
	else if (seg->state != KVT_SEG_FREE && state == KVT_SEG_FREE)
		segs_free(segs, seg);
	segs->nr_log += (state == KVT_SEG_LOG) - (seg->state == KVT_SEG_LOG);
	segs->nr_image += state_is_image(state) - state_is_image(seg->state);
	seg->state = state;
}

/**
 * kvt_segs_mark() - note what recovery found in a segment
 * @segs: the table
 * @segment: which
 * @state: its state
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
 * @keep: how many must stay free for other uses
 * @state: its new state
 * @pos: filled: the segment's first block
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
		if (state == KVT_SEG_NEW && segs->planned)
			WRITE_ONCE(segs->planned, segs->planned - 1);
		segs->seg[segment].open = true;
		segs->seg[segment].epoch = 0;
		segs->seg[segment].stale = false;
		pos->segment = segment;
		pos->sequence = ++segs->sequence;
		pos->block = 0;
		return 0;
	}
	return KVT_LOG_NO_ROOM;
}
KVT_EXPORT_FOR_TESTS(kvt_segs_take);

/**
 * kvt_segs_base() - note whether a segment has bases, and nothing else
 * @segs: the table
 * @segment: which; not free
 * @base: whether it has
 *
 * Context: process context; under the table's lock.
 */
void kvt_segs_base(struct kvt_seg_table *segs, u32 segment, bool base)
{
	segs->nr_base += base - segs->seg[segment].base;
	segs->seg[segment].base = base;
}
KVT_EXPORT_FOR_TESTS(kvt_segs_base);

/**
 * kvt_segs_used() - note that an epoch has records in a segment
 * @segs: the table
 * @segment: which
 * @epoch: the epoch; streams may write different ones, and the last one is kept
 */
void kvt_segs_used(struct kvt_seg_table *segs, u32 segment, u64 epoch)
{
	spin_lock(&segs->lock);
	segs->seg[segment].epoch = max(segs->seg[segment].epoch, epoch);
	spin_unlock(&segs->lock);
}

/**
 * kvt_segs_shut() - note that nothing more is written to a segment
 * @segs: the table
 * @segment: which
 */
void kvt_segs_shut(struct kvt_seg_table *segs, u32 segment)
{
	spin_lock(&segs->lock);
	segs->seg[segment].open = false;
	spin_unlock(&segs->lock);
}

/* Whether nothing in a segment of the log has to be replayed after a checkpoint of an epoch. */
static bool seg_replayed(const struct kvt_seg *seg, u64 epoch)
{
	return seg->state == KVT_SEG_LOG && !seg->open && seg->epoch <= epoch;
}

/**
 * kvt_segs_save_begin() - begin a checkpoint
 * @segs: the table
 * @epoch: the epoch that it contains
 * @full: it writes all that is live
 *
 * This counts the segments of the log that the checkpoint will free when it takes effect.
 *
 * Context: process context, sleeps; under the log's checkpoint_lock.
 */
void kvt_segs_save_begin(struct kvt_seg_table *segs, u64 epoch, bool full)
{
	u32 nr = 0, i;

	for (i = 0; i < segs->nr; i++) {
		spin_lock(&segs->lock);
		nr += seg_replayed(&segs->seg[i], epoch);
		spin_unlock(&segs->lock);
		cond_resched();
	}
	spin_lock(&segs->lock);
	segs->leave = 0;
	segs->planned = 0;
	segs->useless = nr;
	segs->full = full;
	segs->saving = true;
	spin_unlock(&segs->lock);
}
KVT_EXPORT_FOR_TESTS(kvt_segs_save_begin);

/* Whether a segment is useless after a step of a checkpoint of an epoch. */
static bool seg_useless(const struct kvt_seg *seg, u64 epoch, bool last)
{
	return (seg->state == KVT_SEG_CHECKPOINT && !seg->kept) ||
	       (last && seg_replayed(seg, epoch));
}

/* End a step for a segment.  A step that does not count makes useless what it took. */
static void seg_step_end(struct kvt_seg_table *segs, u32 i, bool useless)
{
	struct kvt_seg *seg = &segs->seg[i];

	if (useless)
		segs_set(segs, i, KVT_SEG_USELESS);
	else if (seg->state == KVT_SEG_NEW)
		segs_set(segs, i, KVT_SEG_CHECKPOINT);
	seg->kept = false;
}

/**
 * kvt_segs_step_end() - end a step of a checkpoint: find out which segments are useless
 * @segs: the table
 * @epoch: the epoch that the checkpoint contains
 * @counts: the step has taken effect; false: it failed, and the segments it took are useless
 * @last: the checkpoint has ended, and frees the log too; a step that failed is the last one
 *
 * Context: process context, sleeps; under the log's checkpoint_lock; kvt_segs_give() must
 * follow.
 */
void kvt_segs_step_end(struct kvt_seg_table *segs, u64 epoch, bool counts, bool last)
{
	u32 useless = 0, bases = 0, later = 0, i;

	for (i = 0; i < segs->nr; i++) {
		struct kvt_seg *seg = &segs->seg[i];
		bool none;

		spin_lock(&segs->lock);
		none = counts ? seg_useless(seg, epoch, last) : seg->state == KVT_SEG_NEW;
		seg_step_end(segs, i, none);
		useless += none;
		bases += none && seg->base;
		later += seg_replayed(seg, epoch);
		spin_unlock(&segs->lock);
		cond_resched();
	}
	spin_lock(&segs->lock);
	segs->useless = last ? useless : later;
	segs->useless_bases = bases;
	segs->leave = 0;
	segs->planned = 0;
	segs->saving = !last;
	spin_unlock(&segs->lock);
}
KVT_EXPORT_FOR_TESTS(kvt_segs_step_end);

/* Find the next run of useless segments, from *@at on.  Only the caller changes their state. */
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
 * kvt_segs_give() - free useless segments
 * @part: of the space
 * @max: how many of them
 * @discard: discard them on the device before
 *
 * Context: process context, sleeps; under the log's checkpoint_lock.
 */
void kvt_segs_give(struct kvt_part *part, u32 max, bool discard)
{
	struct kvt_seg_table *segs = &part->segs;
	u32 at = 0, nr, i;

	while ((nr = segs_useless(segs, &at, min(max, KVT_GIVE_MAX)))) {
		if (discard)
			kvt_dev_discard(part->dev, at, nr);
		spin_lock(&segs->lock);
		for (i = 0; i < nr; i++) {
			segs_set(segs, at + i, KVT_SEG_FREE);
			segs->seg[at + i].stale = !discard;
		}
		/* During a checkpoint, this is what it will free at its end. */
		if (!segs->saving)
			segs->useless -= nr;
		spin_unlock(&segs->lock);
		at += nr;
		max -= nr;
		cond_resched();
	}
}
KVT_EXPORT_FOR_TESTS(kvt_segs_give);

/**
 * kvt_segs_regain() - make free segments useless that were not discarded, so that they will be
 * @segs: the table; no checkpoint is being made
 * @max: how many of them
 *
 * Context: process context, sleeps; under the log's checkpoint_lock; kvt_segs_give() must follow.
 *
 * Return: how many.
 */
u32 kvt_segs_regain(struct kvt_seg_table *segs, u32 max)
{
	u32 nr = 0, i;

	for (i = 0; nr < max && i < segs->nr; i++) {
		struct kvt_seg *seg = &segs->seg[i];

		spin_lock(&segs->lock);
		if (seg->state == KVT_SEG_FREE && seg->stale) {
			segs_set(segs, i, KVT_SEG_USELESS);
			segs->useless++;
			nr++;
		}
		spin_unlock(&segs->lock);
		cond_resched();
	}
	return nr;
}
KVT_EXPORT_FOR_TESTS(kvt_segs_regain);
