// SPDX-License-Identifier: GPL-2.0
/*
 * Signatures of other formats on a device: file systems, partition tables, parts of RAIDs.
 */
#include <fcntl.h>
#include <inttypes.h>
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

/*
 * Whether a place belongs to the store: a valid copy of the superblock, or the log, which holds
 * data of users.  A device that is smaller than its log is a part of another.
 */
static bool is_own(const struct kvtree_device *device, uint64_t at, uint64_t size)
{
	uint64_t block = at / KVTREE_LOG_BLOCK;

	if (block >= KVTREE_LOG_DATA_START)
		return at < device->bytes && device->bytes <= size;
	return !(device->flags & KVTREE_DEVICE_DAMAGED) && block % KVTREE_LOG_SUPER_STRIDE == 0 &&
	       block / KVTREE_LOG_SUPER_STRIDE < KVTREE_LOG_SUPER_COPIES;
}

/* Append a signature to the list. */
static void append(struct signatures *found, const char *what, const char *of, uint64_t at)
{
	char *longer;

	if (asprintf(&longer, "%s%s%s%s%s%s at 0x%" PRIx64, found->list ? found->list : "",
		     found->list ? ", " : "", what, of ? " (" : "", of ? of : "", of ? ")" : "",
		     at) < 0)
		die("out of memory");
	free(found->list);
	found->list = longer;
}

/* Record the signature found last, unless it belongs to the store. */
static void note(blkid_probe probe, const struct kvtree_device *device, struct signatures *found)
{
	const char *type = NULL, *table = NULL, *usage = NULL;
	uint64_t at;

	blkid_probe_lookup_value(probe, "TYPE", &type, NULL);
	blkid_probe_lookup_value(probe, "USAGE", &usage, NULL);
	blkid_probe_lookup_value(probe, "PTTYPE", &table, NULL);
	at = value(probe, type ? "SBMAGIC_OFFSET" : "PTMAGIC_OFFSET");
	if (device && is_own(device, at, (uint64_t)blkid_probe_get_size(probe)))
		return;
	found->part |= usage && !strcmp(usage, "raid");
	if (type || !table)
		append(found, type ? type : "something", NULL, at);
	else
		append(found, "a partition table", table, at);
}

/* An upper bound for the kinds of signatures. */
#define ERRORS_MAX	1000

static void note_all(blkid_probe probe, const struct kvtree_device *device,
		     struct signatures *found)
{
	unsigned int errors = 0;
	int ret;

	/* Continue after a signature with an unreadable place. */
	while ((ret = blkid_do_probe(probe)) != 1 && errors < ERRORS_MAX) {
		errors += ret < 0;
		if (!ret)
			note(probe, device, found);
	}
	found->err = errors ? -EIO : 0;
}

/**
 * signatures_find() - find signatures of other formats on a device
 * @found: filled; signatures_free() must follow
 * @fd: of the device, or of a file with the content of one
 * @device: its description of a store, to ignore data of the store; or NULL
 */
void signatures_find(struct signatures *found, int fd, const struct kvtree_device *device)
{
	blkid_probe probe = blkid_new_probe();

	*found = (struct signatures){ .err = -EIO };
	if (probe && !blkid_probe_set_device(probe, fd, 0, 0)) {
		blkid_probe_enable_superblocks(probe, 1);
		blkid_probe_set_superblocks_flags(probe, BLKID_SUBLKS_TYPE | BLKID_SUBLKS_MAGIC |
						  BLKID_SUBLKS_USAGE | BLKID_SUBLKS_BADCSUM);
		blkid_probe_enable_partitions(probe, 1);
		blkid_probe_set_partitions_flags(probe, BLKID_PARTS_MAGIC);
		note_all(probe, device, found);
	}
	blkid_free_probe(probe);
}

/**
 * signatures_beside() - find signatures of other formats on a device with a store's superblock
 * @found: filled; signatures_free() must follow
 * @path: of the device
 * @device: its description
 *
 * Another program was given the device and left the superblocks, or the device is a part of one
 * that the store is on.
 */
void signatures_beside(struct signatures *found, const char *path,
		       const struct kvtree_device *device)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	*found = (struct signatures){ .err = -EIO };
	if (fd < 0)
		return;
	signatures_find(found, fd, device);
	close(fd);
}

/**
 * signatures_free() - free the list
 * @found: filled
 */
void signatures_free(struct signatures *found)
{
	free(found->list);
	found->list = NULL;
}
