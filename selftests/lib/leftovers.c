// SPDX-License-Identifier: GPL-2.0
/* Cleaning up after failed tests: see leftovers.h. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/blkpg.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "kvt_test.h"
#include "leftovers.h"

#define FAULT_DISKS	8
#define PARTITIONS	4
#define NULLB		"/sys/kernel/config/nullb"
#define PARAMETERS	"/sys/module/kvtree/parameters/"
/* Of durable_devices. */
#define DMSETUP(what)	"dmsetup " what " --noudevsync --noudevrules " KVT_DM " >/dev/null 2>&1"

#define DEFAULT		"default"

/* The newest store that there was before; and the one that sessions begin with, if there was. */
static __u64 newest;
static struct kvtree_store_info default_store;

/* Most of these are in few kernels, and few are in use. */
static void try_write(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	if (write(fd, text, strlen(text)) < 0)
		printf("# %s: %s\n", path, strerror(errno));
	close(fd);
}

/* The store after one, by its id.  Whether there is one. */
static bool next_store(int dev, __u64 after, struct kvtree_store_info *info)
{
	memset(info, 0, sizeof(*info));
	info->after = after;
	return !kvt_ioctl(dev, KVTREE_IOC_STORE_LIST, info);
}

/* Of the module, which tests set for a while. */
static struct {
	const char *path;
	char value[16];
} params[] = {
	{ .path = PARAMETERS "log_epoch_ms" }, { .path = PARAMETERS "log_savers" },
	{ .path = PARAMETERS "log_replay_mb" }, { .path = PARAMETERS "log_idle_ms" },
	{ .path = PARAMETERS "reclaim_bound_mb" }, { .path = PARAMETERS "reclaim_batch" },
	{ .path = PARAMETERS "engine" }, { .path = PARAMETERS "bpf_iter_max" },
	{ .path = PARAMETERS "log_step_segments" },
};

static void read_params(void)
{
	ssize_t len;
	size_t i;
	int fd;

	for (i = 0; i < NR(params); i++) {
		fd = open(params[i].path, O_RDONLY | O_CLOEXEC);
		len = fd < 0 ? 0 : read(fd, params[i].value, sizeof(params[i].value) - 1);
		params[i].value[len > 0 ? len : 0] = '\0';
		if (fd >= 0)
			close(fd);
	}
}

static void restore_params(void)
{
	size_t i;

	for (i = 0; i < NR(params); i++)
		if (params[i].value[0])
			try_write(params[i].path, params[i].value);
}

/* Settings of the machine: an offline CPU, simulated sleep, traced events. */
static void restore_machine(void)
{
	static const char * const settings[][2] = {
		{ "/sys/devices/system/cpu/cpu1/online", "1" },
		{ "/sys/power/pm_test", "none" },
		{ "/sys/power/pm_freeze_timeout", "20000" },
		{ "/sys/module/suspend/parameters/pm_test_delay", "5" },
		{ "/sys/kernel/tracing/events/power/suspend_resume/enable", "0" },
		{ "/sys/kernel/tracing/events/workqueue/workqueue_execute_end/enable", "0" },
		{ "/sys/kernel/tracing/events/block/block_bio_queue/enable", "0" },
		{ "/sys/kernel/tracing/events/block/block_bio_queue/filter", "0" },
	};
	size_t i;

	for (i = 0; i < NR(settings); i++)
		try_write(settings[i][0], settings[i][1]);
}

void kvt_leftovers_begin(void)
{
	struct kvtree_store_info info;
	int dev = kvt_open();

	kvt_check_failed = kvt_leftovers_release;
	read_params();
	/* Where there is no module there are no stores. */
	newest = ~0ull;
	if (dev < 0)
		return;
	for (newest = 0; next_store(dev, newest, &info); ) {
		newest = info.id;
		if (!strcmp(info.name, DEFAULT))
			default_store = info;
	}
	close(dev);
}

/*
 * A reader of a suspended device cannot be killed: resume the one of a test, if it exists.
 * Returns whether it was.
 */
static bool resume_dm(void)
{
	return !access("/sys/block/dm-0", F_OK) && !system(DMSETUP("resume"));
}

/* A program that reacts to events, such as udev, may have it open. */
static bool dm_is_removed(void *arg)
{
	(void)arg;
	return !system(DMSETUP("remove"));
}

bool kvt_dm_remove(void)
{
	return kvt_eventually(dm_is_removed, NULL);
}

void kvt_leftovers_release(void)
{
	char path[64];
	int i;

	for (i = 0; i < FAULT_DISKS; i++) {
		snprintf(path, sizeof(path), "/sys/block/kvtfault%d/fault/fail", i);
		try_write(path, "ioerr r 1 0");
		snprintf(path, sizeof(path), "/sys/block/kvtfault%d/fault/hold", i);
		try_write(path, "0");
	}
	resume_dm();
}

/* No allocation and no request fails any more. */
static void disarm(void)
{
	static const char * const attrs[] = { "failslab", "fail_page_alloc", "fail_make_request" };
	static const char * const knobs[][2] = {
		{ "probability", "0" }, { "interval", "1" }, { "space", "0" },
		{ "require-start", "0" }, { "require-end", "0xffffffffffffffff" },
		{ "reject-start", "0" }, { "reject-end", "0" },
	};
	char path[64];
	size_t i, j;

	for (i = 0; i < NR(attrs); i++) {
		for (j = 0; j < NR(knobs); j++) {
			snprintf(path, sizeof(path), "/sys/kernel/debug/%s/%s", attrs[i],
				 knobs[j][0]);
			try_write(path, knobs[j][1]);
		}
	}
	kvt_leftovers_release();
}

/* Whether it is gone; one that is being attached will be there, or not. */
static bool store_is_gone(int dev, const struct kvtree_store_info *info)
{
	struct kvtree_store_detach args = { .flags = 0 };
	int err;

	strcpy(args.name, info->name);
	err = info->flags & KVTREE_STORE_DURABLE ?
		kvt_ioctl(dev, KVTREE_IOC_STORE_DETACH, &args) : kvt_destroy(dev, info->name);
	return err != -EBUSY;
}

/* In a process of its own: a store that cannot be removed may block it for ever. */
static int remove_stores(void *arg)
{
	struct kvtree_store_info info;
	int dev = kvt_open();

	(void)arg;
	KVT_CHECK(dev >= 0);
	while (next_store(dev, newest, &info)) {
		printf("# left: store '%s'\n", info.name);
		fflush(stdout);
		while (!store_is_gone(dev, &info))
			kvt_sleep_ms(10);
	}
	return 0;
}

/* Without the default store, sessions of the device itself would be useless. */
static void restore_default(void)
{
	const struct kvtree_store_info *was = &default_store;
	struct kvtree_store_create create = {
		.name = DEFAULT, .flags = was->flags & KVTREE_STORE_BPF,
		.mode = was->mode, .uid = was->uid, .gid = was->gid,
		.limit_bytes = was->limit_bytes, .limit_keys = was->limit_keys,
		.page_size = was->page_size,
	};
	struct kvtree_store_info info;
	int dev = was->id ? kvt_open() : -1;

	if (dev < 0)
		return;
	if (kvt_find(dev, DEFAULT, &info) == -ENOENT) {
		memcpy(create.engine, was->engine, sizeof(create.engine));
		printf("# left: no default store\n");
		if (kvt_ioctl(dev, KVTREE_IOC_STORE_CREATE, &create))
			printf("# it cannot be made\n");
	}
	close(dev);
}

static void remove_partitions(void)
{
	struct blkpg_partition part = { 0 };
	struct blkpg_ioctl_arg arg = {
		.op = BLKPG_DEL_PARTITION, .datalen = sizeof(part), .data = &part,
	};
	char path[32];
	int i, fd;

	for (i = 0; i < FAULT_DISKS; i++) {
		snprintf(path, sizeof(path), "/dev/kvtfault%d", i);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		for (part.pno = 1; fd >= 0 && part.pno <= PARTITIONS; part.pno++)
			ioctl(fd, BLKPG, &arg);
		if (fd >= 0)
			close(fd);
	}
}

/* Those of null_blk that tests make. */
static void remove_null_disks(void)
{
	DIR *disks = opendir(NULLB);
	struct dirent *entry;
	char path[300];

	while (disks && (entry = readdir(disks))) {
		if (strncmp(entry->d_name, "kvt", 3))
			continue;
		printf("# left: disk %s\n", entry->d_name);
		snprintf(path, sizeof(path), NULLB "/%s/power", entry->d_name);
		try_write(path, "0");
		*strrchr(path, '/') = '\0';
		rmdir(path);
	}
	if (disks)
		closedir(disks);
}

void kvt_leftovers_remove(void)
{
	struct kvt_process remover;

	disarm();
	restore_machine();
	restore_params();
	remover.pid = kvt_fork(remove_stores, NULL);
	if (!kvt_eventually(kvt_has_ended, &remover)) {
		printf("# a store cannot be taken away\n");
		kill(remover.pid, SIGKILL);
	}
	restore_default();
	if (resume_dm() && !kvt_dm_remove())
		printf("# " KVT_DM " cannot be removed\n");
	remove_partitions();
	remove_null_disks();
	fflush(stdout);
}
