// SPDX-License-Identifier: GPL-2.0
/*
 * Checkpoints write only what has changed, and what they do not rewrite stays valid.
 *
 * The module for tests has ranges of a few records, with few bits for their changes, so that
 * a few thousand keys have the effect of millions.
 */
#include <endian.h>
#include <errno.h>
#include <linux/kvtree_format.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <unistd.h>
#include "kselftest_harness.h"
#include "lib/durable.h"
#include "lib/faults.h"
#include "lib/knobs.h"
#include "lib/kvt_test.h"

#define DISKS	3
#define SIZE	260	/* MiB */
#define LARGE	1024	/* MiB: many lives have room without a checkpoint */

FIXTURE(ranges) {
	int dev;
	int fd;
	char name[KVTREE_NAME_MAX];
	struct kvt_disk disk[DISKS];
	char bytes[16];		/* the parameters as they were */
	char bits[16];
	char savers[16];
};

FIXTURE_VARIANT(ranges) {
	const char *engine;
	int nr;
	bool plain;
};

FIXTURE_VARIANT_ADD(ranges, masstree) { .engine = "masstree", .nr = 1, .plain = true };
FIXTURE_VARIANT_ADD(ranges, bwtree) { .engine = "bwtree", .nr = 1 };
FIXTURE_VARIANT_ADD(ranges, three) { .engine = "masstree", .nr = 3 };

static int come_up(struct _test_data_ranges *self, const struct _fixture_variant_ranges *variant)
{
	struct kvt_attach_how how = { .store.mode = 0600 };

	strcpy(how.store.engine, variant->engine);
	return kvt_attach_open(self->dev, self->name, self->disk, variant->nr, &how, &self->fd);
}

FIXTURE_SETUP(ranges)
{
	int i;

	if (variant->plain && kvt_leave_out())
		SKIP(return, "other variants have all that this one has");
	self->dev = kvt_open();
	ASSERT_LE(0, self->dev);
	snprintf(self->name, sizeof(self->name), "ranges-%d", getpid());
	kvt_set_param(KVT_RANGE_BYTES, "1024", self->bytes, sizeof(self->bytes));
	kvt_set_param(KVT_COVER_BITS, "5", self->bits, sizeof(self->bits));
	kvt_set_param(KVT_SAVERS, "3", self->savers, sizeof(self->savers));
	for (i = 0; i < variant->nr; i++)
		kvt_disk_make(&self->disk[i], SIZE, 512);
	ASSERT_EQ(0, kvt_format(self->disk, variant->nr));
	ASSERT_EQ(0, come_up(self, variant));
}

FIXTURE_TEARDOWN(ranges)
{
	int i;

	kvt_close_detach(self->dev, self->name, &self->fd);
	for (i = 0; i < variant->nr; i++)
		kvt_disk_remove(&self->disk[i]);
	kvt_set_param(KVT_RANGE_BYTES, self->bytes, NULL, 0);
	kvt_set_param(KVT_COVER_BITS, self->bits, NULL, 0);
	kvt_set_param(KVT_SAVERS, self->savers, NULL, 0);
	close(self->dev);
}

/* Keys in random order, with values that show the number of the change. */
static void put(int fd, __u32 i, __u32 change)
{
	__u64 key = i * 0x9e3779b97f4a7c15ull;
	char value[100];

	memset(value, (int)change, sizeof(value));
	KVT_CHECK(kvt_put(fd, kvt_bytes(&key, sizeof(key)), kvt_bytes(value, sizeof(value)),
			  NULL) == 0);
}

/* The same, with columns that are outside of the record. */
static void put_columns(int fd, __u32 i, __u32 change)
{
	struct kvtree_col cols[] = {
		{ .id = 1, .len = 2100 + change }, { .id = 2, .len = 10 }, { .id = 9, .len = 3003 },
	};
	__u64 key = i * 0x9e3779b97f4a7c15ull;
	char data[5500];

	memset(data, (int)change, sizeof(data));
	KVT_CHECK(kvt_put_cols(fd, kvt_bytes(&key, sizeof(key)), cols, 3,
			       kvt_bytes(data, 2100 + change + 10 + 3003), NULL) == 0);
}

static int drop(int fd, __u32 i)
{
	__u64 key = i * 0x9e3779b97f4a7c15ull;

	return kvt_remove(fd, kvt_bytes(&key, sizeof(key)));
}

/* Bytes that were ever written to a disk. */
static __u64 disk_written(const struct kvt_disk *disk)
{
	unsigned long long sectors;
	char path[96];
	FILE *f;

	snprintf(path, sizeof(path), "/sys/block/%s/stat", strrchr(disk->path, '/') + 1);
	f = fopen(path, "r");
	KVT_CHECK(f && fscanf(f, "%*u %*u %*u %*u %*u %*u %llu", &sectors) == 1);
	fclose(f);
	return sectors * 512;
}

static __u64 checkpoint_writes(struct _test_data_ranges *self, int nr)
{
	__u64 before = 0, after = 0;
	int i;

	KVT_CHECK(kvt_sync(self->fd) == 0);
	for (i = 0; i < nr; i++)
		before += disk_written(&self->disk[i]);
	KVT_CHECK(kvt_checkpoint(self->fd) == 0);
	for (i = 0; i < nr; i++)
		after += disk_written(&self->disk[i]);
	return after - before;
}

#define MANY	16384u

TEST_F(ranges, checkpoint_writes_what_has_changed)
{
	__u64 all, same, scattered, adjacent, first, digest;
	__u32 i;

	kvt_set_param(KVT_RANGE_BYTES, "16384", NULL, 0);
	kvt_set_param(KVT_COVER_BITS, "12", NULL, 0);
	for (i = 0; i < MANY; i++)
		put(self->fd, i, 0);
	all = checkpoint_writes(self, variant->nr);
	same = checkpoint_writes(self, variant->nr);
	for (i = 0; i < MANY; i += 100)
		put(self->fd, i, 1);
	scattered = checkpoint_writes(self, variant->nr);
	/* Those before all others. */
	for (first = 0; first < MANY / 100; first++)
		KVT_CHECK(kvt_put(self->fd, kvt_bytes(&first, sizeof(first)),
				  kvt_bytes(&first, sizeof(first)), NULL) == 0);
	adjacent = checkpoint_writes(self, variant->nr);
	TH_LOG("%llu bytes, %llu, %llu and %llu", all, same, scattered, adjacent);
	EXPECT_GT(all / 8, same);
	EXPECT_GT(all / 6, scattered);
	EXPECT_GT(all / 8, adjacent);
	digest = kvt_digest(self->fd);
	ASSERT_EQ(0, kvt_close_detach(self->dev, self->name, &self->fd));
	EXPECT_EQ(0, kvt_check_disks(self->disk, variant->nr));
	ASSERT_EQ(0, come_up(self, variant));
	EXPECT_EQ(digest, kvt_digest(self->fd));
}

/* Bytes of the record of a key with such a value: 24, the key, 100, and the padding. */
#define RECORD	136
#define SEGMENT	(4u << 20)

TEST_F(ranges, counters_count_what_checkpoints_write)
{
	__u64 ranges, pieces, bytes, s[KVTREE_STAT_NR];
	__u32 i;

	ASSERT_EQ(0, kvt_stats(self->fd, s));
	EXPECT_EQ(0, s[KVTREE_STAT_LOG_RANGES]);
	EXPECT_EQ(0, s[KVTREE_STAT_LOG_PIECES]);
	EXPECT_EQ(0, s[KVTREE_STAT_LOG_IMAGE_BYTES]);
	for (i = 0; i < MANY; i++)
		put(self->fd, i, 0);
	ASSERT_EQ(0, kvt_sync(self->fd));
	ASSERT_EQ(0, kvt_checkpoint(self->fd));
	ASSERT_EQ(0, kvt_stats(self->fd, s));
	EXPECT_EQ(MANY * RECORD, s[KVTREE_STAT_LOG_RECORD_BYTES]);
	EXPECT_EQ(1, s[KVTREE_STAT_LOG_CHECKPOINTS_FULL]);
	bytes = s[KVTREE_STAT_LOG_CHECKPOINT_BYTES];
	EXPECT_LT(MANY * RECORD, bytes);
	EXPECT_LT(MANY * RECORD + bytes, s[KVTREE_STAT_LOG_BYTES]);
	ranges = s[KVTREE_STAT_LOG_RANGES];
	EXPECT_LT(MANY * RECORD / 2048, ranges);
	EXPECT_EQ(ranges, s[KVTREE_STAT_LOG_PIECES]);
	for (i = 0; i < MANY; i += 100)
		put(self->fd, i, 1);
	ASSERT_EQ(0, kvt_sync(self->fd));
	ASSERT_EQ(0, kvt_checkpoint(self->fd));
	ASSERT_EQ(0, kvt_stats(self->fd, s));
	EXPECT_EQ(2, s[KVTREE_STAT_LOG_CHECKPOINTS]);
	EXPECT_EQ(1, s[KVTREE_STAT_LOG_CHECKPOINTS_FULL]);
	EXPECT_LT(bytes, s[KVTREE_STAT_LOG_CHECKPOINT_BYTES]);
	EXPECT_GT(bytes * 2, s[KVTREE_STAT_LOG_CHECKPOINT_BYTES]);
	ranges = s[KVTREE_STAT_LOG_RANGES];
	pieces = s[KVTREE_STAT_LOG_PIECES];
	EXPECT_LT(ranges, pieces);
	bytes = s[KVTREE_STAT_LOG_IMAGE_BYTES];
	EXPECT_LT(s[KVTREE_STAT_LOG_LIVE_BYTES], bytes);
	EXPECT_EQ(0, bytes % SEGMENT);
	EXPECT_GE(s[KVTREE_STAT_LOG_CAPACITY] - s[KVTREE_STAT_LOG_FREE_BYTES], bytes);
	/* They describe what is on the devices, so they are the same after a detach. */
	ASSERT_EQ(0, kvt_close_detach(self->dev, self->name, &self->fd));
	ASSERT_EQ(0, come_up(self, variant));
	ASSERT_EQ(0, kvt_stats(self->fd, s));
	EXPECT_EQ(ranges, s[KVTREE_STAT_LOG_RANGES]);
	EXPECT_EQ(pieces, s[KVTREE_STAT_LOG_PIECES]);
	EXPECT_EQ(bytes, s[KVTREE_STAT_LOG_IMAGE_BYTES]);
}

/* More than a segment has room for, with deltas of a fourth of the keys or many directories. */
#define ALMOST	26000u
#define DIRECTORIES	(SEGMENT / 5)

static __u64 written_by_checkpoints(struct _test_data_ranges *self)
{
	return kvt_stat(self->fd, KVTREE_STAT_LOG_CHECKPOINT_BYTES);
}

static __u64 segments_after_checkpoint(struct _test_data_ranges *self)
{
	KVT_CHECK(kvt_sync(self->fd) == 0);
	KVT_CHECK(kvt_checkpoint(self->fd) == 0);
	return kvt_stat(self->fd, KVTREE_STAT_LOG_IMAGE_BYTES) / SEGMENT;
}

TEST_F(ranges, bases_have_segments_of_their_own)
{
	__u64 before;
	__u32 i;

	if (variant->nr > 1)
		SKIP(return, "each disk has a part that depends on the order of writes");
	kvt_set_param(KVT_RANGE_BYTES, "16384", NULL, 0);
	kvt_set_param(KVT_COVER_BITS, "12", NULL, 0);
	for (i = 0; i < ALMOST; i++)
		put(self->fd, i, 0);
	EXPECT_EQ(2, segments_after_checkpoint(self));
	/* A fourth of the keys with each first byte, and so of each range. */
	for (i = 0; i < ALMOST; i++)
		if (i % 1024 < 256)
			put(self->fd, i, 1);
	EXPECT_EQ(2, segments_after_checkpoint(self));
	before = written_by_checkpoints(self);
	for (i = 0; written_by_checkpoints(self) < before + DIRECTORIES; i++) {
		put(self->fd, i, 2);
		ASSERT_EQ(2, segments_after_checkpoint(self));
	}
	TH_LOG("%u checkpoints", i);
	EXPECT_EQ(1, kvt_stat(self->fd, KVTREE_STAT_LOG_CHECKPOINTS_FULL));
	EXPECT_LT(kvt_stat(self->fd, KVTREE_STAT_LOG_RANGES),
		  kvt_stat(self->fd, KVTREE_STAT_LOG_PIECES));
}

/* What is on the disks now comes back: as it is, or after what was detached. */
static void crash(struct __test_metadata *_metadata, struct _test_data_ranges *self,
		  const struct _fixture_variant_ranges *variant)
{
	__u64 digest = kvt_digest(self->fd);
	void *image[DISKS] = { NULL };
	int i;

	ASSERT_EQ(0, kvt_sync(self->fd));
	kvt_disks_image(self->disk, variant->nr, self->fd, image);
	ASSERT_EQ(0, kvt_close_detach(self->dev, self->name, &self->fd));
	kvt_disks_restore(self->disk, variant->nr, image);
	for (i = 0; i < variant->nr; i++)
		kvt_disk_free(&self->disk[i], image[i]);
	EXPECT_EQ(0, kvt_check_disks(self->disk, variant->nr));
	ASSERT_EQ(0, come_up(self, variant));
	ASSERT_EQ(digest, kvt_digest(self->fd));
}

#define SOME	1500
#define ROUNDS	24

TEST_F(ranges, what_is_kept_and_what_is_written_are_what_there_is)
{
	__u32 round, i, nr;

	srand(1);
	for (i = 0; i < SOME; i++)
		put(self->fd, i, 0);
	for (round = 1; round <= ROUNDS; round++) {
		nr = 1 + (__u32)rand() % (round % 4 ? 40 : 600);
		for (i = 0; i < nr; i++) {
			if (rand() % 16 == 0)
				put_columns(self->fd, (__u32)rand() % (2 * SOME), round);
			else if (rand() % 3)
				put(self->fd, (__u32)rand() % (2 * SOME), round);
			else
				drop(self->fd, (__u32)rand() % (2 * SOME));
		}
		ASSERT_EQ(0, kvt_checkpoint(self->fd));
		if (round % 6 == 0)
			kvt_set_param(KVT_COVER_BITS, round % 12 ? "1" : "9", NULL, 0);
		/* Now those with columns outside have deltas. */
		if (round == ROUNDS / 2)
			kvt_set_param(KVT_RANGE_BYTES, "16384", NULL, 0);
		if (round % 4)
			continue;
		/* In the log is something that no checkpoint has. */
		put(self->fd, round, 255);
		drop(self->fd, round + 1);
		crash(_metadata, self, variant);
	}
}

/* As far as deltas can tell, each change is of half of the keys. */
TEST_F(ranges, pieces_have_half_more_than_there_is_at_most)
{
	__u64 records = 0;
	__u32 round, i;

	kvt_set_param(KVT_RANGE_BYTES, "16384", NULL, 0);
	kvt_set_param(KVT_COVER_BITS, "1", NULL, 0);
	for (i = 0; i < SOME; i++)
		put(self->fd, i, 0);
	for (round = 0; round < 8; round++) {
		for (i = round; i < SOME; i += 40)
			put(self->fd, i, round);
		ASSERT_EQ(0, kvt_checkpoint(self->fd));
		records = kvt_disks_records(self->disk, variant->nr);
		EXPECT_GE(SOME * 3 / 2, records);
	}
	TH_LOG("%llu records of %u keys", records, SOME);
}

/* A queue: nothing remains of its beginning, neither keys nor ranges. */
TEST_F(ranges, ranges_without_keys_are_joined)
{
	__u64 key, bytes, first = 0;
	__u32 round, i;

	for (round = 0; round < 40; round++) {
		for (i = 0; i < 200; i++) {
			key = htobe64(round * 200 + i);
			KVT_CHECK(kvt_put(self->fd, kvt_bytes(&key, sizeof(key)),
					  kvt_bytes("element", 7), NULL) == 0);
			key = htobe64((round - 4) * 200 + i);
			if (round >= 4)
				KVT_CHECK(kvt_remove(self->fd, kvt_bytes(&key, sizeof(key))) == 0);
		}
		bytes = checkpoint_writes(self, variant->nr);
		if (round == 8)
			first = bytes;
	}
	TH_LOG("%llu bytes, at last %llu", first, bytes);
	EXPECT_GT(first * 3, bytes);
}

/* Checkpoints that are given up */

/* Parameters as they were. */
struct params {
	char idle[16];
	char savers[16];
	char bytes[16];
	char step[16];
};

/* Commit nothing unasked, and make steps as small as they can be. */
static void params_set(struct params *was, const char *savers, const char *bytes)
{
	kvt_set_param(KVT_IDLE_MS, "0", was->idle, sizeof(was->idle));
	kvt_set_param(KVT_SAVERS, savers, was->savers, sizeof(was->savers));
	kvt_set_param(KVT_RANGE_BYTES, bytes, was->bytes, sizeof(was->bytes));
	kvt_set_param(KVT_STEP_SEGMENTS, "1", was->step, sizeof(was->step));
}

static void params_restore(const struct params *was)
{
	kvt_set_param(KVT_IDLE_MS, was->idle, NULL, 0);
	kvt_set_param(KVT_SAVERS, was->savers, NULL, 0);
	kvt_set_param(KVT_RANGE_BYTES, was->bytes, NULL, 0);
	kvt_set_param(KVT_STEP_SEGMENTS, was->step, NULL, 0);
}

FIXTURE(killed) {
	int dev;
	int fd;
	char name[KVTREE_NAME_MAX];
	struct kvt_disk disk;
	struct params params;
};

FIXTURE_SETUP(killed)
{
	if (!kvt_faults_load())
		SKIP(return, "there are no disks that wait when they are told");
	self->dev = kvt_open();
	ASSERT_LE(0, self->dev);
	snprintf(self->name, sizeof(self->name), "killed-%d", getpid());
	params_set(&self->params, "1", "1024");
	kvt_fault_disk(&self->disk, 0);
	kvt_fault_resize(&self->disk, SIZE);
	ASSERT_EQ(0, kvt_format(&self->disk, 1));
	ASSERT_EQ(0, kvt_attach_open(self->dev, self->name, &self->disk, 1, NULL, &self->fd));
}

FIXTURE_TEARDOWN(killed)
{
	kvt_close_detach(self->dev, self->name, &self->fd);
	params_restore(&self->params);
	close(self->dev);
}

static bool write_is_held(void *arg)
{
	return kvt_fault_held(arg);
}

/* Have a process make a checkpoint, and hold its n-th write. */
static pid_t checkpoint_held(struct _test_data_killed *self, unsigned int n)
{
	pid_t child;

	kvt_fault_fail(&self->disk, "hold", "w", n, 1);
	child = fork();
	if (!child)
		_exit(kvt_checkpoint(self->fd) ? 1 : 0);
	return child;
}

/* Kill the process that makes a checkpoint, at the checkpoint's n-th write. */
static void kill_checkpoint(struct __test_metadata *_metadata, struct _test_data_killed *self,
			    unsigned int n)
{
	__u64 made = kvt_stat(self->fd, KVTREE_STAT_LOG_CHECKPOINTS);
	pid_t child = checkpoint_held(self, n);
	int status;

	ASSERT_TRUE(kvt_eventually(write_is_held, &self->disk));
	ASSERT_EQ(0, kill(child, SIGKILL));
	kvt_fault_hold(&self->disk, false);
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_TRUE(WIFSIGNALED(status));
	kvt_fault_mend(&self->disk);
	EXPECT_EQ(made, kvt_stat(self->fd, KVTREE_STAT_LOG_CHECKPOINTS));
}

/* Store this many MiB after all other keys. */
static void append(struct __test_metadata *_metadata, struct _test_data_killed *self, __u32 mib)
{
	static char large[1 << 20];
	__u32 first = kvt_stat(self->fd, KVTREE_STAT_KEYS), i;

	for (i = first; i < first + mib; i++)
		ASSERT_EQ(0, kvt_put(self->fd, kvt_bytes(&i, sizeof(i)),
				     kvt_bytes(large, sizeof(large)), NULL));
	ASSERT_EQ(0, kvt_sync(self->fd));
}

/* Check that progress is below 100 and never goes back until the checkpoint has ended. */
static void watch_end(struct __test_metadata *_metadata, struct _test_data_killed *self,
		      pid_t child, __u32 last)
{
	struct kvtree_store_info info;
	int status;
	pid_t ended;

	do {
		ended = waitpid(child, &status, WNOHANG);
		ASSERT_EQ(0, kvt_find(self->dev, self->name, &info));
		if (info.flags & KVTREE_STORE_CHECKPOINTING) {
			EXPECT_LE(last, info.progress);
			EXPECT_GT(100, info.progress);
			last = info.progress;
		} else {
			EXPECT_EQ(0, info.progress);
		}
	} while (!ended);
	ASSERT_EQ(child, ended);
	EXPECT_EQ(0, status);
	EXPECT_EQ(0, info.flags & KVTREE_STORE_CHECKPOINTING);
}

/* Make a checkpoint.  Returns the progress at its n-th write. */
static __u32 watch(struct __test_metadata *_metadata, struct _test_data_killed *self,
		   unsigned int n)
{
	__u64 before = kvt_stat(self->fd, KVTREE_STAT_LOG_CHECKPOINT_BYTES);
	struct kvtree_store_info info = { 0 };
	pid_t child = checkpoint_held(self, n);

	EXPECT_TRUE(kvt_eventually(write_is_held, &self->disk));
	EXPECT_EQ(0, kvt_find(self->dev, self->name, &info));
	EXPECT_EQ(KVTREE_STORE_CHECKPOINTING, info.flags & KVTREE_STORE_CHECKPOINTING);
	EXPECT_LT(before, kvt_stat(self->fd, KVTREE_STAT_LOG_CHECKPOINT_BYTES));
	kvt_fault_hold(&self->disk, false);
	watch_end(_metadata, self, child, info.progress);
	kvt_fault_mend(&self->disk);
	return info.progress;
}

TEST_F(killed, progress_is_shown_of_a_checkpoint_that_writes_everything)
{
	struct kvtree_store_info info;
	__u32 progress;

	append(_metadata, self, 20);
	ASSERT_EQ(0, kvt_find(self->dev, self->name, &info));
	EXPECT_EQ(0, info.flags & KVTREE_STORE_CHECKPOINTING);
	progress = watch(_metadata, self, 24);
	EXPECT_LT(0, progress);
	EXPECT_GT(100, progress);
	EXPECT_EQ(1, kvt_stat(self->fd, KVTREE_STAT_LOG_CHECKPOINTS_FULL));
	/* It is not known how much the next one will write. */
	append(_metadata, self, 4);
	EXPECT_EQ(0, watch(_metadata, self, 4));
	EXPECT_EQ(2, kvt_stat(self->fd, KVTREE_STAT_LOG_CHECKPOINTS));
	EXPECT_EQ(1, kvt_stat(self->fd, KVTREE_STAT_LOG_CHECKPOINTS_FULL));
}

/* Change some keys, others in each round, and have what was changed in no checkpoint. */
static void change_killed(struct __test_metadata *_metadata, struct _test_data_killed *self,
			  __u32 round)
{
	unsigned int n;
	__u32 i;

	/* The header of a segment, the changes, and the directory. */
	for (n = 1; n <= 3; n++) {
		for (i = n; i < SOME; i += 100) {
			put(self->fd, i, 10 * round + n);
			drop(self->fd, i + 50);
		}
		ASSERT_EQ(0, kvt_sync(self->fd));
		kill_checkpoint(_metadata, self, n);
	}
}

static void again(struct __test_metadata *_metadata, struct _test_data_killed *self)
{
	__u64 digest = kvt_digest(self->fd);

	ASSERT_EQ(0, kvt_close_detach(self->dev, self->name, &self->fd));
	EXPECT_EQ(0, kvt_check_disks(&self->disk, 1));
	ASSERT_EQ(0, kvt_attach_open(self->dev, self->name, &self->disk, 1, NULL, &self->fd));
	EXPECT_EQ(digest, kvt_digest(self->fd));
}

TEST_F(killed, what_a_checkpoint_has_not_written_the_next_one_writes)
{
	__u32 i;

	for (i = 0; i < SOME; i++)
		put(self->fd, i, 0);
	ASSERT_EQ(0, kvt_checkpoint(self->fd));
	again(_metadata, self);
	change_killed(_metadata, self, 1);
	ASSERT_EQ(0, kvt_checkpoint(self->fd));
	again(_metadata, self);
}

/* Let the log go round the disk, so that it reuses all that counts as free. */
TEST_F(killed, what_a_checkpoint_has_not_written_is_free)
{
	static char large[1 << 20];
	__u32 i;

	for (i = 0; i < SOME; i++)
		put(self->fd, i, 0);
	ASSERT_EQ(0, kvt_checkpoint(self->fd));
	again(_metadata, self);
	change_killed(_metadata, self, 2);
	ASSERT_EQ(0, kvt_checkpoint(self->fd));
	for (i = 0; i < SIZE + SIZE / 8; i++)
		ASSERT_EQ(0, kvt_put(self->fd, kvt_bytes("large", 5),
				     kvt_bytes(large, sizeof(large)), NULL));
	again(_metadata, self);
}

/*
 * So many keys with ranges of their own need such a large directory that everything is written
 * again, in steps; unless as much is live besides.
 */
#define TINY	26000u
#define COLUMNS	2000u
#define BESIDES	16	/* MiB */
/* Of a step: after the commit and the tables, and after each copy of the superblock. */
#define STEP_FLUSHES	4
/* A write of a checkpoint in steps that comes after the first step, and is not the last. */
#define SECOND_STEP	120

static void put_tiny(int fd, __u32 nr)
{
	__u32 i;

	kvt_set_param(KVT_RANGE_BYTES, "64", NULL, 0);
	for (i = 0; i < nr; i++)
		put(fd, i, 0);
	for (i = 0; i < COLUMNS; i++)
		put_columns(fd, nr + i, 0);
	KVT_CHECK(kvt_sync(fd) == 0);
	KVT_CHECK(kvt_checkpoint(fd) == 0);
}

/* Change a part of the keys everywhere, another one with each change, and remove some. */
static void change_tiny(int fd, __u32 change)
{
	__u32 i;

	for (i = change % 7; i < TINY; i += 7) {
		put(fd, i, change);
		if (i % 5 == 0)
			drop(fd, i + 3);
	}
	for (; i < TINY + COLUMNS; i += 7)
		put_columns(fd, i, change);
	KVT_CHECK(kvt_sync(fd) == 0);
}

/* Change keys everywhere, and kill a checkpoint after its first step. */
static void kill_after_step(struct __test_metadata *_metadata, struct _test_data_killed *self,
			    __u32 change)
{
	__u64 flushes;

	change_tiny(self->fd, change);
	flushes = kvt_stat(self->fd, KVTREE_STAT_LOG_FLUSHES);
	kill_checkpoint(_metadata, self, SECOND_STEP);
	EXPECT_LE(flushes + STEP_FLUSHES, kvt_stat(self->fd, KVTREE_STAT_LOG_FLUSHES));
}

TEST_F(killed, what_steps_have_left_is_not_lost)
{
	put_tiny(self->fd, TINY);
	kill_after_step(_metadata, self, 1);
	again(_metadata, self);
	kill_after_step(_metadata, self, 2);
	append(_metadata, self, BESIDES);
	ASSERT_EQ(0, kvt_checkpoint(self->fd));
	EXPECT_EQ(0, kvt_stat(self->fd, KVTREE_STAT_LOG_CHECKPOINTS_FULL));
	again(_metadata, self);
}

/* Bytes that a checkpoint writes. */
static __u64 checkpoint_bytes(struct _test_data_killed *self)
{
	__u64 before = kvt_stat(self->fd, KVTREE_STAT_LOG_CHECKPOINT_BYTES);

	KVT_CHECK(kvt_checkpoint(self->fd) == 0);
	return kvt_stat(self->fd, KVTREE_STAT_LOG_CHECKPOINT_BYTES) - before;
}

TEST_F(killed, a_checkpoint_of_everything_resumes_where_one_was_interrupted)
{
	__u64 before, rest, all;
	__u32 i;

	put_tiny(self->fd, TINY);
	kill_after_step(_metadata, self, 1);
	kill_checkpoint(_metadata, self, SECOND_STEP);
	/* Some of these were written, and have to be written again. */
	for (i = 0; i < TINY; i += 1000)
		put(self->fd, i, 2);
	ASSERT_EQ(0, kvt_sync(self->fd));
	before = kvt_stat(self->fd, KVTREE_STAT_LOG_CHECKPOINT_BYTES);
	/* What was written counts from the beginning. */
	EXPECT_LT(0, watch(_metadata, self, 2));
	rest = kvt_stat(self->fd, KVTREE_STAT_LOG_CHECKPOINT_BYTES) - before;
	EXPECT_EQ(2, kvt_stat(self->fd, KVTREE_STAT_LOG_CHECKPOINTS_FULL));
	again(_metadata, self);
	all = checkpoint_bytes(self);
	EXPECT_EQ(1, kvt_stat(self->fd, KVTREE_STAT_LOG_CHECKPOINTS_FULL));
	TH_LOG("%llu bytes, and then %llu", rest, all);
	EXPECT_LT(rest + rest / 8, all);
}

/* There is no memory for the new ranges of a step, when the one before has taken effect. */
TEST_F(killed, a_step_without_memory_is_left_to_the_next_checkpoint)
{
	__u64 start, end, flushes;
	int status;
	pid_t child;

	if (access(KVT_DEBUGFS "failslab/require-start", F_OK) ||
	    !kvt_function_range("kvt_ranges_make", &start, &end))
		SKIP(return, "the kernel cannot select allocations by their caller");
	put_tiny(self->fd, TINY);
	change_tiny(self->fd, 1);
	flushes = kvt_stat(self->fd, KVTREE_STAT_LOG_FLUSHES);
	child = checkpoint_held(self, SECOND_STEP);
	ASSERT_TRUE(kvt_eventually(write_is_held, &self->disk));
	EXPECT_LE(flushes + STEP_FLUSHES, kvt_stat(self->fd, KVTREE_STAT_LOG_FLUSHES));
	kvt_knobs_of_memory();
	kvt_knob_range("failslab", start, end);
	kvt_knob("failslab", "times", "-1");
	kvt_knob("failslab", "probability", "100");
	kvt_fault_hold(&self->disk, false);
	ASSERT_EQ(child, waitpid(child, &status, 0));
	kvt_knobs_of_memory();
	kvt_knob_range("failslab", 0, ~0ULL);
	kvt_fault_mend(&self->disk);
	EXPECT_EQ(1, WIFEXITED(status) && WEXITSTATUS(status));
	EXPECT_EQ(1, kvt_stat(self->fd, KVTREE_STAT_LOG_CHECKPOINTS_FULL));
	change_tiny(self->fd, 2);
	ASSERT_EQ(0, kvt_checkpoint(self->fd));
	EXPECT_EQ(2, kvt_stat(self->fd, KVTREE_STAT_LOG_CHECKPOINTS_FULL));
	again(_metadata, self);
}

TEST_F(killed, steps_write_everything)
{
	__u64 steps, whole;

	put_tiny(self->fd, TINY);
	steps = checkpoint_bytes(self);
	kvt_set_param(KVT_STEP_SEGMENTS, "0", NULL, 0);
	whole = checkpoint_bytes(self);
	EXPECT_EQ(3, kvt_stat(self->fd, KVTREE_STAT_LOG_CHECKPOINTS_FULL));
	/* Each step writes a directory. */
	TH_LOG("%llu bytes in steps, %llu in one", steps, whole);
	EXPECT_LT(whole + whole / 8, steps);
	again(_metadata, self);
}

/* Crashes in the steps of a checkpoint */

FIXTURE(crashed) {
	int dev;
	int fd;
	char name[KVTREE_NAME_MAX];
	struct kvt_disk disk[2];
	struct params params;
};

FIXTURE_VARIANT(crashed) {
	int nr;			/* of disks */
};

FIXTURE_VARIANT_ADD(crashed, one) { .nr = 1 };
FIXTURE_VARIANT_ADD(crashed, unequal) { .nr = 2 };

/* Format disks, the first of which has @mib MiB, and attach a store to them. */
static void crashed_format(struct __test_metadata *_metadata, struct _test_data_crashed *self,
			   int nr, int mib)
{
	int i;

	if (self->fd >= 0)
		ASSERT_EQ(0, kvt_close_detach(self->dev, self->name, &self->fd));
	for (i = 0; i < nr; i++) {
		kvt_fault_disk(&self->disk[i], i);
		kvt_fault_resize(&self->disk[i], mib - 100 * i);
		kvt_fault_cache(&self->disk[i], "keep");
	}
	ASSERT_EQ(0, kvt_format(self->disk, nr));
	ASSERT_EQ(0, kvt_attach_open(self->dev, self->name, self->disk, nr, NULL, &self->fd));
}

FIXTURE_SETUP(crashed)
{
	if (variant->nr == 1 && kvt_leave_out())
		SKIP(return, "other variants have all that this one has");
	if (!kvt_faults_load())
		SKIP(return, "there are no disks that fail when they are told");
	self->dev = kvt_open();
	ASSERT_LE(0, self->dev);
	snprintf(self->name, sizeof(self->name), "crashed-%d", getpid());
	params_set(&self->params, "2", "64");
	self->fd = -1;
	crashed_format(_metadata, self, variant->nr, SIZE);
}

FIXTURE_TEARDOWN(crashed)
{
	kvt_close_detach(self->dev, self->name, &self->fd);
	params_restore(&self->params);
	close(self->dev);
}

/* The checkpoint of a detached store. */
static struct kvtree_log_checkpoint checkpoint_now(const struct kvt_disk *disk)
{
	static struct kvtree_log_super super;

	kvt_fault_read(disk, 0, &super);
	KVT_CHECK(le64toh(super.magic) == KVTREE_LOG_SUPER_MAGIC);
	return super.checkpoint;
}

/*
 * Make a checkpoint during which all disks crash at the n-th flush of one.  Every second crash
 * loses what was not flushed.  Returns whether there was such a flush.
 */
static bool crash_in_step(struct __test_metadata *_metadata, struct _test_data_crashed *self,
			  int nr, unsigned int n)
{
	bool crashed;
	int err, i;

	kvt_fault_fail(&self->disk[n % nr], "ioerr", "f", (n + nr - 1) / nr, 1);
	err = kvt_checkpoint(self->fd);
	crashed = kvt_fault_mend(&self->disk[n % nr]);
	EXPECT_EQ(crashed ? -EIO : 0, err);
	EXPECT_EQ(crashed ? -EIO : 0, kvt_close_detach(self->dev, self->name, &self->fd));
	for (i = 0; n / nr % 2 && i < nr; i++)
		kvt_fault_cache(&self->disk[i], "lose");
	return crashed;
}

/* At any kind of flush.  The log is replayed over what the steps have written. */
TEST_F(crashed, a_crash_in_any_step_loses_nothing)
{
	struct kvtree_log_checkpoint was = { 0 }, is;
	unsigned int n, every = 3, steps = 0;
	bool crashed = true;
	__u64 digest;

	put_tiny(self->fd, TINY);
	for (n = 1; crashed; n += every) {
		ASSERT_GT(200, n);
		change_tiny(self->fd, n);
		digest = kvt_digest(self->fd);
		crashed = crash_in_step(_metadata, self, variant->nr, n);
		is = checkpoint_now(&self->disk[0]);
		steps += is.epoch == was.epoch && memcmp(&is, &was, sizeof(is));
		was = is;
		EXPECT_EQ(0, kvt_check_disks(self->disk, variant->nr));
		ASSERT_EQ(0, kvt_attach_open(self->dev, self->name, self->disk, variant->nr, NULL,
					     &self->fd));
		ASSERT_EQ(digest, kvt_digest(self->fd)) {
			TH_LOG("flush %u", n);
		}
	}
	TH_LOG("%u flushes, %u crashes after a step that was not the last one", n, steps);
	EXPECT_LT(1, steps);
	EXPECT_LT(4 * every, n);
}

/*
 * Leave room for no life but one that carries the last epoch, and that epoch's flush without
 * success.
 */
static void fill_lives(struct __test_metadata *_metadata, struct _test_data_crashed *self, int nr,
		       __u64 digest[2])
{
	static struct kvtree_log_super super;
	__u32 life;

	for (life = 2; life < KVTREE_LOG_LIVES_MAX; life++) {
		put(self->fd, life, 1);
		ASSERT_EQ(0, kvt_close_detach(self->dev, self->name, &self->fd));
		ASSERT_EQ(0, kvt_attach_open(self->dev, self->name, self->disk, nr, NULL,
					     &self->fd));
	}
	digest[0] = kvt_digest(self->fd);
	kvt_fault_fail(&self->disk[0], "ioerr", "f", 1, 1);
	/* What a CPU writes goes to one disk: the epoch is on two, if there are two CPUs. */
	kvt_run_on((nr - 1) % get_nprocs());
	put(self->fd, life + 1, 1);
	kvt_run_on(0);
	put(self->fd, life, 1);
	digest[1] = kvt_digest(self->fd);
	EXPECT_EQ(-EIO, kvt_sync(self->fd));
	kvt_fault_mend(&self->disk[0]);
	EXPECT_EQ(-EIO, kvt_close_detach(self->dev, self->name, &self->fd));
	kvt_fault_read(&self->disk[0], 0, &super);
	ASSERT_EQ(KVTREE_LOG_LIVES_MAX - 1, le32toh(super.nr_lives));
}

/*
 * An attach makes a checkpoint in steps before a life begins, and all disks crash at the n-th flush
 * of one.  Every second crash loses what was not flushed.  Returns whether there was such a flush.
 */
static bool crash_in_attach(struct __test_metadata *_metadata, struct _test_data_crashed *self,
			    unsigned int nr, unsigned int n)
{
	bool crashed;
	unsigned int i;
	int err;

	kvt_fault_fail(&self->disk[n % nr], "ioerr", "f", (n + nr - 1) / nr, 1);
	err = kvt_attach_open(self->dev, self->name, self->disk, nr, NULL, &self->fd);
	crashed = kvt_fault_mend(&self->disk[n % nr]);
	EXPECT_EQ(crashed ? -EIO : 0, err);
	/* The last epoch stays, or there would be room for a life. */
	for (i = 0; n > nr && n / nr % 2 && i < nr; i++)
		kvt_fault_cache(&self->disk[i], "lose");
	return crashed;
}

/* The last epoch may be lost, but not a part of it, and not once a step relies on it. */
TEST_F(crashed, a_crash_in_any_step_before_a_life_loses_nothing)
{
	struct kvtree_log_checkpoint was = { 0 }, is;
	unsigned int n, steps = 0;
	bool crashed = true;
	__u64 digest[2], now;

	crashed_format(_metadata, self, variant->nr, LARGE);
	put_tiny(self->fd, TINY / 2);
	/* The directory is small, and so are the steps. */
	kvt_set_param(KVT_RANGE_BYTES, "1024", NULL, 0);
	ASSERT_EQ(0, kvt_checkpoint(self->fd));
	fill_lives(_metadata, self, variant->nr, digest);
	for (n = 1; crashed; n++) {
		ASSERT_GT(200, n);
		crashed = crash_in_attach(_metadata, self, variant->nr, n);
		if (!crashed)
			break;
		is = checkpoint_now(&self->disk[0]);
		steps += is.epoch == was.epoch && memcmp(&is, &was, sizeof(is));
		was = is;
		EXPECT_EQ(0, kvt_check_disks(self->disk, variant->nr)) {
			TH_LOG("flush %u", n);
		}
	}
	now = kvt_digest(self->fd);
	EXPECT_TRUE(now == digest[0] || now == digest[1]);
	TH_LOG("%u flushes, %u crashes after a step that was not the last one", n, steps);
	EXPECT_LT(1, steps);
}

TEST_HARNESS_MAIN
