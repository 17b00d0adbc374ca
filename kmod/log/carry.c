// SPDX-License-Identifier: GPL-2.0
/*
 * Carrying: after a crash, the last epoch of the open life is written again in the next life.
 *
 * All epochs before it were flushed before its commit record was written.  Its own flush may have
 * failed, or the crash may have come before the flush returned.  So what recovery has read of the
 * epoch may only be in a device's cache, and may be lost although later flushes succeed.  Writing
 * it again in place is not safe: another crash could damage what is already stable.  Instead,
 * its extents are copied to segments of the new life, and it becomes the first epoch of that life.
 * Once the superblock lists the new life, the old copy of the epoch is not needed any more.
 */
#include <linux/mm.h>
#include <linux/overflow.h>
#include <linux/sched.h>
#include <linux/sort.h>

#include "commit.h"

/* Blocks copied at once. */
#define COPY_BLOCKS	256U

/**
 * kvt_carry_init() - find out whether an epoch must be carried
 * @commits: of the log
 * @found: what a recovery restores
 */
void kvt_carry_init(struct kvt_commits *commits, const struct kvt_log_found *found)
{
	const struct kvt_devs *devs = &commits->log.devs;
	const struct kvtree_log_super *super = devs->set.dev[0].super;
	u32 nr = le32_to_cpu(super->nr_lives);
	const struct kvtree_log_life *last;

	if (devs->read_only || !nr)
		return;
	last = &super->lives[nr - 1];
	/* If a later epoch had been begun, this one would be stable. */
	if (last->last_epoch || found->epoch != found->seen ||
	    found->epoch < le64_to_cpu(last->first_epoch))
		return;
	/* The superblock listed this life only when the epoch that it carries was stable. */
	if (found->epoch == le64_to_cpu(last->first_epoch) &&
	    last->flags & cpu_to_le32(KVTREE_LOG_LIFE_CARRIED))
		return;
	/* A checkpoint that was made before a life may rely on it: see life_secure(). */
	if (found->epoch <= le64_to_cpu(super->checkpoint.epoch) +
			    le32_to_cpu(super->checkpoint.met))
		return;
	commits->carry.epoch = found->epoch;
	commits->carry.time = found->time;
}

/**
 * kvt_carry_exit() - forget the epoch to be carried
 * @commits: of the log
 */
void kvt_carry_exit(struct kvt_commits *commits)
{
	kvfree(commits->carry.extent);
	commits->carry = (struct kvt_carry) {};
}

/**
 * kvt_carry_note() - note an extent if it has to be carried
 * @commits: of the log
 * @extent: an extent that a recovery restores
 *
 * Context: process context, sleeps; called by recovery.
 *
 * Return: 0 or -ENOMEM.
 */
int kvt_carry_note(struct kvt_commits *commits, const struct kvt_log_extent *extent)
{
	struct kvt_carry *carry = &commits->carry;
	struct kvt_log_extent *more;
	u32 room;

	if (!carry->epoch || extent->epoch != carry->epoch)
		return 0;
	if (carry->nr == carry->room) {
		room = max(2 * carry->room, 64U);
		more = kvmalloc_array(room, sizeof(*more), GFP_KERNEL);
		if (!more)
			return -ENOMEM;
		memcpy(more, carry->extent, array_size(carry->nr, sizeof(*more)));
		kvfree(carry->extent);
		carry->extent = more;
		carry->room = room;
	}
	carry->extent[carry->nr++] = *extent;
	return 0;
}

static int extent_cmp(const void *a, const void *b)
{
	const struct kvt_log_extent *x = a, *y = b;

	if (x->pos.sequence != y->pos.sequence)
		return x->pos.sequence < y->pos.sequence ? -1 : 1;
	return x->pos.block < y->pos.block ? -1 : x->pos.block > y->pos.block;
}

/**
 * kvt_carry_sort() - sort the extents that have to be carried, when recovery has noted all
 * @commits: of the log
 *
 * In the order in which they are on a device, the copies need no more segments than they do.
 *
 * Context: process context.
 */
void kvt_carry_sort(struct kvt_commits *commits)
{
	struct kvt_carry *carry = &commits->carry;

	sort(carry->extent, carry->nr, sizeof(*carry->extent), extent_cmp, NULL);
}

/**
 * kvt_carry_segments() - count the segments that a carried epoch takes
 * @commits: of the log
 * @part: of the space, on a device
 *
 * Return: how many; 0: nothing is carried.
 */
u32 kvt_carry_segments(const struct kvt_commits *commits, const struct kvt_part *part)
{
	const struct kvt_carry *carry = &commits->carry;
	struct kvt_log_pos pos = {};
	u32 nr = 0, i;

	for (i = 0; i < carry->nr; i++) {
		if (carry->extent[i].dev != part->dev->index)
			continue;
		if (!kvt_part_fits(part, &pos, carry->extent[i].blocks)) {
			pos.block = 1;
			nr++;
		}
		pos.block += carry->extent[i].blocks;
	}
	return nr;
}

/* Copy an extent to @to, and update @extent to describe the copy. */
static int extent_copy(struct kvt_log *log, struct kvt_log_extent *extent,
		       const struct kvt_log_pos *to, u8 *buf)
{
	struct kvt_log_dev *dev = &log->devs.dev[extent->dev];
	const struct kvtree_log_super *super = dev->super;
	u32 was = kvt_log_crc(super, extent->generation, &extent->pos, "", 0);
	u32 is = kvt_log_crc(super, log->devs.generation, to, "", 0);
	u64 from_block = kvt_log_pos_block(super, &extent->pos);
	u64 to_block = kvt_log_pos_block(super, to);
	u32 at, nr;
	int err;

	for (at = 0; at < extent->blocks; at += nr) {
		nr = min(extent->blocks - at, COPY_BLOCKS);
		err = log->devs.set.read(&log->devs.set, dev->index, from_block + at, nr, buf);
		kvt_log_extent_wrong(&log->devs.set, extent, err);
		if (!err)
			err = kvt_dev_write(dev, to_block + at, nr, buf);
		if (err)
			return err;
		was = kvt_crc32c(was, buf, (size_t)nr * KVTREE_LOG_BLOCK);
		is = kvt_crc32c(is, buf, (size_t)nr * KVTREE_LOG_BLOCK);
		cond_resched();
	}
	if (was != extent->crc) {
		kvt_log_extent_wrong(&log->devs.set, extent, KVT_LOG_DAMAGED);
		return -EBADMSG;
	}
	extent->generation = log->devs.generation;
	extent->pos = *to;
	extent->crc = is;
	return 0;
}

/* Copy the epoch's extents on a device. */
static int dev_copy(struct kvt_commits *commits, struct kvt_log_dev *dev, u8 *buf)
{
	struct kvt_log *log = &commits->log;
	struct kvt_part *part = &log->space.part[dev->index];
	struct kvt_carry *carry = &commits->carry;
	struct kvt_log_pos pos = {};
	int err = 0;
	u32 i;

	for (i = 0; !err && i < carry->nr; i++) {
		struct kvt_log_extent *extent = &carry->extent[i];

		if (extent->dev != dev->index)
			continue;
		if (!kvt_part_fits(part, &pos, extent->blocks)) {
			if (pos.block)
				kvt_segs_shut(&part->segs, pos.segment);
			err = kvt_room_take(part, KVT_ROOM_DRAIN, extent->stream, &pos);
			if (err)
				return err;
			kvt_segs_used(&part->segs, pos.segment, carry->epoch);
		}
		err = extent_copy(log, extent, &pos, buf);
		pos.block += extent->blocks;
	}
	if (pos.block)
		kvt_segs_shut(&part->segs, pos.segment);
	return err;
}

/**
 * kvt_carry() - write the epoch that must be carried, if there is one
 * @commits: of the log; its new life has not begun, but has segments for commit records
 *
 * Context: process context, sleeps; the caller has the log to itself.
 *
 * Return: 0: the epoch is stable in the new life; KVT_LOG_NO_ROOM; -EBADMSG: the device now returns
 * other data than when recovery read it; -ENOMEM; -EINTR: a fatal signal came; or an error of a
 * device.
 */
int kvt_carry(struct kvt_commits *commits)
{
	struct kvt_devs *devs = &commits->log.devs;
	int err = 0;
	u8 *buf;
	u32 i;

	if (!commits->carry.epoch)
		return 0;
	buf = kvmalloc_array(COPY_BLOCKS, KVTREE_LOG_BLOCK, GFP_KERNEL);
	if (!buf)
		return -ENOMEM;
	for (i = 0; !err && i < devs->nr; i++)
		err = dev_copy(commits, &devs->dev[i], buf);
	kvfree(buf);
	return err ?: kvt_commit_carried(commits);
}
