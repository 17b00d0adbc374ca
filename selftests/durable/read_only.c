// SPDX-License-Identifier: GPL-2.0
/*
 * Stores attached read-only: nothing is written to their disks, which may be read-only
 * themselves.  Such an attach can restore an earlier epoch, whatever follows it in the log.
 */
#include <errno.h>
#include <linux/fs.h>
#include <linux/kvtree_format.h>
#include <sys/ioctl.h>
#include "kselftest_harness.h"
#include "lib/durable.h"
#include "lib/kvt_test.h"

#define RW	(KVTREE_OPEN_READ | KVTREE_OPEN_WRITE)
#define DISKS	3
#define SIZE	132	/* MiB: more than the least */
#define EPOCHS	6

FIXTURE(read_only) {
	int dev;
	int fd;
	int nr;
	char name[KVTREE_NAME_MAX];
	struct kvt_disk disk[DISKS];
	/* After the i-th change. */
	__u64 epoch[EPOCHS];
	__u64 digest[EPOCHS];
};

FIXTURE_VARIANT(read_only) {
	int nr;
};

FIXTURE_VARIANT_ADD(read_only, one) { .nr = 1 };
FIXTURE_VARIANT_ADD(read_only, three) { .nr = 3 };

FIXTURE_SETUP(read_only)
{
	int i;

	if (variant->nr == 1 && kvt_leave_out())
		SKIP(return, "three disks take all steps that one does");
	self->nr = variant->nr;
	self->fd = -1;
	self->dev = kvt_open();
	ASSERT_LE(0, self->dev);
	snprintf(self->name, sizeof(self->name), "read-only-%d", getpid());
	for (i = 0; i < self->nr; i++)
		kvt_disk_make(&self->disk[i], SIZE, 512);
	ASSERT_EQ(0, kvt_format(self->disk, self->nr));
}

FIXTURE_TEARDOWN(read_only)
{
	int i;

	close(self->fd);
	kvt_detach(self->dev, self->name);
	for (i = 0; i < self->nr; i++)
		kvt_disk_remove(&self->disk[i]);
	close(self->dev);
}

#define attach(wanted, epoch_)							\
({										\
	struct kvt_attach_how how_ = {						\
		.store.mode = 0600, .args.flags = (wanted),			\
		.args.until = (epoch_),						\
	};									\
										\
	kvt_attach_open(self->dev, self->name, self->disk, self->nr, &how_,	\
			&self->fd);						\
})

#define detach()	kvt_close_detach(self->dev, self->name, &self->fd)

/* The beginning of a value; each is unique on the disks, and a later one replaces it. */
#define UNIQUE	"the value of change %d, once"

static void change(int fd, int i)
{
	char key[16], value[2000];

	snprintf(key, sizeof(key), "key %d", i);
	memset(value, i, sizeof(value));
	snprintf(value, sizeof(value), UNIQUE, i);
	KVT_CHECK(kvt_put_flags(fd, STR("all"), kvt_bytes(value, sizeof(value)), 0) == 0);
	if (i)
		KVT_CHECK(kvt_remove(fd, STR("last")) == 0);
	KVT_CHECK(kvt_put(fd, STR("last"), kvt_bytes(key, sizeof(key)), NULL) == 0);
	KVT_CHECK(kvt_put_flags(fd, kvt_bytes(key, strlen(key)), kvt_bytes(value, 40),
				KVTREE_F_SYNC) == 0);
}

#define changes(from, to)								\
({											\
	int i_;										\
											\
	for (i_ = (from); i_ < (to); i_++) {						\
		change(self->fd, i_);							\
		self->epoch[i_] = kvt_stat(self->fd, KVTREE_STAT_LOG_DURABLE);		\
		self->digest[i_] = kvt_digest(self->fd);				\
	}										\
})

/* Each of the first nr epochs can be attached, with the store's state of that time. */
#define restore_each(nr_)								\
({											\
	int i_;										\
											\
	for (i_ = (nr_); i_-- > 0; ) {							\
		ASSERT_EQ(0, attach(KVTREE_ATTACH_READ_ONLY, self->epoch[i_]));		\
		EXPECT_EQ(self->digest[i_], kvt_digest(self->fd));			\
		EXPECT_EQ(self->epoch[i_], kvt_stat(self->fd, KVTREE_STAT_LOG_DURABLE));	\
		EXPECT_EQ(0, detach());							\
	}										\
})

static void disks_set(const struct kvt_disk *disk, int nr, int read_only)
{
	int i;

	for (i = 0; i < nr; i++)
		KVT_CHECK(!ioctl(disk[i].fd, BLKROSET, &read_only));
}

TEST_F(read_only, nothing_is_written_and_nothing_can_be_changed)
{
	struct kvtree_store_info info;
	struct kvt_attach_how how = { .store.mode = 0600 };
	__u64 written;
	int round;

	/* The disks after a detach, and a copy taken before it, as after a crash. */
	for (round = 0; round < 2; round++) {
		void *image[DISKS] = { NULL };
		int i;

		ASSERT_EQ(0, attach(0, 0));
		changes(0, 3);
		if (round)
			kvt_disks_image(self->disk, self->nr, self->fd, image);
		ASSERT_EQ(0, detach());
		if (round)
			kvt_disks_restore(self->disk, self->nr, image);
		disks_set(self->disk, self->nr, 1);
		EXPECT_NE(0, attach(0, 0));
		ASSERT_EQ(0, attach(KVTREE_ATTACH_READ_ONLY, 0));
		EXPECT_EQ(self->digest[2], kvt_digest(self->fd));
		written = kvt_stat(self->fd, KVTREE_STAT_LOG_BYTES);
		EXPECT_EQ(0, written);
		EXPECT_EQ(-EROFS, kvt_put(self->fd, STR("new"), STR("value"), NULL));
		EXPECT_EQ(-EROFS, kvt_put(self->fd, STR("last"), STR("value"), NULL));
		EXPECT_EQ(-EROFS, kvt_put_flags(self->fd, STR("last"), STR("v"), KVTREE_F_SYNC));
		EXPECT_EQ(-EROFS, kvt_remove(self->fd, STR("last")));
		EXPECT_EQ(-EROFS, kvt_add(self->fd, STR("number"), 0, 1, NULL));
		EXPECT_EQ(-EROFS, kvt_checkpoint(self->fd));
		EXPECT_EQ(0, kvt_sync(self->fd));
		EXPECT_EQ(0, fsync(self->fd));
		EXPECT_EQ(EROFS, kvt_stat(self->fd, KVTREE_STAT_LOG_ERROR));
		EXPECT_EQ(self->digest[2], kvt_digest(self->fd));
		ASSERT_EQ(0, kvt_find(self->dev, self->name, &info));
		EXPECT_EQ(KVTREE_STORE_READ_ONLY | KVTREE_STORE_DURABLE, info.flags);
		/* The disks are its own all the same. */
		EXPECT_EQ(-EBUSY, kvt_attach_how(self->dev, "another", self->disk, self->nr,
						 &how));
		EXPECT_EQ(0, detach());
		EXPECT_EQ(0, written);
		disks_set(self->disk, self->nr, 0);
		for (i = 0; round && i < self->nr; i++)
			kvt_disk_free(&self->disk[i], image[i]);
		/* The store continues where it was. */
		ASSERT_EQ(0, attach(0, 0));
		EXPECT_EQ(self->digest[2], kvt_digest(self->fd));
		EXPECT_EQ(0, kvt_put(self->fd, STR("new"), STR("value"), NULL));
		EXPECT_EQ(0, kvt_remove(self->fd, STR("new")));
		EXPECT_EQ(0, detach());
	}
}

TEST_F(read_only, each_epoch_of_the_log_can_be_restored)
{
	int half = EPOCHS / 2;

	/* Two lives, and another one that was not used. */
	ASSERT_EQ(0, attach(0, 0));
	changes(0, half);
	ASSERT_EQ(0, detach());
	ASSERT_EQ(0, attach(0, 0));
	changes(half, EPOCHS);
	ASSERT_EQ(0, detach());
	restore_each(EPOCHS);
	/* Only read-only, and only existing epochs. */
	EXPECT_EQ(-EINVAL, attach(0, self->epoch[1]));
	EXPECT_EQ(-ERANGE, attach(KVTREE_ATTACH_READ_ONLY, self->epoch[EPOCHS - 1] + 100));
	EXPECT_EQ(-ERANGE, attach(KVTREE_ATTACH_READ_ONLY, ~0ull));
	/* None of this has changed anything. */
	ASSERT_EQ(0, attach(0, 0));
	EXPECT_EQ(self->digest[EPOCHS - 1], kvt_digest(self->fd));
	/* A checkpoint does not contain earlier states. */
	ASSERT_EQ(0, kvt_checkpoint(self->fd));
	change(self->fd, EPOCHS);
	self->epoch[1] = kvt_stat(self->fd, KVTREE_STAT_LOG_DURABLE);
	self->digest[1] = kvt_digest(self->fd);
	ASSERT_EQ(0, detach());
	EXPECT_EQ(-ERANGE, attach(KVTREE_ATTACH_READ_ONLY, self->epoch[0]));
	EXPECT_EQ(-ERANGE, attach(KVTREE_ATTACH_READ_ONLY, self->epoch[EPOCHS - 1]));
	ASSERT_EQ(0, attach(KVTREE_ATTACH_READ_ONLY, self->epoch[1]));
	EXPECT_EQ(self->digest[1], kvt_digest(self->fd));
	EXPECT_EQ(0, detach());
}

/* An attach after which the list would have room for no other life makes a checkpoint before. */
TEST_F(read_only, each_epoch_behind_a_checkpoint_before_a_life_can_be_restored)
{
	int i, half = EPOCHS / 2;

	/* Larger disks: no life needs a checkpoint. */
	for (i = 0; i < self->nr; i++) {
		kvt_disk_remove(&self->disk[i]);
		kvt_disk_make(&self->disk[i], 1024, 512);
	}
	ASSERT_EQ(0, kvt_format(self->disk, self->nr));
	for (i = 0; i < (int)KVTREE_LOG_LIVES_MAX - 1; i++) {
		ASSERT_EQ(0, attach(0, 0));
		change(self->fd, i);
		ASSERT_EQ(0, detach());
	}
	ASSERT_EQ(0, attach(0, 0));
	EXPECT_EQ(1, kvt_stat(self->fd, KVTREE_STAT_LOG_CHECKPOINTS));
	self->epoch[0] = kvt_stat(self->fd, KVTREE_STAT_LOG_DURABLE);
	self->digest[0] = kvt_digest(self->fd);
	changes(1, half);
	ASSERT_EQ(0, detach());
	ASSERT_EQ(0, attach(0, 0));
	changes(half, EPOCHS);
	ASSERT_EQ(0, detach());
	restore_each(EPOCHS);
	EXPECT_EQ(-ERANGE, attach(KVTREE_ATTACH_READ_ONLY, self->epoch[0] - 1));
}

/* Change a byte in each copy of a value on the disks.  Returns the number of copies. */
static int spoil(const struct kvt_disk *disk, int nr, int change)
{
	char wanted[64], *image, *at;
	int i, found = 0;

	snprintf(wanted, sizeof(wanted), UNIQUE, change);
	for (i = 0; i < nr; i++) {
		image = kvt_disk_image(&disk[i]);
		at = image;
		while ((at = memmem(at, disk[i].bytes - (size_t)(at - image), wanted,
				    strlen(wanted)))) {
			kvt_disk_write(&disk[i], "X", 1, (size_t)(at++ - image));
			found++;
		}
		kvt_disk_free(&disk[i], image);
	}
	return found;
}

/* The life has ended: damage in its last epoch is not taken for its end. */
TEST_F(read_only, what_was_before_the_damage_can_be_restored)
{
	ASSERT_EQ(0, attach(0, 0));
	changes(0, EPOCHS);
	ASSERT_EQ(0, detach());
	ASSERT_LT(0, spoil(self->disk, self->nr, EPOCHS - 2));
	EXPECT_EQ(-EBADMSG, attach(0, 0));
	EXPECT_EQ(-EBADMSG, attach(KVTREE_ATTACH_READ_ONLY, 0));
	EXPECT_EQ(-EBADMSG, attach(KVTREE_ATTACH_READ_ONLY, self->epoch[EPOCHS - 1]));
	EXPECT_EQ(-EBADMSG, attach(KVTREE_ATTACH_READ_ONLY, self->epoch[EPOCHS - 2]));
	restore_each(EPOCHS - 2);
}

/* A life without an end, of which a commit record in the middle is damaged. */
TEST_F(read_only, a_crashed_life_can_be_restored_up_to_the_damage)
{
	void *image[DISKS] = { NULL };
	int i;

	ASSERT_EQ(0, attach(0, 0));
	changes(0, EPOCHS);
	kvt_disks_image(self->disk, self->nr, self->fd, image);
	ASSERT_EQ(0, detach());
	kvt_disks_restore(self->disk, self->nr, image);
	for (i = 0; i < self->nr; i++)
		kvt_disk_free(&self->disk[i], image[i]);
	ASSERT_LT(0, spoil(self->disk, self->nr, EPOCHS - 3));
	EXPECT_EQ(-EBADMSG, attach(0, 0));
	EXPECT_EQ(-EBADMSG, attach(KVTREE_ATTACH_READ_ONLY, self->epoch[EPOCHS - 3]));
	ASSERT_EQ(0, attach(KVTREE_ATTACH_READ_ONLY, self->epoch[EPOCHS - 4]));
	EXPECT_EQ(self->digest[EPOCHS - 4], kvt_digest(self->fd));
	EXPECT_EQ(0, detach());
	EXPECT_EQ(-ERANGE, attach(KVTREE_ATTACH_READ_ONLY, self->epoch[EPOCHS - 1] + 100));
}

TEST_HARNESS_MAIN
