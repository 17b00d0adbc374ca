// SPDX-License-Identifier: GPL-2.0
/*
 * Durable stores on devices of every kind, and what happens to devices while a
 * store is attached: they are removed, frozen, fail, shrink; and CPUs go away.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include "kselftest_harness.h"
#include "lib/durable.h"
#include "lib/kvt_test.h"
#include "lib/leftovers.h"

#define RW	(KVTREE_OPEN_READ | KVTREE_OPEN_WRITE)
#define SIZE	132	/* MiB: more than the least */

FIXTURE(devices) {
	int dev;
	int fd;
	char name[KVTREE_NAME_MAX];
};

FIXTURE_SETUP(devices)
{
	self->dev = kvt_open();
	ASSERT_LE(0, self->dev);
	self->fd = -1;
	snprintf(self->name, sizeof(self->name), "devices-%d", getpid());
}

FIXTURE_TEARDOWN(devices)
{
	close(self->fd);
	close(self->dev);
}

#define attach(disk)	kvt_attach_open(self->dev, self->name, disk, 1, NULL, &self->fd)
#define detach()	kvt_close_detach(self->dev, self->name, &self->fd)

static int put_number(int fd, __u32 key, __u64 value, int flags)
{
	return kvt_put_flags(fd, kvt_bytes(&key, sizeof(key)), kvt_bytes(&value, sizeof(value)),
			     flags);
}

static bool has_number(int fd, __u32 key, __u64 value)
{
	return kvt_has(fd, kvt_bytes(&key, sizeof(key)), kvt_bytes(&value, sizeof(value)));
}

/* Of all sizes: 2 MiB in all. */
static void put_many(int fd, int seed)
{
	static char value[300000];
	__u32 i;

	for (i = 0; i < 160; i++) {
		memset(value, (int)i + seed, sizeof(value));
		KVT_CHECK(kvt_put(fd, kvt_bytes(&i, sizeof(i)),
				  kvt_bytes(value, i % 40 ? i * 90 : sizeof(value)), NULL) == 0);
	}
	for (i = 0; i < 160; i += 7)
		KVT_CHECK(kvt_remove(fd, kvt_bytes(&i, sizeof(i))) == 0);
}

static void run(const char *command)
{
	KVT_CHECK(system(command) == 0);
}

/* A writer that counts up its keys until it fails. */
struct writer {
	pthread_t thread;
	int fd;
	__u32 key;
	int flags;
	int stop;
	int err;
	__u64 done;	/* acknowledged */
	__u64 tried;
};

static void *writer_thread(void *arg)
{
	struct writer *w = arg;

	while (!w->err && !__atomic_load_n(&w->stop, __ATOMIC_RELAXED)) {
		__atomic_store_n(&w->tried, w->done + 1, __ATOMIC_RELAXED);
		w->err = put_number(w->fd, w->key, w->tried, w->flags);
		if (!w->err)
			__atomic_store_n(&w->done, w->tried, __ATOMIC_RELAXED);
	}
	return NULL;
}

static void writers_start(struct writer *w, int nr, int fd)
{
	int i;

	for (i = 0; i < nr; i++) {
		w[i] = (struct writer){ .fd = fd, .key = 1000 + i };
		w[i].flags = i % 2 ? KVTREE_F_SYNC : 0;
		KVT_CHECK(pthread_create(&w[i].thread, NULL, writer_thread, &w[i]) == 0);
	}
}

static void writers_end(struct writer *w, int nr)
{
	int i;

	for (i = 0; i < nr; i++)
		__atomic_store_n(&w[i].stop, 1, __ATOMIC_RELAXED);
	for (i = 0; i < nr; i++)
		KVT_CHECK(pthread_join(w[i].thread, NULL) == 0);
}

static bool writers_began(void *arg)
{
	const struct writer *w = arg;

	return __atomic_load_n(&w[0].done, __ATOMIC_RELAXED) > 20 &&
	       __atomic_load_n(&w[1].done, __ATOMIC_RELAXED) > 3;
}

/* Check the promises to writers that got errors; @all: also to those that do not wait. */
static bool writers_kept(const struct writer *w, int nr, int fd, bool all)
{
	__u64 value;
	int i;

	for (i = 0; i < nr; i++) {
		if (!w[i].flags && !all)
			continue;
		value = 0;
		kvt_get(fd, kvt_bytes(&w[i].key, sizeof(w[i].key)), &value, sizeof(value), NULL);
		if (value < w[i].done || value > w[i].tried)
			return false;
	}
	return true;
}

/* All writers have found out, and the store can be read. */
static bool read_only(const struct writer *w, int nr, int fd)
{
	bool good = true;
	int i;

	for (i = 0; i < nr; i++)
		good &= w[i].err == -EROFS || (w[i].err == -EIO && w[i].flags);
	return good && kvt_put(fd, STR("k"), STR("v"), NULL) == -EROFS && kvt_sync(fd) == -EIO &&
	       kvt_stat(fd, KVTREE_STAT_LOG_ERROR) == EIO && has_number(fd, 1, 100) &&
	       kvt_checkpoint(fd) == -EIO;
}

TEST_F(devices, removed_device_ends_what_waits_for_it)
{
	struct kvt_disk disk;
	struct writer w[4];
	int err;

	kvt_null_make(&disk, "kvtgone", SIZE);
	kvt_null_start(&disk);
	ASSERT_EQ(0, kvt_format(&disk, 1));
	ASSERT_EQ(0, attach(&disk));
	ASSERT_EQ(0, put_number(self->fd, 1, 100, KVTREE_F_SYNC));
	writers_start(w, 4, self->fd);
	ASSERT_TRUE(kvt_eventually(writers_began, w));
	kvt_null_stop(&disk);
	writers_end(w, 4);
	/* They may have been between two puts. */
	put_number(self->fd, 2, 2, KVTREE_F_SYNC);
	EXPECT_EQ(-EROFS, put_number(self->fd, 2, 2, 0));
	/* 0 if all that they were told of is durable. */
	err = kvt_sync(self->fd);
	EXPECT_TRUE(!err || err == -EIO);
	EXPECT_EQ(EIO, kvt_stat(self->fd, KVTREE_STAT_LOG_ERROR));
	EXPECT_TRUE(has_number(self->fd, 1, 100));
	EXPECT_EQ(-EIO, detach());
	/* It is plugged in again. */
	kvt_null_start(&disk);
	ASSERT_EQ(0, attach(&disk));
	EXPECT_TRUE(has_number(self->fd, 1, 100));
	EXPECT_TRUE(writers_kept(w, 4, self->fd, !err));
	EXPECT_EQ(0, detach());
	kvt_null_remove(&disk);
}

/* Lines of a table, with all numbers. */
static void dm_lines(const char *command, const char *lines)
{
	char line[256];

	snprintf(line, sizeof(line),
		 "echo '%s' | dmsetup %s --noudevsync --noudevrules " KVT_DM " >/dev/null", lines,
		 command);
	run(line);
}

static void dm_table_sized(const char *command, const char *table, unsigned long sectors)
{
	char line[160];

	snprintf(line, sizeof(line), "0 %lu %s", sectors, table);
	dm_lines(command, line);
}

static void dm_table(const char *command, const char *table)
{
	dm_table_sized(command, table, SIZE * KVT_MIB / 512);
}

/* Use the kernel's node: which program makes the one in /dev/mapper, if any, varies. */
static void dm_find(struct kvt_disk *disk)
{
	char name[32] = "";
	FILE *f;

	f = popen("dmsetup info -c --noheadings -o blkdevname " KVT_DM, "re");
	KVT_CHECK(f && fscanf(f, "%31s", name) == 1);
	pclose(f);
	*disk = (struct kvt_disk){ 0 };
	snprintf(disk->path, sizeof(disk->path), "/dev/%s", name);
}

static void dm_make(struct kvt_disk *disk, const struct kvt_disk *below)
{
	char table[64];

	snprintf(table, sizeof(table), "linear %s 0", below->path);
	dm_table("create", table);
	dm_find(disk);
}

/* The buffers are full: writers stall. */
static bool writer_stalls(void *arg)
{
	return kvt_stat(*(int *)arg, KVTREE_STAT_LOG_STALL) > 0;
}

struct filler {
	pthread_t thread;
	int fd;
	int err;
};

/* More than fits the streams' buffers. */
static void *filler_thread(void *arg)
{
	static char value[100000];
	struct filler *f = arg;
	__u32 i, key;

	for (i = 0; !f->err && i < 100; i++) {
		key = i % 8;
		f->err = kvt_put(f->fd, kvt_bytes(&key, sizeof(key)),
				 kvt_bytes(value, sizeof(value)), NULL);
	}
	return NULL;
}

TEST_F(devices, frozen_device_holds_writers_and_nothing_else)
{
	struct filler f;
	struct kvt_disk disk, below;
	struct writer w[4];
	__u64 digest;

	kvt_disk_make(&below, SIZE, 512);
	dm_make(&disk, &below);
	ASSERT_EQ(0, kvt_format(&disk, 1));
	ASSERT_EQ(0, attach(&disk));
	ASSERT_EQ(0, put_number(self->fd, 5000, 1, KVTREE_F_SYNC));
	writers_start(w, 4, self->fd);
	ASSERT_TRUE(kvt_eventually(writers_began, w));
	/* Freezing it freezes its users, and holds submitted requests. */
	run("dmsetup suspend --noudevsync --noudevrules " KVT_DM);
	f = (struct filler){ .fd = self->fd };
	ASSERT_EQ(0, pthread_create(&f.thread, NULL, filler_thread, &f));
	EXPECT_TRUE(kvt_eventually(writer_stalls, &self->fd));
	/* Readers do not wait, and a change may be seen that is not durable. */
	EXPECT_TRUE(has_number(self->fd, 5000, 1));
	EXPECT_EQ(0, kvt_stat(self->fd, KVTREE_STAT_LOG_ERROR));
	run("dmsetup resume --noudevsync --noudevrules " KVT_DM);
	ASSERT_EQ(0, pthread_join(f.thread, NULL));
	EXPECT_EQ(0, f.err);
	writers_end(w, 4);
	EXPECT_EQ(0, w[0].err | w[1].err | w[2].err | w[3].err);
	ASSERT_EQ(0, kvt_sync(self->fd));
	digest = kvt_digest(self->fd);
	ASSERT_EQ(0, detach());
	ASSERT_EQ(0, attach(&disk));
	EXPECT_EQ(digest, kvt_digest(self->fd));
	EXPECT_EQ(0, detach());
	KVT_CHECK(kvt_dm_remove());
	kvt_disk_remove(&below);
}

struct attacher {
	pthread_t thread;
	int dev;
	const char *name;
	const struct kvt_disk *disk;
	int err;
};

static void *attacher_thread(void *arg)
{
	struct attacher *a = arg;

	a->err = kvt_attach(a->dev, a->name, a->disk, 1, 0);
	return NULL;
}

static bool is_attaching(void *arg)
{
	const struct attacher *a = arg;
	struct kvtree_store_info info;

	return !kvt_find(a->dev, a->name, &info) && info.flags & KVTREE_STORE_ATTACHING &&
	       info.flags & KVTREE_STORE_DURABLE;
}

/* Reading the device takes for ever, until it is resumed. */
TEST_F(devices, store_that_is_being_attached_is_listed_and_nothing_else)
{
	struct kvt_disk disk, below;
	struct kvtree_store_info info;
	struct attacher a;

	kvt_disk_make(&below, SIZE, 512);
	dm_make(&disk, &below);
	ASSERT_EQ(0, kvt_format(&disk, 1));
	run("dmsetup suspend --noudevsync --noudevrules " KVT_DM);
	a = (struct attacher){ .dev = self->dev, .name = self->name, .disk = &disk };
	ASSERT_EQ(0, pthread_create(&a.thread, NULL, attacher_thread, &a));
	EXPECT_TRUE(kvt_eventually(is_attaching, &a));
	EXPECT_EQ(-ENOENT, kvt_store(self->dev, self->name, RW));
	EXPECT_EQ(-EBUSY, kvt_detach(self->dev, self->name));
	EXPECT_EQ(-EBUSY, kvt_destroy(self->dev, self->name));
	EXPECT_EQ(-EEXIST, kvt_attach(self->dev, self->name, &disk, 1, 0));
	EXPECT_EQ(-EEXIST, kvt_create(self->dev, self->name, 0600, 0, 0));
	run("dmsetup resume --noudevsync --noudevrules " KVT_DM);
	ASSERT_EQ(0, pthread_join(a.thread, NULL));
	EXPECT_EQ(0, a.err);
	ASSERT_EQ(0, kvt_find(self->dev, self->name, &info));
	EXPECT_EQ(0, info.flags & KVTREE_STORE_ATTACHING);
	EXPECT_EQ(0, kvt_detach(self->dev, self->name));
	EXPECT_EQ(-ENOENT, kvt_find(self->dev, self->name, &info));
	KVT_CHECK(kvt_dm_remove());
	kvt_disk_remove(&below);
}

TEST_F(devices, device_that_dies_under_writers_leaves_a_store_to_read)
{
	struct kvt_disk disk, below;
	struct writer w[4];

	kvt_disk_make(&below, SIZE, 512);
	dm_make(&disk, &below);
	ASSERT_EQ(0, kvt_format(&disk, 1));
	ASSERT_EQ(0, attach(&disk));
	ASSERT_EQ(0, put_number(self->fd, 1, 100, KVTREE_F_SYNC));
	writers_start(w, 4, self->fd);
	ASSERT_TRUE(kvt_eventually(writers_began, w));
	dm_table("load", "error");
	run("dmsetup suspend --noflush --nolockfs --noudevsync " KVT_DM);
	run("dmsetup resume --noudevsync --noudevrules " KVT_DM);
	while (put_number(self->fd, 2, 2, KVTREE_F_SYNC) == 0)
		;
	for (int i = 0; i < 4; i++)
		EXPECT_EQ(0, pthread_join(w[i].thread, NULL));
	EXPECT_TRUE(read_only(w, 4, self->fd));
	EXPECT_EQ(-EIO, detach());
	KVT_CHECK(kvt_dm_remove());
	ASSERT_EQ(0, attach(&below));
	EXPECT_TRUE(has_number(self->fd, 1, 100));
	EXPECT_TRUE(writers_kept(w, 4, self->fd, false));
	EXPECT_EQ(0, detach());
	kvt_disk_remove(&below);
}

/* An attribute that an old kernel does not have changes nothing. */
FIXTURE(kinds) {
	int dev;
	int fd;
	char name[KVTREE_NAME_MAX];
};

FIXTURE_VARIANT(kinds) {
	const char *attribute[6][2];
};

FIXTURE_SETUP(kinds)
{
	self->dev = kvt_open();
	ASSERT_LE(0, self->dev);
	self->fd = -1;
	snprintf(self->name, sizeof(self->name), "kinds-%d", getpid());
}

FIXTURE_TEARDOWN(kinds)
{
	close(self->fd);
	close(self->dev);
}

FIXTURE_VARIANT_ADD(kinds, sectors_of_512_no_cache_no_discard) {
	.attribute = { { "blocksize", "512" } },
};

FIXTURE_VARIANT_ADD(kinds, sectors_of_4096_discard) {
	.attribute = { { "blocksize", "4096" }, { "discard", "1" } },
};

FIXTURE_VARIANT_ADD(kinds, write_cache_with_fua) {
	.attribute = { { "blocksize", "512" }, { "cache_size", "1" }, { "fua", "1" } },
};

FIXTURE_VARIANT_ADD(kinds, write_cache_without_fua) {
	.attribute = { { "blocksize", "4096" }, { "cache_size", "1" }, { "fua", "0" },
		       { "discard", "1" } },
};

/* Every transfer is cut into pieces, which complete in any order. */
FIXTURE_VARIANT_ADD(kinds, small_transfers) {
	.attribute = { { "blocksize", "512" }, { "max_sectors", "8" }, { "irqmode", "2" },
		       { "completion_nsec", "20000" }, { "submit_queues", "2" } },
};

TEST_F(kinds, store_is_there_again)
{
	const size_t nr = NR(variant->attribute);
	struct kvt_disk disk;
	__u64 digest;
	size_t i;

	kvt_null_make(&disk, "kvtkind", SIZE);
	for (i = 0; i < nr && variant->attribute[i][0]; i++)
		if (!kvt_null_try(&disk, variant->attribute[i][0], variant->attribute[i][1])) {
			kvt_null_remove(&disk);
			SKIP(return, "no attribute %s", variant->attribute[i][0]);
		}
	kvt_null_start(&disk);
	ASSERT_EQ(0, kvt_format(&disk, 1));
	ASSERT_EQ(0, attach(&disk));
	put_many(self->fd, 1);
	ASSERT_EQ(0, kvt_sync(self->fd));
	ASSERT_EQ(0, kvt_checkpoint(self->fd));
	put_many(self->fd, 2);
	ASSERT_EQ(0, put_number(self->fd, 1, 100, KVTREE_F_SYNC));
	digest = kvt_digest(self->fd);
	ASSERT_EQ(0, detach());
	EXPECT_EQ(0, kvt_check_disks(&disk, 1));
	ASSERT_EQ(0, attach(&disk));
	EXPECT_EQ(digest, kvt_digest(self->fd));
	EXPECT_EQ(0, detach());
	kvt_null_remove(&disk);
}

TEST_F(devices, grown_device_is_attached_and_shrunk_one_is_not)
{
	struct kvt_disk disk;
	__u64 digest;

	kvt_disk_make(&disk, SIZE, 512);
	ASSERT_EQ(0, kvt_format(&disk, 1));
	ASSERT_EQ(0, attach(&disk));
	put_many(self->fd, 1);
	digest = kvt_digest(self->fd);
	ASSERT_EQ(0, detach());

	kvt_disk_resize(&disk, SIZE + 50);
	ASSERT_EQ(0, attach(&disk));
	EXPECT_EQ(digest, kvt_digest(self->fd));
	ASSERT_EQ(0, detach());

	/* Less than was formatted, and no more than that: it has what it had. */
	kvt_disk_resize(&disk, SIZE - 8);
	EXPECT_EQ(-EBADMSG, attach(&disk));
	EXPECT_NE(0, kvt_check_disks(&disk, 1));
	kvt_disk_resize(&disk, SIZE);
	ASSERT_EQ(0, attach(&disk));
	EXPECT_EQ(digest, kvt_digest(self->fd));
	EXPECT_EQ(0, detach());
	kvt_disk_remove(&disk);
}

TEST_F(devices, read_only_device_is_refused)
{
	struct kvt_disk disk;
	int on = 1, err;

	kvt_disk_make(&disk, SIZE, 512);
	ASSERT_EQ(0, kvt_format(&disk, 1));
	ASSERT_EQ(0, ioctl(disk.fd, BLKROSET, &on));
	err = attach(&disk);
	EXPECT_TRUE(err == -EACCES || err == -EROFS) {
		TH_LOG("error %d", err);
	}
	EXPECT_NE(0, kvt_format(&disk, 1));
	on = 0;
	ASSERT_EQ(0, ioctl(disk.fd, BLKROSET, &on));
	ASSERT_EQ(0, attach(&disk));
	EXPECT_EQ(0, detach());
	kvt_disk_remove(&disk);
}

/* Whether the kernel lets an exclusive opener of a device keep others from writing to it. */
static bool writes_can_be_restricted(void)
{
	char line[4096] = "";
	FILE *f = fopen("/proc/cmdline", "re");

	KVT_CHECK(f && fgets(line, sizeof(line), f));
	fclose(f);
	return strstr(line, "bdev_allow_write_mounted=0");
}

/* The exit status of opening a device, as -errno; it is closed again. */
static int try_open(const struct kvt_disk *disk, int flags)
{
	int fd = open(disk->path, flags | O_CLOEXEC);
	int err = fd < 0 ? -errno : 0;

	if (fd >= 0)
		close(fd);
	return err;
}

TEST_F(devices, nobody_else_writes_to_an_attached_device)
{
	static const __u32 flags[] = { 0, KVTREE_ATTACH_READ_ONLY };
	struct kvt_disk disk;
	size_t i;
	int fd;

	if (!writes_can_be_restricted())
		SKIP(return, "the kernel lets everybody write to devices in use");
	kvt_disk_make(&disk, SIZE, 512);
	ASSERT_EQ(0, kvt_format(&disk, 1));
	for (i = 0; i < NR(flags); i++) {
		fd = open(disk.path, O_RDWR | O_CLOEXEC);
		ASSERT_LE(0, fd);
		EXPECT_EQ(-EBUSY, kvt_attach(self->dev, self->name, &disk, 1, flags[i]));
		close(fd);
		ASSERT_EQ(0, kvt_attach(self->dev, self->name, &disk, 1, flags[i]));
		EXPECT_EQ(-EBUSY, try_open(&disk, O_RDWR));
		EXPECT_EQ(0, try_open(&disk, O_RDONLY));
		EXPECT_EQ(0, kvt_check_disks(&disk, 1));
		EXPECT_EQ(0, kvt_detach(self->dev, self->name));
		EXPECT_EQ(0, try_open(&disk, O_RDWR));
	}
	kvt_disk_remove(&disk);
}

/* Open 1:0, a RAM disk with logical sectors of 512 bytes and physical ones of 4096. */
static int ram_open(void)
{
	int ram;

	if (access("/sys/module/brd", F_OK))
		run("modprobe brd rd_nr=1");
	/* Where it is built in, opening a node makes the disk. */
	mknod("/dev/kvt-ram", S_IFBLK | 0600, makedev(1, 0));
	ram = open("/dev/kvt-ram", O_RDWR | O_CLOEXEC);
	KVT_CHECK(ram >= 0);
	return ram;
}

static void ram_close(int ram)
{
	close(ram);
	unlink("/dev/kvt-ram");
}

TEST_F(devices, device_that_lies_across_physical_sectors_is_refused)
{
	static const struct { const char *table; int err; } parts[] = {
		{ "linear 1:0 0", -EINVAL },		/* no store on it */
		{ "linear 1:0 8", -EINVAL },
		{ "linear 1:0 1", -EOPNOTSUPP },
		{ "linear 1:0 7", -EOPNOTSUPP },
	};
	struct kvt_disk disk;
	size_t i;
	int ram;

	ram = ram_open();
	for (i = 0; i < NR(parts); i++) {
		dm_table_sized("create", parts[i].table, 4096);
		dm_find(&disk);
		EXPECT_EQ(parts[i].err, attach(&disk)) {
			TH_LOG("%s", parts[i].table);
		}
		if (parts[i].err == -EOPNOTSUPP)
			EXPECT_NE(0, kvt_format(&disk, 1));
		KVT_CHECK(kvt_dm_remove());
	}
	ram_close(ram);
}

/* As of a store that was copied to such a device. */
TEST_F(devices, device_that_lies_across_physical_sectors_can_be_read)
{
	const unsigned long sectors = SIZE * KVT_MIB / 512;
	struct kvt_disk disk, below;
	char lines[128];
	__u64 digest;
	int ram;

	kvt_disk_make(&below, SIZE, 512);
	ASSERT_EQ(0, kvt_format(&below, 1));
	ASSERT_EQ(0, attach(&below));
	put_many(self->fd, 1);
	digest = kvt_digest(self->fd);
	ASSERT_EQ(0, detach());
	ram = ram_open();
	/* What lies across is behind the store. */
	snprintf(lines, sizeof(lines), "0 %lu linear %s 0\n%lu 64 linear 1:0 1", sectors,
		 below.path, sectors);
	dm_lines("create", lines);
	dm_find(&disk);
	EXPECT_EQ(-EOPNOTSUPP, attach(&disk));
	EXPECT_EQ(0, kvt_check_disks(&disk, 1));
	EXPECT_EQ(0, kvt_attach(self->dev, self->name, &disk, 1, KVTREE_ATTACH_READ_ONLY));
	self->fd = kvt_store(self->dev, self->name, KVTREE_OPEN_READ);
	EXPECT_LE(0, self->fd);
	if (self->fd >= 0) {
		EXPECT_EQ(digest, kvt_digest(self->fd));
		EXPECT_EQ(0, detach());
	}
	KVT_CHECK(kvt_dm_remove());
	ram_close(ram);
	kvt_disk_remove(&below);
}

#define CPU1	"/sys/devices/system/cpu/cpu1/online"

static void cpu1_set(char online)
{
	int fd = open(CPU1, O_WRONLY | O_CLOEXEC);

	KVT_CHECK(fd >= 0);
	KVT_CHECK(write(fd, &online, 1) == 1);
	close(fd);
}

/* What a CPU has logged is not lost when it goes offline, nor are later changes. */
TEST_F(devices, stream_of_a_dead_cpu_is_written)
{
	struct writer w[4];
	struct kvt_disk disk;
	__u64 digest;
	int i;

	if (access(CPU1, W_OK))
		SKIP(return, "CPUs cannot be turned off here");
	kvt_disk_make(&disk, SIZE, 512);
	ASSERT_EQ(0, kvt_format(&disk, 1));
	ASSERT_EQ(0, attach(&disk));
	for (i = 0; i < 4; i++) {
		kvt_run_on(1);
		put_many(self->fd, i);
		kvt_run_on(0);
		writers_start(w, 4, self->fd);
		cpu1_set('0');
		ASSERT_EQ(0, kvt_sync(self->fd));
		ASSERT_TRUE(kvt_eventually(writers_began, w));
		cpu1_set('1');
		writers_end(w, 4);
		EXPECT_EQ(0, w[0].err | w[1].err | w[2].err | w[3].err);
	}
	/* The devices are written to, and read, by fewer CPUs than there were. */
	kvt_run_on(1);
	put_many(self->fd, i);
	kvt_run_on(0);
	cpu1_set('0');
	digest = kvt_digest(self->fd);
	EXPECT_EQ(0, detach());
	EXPECT_EQ(0, attach(&disk));
	EXPECT_EQ(digest, kvt_digest(self->fd));
	EXPECT_EQ(0, kvt_checkpoint(self->fd));
	cpu1_set('1');
	EXPECT_EQ(0, detach());
	kvt_disk_remove(&disk);
}

TEST_HARNESS_MAIN
