// SPDX-License-Identifier: GPL-2.0
/* Space on the devices of durable stores: how it is counted, and what happens without. */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/kvtree_format.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/sysinfo.h>
#include "kselftest_harness.h"
#include "../kmod/log/format/format.h"
#include "lib/durable.h"
#include "lib/group.h"
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
		     int nr, int *fd)
{
	struct kvt_attach_how how = { .store.mode = 0600 };

	strcpy(how.store.engine, engine);
	return kvt_attach_open(dev, name, disk, nr, &how, fd);
}

FIXTURE_SETUP(counted)
{
	self->dev = kvt_open();
	ASSERT_LE(0, self->dev);
	snprintf(self->name, sizeof(self->name), "counted-%d", getpid());
	kvt_disk_make(&self->disk, SIZE, 512);
	ASSERT_EQ(0, kvt_format(&self->disk, 1));
	ASSERT_EQ(0, attach_as(variant->engine, self->dev, self->name, &self->disk, 1,
			       &self->fd));
}

FIXTURE_TEARDOWN(counted)
{
	close(self->fd);
	kvt_detach(self->dev, self->name);
	kvt_disk_remove(&self->disk);
	close(self->dev);
}

/* A thread that puts, adds to and removes the same keys as the others. */
struct changer {
	pthread_t thread;
	int fd;
	int nr;
	int stop;
};

/* Put columns with more data than a block holds; then remove all but one of them. */
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

/* Enough has happened, among it changes that were logged and lost their place to another. */
static bool changers_met(void *arg)
{
	int fd = *(int *)arg;

	return kvt_stat(fd, KVTREE_STAT_PUT) > 20000 &&
	       (kvt_is_masstree(fd) || kvt_engine_stat(fd, "bw_update_fail") > 20);
}

TEST_F(counted, live_bytes_match_contents_and_recount)
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
		/* However long: a busy machine may rarely run two of them at a time. */
		while (!changers_met(&self->fd))
			kvt_sleep_ms(10);
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
		ASSERT_EQ(0, attach_as(variant->engine, self->dev, self->name, &self->disk, 1,
				       &self->fd));
		EXPECT_EQ(live, kvt_stat(self->fd, KVTREE_STAT_LOG_LIVE_BYTES));
		EXPECT_EQ(live, kvt_recount(self->name));
	}
}

/* Two disks.  One CPU, which logs to the first, makes all changes unless a test says otherwise. */
struct pair {
	int dev;
	int fd;
	char name[KVTREE_NAME_MAX];
	struct kvt_disk disk[2];
	void *image[2];
};

static int pair_attach(struct pair *p)
{
	return kvt_attach_open(p->dev, p->name, p->disk, 2, NULL, &p->fd);
}

static void pair_begin(struct pair *p, size_t mib0, size_t mib1)
{
	p->dev = kvt_open();
	KVT_CHECK(p->dev >= 0);
	snprintf(p->name, sizeof(p->name), "unequal-%d", getpid());
	kvt_disk_make(&p->disk[0], mib0, 512);
	kvt_disk_make(&p->disk[1], mib1, 512);
	KVT_CHECK(kvt_format(p->disk, 2) == 0);
	kvt_run_on(0);
	KVT_CHECK(pair_attach(p) == 0);
}

static void pair_end(struct pair *p)
{
	int i;

	close(p->fd);
	kvt_detach(p->dev, p->name);
	for (i = 0; i < 2; i++) {
		kvt_disk_free(&p->disk[i], p->image[i]);
		kvt_disk_remove(&p->disk[i]);
	}
	close(p->dev);
}

static int pair_again(struct pair *p)
{
	KVT_CHECK(kvt_close_detach(p->dev, p->name, &p->fd) == 0);
	return pair_attach(p);
}

/* An image of one moment is what the next attach restores. */
static int pair_crash(struct pair *p)
{
	kvt_disks_image(p->disk, 2, p->fd, p->image);
	KVT_CHECK(kvt_close_detach(p->dev, p->name, &p->fd) == 0);
	kvt_disks_restore(p->disk, 2, p->image);
	return pair_attach(p);
}

FIXTURE(unequal) {
	struct pair pair;
};

FIXTURE_VARIANT(unequal) {
	size_t mib[2];
};

#define LARGE	408

FIXTURE_VARIANT_ADD(unequal, small_one_has_records) { .mib = { SIZE, LARGE } };
FIXTURE_VARIANT_ADD(unequal, small_one_has_none) { .mib = { LARGE, SIZE } };

FIXTURE_SETUP(unequal)
{
	pair_begin(&self->pair, variant->mib[0], variant->mib[1]);
}

FIXTURE_TEARDOWN(unequal)
{
	pair_end(&self->pair);
}

/* Each is an epoch, and has a commit record on this CPU's disk. */
static int put_synced(int fd, __u32 n)
{
	__u32 key = n % 100;

	return kvt_put_flags(fd, kvt_bytes(&key, sizeof(key)), kvt_bytes(&n, sizeof(n)),
			     KVTREE_F_SYNC);
}

static __u32 get_synced(int fd, __u32 n)
{
	__u32 key = n % 100, value = ~0u;

	kvt_get(fd, kvt_bytes(&key, sizeof(key)), &value, sizeof(value), NULL);
	return value;
}

#define REPLAY_MB	"/sys/module/kvtree/parameters/log_replay_mb"

/* A checkpoint is made when room is needed, not because the log is long; or as at the beginning. */
static void checkpoints_for_room(bool alone)
{
	static char was[16];

	kvt_set_param(REPLAY_MB, alone ? "4096" : was, alone ? was : NULL, sizeof(was));
}

/* Each checkpoint writes a little: with 0 it would be followed by another for ever. */
TEST(log_that_may_be_replayed_is_not_nothing)
{
	char was[16];
	int fd;

	kvt_set_param(REPLAY_MB, "1", was, sizeof(was));
	fd = open(REPLAY_MB, O_WRONLY | O_CLOEXEC);
	ASSERT_LE(0, fd);
	EXPECT_GT(0, pwrite(fd, "0", 1, 0));
	close(fd);
	kvt_set_param(REPLAY_MB, was, NULL, 0);
}

struct bound {
	const char *text;
	bool good;
};

/* The last of the values is the one that it has. */
static void has_a_bound(struct __test_metadata *_metadata, const char *path,
			const struct bound *values, size_t nr)
{
	char text[32] = "";
	size_t i;
	int fd;

	fd = open(path, O_RDWR | O_CLOEXEC);
	ASSERT_LE(0, fd);
	for (i = 0; i < nr; i++) {
		bool good = pwrite(fd, values[i].text, strlen(values[i].text), 0) > 0;

		EXPECT_EQ(values[i].good, good) {
			TH_LOG("%s", values[i].text);
		}
	}
	EXPECT_LT(0, pread(fd, text, sizeof(text) - 1, 0));
	EXPECT_EQ(atoi(values[nr - 1].text), atoi(text));
	close(fd);
}

/* It bounds what a crash takes. */
TEST(interval_of_commits_has_a_bound)
{
	static const struct bound values[] = {
		{ "200", true }, { "201", false }, { "4294967295", false }, { "-1", false },
		{ "0", true }, { "10", true },
	};

	has_a_bound(_metadata, KVT_EPOCH_MS, values, NR(values));
}

TEST(time_until_a_store_is_idle_has_a_bound)
{
	static const struct bound values[] = {
		{ "60000", true }, { "60001", false }, { "4294967295", false }, { "-1", false },
		{ "0", true }, { "1000", true },
	};

	has_a_bound(_metadata, KVT_IDLE_MS, values, NR(values));
}

/* MiB of records, far fewer than a small disk takes until it asks for a checkpoint. */
#define RECORDS	10

static void put_records(int fd)
{
	static const char value[1 << 20];
	__u32 key = 1000;
	int i;

	for (i = 0; i < RECORDS; i++)
		KVT_CHECK(kvt_put(fd, kvt_bytes(&key, sizeof(key)),
				  kvt_bytes(value, sizeof(value)), NULL) == 0);
	KVT_CHECK(kvt_sync(fd) == 0);
}

/*
 * Each time round, most of the small disk's room goes to records that few commits share, and the
 * rest to commits of one record: it is for these that a checkpoint has to be made.
 */
TEST(commit_records_go_round_a_small_disk)
{
	struct pair pair = { .fd = -1 };
	__u64 bytes = 0, made;
	__u32 n = 0, first;
	char was[16];
	int err = 0;

	/* The first disk is so large that its log never causes a checkpoint. */
	pair_begin(&pair, 1536, SIZE);
	/* What this CPU writes goes to the other one. */
	kvt_run_on(1);
	/* Records alone have few commits, however slow the machine is. */
	kvt_set_param(KVT_EPOCH_MS, "200", was, sizeof(was));
	checkpoints_for_room(true);
	while (!err && bytes < SIZE * KVT_MIB) {
		ASSERT_EQ(0, kvt_checkpoint(pair.fd));
		made = kvt_stat(pair.fd, KVTREE_STAT_LOG_CHECKPOINTS);
		put_records(pair.fd);
		ASSERT_EQ(made, kvt_stat(pair.fd, KVTREE_STAT_LOG_CHECKPOINTS));
		first = n;
		while (!err && kvt_stat(pair.fd, KVTREE_STAT_LOG_CHECKPOINTS) == made)
			err = put_synced(pair.fd, n++);
		EXPECT_EQ(0, err) {
			TH_LOG("after %u", n);
		}
		EXPECT_EQ(0, kvt_stat(pair.fd, KVTREE_STAT_LOG_ERROR));
		/* The checkpoint that makes room comes before there is none. */
		ASSERT_EQ(0, kvt_stat(pair.fd, KVTREE_STAT_LOG_FULL));
		bytes += RECORDS * KVT_MIB + (n - first) * 2 * 4096;
		TH_LOG("checkpoint after %u", n - first);
	}
	checkpoints_for_room(false);
	kvt_set_param(KVT_EPOCH_MS, was, NULL, 0);
	ASSERT_EQ(0, pair_crash(&pair));
	EXPECT_EQ(n - 1, get_synced(pair.fd, n - 1));
	pair_end(&pair);
}

/* Put until there is no room. */
static __u32 fill(int fd, int *err)
{
	static char value[1 << 20];
	__u32 i;

	*err = 0;
	for (i = 0; !*err && i < 1000; i++)
		*err = kvt_put(fd, kvt_bytes(&i, sizeof(i)), kvt_bytes(value, sizeof(value)), NULL);
	return i - 1;
}

TEST_F(unequal, full_store_is_attached_and_emptied_and_used_again)
{
	struct pair *p = &self->pair;
	__u64 digest, live, max;
	__u32 nr, i;
	int err;

	nr = fill(p->fd, &err);
	ASSERT_EQ(-ENOSPC, err);
	/* What fits is known before; how much there is, to a segment of a device. */
	live = kvt_stat(p->fd, KVTREE_STAT_LOG_LIVE_BYTES);
	max = kvt_stat(p->fd, KVTREE_STAT_LOG_LIVE_MAX);
	EXPECT_GT(max + (4 << 20), live);
	EXPECT_LT(max - (1 << 20) - (4 << 20), live);
	/* As much of a checkpoint goes to each as it has room for. */
	EXPECT_LT((SIZE + LARGE) / 8, nr);
	/* What does not grow goes on, whichever disk it is on. */
	for (i = 0; i < 2000; i++) {
		kvt_run_on(i % get_nprocs());
		ASSERT_EQ(0, put_synced(p->fd, i * 100));
	}
	kvt_run_on(0);
	digest = kvt_digest(p->fd);
	ASSERT_EQ(0, pair_crash(p));
	EXPECT_EQ(digest, kvt_digest(p->fd));
	ASSERT_EQ(0, pair_again(p));
	EXPECT_EQ(digest, kvt_digest(p->fd));
	EXPECT_EQ(0, kvt_checkpoint(p->fd));
	ASSERT_EQ(0, pair_crash(p));
	EXPECT_EQ(digest, kvt_digest(p->fd));
	ASSERT_EQ(0, pair_again(p));
	for (i = 0; i < nr; i++)
		ASSERT_EQ(0, kvt_remove(p->fd, kvt_bytes(&i, sizeof(i))));
	EXPECT_EQ(0, kvt_stat(p->fd, KVTREE_STAT_KEYS));
	EXPECT_EQ(nr, fill(p->fd, &err));
	EXPECT_EQ(-ENOSPC, err);
	EXPECT_EQ(0, kvt_stat(p->fd, KVTREE_STAT_LOG_ERROR));
	ASSERT_EQ(0, pair_again(p));
	EXPECT_EQ(nr, kvt_stat(p->fd, KVTREE_STAT_KEYS));
}

/* A disk's blocks; the caller frees them. */
static void *disk_blocks(const struct kvt_disk *disk, __u64 block, __u32 nr)
{
	size_t size = (size_t)nr * KVTREE_LOG_BLOCK;
	void *data = malloc(size);

	KVT_CHECK(data && pread(disk->memory, data, size, (off_t)block * KVTREE_LOG_BLOCK) ==
		  (ssize_t)size);
	return data;
}

/* The table of the checkpoint that one of the superblocks says. */
static struct kvtree_log_table *disk_table(const struct kvt_disk *disk)
{
	struct kvtree_log_super *super = disk_blocks(disk, 0, 1);
	struct kvtree_log_table *table;
	__u64 block;

	block = KVTREE_LOG_DATA_START + le32toh(super->checkpoint.table.block) +
		(__u64)le32toh(super->checkpoint.table.segment) * le32toh(super->segment_blocks);
	table = disk_blocks(disk, block, le32toh(super->checkpoint.blocks));
	KVT_CHECK(le64toh(table->magic) == KVTREE_LOG_TABLE_MAGIC);
	free(super);
	return table;
}

/*
 * Disks without room for a life, or with little.  This module leaves none, but other
 * versions of it did: a disk ends with the last segment that is in use, or a few later.
 */
#define LIVE	16	/* MiB */
#define MUCH	64	/* MiB: more than streams need */
#define WRITTEN	108	/* MiB: in more than KVTREE_LOG_SEGMENTS_MIN segments, and a third of */
#define WIDE	640	/* MiB: for which WRITTEN is too little to make a checkpoint */

/* No checkpoint is made: all of it is needed. */
static void put_much(int fd, __u32 live)
{
	static char value[1 << 20];
	__u32 i, key;

	for (i = 0; i < WRITTEN; i++) {
		key = i % live;
		memset(value, (int)i, sizeof(value));
		KVT_CHECK(kvt_put(fd, kvt_bytes(&key, sizeof(key)),
				  kvt_bytes(value, sizeof(value)), NULL) == 0);
	}
	KVT_CHECK(kvt_stat(fd, KVTREE_STAT_LOG_CHECKPOINTS) == 0);
}

/* Those of a new disk are taken in order; some, taken in advance, may not have been written to. */
static __u32 segments_used(const struct kvt_disk *disk, __u32 all)
{
	struct kvtree_log_segment *head;
	__u32 nr, used = 0;

	for (nr = 0; nr < all; nr++) {
		head = disk_blocks(disk, KVTREE_LOG_DATA_START +
					 (__u64)nr * KVTREE_LOG_SEGMENT_MIN, 1);
		if (le64toh(head->magic) == KVTREE_LOG_SEGMENT_MAGIC)
			used = nr + 1;
		free(head);
	}
	return used;
}

static void disk_cut(const struct kvt_disk *disk, __u32 more)
{
	struct kvtree_log_super *super = disk_blocks(disk, kvt_log_super_block(0), 1);
	__u32 nr = segments_used(disk, le32toh(super->nr_segments)) + more, copy;
	__u64 block;

	free(super);
	for (copy = 0; copy < KVTREE_LOG_SUPER_COPIES; copy++) {
		block = kvt_log_super_block(copy);
		super = disk_blocks(disk, block, 1);
		KVT_CHECK(le32toh(super->segment_blocks) == KVTREE_LOG_SEGMENT_MIN);
		KVT_CHECK(nr >= KVTREE_LOG_SEGMENTS_MIN && nr < le32toh(super->nr_segments));
		super->nr_segments = htole32(nr);
		kvt_log_super_seal(super);
		kvt_disk_write(disk, super, sizeof(*super), block * KVTREE_LOG_BLOCK);
		free(super);
	}
}

/* It can be read, now and later, and saved. */
TEST(store_without_room_to_begin_is_attached_to_be_read)
{
	struct kvt_disk disk;
	char name[KVTREE_NAME_MAX];
	__u64 digest;
	__u32 key = 0;
	int dev, fd, i;

	dev = kvt_open();
	ASSERT_LE(0, dev);
	snprintf(name, sizeof(name), "no-room-%d", getpid());
	checkpoints_for_room(true);
	kvt_disk_make(&disk, WIDE, 512);
	ASSERT_EQ(0, kvt_format(&disk, 1));
	ASSERT_EQ(0, kvt_attach_open(dev, name, &disk, 1, NULL, &fd));
	put_much(fd, LIVE);
	digest = kvt_digest(fd);
	ASSERT_EQ(0, kvt_close_detach(dev, name, &fd));
	disk_cut(&disk, 0);
	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, kvt_attach_open(dev, name, &disk, 1, NULL, &fd));
		EXPECT_EQ(ENOSPC, kvt_stat(fd, KVTREE_STAT_LOG_ERROR));
		EXPECT_EQ(digest, kvt_digest(fd));
		EXPECT_EQ(-EROFS, kvt_put(fd, kvt_bytes(&key, sizeof(key)), STR("v"), NULL));
		EXPECT_EQ(-EROFS, kvt_remove(fd, kvt_bytes(&key, sizeof(key))));
		EXPECT_EQ(digest, kvt_digest(fd));
		EXPECT_EQ(0, kvt_close_detach(dev, name, &fd));
		EXPECT_EQ(0, kvt_check_disks(&disk, 1));
	}
	checkpoints_for_room(false);
	kvt_disk_remove(&disk);
	close(dev);
}

/* Put until the store takes no more, which it says.  Returns how many it has taken. */
static __u32 put_while_taken(int fd)
{
	static char value[1 << 16];
	__u32 key;
	int err;

	for (key = 0, err = 0; !err && key < 10000; key++) {
		if (get_nprocs() > 1)
			kvt_run_on(key / 8 % 2);
		err = kvt_put(fd, kvt_bytes(&key, sizeof(key)),
			      kvt_bytes(value, sizeof(value)), NULL);
	}
	return key - 1;
}

/* Write to a store that has room for @more segments.  Returns how many puts it has taken. */
static __u32 taken_with_room(struct __test_metadata *_metadata, int dev, const char *name,
			     __u32 more, int *error)
{
	struct kvt_disk disk;
	__u64 digest;
	__u32 taken;
	int fd;

	kvt_disk_make(&disk, WIDE, 512);
	ASSERT_EQ(0, kvt_format(&disk, 1));
	ASSERT_EQ(0, kvt_attach_open(dev, name, &disk, 1, NULL, &fd));
	put_much(fd, MUCH);
	ASSERT_EQ(0, kvt_close_detach(dev, name, &fd));
	disk_cut(&disk, more);
	ASSERT_EQ(0, kvt_attach_open(dev, name, &disk, 1, NULL, &fd));
	taken = put_while_taken(fd);
	EXPECT_GT(9999, taken);
	*error = (int)kvt_stat(fd, KVTREE_STAT_LOG_ERROR);
	TH_LOG("room for %u: %u taken, error %d", more, taken, *error);
	EXPECT_TRUE(!*error || *error == ENOSPC);
	digest = kvt_digest(fd);
	EXPECT_EQ(0, kvt_close_detach(dev, name, &fd));
	ASSERT_EQ(0, kvt_attach_open(dev, name, &disk, 1, NULL, &fd));
	EXPECT_EQ(digest, kvt_digest(fd));
	ASSERT_EQ(0, kvt_close_detach(dev, name, &fd));
	kvt_disk_remove(&disk);
	return taken;
}

/*
 * A life begins, but no checkpoint fits that would make room: nothing waits for one for ever, and
 * accepted changes exist.  With less room no life begins, and with more a checkpoint fits.
 */
TEST(store_without_room_to_continue_reports_it)
{
	int dev, error = ENOSPC, given_up = 0;
	char name[KVTREE_NAME_MAX];
	__u32 more;

	dev = kvt_open();
	ASSERT_LE(0, dev);
	snprintf(name, sizeof(name), "no-room-%d", getpid());
	checkpoints_for_room(true);
	for (more = 0; error && more <= MUCH; more += 1 + more / 4)
		if (taken_with_room(_metadata, dev, name, more, &error) && error)
			given_up++;
	checkpoints_for_room(false);
	EXPECT_EQ(0, error);
	EXPECT_LT(0, given_up);
	close(dev);
}

/* The contents of one move to the other. */
TEST(disk_without_room_gets_some_if_another_has_it)
{
	struct pair pair = { .fd = -1 };
	__u64 digest;
	__u32 i, nr;
	int err;

	pair_begin(&pair, WIDE, WIDE);
	checkpoints_for_room(true);
	put_much(pair.fd, LIVE);
	digest = kvt_digest(pair.fd);
	ASSERT_EQ(0, kvt_close_detach(pair.dev, pair.name, &pair.fd));
	disk_cut(&pair.disk[0], 0);
	ASSERT_EQ(0, pair_attach(&pair));
	EXPECT_EQ(0, kvt_stat(pair.fd, KVTREE_STAT_LOG_ERROR));
	EXPECT_EQ(digest, kvt_digest(pair.fd));
	for (i = 0; i < LIVE; i++)
		EXPECT_EQ(0, kvt_remove(pair.fd, kvt_bytes(&i, sizeof(i))));
	EXPECT_EQ(0, kvt_stat(pair.fd, KVTREE_STAT_KEYS));
	nr = fill(pair.fd, &err);
	EXPECT_EQ(-ENOSPC, err);
	ASSERT_EQ(0, pair_again(&pair));
	EXPECT_EQ(nr, kvt_stat(pair.fd, KVTREE_STAT_KEYS));
	EXPECT_EQ(0, kvt_stat(pair.fd, KVTREE_STAT_LOG_ERROR));
	checkpoints_for_room(false);
	pair_end(&pair);
}

static bool checkpoint_made(void *arg)
{
	return kvt_stat(*(int *)arg, KVTREE_STAT_LOG_CHECKPOINTS);
}

/* All of it would be read by the next attach. */
TEST(long_log_asks_for_a_checkpoint_though_there_is_room)
{
	static const char value[1 << 20];
	struct pair pair = { .fd = -1 };
	__u32 i, key = 0;
	char was[16];

	pair_begin(&pair, WIDE, WIDE);
	kvt_set_param(REPLAY_MB, "16", was, sizeof(was));
	for (i = 0; i < 17; i++)
		ASSERT_EQ(0, kvt_put(pair.fd, kvt_bytes(&key, sizeof(key)),
				     kvt_bytes(value, sizeof(value)), NULL));
	ASSERT_EQ(0, kvt_sync(pair.fd));
	ASSERT_TRUE(kvt_eventually(checkpoint_made, &pair.fd));
	EXPECT_LT(kvt_stat(pair.fd, KVTREE_STAT_LOG_CAPACITY) / 4 * 3,
		  kvt_stat(pair.fd, KVTREE_STAT_LOG_FREE_BYTES));
	kvt_set_param(REPLAY_MB, was, NULL, 0);
	pair_end(&pair);
}

#define GONE	1000000	/* keys, in a log of which no checkpoint is made */
#define GROUP	1000	/* of them are in the store at a time */

/* Each of a group's keys, on a CPU.  They are long: a removed one takes a block of memory. */
static void change_group(int fd, int cpu, int opcode, __u32 first)
{
	static struct kvtree_op ops[GROUP];
	static struct {
		__u32 number;
		char rest[60];
	} keys[GROUP];
	static const char value[100];
	__u32 i;

	for (i = 0; i < GROUP; i++) {
		keys[i].number = htobe32(first + i);
		ops[i] = kvt_op(opcode, kvt_bytes(&keys[i], sizeof(keys[i])));
		if (opcode == KVTREE_OP_PUT) {
			ops[i].val = kvt_ptr(value);
			ops[i].val_len = sizeof(value);
		}
	}
	kvt_run_on(cpu);
	KVT_CHECK(kvt_batch_all(fd, ops, GROUP) == 0);
	for (i = 0; i < GROUP; i++)
		KVT_CHECK(ops[i].result >= 0);
}

/* One CPU puts and another removes; their logs are on different disks. */
static void put_and_remove(int fd)
{
	__u32 first;

	for (first = 0; first < GONE; first += GROUP) {
		change_group(fd, 0, KVTREE_OP_PUT, first);
		change_group(fd, get_nprocs() > 1, KVTREE_OP_REMOVE, first);
	}
}

struct confined {
	struct pair *pair;
	struct kvt_group group;
};

static int attach_confined(void *arg)
{
	struct confined *c = arg;

	kvt_group_enter(&c->group);
	return kvt_attach(c->pair->dev, c->pair->name, c->pair->disk, 2, 0);
}

/* However much was put and removed since the last checkpoint. */
TEST(removed_keys_take_no_memory_to_attach)
{
	struct pair pair = { .fd = -1 };
	struct confined confined = { .pair = &pair };
	char bound[16];
	__u32 live = 7;

	if (!kvt_group_make(&confined.group, "confined"))
		SKIP(return, "the kernel has no memory cgroups here");
	pair_begin(&pair, WIDE, WIDE);
	checkpoints_for_room(true);
	put_and_remove(pair.fd);
	ASSERT_EQ(0, kvt_put(pair.fd, kvt_bytes(&live, 1), STR("v"), NULL));
	ASSERT_EQ(0, kvt_stat(pair.fd, KVTREE_STAT_LOG_CHECKPOINTS));
	ASSERT_EQ(0, kvt_close_detach(pair.dev, pair.name, &pair.fd));
	/* A fast machine has more changes in an epoch, which take memory. */
	kvt_group_limit(&confined.group, 64 << 20);
	/* Removed values count until they are freed, which other work may delay. */
	kvt_set_bound("1", bound, sizeof(bound));
	ASSERT_EQ(0, kvt_run(attach_confined, &confined));
	kvt_set_bound(bound, NULL, 0);
	pair.fd = kvt_store(pair.dev, pair.name, RW);
	ASSERT_LE(0, pair.fd);
	EXPECT_EQ(1, kvt_stat(pair.fd, KVTREE_STAT_KEYS));
	EXPECT_EQ(0, kvt_check_disks(pair.disk, 2));
	checkpoints_for_room(false);
	pair_end(&pair);
	kvt_group_end(&confined.group);
}

static int check_confined(void *arg)
{
	struct confined *c = arg;

	kvt_group_enter(&c->group);
	return kvt_check_disks(c->pair->disk, 2);
}

/* Nor does it for the tool, which keeps what it has read of each key. */
TEST(removed_keys_take_no_memory_to_check)
{
	struct pair pair = { .fd = -1 };
	struct confined confined = { .pair = &pair };

	if (!kvt_group_make(&confined.group, "confined"))
		SKIP(return, "the kernel has no memory cgroups here");
	pair_begin(&pair, WIDE, WIDE);
	checkpoints_for_room(true);
	put_and_remove(pair.fd);
	ASSERT_EQ(0, kvt_stat(pair.fd, KVTREE_STAT_LOG_CHECKPOINTS));
	ASSERT_EQ(0, kvt_close_detach(pair.dev, pair.name, &pair.fd));
	checkpoints_for_room(false);
	/* Half of what all the removals take. */
	kvt_group_limit(&confined.group, 28 << 20);
	EXPECT_EQ(0, kvt_run(check_confined, &confined));
	pair_end(&pair);
	kvt_group_end(&confined.group);
}

/* However many ranges there are: by that is known how much a checkpoint's table can describe. */
TEST_F(counted, extents_of_a_directory_are_large)
{
	struct kvtree_log_table *table;
	char was[16];
	__u64 i, nr;
	__u32 key;

	/* Each key has its range. */
	kvt_set_param(KVT_RANGE_BYTES, "64", was, sizeof(was));
	for (key = 0; key < 10000; key++)
		ASSERT_EQ(0, kvt_put(self->fd, kvt_bytes(&key, sizeof(key)),
				     STR("a value of forty bytes, more or less...."), NULL));
	ASSERT_EQ(0, kvt_checkpoint(self->fd));
	kvt_set_param(KVT_RANGE_BYTES, was, NULL, 0);
	table = disk_table(&self->disk);
	nr = le64toh(table->nr_extents);
	EXPECT_LT(4, nr);
	for (i = 0; i + 1 < nr; i++)
		EXPECT_LE(42, le32toh(table->extents[i].blocks));
	TH_LOG("%llu extents", nr);
	free(table);
}

/* Lives that all end by a crash; a superblock has room for 32, and the disks for more. */
TEST(more_lives_than_the_superblock_takes_are_attached)
{
	struct pair pair = { .fd = -1 };
	int err = 0;
	__u32 life;

	/* No checkpoint is needed for room. */
	pair_begin(&pair, 1024, 1024);
	for (life = 1; !err && life <= 40; life++) {
		KVT_CHECK(put_synced(pair.fd, life * 100) == 0);
		err = pair_crash(&pair);
		if (!err)
			EXPECT_EQ(life * 100, get_synced(pair.fd, 0));
	}
	EXPECT_EQ(0, err) {
		TH_LOG("after life %u", life);
	}
	pair_end(&pair);
}

TEST_HARNESS_MAIN
