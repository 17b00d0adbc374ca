// SPDX-License-Identifier: GPL-2.0
/*
 * Durable stores on disks that fail in every way that a block device can: each request of
 * an attach, of commits, of a checkpoint and of a detach, with each status; unreadable
 * sectors; commands that wait to be durable while the disk fails; caches that survive one
 * crash but not the next; and flushes that lose what they should have kept.
 *
 * Uses the disks of kmod/tests/fault_disk.c.
 */
#include <endian.h>
#include <errno.h>
#include <linux/kvtree_format.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <unistd.h>
#include "kselftest_harness.h"
#include "lib/faults.h"
#include "lib/kvt_test.h"
#include "lib/oracle.h"
#include "lib/uring.h"

/* A superblock is the first 4 KiB of the disk; the other copy begins at 64 KiB. */
#define SUPER_SECTORS	8
#define COPY_SECTORS	128
/* Where segments begin, and their size. */
#define DATA_SECTOR	2048
#define SEGMENT_SECTORS	8192

/* The superblocks are before DATA_SECTOR, all else is behind it. */
#define LOSE_ALL_BUT_SUPERS	"lose 0 2048"
#define LOSE_SUPERS		"lose 2048 1000000000"

FIXTURE(faults) {
	struct kvt_oracle o;
};

FIXTURE_VARIANT(faults) {
	int nr;			/* of disks, of which the last one fails */
};

FIXTURE_VARIANT_ADD(faults, one) { .nr = 1 };
FIXTURE_VARIANT_ADD(faults, two) { .nr = 2 };

static void store_begin(struct kvt_oracle *o, int nr)
{
	for (o->nr = 0; o->nr < nr; o->nr++)
		kvt_fault_disk(&o->disk[o->nr], o->nr);
	kvt_oracle_begin(o);
}

FIXTURE_SETUP(faults)
{
	if (variant->nr > get_nprocs())
		SKIP(return, "needs a CPU for each disk");
	/* What a CPU writes goes to one disk: what this process writes, to the last one. */
	kvt_run_on(variant->nr - 1);
	store_begin(&self->o, variant->nr);
}

static const struct kvt_disk *faulty(const struct kvt_oracle *o)
{
	return &o->disk[o->nr - 1];
}

FIXTURE_TEARDOWN(faults)
{
	kvt_oracle_end(&self->o);
}

/*
 * Leave a store that has been checkpointed; its last life has commits and no end.  The last
 * change's flush fails, however many came before: on a slow machine there are more.
 */
static void crash(struct kvt_oracle *o)
{
	KVT_CHECK(kvt_oracle_attach(o) == 0);
	o->round++;
	KVT_CHECK(kvt_oracle_change_most(o) == 0);
	kvt_fault_fail(faulty(o), "ioerr", "f", 1, 1);
	KVT_CHECK(kvt_oracle_change_last(o) == -EIO);
	KVT_CHECK(kvt_oracle_detach(o) == -EIO);
	KVT_CHECK(kvt_fault_mend(faulty(o)) == 1);
}

/* The digest of the attached store, which is then detached. */
static __u64 digest_of_attached(struct kvt_oracle *o)
{
	__u64 digest;

	o->fd = kvt_store(o->dev, o->name, KVTREE_OPEN_READ);
	KVT_CHECK(o->fd >= 0);
	digest = kvt_digest(o->fd);
	KVT_CHECK(kvt_oracle_detach(o) == 0);
	return digest;
}

/*
 * An incomplete store is not attached, and nothing is written.  One read that fails may be
 * one that reads ahead.
 */
TEST_F(faults, each_status_of_each_read_of_an_attach_is_an_error)
{
	static const __u64 count[] = { 1, 2, 1000000 };
	struct kvt_oracle *o = &self->o;
	const char *status;
	unsigned int n, i;
	__u64 failed = 1, digest;
	int err;

	crash(o);
	ASSERT_EQ(0, kvt_attach(o->dev, o->name, o->disk, o->nr, KVTREE_ATTACH_READ_ONLY));
	digest = digest_of_attached(o);
	/* The first two are the copies of the superblock, of which one is enough. */
	for (n = 3; failed; n++) {
		ASSERT_GT(100, n);
		for (i = 0; failed && (status = kvt_fault_status(i)); i++) {
			kvt_fault_fail(faulty(o), status, "r", n, count[i % NR(count)]);
			err = kvt_attach(o->dev, o->name, o->disk, o->nr,
					 i % NR(count) ? 0 : KVTREE_ATTACH_READ_ONLY);
			failed = kvt_fault_mend(faulty(o));
			ASSERT_TRUE(err == -EIO ? failed : !err && failed < 2) {
				TH_LOG("%s, read %u: %d", status, n, err);
			}
			if (!err)
				EXPECT_EQ(digest, digest_of_attached(o));
		}
	}
	EXPECT_LT(6, n);
	kvt_oracle_judge(o);
	TH_LOG("%u reads", n - 2);
}

/* Unreadable sectors: the tool comes to the same conclusion as the module. */
TEST_F(faults, attach_and_check_agree_about_bad_sectors)
{
	struct kvt_oracle *o = &self->o;
	int err, status, bad = 0, nr = 0;
	__u64 segment, block;

	crash(o);
	for (segment = 0; segment < 8; segment++) {
		for (block = 0; block < 70; block += block < 8 ? 1 : 31, nr++) {
			kvt_fault_fail_at(faulty(o), "medium", "r",
					  DATA_SECTOR + segment * SEGMENT_SECTORS + block * 8, 8);
			err = kvt_attach(o->dev, o->name, o->disk, o->nr,
					 KVTREE_ATTACH_READ_ONLY);
			status = kvt_check_disks(o->disk, o->nr);
			EXPECT_TRUE(err ? err == -EIO && status : !status) {
				TH_LOG("segment %llu, block %llu: attach %d, check %d", segment,
				       block, err, status);
			}
			if (!err)
				EXPECT_EQ(0, kvt_detach(o->dev, o->name));
			bad += !!err;
		}
	}
	/* Some are needed, and not all. */
	EXPECT_LT(0, bad);
	EXPECT_GT(nr, bad);
	kvt_fault_mend(faulty(o));
	kvt_oracle_judge(o);
	TH_LOG("%d of %d places", bad, nr);
}

/* An unreadable place on a disk matters if and only if its contents do. */
TEST_F(faults, a_bad_sector_where_nothing_is_does_no_harm)
{
	static char was[4096], garbage[4096];
	struct kvt_oracle *o = &self->o;
	__u64 segment, block, at;
	struct kvt_outcome out;
	int bad, spoiled, nr = 0;

	/* The life has an end: nothing after it is looked for. */
	kvt_oracle_run(o, &out);
	ASSERT_EQ(0, out.attached | out.changed | out.detached);
	memset(garbage, 0x5a, sizeof(garbage));
	for (segment = 0; segment < 7; segment++) {
		for (block = 0; block < 140; block += block < 10 ? 1 : 13) {
			at = DATA_SECTOR + segment * SEGMENT_SECTORS + block * 8;
			kvt_fault_fail_at(faulty(o), "medium", "r", at, 8);
			bad = kvt_attach(o->dev, o->name, o->disk, o->nr,
					 KVTREE_ATTACH_READ_ONLY);
			if (!bad)
				EXPECT_EQ(0, kvt_detach(o->dev, o->name));
			kvt_fault_mend(faulty(o));
			kvt_fault_read(faulty(o), at, was);
			kvt_fault_write(faulty(o), at, garbage);
			spoiled = kvt_attach(o->dev, o->name, o->disk, o->nr,
					     KVTREE_ATTACH_READ_ONLY);
			if (!spoiled)
				EXPECT_EQ(0, kvt_detach(o->dev, o->name));
			kvt_fault_write(faulty(o), at, was);
			EXPECT_TRUE(spoiled ? spoiled == -EBADMSG && bad == -EIO : !bad) {
				TH_LOG("segment %llu, block %llu: bad %d, spoiled %d", segment,
				       block, bad, spoiled);
			}
			nr += !!spoiled;
		}
	}
	EXPECT_LT(2, nr);
	kvt_oracle_judge(o);
	TH_LOG("%d places matter", nr);
}

/* The segment that the last life will write commit records to when its first one is full. */
static __u64 segment_ahead(const struct kvt_disk *disk)
{
	static struct kvtree_log_segment head;
	__u64 segment, generation = 0, sequence = 0, found = 0;

	for (segment = 0; segment < KVTREE_LOG_SEGMENTS_MIN; segment++) {
		kvt_fault_read(disk, DATA_SECTOR + segment * SEGMENT_SECTORS, &head);
		if (le64toh(head.magic) != KVTREE_LOG_SEGMENT_MAGIC ||
		    le32toh(head.kind) != KVTREE_LOG_KIND_COMMIT ||
		    le64toh(head.generation) < generation ||
		    (le64toh(head.generation) == generation && le64toh(head.sequence) < sequence))
			continue;
		generation = le64toh(head.generation);
		sequence = le64toh(head.sequence);
		found = segment;
	}
	KVT_CHECK(generation);
	return DATA_SECTOR + found * SEGMENT_SECTORS;
}

/* After a crash, recovery checks whether the life continues there: one block shows that. */
TEST_F(faults, bad_sectors_in_an_empty_commit_segment_do_no_harm)
{
	struct kvt_oracle *o = &self->o;
	__u64 ahead;

	crash(o);
	ahead = segment_ahead(faulty(o));
	kvt_fault_fail_at(faulty(o), "medium", "r", ahead + 8, 8);
	EXPECT_EQ(-EIO, kvt_attach(o->dev, o->name, o->disk, o->nr, 0));
	EXPECT_NE(0, kvt_check_disks(o->disk, o->nr));
	kvt_fault_fail_at(faulty(o), "medium", "r", ahead + 16, SEGMENT_SECTORS - 16);
	EXPECT_EQ(0, kvt_check_disks(o->disk, o->nr));
	ASSERT_EQ(0, kvt_attach(o->dev, o->name, o->disk, o->nr, 0));
	EXPECT_EQ(0, kvt_detach(o->dev, o->name));
	EXPECT_LT(0, kvt_fault_mend(faulty(o)));
	kvt_oracle_judge(o);
}

/* A round with its n-th request failing.  Whether there was such a request. */
static bool round_failing(struct __test_metadata *_metadata, struct kvt_oracle *o,
			  const char *status, unsigned int n)
{
	struct kvt_outcome out;
	bool failed;

	kvt_fault_fail(faulty(o), status, "wf", n, 1);
	kvt_oracle_run(o, &out);
	failed = kvt_fault_mend(faulty(o));
	EXPECT_TRUE(failed ? kvt_outcome_told(&out) :
			     !(out.attached | out.changed | out.detached)) {
		TH_LOG("%s, request %u: attach %d, change %d, detach %d, error %llu", status, n,
		       out.attached, out.changed, out.detached, out.error);
	}
	kvt_oracle_judge(o);
	return failed;
}

/* Of an attach, commits, a checkpoint and a detach; each with some statuses, by turns. */
TEST_F(faults, each_write_and_flush_that_fails_is_told_and_loses_nothing)
{
	struct kvt_oracle *o = &self->o;
	unsigned int n, i, nr = 0;
	bool failed = true;

	while (kvt_fault_status(nr))
		nr++;
	ASSERT_LT(15, nr);
	for (n = 1; failed; n++) {
		ASSERT_GT(1000, n);
		for (i = n % 6; failed && i < nr; i += 6 * o->nr)
			failed = round_failing(_metadata, o, kvt_fault_status(i), n);
	}
	EXPECT_LT(20, n);
	TH_LOG("%u requests, %u statuses", n - 2, nr);
}

#define MORE_KEYS	120

/*
 * So many long keys, which differ at their end, that each disk has a part of a checkpoint's values,
 * and of its directory; or none of them.
 */
static void more_keys(struct kvt_oracle *o, bool more)
{
	static char key[4000], value[2000];
	__u32 i;

	KVT_CHECK(kvt_oracle_attach(o) == 0);
	for (i = 0; i < MORE_KEYS; i++) {
		memcpy(key + sizeof(key) - sizeof(i), &i, sizeof(i));
		KVT_CHECK(more ? kvt_put(o->fd, kvt_bytes(key, sizeof(key)),
					 kvt_bytes(value, sizeof(value)), NULL) == 0 :
				 kvt_remove(o->fd, kvt_bytes(key, sizeof(key))) >= 0);
	}
	KVT_CHECK(kvt_oracle_detach(o) == 0);
}

/* Begin again with a new store and its first checkpoint: each second one writes as much. */
static void store_renew(struct kvt_oracle *o)
{
	kvt_oracle_end(o);
	store_begin(o, o->nr);
	KVT_CHECK(kvt_oracle_attach(o) == 0);
	KVT_CHECK(kvt_checkpoint(o->fd) == 0);
	KVT_CHECK(kvt_oracle_detach(o) == 0);
}

/* Nothing is freed any more: writers that wait for space get an error, and none waits for ever. */
TEST_F(faults, a_checkpoint_that_cannot_be_written_is_the_end_of_writing)
{
	struct kvt_oracle *o = &self->o;
	bool failed = true;
	unsigned int n;
	int err;

	for (n = 1; failed; n++) {
		ASSERT_GT(50, n);
		store_renew(o);
		more_keys(o, true);
		ASSERT_EQ(0, kvt_oracle_attach(o));
		o->round++;
		o->tried = 1;
		kvt_fault_fail(faulty(o), "ioerr", "wf", n, 1);
		err = kvt_checkpoint(o->fd);
		failed = kvt_fault_mend(faulty(o));
		EXPECT_EQ(failed ? -EIO : 0, err);
		EXPECT_EQ(failed ? EIO : 0, kvt_stat(o->fd, KVTREE_STAT_LOG_ERROR));
		EXPECT_EQ(failed ? -EROFS : 0, kvt_oracle_put(o, 0, o->round, 0));
		EXPECT_EQ(failed ? -EIO : 0, kvt_oracle_detach(o));
		o->acked = !failed;
		more_keys(o, false);
		kvt_oracle_judge(o);
	}
	/* Values, directory, commit record, table, two copies of the superblock; flushes. */
	EXPECT_LT(12, n);
}

/* A copy of the superblock is rewritten by each attach and each detach. */
TEST_F(faults, one_copy_of_the_superblock_is_enough)
{
	struct kvt_oracle *o = &self->o;
	struct kvt_outcome out;
	__u64 sector;

	for (sector = 0; sector <= COPY_SECTORS; sector += COPY_SECTORS) {
		kvt_fault_fail_at(faulty(o), "medium", "r", sector, SUPER_SECTORS);
		kvt_oracle_run(o, &out);
		EXPECT_EQ(0, out.attached | out.changed | out.detached);
		EXPECT_EQ(0, kvt_check_disks(o->disk, o->nr));
		EXPECT_EQ(0, kvt_probe_disk(faulty(o)));
		EXPECT_LT(0, kvt_fault_mend(faulty(o)));
		kvt_oracle_judge(o);
	}
	kvt_fault_fail_at(faulty(o), "medium", "r", 0, COPY_SECTORS + SUPER_SECTORS);
	EXPECT_EQ(-EIO, kvt_attach(o->dev, o->name, o->disk, o->nr, 0));
	EXPECT_NE(0, kvt_check_disks(o->disk, o->nr));
	EXPECT_NE(0, kvt_probe_disk(faulty(o)));
	kvt_fault_mend(faulty(o));
	kvt_oracle_judge(o);
}

/*
 * Each of two disks has another copy only.  No superblock is written over the one that a disk has:
 * wherever writing one leaves garbage, and wherever it fails, the store is still there.
 */
TEST(another_copy_of_the_superblock_on_each_disk_is_enough)
{
	static char garbage[4096];
	struct kvt_outcome out;
	struct kvt_oracle o;
	__u64 slot;
	int i, disk;

	/* Of one sector. */
	memset(garbage, 0x5a, 512);
	store_begin(&o, 2);
	for (i = 0; i < 8; i++) {
		slot = i & 1 ? COPY_SECTORS : 0;
		disk = !!(i & 2);
		kvt_oracle_run(&o, &out);
		ASSERT_EQ(0, out.attached | out.changed | out.detached);
		kvt_fault_write(&o.disk[0], i & 4 ? COPY_SECTORS : 0, garbage);
		kvt_fault_write(&o.disk[1], i & 4 ? 0 : COPY_SECTORS, garbage);
		EXPECT_EQ(0, kvt_check_disks(o.disk, o.nr));
		EXPECT_EQ(0, kvt_attach(o.dev, o.name, o.disk, o.nr, KVTREE_ATTACH_READ_ONLY));
		EXPECT_EQ(0, kvt_detach(o.dev, o.name));
		kvt_fault_fail_at(&o.disk[disk], "ioerr", "w", slot, SUPER_SECTORS);
		EXPECT_EQ(-EIO, kvt_attach(o.dev, o.name, o.disk, o.nr, 0));
		EXPECT_LT(0, kvt_fault_mend(&o.disk[disk]));
		kvt_fault_write(&o.disk[disk], slot, garbage);
		kvt_oracle_judge(&o);
	}
	kvt_oracle_end(&o);
}

/* The copied superblock counts for all disks: all are flushed before any is written to. */
TEST(repair_flushes_all_disks_before_it_writes_to_one)
{
	static char garbage[4096], is[4096];
	struct kvt_outcome out;
	struct kvt_oracle o;
	int disk;

	store_begin(&o, 2);
	kvt_oracle_run(&o, &out);
	ASSERT_EQ(0, out.attached | out.changed | out.detached);
	memset(garbage, 0x5a, sizeof(garbage));
	for (disk = 0; disk < 2; disk++) {
		kvt_fault_write(&o.disk[disk], COPY_SECTORS, garbage);
		kvt_fault_fail(&o.disk[!disk], "ioerr", "f", 1, 1);
		EXPECT_NE(0, kvt_repair_disks(o.disk, o.nr));
		EXPECT_EQ(1, kvt_fault_mend(&o.disk[!disk]));
		kvt_fault_read(&o.disk[disk], COPY_SECTORS, is);
		EXPECT_EQ(0, memcmp(is, garbage, sizeof(is)));
		EXPECT_EQ(0, kvt_repair_disks(o.disk, o.nr));
		kvt_fault_read(&o.disk[disk], COPY_SECTORS, is);
		EXPECT_NE(0, memcmp(is, garbage, sizeof(is)));
	}
	kvt_oracle_judge(&o);
	kvt_oracle_end(&o);
}

/*
 * A first crash leaves unflushed data in the disk's cache, and recovery finds it.  A second one
 * happens at any flush of the attach, and loses all of the cache but superblocks.
 */
TEST_F(faults, what_a_second_crash_may_take_is_not_declared_durable)
{
	struct kvt_oracle *o = &self->o;
	bool failed = true;
	unsigned int n;
	int err;

	for (n = 1; failed; n++) {
		ASSERT_GT(10, n);
		kvt_fault_cache(faulty(o), "keep");
		crash(o);
		kvt_fault_fail(faulty(o), "ioerr", "f", n, 1);
		err = kvt_attach(o->dev, o->name, o->disk, o->nr, 0);
		failed = kvt_fault_mend(faulty(o));
		EXPECT_EQ(failed ? -EIO : 0, err);
		if (!err)
			EXPECT_EQ(0, kvt_detach(o->dev, o->name));
		kvt_fault_cache(faulty(o), LOSE_ALL_BUT_SUPERS);
		kvt_oracle_judge(o);
	}
	EXPECT_LT(3, n);
}

/*
 * A checkpoint frees all that a life before has written, but the superblock that says so
 * may be in the disk's cache, since its flush has failed.  A crash during the next attach,
 * which takes the first segments that are free, loses that, and nothing that was written
 * since.
 */
TEST_F(faults, what_a_superblock_needs_is_kept_until_the_next_one_is_flushed)
{
	struct kvt_oracle *o = &self->o;
	struct kvt_outcome out;
	bool failed = true;
	unsigned int n;

	kvt_fault_cache(faulty(o), "keep");
	for (n = 1; failed; n++) {
		ASSERT_GT(20, n);
		kvt_oracle_run(o, &out);
		ASSERT_EQ(0, out.attached | out.changed | out.detached);
		ASSERT_EQ(0, kvt_oracle_attach(o));
		kvt_fault_fail(faulty(o), "ioerr", "f", n, 1);
		kvt_checkpoint(o->fd);
		failed = kvt_fault_mend(faulty(o));
		EXPECT_EQ(failed ? -EIO : 0, kvt_oracle_detach(o));
		kvt_fault_fail(faulty(o), "ioerr", "f", 1, 1);
		EXPECT_EQ(-EIO, kvt_attach(o->dev, o->name, o->disk, o->nr, 0));
		kvt_fault_mend(faulty(o));
		kvt_fault_cache(faulty(o), LOSE_SUPERS);
		kvt_oracle_judge(o);
	}
	EXPECT_LT(4, n);
}

/* Whether all copies of the superblock are of one change. */
static bool supers_are_alike(const struct kvt_oracle *o)
{
	static struct kvtree_log_super super;
	__le64 first = 0;
	int i;

	for (i = 0; i < 2 * o->nr; i++) {
		kvt_fault_read(&o->disk[i / 2], i % 2 ? COPY_SECTORS : 0, &super);
		KVT_CHECK(le64toh(super.magic) == KVTREE_LOG_SUPER_MAGIC);
		if (i && super.write_id != first)
			return false;
		first = super.write_id;
	}
	return true;
}

/*
 * One copy of a checkpoint's superblock could not be written, so there is one copy of the new
 * superblock or of the old one.  The next attach first restores two copies on every disk.
 */
TEST_F(faults, an_attach_completes_the_superblock_before_it_writes_anything_else)
{
	struct kvt_oracle *o = &self->o;
	struct kvt_outcome out;
	int unlike = 0;
	__u64 slot;

	for (slot = 0; slot <= COPY_SECTORS; slot += COPY_SECTORS) {
		kvt_oracle_run(o, &out);
		ASSERT_EQ(0, out.attached | out.changed | out.detached);
		ASSERT_EQ(0, kvt_oracle_attach(o));
		kvt_fault_fail_at(faulty(o), "ioerr", "w", slot, SUPER_SECTORS);
		EXPECT_EQ(-EIO, kvt_checkpoint(o->fd));
		EXPECT_EQ(-EIO, kvt_oracle_detach(o));
		EXPECT_LT(0, kvt_fault_mend(faulty(o)));
		unlike += !supers_are_alike(o);
		kvt_fault_fail_at(faulty(o), "ioerr", "w", DATA_SECTOR, 1000000000);
		EXPECT_EQ(-EIO, kvt_attach(o->dev, o->name, o->disk, o->nr, 0));
		EXPECT_LT(0, kvt_fault_mend(faulty(o)));
		EXPECT_TRUE(supers_are_alike(o));
		kvt_oracle_judge(o);
	}
	/* Of the only disk, a first copy that was not written leaves both as they were. */
	EXPECT_EQ(o->nr, unlike);
}

/*
 * Let the n-th flush of a round fail.  Its data can still be read, but later flushes, which
 * succeed, do not make it stable.  Returns whether there was such a flush.
 */
static bool round_gone_stale(struct kvt_oracle *o, unsigned int n)
{
	struct kvt_outcome out;

	kvt_fault_cache(faulty(o), "stale");
	kvt_fault_fail(faulty(o), "ioerr", "f", n, 1);
	kvt_oracle_run(o, &out);
	return kvt_fault_mend(faulty(o));
}

/* What an attach has found is stable when it ends: it was written again. */
TEST_F(faults, what_a_failed_flush_has_lost_is_written_again_by_the_next_attach)
{
	struct kvt_oracle *o = &self->o;
	bool failed = true;
	unsigned int n;
	__u64 digest;

	for (n = 1; failed; n++) {
		ASSERT_GT(50, n);
		failed = round_gone_stale(o, n);
		ASSERT_EQ(0, kvt_attach(o->dev, o->name, o->disk, o->nr, 0));
		digest = digest_of_attached(o);
		kvt_fault_cache(faulty(o), "lose");
		EXPECT_EQ(0, kvt_check_disks(o->disk, o->nr));
		ASSERT_EQ(0, kvt_attach(o->dev, o->name, o->disk, o->nr,
					KVTREE_ATTACH_READ_ONLY)) {
			TH_LOG("flush %u", n);
		}
		EXPECT_EQ(digest, digest_of_attached(o));
		kvt_oracle_judge(o);
	}
	EXPECT_LT(10, n);
}

/* Nor does it do harm if that attach is cut short, whatever is then lost of the cache. */
TEST_F(faults, an_attach_after_a_failed_flush_may_crash)
{
	static const char * const lose[] = { "lose", LOSE_ALL_BUT_SUPERS, LOSE_SUPERS };
	struct kvt_oracle *o = &self->o;
	bool failed = true, crashed;
	unsigned int n, m;

	for (n = 1; failed; n++) {
		ASSERT_GT(50, n);
		crashed = true;
		for (m = 1 + n % 5; crashed; m += 5) {
			ASSERT_GT(100, m);
			failed = round_gone_stale(o, n);
			kvt_fault_fail(faulty(o), "ioerr", "wf", m, 1);
			kvt_attach(o->dev, o->name, o->disk, o->nr, 0);
			kvt_detach(o->dev, o->name);
			crashed = kvt_fault_mend(faulty(o));
			kvt_fault_cache(faulty(o), lose[(n + m / 5) % NR(lose)]);
			kvt_oracle_judge(o);
		}
	}
}

/*
 * The last epoch is lost after an attach has carried it, before that attach ends.  The next
 * attach begins its life in the same place, where it finds data of another life.
 */
TEST_F(faults, records_carried_by_a_failed_attach_are_never_recovered)
{
	struct kvt_oracle *o = &self->o;
	__u64 digest;

	kvt_fault_cache(faulty(o), "stale");
	crash(o);
	/* Flushes: of both copies of the superblock, the carried epoch, and the new superblock. */
	kvt_fault_fail(faulty(o), "ioerr", "f", 4, 1);
	EXPECT_EQ(-EIO, kvt_attach(o->dev, o->name, o->disk, o->nr, 0));
	EXPECT_EQ(1, kvt_fault_mend(faulty(o)));
	kvt_fault_cache(faulty(o), "lose");
	ASSERT_EQ(0, kvt_oracle_attach(o));
	EXPECT_EQ(o->before, kvt_oracle_get(o, KVT_ORACLE_KEYS - 1));
	digest = kvt_digest(o->fd);
	kvt_fault_fail(faulty(o), "ioerr", "wf", 1, 1000000);
	EXPECT_EQ(-EIO, kvt_oracle_detach(o));
	kvt_fault_mend(faulty(o));
	ASSERT_EQ(0, kvt_attach(o->dev, o->name, o->disk, o->nr, KVTREE_ATTACH_READ_ONLY));
	EXPECT_EQ(digest, digest_of_attached(o));
	kvt_oracle_judge(o);
}

/* Concurrent calls */

struct caller {
	struct kvt_oracle *o;
	pthread_t thread;
	int result;
	bool done;
};

static void *checkpoint_thread(void *arg)
{
	struct caller *c = arg;

	c->result = kvt_checkpoint(c->o->fd);
	__atomic_store_n(&c->done, true, __ATOMIC_RELEASE);
	return NULL;
}

static void *put_thread(void *arg)
{
	struct caller *c = arg;

	c->o->tried = 1;
	c->result = kvt_oracle_put(c->o, 0, c->o->round, KVTREE_F_SYNC);
	c->o->acked = !c->result;
	return NULL;
}

static void caller_begin(struct caller *c, struct kvt_oracle *o, void *(*fn)(void *arg))
{
	*c = (struct caller){ .o = o };
	KVT_CHECK(pthread_create(&c->thread, NULL, fn, c) == 0);
}

static int caller_end(struct caller *c)
{
	KVT_CHECK(pthread_join(c->thread, NULL) == 0);
	return c->result;
}

static void *sync_thread(void *arg)
{
	struct caller *c = arg;

	c->result = kvt_sync(c->o->fd);
	return NULL;
}

static bool request_is_held(void *arg)
{
	return kvt_fault_held(faulty(arg));
}

static bool sync_waits(void *arg)
{
	struct kvt_oracle *o = arg;

	return kvt_stat(o->fd, KVTREE_STAT_LOG_SYNC);
}

static pid_t attach_process(const struct kvt_oracle *o)
{
	pid_t child = fork();

	KVT_CHECK(child >= 0);
	if (!child)
		_exit(kvt_attach(o->dev, o->name, o->disk, o->nr, 0) ? 1 : 0);
	return child;
}

/*
 * The attach is killed while it waits for a read, which no signal ends.  When the disk has
 * answered, it stops: there is no store, and the next attach may have the disks.
 */
TEST_F(faults, an_attach_that_is_killed_leaves_nothing)
{
	struct kvt_oracle *o = &self->o;
	unsigned int n;
	pid_t child;
	int status;

	crash(o);
	/* As in each_status_of_each_read_of_an_attach_is_an_error, there are more. */
	for (n = 1; n <= 5; n++) {
		kvt_fault_fail(faulty(o), "hold", "r", n, 1);
		child = attach_process(o);
		ASSERT_TRUE(kvt_eventually(request_is_held, o));
		ASSERT_EQ(0, kill(child, SIGKILL));
		kvt_fault_hold(faulty(o), false);
		ASSERT_EQ(child, waitpid(child, &status, 0));
		EXPECT_TRUE(WIFSIGNALED(status));
		EXPECT_EQ(-ENOENT, kvt_store(o->dev, o->name, KVTREE_OPEN_READ)) {
			TH_LOG("read %u", n);
		}
		kvt_fault_mend(faulty(o));
	}
	/* It attaches. */
	kvt_oracle_judge(o);
}

/*
 * The superblock has room for one life at most, so the attach makes a checkpoint first.  It is
 * killed during that, and the next attach starts over, whatever the first has written.
 */
TEST(an_attach_that_is_killed_in_its_checkpoint_leaves_nothing)
{
	struct kvt_oracle o = { .nr = 1 };
	unsigned int n, life;
	pid_t child;
	int status;

	kvt_fault_disk(&o.disk[0], 0);
	/* No checkpoint is needed for room. */
	kvt_fault_resize(&o.disk[0], 1024);
	kvt_oracle_begin(&o);
	for (life = 2; life < KVTREE_LOG_LIVES_MAX; life++) {
		ASSERT_EQ(0, kvt_oracle_attach(&o));
		ASSERT_EQ(0, kvt_oracle_put(&o, 0, life, 0));
		ASSERT_EQ(0, kvt_stat(o.fd, KVTREE_STAT_LOG_CHECKPOINTS));
		ASSERT_EQ(0, kvt_oracle_detach(&o));
	}
	/* Two copies of the superblock, the header of a segment, and its contents. */
	for (n = 1; n <= 4; n++) {
		kvt_fault_fail(faulty(&o), "hold", "w", n, 1);
		child = attach_process(&o);
		ASSERT_TRUE(kvt_eventually(request_is_held, &o));
		ASSERT_EQ(0, kill(child, SIGKILL));
		kvt_fault_hold(faulty(&o), false);
		ASSERT_EQ(child, waitpid(child, &status, 0));
		EXPECT_TRUE(WIFSIGNALED(status));
		EXPECT_EQ(-ENOENT, kvt_store(o.dev, o.name, KVTREE_OPEN_READ)) {
			TH_LOG("write %u", n);
		}
		kvt_fault_mend(faulty(&o));
	}
	ASSERT_EQ(0, kvt_oracle_attach(&o));
	EXPECT_EQ(1, kvt_stat(o.fd, KVTREE_STAT_LOG_CHECKPOINTS));
	EXPECT_EQ(KVTREE_LOG_LIVES_MAX - 1, kvt_oracle_get(&o, 0));
	EXPECT_EQ(0, kvt_oracle_detach(&o));
	kvt_oracle_end(&o);
}

/* A caller that waits for an epoch while it is committed needs no commit of its own. */
TEST_F(faults, what_is_being_committed_is_not_committed_again)
{
	struct kvt_oracle *o = &self->o;
	struct caller sync;
	__u64 epochs;

	ASSERT_EQ(0, kvt_oracle_attach(o));
	epochs = kvt_stat(o->fd, KVTREE_STAT_LOG_EPOCHS);
	kvt_fault_hold(faulty(o), true);
	ASSERT_EQ(0, kvt_oracle_put(o, 0, 1, 0));
	EXPECT_TRUE(kvt_eventually(request_is_held, o));
	caller_begin(&sync, o, sync_thread);
	EXPECT_TRUE(kvt_eventually(sync_waits, o));
	kvt_sleep_ms(10);
	kvt_fault_hold(faulty(o), false);
	EXPECT_EQ(0, caller_end(&sync));
	kvt_sleep_ms(300);
	EXPECT_EQ(epochs + 1, kvt_stat(o->fd, KVTREE_STAT_LOG_EPOCHS));
	EXPECT_EQ(0, kvt_oracle_detach(o));
}

/* Flushes that fail and lose what they should have kept */

static bool held_or_done(void *arg)
{
	struct caller *c = arg;

	return kvt_fault_held(faulty(c->o)) || __atomic_load_n(&c->done, __ATOMIC_ACQUIRE);
}

/*
 * Attach, and make a checkpoint; hold its n-th request of a kind.  False if it has fewer; *own
 * is true unless the request is a commit's.
 */
static bool checkpoint_holding(struct kvt_oracle *o, struct caller *c, const char *ops,
			       unsigned int n, bool *own)
{
	bool held;

	o->round++;
	o->acked = 0;
	o->tried = 0;
	KVT_CHECK(kvt_oracle_attach(o) == 0);
	kvt_fault_fail(faulty(o), "hold", ops, n, 1);
	caller_begin(c, o, checkpoint_thread);
	KVT_CHECK(kvt_eventually(held_or_done, c));
	held = kvt_fault_held(faulty(o));
	*own = held && kvt_stat(o->fd, KVTREE_STAT_LOG_DURABLE) + 1 ==
		       kvt_stat(o->fd, KVTREE_STAT_LOG_EPOCH);
	if (!*own)
		kvt_fault_mend(faulty(o));
	return held;
}

/* A store's next commit, the first of its life that has anything. */
struct commit {
	struct kvt_oracle *o;
	__u64 bytes;		/* that the store will have written with it */
};

static void commit_expect(struct commit *commit, struct kvt_oracle *o)
{
	commit->o = o;
	/* A segment's header, two blocks with a value's record and its columns, a commit record. */
	commit->bytes = kvt_stat(o->fd, KVTREE_STAT_LOG_BYTES) + 4 * 4096;
}

/* Or it has failed. */
static bool commit_is_written(void *arg)
{
	struct commit *commit = arg;

	return kvt_stat(commit->o->fd, KVTREE_STAT_LOG_ERROR) ||
	       kvt_stat(commit->o->fd, KVTREE_STAT_LOG_BYTES) >= commit->bytes;
}

/* A concurrent commit's data is lost, whatever that commit's own flush returns. */
TEST_F(faults, what_a_checkpoints_flush_has_lost_is_not_acknowledged)
{
	struct kvt_oracle *o = &self->o;
	struct caller checkpoint, put;
	bool held = true, own;
	unsigned int n, nr = 0;
	struct commit commit;

	kvt_fault_cache(faulty(o), "drop");
	for (n = 1; held; n++) {
		ASSERT_GT(20, n);
		held = checkpoint_holding(o, &checkpoint, "f", n, &own);
		if (own) {
			nr++;
			commit_expect(&commit, o);
			caller_begin(&put, o, put_thread);
			EXPECT_TRUE(kvt_eventually(commit_is_written, &commit));
			kvt_fault_fail(faulty(o), "ioerr", "f", 1, 1);
		}
		kvt_fault_hold(faulty(o), false);
		EXPECT_EQ(own ? -EIO : 0, caller_end(&checkpoint));
		if (own) {
			EXPECT_EQ(-EIO, caller_end(&put));
			EXPECT_EQ(-EROFS, kvt_oracle_put(o, 1, o->round, 0));
		}
		EXPECT_EQ(own ? EIO : 0, kvt_stat(o->fd, KVTREE_STAT_LOG_ERROR));
		EXPECT_EQ(own ? -EIO : 0, kvt_oracle_detach(o));
		kvt_fault_mend(faulty(o));
		kvt_oracle_judge(o);
	}
	/* Its tables, and the copies of the superblock. */
	EXPECT_LE(3, nr);
}

/*
 * A commit's flush fails and loses a checkpoint's data: no superblock refers to it, whatever
 * the checkpoint's own flush returns.
 */
TEST(what_a_commits_flush_has_lost_is_in_no_checkpoint)
{
	struct caller checkpoint, put;
	bool held = true, own;
	unsigned int n, nr = 0;
	struct kvt_oracle o;

	/* What this CPU writes goes to the first disk. */
	kvt_run_on(0);
	for (n = 1; held; n++) {
		ASSERT_GT(50, n);
		/* Each checkpoint writes as much, as there was none before. */
		store_begin(&o, 2);
		kvt_fault_cache(&o.disk[0], "drop");
		more_keys(&o, true);
		held = checkpoint_holding(&o, &checkpoint, "w", n, &own);
		if (own) {
			nr++;
			kvt_fault_fail(&o.disk[0], "ioerr", "f", 1, 1);
			caller_begin(&put, &o, put_thread);
			EXPECT_EQ(-EIO, caller_end(&put));
			EXPECT_EQ(1, kvt_fault_mend(&o.disk[0]));
		}
		kvt_fault_hold(faulty(&o), false);
		EXPECT_EQ(own ? -EIO : 0, caller_end(&checkpoint));
		EXPECT_EQ(own ? -EIO : 0, kvt_oracle_detach(&o));
		kvt_fault_mend(faulty(&o));
		more_keys(&o, false);
		kvt_oracle_judge(&o);
		kvt_oracle_end(&o);
	}
	/* A header, values, the table, and the copies of the superblock. */
	EXPECT_LE(5, nr);
}

/* Two stores on one disk */

#define PART_MIB	132

struct parts {
	struct kvt_disk disk;
	struct kvt_disk part[2];
	struct kvt_oracle o[2];
	struct caller put[2];
};

static void parts_begin(struct parts *p)
{
	int i;

	kvt_fault_disk(&p->disk, 0);
	kvt_fault_partition(&p->disk, p->part, 2, PART_MIB);
	for (i = 0; i < 2; i++) {
		p->o[i] = (struct kvt_oracle){ .nr = 1, .disk = { p->part[i] } };
		kvt_oracle_begin(&p->o[i]);
		snprintf(p->o[i].name, sizeof(p->o[i].name), "part-%d", i);
		KVT_CHECK(kvt_oracle_attach(&p->o[i]) == 0);
		p->o[i].round++;
	}
}

static void parts_end(struct parts *p)
{
	int i;

	for (i = 0; i < 2; i++)
		kvt_oracle_end(&p->o[i]);
	kvt_fault_departition(&p->disk, 2);
}

static bool flush_is_waited_for(void *arg)
{
	struct parts *p = arg;

	return kvt_fault_held(&p->disk);
}

/*
 * One store waits for its flush while that of another store fails.  The disk loses the data of
 * both, and reports that once.
 */
TEST(a_flush_that_fails_is_told_to_all_stores_on_the_disk)
{
	struct commit commit;
	static struct parts p;
	int i;

	parts_begin(&p);
	kvt_fault_cache(&p.disk, "drop");
	kvt_fault_fail(&p.disk, "hold", "f", 1, 1);
	caller_begin(&p.put[0], &p.o[0], put_thread);
	ASSERT_TRUE(kvt_eventually(flush_is_waited_for, &p));
	kvt_fault_fail(&p.disk, "ioerr", "f", 1, 1);
	commit_expect(&commit, &p.o[1]);
	caller_begin(&p.put[1], &p.o[1], put_thread);
	EXPECT_TRUE(kvt_eventually(commit_is_written, &commit));
	kvt_fault_hold(&p.disk, false);
	for (i = 0; i < 2; i++)
		EXPECT_EQ(-EIO, caller_end(&p.put[i]));
	EXPECT_EQ(1, kvt_fault_mend(&p.disk));
	for (i = 0; i < 2; i++) {
		EXPECT_EQ(-EROFS, kvt_oracle_put(&p.o[i], 1, p.o[i].round, 0));
		EXPECT_EQ(-EIO, kvt_oracle_detach(&p.o[i]));
		kvt_oracle_judge(&p.o[i]);
	}
	parts_end(&p);
}

/*
 * One store's flush has begun when another one writes: the disk need not have that in its flush, so
 * the second store flushes as well.
 */
TEST(a_flush_that_began_before_a_write_does_not_count_for_it)
{
	static struct parts p;
	struct commit commit;
	char idle[16];
	__u64 flushes;
	int i;

	kvt_set_param(KVT_IDLE_MS, "0", idle, sizeof(idle));
	parts_begin(&p);
	kvt_fault_fail(&p.disk, "hold", "f", 1, 1);
	caller_begin(&p.put[0], &p.o[0], put_thread);
	ASSERT_TRUE(kvt_eventually(flush_is_waited_for, &p));
	flushes = kvt_stat(p.o[1].fd, KVTREE_STAT_LOG_FLUSHES);
	commit_expect(&commit, &p.o[1]);
	caller_begin(&p.put[1], &p.o[1], put_thread);
	EXPECT_TRUE(kvt_eventually(commit_is_written, &commit));
	kvt_fault_hold(&p.disk, false);
	for (i = 0; i < 2; i++)
		EXPECT_EQ(0, caller_end(&p.put[i]));
	EXPECT_EQ(flushes + 1, kvt_stat(p.o[1].fd, KVTREE_STAT_LOG_FLUSHES));
	kvt_fault_mend(&p.disk);
	for (i = 0; i < 2; i++) {
		EXPECT_EQ(0, kvt_oracle_detach(&p.o[i]));
		kvt_oracle_judge(&p.o[i]);
	}
	parts_end(&p);
	kvt_set_param(KVT_IDLE_MS, idle, NULL, 0);
}

static void *detach_thread(void *arg)
{
	struct caller *c = arg;

	c->result = kvt_oracle_detach(c->o);
	__atomic_store_n(&c->done, true, __ATOMIC_RELEASE);
	return NULL;
}

static bool both_are_done(void *arg)
{
	struct caller *c = arg;

	return __atomic_load_n(&c[0].done, __ATOMIC_ACQUIRE) &&
	       __atomic_load_n(&c[1].done, __ATOMIC_ACQUIRE);
}

/*
 * A disk does not answer a flush.  A failed store on it can still be detached, and so can one on
 * another disk.
 */
TEST(a_hanging_flush_holds_up_only_its_waiters)
{
	struct caller detach[2];
	struct kvt_oracle other;
	static struct parts p;
	int i;

	parts_begin(&p);
	other = (struct kvt_oracle){ .nr = 1 };
	kvt_fault_disk(&other.disk[0], 1);
	kvt_oracle_begin(&other);
	ASSERT_EQ(0, kvt_oracle_attach(&other));
	kvt_fault_fail(&p.disk, "ioerr", "w", 1, 1);
	caller_begin(&p.put[1], &p.o[1], put_thread);
	EXPECT_EQ(-EIO, caller_end(&p.put[1]));
	kvt_fault_fail(&p.disk, "hold", "f", 1, 1);
	caller_begin(&p.put[0], &p.o[0], put_thread);
	ASSERT_TRUE(kvt_eventually(flush_is_waited_for, &p));
	caller_begin(&detach[0], &p.o[1], detach_thread);
	caller_begin(&detach[1], &other, detach_thread);
	EXPECT_TRUE(kvt_eventually(both_are_done, detach));
	kvt_fault_hold(&p.disk, false);
	EXPECT_EQ(0, caller_end(&p.put[0]));
	EXPECT_EQ(-EIO, caller_end(&detach[0]));
	EXPECT_EQ(0, caller_end(&detach[1]));
	kvt_fault_mend(&p.disk);
	EXPECT_EQ(0, kvt_oracle_detach(&p.o[0]));
	for (i = 0; i < 2; i++)
		kvt_oracle_judge(&p.o[i]);
	parts_end(&p);
	kvt_oracle_end(&other);
}

/* Commands */

#define COMMANDS	32

struct command {
	struct kvtree_op op;
	__u32 key;
	char value[8];
};

/* All of them were executed, and wait for one flush, which fails. */
/* Give as many commands that sync as there are, while requests to the disk are held. */
static void commands_begin(struct kvt_oracle *o, struct kvt_ring *ring, struct command *command)
{
	unsigned int i;

	kvt_fault_hold(faulty(o), true);
	for (i = 0; i < COMMANDS; i++) {
		command[i].key = 1000 + i;
		command[i].op = kvt_op(KVTREE_OP_PUT, kvt_bytes(&command[i].key, 4));
		command[i].op.flags = KVTREE_F_SYNC;
		command[i].op.val = kvt_ptr(command[i].value);
		command[i].op.val_len = sizeof(command[i].value);
		command[i].op.result = 77;
		kvt_sqe_op(kvt_ring_sqe(ring), o->fd, &command[i].op, i);
	}
	kvt_ring_submit(ring);
	KVT_CHECK(kvt_eventually(request_is_held, o));
}

/* One commit is under way when most of them come: all that it does not have is in the next. */
TEST_F(faults, commands_that_wait_to_be_durable_share_commits)
{
	static struct command command[COMMANDS];
	struct kvt_oracle *o = &self->o;
	struct kvt_ring ring;
	struct kvt_cqe cqe;
	unsigned int i;
	__u64 epochs;

	ASSERT_EQ(0, kvt_oracle_attach(o));
	kvt_ring_make(&ring, COMMANDS, 0);
	epochs = kvt_stat(o->fd, KVTREE_STAT_LOG_EPOCHS);
	commands_begin(o, &ring, command);
	EXPECT_FALSE(kvt_ring_reap(&ring, &cqe));
	kvt_fault_hold(faulty(o), false);
	for (i = 0; i < COMMANDS; i++) {
		kvt_ring_wait(&ring, &cqe);
		EXPECT_EQ(0, cqe.res);
	}
	EXPECT_GE(epochs + 2, kvt_stat(o->fd, KVTREE_STAT_LOG_EPOCHS));
	kvt_ring_exit(&ring);
	EXPECT_EQ(0, kvt_oracle_detach(o));
}

TEST_F(faults, commands_that_wait_to_be_durable_are_told)
{
	static struct command command[COMMANDS];
	struct kvt_oracle *o = &self->o;
	struct kvt_ring ring;
	struct kvt_cqe cqe;
	unsigned int i;
	int err;

	ASSERT_EQ(0, kvt_oracle_attach(o));
	kvt_ring_make(&ring, COMMANDS, 0);
	commands_begin(o, &ring, command);
	EXPECT_FALSE(kvt_ring_reap(&ring, &cqe));
	kvt_fault_fail(faulty(o), "medium", "wf", 1, 1000000);
	kvt_fault_hold(faulty(o), false);
	for (i = 0; i < COMMANDS; i++) {
		kvt_ring_wait(&ring, &cqe);
		EXPECT_EQ(-EIO, cqe.res);
		EXPECT_EQ(-EIO, command[cqe.data].op.result);
	}
	/* They did take place, as the next ones will not. */
	EXPECT_EQ(8, kvt_get(o->fd, kvt_bytes(&command[0].key, 4), command[1].value, 8, NULL));
	err = kvt_oracle_put(o, 0, 1, 0);
	EXPECT_EQ(-EROFS, err);
	kvt_ring_exit(&ring);
	EXPECT_EQ(-EIO, kvt_oracle_detach(o));
	kvt_fault_mend(faulty(o));
}

/* The second operation's outcome has no place: the first one is done, and is not durable. */
TEST_F(faults, batch_that_ends_in_a_fault_reports_what_is_not_durable)
{
	const size_t page = sysconf(_SC_PAGESIZE);
	struct kvt_oracle *o = &self->o;
	char *mem = kvt_map_guarded(2);
	struct kvtree_op *ops = (void *)(mem - page - sizeof(*ops));
	struct kvtree_batch *batch = (void *)(mem - 2 * page);
	__u32 keys[2] = { 1000, 1001 };
	int i;

	ASSERT_EQ(0, kvt_oracle_attach(o));
	for (i = 0; i < 2; i++) {
		ops[i] = kvt_op(KVTREE_OP_PUT, kvt_bytes(&keys[i], 4));
		ops[i].flags = KVTREE_F_SYNC;
	}
	*batch = (struct kvtree_batch) {
		.ops = kvt_ptr(ops), .nr = 2, .op_size = sizeof(*ops),
	};
	ASSERT_EQ(0, mprotect(mem - page, page, PROT_READ));
	EXPECT_EQ(-EFAULT, kvt_ioctl(o->fd, KVTREE_IOC_BATCH, batch));
	EXPECT_EQ(1, batch->done);
	kvt_fault_fail(faulty(o), "medium", "wf", 1, 1000000);
	EXPECT_EQ(-EIO, kvt_ioctl(o->fd, KVTREE_IOC_BATCH, batch));
	EXPECT_EQ(1, batch->done);
	EXPECT_EQ(-EIO, kvt_oracle_detach(o));
	kvt_fault_mend(faulty(o));
}

/* As little has the number of operations that are done. */
TEST_F(faults, batch_whose_end_cannot_be_written_reports_what_is_not_durable)
{
	const size_t page = sysconf(_SC_PAGESIZE);
	struct kvt_oracle *o = &self->o;
	struct kvtree_batch *batch = (void *)(kvt_map_guarded(1) - page);
	__u32 key = 1000;
	struct kvtree_op op = kvt_op(KVTREE_OP_PUT, kvt_bytes(&key, 4));

	ASSERT_EQ(0, kvt_oracle_attach(o));
	op.flags = KVTREE_F_SYNC;
	*batch = (struct kvtree_batch) { .ops = kvt_ptr(&op), .nr = 1, .op_size = sizeof(op) };
	ASSERT_EQ(0, mprotect(batch, page, PROT_READ));
	EXPECT_EQ(-EFAULT, kvt_ioctl(o->fd, KVTREE_IOC_BATCH, batch));
	kvt_fault_fail(faulty(o), "medium", "wf", 1, 1000000);
	EXPECT_EQ(-EIO, kvt_ioctl(o->fd, KVTREE_IOC_BATCH, batch));
	EXPECT_EQ(-EIO, kvt_oracle_detach(o));
	kvt_fault_mend(faulty(o));
}

static bool log_has_failed(void *arg)
{
	return kvt_stat(((const struct kvt_oracle *)arg)->fd, KVTREE_STAT_LOG_ERROR) == EIO;
}

/* It is made because its time has come, and nobody is there to be told. */
TEST_F(faults, a_commit_that_nobody_waits_for_is_told_to_the_next_ones)
{
	struct kvt_oracle *o = &self->o;
	char was[16];

	kvt_set_param(KVT_EPOCH_MS, "10", was, sizeof(was));
	ASSERT_EQ(0, kvt_oracle_attach(o));
	kvt_fault_fail(faulty(o), "ioerr", "f", 1, 1);
	o->round++;
	o->acked = 0;
	o->tried = 1;
	EXPECT_EQ(0, kvt_oracle_put(o, 0, o->round, 0));
	EXPECT_TRUE(kvt_eventually(log_has_failed, o));
	kvt_set_param(KVT_EPOCH_MS, was, NULL, 0);
	EXPECT_EQ(-EROFS, kvt_oracle_put(o, 1, o->round, 0));
	EXPECT_EQ(-EIO, kvt_sync(o->fd));
	EXPECT_EQ(-EIO, kvt_oracle_detach(o));
	EXPECT_EQ(1, kvt_fault_mend(faulty(o)));
	kvt_oracle_judge(o);
}

/* Neither is the empty one after the last, and everything in the store was durable before. */
TEST_F(faults, an_empty_commit_that_fails_is_told_and_loses_nothing)
{
	struct kvt_oracle *o = &self->o;

	ASSERT_EQ(0, kvt_oracle_attach(o));
	/* The first flush is that of the change. */
	kvt_fault_fail(faulty(o), "ioerr", "f", 2, 1);
	kvt_set_param(KVT_IDLE_MS, "100", NULL, 0);
	o->round++;
	o->tried = 1;
	o->acked = 1;
	EXPECT_EQ(0, kvt_oracle_put(o, 0, o->round, KVTREE_F_SYNC));
	EXPECT_TRUE(kvt_eventually(log_has_failed, o));
	kvt_set_param(KVT_IDLE_MS, "0", NULL, 0);
	EXPECT_EQ(o->round, kvt_oracle_get(o, 0));
	EXPECT_EQ(-EROFS, kvt_oracle_put(o, 1, o->round, 0));
	EXPECT_EQ(-EIO, kvt_oracle_detach(o));
	EXPECT_EQ(1, kvt_fault_mend(faulty(o)));
	kvt_oracle_judge(o);
}

static char epoch_ms[16];

/* The harness does not return. */
static void restore_epoch(void)
{
	kvt_set_param(KVT_EPOCH_MS, epoch_ms, NULL, 0);
}

/*
 * Tests go through the requests of a round one by one.  Their changes are committed when a caller
 * waits for them, and hardly ever because time has passed: so the requests are the same each time,
 * however slow the machine is.
 */
int main(int argc, char **argv)
{
	if (!kvt_faults_load()) {
		printf("TAP version 13\n1..0 # SKIP the lane has no disks that fail\n");
		return KSFT_SKIP;
	}
	kvt_set_param(KVT_EPOCH_MS, "200", epoch_ms, sizeof(epoch_ms));
	KVT_CHECK(atexit(restore_epoch) == 0);
	kvt_never_idle();
	return test_harness_run(argc, argv);
}
