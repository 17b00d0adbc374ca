// SPDX-License-Identifier: GPL-2.0
/*
 * Machines that sleep: from the moment that a hibernation image may be taken until the
 * machine is awake, nothing is written to a durable store's devices.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include "kselftest_harness.h"
#include "lib/durable.h"
#include "lib/kvt_test.h"

#define RW		(KVTREE_OPEN_READ | KVTREE_OPEN_WRITE)
#define SIZE		132	/* MiB: more than the least */
#define TRACING		"/sys/kernel/tracing/"
#define EPOCH_MS	"/sys/module/kvtree/parameters/log_epoch_ms"
#define WRITERS		4
#define ROUNDS		3

static bool set(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
	bool good;

	if (fd < 0)
		return false;
	good = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
	close(fd);
	return good;
}

FIXTURE(sleeping) {
	int dev;
	int fd;
	char name[KVTREE_NAME_MAX];
	struct kvt_disk disk;
};

FIXTURE_SETUP(sleeping)
{
	if (access("/sys/power/pm_test", W_OK) || access(TRACING "events/power", F_OK))
		SKIP(return, "the kernel cannot pretend to sleep");
	self->dev = kvt_open();
	ASSERT_LE(0, self->dev);
	snprintf(self->name, sizeof(self->name), "sleep-%d", getpid());
	kvt_null_make(&self->disk, "kvtsleep", SIZE);
	kvt_null_start(&self->disk);
	ASSERT_EQ(0, kvt_format(&self->disk, 1));
	ASSERT_EQ(0, kvt_attach(self->dev, self->name, &self->disk, 1, 0));
	self->fd = kvt_store(self->dev, self->name, RW);
	ASSERT_LE(0, self->fd);
	/* All but to suspend the devices, and for one second. */
	ASSERT_TRUE(set("/sys/power/pm_test", "freezer"));
	ASSERT_TRUE(set("/sys/module/suspend/parameters/pm_test_delay", "1"));
	ASSERT_TRUE(set(TRACING "events/power/suspend_resume/enable", "1"));
	ASSERT_TRUE(set(TRACING "events/block/block_bio_queue/enable", "1"));
}

FIXTURE_TEARDOWN(sleeping)
{
	set(TRACING "events/block/block_bio_queue/enable", "0");
	set(TRACING "events/power/suspend_resume/enable", "0");
	set("/sys/module/suspend/parameters/pm_test_delay", "5");
	set("/sys/power/pm_test", "none");
	close(self->fd);
	kvt_detach(self->dev, self->name);
	kvt_null_remove(&self->disk);
	close(self->dev);
}

/* What the trace has of a disk: requests while processes were frozen, and how often they were. */
static int trace_frozen(const struct kvt_disk *disk, int *sleeps)
{
	char line[512], device[32];
	bool frozen = false;
	struct stat st;
	int nr = 0;
	FILE *f;

	KVT_CHECK(!stat(disk->path, &st));
	snprintf(device, sizeof(device), "block_bio_queue: %u,%u ", major(st.st_rdev),
		 minor(st.st_rdev));
	f = fopen(TRACING "trace", "re");
	KVT_CHECK(f);
	*sleeps = 0;
	while (fgets(line, sizeof(line), f)) {
		if (strstr(line, "suspend_resume: freeze_processes") && strstr(line, " end")) {
			frozen = true;
			++*sleeps;
		} else if (strstr(line, "suspend_resume: thaw_processes")) {
			frozen = false;
		} else if (frozen && strstr(line, device)) {
			printf("# %s", line);
			nr++;
		}
	}
	fclose(f);
	return nr;
}

/* What was changed a moment before would be committed in the middle of the sleep. */
TEST_F(sleeping, nothing_is_committed)
{
	__u32 i, key = 1;
	int sleeps;

	ASSERT_TRUE(set(EPOCH_MS, "200"));
	set(TRACING "trace", "\n");
	for (i = 0; i < ROUNDS; i++) {
		ASSERT_EQ(0, kvt_put(self->fd, kvt_bytes(&key, sizeof(key)),
				     kvt_bytes(&i, sizeof(i)), NULL));
		ASSERT_TRUE(set("/sys/power/state", "freeze"));
	}
	ASSERT_TRUE(set(EPOCH_MS, "10"));
	EXPECT_EQ(0, kvt_sync(self->fd));
	EXPECT_EQ(0, trace_frozen(&self->disk, &sleeps));
	EXPECT_EQ(ROUNDS, sleeps);
	EXPECT_EQ(0, kvt_stat(self->fd, KVTREE_STAT_LOG_ERROR));
}

/* Each waits for something else when it is frozen: a commit, room, a checkpoint. */
struct writer {
	pthread_t thread;
	int fd;
	__u32 key;
	int stop;
	int err;
};

static void *writer_thread(void *arg)
{
	static const char value[200000];
	struct writer *w = arg;

	while (!w->err && !__atomic_load_n(&w->stop, __ATOMIC_RELAXED)) {
		if (w->key == 0)
			w->err = kvt_checkpoint(w->fd);
		else
			w->err = kvt_put_flags(w->fd, kvt_bytes(&w->key, sizeof(w->key)),
					       kvt_bytes(value, w->key % 2 ? 100 : sizeof(value)),
					       w->key % 2 ? KVTREE_F_SYNC : 0);
	}
	return NULL;
}

TEST_F(sleeping, nothing_is_written_under_load)
{
	struct writer w[WRITERS];
	int i, sleeps;

	set(TRACING "trace", "\n");
	for (i = 0; i < WRITERS; i++) {
		w[i] = (struct writer){ .fd = self->fd, .key = i };
		ASSERT_EQ(0, pthread_create(&w[i].thread, NULL, writer_thread, &w[i]));
	}
	for (i = 0; i < ROUNDS; i++) {
		kvt_sleep_ms(100);
		EXPECT_TRUE(set("/sys/power/state", "freeze"));
	}
	for (i = 0; i < WRITERS; i++)
		__atomic_store_n(&w[i].stop, 1, __ATOMIC_RELAXED);
	for (i = 0; i < WRITERS; i++) {
		ASSERT_EQ(0, pthread_join(w[i].thread, NULL));
		EXPECT_EQ(0, w[i].err);
	}
	EXPECT_EQ(0, trace_frozen(&self->disk, &sleeps));
	EXPECT_EQ(ROUNDS, sleeps);
	EXPECT_EQ(0, kvt_stat(self->fd, KVTREE_STAT_LOG_ERROR));
}

TEST_HARNESS_MAIN
