// SPDX-License-Identifier: GPL-2.0
/* Disks that fail on demand: see faults.h. */
#include <fcntl.h>
#include <linux/blkpg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include "faults.h"
#include "kvt_test.h"

/* For ever. */
#define ALWAYS	(1ull << 62)

bool kvt_faults_load(void)
{
	const char *module = getenv("KVTREE_MODULE");
	char path[4096], command[4200];

	if (!access("/sys/module/kvtree_fault", F_OK))
		return true;
	if (!module)
		return false;
	snprintf(path, sizeof(path), "%.*s/tests/kvtree_fault.ko",
		 (int)(strrchr(module, '/') - module), module);
	if (access(path, F_OK))
		return false;
	snprintf(command, sizeof(command), "insmod %s", path);
	KVT_CHECK(!system(command));
	return true;
}

static int attr_open(const char *disk, const char *attr, int flags)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "/sys/block/%s/fault/%s", strrchr(disk, '/') + 1, attr);
	fd = open(path, flags | O_CLOEXEC);
	KVT_CHECK(fd >= 0);
	return fd;
}

static void attr_read(const char *disk, const char *attr, char *text, size_t size)
{
	int fd = attr_open(disk, attr, O_RDONLY);
	ssize_t len = read(fd, text, size - 1);

	KVT_CHECK(len > 0);
	text[len] = '\0';
	close(fd);
}

static void attr_write(const struct kvt_disk *disk, const char *attr, const char *text)
{
	int fd = attr_open(disk->path, attr, O_WRONLY);

	KVT_CHECK(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
}

static bool disk_is_there(void *path)
{
	return !access(path, F_OK);
}

void kvt_fault_disk(struct kvt_disk *disk, int nr)
{
	memset(disk, 0, sizeof(*disk));
	snprintf(disk->path, sizeof(disk->path), "/dev/kvtfault%d", nr);
	KVT_CHECK(kvt_eventually(disk_is_there, disk->path));
	attr_write(disk, "reset", "1");
}

void kvt_fault_resize(const struct kvt_disk *disk, size_t mib)
{
	char text[32];

	snprintf(text, sizeof(text), "%zu", mib);
	attr_write(disk, "mb", text);
}

/* The kernel needs no table on the disk. */
static bool part_tell(const struct kvt_disk *disk, int op, int nr, size_t mib)
{
	struct blkpg_partition part = {
		.pno = nr + 1,
		.start = (long long)(1 + nr * mib) << 20,
		.length = (long long)mib << 20,
	};
	struct blkpg_ioctl_arg arg = { .op = op, .datalen = sizeof(part), .data = &part };
	int fd = open(disk->path, O_RDONLY | O_CLOEXEC), err;

	KVT_CHECK(fd >= 0);
	err = ioctl(fd, BLKPG, &arg);
	close(fd);
	return !err;
}

void kvt_fault_partition(const struct kvt_disk *disk, struct kvt_disk *part, int nr, size_t mib)
{
	int i;

	memset(part, 0, nr * sizeof(*part));
	kvt_fault_resize(disk, 1 + nr * mib);
	for (i = 0; i < nr; i++) {
		KVT_CHECK(part_tell(disk, BLKPG_ADD_PARTITION, i, mib));
		snprintf(part[i].path, sizeof(part[i].path), "%.20sp%d", disk->path, i + 1);
		KVT_CHECK(kvt_eventually(disk_is_there, part[i].path));
	}
}

struct part {
	const struct kvt_disk *disk;
	int nr;
};

/* The kernel may complete the last close later. */
static bool part_is_gone(void *arg)
{
	const struct part *part = arg;

	return part_tell(part->disk, BLKPG_DEL_PARTITION, part->nr, 0);
}

void kvt_fault_departition(const struct kvt_disk *disk, int nr)
{
	struct part part = { .disk = disk };

	for (part.nr = 0; part.nr < nr; part.nr++)
		KVT_CHECK(kvt_eventually(part_is_gone, &part));
}

static __u64 attr_number(const struct kvt_disk *disk, const char *attr)
{
	char text[32];

	attr_read(disk->path, attr, text, sizeof(text));
	return strtoull(text, NULL, 10);
}

const char *kvt_fault_status(int nr)
{
	static char names[4096];
	char *at, *end;

	attr_read("/dev/kvtfault0", "statuses", names, sizeof(names));
	for (at = names; *at; at = end + 1, nr--) {
		end = strchr(at, '\n');
		*end = '\0';
		if (!nr)
			return at;
	}
	return NULL;
}

void kvt_fault_fail(const struct kvt_disk *disk, const char *status, const char *ops,
		    __u64 first, __u64 count)
{
	char text[128];

	snprintf(text, sizeof(text), "%s %s %llu %llu", status, ops, first, count);
	attr_write(disk, "fail", text);
}

void kvt_fault_fail_at(const struct kvt_disk *disk, const char *status, const char *ops,
		       __u64 sector, __u64 sectors)
{
	char text[128];

	snprintf(text, sizeof(text), "%s %s 1 %llu %llu %llu", status, ops, ALWAYS, sector,
		 sectors);
	attr_write(disk, "fail", text);
}

__u64 kvt_fault_counted(const struct kvt_disk *disk)
{
	return attr_number(disk, "counted");
}

__u64 kvt_fault_mend(const struct kvt_disk *disk)
{
	__u64 failed = attr_number(disk, "failed");

	kvt_fault_fail(disk, "ioerr", "r", 1, 0);
	return failed;
}

void kvt_fault_hold(const struct kvt_disk *disk, bool hold)
{
	attr_write(disk, "hold", hold ? "1" : "0");
}

__u64 kvt_fault_held(const struct kvt_disk *disk)
{
	return attr_number(disk, "held");
}

void kvt_fault_cache(const struct kvt_disk *disk, const char *what)
{
	attr_write(disk, "cache", what);
}

#define BLOCK	4096

/* Not from the page cache: a store bypasses it, and may close the disk only some time later. */
void kvt_fault_read(const struct kvt_disk *disk, __u64 sector, void *block)
{
	static char data[BLOCK] __attribute__((aligned(BLOCK)));
	int fd = open(disk->path, O_RDONLY | O_DIRECT | O_CLOEXEC);

	KVT_CHECK(fd >= 0);
	KVT_CHECK(pread(fd, data, BLOCK, (off_t)(sector * 512)) == BLOCK);
	memcpy(block, data, BLOCK);
	close(fd);
}

void kvt_fault_write(const struct kvt_disk *disk, __u64 sector, const void *block)
{
	int fd = open(disk->path, O_WRONLY | O_CLOEXEC);

	KVT_CHECK(fd >= 0);
	KVT_CHECK(pwrite(fd, block, BLOCK, (off_t)(sector * 512)) == BLOCK);
	KVT_CHECK(fsync(fd) == 0);
	close(fd);
}
