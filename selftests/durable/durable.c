// SPDX-License-Identifier: GPL-2.0
/*
 * Durable stores: what was made durable, and nothing else, is still there after
 * a crash and after a detach, and damage is detected.
 *
 * A crash is an image of the devices, taken while a store is attached to them,
 * that is written back when the store is detached.
 */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/kvtree_format.h>
#include <pthread.h>
#include "kselftest_harness.h"
#include "lib/durable.h"
#include "lib/kvt_test.h"
#include "lib/uring.h"

#define RW	(KVTREE_OPEN_READ | KVTREE_OPEN_WRITE)
#define DISKS	3
#define SIZE	132	/* MiB: more than the least */

/* A store and its disks. */
struct self {
	int dev;
	int fd;
	int nr;
	char name[KVTREE_NAME_MAX];
	struct kvt_disk disk[DISKS];
	void *image[DISKS];
};

static void setup(struct self *self, int nr, unsigned int block)
{
	int i;

	self->dev = kvt_open();
	KVT_CHECK(self->dev >= 0);
	self->nr = nr;
	snprintf(self->name, sizeof(self->name), "durable-%d", getpid());
	for (i = 0; i < nr; i++)
		kvt_disk_make(&self->disk[i], SIZE, block);
	KVT_CHECK(kvt_format(self->disk, nr) == 0);
	KVT_CHECK(kvt_attach_open(self->dev, self->name, self->disk, nr, NULL, &self->fd) == 0);
}

static void teardown(struct self *self)
{
	int i;

	close(self->fd);
	kvt_detach(self->dev, self->name);
	for (i = 0; i < self->nr; i++) {
		kvt_disk_free(&self->disk[i], self->image[i]);
		kvt_disk_remove(&self->disk[i]);
	}
	close(self->dev);
}

FIXTURE(durable) {
	struct self self;
};

FIXTURE_VARIANT(durable) {
	int nr;
	unsigned int block;
};

FIXTURE_VARIANT_ADD(durable, one) { .nr = 1, .block = 512 };
FIXTURE_VARIANT_ADD(durable, three) { .nr = 3, .block = 4096 };

FIXTURE_SETUP(durable)
{
	setup(&self->self, variant->nr, variant->block);
}

FIXTURE_TEARDOWN(durable)
{
	teardown(&self->self);
}

FIXTURE(damage) {
	struct self self;
};

FIXTURE_SETUP(damage)
{
	setup(&self->self, 2, 512);
}

FIXTURE_TEARDOWN(damage)
{
	teardown(&self->self);
}

/* Detach and attach again, with another index. */
static int again_as(struct self *self, const char *engine, __u32 page_size)
{
	struct kvt_attach_how how = { .store.mode = 0600, .store.page_size = page_size };

	strcpy(how.store.engine, engine);
	return kvt_close_detach(self->dev, self->name, &self->fd) ?:
	       kvt_attach_open(self->dev, self->name, self->disk, self->nr, &how, &self->fd);
}

static int again(struct self *self)
{
	return again_as(self, "", 0);
}

/* The devices now hold what a crash would leave. */
static void crash_now(struct self *self)
{
	kvt_disks_image(self->disk, self->nr, self->fd, self->image);
}

static void restore(struct self *self)
{
	kvt_disks_restore(self->disk, self->nr, self->image);
}

/* Come up after the crash. */
static int come_up(struct self *self)
{
	if (self->fd >= 0)
		KVT_CHECK(kvt_close_detach(self->dev, self->name, &self->fd) == 0);
	restore(self);
	return kvt_attach_open(self->dev, self->name, self->disk, self->nr, NULL, &self->fd);
}

static int number_put(int fd, __u32 key, __u64 value)
{
	return kvt_put(fd, kvt_bytes(&key, sizeof(key)), kvt_bytes(&value, sizeof(value)), NULL);
}

/* The number under a key, or -1 if it does not exist. */
static __u64 number(int fd, __u32 key)
{
	__u64 value = 0;

	if (kvt_get(fd, kvt_bytes(&key, sizeof(key)), &value, sizeof(value), NULL) != sizeof(value))
		return -1;
	return value;
}

static int put_sync(int fd, struct kvt_bytes key, struct kvt_bytes val)
{
	return kvt_put_flags(fd, key, val, KVTREE_F_SYNC);
}

/* Values of every shape: plain, columns, large, empty, with long keys, removed. */
static void put_shapes(int fd, int seed)
{
	struct kvtree_col cols[4] = {
		{ .id = 0, .len = 3 }, { .id = 7, .len = 5000 }, { .id = 8, .len = 0 },
		{ .id = 255, .len = 100000 },
	};
	static char data[1 << 20];
	char key[4096];
	int i;

	memset(data, 'a' + seed % 26, sizeof(data));
	memset(key, 'k', sizeof(key));
	KVT_CHECK(kvt_put(fd, kvt_bytes("", 0), STR("under the empty key"), NULL) == 0);
	KVT_CHECK(kvt_put(fd, STR("empty"), kvt_bytes("", 0), NULL) == 0);
	KVT_CHECK(kvt_put(fd, STR("million"), kvt_bytes(data, sizeof(data)), NULL) == 0);
	KVT_CHECK(kvt_put_cols(fd, STR("columns"), cols, 4, kvt_bytes(data, 105003), NULL) == 0);
	/* One column changes, the others stay. */
	cols[0].len = 4;
	KVT_CHECK(kvt_put_cols(fd, STR("columns"), cols, 1, STR("abcd"), NULL) == 0);
	cols[0].len = KVTREE_COL_ABSENT;
	KVT_CHECK(kvt_put_cols(fd, STR("none"), cols, 1, kvt_bytes("", 0), NULL) == 0);
	for (i = 0; i < 200; i++) {
		memcpy(key + 4096 - 8, &i, sizeof(i));
		KVT_CHECK(kvt_put(fd, kvt_bytes(key, i % 2 ? 4096 : 16 + i),
				  kvt_bytes(data, (i * 37 + seed) % 5000), NULL) == 0);
		KVT_CHECK(kvt_add(fd, kvt_bytes(&i, sizeof(i)), i % 3, seed, NULL) == 0);
	}
	for (i = 0; i < 200; i += 3)
		KVT_CHECK(kvt_remove(fd, kvt_bytes(&i, sizeof(i))) == 0);
}

TEST_F(durable, values_of_every_shape_are_there_after_detach)
{
	struct self *t = &self->self;
	struct kvtree_store_info info;
	__u64 digest, keys;

	put_shapes(t->fd, 1);
	digest = kvt_digest(t->fd);
	keys = kvt_stat(t->fd, KVTREE_STAT_KEYS);
	ASSERT_EQ(0, again(t));
	EXPECT_EQ(digest, kvt_digest(t->fd));
	EXPECT_EQ(keys, kvt_stat(t->fd, KVTREE_STAT_KEYS));
	ASSERT_EQ(0, kvt_self(t->fd, &info));
	EXPECT_NE(0, info.flags & KVTREE_STORE_DURABLE);

	/* Replaced, with checkpoints before and between; and whatever the index is. */
	ASSERT_EQ(0, kvt_checkpoint(t->fd));
	put_shapes(t->fd, 2);
	ASSERT_EQ(0, kvt_checkpoint(t->fd));
	put_shapes(t->fd, 3);
	digest = kvt_digest(t->fd);
	ASSERT_EQ(0, again_as(t, "bwtree", 1024));
	EXPECT_EQ(digest, kvt_digest(t->fd));
	ASSERT_EQ(0, kvt_self(t->fd, &info));
	EXPECT_STREQ("bwtree", info.engine);
	EXPECT_EQ(1024, info.page_size);
	put_shapes(t->fd, 4);
	digest = kvt_digest(t->fd);
	ASSERT_EQ(0, again_as(t, "masstree", 0));
	EXPECT_EQ(digest, kvt_digest(t->fd));
	ASSERT_EQ(0, again(t));
	EXPECT_EQ(digest, kvt_digest(t->fd));
	close(t->fd);
	t->fd = -1;
	ASSERT_EQ(0, kvt_detach(t->dev, t->name));
	EXPECT_EQ(0, kvt_check_disks(t->disk, t->nr));
}

TEST_F(durable, what_was_synced_is_there_after_a_crash)
{
	struct self *t = &self->self;
	__u64 digest;

	put_shapes(t->fd, 1);
	ASSERT_EQ(0, kvt_sync(t->fd));
	digest = kvt_digest(t->fd);
	crash_now(t);
	put_shapes(t->fd, 2);
	ASSERT_EQ(0, come_up(t));
	EXPECT_EQ(digest, kvt_digest(t->fd));
	/* And again, of a store that has come up from a crash. */
	put_shapes(t->fd, 3);
	ASSERT_EQ(0, fsync(t->fd));
	digest = kvt_digest(t->fd);
	crash_now(t);
	ASSERT_EQ(0, come_up(t));
	EXPECT_EQ(digest, kvt_digest(t->fd));
}

/* Segments of all disks that have anything in them. */
static __u64 segments_written(const struct self *self)
{
	struct kvtree_log_segment head;
	struct kvtree_log_super super;
	__u64 nr = 0;
	__u32 segment;
	off_t at;
	int i;

	for (i = 0; i < self->nr; i++) {
		KVT_CHECK(pread(self->disk[i].memory, &super, sizeof(super), 0) == sizeof(super));
		for (segment = 0; segment < le32toh(super.nr_segments); segment++) {
			at = KVTREE_LOG_DATA_START +
			     (off_t)segment * le32toh(super.segment_blocks);
			KVT_CHECK(pread(self->disk[i].memory, &head, sizeof(head),
					at * KVTREE_LOG_BLOCK) == sizeof(head));
			nr += le64toh(head.magic) == KVTREE_LOG_SEGMENT_MAGIC;
		}
	}
	return nr;
}

/* Those that the store says are in use. */
static __u64 segments_used(const struct self *self)
{
	__u64 used = kvt_stat(self->fd, KVTREE_STAT_LOG_CAPACITY) -
		     kvt_stat(self->fd, KVTREE_STAT_LOG_FREE_BYTES);

	return used / ((__u64)KVTREE_LOG_SEGMENT_MIN * KVTREE_LOG_BLOCK);
}

/* Exactly the free segments are discarded. */
TEST_F(durable, what_a_checkpoint_frees_is_discarded)
{
	struct self *t = &self->self;
	/* On each device, streams, commits and the checkpoint keep four. */
	__u64 digest, before = segments_written(t) + 6 * t->nr;
	int i;

	for (i = 0; segments_written(t) < before; i++)
		put_shapes(t->fd, i);
	for (i = 0; i < 3; i++) {
		ASSERT_EQ(0, kvt_checkpoint(t->fd));
		EXPECT_EQ(segments_used(t), segments_written(t));
	}
	EXPECT_GT(before, segments_written(t));
	digest = kvt_digest(t->fd);
	ASSERT_EQ(0, again(t));
	EXPECT_EQ(digest, kvt_digest(t->fd));
}

/* What the new checkpoint makes useless is discarded, but not earlier. */
TEST_F(durable, what_was_synced_is_there_after_a_crash_before_a_checkpoint)
{
	struct self *t = &self->self;
	__u64 digest;

	put_shapes(t->fd, 1);
	ASSERT_EQ(0, kvt_checkpoint(t->fd));
	put_shapes(t->fd, 2);
	ASSERT_EQ(0, kvt_sync(t->fd));
	digest = kvt_digest(t->fd);
	crash_now(t);
	ASSERT_EQ(0, kvt_checkpoint(t->fd));
	ASSERT_EQ(0, come_up(t));
	EXPECT_EQ(digest, kvt_digest(t->fd));
}

/* The last life has its end, which is the same on all devices, in both copies. */
TEST_F(durable, superblocks_of_a_detach_are_the_same)
{
	struct self *t = &self->self;
	struct kvtree_log_super first, super;
	__u32 last;
	int i, round;

	for (round = 0; round < 3; round++) {
		put_shapes(t->fd, round);
		close(t->fd);
		ASSERT_EQ(0, kvt_detach(t->dev, t->name));
		for (i = 0; i < 2 * t->nr; i++) {
			ASSERT_EQ(sizeof(super),
				  pread(t->disk[i / 2].memory, &super, sizeof(super),
					i % 2 * KVTREE_LOG_SUPER_STRIDE * KVTREE_LOG_BLOCK));
			if (!i)
				first = super;
			last = le32toh(super.nr_lives) - 1;
			ASSERT_GT(KVTREE_LOG_LIVES_MAX, last);
			EXPECT_EQ(first.write_id, super.write_id);
			EXPECT_EQ(first.nr_lives, super.nr_lives);
			EXPECT_EQ(first.generation, super.generation);
			EXPECT_EQ(first.version_lease, super.version_lease);
			EXPECT_EQ(first.lives[last].generation, super.lives[last].generation);
			EXPECT_EQ(first.lives[last].first_epoch, super.lives[last].first_epoch);
			EXPECT_EQ(first.lives[last].last_epoch, super.lives[last].last_epoch);
			EXPECT_NE(0, super.lives[last].last_epoch);
		}
		ASSERT_EQ(0, kvt_attach_open(t->dev, t->name, t->disk, t->nr, NULL, &t->fd));
	}
}

TEST_F(durable, put_with_the_sync_flag_is_there_after_a_crash)
{
	struct self *t = &self->self;
	__u32 i;

	for (i = 0; i < 20; i++) {
		__u64 value = i;

		ASSERT_EQ(0, put_sync(t->fd, kvt_bytes(&i, sizeof(i)),
				      kvt_bytes(&value, sizeof(value))));
	}
	crash_now(t);
	ASSERT_EQ(0, come_up(t));
	for (i = 0; i < 20; i++)
		EXPECT_EQ(i, number(t->fd, i));
}

TEST_F(durable, change_that_nobody_waits_for_becomes_durable_by_itself)
{
	struct self *t = &self->self;
	struct kvt_epoch e = { t->fd, kvt_stat(t->fd, KVTREE_STAT_LOG_EPOCH) };

	ASSERT_EQ(0, kvt_put(t->fd, STR("k"), STR("v"), NULL));
	ASSERT_TRUE(kvt_eventually(kvt_epoch_is_durable, &e));
	crash_now(t);
	ASSERT_EQ(0, come_up(t));
	EXPECT_TRUE(kvt_has(t->fd, STR("k"), STR("v")));
}

TEST_F(durable, idle_store_writes_nothing)
{
	struct self *t = &self->self;
	char was[16];
	__u64 bytes;

	kvt_set_param(KVT_IDLE_MS, "0", was, sizeof(was));
	ASSERT_EQ(0, kvt_put(t->fd, STR("k"), STR("v"), NULL));
	ASSERT_EQ(0, kvt_sync(t->fd));
	bytes = kvt_stat(t->fd, KVTREE_STAT_LOG_BYTES);
	kvt_sleep_ms(300);
	ASSERT_EQ(0, kvt_sync(t->fd));
	EXPECT_EQ(bytes, kvt_stat(t->fd, KVTREE_STAT_LOG_BYTES));
	/* What a checkpoint has made durable is not committed later. */
	kvt_set_param(KVT_EPOCH_MS, "200", NULL, 0);
	ASSERT_EQ(0, kvt_put(t->fd, STR("k"), STR("w"), NULL));
	ASSERT_EQ(0, kvt_checkpoint(t->fd));
	bytes = kvt_stat(t->fd, KVTREE_STAT_LOG_BYTES);
	kvt_sleep_ms(500);
	EXPECT_EQ(bytes, kvt_stat(t->fd, KVTREE_STAT_LOG_BYTES));
	kvt_set_param(KVT_EPOCH_MS, "10", NULL, 0);
	kvt_set_param(KVT_IDLE_MS, was, NULL, 0);
}

/* Where a crash has left the commit record of an epoch on a disk. */
static char *commit_record(const struct self *t, int disk, __u64 epoch)
{
	struct kvtree_log_trailer head;
	off_t at, end;
	char *block;
	size_t i;

	for (i = 0; kvt_image_part(&t->disk[disk], t->image[disk], i, &at, &end); i++) {
		for (; at < end; at += KVTREE_LOG_BLOCK) {
			block = (char *)t->image[disk] + at;
			memcpy(&head, block, sizeof(head));
			if (le64toh(head.magic) == KVTREE_LOG_TRAILER_MAGIC &&
			    le64toh(head.epoch) == epoch)
				return block;
		}
	}
	return NULL;
}

/* The first disk where a crash has left the commit record of an epoch; @t->nr: there is none. */
static int commit_disk(const struct self *t, __u64 epoch)
{
	int disk = 0;

	while (disk < t->nr && !commit_record(t, disk, epoch))
		disk++;
	return disk;
}

/* A change that is committed alone costs one commit record and one flush. */
TEST_F(durable, an_epoch_is_written_to_the_devices_that_have_a_part_of_it)
{
	struct self *t = &self->self;
	__u64 epochs, flushes, epoch = 0;
	char was[16];
	__u32 i;
	int disk, nr = 0;

	/* What one CPU writes goes to one device. */
	kvt_run_on(0);
	kvt_set_param(KVT_IDLE_MS, "0", was, sizeof(was));
	epochs = kvt_stat(t->fd, KVTREE_STAT_LOG_EPOCHS);
	flushes = kvt_stat(t->fd, KVTREE_STAT_LOG_FLUSHES);
	for (i = 0; i < 10; i++) {
		epoch = kvt_stat(t->fd, KVTREE_STAT_LOG_EPOCH);
		ASSERT_EQ(0, put_sync(t->fd, kvt_bytes(&i, sizeof(i)), STR("v")));
	}
	kvt_set_param(KVT_IDLE_MS, was, NULL, 0);
	epochs = kvt_stat(t->fd, KVTREE_STAT_LOG_EPOCHS) - epochs;
	flushes = kvt_stat(t->fd, KVTREE_STAT_LOG_FLUSHES) - flushes;
	EXPECT_LE(10, epochs);
	EXPECT_EQ(epochs, flushes);
	crash_now(t);
	for (disk = 0; disk < t->nr; disk++)
		nr += !!commit_record(t, disk, epoch);
	EXPECT_EQ(1, nr);
	ASSERT_EQ(0, come_up(t));
	for (i = 0; i < 10; i++)
		EXPECT_TRUE(kvt_has(t->fd, kvt_bytes(&i, sizeof(i)), STR("v")));
}

/* Whether the superblock of a disk has the place that the life's first commit record has. */
static bool ahead_is_known(const struct self *t, int disk)
{
	const struct kvtree_log_super *super = kvt_image_super(t->image[disk]);
	const struct kvtree_log_life *life = &super->lives[le32toh(super->nr_lives) - 1];
	const struct kvtree_log_pos *pos = &life->commit;
	const struct kvtree_log_trailer *first;

	first = (void *)((char *)t->image[disk] + KVTREE_LOG_BLOCK *
			 (KVTREE_LOG_DATA_START + le32toh(pos->block) +
			  (size_t)le32toh(pos->segment) * le32toh(super->segment_blocks)));
	return le64toh(first->magic) == KVTREE_LOG_TRAILER_MAGIC &&
	       super->ahead_generation == life->generation &&
	       !memcmp(&first->ahead, &super->ahead, sizeof(super->ahead));
}

/* Otherwise nothing might show that the first commit record is lost. */
TEST_F(durable, superblock_has_the_place_behind_the_segment_where_a_life_begins)
{
	struct self *t = &self->self;
	struct kvt_epoch e = { .fd = t->fd };
	char was[16];
	int i, n, disk;

	kvt_run_on(0);
	kvt_set_param(KVT_IDLE_MS, "100", was, sizeof(was));
	/* A life begins, and a checkpoint lets recovery begin there later. */
	for (i = 0; i < 2; i++) {
		/* So many that the next commit records are in another segment, on a disk. */
		for (n = 0; i && n < 1000; n++)
			ASSERT_EQ(0, put_sync(t->fd, STR("k"), STR("v")));
		if (i)
			ASSERT_EQ(0, kvt_checkpoint(t->fd));
		/* An epoch without changes follows, which is on all disks. */
		e.epoch = kvt_stat(t->fd, KVTREE_STAT_LOG_EPOCH) + 1;
		ASSERT_EQ(0, put_sync(t->fd, STR("k"), STR("v")));
		EXPECT_TRUE(kvt_eventually(kvt_epoch_is_durable, &e));
		crash_now(t);
		for (disk = 0; disk < t->nr; disk++)
			EXPECT_TRUE(ahead_is_known(t, disk));
	}
	kvt_set_param(KVT_IDLE_MS, was, NULL, 0);
}

/*
 * Damage of the last commit record looks as if it had never been written.  So one that is empty
 * follows when nothing is changed any more, and only one.
 */
TEST_F(durable, last_epoch_of_an_idle_store_cannot_vanish)
{
	char was[16], block[KVTREE_LOG_BLOCK], *at;
	struct self *t = &self->self;
	struct kvt_epoch e = { t->fd, kvt_stat(t->fd, KVTREE_STAT_LOG_EPOCH) + 1 };
	int disk;

	kvt_set_param(KVT_IDLE_MS, "100", was, sizeof(was));
	ASSERT_EQ(0, put_sync(t->fd, STR("k"), STR("v")));
	EXPECT_TRUE(kvt_eventually(kvt_epoch_is_durable, &e));
	kvt_sleep_ms(500);
	kvt_set_param(KVT_IDLE_MS, was, NULL, 0);
	ASSERT_EQ(e.epoch, kvt_stat(t->fd, KVTREE_STAT_LOG_DURABLE));
	crash_now(t);
	disk = commit_disk(t, e.epoch - 1);
	ASSERT_GT(t->nr, disk);
	at = commit_record(t, disk, e.epoch - 1);
	memcpy(block, at, sizeof(block));
	memset(at, 0, sizeof(block));
	EXPECT_EQ(-EBADMSG, come_up(t));
	EXPECT_NE(0, kvt_check_disks(t->disk, t->nr));
	/* That one may vanish. */
	memcpy(at, block, sizeof(block));
	at = commit_record(t, disk, e.epoch);
	ASSERT_NE(NULL, at);
	memset(at, 0, sizeof(block));
	ASSERT_EQ(0, come_up(t));
	EXPECT_TRUE(kvt_has(t->fd, STR("k"), STR("v")));
}

TEST_F(durable, versions_grow_across_crashes)
{
	struct self *t = &self->self;
	__u64 version, before;
	int i;

	ASSERT_EQ(0, put_sync(t->fd, STR("k"), STR("v")));
	crash_now(t);
	/* Handed out, and then lost. */
	for (i = 0; i < 10; i++)
		ASSERT_EQ(0, kvt_put(t->fd, STR("k"), STR("lost"), &version));
	before = version;
	ASSERT_EQ(0, come_up(t));
	EXPECT_GT(before, kvt_version(t->fd, STR("k")));
	ASSERT_EQ(0, kvt_put(t->fd, STR("k"), STR("w"), &version));
	EXPECT_LT(before, version);
	/* Across a removal, too. */
	before = version;
	ASSERT_EQ(0, kvt_remove(t->fd, STR("k")));
	ASSERT_EQ(0, again(t));
	ASSERT_EQ(0, kvt_put(t->fd, STR("k"), STR("x"), &version));
	EXPECT_LT(before, version);
}

TEST_F(durable, removed_key_stays_removed)
{
	struct self *t = &self->self;

	ASSERT_EQ(0, kvt_put(t->fd, STR("k"), STR("v"), NULL));
	ASSERT_EQ(0, kvt_checkpoint(t->fd));
	ASSERT_EQ(0, kvt_remove(t->fd, STR("k")));
	ASSERT_EQ(0, kvt_sync(t->fd));
	crash_now(t);
	ASSERT_EQ(0, come_up(t));
	EXPECT_EQ(0, kvt_version(t->fd, STR("k")));
	EXPECT_EQ(0, kvt_stat(t->fd, KVTREE_STAT_KEYS));
	EXPECT_EQ(0, kvt_stat(t->fd, KVTREE_STAT_VALUES));
}

/* The operations of a batch wait together: the caller sleeps once, if at all. */
TEST_F(durable, batch_waits_once)
{
	struct self *t = &self->self;
	struct kvtree_op ops[64];
	__u64 syncs = kvt_stat(t->fd, KVTREE_STAT_LOG_SYNC);
	__u32 done, i;

	for (i = 0; i < 64; i++) {
		ops[i] = kvt_op(KVTREE_OP_PUT, kvt_bytes(&ops[i].reserved, 0));
		ops[i].flags = KVTREE_F_SYNC | KVTREE_F_KEY_INLINE;
		ops[i].key_len = sizeof(i);
		memcpy(ops[i].key_inline, &i, sizeof(i));
		ops[i].val = kvt_ptr("12345678");
		ops[i].val_len = 8;
	}
	ASSERT_EQ(0, kvt_batch(t->fd, ops, 64, &done));
	ASSERT_EQ(64, done);
	EXPECT_GE(syncs + 1, kvt_stat(t->fd, KVTREE_STAT_LOG_SYNC));
	crash_now(t);
	ASSERT_EQ(0, come_up(t));
	EXPECT_EQ(64, kvt_stat(t->fd, KVTREE_STAT_KEYS));
}

TEST_F(durable, sync_over_io_uring_is_there_after_a_crash)
{
	struct self *t = &self->self;
	struct kvtree_op op[64];
	struct kvt_ring ring;
	struct kvt_cqe cqe;
	__u32 i;

	ASSERT_EQ(0, kvt_ring_init(&ring, 64, IORING_SETUP_SQE128));
	for (i = 0; i < 64; i++) {
		op[i] = kvt_op(KVTREE_OP_PUT, kvt_bytes(NULL, 0));
		op[i].flags = KVTREE_F_SYNC | KVTREE_F_KEY_INLINE;
		op[i].key_len = sizeof(i);
		memcpy(op[i].key_inline, &i, sizeof(i));
		op[i].val = kvt_ptr("12345678");
		op[i].val_len = 8;
		kvt_sqe_inline(kvt_ring_sqe(&ring), t->fd, &op[i], NULL, i);
	}
	kvt_ring_submit(&ring);
	for (i = 0; i < 64; i++) {
		kvt_ring_wait(&ring, &cqe);
		EXPECT_EQ(0, cqe.res);
	}
	crash_now(t);
	/* The command that syncs, with the operation in user memory, too. */
	ASSERT_EQ(0, number_put(t->fd, 1000, 1));
	op[0] = kvt_op(KVTREE_OP_SYNC, kvt_bytes(NULL, 0));
	kvt_sqe_op(kvt_ring_sqe(&ring), t->fd, &op[0], 1);
	EXPECT_EQ(0, kvt_ring_result(&ring, 1));
	EXPECT_EQ(0, op[0].result);
	kvt_ring_exit(&ring);
	ASSERT_EQ(0, come_up(t));
	EXPECT_EQ(64, kvt_stat(t->fd, KVTREE_STAT_KEYS));
}

TEST_F(durable, store_that_syncs_needs_no_flag)
{
	struct self *t = &self->self;

	close(t->fd);
	ASSERT_EQ(0, kvt_detach(t->dev, t->name));
	ASSERT_EQ(0, kvt_attach(t->dev, t->name, t->disk, t->nr, KVTREE_ATTACH_SYNC));
	t->fd = kvt_store(t->dev, t->name, RW);
	ASSERT_LE(0, t->fd);
	ASSERT_EQ(0, kvt_put(t->fd, STR("k"), STR("v"), NULL));
	crash_now(t);
	ASSERT_EQ(0, come_up(t));
	EXPECT_TRUE(kvt_has(t->fd, STR("k"), STR("v")));
}

/* The log goes round its device many times; checkpoints make room for it. */
TEST_F(durable, log_is_reclaimed)
{
	struct self *t = &self->self;
	static char value[200000];
	__u64 digest;
	int i;

	/* So much that the log goes round its devices. */
	for (i = 0; i % 16 || kvt_stat(t->fd, KVTREE_STAT_LOG_BYTES) <=
			      kvt_stat(t->fd, KVTREE_STAT_LOG_CAPACITY); i++) {
		__u32 key = i % 16;

		memset(value, i, sizeof(value));
		ASSERT_EQ(0, kvt_put(t->fd, kvt_bytes(&key, sizeof(key)),
				     kvt_bytes(value, sizeof(value)), NULL));
	}
	EXPECT_LT(0, kvt_stat(t->fd, KVTREE_STAT_LOG_CHECKPOINTS));
	ASSERT_EQ(0, kvt_sync(t->fd));
	digest = kvt_digest(t->fd);
	crash_now(t);
	ASSERT_EQ(0, come_up(t));
	EXPECT_EQ(digest, kvt_digest(t->fd));
	EXPECT_EQ(0, kvt_stat(t->fd, KVTREE_STAT_LOG_ERROR));
}

TEST_F(durable, full_device_refuses_what_grows_and_nothing_else)
{
	struct self *t = &self->self;
	static char value[1 << 20];
	__u64 digest;
	int err = 0;
	__u32 i;

	for (i = 0; !err && i < 1000; i++)
		err = kvt_put(t->fd, kvt_bytes(&i, sizeof(i)), kvt_bytes(value, sizeof(value)),
			      NULL);
	ASSERT_EQ(-ENOSPC, err);
	EXPECT_EQ(-ENOSPC, kvt_put(t->fd, kvt_bytes(&i, sizeof(i)),
				   kvt_bytes(value, sizeof(value)), NULL));
	/* It can be read, and existing keys can be replaced and removed. */
	i = 0;
	value[0] = 'x';
	EXPECT_EQ(0, kvt_put(t->fd, kvt_bytes(&i, sizeof(i)), kvt_bytes(value, sizeof(value)),
			     NULL));
	EXPECT_TRUE(kvt_has(t->fd, kvt_bytes(&i, sizeof(i)), kvt_bytes(value, sizeof(value))));
	i = 1;
	EXPECT_EQ(0, kvt_remove(t->fd, kvt_bytes(&i, sizeof(i))));
	EXPECT_EQ(0, kvt_put(t->fd, kvt_bytes(&i, sizeof(i)), kvt_bytes(value, 1000000), NULL));
	EXPECT_EQ(0, kvt_checkpoint(t->fd));
	digest = kvt_digest(t->fd);
	ASSERT_EQ(0, again(t));
	EXPECT_EQ(digest, kvt_digest(t->fd));
}

/* Spread keys, keys that differ only at their ends, prefixes of each other, and single ones. */
static void put_ranges(int fd)
{
	static char value[1000];
	struct kvt_rand rand;
	char key[4096];
	__u64 number;
	int i;

	kvt_rand_init(&rand, 0);
	for (i = 0; i < 6000; i++) {
		number = kvt_rand(&rand);
		memcpy(value, &i, sizeof(i));
		KVT_CHECK(kvt_put(fd, kvt_bytes(&number, 8), kvt_bytes(value, sizeof(value)),
				  NULL) == 0);
	}
	memset(key, 'p', sizeof(key));
	for (i = 0; i < 3000; i++) {
		number = htobe64(i);
		memcpy(key + 40, &number, 8);
		KVT_CHECK(kvt_put(fd, kvt_bytes(key, 48), kvt_bytes(&i, 4), NULL) == 0);
	}
	memset(key, 0xff, sizeof(key));
	for (i = 0; i <= 4096; i += 16)
		KVT_CHECK(kvt_put(fd, kvt_bytes(key, i), kvt_bytes(&i, 4), NULL) == 0);
}

/* However many write it, each with a range of keys. */
TEST_F(durable, checkpoint_has_every_key_once)
{
	static const char *const nr[] = { "2", "8" };
	struct self *t = &self->self;
	__u64 digest;
	size_t i;

	for (i = 0; i < NR(nr); i++) {
		/* Change every key: a checkpoint writes only what has changed. */
		put_ranges(t->fd);
		ASSERT_EQ(0, kvt_sync(t->fd));
		kvt_set_param(KVT_SAVERS, nr[i], NULL, 0);
		EXPECT_EQ(0, kvt_checkpoint(t->fd));
		crash_now(t);
		EXPECT_EQ(kvt_stat(t->fd, KVTREE_STAT_VALUES), kvt_disks_records(t->disk, t->nr));
	}
	kvt_set_param(KVT_SAVERS, "0", NULL, 0);
	digest = kvt_digest(t->fd);
	ASSERT_EQ(0, come_up(t));
	EXPECT_EQ(digest, kvt_digest(t->fd));
}

struct saver {
	int fd;
	int err;
	int stop;
};

/* Make checkpoints, one after the other. */
static void *saver_thread(void *arg)
{
	struct saver *saver = arg;

	while (!saver->err && !__atomic_load_n(&saver->stop, __ATOMIC_RELAXED))
		saver->err = kvt_checkpoint(saver->fd);
	return NULL;
}

/* However much is written while one is made, there is room for the one after. */
TEST_F(durable, checkpoints_leave_room_for_the_next)
{
	struct self *t = &self->self;
	struct saver saver = { .fd = t->fd };
	static char value[1 << 20];
	__u32 i, key, full = 0;
	pthread_t thread;
	int err = 0;

	ASSERT_EQ(0, pthread_create(&thread, NULL, saver_thread, &saver));
	/* What one CPU writes goes to one device. */
	kvt_run_on(0);
	for (i = 0; i < 90; i++) {
		key = full ? i % full : i;
		err = kvt_put(t->fd, kvt_bytes(&key, sizeof(key)), kvt_bytes(value, sizeof(value)),
			      NULL);
		if (err == -ENOSPC && !full)
			full = i;
		else if (err)
			break;
	}
	__atomic_store_n(&saver.stop, 1, __ATOMIC_RELAXED);
	EXPECT_EQ(0, pthread_join(thread, NULL));
	EXPECT_EQ(0, err);
	EXPECT_EQ(0, saver.err);
	EXPECT_LT(0, full);
	EXPECT_EQ(0, kvt_checkpoint(t->fd));
	ASSERT_EQ(0, again(t));
}

/* Every write fails from some moment on. */
TEST(write_error_makes_the_store_read_only)
{
	struct kvt_disk disk;
	int dev = kvt_open(), fd;
	char was[16];

	/* It is a change that fails first. */
	kvt_set_param(KVT_IDLE_MS, "0", was, sizeof(was));
	kvt_null_make(&disk, "kvtfail", SIZE);
	kvt_null_start(&disk);
	ASSERT_EQ(0, kvt_format(&disk, 1));
	ASSERT_EQ(0, kvt_attach(dev, "durable-fail", &disk, 1, 0));
	fd = kvt_store(dev, "durable-fail", RW);
	ASSERT_LE(0, fd);
	EXPECT_EQ(0, put_sync(fd, STR("k"), STR("v")));
	kvt_null_fail(&disk, true);
	EXPECT_EQ(-EIO, put_sync(fd, STR("k"), STR("w")));
	EXPECT_EQ(-EROFS, kvt_put(fd, STR("k"), STR("x"), NULL));
	EXPECT_EQ(-EROFS, kvt_remove(fd, STR("k")));
	EXPECT_EQ(-EIO, kvt_sync(fd));
	EXPECT_TRUE(kvt_has(fd, STR("k"), STR("w")));
	EXPECT_EQ(EIO, kvt_stat(fd, KVTREE_STAT_LOG_ERROR));
	kvt_set_param(KVT_IDLE_MS, was, NULL, 0);
	close(fd);
	/* It says that not everything is durable. */
	EXPECT_EQ(-EIO, kvt_detach(dev, "durable-fail"));
	kvt_null_fail(&disk, false);
	ASSERT_EQ(0, kvt_attach(dev, "durable-fail", &disk, 1, 0));
	fd = kvt_store(dev, "durable-fail", RW);
	ASSERT_LE(0, fd);
	EXPECT_TRUE(kvt_has(fd, STR("k"), STR("v")));
	close(fd);
	EXPECT_EQ(0, kvt_detach(dev, "durable-fail"));
	kvt_null_remove(&disk);
	close(dev);
}

TEST_F(durable, wrong_calls_are_refused)
{
	struct self *t = &self->self;
	struct kvt_attach_how how = { .store.mode = 0600 };
	struct kvt_disk none = { .path = "/dev/kvt-none" }, file = { .path = "/proc/version" };
	char other[KVTREE_NAME_MAX + 8];

	snprintf(other, sizeof(other), "%s.other", t->name);
	/* In use. */
	EXPECT_EQ(-EBUSY, kvt_attach(t->dev, other, t->disk, t->nr, 0));
	EXPECT_EQ(-EEXIST, kvt_attach(t->dev, t->name, t->disk, t->nr, 0));
	EXPECT_NE(0, kvt_format(t->disk, t->nr));
	EXPECT_EQ(-EBUSY, kvt_destroy(t->dev, t->name));
	EXPECT_EQ(-EOPNOTSUPP, kvt_detach(t->dev, "default"));
	EXPECT_EQ(-ENOENT, kvt_detach(t->dev, other));
	EXPECT_EQ(-ENOENT, kvt_attach(t->dev, other, &none, 1, 0));
	EXPECT_EQ(-ENOTBLK, kvt_attach(t->dev, other, &file, 1, 0));
	EXPECT_EQ(-EINVAL, kvt_attach(t->dev, other, t->disk, 0, 0));
	EXPECT_EQ(-EINVAL, kvt_attach(t->dev, other, t->disk, t->nr, 4));
	EXPECT_EQ(-EINVAL, kvt_attach(t->dev, "a/b", t->disk, t->nr, 0));
	how.args.reserved[2] = 1;
	EXPECT_EQ(-EINVAL, kvt_attach_how(t->dev, other, t->disk, t->nr, &how));
	how.args.reserved[2] = 0;
	how.args.reserved2 = 1;
	EXPECT_EQ(-EINVAL, kvt_attach_how(t->dev, other, t->disk, t->nr, &how));
	how.args.reserved2 = 0;
	how.args.until = 1;
	EXPECT_EQ(-EINVAL, kvt_attach_how(t->dev, other, t->disk, t->nr, &how));
	how.args.until = 0;
	how.store.flags = 1u << 31;
	EXPECT_EQ(-EINVAL, kvt_attach_how(t->dev, other, t->disk, t->nr, &how));

	/* A volatile store promises nothing. */
	EXPECT_EQ(-EOPNOTSUPP, put_sync(t->dev, STR("k"), STR("v")));
	EXPECT_EQ(-EOPNOTSUPP, kvt_sync(t->dev));
	EXPECT_EQ(-EOPNOTSUPP, kvt_checkpoint(t->dev));
	EXPECT_EQ(-1, fsync(t->dev));
	EXPECT_EQ(EINVAL, errno);

	close(t->fd);
	t->fd = -1;
	ASSERT_EQ(0, kvt_detach(t->dev, t->name));
	if (t->nr > 1) {
		EXPECT_EQ(-ENODEV, kvt_attach(t->dev, other, t->disk, t->nr - 1, 0));
		EXPECT_NE(0, kvt_check_disks(t->disk, t->nr - 1));
	}
	/* Formatted already, and wanted. */
	EXPECT_NE(0, kvt_format(t->disk, t->nr));
	ASSERT_EQ(0, kvt_attach(t->dev, other, t->disk, t->nr, 0));
	ASSERT_EQ(0, kvt_detach(t->dev, other));
}

/* Both structures have the size that their caller was compiled with. */
TEST_F(durable, attach_and_what_it_points_to_can_grow)
{
	struct self *t = &self->self;
	struct {
		struct kvtree_store_create store;
		__u64 tail;
	} longer = { .store.mode = 0600 };
	struct {
		struct kvtree_store_attach args;
		__u64 tail;
	} call = { .args.store = kvt_ptr(&longer), .args.nr_devices = (__u32)t->nr };
	const unsigned long cmd = KVTREE_IOC_STORE_ATTACH;
	const unsigned long longer_cmd = _IOC(_IOC_WRITE, 'K', _IOC_NR(cmd), sizeof(call));
	__u64 paths[KVTREE_DEVICES_MAX];
	__u32 size;
	int i;

	for (i = 0; i < t->nr; i++)
		paths[i] = kvt_ptr(t->disk[i].path);
	call.args.devices = kvt_ptr(paths);
	strcpy(longer.store.name, t->name);
	close(t->fd);
	t->fd = -1;
	ASSERT_EQ(0, kvt_detach(t->dev, t->name));

	for (size = 0; size < KVTREE_STORE_CREATE_SIZE_VER0; size++) {
		call.args.store_size = size;
		ASSERT_EQ(-EINVAL, kvt_ioctl(t->dev, cmd, &call)) {
			TH_LOG("%u bytes", size);
		}
	}
	call.args.store_size = 4097;
	EXPECT_EQ(-E2BIG, kvt_ioctl(t->dev, cmd, &call));
	call.args.store_size = ~0u;
	EXPECT_EQ(-E2BIG, kvt_ioctl(t->dev, cmd, &call));
	call.args.store_size = sizeof(longer.store);
	call.args.store = 0;
	EXPECT_EQ(-EFAULT, kvt_ioctl(t->dev, cmd, &call));
	call.args.store = kvt_ptr(&longer);

	call.args.store_size = sizeof(longer);
	longer.tail = 1;
	EXPECT_EQ(-E2BIG, kvt_ioctl(t->dev, cmd, &call));
	longer.tail = 0;
	call.tail = 1ull << 63;
	EXPECT_EQ(-E2BIG, kvt_ioctl(t->dev, longer_cmd, &call));
	call.tail = 0;
	EXPECT_EQ(0, kvt_ioctl(t->dev, longer_cmd, &call));
	EXPECT_EQ(0, kvt_detach(t->dev, t->name));
}

/* Where there is no log and nothing is looked for: in the last MiB. */
static size_t nowhere(const struct kvt_disk *disk)
{
	return disk->bytes - (512 << 10);
}

/* Through the page cache, where it stays while the disk is open. */
TEST_F(durable, what_others_have_written_is_written_before_it_is_attached)
{
	struct self *t = &self->self;
	size_t at = nowhere(&t->disk[0]);
	int reader, writer;
	char is[5];

	close(t->fd);
	t->fd = -1;
	ASSERT_EQ(0, kvt_detach(t->dev, t->name));
	reader = open(t->disk[0].path, O_RDONLY | O_CLOEXEC);
	writer = open(t->disk[0].path, O_RDWR | O_CLOEXEC);
	ASSERT_LE(0, reader);
	ASSERT_EQ(5, pwrite(writer, "first", 5, at));
	close(writer);
	ASSERT_EQ(0, kvt_attach(t->dev, t->name, t->disk, t->nr, 0));
	ASSERT_EQ(5, pread(t->disk[0].memory, is, 5, at));
	EXPECT_EQ(0, memcmp(is, "first", 5));
	/* And nothing reads the old contents. */
	kvt_disk_write(&t->disk[0], "other", 5, at);
	ASSERT_EQ(5, pread(reader, is, 5, at));
	EXPECT_EQ(0, memcmp(is, "other", 5));
	close(reader);
}

#define COPY_AT	(KVTREE_LOG_SUPER_STRIDE * KVTREE_LOG_BLOCK)

/* It has attached the store, and written superblocks of its own. */
TEST_F(durable, another_machine_is_found_out)
{
	struct self *t = &self->self;
	static char supers[2 * COPY_AT], is[2 * COPY_AT];
	int last = t->nr - 1;

	ASSERT_EQ(0, number_put(t->fd, 1, 1));
	ASSERT_EQ(0, kvt_sync(t->fd));
	KVT_CHECK(pread(t->disk[last].memory, supers, sizeof(supers), 0) == sizeof(supers));
	ASSERT_EQ(0, kvt_checkpoint(t->fd));
	EXPECT_EQ(0, kvt_stat(t->fd, KVTREE_STAT_LOG_ERROR));
	/* What is damaged is mended, and what was written earlier is somebody else's. */
	kvt_disk_write(&t->disk[last], "?", 1, 100);
	kvt_disk_write(&t->disk[last], "?", 1, COPY_AT + 100);
	ASSERT_EQ(0, kvt_checkpoint(t->fd));
	kvt_disk_write(&t->disk[last], supers, sizeof(supers), 0);
	EXPECT_EQ(-EIO, kvt_checkpoint(t->fd));
	EXPECT_EQ(EIO, kvt_stat(t->fd, KVTREE_STAT_LOG_ERROR));
	EXPECT_EQ(-EROFS, number_put(t->fd, 1, 2));
	EXPECT_EQ(1, number(t->fd, 1));
	close(t->fd);
	t->fd = -1;
	kvt_detach(t->dev, t->name);
	KVT_CHECK(pread(t->disk[last].memory, is, sizeof(is), 0) == sizeof(is));
	EXPECT_EQ(0, memcmp(is, supers, sizeof(is)));
}

static int attach_unprivileged(void *arg)
{
	struct self *self = arg;

	kvt_drop(1000, 1000);
	KVT_CHECK(kvt_attach(self->dev, "mine", self->disk, self->nr, 0) == -EPERM);
	KVT_CHECK(kvt_detach(self->dev, self->name) == -EPERM);
	KVT_CHECK(kvt_checkpoint(self->fd) == -EPERM);
	return 0;
}

TEST_F(durable, attaching_is_for_the_administrator)
{
	struct self *t = &self->self;

	EXPECT_EQ(0, kvt_run(attach_unprivileged, t));
}

/*
 * Damage.  Whatever is wrong, an attach either detects it or restores the original
 * state: all of it, since the store was detached.
 */

/* Returns 0 if it was found out, 1 if it was not and did no harm. */
static int damaged_attach(struct self *self, __u64 digest)
{
	int err, same;

	err = kvt_attach(self->dev, self->name, self->disk, self->nr, 0);
	if (err) {
		KVT_CHECK(err == -EBADMSG || err == -EINVAL || err == -EOPNOTSUPP ||
			  err == -ENODEV || err == -EXDEV);
		/* The checker sees what attach sees. */
		KVT_CHECK(kvt_check_disks(self->disk, self->nr) != 0);
		return 0;
	}
	self->fd = kvt_store(self->dev, self->name, RW);
	same = kvt_digest(self->fd) == digest;
	KVT_CHECK(kvt_close_detach(self->dev, self->name, &self->fd) == 0);
	return same ? 1 : -1;
}

static __u64 detached(struct self *self)
{
	__u64 digest;

	put_shapes(self->fd, 1);
	KVT_CHECK(kvt_checkpoint(self->fd) == 0);
	put_shapes(self->fd, 2);
	digest = kvt_digest(self->fd);
	KVT_CHECK(kvt_close_detach(self->dev, self->name, &self->fd) == 0);
	crash_now(self);
	return digest;
}

TEST_F(damage, damaged_superblock_is_found_out_or_does_no_harm)
{
	struct self *t = &self->self;
	const char *image;
	__u64 digest = detached(t);
	struct kvt_rand rand;
	size_t at;
	char byte;
	int i;

	kvt_rand_init(&rand, 1);
	image = t->image[0];
	for (i = 0; i < 6; i++) {
		size_t copy = kvt_rand_below(&rand, 2);

		/* Either copy can do without the other. */
		at = copy * KVTREE_LOG_SUPER_STRIDE * KVTREE_LOG_BLOCK +
		     kvt_rand_below(&rand, KVTREE_LOG_BLOCK);
		byte = image[at] ^ (1 << kvt_rand_below(&rand, 8));
		kvt_disk_write(&t->disk[0], &byte, 1, at);
		ASSERT_EQ(1, damaged_attach(t, digest)) {
			TH_LOG("byte %zu", at);
		}
		/* It wrote both anew. */
		restore(t);
		/* They cannot be without each other. */
		kvt_disk_write(&t->disk[0], &byte, 1, at);
		at = (!copy) * KVTREE_LOG_SUPER_STRIDE * KVTREE_LOG_BLOCK + at % KVTREE_LOG_BLOCK;
		byte = image[at] ^ 4;
		kvt_disk_write(&t->disk[0], &byte, 1, at);
		ASSERT_EQ(0, damaged_attach(t, digest)) {
			TH_LOG("byte %zu", at);
		}
		/* A refused attach has written nothing. */
		kvt_disk_write(&t->disk[0], image, KVTREE_LOG_DATA_START * KVTREE_LOG_BLOCK, 0);
	}
}

/* It has no name, but is more than one sector of it. */
static const char nobody[3000] = { [0 ... 2999] = 'n' };

/* What others write over the beginning of a disk. */
static const struct other {
	const char *data;
	size_t len;
	size_t at;
	bool known;	/* by a name */
} others[] = {
	{ "\0\0\0\0\0\0\0\0", 8, 0, false },	/* wiped */
	{ "XFSB", 4, 0, false },
	{ "LUKS\xba\xbe", 6, 0, true },
	{ "\xfc\x4e\x2b\xa9", 4, 0, false },	/* a part of a RAID */
	{ "LABELONE", 8, 1536, false },
	{ "SWAPSPACE2", 10, 4086, false },
	{ nobody, sizeof(nobody), 100, false },
	{ "\x55\xaa", 2, 510, true },		/* a partition table, after the boot code */
};

TEST_F(damage, disk_that_others_have_written_to_is_not_taken_back)
{
	struct self *t = &self->self;
	__u64 digest = detached(t);
	static char is[4096];
	size_t i;

	for (i = 0; i < NR(others); i++) {
		const struct other *other = &others[i];

		kvt_disk_write(&t->disk[0], other->data, other->len, other->at);
		EXPECT_EQ(-EINVAL, kvt_attach(t->dev, t->name, t->disk, t->nr, 0));
		EXPECT_EQ(-EINVAL, kvt_attach(t->dev, t->name, t->disk, t->nr,
					      KVTREE_ATTACH_READ_ONLY));
		EXPECT_NE(0, kvt_probe_disk(&t->disk[0]));
		EXPECT_NE(0, kvt_check_disks(t->disk, t->nr));
		ASSERT_EQ(sizeof(is), pread(t->disk[0].memory, is, sizeof(is), 0));
		EXPECT_EQ(0, memcmp(is + other->at, other->data, other->len));
		/* A person may know better, unless it has a name. */
		EXPECT_EQ(other->known, !!kvt_repair_disks(t->disk, t->nr));
		if (other->known)
			restore(t);
		EXPECT_EQ(1, damaged_attach(t, digest));
		restore(t);
	}
}

static bool block_is_zero(const char *block)
{
	static const char zero[KVTREE_LOG_BLOCK];

	return !memcmp(block, zero, sizeof(zero));
}

TEST_F(damage, damaged_block_is_found_out_or_does_no_harm)
{
	struct self *t = &self->self;
	static char block[KVTREE_LOG_BLOCK];
	__u64 digest = detached(t);
	struct kvt_rand rand;
	int i, disk, found = 0, harmless = 0, result;
	size_t at, from, blocks;
	const char *image;

	kvt_rand_init(&rand, 2);
	for (i = 0; i < 24; ) {
		disk = kvt_rand_below(&rand, t->nr);
		image = t->image[disk];
		blocks = t->disk[disk].bytes / KVTREE_LOG_BLOCK;
		at = KVTREE_LOG_DATA_START + kvt_rand_below(&rand, blocks - KVTREE_LOG_DATA_START);
		if (block_is_zero(image + at * KVTREE_LOG_BLOCK))
			continue;
		memcpy(block, image + at * KVTREE_LOG_BLOCK, sizeof(block));
		switch (i++ % 3) {
		case 0:
			block[kvt_rand_below(&rand, sizeof(block))] ^= 1 << i % 8;
			break;
		case 1:
			memset(block, 0, sizeof(block));
			break;
		default:
			/* Another block, which was right where it stood. */
			from = KVTREE_LOG_DATA_START +
			       kvt_rand_below(&rand, blocks - KVTREE_LOG_DATA_START);
			memcpy(block, image + from * KVTREE_LOG_BLOCK, sizeof(block));
			break;
		}
		kvt_disk_write(&t->disk[disk], block, sizeof(block), at * KVTREE_LOG_BLOCK);
		result = damaged_attach(t, digest);
		ASSERT_LE(0, result) {
			TH_LOG("block %zu of disk %d: a wrong state was restored", at, disk);
		}
		found += !result;
		harmless += result;
		if (result)
			restore(t);
		else
			kvt_disk_write(&t->disk[disk], image + at * KVTREE_LOG_BLOCK,
				       sizeof(block), at * KVTREE_LOG_BLOCK);
	}
	TH_LOG("%d found out, %d of no use any more", found, harmless);
	EXPECT_LT(0, found);
}

TEST_HARNESS_MAIN
