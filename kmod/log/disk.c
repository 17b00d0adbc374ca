// SPDX-License-Identifier: GPL-2.0
/*
 * Disks: stores on partitions of one disk share its write cache.
 *
 * Flushing a partition flushes the whole disk.  If the flush fails, writes of any of these stores
 * may be lost, but the disk reports that only once, to the store that flushed.  So the stores on a
 * disk flush it one after the other, and all of them fail if one flush does.  While a flush is in
 * progress, others ask for the next one.  That one is enough for all of them.
 */
#include <linux/blkdev.h>
#include <linux/slab.h>

#include "dev.h"

struct kvt_disk {
	struct list_head list;		/* disks_lock */
	const struct gendisk *gendisk;
	unsigned int users;		/* disks_lock */
	struct list_head uses;		/* disks_lock */
	struct mutex lock;		/* one flush at a time; protects the fields below */
	u64 begun;			/* flushes so far; also read without the lock */
	u64 flushed;			/* ... the last one that has succeeded */
};

static LIST_HEAD(disks);
/* Nests inside the disks' locks.  Not held during a flush, which may take forever. */
static DEFINE_MUTEX(disks_lock);

static struct kvt_disk *disk_find(const struct gendisk *gendisk)
{
	struct kvt_disk *disk;

	list_for_each_entry(disk, &disks, list)
		if (disk->gendisk == gendisk)
			return disk;
	return NULL;
}

static struct kvt_disk *disk_new(const struct gendisk *gendisk)
{
	struct kvt_disk *disk = kzalloc(sizeof(*disk), GFP_KERNEL);

	if (!disk)
		return NULL;
	disk->gendisk = gendisk;
	mutex_init(&disk->lock);
	INIT_LIST_HEAD(&disk->uses);
	list_add(&disk->list, &disks);
	return disk;
}

/* Insert a disk, in the order in which the locks are taken: by address. */
static void devs_insert(struct kvt_devs *devs, struct kvt_disk *disk)
{
	struct kvt_disk_use *use = &devs->uses[devs->nr_disks];
	u32 at = devs->nr_disks++;

	for (; at && devs->disks[at - 1] > disk; at--)
		devs->disks[at] = devs->disks[at - 1];
	devs->disks[at] = disk;
	disk->users++;
	use->devs = devs;
	use->disk = disk;
	list_add(&use->list, &disk->uses);
}

static int devs_use(struct kvt_devs *devs, const struct gendisk *gendisk)
{
	struct kvt_disk *disk = disk_find(gendisk);
	u32 i;

	for (i = 0; i < devs->nr_disks; i++)
		if (devs->disks[i] == disk)
			return 0;
	if (!disk)
		disk = disk_new(gendisk);
	if (!disk)
		return -ENOMEM;
	devs_insert(devs, disk);
	return 0;
}

/**
 * kvt_disks_use() - register as a user of the disks that devices are on
 * @devs: the devices, open; kvt_disks_leave() must follow, whatever is returned
 *
 * Context: process context, sleeps.
 *
 * Return: 0 or -ENOMEM.
 */
int kvt_disks_use(struct kvt_devs *devs)
{
	int err = 0;
	u32 i;

	mutex_lock(&disks_lock);
	for (i = 0; !err && i < devs->nr; i++)
		err = devs_use(devs, devs->dev[i].bdev->bd_disk);
	mutex_unlock(&disks_lock);
	return err;
}
KVT_EXPORT_FOR_TESTS(kvt_disks_use);

/**
 * kvt_disks_leave() - end of kvt_disks_use()
 * @devs: the devices, which are still open but not flushed any more
 *
 * Context: process context, sleeps.
 */
void kvt_disks_leave(struct kvt_devs *devs)
{
	struct kvt_disk *disk;

	mutex_lock(&disks_lock);
	while (devs->nr_disks) {
		disk = devs->uses[--devs->nr_disks].disk;
		list_del(&devs->uses[devs->nr_disks].list);
		if (--disk->users)
			continue;
		list_del(&disk->list);
		kfree(disk);
	}
	mutex_unlock(&disks_lock);
}
KVT_EXPORT_FOR_TESTS(kvt_disks_leave);

/**
 * kvt_disks_of() - the disks that some devices are on
 * @devs: the devices
 * @devices: a bit for each of those
 *
 * Return: a bit for each of @devs->disks.
 */
u32 kvt_disks_of(const struct kvt_devs *devs, u32 devices)
{
	u32 disks = 0, i, j;

	for (i = 0; i < devs->nr_disks; i++)
		for (j = 0; j < devs->nr; j++)
			if (devices & BIT(j) &&
			    devs->dev[j].bdev->bd_disk == devs->disks[i]->gendisk)
				disks |= BIT(i);
	return disks;
}
KVT_EXPORT_FOR_TESTS(kvt_disks_of);

/**
 * kvt_disks_lock() - keep other logs from flushing disks
 * @devs: devices
 * @disks: which of their disks
 *
 * Context: process context, sleeps.
 */
void kvt_disks_lock(struct kvt_devs *devs, u32 disks)
{
	u32 i;

	for (i = 0; i < devs->nr_disks; i++)
		if (disks & BIT(i))
			mutex_lock_nested(&devs->disks[i]->lock, i);
}
KVT_EXPORT_FOR_TESTS(kvt_disks_lock);

/**
 * kvt_disks_unlock() - end of kvt_disks_lock()
 * @devs: as there
 * @disks: as there
 */
void kvt_disks_unlock(struct kvt_devs *devs, u32 disks)
{
	u32 i;

	for (i = 0; i < devs->nr_disks; i++)
		if (disks & BIT(i))
			mutex_unlock(&devs->disks[i]->lock);
}
KVT_EXPORT_FOR_TESTS(kvt_disks_unlock);

/**
 * kvt_disks_ask() - note how many flushes of the devices' disks have begun
 * @devs: the devices; what is to become stable is written
 * @begun: filled: for each disk
 *
 * Context: any; the locks need not be held.
 */
void kvt_disks_ask(const struct kvt_devs *devs, u64 *begun)
{
	u32 i;

	/* A flush that begins after this makes the completed writes stable. */
	smp_mb();
	for (i = 0; i < devs->nr_disks; i++)
		begun[i] = READ_ONCE(devs->disks[i]->begun);
}
KVT_EXPORT_FOR_TESTS(kvt_disks_ask);

/**
 * kvt_disks_flushed() - whether disks have been flushed since
 * @devs: devices
 * @disks: which of their disks
 * @begun: of kvt_disks_ask()
 *
 * Context: process context; the disks' locks are held.
 *
 * Return: true if each disk was flushed since, by a flush that began later.
 */
bool kvt_disks_flushed(const struct kvt_devs *devs, u32 disks, const u64 *begun)
{
	u32 i;

	for (i = 0; i < devs->nr_disks; i++)
		if (disks & BIT(i) && devs->disks[i]->flushed <= begun[i])
			return false;
	return disks;
}
KVT_EXPORT_FOR_TESTS(kvt_disks_flushed);

/**
 * kvt_disks_begin() - begin to flush disks
 * @devs: devices
 * @disks: which of their disks
 *
 * Context: process context; the disks' locks are held.
 */
void kvt_disks_begin(const struct kvt_devs *devs, u32 disks)
{
	u32 i;

	for (i = 0; i < devs->nr_disks; i++)
		if (disks & BIT(i))
			WRITE_ONCE(devs->disks[i]->begun, devs->disks[i]->begun + 1);
	/* Before the flushes are submitted: pairs with kvt_disks_ask(). */
	smp_mb();
}
KVT_EXPORT_FOR_TESTS(kvt_disks_begin);

/**
 * kvt_disks_end() - note that disks have been flushed
 * @devs: devices
 * @disks: which of their disks; none of the flushes has failed
 *
 * Context: process context; the disks' locks are held since kvt_disks_begin().
 */
void kvt_disks_end(const struct kvt_devs *devs, u32 disks)
{
	u32 i;

	for (i = 0; i < devs->nr_disks; i++)
		if (disks & BIT(i))
			devs->disks[i]->flushed = devs->disks[i]->begun;
}
KVT_EXPORT_FOR_TESTS(kvt_disks_end);

/**
 * kvt_disk_fail() - fail all logs on a disk that could not be flushed
 * @dev: on the disk; its log has tried to flush, and holds the disk's lock
 *
 * Context: process context.
 */
void kvt_disk_fail(struct kvt_log_dev *dev)
{
	struct kvt_devs *devs = dev->devs;
	struct kvt_disk_use *use;
	u32 i;

	mutex_lock(&disks_lock);
	for (i = 0; i < devs->nr_disks; i++) {
		if (devs->disks[i]->gendisk != dev->bdev->bd_disk)
			continue;
		list_for_each_entry(use, &devs->disks[i]->uses, list)
			kvt_log_fail(use->devs->state, -EIO, "a disk could not be flushed");
	}
	mutex_unlock(&disks_lock);
}
