/* SPDX-License-Identifier: GPL-2.0 */
/* Block devices, and image files that replace them, for format and check. */
#ifndef KVTREE_TOOL_BLOCKDEV_H
#define KVTREE_TOOL_BLOCKDEV_H

#include "../kmod/log/format/format.h"
#include "inuse.h"

struct blockdev {
	const char *path;
	int fd;
	uint64_t bytes;
	bool is_block;
};

int blockdev_open(struct blockdev *dev, const char *path, bool write);
void blockdev_close(struct blockdev *dev);
int blockdev_read(const struct blockdev *dev, void *data, size_t len, uint64_t at);
int blockdev_write(const struct blockdev *dev, const void *data, size_t len, uint64_t at);

/* inuse.c */
bool inuse_by_loop(const struct blockdev *file);

/* A set of devices to read. */
struct devset {
	struct kvt_log_set set;
	struct blockdev dev[KVTREE_LOG_DEVS_MAX];
	bool quiet;		/* print no messages */
};

int devset_open(struct devset *ds, char **paths, unsigned int nr, bool write);
void devset_close(struct devset *ds);

#endif /* KVTREE_TOOL_BLOCKDEV_H */
