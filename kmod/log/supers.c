// SPDX-License-Identifier: GPL-2.0
/* Superblocks, as they are written. */
#include <linux/random.h>

#include "internal.h"

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

	for (i = 0; !err && i < log->nr_devs; i++)
		err = super_write(&log->dev[i], number);
	return err ?: kvt_devs_flush(log);
}

/**
 * kvt_supers_write() - write the superblocks of all devices
 * @log: the log; each device's super is as it shall be
 *
 * Both copies say the same after that: what they said before may be overwritten
 * then, and a copy that is damaged later does no harm.
 *
 * Context: process context, sleeps; under checkpoint_lock, or by who has the log alone.
 *
 * Return: 0 or an error of a device; nothing is known of what they say then.
 */
int kvt_supers_write(struct kvt_log *log)
{
	u64 write_id = get_random_u64();
	int err;
	u32 i;

	for (i = 0; i < log->nr_devs; i++)
		log->dev[i].super->write_id = cpu_to_le64(write_id);
	err = supers_write_once(log, log->number + 1);
	if (!err)
		err = supers_write_once(log, log->number + 2);
	if (!err)
		log->number += 2;
	return err;
}

/**
 * kvt_supers_complete() - have the newest copy of what was found on all devices
 * @log: the log; what was found is flushed
 *
 * A device has none if it is damaged, or the last change came to no end.  What is written next
 * replaces the other copy, which would be the only one.
 *
 * Context: process context, sleeps; by who has the log alone.
 *
 * Return: 0 or an error of a device.
 */
int kvt_supers_complete(struct kvt_log *log)
{
	bool written = false;
	int err = 0;
	u32 i;

	for (i = 0; !err && i < log->nr_devs; i++) {
		if (le64_to_cpu(log->dev[i].super->number) == log->number)
			continue;
		err = super_write(&log->dev[i], log->number);
		written = true;
	}
	return err || !written ? err : kvt_devs_flush(log);
}
