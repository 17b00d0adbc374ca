// SPDX-License-Identifier: GPL-2.0
/* A block device that belongs to a log. */
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

/* What others ask for before they look at the device: what was written is there. */
static void dev_sync(struct block_device *bdev)
{
	mutex_unlock(&bdev->bd_holder_lock);
}

static const struct blk_holder_ops dev_holder_ops = {
	.mark_dead = dev_mark_dead,
	.sync = dev_sync,
};

/*
 * Whether a device takes our blocks; and, if it is written to, whether none of them lies across
 * two of its physical sectors: a power cut may take both, and with them two other blocks of ours.
 *
 * Physical sectors that are larger than a block are taken: most SSDs have larger pages inside, and
 * whatever they report, they have to leave logical blocks alone that they were not told to write.
 */
static bool dev_blocks_fit(const struct kvt_log_dev *dev)
{
	return bdev_logical_block_size(dev->bdev) <= KVTREE_LOG_BLOCK &&
	       (dev->devs->read_only || !bdev_alignment_offset(dev->bdev));
}

/*
 * What others have written through the page cache, and is not on the device yet, would be written
 * over ours some time later; and what they read from there would be what was.  Whether it can be
 * written is their concern: it will not be tried again.
 */
static void dev_settle(struct kvt_log_dev *dev)
{
	sync_blockdev(bdev_whole(dev->bdev));
	sync_blockdev(dev->bdev);
	invalidate_bdev(dev->bdev);
}

/**
 * kvt_dev_open() - open a device for nobody else
 * @dev: its log's devices are set, the rest is filled
 * @path: of a block device
 *
 * Others can still read it, and where the kernel is told so (CONFIG_BLK_DEV_WRITE_MOUNTED is not
 * set, or bdev_allow_write_mounted=0 at boot) nobody can open it to write.
 *
 * Context: process context, sleeps.
 *
 * Return: 0; -EBUSY: in use; -EOPNOTSUPP: its blocks are too large, or lie across ours, unless
 * the log is read-only; -EROFS; or what opening it came to.
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
	/* Or nothing is written at all. */
	if (!dev->devs->read_only)
		dev_settle(dev);
	return 0;
}

/**
 * kvt_dev_close() - let go of a device
 * @dev: of kvt_dev_open(), or zeros
 *
 * Context: process context, sleeps.
 */
void kvt_dev_close(struct kvt_log_dev *dev)
{
	if (!dev->file)
		return;
	/* A worker's fput() closes it some time later: who waits for a detach removes it then. */
	get_file(dev->file);
	bdev_fput(dev->file);
	__fput_sync(dev->file);
	dev->file = NULL;
}

/**
 * kvt_dev_blocks() - how large a device is
 * @dev: open
 *
 * Return: whole blocks.
 */
u64 kvt_dev_blocks(const struct kvt_log_dev *dev)
{
	return bdev_nr_sectors(dev->bdev) / BLOCK_SECTORS;
}

static struct page *buf_page(const void *buf)
{
	return is_vmalloc_addr(buf) ? vmalloc_to_page(buf) : virt_to_page(buf);
}

/* As much of a transfer as one bio takes. */
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
 * kvt_io_init() - begin to write several things at once
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

	/* Whatever the device says, nothing above can do anything about it. */
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
 * kvt_io_wait() - wait until all that was begun is written
 * @io: of kvt_io_init()
 *
 * Context: process context, sleeps.
 *
 * Return: 0, or -EIO: something was not.
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

/* Devices take addresses that are aligned to sectors. */
static bool buf_aligned(const void *buf)
{
	return IS_ALIGNED((unsigned long)buf, SECTOR_SIZE);
}

/**
 * kvt_dev_read() - read blocks
 * @dev: the device
 * @block: the first one
 * @nr: how many, at least 1
 * @buf: where to; kmalloc() or vmalloc() memory
 *
 * Context: process context, sleeps.
 *
 * Return: 0; -EIO, whatever the device says; -ENOMEM.
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
 * @buf: where from; kmalloc() or vmalloc() memory, aligned to a sector; it stays as it
 *	is until kvt_io_wait()
 * @io: waits for it
 *
 * Context: process context, sleeps; needs no memory but what is set aside.
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
 * Return: 0 or -EIO, whatever the device says.
 */
int kvt_dev_write(struct kvt_log_dev *dev, u64 block, u32 nr, const void *buf)
{
	struct kvt_io io;

	kvt_io_init(&io);
	kvt_dev_write_begin(dev, block, nr, buf, &io);
	return kvt_io_wait(&io);
}

static int devs_flush(struct kvt_devs *devs)
{
	struct kvt_io io[KVTREE_LOG_DEVS_MAX];
	int err = 0;
	u32 i;

	for (i = 0; i < devs->nr; i++) {
		kvt_io_init(&io[i]);
		io_submit(&io[i], bio_alloc(devs->dev[i].bdev, 0, REQ_OP_WRITE | REQ_PREFLUSH,
					    GFP_NOIO));
	}
	for (i = 0; i < devs->nr; i++) {
		if (!kvt_io_wait(&io[i]))
			continue;
		kvt_disk_fail(&devs->dev[i]);
		err = -EIO;
	}
	return err;
}

/**
 * kvt_devs_flush() - have all that was written on stable storage, on all devices
 * @devs: the devices
 *
 * A flush that fails may lose what anybody has written, and the next one succeeds all the same.
 * So no flush returns 0 after that: the log, and all others on that disk, fail before anybody
 * else's flush can begin.
 *
 * Not beside another flush: dm-log-writes records what was written with the first flush
 * that is submitted after it, although the second one may be done before.
 *
 * Context: process context, sleeps.
 *
 * Return: 0; -EIO, whatever a device says; or the error that the log has.
 */
int kvt_devs_flush(struct kvt_devs *devs)
{
	int err;

	kvt_disks_lock(devs);
	err = READ_ONCE(devs->state->error);
	if (!err) {
		err = devs_flush(devs);
		kvt_stat_add(devs->state->env.stats, KVTREE_STAT_LOG_FLUSHES, devs->nr);
		if (err)
			kvt_log_fail(devs->state, err, "a device could not be flushed");
	}
	kvt_disks_unlock(devs);
	return err;
}

/**
 * kvt_dev_discard() - tell a device that what segments hold is of no use any more
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
	/* Who attaches; workers get no signals. */
	if (fatal_signal_pending(current))
		return -EINTR;
	return kvt_dev_read(&set_devs(set)->dev[slot], block, nr, buf);
}

static void set_say(struct kvt_log_set *set, const char *text)
{
	pr_err("kvtree: store '%s': %s\n", set_devs(set)->state->env.name, text);
}

/**
 * kvt_devs_init() - make ready to open a log's devices
 * @devs: the devices, with their state
 * @read_only: nothing is to be written to them
 */
void kvt_devs_init(struct kvt_devs *devs, bool read_only)
{
	devs->read_only = read_only;
	devs->set.read = set_read;
	devs->set.say = set_say;
}
