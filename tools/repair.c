// SPDX-License-Identifier: GPL-2.0
/*
 * Repair: rewrite a damaged or unreadable copy of a superblock from the other copy on
 * its device.
 */
#include <fcntl.h>
#include <unistd.h>

#include "tool.h"
#include "blockdev.h"
#include "repair.h"
#include "signature.h"

/* The damaged copy, or KVTREE_LOG_SUPER_COPIES; the other one is valid. */
static unsigned int damaged_copy(const struct devset *ds, unsigned int i)
{
	unsigned int copy = 0;

	while (copy < KVTREE_LOG_SUPER_COPIES && ds->set.dev[i].valid[copy])
		copy++;
	return copy;
}

/**
 * repair_needed() - count devices with a damaged copy of the superblock
 * @ds: loaded
 *
 * Return: their number; each has one valid copy
 */
unsigned int repair_needed(const struct devset *ds)
{
	unsigned int n = 0, i;

	for (i = 0; i < ds->set.nr_devs; i++)
		n += damaged_copy(ds, i) < KVTREE_LOG_SUPER_COPIES;
	return n;
}

/**
 * repair_show() - print which copies are damaged
 * @ds: loaded
 * @out: the output
 * @what: the text after each name
 */
void repair_show(const struct devset *ds, FILE *out, const char *what)
{
	unsigned int i, copy;

	for (i = 0; i < ds->set.nr_devs; i++) {
		copy = damaged_copy(ds, i);
		if (copy < KVTREE_LOG_SUPER_COPIES)
			fprintf(out, "%s: copy %u of the superblock %s\n",
				ds->dev[ds->set.dev[i].slot].path, copy, what);
	}
}

/**
 * repair_allowed() - whether the devices hold nothing else that may be needed
 * @ds: loaded
 *
 * Only overwritten superblocks without a known signature are rewritten.
 *
 * Return: 0, or -ECANCELED after printing a message
 */
int repair_allowed(const struct devset *ds)
{
	struct signatures found;
	struct kvtree_device device;
	bool foreign = false;
	unsigned int i;

	for (i = 0; i < ds->set.nr_devs; i++) {
		const struct blockdev *dev = &ds->dev[ds->set.dev[i].slot];

		device = (struct kvtree_device){
			.bytes = le64_to_cpu(ds->set.dev[i].super->nr_blocks) * KVTREE_LOG_BLOCK,
		};
		if (damaged_copy(ds, i) < KVTREE_LOG_SUPER_COPIES)
			device.flags = KVTREE_DEVICE_DAMAGED;
		signatures_find(&found, dev->fd, &device);
		if (found.list)
			warn("check: %s holds %s: nothing is repaired there", dev->path,
			     found.list);
		foreign |= !!found.list;
		signatures_free(&found);
	}
	return foreign ? -ECANCELED : 0;
}

/* O_EXCL does not protect a file that backs a loop device. */
static int refuse_used(const struct devset *ds)
{
	unsigned int i;

	for (i = 0; i < ds->set.nr_devs; i++) {
		const struct blockdev *dev = &ds->dev[i];

		if (dev->is_block || !inuse_by_loop(dev))
			continue;
		warn("%s: it backs a loop device: name the device instead", dev->path);
		return -EBUSY;
	}
	return 0;
}

static int flush(const struct blockdev *dev)
{
	int err;

	if (!fsync(dev->fd))
		return 0;
	err = -errno;
	warn("%s: cannot write: %s", dev->path, strerror(-err));
	return err;
}

/* Write nothing before the state found on all devices is stable. */
static int flush_all(const struct devset *ds)
{
	unsigned int i;
	int err = 0;

	for (i = 0; !err && i < ds->set.nr_devs; i++)
		err = flush(&ds->dev[i]);
	return err;
}

static struct kvtree_log_super without_number(const struct kvtree_log_super *super)
{
	struct kvtree_log_super same = *super;

	same.number = 0;
	same.write_id = 0;
	same.crc = 0;
	return same;
}

/*
 * Choose the number and write_id of a rewritten copy: those of the same copy on another device, if
 * the two copies there agree in everything else.  (The first version of the format used a new
 * write_id for each number.)  If there is no such device, those of the change: both of its copies
 * have the same write_id.
 */
static void choose_number(const struct devset *ds, unsigned int copy, struct kvtree_log_super *to)
{
	const struct kvt_log_set *set = &ds->set;
	uint64_t number = set->number;
	unsigned int i;

	for (i = 0; i < set->nr_devs; i++) {
		const struct kvtree_log_super *super = &set->dev[i].copy[copy];
		struct kvtree_log_super is = without_number(super);
		struct kvtree_log_super counts = without_number(set->dev[i].super);

		if (!set->dev[i].valid[copy] || memcmp(&is, &counts, sizeof(is)))
			continue;
		to->number = super->number;
		to->write_id = super->write_id;
		return;
	}
	to->number = cpu_to_le64(number % KVTREE_LOG_SUPER_COPIES == copy ? number : number - 1);
}

static int rewrite(const struct blockdev *dev, struct kvtree_log_super *super)
{
	uint64_t at = kvt_log_super_block(le64_to_cpu(super->number)) * KVTREE_LOG_BLOCK;
	struct kvtree_log_super is;
	int err;

	kvt_log_super_seal(super);
	err = blockdev_write(dev, super, sizeof(*super), at);
	if (!err)
		err = flush(dev);
	if (err)
		return err;
	/* Read from the device, not from the page cache. */
	posix_fadvise(dev->fd, 0, 0, POSIX_FADV_DONTNEED);
	err = blockdev_read(dev, &is, sizeof(is), at);
	if (!err && memcmp(&is, super, sizeof(is))) {
		warn("%s: it does not store what is written", dev->path);
		err = -EIO;
	}
	return err;
}

/**
 * repair() - rewrite the damaged copies
 * @ds: loaded, opened for writing
 *
 * Valid copies are not touched, so an interrupted repair leaves the store as it was.
 *
 * Return: 0 or a negative errno, after printing a message
 */
int repair(struct devset *ds)
{
	struct kvtree_log_super super;
	unsigned int i, copy;
	int err;

	err = refuse_used(ds);
	if (!err)
		err = flush_all(ds);
	for (i = 0; !err && i < ds->set.nr_devs; i++) {
		copy = damaged_copy(ds, i);
		if (copy == KVTREE_LOG_SUPER_COPIES)
			continue;
		super = *ds->set.dev[i].super;
		choose_number(ds, copy, &super);
		err = rewrite(&ds->dev[ds->set.dev[i].slot], &super);
	}
	return err;
}
