// SPDX-License-Identifier: GPL-2.0
/*
 * Attach disks of all versions of the format, damaged copies of them, and disks made
 * up at random.  Whatever the module restores or refuses, its source does the same when
 * compiled into this program, with every buffer an allocation of its own.  An attached store
 * can be changed and attached again.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include "kselftest_harness.h"
#include "format/damage.h"
#include "format/mutate.h"
#include "lib/durable.h"
#include "lib/kvt_test.h"

#define RW	(KVTREE_OPEN_READ | KVTREE_OPEN_WRITE)
#define DISKS	2

struct self {
	int dev;
	int nr;
	char name[KVTREE_NAME_MAX];
	char folder[64];
	struct kvt_disk disk[DISKS];
	struct fmt_subject subject;
};

FIXTURE(damaged) {
	struct self self;
};

FIXTURE_VARIANT(damaged) {
	const char *version;
	int nr;
	const char *image[DISKS];
};

FIXTURE_VARIANT_ADD(damaged, one_after_a_crash) {
	.version = "v1", .nr = 1, .image = { "one.img" },
};

FIXTURE_VARIANT_ADD(damaged, two_after_a_detach) {
	.version = "v1", .nr = 2, .image = { "two-2.img", "two-1.img" },
};

FIXTURE_VARIANT_ADD(damaged, one_with_ranges) {
	.version = "v2", .nr = 1, .image = { "one.img" },
};

FIXTURE_VARIANT_ADD(damaged, two_with_ranges) {
	.version = "v2", .nr = 2, .image = { "two-2.img", "two-1.img" },
};

FIXTURE_VARIANT_ADD(damaged, two_with_epochs_on_one) {
	.version = "v3", .nr = 2, .image = { "two-2.img", "two-1.img" },
};

/* The images are in a sibling of this program's folder. */
static void unpack(struct self *self, const char *version)
{
	char command[4400], program[4096];
	ssize_t len = readlink("/proc/self/exe", program, sizeof(program) - 1);

	KVT_CHECK(len > 0);
	program[len] = '\0';
	*strrchr(program, '/') = '\0';
	strcpy(self->folder, "/dev/shm/kvt-damaged-XXXXXX");
	KVT_CHECK(mkdtemp(self->folder));
	snprintf(command, sizeof(command), "tar -xJf %s/../format/golden/%s.tar.xz -C %s",
		 program, version, self->folder);
	KVT_CHECK(system(command) == 0);
}

FIXTURE_SETUP(damaged)
{
	char name[DISKS][128], *path[DISKS], command[128];
	struct self *t = &self->self;
	int i;

	memset(t, 0, sizeof(*t));
	t->nr = variant->nr;
	t->dev = kvt_open();
	KVT_CHECK(t->dev >= 0);
	snprintf(t->name, sizeof(t->name), "damaged-%d", getpid());
	unpack(t, variant->version);
	for (i = 0; i < t->nr; i++) {
		snprintf(name[i], sizeof(name[i]), "%s/%s", t->folder, variant->image[i]);
		path[i] = name[i];
	}
	fmt_subject_open(&t->subject, path, t->nr);
	snprintf(command, sizeof(command), "rm -r %s", t->folder);
	KVT_CHECK(system(command) == 0);
	for (i = 0; i < t->nr; i++)
		kvt_disk_make(&t->disk[i], t->subject.disks.blocks[i] * KVTREE_LOG_BLOCK / KVT_MIB,
			      512);
}

FIXTURE_TEARDOWN(damaged)
{
	struct self *t = &self->self;
	int i;

	fmt_subject_close(&t->subject);
	for (i = 0; i < t->nr; i++)
		kvt_disk_remove(&t->disk[i]);
	close(t->dev);
}

/* Write exactly the contents in memory to the disks. */
static void fill(struct self *t)
{
	const struct fmt_disks *disks = &t->subject.disks;
	u64 block;
	int i;

	for (i = 0; i < t->nr; i++) {
		KVT_CHECK(!fallocate(t->disk[i].memory, FALLOC_FL_PUNCH_HOLE |
				     FALLOC_FL_KEEP_SIZE, 0, (off_t)t->disk[i].bytes));
		for (block = 0; block < disks->blocks[i]; block++)
			if (disks->written[i][block])
				kvt_disk_write(&t->disk[i], fmt_block(disks, i, block),
					       KVTREE_LOG_BLOCK, block * KVTREE_LOG_BLOCK);
	}
}

static bool same_value(const struct kvt_rec *rec, const struct fmt_item *item)
{
	const u8 *at = rec->val.data, *data = at + rec->ncols * sizeof(struct kvtree_col);
	struct kvtree_col col;
	u32 i;

	if (rec->key.len != item->key_len || memcmp(rec->key.data, item->key, item->key_len) ||
	    rec->version != item->version || rec->ncols != item->ncols)
		return false;
	for (i = 0; i < item->ncols; i++, data += col.len) {
		memcpy(&col, at + i * sizeof(col), sizeof(col));
		if (col.id != item->col[i].id || col.len != item->col[i].len ||
		    fmt_hash(FMT_HASH, data, col.len) != item->col[i].hash)
			return false;
	}
	return true;
}

/* Whether the store holds what this program has restored. */
static bool same_state(int fd, const struct fmt_state *state)
{
	const struct kvtree_scan scan = { .flags = KVTREE_SCAN_ALL_COLS };
	struct kvt_list list = { 0 };
	bool same;
	size_t i;

	KVT_CHECK(kvt_scan_all(fd, kvt_bytes("", 0), &scan, 4 << 20, &list) >= 0);
	same = list.nr == state->nr;
	for (i = 0; same && !state->twice && i < list.nr; i++)
		same = same_value(&list.rec[i], &state->item[i]);
	kvt_list_free(&list);
	return same;
}

static bool refusal(int err)
{
	return err == -EBADMSG || err == -EINVAL || err == -EXDEV || err == -ENODEV ||
	       err == -EOPNOTSUPP;
}

/* An attached store can be changed, and attached again with the change. */
static bool goes_on(struct self *t)
{
	int fd = kvt_store(t->dev, t->name, RW);
	__u64 digest;
	bool good;

	KVT_CHECK(fd >= 0);
	good = kvt_put(fd, STR("changed"), STR("after it was attached"), NULL) == 0 &&
	       kvt_sync(fd) == 0;
	digest = kvt_digest(fd);
	close(fd);
	if (!good || kvt_detach(t->dev, t->name) ||
	    kvt_attach(t->dev, t->name, t->disk, t->nr, 0))
		return false;
	fd = kvt_store(t->dev, t->name, RW);
	KVT_CHECK(fd >= 0);
	good = kvt_digest(fd) == digest;
	close(fd);
	return good && kvt_detach(t->dev, t->name) == 0;
}

/* Attach the disks as they are in memory now, and take the damage back. */
static bool agrees(struct self *t, bool change)
{
	struct fmt_state *state = &t->subject.now;
	bool good;
	int err, fd;

	fmt_recover(&t->subject.disks, state, 0, false, NULL);
	fill(t);
	fmt_disks_restore(&t->subject.disks);
	err = kvt_attach(t->dev, t->name, t->disk, t->nr, 0);
	if (err || state->error) {
		if (!err)
			kvt_detach(t->dev, t->name);
		good = err && state->error && refusal(err);
		if (!good)
			printf("# attached: %d, here: %d (%s)\n", err, state->error, state->text);
		return good;
	}
	fd = kvt_store(t->dev, t->name, RW);
	KVT_CHECK(fd >= 0);
	good = same_state(fd, state);
	close(fd);
	if (!good)
		printf("# not the same state: %u keys here\n", state->nr);
	if (change)
		return goes_on(t) && good;
	return kvt_detach(t->dev, t->name) == 0 && good;
}

TEST_F(damaged, images_of_all_versions_are_attached)
{
	struct self *t = &self->self;

	ASSERT_EQ(0, t->subject.state.error);
	EXPECT_TRUE(agrees(t, true));
}

/* Some of those that the program `format` tries one by one. */
TEST_F(damaged, damage_is_refused_or_does_no_harm)
{
	struct self *t = &self->self;
	const struct fmt_map *map = &t->subject.map;
	u32 i, refused = 0;
	u64 row = 1;

	for (i = 0; i < 20; i++) {
		const struct fmt_place *p = &map->place[i % 2 ? fmt_below(&row, map->nr) :
								i / 2 % map->nr];
		u64 at = p->block * KVTREE_LOG_BLOCK +
			 fmt_below(&row, i % 4 < 2 ? 64 : p->blocks * KVTREE_LOG_BLOCK);
		u8 byte = t->subject.disks.data[p->disk][at] ^ (u8)(1 + fmt_below(&row, 255));

		fmt_disks_put(&t->subject.disks, p->disk, at, &byte, 1);
		EXPECT_TRUE(agrees(t, false))
			TH_LOG("disk %u, byte %llu", p->disk + 1, (unsigned long long)at);
		refused += !!t->subject.now.error;
	}
	EXPECT_LT(5, refused);
}

TEST_F(damaged, structures_with_wrong_values_and_right_checksums_do_no_harm)
{
	struct self *t = &self->self;
	u32 seed, refused = 0;

	for (seed = 1; seed <= 50; seed++) {
		fmt_mutate_seed(&t->subject.map, &t->subject.disks, seed);
		EXPECT_TRUE(agrees(t, true))
			TH_LOG("seed %u", seed);
		refused += !!t->subject.now.error;
	}
	EXPECT_LT(10, refused);
	EXPECT_GT(48, refused);
}

TEST_HARNESS_MAIN
