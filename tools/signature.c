// SPDX-License-Identifier: GPL-2.0
/*
 * What others have written on a device: file systems, partition tables, parts of RAIDs.
 */
#include <fcntl.h>
#include <unistd.h>

#include <blkid/blkid.h>

#include <linux/kvtree_format.h>

#include "signature.h"
#include "tool.h"

static uint64_t value(blkid_probe probe, const char *name)
{
	const char *text = NULL;

	return blkid_probe_lookup_value(probe, name, &text, NULL) ? 0 : strtoull(text, NULL, 10);
}

/* At the end of a device no log is now, but of those formatted by the first versions. */
#define END_BYTES	(1u << 20)

/*
 * Whether a place is the store's: a copy of the superblock that is sound, or the log, in which
 * stands what users have put there.  A device that is smaller than its log is a part of another.
 */
static bool is_own(const struct kvtree_device *device, uint64_t at, uint64_t size)
{
	uint64_t block = at / KVTREE_LOG_BLOCK;

	if (block >= KVTREE_LOG_DATA_START)
		return at < device->bytes && device->bytes <= size && at + END_BYTES < size;
	return !(device->flags & KVTREE_DEVICE_DAMAGED) && block % KVTREE_LOG_SUPER_STRIDE == 0 &&
	       block / KVTREE_LOG_SUPER_STRIDE < KVTREE_LOG_SUPER_COPIES;
}

/* What was found last, for people; NULL if it is the store's. */
static char *found(blkid_probe probe, const struct kvtree_device *device)
{
	const char *type = NULL, *table = NULL;
	char *what = NULL;

	blkid_probe_lookup_value(probe, "TYPE", &type, NULL);
	blkid_probe_lookup_value(probe, "PTTYPE", &table, NULL);
	if (device && is_own(device, value(probe, type ? "SBMAGIC_OFFSET" : "PTMAGIC_OFFSET"),
			     (uint64_t)blkid_probe_get_size(probe)))
		return NULL;
	if (type || !table)
		what = strdup(type ? type : "something");
	else if (asprintf(&what, "a partition table (%s)", table) < 0)
		what = NULL;
	if (!what)
		die("out of memory");
	return what;
}

/* More than there are kinds of signatures. */
#define ERRORS_MAX	1000

/* All of them, with commas between. */
static char *all(blkid_probe probe, const struct kvtree_device *device, int *err)
{
	char *list = NULL, *what, *longer;
	unsigned int errors = 0;
	int ret;

	/* One that cannot read its place is not the last one. */
	while ((ret = blkid_do_probe(probe)) != 1 && errors < ERRORS_MAX) {
		errors += ret < 0;
		what = ret ? NULL : found(probe, device);
		if (!what)
			continue;
		if (asprintf(&longer, "%s%s%s", list ? list : "", list ? ", " : "", what) < 0)
			die("out of memory");
		free(what);
		free(list);
		list = longer;
	}
	*err = errors ? -EIO : 0;
	return list;
}

/**
 * signature_find() - what others have written on a device
 * @fd: of the device, or of a file with the content of one
 * @device: what it says of a store, in whose places nothing counts; or NULL
 * @err: set to 0, or -EIO: the device cannot be read
 *
 * Return: words for people, to be freed; NULL: there is nothing, or it is not known
 */
char *signature_find(int fd, const struct kvtree_device *device, int *err)
{
	blkid_probe probe = blkid_new_probe();
	char *list = NULL;

	*err = -EIO;
	if (probe && !blkid_probe_set_device(probe, fd, 0, 0)) {
		blkid_probe_enable_superblocks(probe, 1);
		blkid_probe_set_superblocks_flags(probe, BLKID_SUBLKS_TYPE | BLKID_SUBLKS_MAGIC |
						  BLKID_SUBLKS_BADCSUM);
		blkid_probe_enable_partitions(probe, 1);
		blkid_probe_set_partitions_flags(probe, BLKID_PARTS_MAGIC);
		list = all(probe, device, err);
	}
	blkid_free_probe(probe);
	return list;
}

/**
 * signature_beside() - what others have written on a device that says that it is a store's
 * @path: of the device
 * @device: what it says
 *
 * Such a device was given to somebody else who has left the superblocks as they were, or it is a
 * part of what the store stands on.
 *
 * Return: words for people, to be freed; NULL: there is nothing, or it is not known
 */
char *signature_beside(const char *path, const struct kvtree_device *device)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), err;
	char *what;

	if (fd < 0)
		return NULL;
	what = signature_find(fd, device, &err);
	close(fd);
	return what;
}
