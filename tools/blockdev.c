// SPDX-License-Identifier: GPL-2.0
/*
 * Block devices, and image files that replace them.
 */
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tool.h"
#include "blockdev.h"

/*
 * A block must not span two physical sectors when it is written.  Larger sectors are accepted:
 * see dev_blocks_fit() of the module.
 */
static int blockdev_aligned(const struct blockdev *dev)
{
	int off = 0;

	if (!dev->is_block || ioctl(dev->fd, BLKALIGNOFF, &off) || !off)
		return 0;
	warn("%s: blocks of 4096 bytes span its physical sectors: align the partition",
	     dev->path);
	return -EOPNOTSUPP;
}

/**
 * blockdev_open() - open a device, and determine its size
 * @dev: filled
 * @path: of a block device or a regular file
 * @write: open it for writing; then a device in use is refused
 *
 * Prints a message on failure.
 *
 * Return: 0 or a negative errno
 */
int blockdev_open(struct blockdev *dev, const char *path, bool write)
{
	struct stat st;
	int err;

	dev->path = path;
	dev->fd = -1;
	/* Opening a pipe would block, and opening a tape would move it. */
	if (!stat(path, &st) && !S_ISBLK(st.st_mode) && !S_ISREG(st.st_mode)) {
		warn("%s: neither a block device nor a file", path);
		return -ENOTBLK;
	}
	/* O_EXCL fails for a block device that is in use; for a file it has no effect. */
	dev->fd = open(path, O_CLOEXEC | (write ? O_RDWR | O_EXCL : O_RDONLY));
	if (dev->fd < 0 && errno == EBUSY) {
		inuse_warn(path);
		return -EBUSY;
	}
	/* Check the opened file: the path may lead elsewhere by now. */
	if (dev->fd < 0 || fstat(dev->fd, &st)) {
		err = -errno;
		warn("%s: %s", path, strerror(-err));
		return err;
	}
	dev->is_block = S_ISBLK(st.st_mode);
	if (!dev->is_block && !S_ISREG(st.st_mode)) {
		warn("%s: neither a block device nor a file", path);
		return -ENOTBLK;
	}
	/* The module writes past the page cache that this reads from. */
	posix_fadvise(dev->fd, 0, 0, POSIX_FADV_DONTNEED);
	dev->bytes = (uint64_t)st.st_size;
	if (dev->is_block && ioctl(dev->fd, BLKGETSIZE64, &dev->bytes)) {
		err = -errno;
		warn("%s: cannot determine its size: %s", path, strerror(-err));
		return err;
	}
	return write ? blockdev_aligned(dev) : 0;
}

/**
 * blockdev_close() - close a device
 * @dev: of blockdev_open(), or with a negative fd
 */
void blockdev_close(struct blockdev *dev)
{
	if (dev->fd >= 0)
		close(dev->fd);
	dev->fd = -1;
}

/**
 * blockdev_write() - write to a device
 * @dev: the device
 * @data: bytes
 * @len: how many
 * @at: where to
 *
 * Return: 0 or a negative errno, after printing a message
 */
int blockdev_write(const struct blockdev *dev, const void *data, size_t len, uint64_t at)
{
	ssize_t n;
	int err;

	while (len) {
		n = pwrite(dev->fd, data, len, (off_t)at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			err = n ? errno : ENOSPC;
			warn("%s: cannot write: %s", dev->path, strerror(err));
			return -err;
		}
		data = (const char *)data + n;
		len -= (size_t)n;
		at += (uint64_t)n;
	}
	return 0;
}

/**
 * blockdev_read() - read from a device
 * @dev: the device
 * @data: filled
 * @len: how many bytes
 * @at: where from
 *
 * Return: 0 or -EIO, after printing a message
 */
int blockdev_read(const struct blockdev *dev, void *data, size_t len, uint64_t at)
{
	ssize_t n;

	while (len) {
		n = pread(dev->fd, data, len, (off_t)at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			warn("%s: cannot read: %s", dev->path, n ? strerror(errno) : "it ends");
			return -EIO;
		}
		data = (char *)data + n;
		len -= (size_t)n;
		at += (uint64_t)n;
	}
	return 0;
}

static struct devset *devset_of(struct kvt_log_set *set)
{
	return (struct devset *)((char *)set - offsetof(struct devset, set));
}

static int devset_read(struct kvt_log_set *set, u32 slot, u64 block, u32 nr, void *buf)
{
	return blockdev_read(&devset_of(set)->dev[slot], buf, (size_t)nr * KVTREE_LOG_BLOCK,
			     block * KVTREE_LOG_BLOCK);
}

static void devset_say(struct kvt_log_set *set, const char *text)
{
	if (!devset_of(set)->quiet)
		warn("%s", text);
}

/**
 * devset_open() - open the devices of a store
 * @ds: filled; devset_close() must follow, even after an error
 * @paths: of the devices
 * @nr: how many
 * @write: open them for writing; then devices in use are refused
 *
 * Return: 0 or a negative errno, after printing a message
 */
int devset_open(struct devset *ds, char **paths, unsigned int nr, bool write)
{
	unsigned int i;
	int err;

	memset(ds, 0, sizeof(*ds));
	for (i = 0; i < KVTREE_LOG_DEVS_MAX; i++)
		ds->dev[i].fd = -1;
	ds->set.read = devset_read;
	ds->set.say = devset_say;
	ds->set.nr_given = nr;
	for (i = 0; i < nr; i++) {
		err = blockdev_open(&ds->dev[i], paths[i], write);
		if (err)
			return err;
		ds->set.size[i] = ds->dev[i].bytes / KVTREE_LOG_BLOCK;
	}
	return 0;
}

/**
 * devset_close() - close the devices
 * @ds: of devset_open()
 */
void devset_close(struct devset *ds)
{
	unsigned int i;

	kvt_log_set_free(&ds->set);
	for (i = 0; i < KVTREE_LOG_DEVS_MAX; i++)
		blockdev_close(&ds->dev[i]);
}
