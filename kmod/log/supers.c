// SPDX-License-Identifier: GPL-2.0
/* Writing superblocks. */
#include <linux/random.h>
#include <linux/slab.h>

#include "checkpoint.h"

static int super_write(struct kvt_log_dev *dev, u64 number)
{
	dev->super->number = cpu_to_le64(number);
	kvt_log_super_seal(dev->super);
	return kvt_dev_write(dev, kvt_log_super_block(number), 1, dev->super);
}

static int supers_write_once(struct kvt_log *log, u64 number)
{
	int err = 0;
	u32 i;

	for (i = 0; !err && i < log->devs.nr; i++)
		err = super_write(&log->devs.dev[i], number);
	return err ?: kvt_devs_flush(&log->devs);
}

/*
 * Whether a copy on a device differs from the one last written or read there.  If it is sound,
 * another machine that has attached the store has written it.  Anything else, including a copy that
 * cannot be read, is damage, which the next write repairs.
 */
static bool copy_is_foreign(struct kvt_log_dev *dev, u64 number, __le64 write_id)
{
	struct kvtree_log_super *is = kmalloc(sizeof(*is), GFP_NOIO);
	bool foreign = false;

	if (is && !kvt_dev_read(dev, kvt_log_super_block(number), 1, is) &&
	    kvt_log_super_sound(is, number % KVTREE_LOG_SUPER_COPIES))
		foreign = le64_to_cpu(is->number) != number || is->write_id != write_id;
	kfree(is);
	return foreign;
}

static int supers_foreign(struct kvt_log *log)
{
	kvt_log_fail(&log->state, -EIO,
		     "its superblocks were changed: is it attached on another machine?");
	return -EIO;
}

/* Check that both copies on each device are those written last. */
static int supers_judge(struct kvt_checkpoints *cps)
{
	struct kvt_log *log = &cps->commits.log;
	u32 i;

	for (i = 0; i < log->devs.nr; i++) {
		struct kvt_log_dev *dev = &log->devs.dev[i];

		if (copy_is_foreign(dev, cps->number, dev->super->write_id) ||
		    copy_is_foreign(dev, cps->number - 1, dev->super->write_id))
			return supers_foreign(log);
	}
	return 0;
}

/* Check that both copies have not changed during recovery, which may have taken long. */
static int supers_judge_found(struct kvt_log *log)
{
	const struct kvtree_log_super *copy;
	u32 i, j;

	for (i = 0; i < log->devs.nr; i++) {
		for (j = 0; j < KVTREE_LOG_SUPER_COPIES; j++) {
			copy = &log->devs.set.dev[i].copy[j];
			if (log->devs.set.dev[i].valid[j] &&
			    copy_is_foreign(&log->devs.dev[i], le64_to_cpu(copy->number),
					    copy->write_id))
				return supers_foreign(log);
		}
	}
	return 0;
}

/**
 * kvt_supers_write() - write the superblocks of all devices
 * @cps: the log's checkpoints; each device's super has the new contents
 *
 * Both copies on each device are the same afterwards.  So whatever only the old superblocks
 * refer to may be overwritten then, and one damaged copy does no harm.
 *
 * Context: process context, sleeps; under checkpoint_lock, or the caller has the log to itself.
 *
 * Return: 0; or an error of a device, and the contents of the superblocks are unknown.  Also -EIO,
 * and nothing is written, if another machine has written superblocks since.
 */
int kvt_supers_write(struct kvt_checkpoints *cps)
{
	struct kvt_log *log = &cps->commits.log;
	u64 write_id = get_random_u64();
	int err = supers_judge(cps);
	u32 i;

	if (err)
		return err;
	for (i = 0; i < log->devs.nr; i++)
		log->devs.dev[i].super->write_id = cpu_to_le64(write_id);
	err = supers_write_once(log, cps->number + 1);
	if (!err)
		err = supers_write_once(log, cps->number + 2);
	if (!err)
		cps->number += 2;
	return err;
}

/*
 * Which of the next two numbers is written to a device first: it must not replace the only copy
 * with what recovery has found.  But if all devices have that only once, with the previous contents
 * in the other copy, what was found may not be stable, but the previous contents are: they must
 * stay, and the copy with what was found is written again.
 */
static u64 super_first(const struct kvt_checkpoints *cps, u32 i)
{
	const struct kvt_log_set *set = &cps->commits.log.devs.set;
	const struct kvt_log_dev_super *dev = &set->dev[i];
	u32 next = (cps->number + 1) % KVTREE_LOG_SUPER_COPIES;
	bool both = dev->valid[next] && dev->copy[next].write_id == dev->super->write_id;

	return cps->number + !(both || set->previous);
}

/**
 * kvt_supers_complete() - write the superblocks that recovery found again, to both copies
 * @cps: the log's checkpoints; nothing was written so far
 *
 * A device may have only one such copy: the other one is damaged, or a crash came between writing
 * the two.  If a flush has failed, what recovery read may only be in a device's cache, and may yet
 * be lost.
 *
 * Context: process context, sleeps; the caller has the log to itself.
 *
 * Return: 0; or an error of a device, and the devices have either the superblocks that were found
 * or the previous ones, whose log and checkpoint are untouched so far.  Also -EIO, and nothing is
 * written, if another machine has written superblocks since.
 */
int kvt_supers_complete(struct kvt_checkpoints *cps)
{
	struct kvt_log *log = &cps->commits.log;
	u64 both = cps->number + cps->number + 1;
	int err = supers_judge_found(log);
	u32 i;

	for (i = 0; !err && i < log->devs.nr; i++)
		err = super_write(&log->devs.dev[i], super_first(cps, i));
	if (!err)
		err = kvt_devs_flush(&log->devs);
	for (i = 0; !err && i < log->devs.nr; i++)
		err = super_write(&log->devs.dev[i], both - super_first(cps, i));
	if (!err)
		err = kvt_devs_flush(&log->devs);
	if (!err)
		cps->number++;
	return err;
}

/**
 * kvt_super_close_life() - end the last life in a superblock; remove it if it has no epochs
 * @super: the superblock
 * @epoch: the last epoch
 *
 * Return: the number of lives that remain.
 */
u32 kvt_super_close_life(struct kvtree_log_super *super, u64 epoch)
{
	u32 nr = le32_to_cpu(super->nr_lives);
	struct kvtree_log_life *last;

	if (!nr)
		return 0;
	last = &super->lives[nr - 1];
	if (epoch >= le64_to_cpu(last->first_epoch)) {
		last->last_epoch = cpu_to_le64(epoch);
		return nr;
	}
	memset(last, 0, sizeof(*last));
	return nr - 1;
}

/**
 * kvt_supers_end() - write superblocks that end the life with the durable epoch
 * @cps: the log's checkpoints
 *
 * Context: as kvt_supers_write(); no commit runs.
 *
 * Return: as kvt_supers_write().
 */
int kvt_supers_end(struct kvt_checkpoints *cps)
{
	struct kvt_log *log = &cps->commits.log;
	struct kvtree_log_super *super;
	u32 i;

	for (i = 0; i < log->devs.nr; i++) {
		super = log->devs.dev[i].super;
		super->nr_lives = cpu_to_le32(kvt_super_close_life(super, log->state.durable));
		super->version_lease = cpu_to_le64(log->state.lease);
	}
	return kvt_supers_write(cps);
}
