// SPDX-License-Identifier: GPL-2.0
/* Sessions, stores and disks of a fuzzer. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fuzz.h"
#include "lib/durable.h"
#include "lib/knobs.h"

#define DISKS		2
#define DISK_MIB	132
/* The disks are restored after this many inputs that used them. */
#define RESTORE_AFTER	16

static int session[SESSIONS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The last two are stores on disks. */
static const char *const names[NAMES] = { "fuzz-a", "fuzz-b", "fuzz-c", "fuzz-d" };

static struct kvt_disk disk[DISKS];
static void *image[DISKS];
static bool touched;

/* The kernel's own failures of requests, if it has them: of the disks that say so. */
#define MAKE	"fail_make_request"

static bool may_fail;
static bool failing;

int session_take(struct input *in)
{
	return __atomic_load_n(&session[input_below(in, SESSIONS)], __ATOMIC_RELAXED);
}

void session_give(int fd)
{
	int i;

	pthread_mutex_lock(&lock);
	for (i = 1; i < SESSIONS && session[i] >= 0; i++)
		;
	if (i < SESSIONS)
		__atomic_store_n(&session[i], fd, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&lock);
	if (i == SESSIONS)
		close(fd);
}

static void session_drop(unsigned int i)
{
	int fd = -1;

	pthread_mutex_lock(&lock);
	if (session[i] >= 0) {
		fd = session[i];
		__atomic_store_n(&session[i], -1, __ATOMIC_RELAXED);
	}
	pthread_mutex_unlock(&lock);
	if (fd >= 0)
		close(fd);
}

void session_close(struct input *in)
{
	session_drop(1 + input_below(in, SESSIONS - 1));
}

static int open_rw(int dev, const char *name)
{
	return kvt_store(dev, name, KVTREE_OPEN_READ | KVTREE_OPEN_WRITE);
}

/* Something to begin with: a store that is made anew only if it is gone, as that takes long. */
void sessions_begin(void)
{
	unsigned int i;
	int fd;

	for (i = 0; i < SESSIONS; i++)
		session[i] = -1;
	session[0] = kvt_open();
	KVT_CHECK(session[0] >= 0);
	fd = open_rw(session[0], names[0]);
	if (fd == -ENOENT) {
		KVT_CHECK(kvt_create(session[0], names[0], 0600, 0, 0) == 0);
		fd = open_rw(session[0], names[0]);
	}
	KVT_CHECK(fd >= 0);
	session_give(fd);
}

/* Whether the store is as it was made, but for keys, of which it has none then. */
static bool store_emptied(int dev, const char *name)
{
	struct kvtree_scan scan = { .flags = KVTREE_SCAN_KEYS_ONLY };
	struct kvtree_store_info info = { 0 };
	struct kvt_list list = { 0 };
	int fd = open_rw(dev, name);
	size_t i;

	if (fd < 0)
		return false;
	KVT_CHECK(kvt_self(fd, &info) == 0);
	/* Of one on disks that have failed, nothing can be removed. */
	if (info.flags) {
		close(fd);
		return false;
	}
	KVT_CHECK(kvt_scan_all(fd, STR(""), &scan, 1 << 16, &list) == 0);
	for (i = 0; i < list.nr; i++)
		KVT_CHECK(kvt_remove(fd, list.rec[i].key) == 0);
	kvt_list_free(&list);
	close(fd);
	return info.mode == 0600 && !info.limit_bytes && !info.limit_keys;
}

static void store_end(int dev, const char *name)
{
	int err = kvt_destroy(dev, name);

	if (err == -EBUSY)
		err = kvt_detach(dev, name);
	/* A disk that fails keeps nothing from being detached. */
	KVT_CHECK(err == 0 || err == -ENOENT || err == -EIO || err == -ENOSPC);
}

void sessions_end(void)
{
	int dev = kvt_open();
	unsigned int i;

	KVT_CHECK(dev >= 0);
	for (i = 0; i < SESSIONS; i++)
		session_drop(i);
	for (i = 0; i < NAMES; i++)
		if (i || !store_emptied(dev, names[i]))
			store_end(dev, names[i]);
	close(dev);
}

const char *name_take(struct input *in)
{
	return names[input_below(in, NAMES)];
}

static void fail_setup(const struct kvt_disk *d)
{
	char path[128];

	snprintf(path, sizeof(path), "/sys/block/%s/make-it-fail", strrchr(d->path, '/') + 1);
	KVT_CHECK(kvt_knob_try(path, "1"));
}

void disks_make(void)
{
	int i;

	for (i = 0; i < DISKS; i++)
		kvt_disk_make(&disk[i], DISK_MIB, 512);
	KVT_CHECK(kvt_format(disk, DISKS) == 0);
	for (i = 0; i < DISKS; i++)
		image[i] = kvt_disk_image(&disk[i]);
	may_fail = !access(KVT_DEBUGFS MAKE, F_OK);
	if (!may_fail)
		return;
	kvt_knob(MAKE, "times", "0");
	kvt_knob(MAKE, "interval", "1");
	kvt_knob(MAKE, "probability", "100");
	/* The n-th point of failure of a call may be such a request, too. */
	for (i = 0; i < DISKS; i++)
		fail_setup(&disk[i]);
}

const char *disk_path(unsigned int n)
{
	__atomic_store_n(&touched, true, __ATOMIC_RELAXED);
	return n < DISKS ? disk[n].path : "/dev/null";
}

/*
 * From now on, once this many blocks were transferred, requests fail: the next one, the next few,
 * or all that follow in this input.  Those of the log's own threads do as well.
 */
void disks_fail(struct input *in)
{
	static const char *const times[] = { "1", "1", "2", "3", "8", "-1", "-1", "0" };
	unsigned int blocks = input_below(in, 64);
	const char *n = times[input_below(in, NR(times))];
	char space[16];

	if (!may_fail)
		return;
	__atomic_store_n(&failing, true, __ATOMIC_RELAXED);
	__atomic_store_n(&touched, true, __ATOMIC_RELAXED);
	snprintf(space, sizeof(space), "%u", blocks * 4096);
	/* This, too, may be the call of which something fails. */
	if (kvt_knob_try(KVT_DEBUGFS MAKE "/space", space))
		kvt_knob_try(KVT_DEBUGFS MAKE "/times", n);
}

static void disks_mend(void)
{
	if (failing)
		kvt_knob(MAKE, "times", "0");
	failing = false;
}

/* Superblocks, and the beginnings of the first segments. */
void disks_damage(struct input *in)
{
	static const size_t base[] = { 0, 4096, 1 << 20, 2 << 20 };
	unsigned char bytes[16];
	unsigned int n = input_below(in, DISKS);
	size_t at = base[input_below(in, NR(base))] + input_below(in, 4096);

	input_fill(in, bytes, sizeof(bytes));
	kvt_disk_write(&disk[n], bytes, 1 + input_below(in, sizeof(bytes)), at);
	__atomic_store_n(&touched, true, __ATOMIC_RELAXED);
}

void disks_end(void)
{
	static unsigned int uses;
	int i;

	disks_mend();
	if (!touched || ++uses % RESTORE_AFTER)
		return;
	for (i = 0; i < DISKS; i++)
		kvt_disk_restore(&disk[i], image[i]);
	touched = false;
}
