// SPDX-License-Identifier: LGPL-2.1-only
/*
 * Sessions: opening and closing stores, and the module's description.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "internal.h"

/**
 * kvt_ioctl() - ioctl() that goes on after signals and returns the errno
 * @kv: the session
 * @request: the ioctl's number
 * @arg: its argument
 *
 * For calls that may be repeated; kvtree_submit() handles signals itself.
 *
 * Return: what ioctl() returned, or a negative errno
 */
int kvt_ioctl(const struct kvtree *kv, unsigned long request, void *arg)
{
	int ret;

	do {
		ret = ioctl(kv->fd, request, arg);
	} while (ret < 0 && errno == EINTR);
	return ret < 0 ? -errno : ret;
}

static int session_new(int fd, struct kvtree **kv)
{
	struct kvtree *new = calloc(1, sizeof(*new));

	if (!new)
		return -ENOMEM;
	new->fd = fd;
	*kv = new;
	return 0;
}

static int device_open(unsigned int flags)
{
	int mode = O_RDWR, fd;

	if (flags == KVTREE_OPEN_READ)
		mode = O_RDONLY;
	else if (flags == KVTREE_OPEN_WRITE)
		mode = O_WRONLY;
	do {
		fd = open(KVTREE_DEVICE, mode | O_CLOEXEC);
	} while (fd < 0 && errno == EINTR);
	if (fd >= 0)
		return fd;
	/* Report ENOENT only for a store that does not exist. */
	if (errno == ENOENT || errno == ENXIO)
		return -ENODEV;
	return -errno;
}

static int store_open(const char *name, unsigned int flags)
{
	struct kvtree_store_open arg = { .flags = flags };
	struct kvtree dev;
	int fd;

	if (strlen(name) >= sizeof(arg.name))
		return -ENAMETOOLONG;
	memcpy(arg.name, name, strlen(name));
	/* This call only needs to read the device. */
	dev.fd = device_open(KVTREE_OPEN_READ);
	if (dev.fd < 0)
		return dev.fd;
	fd = kvt_ioctl(&dev, KVTREE_IOC_STORE_OPEN, &arg);
	close(dev.fd);
	return fd;
}

KVTREE_API int kvtree_open(const char *name, unsigned int flags,
			   struct kvtree **kv)
{
	int fd, err;

	*kv = NULL;
	if (flags & ~(KVTREE_OPEN_READ | KVTREE_OPEN_WRITE))
		return -EINVAL;
	if (!flags)
		flags = KVTREE_OPEN_READ | KVTREE_OPEN_WRITE;
	fd = name ? store_open(name, flags) : device_open(flags);
	if (fd < 0)
		return fd;
	err = session_new(fd, kv);
	if (err)
		close(fd);
	return err;
}

KVTREE_API int kvtree_from_fd(int fd, struct kvtree **kv)
{
	struct kvtree probe = { .fd = fd };
	struct kvtree_info info;
	int err;

	*kv = NULL;
	err = kvtree_info(&probe, &info, sizeof(info));
	if (err)
		return err;
	return session_new(fd, kv);
}

KVTREE_API void kvtree_close(struct kvtree *kv)
{
	if (!kv)
		return;
	close(kv->fd);
	free(kv);
}

KVTREE_API int kvtree_fd(const struct kvtree *kv)
{
	return kv->fd;
}

KVTREE_API int kvtree_info(const struct kvtree *kv, struct kvtree_info *info,
			   size_t size)
{
	if (size > KVT_IOC_SIZE_MAX)
		return -EINVAL;
	memset(info, 0, size);
	return kvt_ioctl(kv, kvt_ioc_sized(KVTREE_IOC_INFO, size), info);
}

KVTREE_API const char *kvtree_version(void)
{
	return KVTREE_LIB_VERSION;
}
