// SPDX-License-Identifier: LGPL-2.1-only
/*
 * Devices of durable stores: attaching them, and what they say about themselves.
 */
#include <endian.h>
#include <fcntl.h>
#include <stddef.h>
#include <unistd.h>

#include <linux/kvtree_format.h>

#include "internal.h"

KVTREE_API int kvtree_store_attach(const struct kvtree *kv,
				   const struct kvtree_store_attach *args, size_t size)
{
	if (size > KVT_IOC_SIZE_MAX)
		return -EINVAL;
	/* The kernel only reads it. */
	return kvt_ioctl(kv, kvt_ioc_sized(KVTREE_IOC_STORE_ATTACH, size),
			 (void *)(uintptr_t)args);
}

KVTREE_API int kvtree_store_detach(const struct kvtree *kv, const char *name)
{
	struct kvtree_store_detach arg = { .flags = 0 };

	if (strlen(name) >= sizeof(arg.name))
		return -ENAMETOOLONG;
	memcpy(arg.name, name, strlen(name));
	return kvt_ioctl(kv, KVTREE_IOC_STORE_DETACH, &arg);
}

KVTREE_API int kvtree_checkpoint(const struct kvtree *kv)
{
	struct kvtree_checkpoint arg = { .flags = 0 };

	return kvt_ioctl(kv, KVTREE_IOC_CHECKPOINT, &arg);
}

/* No table: it is only used for two blocks. */
static uint32_t crc32c(uint32_t crc, const void *data, size_t len)
{
	const unsigned char *p = data;
	int bit;

	while (len--) {
		crc ^= *p++;
		for (bit = 0; bit < 8; bit++)
			crc = (crc >> 1) ^ (crc & 1 ? 0x82f63b78 : 0);
	}
	return crc;
}

/* See Documentation/on-disk-format.rst. */
static uint32_t super_crc(const struct kvtree_log_super *super)
{
	const size_t crc_off = offsetof(struct kvtree_log_super, crc);
	struct kvtree_log_seed seed = {
		.segment = htole32(~0U),
		.block = htole32(le64toh(super->number) % KVTREE_LOG_SUPER_COPIES),
		.dev_index = super->dev_index,
	};
	const uint32_t zero = 0;
	uint32_t crc;

	memcpy(seed.uuid, super->uuid, sizeof(seed.uuid));
	crc = crc32c(~0U, &seed, sizeof(seed));
	crc = crc32c(crc, super, crc_off);
	crc = crc32c(crc, &zero, sizeof(zero));
	return crc32c(crc, (const char *)super + crc_off + sizeof(zero),
		      sizeof(*super) - crc_off - sizeof(zero));
}

static int read_block(int fd, uint64_t block, void *data)
{
	size_t done = 0;
	ssize_t n;

	while (done < KVTREE_LOG_BLOCK) {
		n = pread(fd, (char *)data + done, KVTREE_LOG_BLOCK - done,
			  (off_t)(block * KVTREE_LOG_BLOCK + done));
		if (n < 0 && errno == EINTR)
			continue;
		/* Replace the device's errno, which may have another meaning here. */
		if (n < 0)
			return -EIO;
		/* The device is too small to hold a store. */
		if (!n)
			return -ENODATA;
		done += (size_t)n;
	}
	return 0;
}

/* Count the sectors that every superblock leaves zero and that are not. */
static unsigned int sectors_written(const char *block)
{
	static const char zeros[KVTREE_LOG_SECTOR];
	unsigned int nr = 0, at;

	for (at = KVTREE_LOG_ZEROS_FROM; at < KVTREE_LOG_BLOCK; at += KVTREE_LOG_SECTOR)
		nr += !!memcmp(block + at, zeros, sizeof(zeros));
	return nr;
}

/* Whether something else was written over the first copy. */
static bool super_taken(const struct kvtree_log_super *super)
{
	static const struct kvtree_log_mark marks[] = KVTREE_LOG_MARKS;
	const char *block = (const char *)super;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(marks); i++)
		if (!memcmp(block + marks[i].offset, marks[i].mark, marks[i].bytes))
			return true;
	return sectors_written(block) > 1;
}

static bool super_sound(const struct kvtree_log_super *super, unsigned int copy)
{
	return le64toh(super->magic) == KVTREE_LOG_SUPER_MAGIC &&
	       le64toh(super->number) % KVTREE_LOG_SUPER_COPIES == copy &&
	       le32toh(super->crc) == super_crc(super);
}

/*
 * Returns 1 if the copy is valid, 0 if there is none, or an error: -EIO if it cannot be read;
 * -ENODATA if the device has been put to another use, whatever the other copy says.
 */
static int read_copy(int fd, unsigned int copy, struct kvtree_log_super *super)
{
	int err = read_block(fd, copy * KVTREE_LOG_SUPER_STRIDE, super);

	if (err)
		return err;
	if (!super_sound(super, copy)) {
		if (!copy && super_taken(super))
			return -ENODATA;
		return le64toh(super->magic) == KVTREE_LOG_SUPER_MAGIC ? -EBADMSG : 0;
	}
	if (le32toh(super->version) != KVTREE_LOG_VERSION ||
	    le64toh(super->incompat) & ~(KVTREE_LOG_RANGES | KVTREE_LOG_SPARSE) ||
	    super->ro_compat)
		return -EOPNOTSUPP;
	if (!super->nr_devs || le32toh(super->nr_devs) > KVTREE_LOG_DEVS_MAX ||
	    le32toh(super->dev_index) >= le32toh(super->nr_devs) ||
	    le32toh(super->nr_lives) > KVTREE_LOG_LIVES_MAX)
		return -EBADMSG;
	return 1;
}

static void describe(struct kvtree_device *device, const struct kvtree_log_super *super)
{
	uint32_t lives = le32toh(super->nr_lives);

	memcpy(device->uuid, super->uuid, sizeof(device->uuid));
	/* The label need not end with a zero byte. */
	memcpy(device->label, super->label, sizeof(device->label) - 1);
	device->version = le32toh(super->version);
	device->index = le32toh(super->dev_index);
	device->nr_devices = le32toh(super->nr_devs);
	if (lives && !super->lives[lives - 1].last_epoch)
		device->flags |= KVTREE_DEVICE_OPEN;
	device->bytes = le64toh(super->nr_blocks) * KVTREE_LOG_BLOCK;
	device->segment_bytes = le32toh(super->segment_blocks) * (uint64_t)KVTREE_LOG_BLOCK;
	device->formatted = le64toh(super->formatted);
	device->checkpoint_records = le64toh(super->checkpoint.records);
}

static int probe(int fd, struct kvtree_device *device)
{
	struct kvtree_log_super super[KVTREE_LOG_SUPER_COPIES];
	const struct kvtree_log_super *newest = NULL;
	unsigned int copy;
	int found, bad = 0;
	bool damaged = false, doubtful = false;

	for (copy = 0; copy < KVTREE_LOG_SUPER_COPIES; copy++) {
		found = read_copy(fd, copy, &super[copy]);
		/* A copy may be half written or unreadable: use the other one then. */
		if (found == -EBADMSG || found == -EIO)
			bad = found;
		else if (found < 0)
			return found;
		damaged |= found <= 0;
		doubtful |= !found && !copy;
		if (found > 0 && (!newest || le64toh(super[copy].number) > le64toh(newest->number)))
			newest = &super[copy];
	}
	if (!newest)
		return bad ? bad : -ENODATA;
	describe(device, newest);
	if (damaged)
		device->flags |= KVTREE_DEVICE_DAMAGED;
	if (doubtful)
		device->flags |= KVTREE_DEVICE_DOUBTFUL;
	return 0;
}

KVTREE_API int kvtree_probe(const char *path, struct kvtree_device *device, size_t size)
{
	struct kvtree_device found = { .flags = 0 };
	int fd, err;

	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return -errno;
	/* The module writes past the page cache that this function reads from. */
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	err = probe(fd, &found);
	close(fd);
	memset(device, 0, size);
	if (!err)
		memcpy(device, &found, size < sizeof(found) ? size : sizeof(found));
	return err;
}
