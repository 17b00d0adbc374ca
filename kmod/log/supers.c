// SPDX-License-Identifier: GPL-2.0
/* Superblocks, as they are written. */
#include <linux/random.h>

#include "internal.h"

static int supers_write_once(struct kvt_log *log, u64 number)
{
	u64 write_id = get_random_u64();
	struct kvtree_log_super *super;
	int err = 0;
	u32 i;

	for (i = 0; !err && i < log->nr_devs; i++) {
		super = log->dev[i].super;
		super->number = cpu_to_le64(number);
		super->write_id = cpu_to_le64(write_id);
		kvt_log_super_seal(super);
		err = kvt_dev_write(&log->dev[i], kvt_log_super_block(number), 1, super);
	}
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
	int err;

	err = supers_write_once(log, log->number + 1);
	if (!err)
		err = supers_write_once(log, log->number + 2);
	if (!err)
		log->number += 2;
	return err;
}
