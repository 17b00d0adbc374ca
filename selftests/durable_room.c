// SPDX-License-Identifier: GPL-2.0
/* Room on the devices of durable stores: how it is counted, and what happens without. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include "kselftest_harness.h"
#include "lib/durable.h"
#include "lib/kvt_test.h"

#define RW	(KVTREE_OPEN_READ | KVTREE_OPEN_WRITE)
#define SIZE	132	/* MiB: more than the least */
#define KEYS	16
#define THREADS	4

FIXTURE(counted) {
	int dev;
	int fd;
	char name[KVTREE_NAME_MAX];
	struct kvt_disk disk;
};

FIXTURE_VARIANT(counted) {
	const char *engine;
};

FIXTURE_VARIANT_ADD(counted, masstree) { .engine = "masstree" };
FIXTURE_VARIANT_ADD(counted, bwtree) { .engine = "bwtree" };

static int attach_as(const char *engine, int dev, const char *name, const struct kvt_disk *disk,
		     int nr)
{
	struct kvtree_store_attach args = { .store.mode = 0600 };
	int err;

	strcpy(args.store.engine, engine);
	err = kvt_attach_args(dev, name, disk, nr, &args);
	return err ?: kvt_store(dev, name, RW);
}

FIXTURE_SETUP(counted)
{
	self->dev = kvt_open();
	ASSERT_LE(0, self->dev);
	snprintf(self->name, sizeof(self->name), "counted-%d", getpid());
	kvt_disk_make(&self->disk, SIZE, 512);
	ASSERT_EQ(0, kvt_format(&self->disk, 1));
	self->fd = attach_as(variant->engine, self->dev, self->name, &self->disk, 1);
	ASSERT_LE(0, self->fd);
}

FIXTURE_TEARDOWN(counted)
{
	close(self->fd);
	kvt_detach(self->dev, self->name);
	kvt_disk_remove(&self->disk);
	close(self->dev);
}

/* One who puts, adds to and removes the same keys as others do. */
struct changer {
	pthread_t thread;
	int fd;
	int nr;
	int stop;
};

/* More in the columns than stands in one block; then all but one are taken away. */
static void put_columns(int fd, struct kvt_bytes key, __u32 len)
{
	static const char data[6 * 1500];
	struct kvtree_col cols[6];
	int i;

	for (i = 0; i < 6; i++)
		cols[i] = (struct kvtree_col){ .id = i + 2, .len = 900 + len % 600 };
	KVT_CHECK(kvt_put_cols(fd, key, cols, 6, kvt_bytes(data, cols[0].len * 6), NULL) == 0);
	for (i = 1; i < 6; i++)
		cols[i].len = KVTREE_COL_ABSENT;
	if (len % 2)
		KVT_CHECK(kvt_put_cols(fd, key, cols + 1, 5, kvt_bytes("", 0), NULL) == 0);
}

static void *changer_thread(void *arg)
{
	static const char data[5000];
	struct changer *c = arg;
	struct kvt_rand rand;
	__u32 n, key;
	int err;

	rand.state = (__u64)c->nr + 1;
	while (!__atomic_load_n(&c->stop, __ATOMIC_RELAXED)) {
		n = (__u32)kvt_rand(&rand);
		key = n % KEYS;
		n /= KEYS;
		if (n % 16 == 0)
			put_columns(c->fd, kvt_bytes(&key, sizeof(key)), n / 16);
		else if (n % 16 == 1)
			kvt_remove(c->fd, kvt_bytes(&key, sizeof(key)));
		else if (n % 16 == 2)
			kvt_add(c->fd, kvt_bytes(&key, sizeof(key)), 1, 1, NULL);
		err = kvt_put(c->fd, kvt_bytes(&key, sizeof(key)), kvt_bytes(data, n % 200), NULL);
		if (n % 64 == 3)
			err = kvt_put(c->fd, kvt_bytes(&key, sizeof(key)),
				      kvt_bytes(data, n % sizeof(data)), NULL);
		KVT_CHECK(err == 0);
	}
	return NULL;
}

/* A counter that an engine alone has; 0 if it has not. */
static __u64 engine_stat(int fd, const char *name)
{
	struct kvtree_engine_stat stat = { .nr = 0 };

	for (; !kvt_ioctl(fd, KVTREE_IOC_ENGINE_STAT, &stat); stat.nr++)
		if (!strcmp(stat.name, name))
			return stat.value;
	return 0;
}

/* Enough has happened, among it changes that were logged and lost their place to another. */
static bool changers_met(void *arg)
{
	int fd = *(int *)arg;

	return kvt_stat(fd, KVTREE_STAT_PUT) > 20000 &&
	       (kvt_is_masstree(fd) || engine_stat(fd, "bw_update_fail") > 20);
}

TEST_F(counted, live_bytes_are_what_is_there_and_what_attach_counts)
{
	struct changer c[THREADS];
	__u32 key;
	__u64 live;
	int i, round;

	for (round = 0; round < 2; round++) {
		for (i = 0; i < THREADS; i++) {
			c[i] = (struct changer){ .fd = self->fd, .nr = i };
			ASSERT_EQ(0, pthread_create(&c[i].thread, NULL, changer_thread, &c[i]));
		}
		EXPECT_TRUE(kvt_eventually(changers_met, &self->fd));
		for (i = 0; i < THREADS; i++)
			__atomic_store_n(&c[i].stop, 1, __ATOMIC_RELAXED);
		for (i = 0; i < THREADS; i++)
			ASSERT_EQ(0, pthread_join(c[i].thread, NULL));
		for (key = KEYS; key < 2 * KEYS; key++)
			put_columns(self->fd, kvt_bytes(&key, sizeof(key)), key + round);
		live = kvt_stat(self->fd, KVTREE_STAT_LOG_LIVE_BYTES);
		EXPECT_EQ(kvt_recount(self->name), live);
		close(self->fd);
		ASSERT_EQ(0, kvt_detach(self->dev, self->name));
		self->fd = attach_as(variant->engine, self->dev, self->name, &self->disk, 1);
		ASSERT_LE(0, self->fd);
		EXPECT_EQ(live, kvt_stat(self->fd, KVTREE_STAT_LOG_LIVE_BYTES));
		EXPECT_EQ(live, kvt_recount(self->name));
	}
}

TEST_HARNESS_MAIN
