// SPDX-License-Identifier: GPL-2.0
/*
 * Block devices, and files that stand for them.
 */
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tool.h"
#include "blockdev.h"

/**
 * blockdev_open() - open a device, and find out how large it is
 * @dev: filled
 * @path: of a block device or a regular file
 * @write: to write to it; nobody else may have it then
 * @force: a device that is in use is opened all the same
 *
 * Says what is wrong.
 *
 * Return: 0 or a negative errno
 */
int blockdev_open(struct blockdev *dev, const char *path, bool write, bool force)
{
	struct stat st;
	int flags;

	dev->path = path;
	dev->fd = -1;
	if (stat(path, &st)) {
		warn("%s: %m", path);
		return -errno;
	}
	dev->is_block = S_ISBLK(st.st_mode);
	if (!dev->is_block && !S_ISREG(st.st_mode)) {
		warn("%s: neither a block device nor a file", path);
		return -ENOTBLK;
	}
	flags = O_CLOEXEC | (write ? O_RDWR : O_RDONLY);
	/* On a block device this asks for it alone: mounted ones and others' are refused. */
	if (dev->is_block && write && !force)
		flags |= O_EXCL;
	dev->fd = open(path, flags);
	if (dev->fd < 0) {
		if (errno == EBUSY)
			warn("%s: it is in use (mounted, attached, or a part of another device)",
			     path);
		else
			warn("%s: %m", path);
		return -errno;
	}
	/* The module writes past the cache that others read from. */
	if (!write)
		posix_fadvise(dev->fd, 0, 0, POSIX_FADV_DONTNEED);
	dev->bytes = (uint64_t)st.st_size;
	if (dev->is_block && ioctl(dev->fd, BLKGETSIZE64, &dev->bytes)) {
		warn("%s: cannot find out its size: %m", path);
		return -errno;
	}
	return 0;
}

/**
 * blockdev_close() - close a device
 * @dev: of blockdev_open(), or with an fd that is negative
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
 * Return: 0 or a negative errno, which was said
 */
int blockdev_write(const struct blockdev *dev, const void *data, size_t len, uint64_t at)
{
	ssize_t n;

	while (len) {
		n = pwrite(dev->fd, data, len, (off_t)at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			warn("%s: cannot write: %s", dev->path, n ? strerror(errno) : "no room");
			return n ? -errno : -ENOSPC;
		}
		data = (const char *)data + n;
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
	const struct blockdev *dev = &devset_of(set)->dev[slot];
	size_t len = (size_t)nr * KVTREE_LOG_BLOCK, done = 0;
	ssize_t n;

	while (done < len) {
		n = pread(dev->fd, (char *)buf + done, len - done,
			  (off_t)(block * KVTREE_LOG_BLOCK + done));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			warn("%s: cannot read: %s", dev->path, n ? strerror(errno) : "it ends");
			return -EIO;
		}
		done += (size_t)n;
	}
	return 0;
}

static void devset_say(struct kvt_log_set *set, const char *text)
{
	if (!devset_of(set)->quiet)
		warn("%s", text);
}

/**
 * devset_open() - open the devices of a store to read them
 * @ds: filled; devset_close() must follow, whatever is returned
 * @paths: of the devices
 * @nr: how many
 *
 * Return: 0 or a negative errno, which was said
 */
int devset_open(struct devset *ds, char **paths, unsigned int nr)
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
		err = blockdev_open(&ds->dev[i], paths[i], false, true);
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
