// SPDX-License-Identifier: GPL-2.0
/* Durable stores: see durable.h. */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/kvtree_format.h>
#include <linux/loop.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "durable.h"
#include "kvt_test.h"

#define NULLB	"/sys/kernel/config/nullb"

static bool node_is_there(void *arg)
{
	const char *path = arg;
	struct stat st;

	return !stat(path, &st) && S_ISBLK(st.st_mode);
}

/* A loop device over memory, which can also be read and written directly. */
void kvt_disk_make(struct kvt_disk *disk, size_t mib, unsigned int block)
{
	/* The last close removes it, however the test ends. */
	struct loop_config config = {
		.block_size = block, .info.lo_flags = LO_FLAGS_AUTOCLEAR,
	};
	int control, fd, nr;

	disk->bytes = mib * KVT_MIB;
	disk->memory = memfd_create("kvt-disk", MFD_CLOEXEC);
	KVT_CHECK(disk->memory >= 0 && !ftruncate(disk->memory, (off_t)disk->bytes));
	control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	if (control < 0) {
		KVT_CHECK(system("modprobe loop") == 0);
		control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	}
	KVT_CHECK(control >= 0);
	do {
		nr = ioctl(control, LOOP_CTL_GET_FREE);
		KVT_CHECK(nr >= 0);
		snprintf(disk->path, sizeof(disk->path), "/dev/loop%d", nr);
		KVT_CHECK(kvt_eventually(node_is_there, disk->path));
		fd = open(disk->path, O_RDWR | O_CLOEXEC);
		KVT_CHECK(fd >= 0);
		config.fd = (__u32)disk->memory;
		nr = ioctl(fd, LOOP_CONFIGURE, &config);
		KVT_CHECK(!nr || errno == EBUSY);
		if (nr)
			close(fd);
	} while (nr);
	/* A store takes no disk that is open for writing. */
	disk->fd = open(disk->path, O_RDONLY | O_CLOEXEC);
	KVT_CHECK(disk->fd >= 0);
	close(fd);
	close(control);
}

/* The memory's size is the disk's: it grows or shrinks. */
void kvt_disk_resize(struct kvt_disk *disk, size_t mib)
{
	KVT_CHECK(!ftruncate(disk->memory, (off_t)(mib * KVT_MIB)));
	KVT_CHECK(!ioctl(disk->fd, LOOP_SET_CAPACITY, 0));
	disk->bytes = mib * KVT_MIB;
}

void kvt_disk_remove(struct kvt_disk *disk)
{
	if (!disk->bytes)
		return;
	KVT_CHECK(!ioctl(disk->fd, LOOP_CLR_FD, 0));
	close(disk->fd);
	close(disk->memory);
	disk->bytes = 0;
}

/* All of a piece, to or from the memory. */
static void disk_copy(const struct kvt_disk *disk, void *data, off_t at, off_t end, bool in)
{
	ssize_t n;

	for (; at < end; at += n, data = (char *)data + n) {
		n = in ? pread(disk->memory, data, (size_t)(end - at), at) :
			 pwrite(disk->memory, data, (size_t)(end - at), at);
		KVT_CHECK(n > 0);
	}
}

/* Behind the content of an image: where it has any. */
struct extents {
	size_t nr;
	struct { off_t at, end; } extent[4096];
};

static struct extents *image_extents(const struct kvt_disk *disk, const void *image)
{
	return (struct extents *)((char *)image + disk->bytes);
}

/* Most of a disk was never written to: an image takes no memory for that. */
void *kvt_disk_image(const struct kvt_disk *disk)
{
	struct extents *extents;
	off_t at = 0, end;
	char *image;

	image = mmap(NULL, disk->bytes + sizeof(*extents), PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	KVT_CHECK(image != MAP_FAILED);
	extents = image_extents(disk, image);
	while ((at = lseek(disk->memory, at, SEEK_DATA)) >= 0) {
		end = lseek(disk->memory, at, SEEK_HOLE);
		disk_copy(disk, image + at, at, end, true);
		KVT_CHECK(extents->nr < NR(extents->extent));
		extents->extent[extents->nr].at = at;
		extents->extent[extents->nr++].end = end;
		at = end;
	}
	return image;
}

bool kvt_image_part(const struct kvt_disk *disk, const void *image, size_t i, off_t *at,
		    off_t *end)
{
	const struct extents *extents = image_extents(disk, image);

	if (i >= extents->nr)
		return false;
	*at = extents->extent[i].at;
	*end = extents->extent[i].end;
	return true;
}

void kvt_disk_free(const struct kvt_disk *disk, void *image)
{
	if (image)
		munmap(image, disk->bytes + sizeof(struct extents));
}

void kvt_disks_image(const struct kvt_disk *disk, int nr, int fd, void **image)
{
	__u64 bytes;
	int i;

	do {
		bytes = fd >= 0 ? kvt_stat(fd, KVTREE_STAT_LOG_BYTES) : 0;
		for (i = 0; i < nr; i++) {
			kvt_disk_free(&disk[i], image[i]);
			image[i] = kvt_disk_image(&disk[i]);
		}
	} while (fd >= 0 && bytes != kvt_stat(fd, KVTREE_STAT_LOG_BYTES));
}

const struct kvtree_log_super *kvt_image_super(const void *image)
{
	const struct kvtree_log_super *super = image, *newest = super;
	unsigned int copy;

	for (copy = 1; copy < KVTREE_LOG_SUPER_COPIES; copy++) {
		super = (const void *)((const char *)image +
			(size_t)copy * KVTREE_LOG_SUPER_STRIDE * KVTREE_LOG_BLOCK);
		if (le64toh(super->number) > le64toh(newest->number))
			newest = super;
	}
	return newest;
}

__u64 kvt_disks_records(const struct kvt_disk *disk, int nr)
{
	__u64 records = 0;
	void *image;
	int i;

	for (i = 0; i < nr; i++) {
		image = kvt_disk_image(&disk[i]);
		records += le64toh(kvt_image_super(image)->checkpoint.records);
		kvt_disk_free(&disk[i], image);
	}
	return records;
}

/* Parts of the image may have been discarded meanwhile, and other parts written. */
void kvt_disk_restore(const struct kvt_disk *disk, const void *image)
{
	const struct extents *extents = image_extents(disk, image);
	off_t at;
	size_t i;

	KVT_CHECK(!fallocate(disk->memory, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
			     (off_t)disk->bytes));
	for (i = 0; i < extents->nr; i++) {
		at = extents->extent[i].at;
		disk_copy(disk, (char *)image + at, at, extents->extent[i].end, false);
	}
}

void kvt_disks_restore(const struct kvt_disk *disk, int nr, void *const *image)
{
	int i;

	for (i = 0; i < nr; i++)
		kvt_disk_restore(&disk[i], image[i]);
}

void kvt_disk_write(const struct kvt_disk *disk, const void *data, size_t len, size_t at)
{
	KVT_CHECK(pwrite(disk->memory, data, len, (off_t)at) == (ssize_t)len);
}

/* A disk of null_blk, which can do more than a loop device. */
static void null_path(char *path, size_t size, const struct kvt_disk *disk, const char *attribute)
{
	snprintf(path, size, NULLB "/%s%s%s", strrchr(disk->path, '/') + 1, attribute ? "/" : "",
		 attribute ?: "");
}

bool kvt_null_try(const struct kvt_disk *disk, const char *attribute, const char *value)
{
	ssize_t len = (ssize_t)strlen(value);
	char path[128];
	bool done;
	int fd;

	null_path(path, sizeof(path), disk, attribute);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	done = write(fd, value, (size_t)len) == len;
	close(fd);
	return done;
}

void kvt_null_make(struct kvt_disk *disk, const char *name, size_t mib)
{
	char path[128], size[32];

	snprintf(disk->path, sizeof(disk->path), "/dev/%s", name);
	disk->bytes = 0;
	/* Where it is a module, it brings configfs. */
	if (access("/sys/module/null_blk", F_OK))
		KVT_CHECK(system("modprobe null_blk nr_devices=0") == 0);
	if (access(NULLB, F_OK))
		KVT_CHECK(!mount("configfs", "/sys/kernel/config", "configfs", 0, NULL));
	null_path(path, sizeof(path), disk, NULL);
	/* Of a test that did not end. */
	rmdir(path);
	KVT_CHECK(!mkdir(path, 0700));
	snprintf(size, sizeof(size), "%zu", mib);
	KVT_CHECK(kvt_null_try(disk, "size", size));
	KVT_CHECK(kvt_null_try(disk, "memory_backed", "1"));
}

void kvt_null_start(struct kvt_disk *disk)
{
	KVT_CHECK(kvt_null_try(disk, "power", "1"));
	KVT_CHECK(kvt_eventually(node_is_there, disk->path));
}

void kvt_null_stop(struct kvt_disk *disk)
{
	KVT_CHECK(kvt_null_try(disk, "power", "0"));
}

void kvt_null_remove(struct kvt_disk *disk)
{
	char path[128];

	kvt_null_stop(disk);
	null_path(path, sizeof(path), disk, NULL);
	KVT_CHECK(!rmdir(path));
}

/* As many sectors as null_blk takes: 128 MiB from the beginning. */
void kvt_null_fail(const struct kvt_disk *disk, bool fails)
{
	KVT_CHECK(kvt_null_try(disk, "badblocks", fails ? "+0-262143" : "-0-262143"));
}

/* The tool: in tools/, next to the folder that contains this program's folder. */
static const char *tool_path(void)
{
	static char path[4096];
	ssize_t len = readlink("/proc/self/exe", path, sizeof(path) - 32);

	KVT_CHECK(len > 0);
	path[len] = '\0';
	strcpy(strrchr(path, '/'), "/../../tools/kvtree");
	return path;
}

/* "kvtree store WHAT [OPTION...] DEVICE...", its output thrown away. */
static int tool(const char *what, const char *const options[], const struct kvt_disk *disk, int nr)
{
	const char *path = tool_path(), *argv[16] = { "kvtree", "store", what };
	int pid, i, n = 3;

	while (options && *options)
		argv[n++] = *options++;
	for (i = 0; i < nr; i++)
		argv[n++] = disk[i].path;
	pid = kvt_child();
	KVT_CHECK(pid >= 0);
	if (!pid) {
		int null = open("/dev/null", O_RDWR);

		dup2(null, 1);
		dup2(null, 2);
		execv(path, (char **)argv);
		_exit(127);
	}
	return kvt_wait(pid);
}

int kvt_format(const struct kvt_disk *disk, int nr)
{
	return tool("format", NULL, disk, nr);
}

int kvt_check_disks(const struct kvt_disk *disk, int nr)
{
	return tool("check", NULL, disk, nr);
}

int kvt_repair_disks(const struct kvt_disk *disk, int nr)
{
	static const char *const options[] = { "--repair", "--yes", NULL };

	return tool("check", options, disk, nr);
}

int kvt_probe_disk(const struct kvt_disk *disk)
{
	return tool("probe", NULL, disk, 1);
}

int kvt_attach_how(int fd, const char *name, const struct kvt_disk *disk, int nr,
		   struct kvt_attach_how *how)
{
	__u64 paths[KVTREE_DEVICES_MAX + 1];
	int i;

	for (i = 0; i < nr; i++)
		paths[i] = kvt_ptr(disk[i].path);
	strcpy(how->store.name, name);
	how->args.store = kvt_ptr(&how->store);
	how->args.store_size = sizeof(how->store);
	how->args.devices = kvt_ptr(paths);
	how->args.nr_devices = (__u32)nr;
	return kvt_ioctl(fd, KVTREE_IOC_STORE_ATTACH, &how->args);
}

int kvt_attach(int fd, const char *name, const struct kvt_disk *disk, int nr, __u32 flags)
{
	struct kvt_attach_how how = { .store.mode = 0600, .args.flags = flags };

	return kvt_attach_how(fd, name, disk, nr, &how);
}

int kvt_attach_open(int dev, const char *name, const struct kvt_disk *disk, int nr,
		    struct kvt_attach_how *how, int *fd)
{
	struct kvt_attach_how plain = { .store.mode = 0600 };
	int err = kvt_attach_how(dev, name, disk, nr, how ?: &plain);

	if (err)
		return err;
	*fd = kvt_store(dev, name, KVTREE_OPEN_READ | KVTREE_OPEN_WRITE);
	return *fd < 0 ? *fd : 0;
}

int kvt_close_detach(int dev, const char *name, int *fd)
{
	close(*fd);
	*fd = -1;
	return kvt_detach(dev, name);
}

int kvt_detach(int fd, const char *name)
{
	struct kvtree_store_detach args = { .flags = 0 };

	strcpy(args.name, name);
	return kvt_ioctl(fd, KVTREE_IOC_STORE_DETACH, &args);
}

int kvt_checkpoint(int fd)
{
	struct kvtree_checkpoint args = { .flags = 0 };

	return kvt_ioctl(fd, KVTREE_IOC_CHECKPOINT, &args);
}

static char idle_ms[16];

/* The harness does not return. */
static void restore_idle(void)
{
	kvt_set_param(KVT_IDLE_MS, idle_ms, NULL, 0);
}

void kvt_never_idle(void)
{
	kvt_set_param(KVT_IDLE_MS, "0", idle_ms, sizeof(idle_ms));
	KVT_CHECK(atexit(restore_idle) == 0);
}

int kvt_sync(int fd)
{
	struct kvtree_op op = kvt_op(KVTREE_OP_SYNC, kvt_bytes(NULL, 0));

	return kvt_exec(fd, &op);
}

bool kvt_epoch_is_durable(void *arg)
{
	const struct kvt_epoch *e = arg;

	return kvt_stat(e->fd, KVTREE_STAT_LOG_DURABLE) >= e->epoch;
}

__u64 kvt_recount(const char *name)
{
	char path[128], what[32];
	unsigned long long bytes;
	FILE *f;

	snprintf(path, sizeof(path), "/sys/kernel/debug/kvtree/%s/recount", name);
	f = fopen(path, "re");
	KVT_CHECK(f && fscanf(f, "%31s %llu", what, &bytes) == 2);
	KVT_CHECK(!strcmp(what, "log_live_bytes"));
	fclose(f);
	return bytes;
}
