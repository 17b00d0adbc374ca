// SPDX-License-Identifier: GPL-2.0
/* A block device of a log: opening, reading, writing, flushing. */
#include <linux/bio.h>
#include <linux/blkdev.h>
#include <linux/completion.h>
#include <linux/err.h>
#include <linux/file.h>
#include <linux/highmem.h>
#include <linux/sched/signal.h>
#include <linux/vmalloc.h>

#include "base/stats.h"
#include "dev.h"

#define BLOCK_SECTORS	(KVTREE_LOG_BLOCK >> SECTOR_SHIFT)

/* The device is gone; the block layer wants its lock released. */
static void dev_mark_dead(struct block_device *bdev, bool surprise)
{
	struct kvt_log_dev *dev = bdev->bd_holder;

	kvt_log_fail(dev->devs->state, -EIO, "the device was removed");
	mutex_unlock(&bdev->bd_holder_lock);
}

/* Other users ask for this before they read the device.  We do not write through the page cache. */
static void dev_sync(struct block_device *bdev)
{
	mutex_unlock(&bdev->bd_holder_lock);
}

static const struct blk_holder_ops dev_holder_ops = {
	.mark_dead = dev_mark_dead,
	.sync = dev_sync,
};

/*
 * Whether a device's logical blocks are not larger than ours; and, if it is written to, whether
 * none of our blocks straddles two of its physical sectors: a power cut may destroy both sectors,
 * and with them two more of our blocks.
 *
 * Physical sectors may be larger than a block: most SSDs have larger pages inside, and whatever
 * they report, they must not change logical blocks that they were not told to write.
 */
static bool dev_blocks_fit(const struct kvt_log_dev *dev)
{
	return bdev_logical_block_size(dev->bdev) <= KVTREE_LOG_BLOCK &&
	       (dev->devs->read_only || !bdev_alignment_offset(dev->bdev));
}

/*
 * Clean the page cache.  Pages that other users have written, and that are not on the device yet,
 * would overwrite our blocks some time later; and readers of cached pages would get old contents.
 * Errors of this write-back are not ours: it is not tried again.
 */
static void dev_settle(struct kvt_log_dev *dev)
{
	sync_blockdev(bdev_whole(dev->bdev));
	sync_blockdev(dev->bdev);
	invalidate_bdev(dev->bdev);
}

/**
 * kvt_dev_open() - open a device exclusively
 * @dev: dev->devs is set, the rest is filled
 * @path: of a block device
 *
 * Other processes can still read the device.  If the kernel protects devices in use
 * (CONFIG_BLK_DEV_WRITE_MOUNTED is not set, or bdev_allow_write_mounted=0 at boot), they cannot
 * open it for writing.
 *
 * Context: process context, sleeps.
 *
 * Return: 0; -EBUSY: in use; -EOPNOTSUPP: its blocks are too large, or, unless the log is
 * read-only, not aligned to ours; -EACCES: it is write-protected; or another error of opening it.
 */
int kvt_dev_open(struct kvt_log_dev *dev, const char *path)
{
	blk_mode_t mode = BLK_OPEN_READ | BLK_OPEN_RESTRICT_WRITES;
	struct file *file;

	if (!dev->devs->read_only)
		mode |= BLK_OPEN_WRITE;
	file = bdev_file_open_by_path(path, mode, dev, &dev_holder_ops);
	if (IS_ERR(file))
		return PTR_ERR(file);
	dev->file = file;
	dev->bdev = file_bdev(file);
	if (!dev_blocks_fit(dev))
		return -EOPNOTSUPP;
	/* A log that is read-only must not write anything, cached pages included. */
	if (!dev->devs->read_only)
		dev_settle(dev);
	return 0;
}

/**
 * kvt_dev_close() - close a device
 * @dev: of kvt_dev_open(), or zeros
 *
 * Context: process context, sleeps.
 */
void kvt_dev_close(struct kvt_log_dev *dev)
{
	if (!dev->file)
		return;
	/* A worker's fput() would close it later, but after a detach the device may be removed. */
	get_file(dev->file);
	bdev_fput(dev->file);
	__fput_sync(dev->file);
	dev->file = NULL;
}

/**
 * kvt_dev_blocks() - the size of a device
 * @dev: open
 *
 * Return: complete blocks.
 */
u64 kvt_dev_blocks(const struct kvt_log_dev *dev)
{
	return bdev_nr_sectors(dev->bdev) / BLOCK_SECTORS;
}

static struct page *buf_page(const void *buf)
{
	return is_vmalloc_addr(buf) ? vmalloc_to_page(buf) : virt_to_page(buf);
}

/* Make a bio with as much of a transfer as it can take. */
static struct bio *dev_bio(struct kvt_log_dev *dev, blk_opf_t op, u64 block, size_t *left,
			   u8 **buf)
{
	unsigned int vecs = min_t(size_t, *left / KVTREE_LOG_BLOCK + 1, BIO_MAX_VECS);
	struct bio *bio = bio_alloc(dev->bdev, vecs, op, GFP_NOIO);
	unsigned int off, len;

	bio->bi_iter.bi_sector = block * BLOCK_SECTORS;
	while (*left) {
		off = offset_in_page(*buf);
		len = min_t(size_t, *left, PAGE_SIZE - off);
		if (bio_add_page(bio, buf_page(*buf), len, off) != len)
			break;
		*buf += len;
		*left -= len;
	}
	return bio;
}

/**
 * kvt_io_init() - prepare to wait for several transfers
 * @io: kvt_io_wait() must follow
 */
void kvt_io_init(struct kvt_io *io)
{
	atomic_set(&io->left, 1);
	io->err = 0;
	init_completion(&io->done);
}

static void io_put(struct kvt_io *io)
{
	if (atomic_dec_and_test(&io->left))
		complete(&io->done);
}

static void io_end(struct bio *bio)
{
	struct kvt_io *io = bio->bi_private;

	/* All errors are the same to the callers. */
	if (bio->bi_status)
		WRITE_ONCE(io->err, -EIO);
	bio_put(bio);
	io_put(io);
}

static void io_submit(struct kvt_io *io, struct bio *bio)
{
	atomic_inc(&io->left);
	bio->bi_private = io;
	bio->bi_end_io = io_end;
	submit_bio(bio);
}

/**
 * kvt_io_wait() - wait for the transfers
 * @io: of kvt_io_init()
 *
 * Context: process context, sleeps.
 *
 * Return: 0, or -EIO: at least one of them failed.
 */
int kvt_io_wait(struct kvt_io *io)
{
	io_put(io);
	wait_for_completion_io(&io->done);
	return io->err;
}

static void dev_submit(struct kvt_log_dev *dev, blk_opf_t op, u64 block, u32 nr, void *buf,
		       struct kvt_io *io)
{
	size_t left = (size_t)nr * KVTREE_LOG_BLOCK, before;
	struct blk_plug plug;
	struct bio *bio;
	u8 *at = buf;

	blk_start_plug(&plug);
	while (left) {
		before = left;
		bio = dev_bio(dev, op, block, &left, &at);
		block += (before - left) / KVTREE_LOG_BLOCK;
		io_submit(io, bio);
	}
	blk_finish_plug(&plug);
}

static int dev_read(struct kvt_log_dev *dev, u64 block, u32 nr, void *buf)
{
	struct kvt_io io;

	kvt_io_init(&io);
	dev_submit(dev, REQ_OP_READ, block, nr, buf, &io);
	return kvt_io_wait(&io);
}

/* Devices need memory that is aligned to sectors. */
static bool buf_aligned(const void *buf)
{
	return IS_ALIGNED((unsigned long)buf, SECTOR_SIZE);
}

/**
 * kvt_dev_read() - read blocks
 * @dev: the device
 * @block: the first one
 * @nr: how many, at least 1
 * @buf: filled; kmalloc() or vmalloc() memory
 *
 * Context: process context, sleeps.
 *
 * Return: 0; -EIO for any error of the device; -ENOMEM.
 */
int kvt_dev_read(struct kvt_log_dev *dev, u64 block, u32 nr, void *buf)
{
	size_t size = (size_t)nr * KVTREE_LOG_BLOCK;
	void *to = buf;
	int err;

	if (block + nr > kvt_dev_blocks(dev))
		return -EIO;
	if (!buf_aligned(buf)) {
		to = kvmalloc(size, GFP_KERNEL);
		if (!to)
			return -ENOMEM;
	}
	if (is_vmalloc_addr(to))
		invalidate_kernel_vmap_range(to, size);
	err = dev_read(dev, block, nr, to);
	if (is_vmalloc_addr(to))
		invalidate_kernel_vmap_range(to, size);
	if (to != buf) {
		memcpy(buf, to, size);
		kvfree(to);
	}
	return err;
}

/**
 * kvt_dev_write_begin() - begin to write blocks
 * @dev: the device
 * @block: the first one
 * @nr: how many, at least 1
 * @buf: the data; kmalloc() or vmalloc() memory, aligned to a sector; it must not change before
 *	kvt_io_wait() returns
 * @io: the transfers to wait for
 *
 * Context: process context, sleeps; memory reclaim may depend on this, so it allocates only bios,
 * from their reserve.
 */
void kvt_dev_write_begin(struct kvt_log_dev *dev, u64 block, u32 nr, const void *buf,
			 struct kvt_io *io)
{
	if (WARN_ON_ONCE(!buf_aligned(buf))) {
		WRITE_ONCE(io->err, -EIO);
		return;
	}
	kvt_stat_add(dev->devs->state->env.stats, KVTREE_STAT_LOG_BYTES,
		     (u64)nr * KVTREE_LOG_BLOCK);
	if (is_vmalloc_addr(buf))
		flush_kernel_vmap_range((void *)buf, nr * KVTREE_LOG_BLOCK);
	dev_submit(dev, REQ_OP_WRITE | REQ_SYNC, block, nr, (void *)buf, io);
}

/**
 * kvt_dev_write() - write blocks
 * @dev: the device
 * @block: the first one
 * @nr: how many, at least 1
 * @buf: as for kvt_dev_write_begin()
 *
 * Context: as kvt_dev_write_begin().
 *
 * Return: 0, or -EIO for any error of the device.
 */
int kvt_dev_write(struct kvt_log_dev *dev, u64 block, u32 nr, const void *buf)
{
	struct kvt_io io;

	kvt_io_init(&io);
	kvt_dev_write_begin(dev, block, nr, buf, &io);
	return kvt_io_wait(&io);
}

/* Flush devices, which are on @disks. */
static int devs_flush(struct kvt_devs *devs, u32 devices, u32 disks)
{
	struct kvt_io io[KVTREE_LOG_DEVS_MAX];
	int err = 0;
	u32 i;

	kvt_disks_begin(devs, disks);
	for (i = 0; i < devs->nr; i++) {
		kvt_io_init(&io[i]);
		if (devices & BIT(i))
			io_submit(&io[i], bio_alloc(devs->dev[i].bdev, 0,
						    REQ_OP_WRITE | REQ_PREFLUSH, GFP_NOIO));
	}
	for (i = 0; i < devs->nr; i++) {
		if (!kvt_io_wait(&io[i]))
			continue;
		kvt_disk_fail(&devs->dev[i]);
		err = -EIO;
	}
	if (!err)
		kvt_disks_end(devs, disks);
	kvt_stat_add(devs->state->env.stats, KVTREE_STAT_LOG_FLUSHES, hweight32(devices));
	return err;
}

/**
 * kvt_devs_flush_some() - make all completed writes stable, on some devices
 * @devs: the devices
 * @devices: which to flush, a bit for each
 *
 * A failed flush may lose what any log on the disk has written, although the next flush succeeds.
 * So no later flush of the disk returns 0: this log, and all others on the disk, are failed before
 * another can begin.
 *
 * Two flushes of a disk never run at the same time, also because dm-log-writes assigns earlier
 * writes to the first flush submitted, although the second one may complete before it.  A caller
 * that has waited for one need not flush if that began after the call.
 *
 * Context: process context, sleeps.
 *
 * Return: 0; -EIO for any error of a device; or the log's error.
 */
int kvt_devs_flush_some(struct kvt_devs *devs, u32 devices)
{
	u32 disks = kvt_disks_of(devs, devices);
	u64 begun[KVTREE_LOG_DEVS_MAX];
	int err;

	kvt_disks_ask(devs, begun);
	kvt_disks_lock(devs, disks);
	err = READ_ONCE(devs->state->error);
	if (!err && !kvt_disks_flushed(devs, disks, begun)) {
		err = devs_flush(devs, devices, disks);
		if (err)
			kvt_log_fail(devs->state, err, "a device could not be flushed");
	}
	kvt_disks_unlock(devs, disks);
	return err;
}
KVT_EXPORT_FOR_TESTS(kvt_devs_flush_some);

/**
 * kvt_dev_discard() - discard segments, if the device supports it
 * @dev: the device
 * @segment: the first one
 * @nr: how many
 *
 * Context: process context, sleeps.
 */
void kvt_dev_discard(struct kvt_log_dev *dev, u32 segment, u32 nr)
{
	const struct kvt_log_pos pos = { .segment = segment };
	sector_t sectors = (sector_t)nr * le32_to_cpu(dev->super->segment_blocks) * BLOCK_SECTORS;

	if (bdev_max_discard_sectors(dev->bdev))
		blkdev_issue_discard(dev->bdev, kvt_log_pos_block(dev->super, &pos) *
				     BLOCK_SECTORS, sectors, GFP_NOIO);
}

static struct kvt_devs *set_devs(struct kvt_log_set *set)
{
	return container_of(set, struct kvt_devs, set);
}

static int set_read(struct kvt_log_set *set, u32 slot, u64 block, u32 nr, void *buf)
{
	/* Of the process that attaches; workers get no signals. */
	if (fatal_signal_pending(current))
		return -EINTR;
	return kvt_dev_read(&set_devs(set)->dev[slot], block, nr, buf);
}

static void set_say(struct kvt_log_set *set, const char *text)
{
	pr_err("kvtree: store '%s': %s\n", set_devs(set)->state->env.name, text);
}

/**
 * kvt_devs_init() - prepare to open a log's devices
 * @devs: the devices, with their state
 * @read_only: nothing may be written to them
 */
void kvt_devs_init(struct kvt_devs *devs, bool read_only)
{
	devs->read_only = read_only;
	devs->set.read = set_read;
	devs->set.say = set_say;
}
