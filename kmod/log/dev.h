/* SPDX-License-Identifier: GPL-2.0 */
/* The block devices of a log, and the disks that they are on. */
#ifndef KVT_LOG_DEV_H
#define KVT_LOG_DEV_H

#include <linux/atomic.h>
#include <linux/bits.h>
#include <linux/completion.h>
#include <linux/list.h>

#include "log/format/format.h"
#include "state.h"

struct block_device;
struct file;
struct kvt_devs;
struct kvt_disk;

struct kvt_log_dev {
	struct kvt_devs *devs;
	struct file *file;
	struct block_device *bdev;
	u32 index;
	struct kvtree_log_super *super;		/* the superblock to be written next */
};

/* A log uses a disk, by one or several devices on it: see disk.c. */
struct kvt_disk_use {
	struct list_head list;		/* of the disk */
	struct kvt_disk *disk;
	struct kvt_devs *devs;
};

struct kvt_devs {
	struct kvt_log_state *state;
	u32 nr;
	bool read_only;			/* nothing is written to them */
	u64 generation;			/* of the life that is being written */
	struct kvt_log_dev dev[KVTREE_LOG_DEVS_MAX];
	struct kvt_log_set set;		/* the same devices, for the code that reads them */
	u32 nr_disks;			/* disks that the devices are on */
	struct kvt_disk *disks[KVTREE_LOG_DEVS_MAX];
	struct kvt_disk_use uses[KVTREE_LOG_DEVS_MAX];
};

/* Transfers to wait for together: see device.c. */
struct kvt_io {
	atomic_t left;
	int err;
	struct completion done;
};

/* device.c */
void kvt_devs_init(struct kvt_devs *devs, bool read_only);
int kvt_dev_open(struct kvt_log_dev *dev, const char *path);
void kvt_dev_close(struct kvt_log_dev *dev);
u64 kvt_dev_blocks(const struct kvt_log_dev *dev);
int kvt_dev_read(struct kvt_log_dev *dev, u64 block, u32 nr, void *buf);
int kvt_dev_write(struct kvt_log_dev *dev, u64 block, u32 nr, const void *buf);
void kvt_dev_write_begin(struct kvt_log_dev *dev, u64 block, u32 nr, const void *buf,
			 struct kvt_io *io);
void kvt_io_init(struct kvt_io *io);
int kvt_io_wait(struct kvt_io *io);
int kvt_devs_flush_some(struct kvt_devs *devs, u32 devices);
void kvt_dev_discard(struct kvt_log_dev *dev, u32 segment, u32 nr);

/* disk.c */
int kvt_disks_use(struct kvt_devs *devs);
void kvt_disks_leave(struct kvt_devs *devs);
u32 kvt_disks_of(const struct kvt_devs *devs, u32 devices);
void kvt_disks_lock(struct kvt_devs *devs, u32 disks);
void kvt_disks_unlock(struct kvt_devs *devs, u32 disks);
void kvt_disks_ask(const struct kvt_devs *devs, u64 *begun);
bool kvt_disks_flushed(const struct kvt_devs *devs, u32 disks, const u64 *begun);
void kvt_disks_begin(const struct kvt_devs *devs, u32 disks);
void kvt_disks_end(const struct kvt_devs *devs, u32 disks);
void kvt_disk_fail(struct kvt_log_dev *dev);

/**
 * kvt_devs_all() - all devices of a log
 * @devs: the devices
 *
 * Return: a bit for each.
 */
static inline u32 kvt_devs_all(const struct kvt_devs *devs)
{
	return BIT(devs->nr) - 1;
}

/**
 * kvt_devs_flush() - make all completed writes stable, on all devices
 * @devs: the devices
 *
 * Context: as kvt_devs_flush_some().
 *
 * Return: as kvt_devs_flush_some().
 */
static inline int kvt_devs_flush(struct kvt_devs *devs)
{
	return kvt_devs_flush_some(devs, kvt_devs_all(devs));
}

#endif /* KVT_LOG_DEV_H */
