// SPDX-License-Identifier: GPL-2.0
/*
 * The log's write side, on a small RAM disk: changes that are logged and not published, the epoch
 * of a change, commits without room, empty commits, and how segments are shared and reserved.
 */
#include <linux/blkdev.h>
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/major.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "base/park.h"
#include "lib.h"
#include "log/life.h"
#include "log/log.h"
#include "thread.h"
#include "value.h"

#define LW_SEGMENTS	64
#define LW_BLOCKS	512	/* of a segment; the disk has less than two */
#define LW_SMALL	128	/* of a segment where several are needed */
/* Segments with a fixed use. */
#define LW_STREAM	0
#define LW_COMMIT	1

/* A log that writes; its disk has no valid contents, and is not read. */
struct lw {
	struct kunit *test;
	struct kvt_checkpoints *cps;
	struct kvt_commits *commits;	/* a part of the checkpoints */
	struct kvt_log *log;		/* a part of the commits */
	struct kvt_stats stats;
	struct kvt_value *value;
	unsigned int idle_ms;		/* kvt_log_idle_ms before the test + 1; 0: unchanged */
};

static void lw_no_work(struct work_struct *work)
{
}

static void lw_free(void *arg)
{
	struct lw *lw = arg;
	struct kvt_log_dev *dev;
	u32 i;

	set_cpus_allowed_ptr(current, cpu_possible_mask);
	WRITE_ONCE(kvt_park_hook, NULL);
	if (lw->idle_ms)
		WRITE_ONCE(kvt_log_idle_ms, lw->idle_ms - 1);
	if (lw->log) {
		cancel_delayed_work_sync(&lw->log->state.commit);
		cancel_delayed_work_sync(&lw->log->state.checkpoint);
		cancel_delayed_work_sync(&lw->commits->idle);
		kvt_streams_exit(lw->log);
		kvt_log_queues_exit(lw->log);
		for (i = 0; i < lw->log->devs.nr; i++) {
			dev = &lw->log->devs.dev[i];
			kvfree(lw->log->space.part[i].segs.seg);
			kvfree(lw->commits->chain[i].trailer);
			kfree(dev->super);
			if (dev->file)
				bdev_fput(dev->file);
		}
		percpu_counter_destroy(&lw->log->space.live);
		kvt_image_exit(&lw->log->image);
	}
	kvfree(lw->cps);
	kvt_value_free(lw->value);
	kvt_stats_exit(&lw->stats);
}

static void lw_add_dev(struct lw *lw)
{
	struct kvt_log *log = lw->log;
	u32 i = log->devs.nr++;
	struct kvt_log_dev *dev = &log->devs.dev[i];
	struct kvt_part *part = &log->space.part[i];
	struct kvt_chain *chain = &lw->commits->chain[i];

	dev->devs = &log->devs;
	dev->index = i;
	part->space = &log->space;
	part->dev = dev;
	dev->super = kzalloc(sizeof(*dev->super), GFP_KERNEL);
	chain->commits = lw->commits;
	chain->part = part;
	chain->trailer = kvmalloc_array(KVTREE_LOG_TRAILER_MAX, KVTREE_LOG_BLOCK, GFP_KERNEL);
	chain->next = (struct kvt_log_pos) { .sequence = 1, .segment = LW_COMMIT, .block = 1 };
	part->segs.seg = kvcalloc(LW_SEGMENTS, sizeof(*part->segs.seg), GFP_KERNEL);
	KUNIT_ASSERT_TRUE(lw->test, dev->super && chain->trailer && part->segs.seg);
	dev->super->segment_blocks = cpu_to_le32(LW_BLOCKS);
	spin_lock_init(&part->segs.lock);
	/* No segment is free. */
	part->segs.nr = LW_SEGMENTS;
	for (i = 0; i < LW_SEGMENTS; i++)
		part->segs.seg[i].state = KVT_SEG_LOG;
}

static struct lw *lw_new(struct kunit *test)
{
	static const struct kvt_key key = KT_KEY("k");
	struct lw *lw = kunit_kzalloc(test, sizeof(*lw), GFP_KERNEL);
	struct kvt_log_directory dir = {};
	struct kvt_log *log;

	KUNIT_ASSERT_NOT_NULL(test, lw);
	lw->test = test;
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, lw_free, lw));
	KUNIT_ASSERT_EQ(test, 0, kvt_stats_init(&lw->stats));
	lw->value = kt_value_of(&key, "v", 1);
	lw->cps = kvzalloc(sizeof(*lw->cps), GFP_KERNEL);
	KUNIT_ASSERT_TRUE(test, lw->value && lw->cps);
	lw->commits = &lw->cps->commits;
	log = &lw->commits->log;
	KUNIT_ASSERT_EQ(test, 0, percpu_counter_init(&log->space.live, 0, GFP_KERNEL));
	lw->log = log;
	lw->value->version = 1;
	log->state.env.name = "test";
	log->state.env.stats = &lw->stats;
	log->devs.state = &log->state;
	log->space.state = &log->state;
	log->space.devs = &log->devs;
	mutex_init(&lw->commits->commit_lock);
	INIT_DELAYED_WORK(&log->state.commit, lw_no_work);
	INIT_DELAYED_WORK(&log->state.checkpoint, lw_no_work);
	INIT_DELAYED_WORK(&lw->commits->idle, lw_no_work);
	kvt_log_state_init(&log->state);
	log->state.lease = S64_MAX;
	log->state.epoch = 1;
	log->state.alive = true;
	lw_add_dev(lw);
	KUNIT_ASSERT_EQ(test, 0, kvt_log_queues_init(log));
	KUNIT_ASSERT_EQ(test, 0, kvt_streams_init(log));
	log->image.seed = kvt_log_key_seed(log->devs.dev[0].super);
	KUNIT_ASSERT_EQ(test, 0, kvt_image_init(&log->image, &dir));
	log->space.part[0].share = 1;
	log->space.shares = 1;
	log->space.any_max = S64_MAX;
	/* Stay on one CPU, and so with one stream. */
	KUNIT_ASSERT_EQ(test, 0, set_cpus_allowed_ptr(current, cpumask_of(0)));
	return lw;
}

/* Log a change of a key, and publish it or not.  Returns its epoch. */
static u64 lw_log(struct lw *lw, const char *name, bool published)
{
	const struct kvt_key key = KT_BYTES(name, strlen(name));
	struct kvt_log_note note;

	KUNIT_ASSERT_EQ(lw->test, 0, kvt_log_reserve(lw->log, &note, &key, NULL, lw->value));
	kvt_log_publish(&note, published);
	return note.epoch;
}

struct lw_seen {
	struct kvt_log_reader reader;
	u32 nr;
	u8 key[8];		/* key[0]: the first byte of the last key */
};

static int lw_see(struct kvt_log_reader *reader, const struct kvt_log_entry *entry)
{
	struct lw_seen *seen = container_of(reader, struct lw_seen, reader);

	seen->nr++;
	seen->key[0] = entry->key[0];
	return 0;
}

/* Read what a recovery would restore of the first buffer if it were written now. */
static struct lw_seen *lw_read(struct lw *lw)
{
	struct kvt_log_buf *buf = &lw->log->streams[0].buf[0];
	struct kvtree_log_chunk *head = (void *)buf->data;
	struct lw_seen *seen = kunit_kzalloc(lw->test, sizeof(*seen), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(lw->test, seen);
	seen->reader.entry = lw_see;
	seen->reader.set = &lw->log->devs.set;
	lw->log->devs.set.version_end = KVT_LOG_NUMBER_MAX;
	head->records_len = cpu_to_le32(buf->used);
	KUNIT_EXPECT_EQ(lw->test, 0, kvt_log_chunk_parse(&seen->reader, buf->data,
							 kvt_chunk_blocks(buf), KVT_LOG_CHANGES));
	return seen;
}

static void what_was_not_published_is_not_restored(struct kunit *test)
{
	struct lw *lw = lw_new(test);
	struct lw_seen *seen;
	s64 live;

	lw_log(lw, "a", true);
	live = percpu_counter_sum(&lw->log->space.live);
	lw_log(lw, "b", false);
	seen = lw_read(lw);
	KUNIT_EXPECT_EQ(test, 1, seen->nr);
	KUNIT_EXPECT_EQ(test, 'a', seen->key[0]);
	KUNIT_EXPECT_EQ(test, live, percpu_counter_sum(&lw->log->space.live));
	lw_log(lw, "c", true);
	seen = lw_read(lw);
	KUNIT_EXPECT_EQ(test, 2, seen->nr);
}

/* A commit closes this log's epoch while a writer has not reserved its room yet. */
static struct kvt_log *closing;

static void close_epoch(enum kvt_park at)
{
	if (at != KVT_PARK_LOG_RESERVE)
		return;
	WRITE_ONCE(kvt_park_hook, NULL);
	closing->state.closed = closing->state.epoch;
	WRITE_ONCE(closing->state.epoch, closing->state.epoch + 1);
}

static void a_change_belongs_to_the_epoch_that_is_open_when_it_has_room(struct kunit *test)
{
	struct lw *lw = lw_new(test);

	closing = lw->log;
	WRITE_ONCE(kvt_park_hook, close_epoch);
	/* The commit has sealed the buffers of epoch 1: a record added to it now would be lost. */
	KUNIT_EXPECT_EQ(test, 2, lw_log(lw, "a", true));
	KUNIT_EXPECT_EQ(test, 2, lw->log->streams[0].buf[0].epoch);
	KUNIT_EXPECT_EQ(test, 1, lw->log->state.closed);
}

/* The number of writers that have seen that there is room for one of them. */
static atomic_t growing;
static atomic_t grew_together;

static void grow_together(enum kvt_park at)
{
	if (at != KVT_PARK_LOG_GROW)
		return;
	atomic_inc(&growing);
	if (kt_await(atomic_read(&growing) >= 2))
		atomic_inc(&grew_together);
}

static int lw_grow(void *arg)
{
	static const struct kvt_key key = KT_KEY("k");
	struct lw *lw = arg;
	struct kvt_log_note note;
	int err = kvt_log_reserve(lw->log, &note, &key, NULL, lw->value);

	if (!err)
		kvt_log_publish(&note, true);
	return err;
}

static void writers_that_see_the_same_room_do_not_both_have_it(struct kunit *test)
{
	struct lw *lw = lw_new(test);
	struct kvt_log *log = lw->log;
	struct kvt_log_size size = kvt_log_size(1, lw->value);
	struct kt_thread writer[2];
	int i, err, grown = 0;

	kt_need_two_cpus(test);
	KUNIT_ASSERT_LE(test, 2, log->nr_streams);
	log->space.any_max = kvt_log_size_bytes(&size);
	log->space.small_max = 0;
	atomic_set(&growing, 0);
	atomic_set(&grew_together, 0);
	for (i = 0; i < 2; i++)
		KUNIT_ASSERT_EQ(test, 0, kt_thread_init(&writer[i], i, lw_grow, lw));
	WRITE_ONCE(kvt_park_hook, grow_together);
	for (i = 0; i < 2; i++)
		kt_thread_start(&writer[i]);
	for (i = 0; i < 2; i++) {
		err = kt_thread_join(&writer[i]);
		KUNIT_EXPECT_TRUE(test, !err || err == -ENOSPC);
		grown += !err;
	}
	WRITE_ONCE(kvt_park_hook, NULL);
	KUNIT_EXPECT_EQ(test, 2, atomic_read(&grew_together));
	KUNIT_EXPECT_GE(test, 1, grown);
	KUNIT_EXPECT_EQ(test, grown * log->space.any_max, percpu_counter_sum(&log->space.live));
	/* A writer that is refused leaves the room to others. */
	if (!grown)
		lw_log(lw, "k", true);
	KUNIT_EXPECT_EQ(test, -ENOSPC, lw_grow(lw));
	KUNIT_EXPECT_EQ(test, log->space.any_max, percpu_counter_sum(&log->space.live));
}

/* Let the log write to a RAM disk from here on. */
static void lw_open_disk(struct lw *lw)
{
	struct kvt_log_dev *dev;
	u32 i;

	for (i = 0; i < lw->log->devs.nr; i++) {
		dev = &lw->log->devs.dev[i];
		dev->file = bdev_file_open_by_dev(MKDEV(RAMDISK_MAJOR, i),
						  BLK_OPEN_READ | BLK_OPEN_WRITE, lw, NULL);
		if (IS_ERR(dev->file)) {
			dev->file = NULL;
			KUNIT_FAIL_AND_ABORT(lw->test, "needs RAM disks");
		}
		dev->bdev = file_bdev(dev->file);
	}
}

static void a_commit_without_room_for_one_stream_makes_nothing_durable(struct kunit *test)
{
	struct lw *lw = lw_new(test);
	struct kvt_log *log = lw->log;
	struct kvt_chain *chain = &lw->commits->chain[0];

	kt_need_two_cpus(test);
	KUNIT_ASSERT_LE(test, 2, log->nr_streams);
	lw_open_disk(lw);
	lw_log(lw, "a", true);
	KUNIT_ASSERT_EQ(test, 0, set_cpus_allowed_ptr(current, cpumask_of(1)));
	lw_log(lw, "b", true);
	/* The segment has room for one of the chunks; the other needs one, and none is free. */
	log->space.part[0].append.pos = (struct kvt_log_pos) {
		.segment = LW_STREAM, .block = LW_BLOCKS - 1
	};
	mutex_lock(&lw->commits->commit_lock);
	KUNIT_EXPECT_EQ(test, KVT_LOG_NO_ROOM, kvt_commit(lw->commits));
	KUNIT_EXPECT_EQ(test, 0, log->state.durable);
	KUNIT_EXPECT_EQ(test, 1, chain->next.block);
	KUNIT_EXPECT_TRUE(test, test_bit(KVT_LOG_FULL, &log->state.flags));
	KUNIT_EXPECT_EQ(test, -EAGAIN, kvt_log_synced(log, 1));
	/* Make room: the same epoch is committed. */
	log->space.part[0].append.pos.block = 100;
	KUNIT_EXPECT_EQ(test, 0, kvt_commit(lw->commits));
	KUNIT_EXPECT_EQ(test, 1, log->state.durable);
	KUNIT_EXPECT_EQ(test, 0, kvt_log_synced(log, 1));
	KUNIT_EXPECT_EQ(test, 2, chain->next.block);
	mutex_unlock(&lw->commits->commit_lock);
}

/* The number of extents that the last commit has listed. */
static u32 lw_listed(const struct lw *lw)
{
	return le32_to_cpu(lw->commits->chain[0].trailer->nr_extents);
}

static void a_commit_looks_only_at_streams_with_records(struct kunit *test)
{
	struct lw *lw = lw_new(test);
	struct kvt_log *log = lw->log;

	kt_need_two_cpus(test);
	KUNIT_ASSERT_LE(test, 2, log->nr_streams);
	lw_open_disk(lw);
	log->space.part[0].append.pos = (struct kvt_log_pos) {
		.segment = LW_STREAM, .block = 1
	};
	log->state.lease = 10;
	lw_log(lw, "a", true);
	/* If the commit looked at the other stream, the lease would go beyond this version. */
	log->streams[1].max_version = S64_MAX / 2;
	mutex_lock(&lw->commits->commit_lock);
	KUNIT_EXPECT_EQ(test, 0, kvt_commit(lw->commits));
	KUNIT_EXPECT_EQ(test, 1, lw_listed(lw));
	KUNIT_EXPECT_LT(test, 10, log->state.lease);
	KUNIT_EXPECT_GT(test, S64_MAX / 2, log->state.lease);
	KUNIT_EXPECT_TRUE(test, bitmap_empty(log->dirty, KVTREE_LOG_STREAMS_MAX));
	mutex_unlock(&lw->commits->commit_lock);
}

/* A writer comes after its epoch is closed and before the commit ends. */
static void a_stream_with_records_of_the_next_epoch_is_not_forgotten(struct kunit *test)
{
	struct lw *lw = lw_new(test);
	struct kvt_log *log = lw->log;

	lw_open_disk(lw);
	log->space.part[0].append.pos = (struct kvt_log_pos) {
		.segment = LW_STREAM, .block = 1
	};
	lw_log(lw, "a", true);
	log->state.closed = log->state.epoch;
	WRITE_ONCE(log->state.epoch, log->state.epoch + 1);
	KUNIT_EXPECT_EQ(test, 2, lw_log(lw, "b", true));
	mutex_lock(&lw->commits->commit_lock);
	KUNIT_EXPECT_EQ(test, 0, kvt_commit(lw->commits));
	KUNIT_EXPECT_EQ(test, 1, log->state.durable);
	KUNIT_EXPECT_EQ(test, 1, lw_listed(lw));
	KUNIT_EXPECT_EQ(test, 0, kvt_commit(lw->commits));
	KUNIT_EXPECT_EQ(test, 2, log->state.durable);
	KUNIT_EXPECT_EQ(test, 1, lw_listed(lw));
	KUNIT_EXPECT_TRUE(test, bitmap_empty(log->dirty, KVTREE_LOG_STREAMS_MAX));
	mutex_unlock(&lw->commits->commit_lock);
}

/* Commit.  Returns on which devices. */
static u32 lw_commit(struct lw *lw)
{
	mutex_lock(&lw->commits->commit_lock);
	KUNIT_EXPECT_EQ(lw->test, 0, kvt_commit(lw->commits));
	mutex_unlock(&lw->commits->commit_lock);
	return lw->commits->devices;
}

static void an_epoch_is_written_to_devices_that_have_a_part_of_it(struct kunit *test)
{
	struct lw *lw = lw_new(test);
	struct kvt_log *log = lw->log;
	const struct kvtree_log_trailer *t = lw->commits->chain[0].trailer;
	const struct kvt_log_pos at = lw->commits->chain[0].next;

	/* No stream is on this one. */
	lw_add_dev(lw);
	lw_open_disk(lw);
	log->space.part[0].append.pos = (struct kvt_log_pos) {
		.segment = LW_STREAM, .block = 1
	};
	lw_log(lw, "a", true);
	KUNIT_EXPECT_EQ(test, BIT(0), lw_commit(lw));
	KUNIT_EXPECT_EQ(test, 2, lw->commits->chain[0].next.block);
	KUNIT_EXPECT_EQ(test, 1, lw->commits->chain[1].next.block);
	KUNIT_EXPECT_EQ(test, BIT(0), t->devices);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(t->head_crc),
			kvt_log_trailer_head_crc(log->devs.dev[0].super, log->devs.generation, &at,
						 t));
	KUNIT_EXPECT_EQ(test, 1, kvt_stats_read(&lw->stats, KVTREE_STAT_LOG_FLUSHES));
	/* Nobody has a part of it. */
	KUNIT_EXPECT_EQ(test, BIT(0) | BIT(1), lw_commit(lw));
	KUNIT_EXPECT_EQ(test, 3, lw->commits->chain[0].next.block);
	KUNIT_EXPECT_EQ(test, 2, lw->commits->chain[1].next.block);
	KUNIT_EXPECT_EQ(test, 3, kvt_stats_read(&lw->stats, KVTREE_STAT_LOG_FLUSHES));
	/* Its lease is a new one. */
	log->state.lease = lw->value->version + 1;
	lw_log(lw, "b", true);
	KUNIT_EXPECT_EQ(test, BIT(0) | BIT(1), lw_commit(lw));
	KUNIT_EXPECT_EQ(test, 5, kvt_stats_read(&lw->stats, KVTREE_STAT_LOG_FLUSHES));
	lw_log(lw, "c", true);
	KUNIT_EXPECT_EQ(test, BIT(0), lw_commit(lw));
}

static void one_flush_is_enough_for_all_that_ask_before_it_begins(struct kunit *test)
{
	struct lw *lw = lw_new(test);
	struct kvt_devs *devs = &lw->log->devs;
	struct kvt_devs *other = kunit_kzalloc(test, sizeof(*other), GFP_KERNEL);
	u64 begun[KVTREE_LOG_DEVS_MAX];

	KUNIT_ASSERT_NOT_NULL(test, other);
	lw_open_disk(lw);
	*other = *devs;
	other->dev[0].devs = other;
	KUNIT_EXPECT_EQ(test, 0, kvt_disks_use(devs));
	KUNIT_EXPECT_EQ(test, 0, kvt_disks_use(other));
	kvt_disks_ask(devs, begun);
	KUNIT_EXPECT_FALSE(test, kvt_disks_flushed(devs, 1, begun));
	KUNIT_EXPECT_EQ(test, 0, kvt_devs_flush(other));
	KUNIT_EXPECT_TRUE(test, kvt_disks_flushed(devs, 1, begun));
	/* A flush that has begun before. */
	kvt_disks_begin(other, 1);
	kvt_disks_ask(devs, begun);
	kvt_disks_end(other, 1);
	KUNIT_EXPECT_FALSE(test, kvt_disks_flushed(devs, 1, begun));
	/* A flush that fails. */
	kvt_disks_begin(other, 1);
	KUNIT_EXPECT_FALSE(test, kvt_disks_flushed(devs, 1, begun));
	kvt_disks_leave(other);
	kvt_disks_leave(devs);
}

/* A commit flushes only the devices that have a part of the epoch. */
static void a_flush_of_a_disk_does_not_count_for_others(struct kunit *test)
{
	struct lw *lw = lw_new(test);
	struct kvt_devs *devs = &lw->log->devs;
	struct block_device *bdev = kunit_kcalloc(test, 3, sizeof(*bdev), GFP_KERNEL);
	struct gendisk *disk = kunit_kcalloc(test, 2, sizeof(*disk), GFP_KERNEL);
	u64 begun[KVTREE_LOG_DEVS_MAX];
	u32 i, one, other;

	KUNIT_ASSERT_TRUE(test, bdev && disk);
	/* The first and the last device are on the same disk. */
	for (i = 0; i < 3; i++) {
		bdev[i].bd_disk = &disk[i % 2];
		devs->dev[i].bdev = &bdev[i];
	}
	devs->nr = 3;
	KUNIT_EXPECT_EQ(test, 0, kvt_disks_use(devs));
	one = kvt_disks_of(devs, BIT(0));
	other = kvt_disks_of(devs, BIT(1));
	KUNIT_EXPECT_EQ(test, 3, one | other);
	KUNIT_EXPECT_EQ(test, 0, one & other);
	KUNIT_EXPECT_EQ(test, one, kvt_disks_of(devs, BIT(2)));
	KUNIT_EXPECT_EQ(test, 3, kvt_disks_of(devs, kvt_devs_all(devs)));
	kvt_disks_ask(devs, begun);
	kvt_disks_lock(devs, one);
	kvt_disks_begin(devs, one);
	kvt_disks_end(devs, one);
	kvt_disks_unlock(devs, one);
	KUNIT_EXPECT_TRUE(test, kvt_disks_flushed(devs, one, begun));
	KUNIT_EXPECT_FALSE(test, kvt_disks_flushed(devs, other, begun));
	KUNIT_EXPECT_FALSE(test, kvt_disks_flushed(devs, one | other, begun));
	kvt_disks_leave(devs);
	devs->nr = 1;
}

struct flusher {
	struct kvt_devs *devs;
	bool begun;
};

static int flusher_run(void *arg)
{
	struct flusher *flusher = arg;

	WRITE_ONCE(flusher->begun, true);
	return kvt_devs_flush(flusher->devs);
}

/* Wait until a thread waits for the disk. */
static bool flusher_waits(const struct kt_thread *thread, const struct flusher *flusher)
{
	unsigned int turns;

	for (turns = 0; turns < KT_TURNS_MAX; turns++) {
		if (READ_ONCE(flusher->begun) &&
		    READ_ONCE(thread->task->__state) == TASK_UNINTERRUPTIBLE)
			return true;
		usleep_range(1000, 2000);
	}
	return false;
}

static void a_log_that_has_waited_for_a_later_flush_needs_none(struct kunit *test)
{
	struct lw *lw = lw_new(test);
	struct kvt_devs *devs = &lw->log->devs;
	struct flusher flusher = { .devs = devs };
	struct kt_thread thread;

	lw_open_disk(lw);
	KUNIT_EXPECT_EQ(test, 0, kvt_disks_use(devs));
	KUNIT_ASSERT_EQ(test, 0, kt_thread_init(&thread, 0, flusher_run, &flusher));
	kvt_disks_lock(devs, 1);
	kt_thread_start(&thread);
	KUNIT_EXPECT_TRUE(test, flusher_waits(&thread, &flusher));
	kvt_disks_begin(devs, 1);
	kvt_disks_end(devs, 1);
	kvt_disks_unlock(devs, 1);
	KUNIT_EXPECT_EQ(test, 0, kt_thread_join(&thread));
	KUNIT_EXPECT_EQ(test, 0, kvt_stats_read(&lw->stats, KVTREE_STAT_LOG_FLUSHES));
	KUNIT_EXPECT_EQ(test, 0, kvt_devs_flush(devs));
	KUNIT_EXPECT_EQ(test, 1, kvt_stats_read(&lw->stats, KVTREE_STAT_LOG_FLUSHES));
	kvt_disks_leave(devs);
}

/* The commit fails before it changes anything, so nothing has to be finished later. */
static void a_commit_without_room_for_its_record_closes_no_epoch(struct kunit *test)
{
	struct lw *lw = lw_new(test);
	struct kvt_log *log = lw->log;
	struct kvt_chain *chain = &lw->commits->chain[0];

	lw_log(lw, "a", true);
	chain->next.block = LW_BLOCKS - 2 * KVTREE_LOG_TRAILER_MAX + 1;
	mutex_lock(&lw->commits->commit_lock);
	KUNIT_EXPECT_EQ(test, KVT_LOG_NO_ROOM, kvt_commit(lw->commits));
	mutex_unlock(&lw->commits->commit_lock);
	KUNIT_EXPECT_EQ(test, 1, log->state.epoch);
	KUNIT_EXPECT_EQ(test, 0, log->state.closed);
	KUNIT_EXPECT_EQ(test, 0, log->state.error);
	KUNIT_EXPECT_TRUE(test, test_bit(KVT_LOG_FULL, &log->state.flags));
}

static int lw_wait_space(void *arg)
{
	return kvt_log_wait_space(arg);
}

/*
 * A writer need not try again before there is a commit, and possibly no other writer asks for one.
 * All versions given out are far below the one that this writer asks for.
 */
static void versions_beyond_the_lease_wait_for_a_commit(struct kunit *test)
{
	const struct kvt_key key = KT_KEY("k");
	struct lw *lw = lw_new(test);
	struct kvt_log *log = lw->log;
	struct kvt_log_note note;
	struct kt_thread writer;
	int i;

	lw_open_disk(lw);
	lw->value->version = 1ULL << 40;
	log->state.lease = lw->value->version;
	KUNIT_EXPECT_EQ(test, -EAGAIN, kvt_log_reserve(log, &note, &key, NULL, lw->value));
	KUNIT_EXPECT_FALSE(test, kvt_log_has_space(log));
	KUNIT_EXPECT_TRUE(test, test_bit(KVT_LOG_DIRTY, &log->state.flags));
	KUNIT_ASSERT_EQ(test, 0, kt_thread_init(&writer, 0, lw_wait_space, log));
	kt_thread_start(&writer);
	while (!wq_has_sleeper(&log->state.space_event.head) && !completion_done(&writer.done))
		schedule_timeout_uninterruptible(1);
	mutex_lock(&lw->commits->commit_lock);
	KUNIT_EXPECT_EQ(test, 0, kvt_commit(lw->commits));
	mutex_unlock(&lw->commits->commit_lock);
	KUNIT_EXPECT_LT(test, lw->value->version, log->state.lease);
	KUNIT_EXPECT_TRUE(test, kvt_log_has_space(log));
	/* The commit has woken the writer. */
	for (i = 0; i < 60 * HZ && !completion_done(&writer.done); i++)
		schedule_timeout_uninterruptible(1);
	KUNIT_EXPECT_TRUE(test, completion_done(&writer.done));
	kvt_event_wake(&log->state.space_event);
	KUNIT_EXPECT_EQ(test, 0, kt_thread_join(&writer));
	lw_log(lw, "k", true);
}

/* Whether waking for a stream wakes the only waiter, which is asleep or will look for room. */
static bool lw_wakes(struct lw *lw, u32 stream)
{
	struct wait_queue_head *head = &lw->log->state.space_event.head;
	bool woken;

	spin_lock_irq(&head->lock);
	__wake_up_locked_key(head, TASK_NORMAL, &lw->log->streams[stream]);
	/* Who is woken cannot join the queue again before it is unlocked. */
	woken = list_empty(&head->head);
	spin_unlock_irq(&head->lock);
	return woken;
}

static void room_in_another_stream_wakes_no_writer(struct kunit *test)
{
	struct lw *lw = lw_new(test);
	struct kvt_log *log = lw->log;
	struct kt_thread writer;
	int i;

	kt_need_two_cpus(test);
	KUNIT_ASSERT_LE(test, 2, log->nr_streams);
	WRITE_ONCE(log->streams[0].sealed, KVT_LOG_SEALED_BYTES);
	KUNIT_ASSERT_EQ(test, 0, kt_thread_init(&writer, 0, lw_wait_space, log));
	kt_thread_start(&writer);
	while (!wq_has_sleeper(&log->state.space_event.head) && !completion_done(&writer.done))
		schedule_timeout_uninterruptible(1);
	KUNIT_EXPECT_FALSE(test, lw_wakes(lw, 1));
	KUNIT_EXPECT_FALSE(test, completion_done(&writer.done));
	WRITE_ONCE(log->streams[0].sealed, 0);
	kvt_event_wake_for(&log->state.space_event, &log->streams[0]);
	for (i = 0; i < 60 * HZ && !completion_done(&writer.done); i++)
		schedule_timeout_uninterruptible(1);
	KUNIT_EXPECT_TRUE(test, completion_done(&writer.done));
	kvt_event_wake(&log->state.space_event);
	KUNIT_EXPECT_EQ(test, 0, kt_thread_join(&writer));
}

/* Make a change, and commit it. */
static void lw_change(struct lw *lw)
{
	lw_log(lw, "a", true);
	mutex_lock(&lw->commits->commit_lock);
	KUNIT_ASSERT_EQ(lw->test, 0, kvt_commit(lw->commits));
	mutex_unlock(&lw->commits->commit_lock);
}

/*
 * Run the idle work as if the last commit was long ago, or just now.  Returns whether it has queued
 * itself again.
 */
static bool lw_idle(struct lw *lw, bool long_ago)
{
	struct kvt_commits *commits = lw->commits;

	cancel_delayed_work_sync(&commits->idle);
	commits->committed = jiffies;
	if (long_ago)
		commits->committed -= msecs_to_jiffies(kvt_log_idle_ms);
	kvt_idle_work(&commits->idle.work);
	return delayed_work_pending(&commits->idle);
}

static struct lw *lw_new_idle(struct kunit *test)
{
	struct lw *lw = lw_new(test);

	lw_open_disk(lw);
	lw->log->space.part[0].append.pos = (struct kvt_log_pos) {
		.segment = LW_STREAM, .block = 1
	};
	/* The work must not run by itself during the test. */
	lw->idle_ms = kvt_log_idle_ms + 1;
	WRITE_ONCE(kvt_log_idle_ms, 60000);
	return lw;
}

/* A commit with records is followed by an empty one, and that by none. */
static void an_idle_log_has_one_empty_epoch_at_its_end(struct kunit *test)
{
	struct lw *lw = lw_new_idle(test);
	struct kvt_log *log = lw->log;

	KUNIT_EXPECT_FALSE(test, lw_idle(lw, true));
	KUNIT_EXPECT_EQ(test, 0, log->state.durable);
	lw_change(lw);
	KUNIT_EXPECT_EQ(test, 1, log->state.durable);
	KUNIT_EXPECT_TRUE(test, delayed_work_pending(&lw->commits->idle));
	KUNIT_EXPECT_FALSE(test, lw_idle(lw, true));
	KUNIT_EXPECT_EQ(test, 2, log->state.durable);
	KUNIT_EXPECT_EQ(test, 3, lw->commits->chain[0].next.block);
	KUNIT_EXPECT_FALSE(test, lw_idle(lw, true));
	KUNIT_EXPECT_EQ(test, 2, log->state.durable);
	lw_change(lw);
	KUNIT_EXPECT_TRUE(test, delayed_work_pending(&lw->commits->idle));
	KUNIT_EXPECT_FALSE(test, lw_idle(lw, true));
	KUNIT_EXPECT_EQ(test, 4, log->state.durable);
}

static void a_log_that_is_not_idle_has_no_empty_epochs(struct kunit *test)
{
	struct lw *lw = lw_new_idle(test);
	struct kvt_log *log = lw->log;

	lw_change(lw);
	KUNIT_EXPECT_TRUE(test, lw_idle(lw, false));
	/* Another commit is in progress. */
	mutex_lock(&lw->commits->commit_lock);
	KUNIT_EXPECT_TRUE(test, lw_idle(lw, true));
	mutex_unlock(&lw->commits->commit_lock);
	/* A new change will be committed anyway. */
	lw_log(lw, "b", true);
	KUNIT_EXPECT_FALSE(test, lw_idle(lw, true));
	KUNIT_EXPECT_EQ(test, 1, log->state.durable);
	lw_change(lw);
	KUNIT_EXPECT_TRUE(test, delayed_work_pending(&lw->commits->idle));
	/* If there is no room, it makes no writer wait, nor does it ask for a checkpoint. */
	lw->commits->chain[0].next.block = LW_BLOCKS - 2 * KVTREE_LOG_TRAILER_MAX + 1;
	KUNIT_EXPECT_FALSE(test, lw_idle(lw, true));
	KUNIT_EXPECT_FALSE(test, test_bit(KVT_LOG_FULL, &log->state.flags));
	KUNIT_EXPECT_FALSE(test, delayed_work_pending(&log->state.checkpoint));
	log->state.error = -EIO;
	lw->commits->chain[0].next.block = 3;
	KUNIT_EXPECT_FALSE(test, lw_idle(lw, true));
	KUNIT_EXPECT_EQ(test, 2, log->state.durable);
}

static int pause_at_third(void *arg)
{
	u32 *seen = arg;

	return ++*seen == 3 ? -ESTALE : 0;
}

/* The destruction of a store does not wait until all of it is counted. */
static void a_recount_ends_when_it_is_told(struct kunit *test)
{
	struct kt *kt = kt_open_engine(test, &kvt_masstree_ops, U64_MAX);
	struct lw *lw = lw_new(test);
	struct kvt_live live;
	u32 seen = 0;
	char c;

	for (c = 'a'; c <= 'z'; c++)
		KUNIT_ASSERT_EQ(test, 0, kt_put(kt, &KT_BYTES(&c, 1), NULL));
	lw->log->state.env.index = kt->index;
	KUNIT_EXPECT_EQ(test, -ESTALE, kvt_log_recount(lw->log, pause_at_third, &seen, &live));
	KUNIT_EXPECT_EQ(test, 3, seen);
}

/* Blocks of the smallest extent, which may have two of padding: see durable_room.c. */
#define LW_EXTENT	42
/* Workers; each may write one smaller extent. */
#define LW_SAVERS	8

/* Devices of all sizes, with segments of all sizes. */
static void a_table_describes_all_that_a_store_may_hold(struct kunit *test)
{
	struct lw *lw = lw_new(test);
	struct kvt_part *part = &lw->log->space.part[0];
	u64 extents, least, room, max;
	u32 size, nr;

	for (size = KVTREE_LOG_SEGMENT_MIN; size <= KVTREE_LOG_SEGMENT_MAX; size *= 2) {
		extents = ((u64)(size - 1) * KVTREE_LOG_BLOCK - sizeof(struct kvtree_log_table)) /
			  sizeof(struct kvtree_log_extent);
		for (nr = 1024; nr < 1U << 30; nr *= 2) {
			part->dev->super->segment_blocks = cpu_to_le32(size);
			part->segs.nr = nr;
			kvt_room_init(&lw->log->space, lw->log->nr_streams);
			least = (u64)LW_EXTENT * KVTREE_LOG_BLOCK;
			max = kvt_room_live_max(&lw->log->space);
			KUNIT_EXPECT_LE(test, max / least + LW_SAVERS, extents);
			/* And the store may hold as much as two checkpoints have room for. */
			room = (u64)nr * size * KVTREE_LOG_BLOCK / 4;
			KUNIT_EXPECT_LE(test, min(room, extents * least / 4 * 3),
					lw->log->space.any_max);
		}
	}
	part->segs.nr = LW_SEGMENTS;
}

/* The bytes of small records that a segment holds at least. */
static u64 lw_segment(const struct kvt_part *part)
{
	return (u64)le32_to_cpu(part->dev->super->segment_blocks) * KVTREE_LOG_BLOCK -
	       KVT_SAVE_CHUNK_SMALL;
}

/* A checkpoint gets all segments that it may need, even if it has taken some of them already. */
static void what_others_leave_is_enough_for_a_checkpoint(struct kunit *test)
{
	struct lw *lw = lw_new(test);
	struct kvt_part *part = &lw->log->space.part[0];
	u32 nr, fourths, need, keep, i;
	u64 live;

	for (nr = 64; nr < 1U << 20; nr *= 4) {
		part->segs.nr = nr;
		kvt_room_init(&lw->log->space, lw->log->nr_streams);
		/* A store filled on a machine with fewer CPUs may exceed what is allowed. */
		for (fourths = 0; fourths <= 5; fourths++) {
			live = kvt_room_live_max(&lw->log->space) / 4 * fourths;
			percpu_counter_set(&lw->log->space.live, live);
			/* One more for the directory and the table. */
			need = DIV_ROUND_UP_ULL(live, lw_segment(part)) + 1;
			keep = kvt_room_keep(part, KVT_ROOM_COMMIT);
			KUNIT_EXPECT_LT(test, need, keep);
			KUNIT_EXPECT_LT(test, keep, kvt_room_keep(part, KVT_ROOM_STREAM));
			/* The segments that bases have will become free. */
			for (i = 1; lw->log->space.steps && i <= need; i++) {
				part->segs.nr_base = i;
				KUNIT_EXPECT_EQ(test, keep - i,
						kvt_room_keep(part, KVT_ROOM_COMMIT));
			}
			/* Steps need some, however many others they free. */
			part->segs.nr_base = nr;
			KUNIT_EXPECT_LT(test, 0, kvt_room_keep(part, KVT_ROOM_COMMIT));
			part->segs.nr_base = 0;
		}
	}
	part->segs.nr = LW_SEGMENTS;
}

/* What a step may write fits, with padding, between what is free and what it must leave. */
static void a_step_leaves_the_room_for_its_end(struct kunit *test)
{
	const struct kvt_room_step first = {}, late = { .tries = 1 }, tried = { .tries = 2 };
	struct lw *lw = lw_new(test);
	struct kvt_space *space = &lw->log->space;
	struct kvt_part *part = &space->part[0];
	u32 was = part->segs.nr_free, keep, left;
	u64 room;

	part->dev->super->segment_blocks = cpu_to_le32(KVTREE_LOG_SEGMENT_MIN);
	part->segs.full = true;
	part->segs.saving = true;
	/* More is live than there is room for. */
	percpu_counter_set(&space->live, LW_SEGMENTS * lw_segment(part));
	for (part->segs.nr_free = 0; part->segs.nr_free < LW_SEGMENTS; part->segs.nr_free++) {
		room = kvt_room_step(space, &first);
		keep = kvt_room_keep(part, KVT_ROOM_BASES) + KVT_PLACES;
		left = part->segs.nr_free > keep ? part->segs.nr_free - keep : 0;
		KUNIT_EXPECT_EQ(test, left, !!room * left);
		KUNIT_EXPECT_LE(test, room + room / (LW_EXTENT / 2),
				left * kvt_room_segment(part, kvt_room_small(space)));
		KUNIT_EXPECT_EQ(test, room / 4, kvt_room_step(space, &tried));
		space->directory = room - room / 2;
		KUNIT_EXPECT_EQ(test, room / 2, kvt_room_step(space, &first));
		space->directory = left * kvt_room_segment(part, kvt_room_small(space));
		KUNIT_EXPECT_EQ(test, 0, kvt_room_step(space, &first));
		space->directory = 0;
	}
	/* Then there is room for everything. */
	percpu_counter_set(&space->live, 0);
	kvt_room_step_rest(space, false);
	part->segs.nr_free = kvt_room_keep(part, KVT_ROOM_BASES) + KVT_PLACES;
	KUNIT_EXPECT_EQ(test, U64_MAX, kvt_room_step(space, &first));
	KUNIT_EXPECT_NE(test, U64_MAX, kvt_room_step(space, &late));
	part->segs.nr_free = was;
}

/*
 * While writers go on, a step leaves room for its end and for that of the next one; once they are
 * stopped, for commit records.  Before a life begins, nothing is committed.
 */
static void a_step_leaves_less_once_writers_are_stopped(struct kunit *test)
{
	const struct kvt_room_step goes = {}, stopped = { .stopped = true };
	struct lw *lw = lw_new(test);
	struct kvt_space *space = &lw->log->space;
	struct kvt_part *part = &space->part[0];
	bool was = space->steps;
	u32 keep, logs;

	space->steps = true;
	logs = kvt_room_keep(part, KVT_ROOM_COMMIT);
	part->segs.full = true;
	part->segs.saving = true;
	KUNIT_EXPECT_LT(test, logs, kvt_room_keep(part, KVT_ROOM_COMMIT));
	percpu_counter_set(&space->live, LW_SEGMENTS * lw_segment(part));
	kvt_room_step(space, &stopped);
	keep = kvt_room_keep(part, KVT_ROOM_BASES);
	kvt_room_step(space, &goes);
	KUNIT_EXPECT_LT(test, keep, kvt_room_keep(part, KVT_ROOM_BASES));
	kvt_room_step_rest(space, true);
	KUNIT_EXPECT_GT(test, keep, kvt_room_keep(part, KVT_ROOM_BASES));
	KUNIT_EXPECT_LT(test, 0, kvt_room_keep(part, KVT_ROOM_BASES));
	lw->log->state.alive = false;
	KUNIT_EXPECT_EQ(test, 0, kvt_room_keep(part, KVT_ROOM_BASES));
	space->steps = was;
}

/*
 * While a step takes segments, streams and commits leave those that it has yet to take.  If writers
 * go on, it is made smaller, so that they get some.
 */
static void what_a_step_may_take_streams_leave(struct kunit *test)
{
	const struct kvt_room_step goes = {}, stopped = { .stopped = true };
	struct lw *lw = lw_new(test);
	struct kvt_space *space = &lw->log->space;
	struct kvt_seg_table *segs = &space->part[0].segs;
	u32 was = segs->nr_free, nr, keep;
	bool steps = space->steps;
	struct kvt_log_pos pos;

	space->steps = true;
	space->part[0].dev->super->segment_blocks = cpu_to_le32(KVTREE_LOG_SEGMENT_MIN);
	for (nr = 0; nr < LW_SEGMENTS; nr++)
		segs->seg[nr].state = KVT_SEG_FREE;
	segs->nr_free = LW_SEGMENTS;
	segs->full = true;
	segs->saving = true;
	segs->nr_base = LW_SEGMENTS;
	WRITE_ONCE(kvt_log_step_segments, 0);
	/* More is live than there is room for. */
	percpu_counter_set(&space->live, LW_SEGMENTS * lw_segment(&space->part[0]));
	kvt_room_step(space, &stopped);
	KUNIT_EXPECT_LE(test, segs->nr_free, kvt_room_keep(&space->part[0], KVT_ROOM_COMMIT));
	kvt_room_step(space, &goes);
	KUNIT_EXPECT_GT(test, segs->nr_free, kvt_room_keep(&space->part[0], KVT_ROOM_COMMIT));
	keep = segs->leave;
	for (nr = 0; !kvt_segs_take(segs, keep, KVT_SEG_NEW, &pos); nr++)
		KUNIT_EXPECT_LE(test, min(segs->nr_free, segs->planned + keep),
				kvt_room_keep(&space->part[0], KVT_ROOM_COMMIT));
	KUNIT_EXPECT_LT(test, 0, nr);
	KUNIT_EXPECT_EQ(test, 0, segs->planned);
	WRITE_ONCE(kvt_log_step_segments, 1);
	kvt_segs_step_end(segs, 0, false, true);
	KUNIT_EXPECT_EQ(test, 0, segs->planned + segs->leave);
	space->steps = steps;
	segs->nr_base = 0;
	segs->nr_free = was;
}

/* Each step writes the whole directory.  If it wrote little else, all of them would write much. */
static void a_step_writes_more_than_a_directory(struct kunit *test)
{
	const struct kvt_room_step step = {};
	struct lw *lw = lw_new(test);
	struct kvt_space *space = &lw->log->space;
	struct kvt_part *part = &space->part[0];
	u32 was = part->segs.nr_free;
	bool steps = space->steps;
	u64 segment;

	space->steps = true;
	part->dev->super->segment_blocks = cpu_to_le32(KVTREE_LOG_SEGMENT_MIN);
	segment = kvt_part_segment(part);
	percpu_counter_set(&space->live, 100000 * segment);
	part->segs.full = true;
	part->segs.nr_free = 1000;
	for (; space->directory < 100 * segment; space->directory += segment / 3)
		KUNIT_EXPECT_GE(test, kvt_room_step(space, &step), space->directory / 2);
	space->directory = 0;
	space->steps = steps;
	part->segs.nr_free = was;
}

/* Whether they have made steps does not matter: these may write the same again and again. */
static void checkpoints_without_room_are_counted_unless_they_make_some(struct kunit *test)
{
	static const struct {
		int err;
		u32 free;
		u32 counted;
	} attempts[] = {
		{ KVT_LOG_NO_ROOM, 10, 1 },
		{ KVT_LOG_NO_ROOM, 12, 1 },
		{ KVT_LOG_NO_ROOM, 12, 2 },
		{ KVT_LOG_NO_ROOM, 11, 3 },
		{ KVT_LOG_NO_ROOM, 12, 4 },
		{ -EINTR, 20, 4 },
		{ KVT_LOG_NO_ROOM, 13, 4 },
		{ 0, 30, 0 },
		{ KVT_LOG_NO_ROOM, 5, 1 },
		{ KVT_LOG_NO_ROOM, 6, 1 },
		{ KVT_LOG_NO_ROOM, 6, 2 },
	};
	struct lw *lw = lw_new(test);
	struct kvt_part *part = &lw->log->space.part[0];
	u32 was = part->segs.nr_free, i;

	/* Only count them. */
	set_bit(KVT_LOG_CLOSED, &lw->log->state.flags);
	for (i = 0; i < ARRAY_SIZE(attempts); i++) {
		part->segs.nr_free = attempts[i].free;
		kvt_checkpoint_judge(lw->cps, attempts[i].err);
		KUNIT_EXPECT_EQ_MSG(test, attempts[i].counted, lw->cps->no_room, "attempt %u", i);
	}
	part->segs.nr_free = was;
}

/* A stream's records enlarge the next checkpoint on all devices, so all must have room for it. */
static void a_stream_takes_a_segment_if_all_devices_have_room(struct kunit *test)
{
	struct lw *lw = lw_new(test);
	struct kvt_log *log = lw->log;
	struct kvt_part *part = log->space.part;
	struct kvt_log_pos pos;
	u32 least;

	lw_open_disk(lw);
	lw_add_dev(lw);
	part[0].share = 1;
	part[1].share = 1;
	log->space.shares = 2;
	/* All segments of the first device count as free; one really is. */
	part[0].segs.seg[LW_STREAM].state = KVT_SEG_FREE;
	part[0].segs.nr_free = LW_SEGMENTS;
	least = kvt_room_keep(&part[1], KVT_ROOM_COMMIT);
	KUNIT_ASSERT_GT(test, LW_SEGMENTS, kvt_room_keep(&part[0], KVT_ROOM_STREAM));
	part[1].segs.nr_free = least - 1;
	KUNIT_EXPECT_EQ(test, KVT_LOG_NO_ROOM, kvt_room_take(&part[0], KVT_ROOM_STREAM, 0, &pos));
	KUNIT_EXPECT_TRUE(test, test_bit(KVT_LOG_FULL, &log->state.flags));
	KUNIT_EXPECT_EQ(test, LW_SEGMENTS, part[0].segs.nr_free);
	part[1].segs.nr_free = least;
	KUNIT_EXPECT_EQ(test, 0, kvt_room_take(&part[0], KVT_ROOM_STREAM, 0, &pos));
	KUNIT_EXPECT_EQ(test, LW_STREAM, pos.segment);
}

static atomic_t lw_asked;

static void lw_count_work(struct work_struct *work)
{
	atomic_inc(&lw_asked);
}

/* How often a checkpoint is asked for when a segment is taken of this many free ones. */
static int lw_take_of(struct lw *lw, enum kvt_room room, u32 nr)
{
	struct kvt_log_state *state = &lw->log->state;
	struct kvt_part *part = &lw->log->space.part[0];
	struct kvt_log_pos pos;

	part->segs.seg[LW_STREAM].state = KVT_SEG_FREE;
	part->segs.nr_free = nr;
	part->segs.nr_log = 1;
	atomic_set(&lw_asked, 0);
	KUNIT_EXPECT_EQ(lw->test, 0, kvt_room_take(part, room, 0, &pos));
	flush_workqueue(state->wq);
	return atomic_read(&lw_asked);
}

/* Whatever takes them: there is still room for more then. */
static void the_last_segments_ask_for_a_checkpoint(struct kunit *test)
{
	struct lw *lw = lw_new(test);
	struct kvt_part *part = &lw->log->space.part[0];
	u32 least = kvt_room_keep(part, KVT_ROOM_STREAM);

	lw_open_disk(lw);
	lw->log->state.checkpoint.work.func = lw_count_work;
	KUNIT_EXPECT_EQ(test, 0, lw_take_of(lw, KVT_ROOM_STREAM, least + 4));
	KUNIT_EXPECT_EQ(test, 1, lw_take_of(lw, KVT_ROOM_STREAM, least + 2));
	KUNIT_EXPECT_EQ(test, 0, lw_take_of(lw, KVT_ROOM_COMMIT, least + 4));
	KUNIT_EXPECT_EQ(test, 1, lw_take_of(lw, KVT_ROOM_COMMIT, least + 2));
	KUNIT_EXPECT_FALSE(test, test_bit(KVT_LOG_FULL, &lw->log->state.flags));
}

static void streams_make(struct lw *lw, u64 live)
{
	struct kvt_log *log = lw->log;

	kvt_streams_exit(log);
	percpu_counter_set(&log->space.live, live);
	KUNIT_ASSERT_EQ(lw->test, 0, kvt_streams_init(log));
}

/* The store was filled on a machine with fewer CPUs, and every stream needs room. */
static void streams_leave_room_for_what_is_live(struct kunit *test)
{
	struct lw *lw = lw_new(test);
	struct kvt_log *log = lw->log;
	u64 slack = 1000ULL * num_possible_cpus(), max;
	u32 nr, most;

	kt_need_two_cpus(test);
	log->space.live_batch = 1000;
	for (nr = 64; nr <= 1024; nr *= 2) {
		log->space.part[0].segs.nr = nr;
		streams_make(lw, 0);
		most = log->nr_streams;
		max = kvt_room_live_max(&log->space);
		/* The count of live bytes of a full store may be off by the slack. */
		streams_make(lw, max + slack);
		KUNIT_EXPECT_EQ(test, most, log->nr_streams);
		streams_make(lw, max + slack + 1);
		KUNIT_EXPECT_EQ(test, most / 2, log->nr_streams);
		KUNIT_EXPECT_LT(test, max, kvt_room_live_max(&log->space));
		/* More than there is room for with any number of streams. */
		streams_make(lw, S64_MAX / 2);
		KUNIT_EXPECT_EQ(test, 1, log->nr_streams);
	}
	log->space.part[0].segs.nr = LW_SEGMENTS;
	streams_make(lw, 0);
}

/* Take the place of a chunk with @blocks blocks of an epoch. */
static int lw_append(struct lw *lw, u32 stream, u32 blocks, u64 epoch, struct kvt_log_pos *pos)
{
	return kvt_append(&lw->log->space.part[0], stream, blocks, epoch, pos);
}

/* Make a log with the first @nr segments free, of LW_SMALL blocks; it counts many more. */
static struct lw *lw_new_room(struct kunit *test, u32 nr)
{
	struct lw *lw = lw_new(test);
	struct kvt_seg_table *segs = &lw->log->space.part[0].segs;

	lw_open_disk(lw);
	lw->log->devs.dev[0].super->segment_blocks = cpu_to_le32(LW_SMALL);
	while (nr)
		segs->seg[--nr].state = KVT_SEG_FREE;
	segs->nr_free = 1000;
	return lw;
}

static void lw_saved_free(void *arg)
{
	struct kvt_saved *saved = arg;

	kvfree(saved->dev[0].table);
}

/* Write a chunk of a directory where there are @rest blocks.  Returns the segment that it is in. */
static u32 lw_directory(struct lw *lw, struct kvt_saved *saved, u32 rest)
{
	struct kvt_log_pos *at = &lw->log->space.part[0].image[KVT_PLACE_REST];
	struct kvt_log_buf buf = { .used = 100, .nr_records = 1 };
	u8 *stage = kunit_kzalloc(lw->test, 1, GFP_KERNEL);

	buf.data = kunit_kzalloc(lw->test, KVTREE_LOG_BLOCK, GFP_KERNEL);
	KUNIT_ASSERT_TRUE(lw->test, stage && buf.data);
	at->segment = LW_STREAM + 1;
	at->block = LW_SMALL - rest;
	KUNIT_ASSERT_EQ(lw->test, 0, kvt_saved_flush(saved, &buf, stage));
	return at->segment;
}

/* Other chunks go to another device if one has no room, but its table cannot. */
static void a_directory_leaves_room_for_the_table_behind_it(struct kunit *test)
{
	u32 many = 4 * KVTREE_LOG_BLOCK / sizeof(struct kvtree_log_extent);
	struct lw *lw = lw_new_room(test, 1);
	struct kvt_saved *saved = kunit_kzalloc(test, sizeof(*saved), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, saved);
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, lw_saved_free, saved));
	mutex_init(&saved->lock);
	saved->log = lw->log;
	KUNIT_EXPECT_EQ(test, LW_STREAM + 1, lw_directory(lw, saved, 2));
	/* With this many extents, the table has more blocks. */
	saved->dev[0].nr = many;
	saved->dev[0].room = many + 1;
	kvfree(saved->dev[0].table);
	saved->dev[0].table = kvzalloc(struct_size(saved->dev[0].table, extents, many + 1),
				       GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, saved->dev[0].table);
	KUNIT_EXPECT_EQ(test, LW_STREAM, lw_directory(lw, saved, 5));
}

static void streams_of_a_device_share_its_segment(struct kunit *test)
{
	struct lw *lw = lw_new_room(test, 1);
	struct kvt_log_pos a, b, c;

	KUNIT_EXPECT_EQ(test, 0, lw_append(lw, 0, 3, 1, &a));
	KUNIT_EXPECT_EQ(test, 0, lw_append(lw, 1, LW_SMALL - 5, 1, &b));
	KUNIT_EXPECT_EQ(test, 0, lw_append(lw, 0, 1, 1, &c));
	KUNIT_EXPECT_EQ(test, 1, a.block);
	KUNIT_EXPECT_EQ(test, 4, b.block);
	KUNIT_EXPECT_EQ(test, LW_SMALL - 1, c.block);
	KUNIT_EXPECT_EQ(test, LW_STREAM, c.segment);
	KUNIT_EXPECT_EQ(test, a.sequence, c.sequence);
	/* The segment is full. */
	KUNIT_EXPECT_EQ(test, KVT_LOG_NO_ROOM, lw_append(lw, 1, 1, 1, &b));
}

/* Another stream may have written an older epoch to a segment, later than a newer epoch. */
static void a_segment_stays_until_all_streams_epochs_are_of_no_use(struct kunit *test)
{
	struct lw *lw = lw_new_room(test, 3);
	struct kvt_part *part = &lw->log->space.part[0];
	struct kvt_log_pos pos;

	KUNIT_EXPECT_EQ(test, 0, lw_append(lw, 0, 1, 2, &pos));
	KUNIT_EXPECT_EQ(test, 0, lw_append(lw, 1, LW_SMALL - 2, 1, &pos));
	/* The second segment has only the older epoch, the third the newest. */
	KUNIT_EXPECT_EQ(test, 0, lw_append(lw, 1, LW_SMALL - 1, 1, &pos));
	KUNIT_EXPECT_EQ(test, 0, lw_append(lw, 1, 1, 3, &pos));
	KUNIT_ASSERT_EQ(test, 2, pos.segment);
	part->segs.nr = 3;
	kvt_segs_save_begin(&part->segs, 1, true);
	KUNIT_EXPECT_EQ(test, 1, part->segs.useless);
	kvt_segs_save_begin(&part->segs, 2, true);
	KUNIT_EXPECT_EQ(test, 2, part->segs.useless);
	part->segs.saving = false;
	part->segs.nr = LW_SEGMENTS;
}

/* Chunks of all streams wait if their epoch is open; those of closed epochs go on. */
static void an_open_epoch_waits_until_what_fills_segments_is_durable(struct kunit *test)
{
	struct lw *lw = lw_new_room(test, 3);
	struct kvt_log_state *state = &lw->log->state;
	struct kvt_part *part = &lw->log->space.part[0];
	struct kvt_log_pos pos;

	part->append.ahead = 1;
	state->epoch = 2;
	/* The second stream is behind: it fills the segment that the first one has begun. */
	KUNIT_EXPECT_EQ(test, 0, lw_append(lw, 0, 1, 2, &pos));
	KUNIT_EXPECT_EQ(test, 0, lw_append(lw, 1, LW_SMALL - 2, 1, &pos));
	KUNIT_EXPECT_EQ(test, 0, lw_append(lw, 1, LW_SMALL - 1, 1, &pos));
	KUNIT_EXPECT_EQ(test, 1, pos.segment);
	state->durable = 1;
	KUNIT_EXPECT_EQ(test, KVT_LOG_BEHIND, lw_append(lw, 0, 1, 2, &pos));
	KUNIT_EXPECT_EQ(test, KVT_LOG_BEHIND, lw_append(lw, 1, 1, 3, &pos));
	/* A closed epoch gets the third segment.  Its rest is not for an open one either. */
	KUNIT_EXPECT_EQ(test, 0, lw_append(lw, 1, 1, 1, &pos));
	KUNIT_EXPECT_EQ(test, 2, pos.segment);
	KUNIT_EXPECT_EQ(test, KVT_LOG_BEHIND, lw_append(lw, 0, 1, 2, &pos));
	KUNIT_EXPECT_EQ(test, 0, lw_append(lw, 1, 1, 1, &pos));
	state->epoch = 3;
	KUNIT_EXPECT_EQ(test, 0, lw_append(lw, 0, 1, 2, &pos));
	KUNIT_EXPECT_EQ(test, KVT_LOG_BEHIND, lw_append(lw, 1, 1, 3, &pos));
	state->durable = 2;
	KUNIT_EXPECT_EQ(test, 0, lw_append(lw, 1, 1, 3, &pos));
	KUNIT_EXPECT_EQ(test, 2, pos.segment);
}

/* A checkpoint that has failed while there was room is tried again much later. */
static void writers_that_wait_have_a_checkpoint_made_at_once(struct kunit *test)
{
	struct lw *lw = lw_new(test);
	struct kvt_log_state *state = &lw->log->state;

	queue_delayed_work(state->wq, &state->checkpoint, 3600 * HZ);
	kvt_room_stop_writers(&lw->log->space);
	KUNIT_EXPECT_FALSE(test, timer_pending(&state->checkpoint.timer));
	flush_workqueue(state->wq);
	/* If that fails, others that find no room do not change when it is tried again. */
	queue_delayed_work(state->wq, &state->checkpoint, 3600 * HZ);
	kvt_room_stop_writers(&lw->log->space);
	KUNIT_EXPECT_TRUE(test, timer_pending(&state->checkpoint.timer));
}

/* A commit is closing the epoch, but writers may still see it as open. */
static void the_last_extents_are_for_what_an_epoch_has_when_it_is_closed(struct kunit *test)
{
	struct lw *lw = lw_new_room(test, 1);
	struct kvt_log_state *state = &lw->log->state;
	struct kvt_stream *s = &lw->log->streams[0];

	lw_log(lw, "a", true);
	KUNIT_ASSERT_TRUE(test, kvt_stream_close(s, 1));
	s->nr_extents = KVT_LOG_EXTENTS - KVT_LOG_BUFS;
	state->closed = 1;
	/* The stream asks for a commit, unless a checkpoint is making room. */
	set_bit(KVT_LOG_FULL, &state->flags);
	KUNIT_EXPECT_FALSE(test, kvt_stream_flush_begin(s, 1));
	kvt_stream_flush_end(s);
	KUNIT_EXPECT_EQ(test, 0, state->wanted);
	clear_bit(KVT_LOG_FULL, &state->flags);
	KUNIT_EXPECT_FALSE(test, kvt_stream_flush_begin(s, 1));
	kvt_stream_flush_end(s);
	KUNIT_EXPECT_EQ(test, 1, state->wanted);
	KUNIT_EXPECT_EQ(test, KVT_LOG_EXTENTS - KVT_LOG_BUFS, s->nr_extents);
	WRITE_ONCE(state->epoch, 2);
	KUNIT_EXPECT_TRUE(test, kvt_stream_flush_begin(s, 1));
	kvt_stream_flush_end(s);
	KUNIT_EXPECT_EQ(test, KVT_LOG_EXTENTS - KVT_LOG_BUFS + 1, s->nr_extents);
}

/* A worker that waits for a device. */
struct waiter {
	struct work_struct work;
	struct completion *device;
};

static void wait_for_device(struct work_struct *work)
{
	wait_for_completion(container_of(work, struct waiter, work)->device);
}

static void complete_device(struct work_struct *work)
{
	complete(container_of(work, struct waiter, work)->device);
}

#define WAITERS	4

/* One log's workers wait for its device, as many as are allowed; the other log's work is done. */
static void a_log_waits_for_no_others_devices(struct kunit *test)
{
	struct lw *frozen = lw_new(test), *lw = lw_new(test);
	struct waiter *w = kunit_kcalloc(test, WAITERS, sizeof(*w), GFP_KERNEL);
	struct workqueue_struct *queues[2][2] = {
		{ frozen->log->state.wq, lw->log->state.wq },
		{ frozen->log->flush_wq, lw->log->flush_wq },
	};
	DECLARE_COMPLETION_ONSTACK(device);
	DECLARE_COMPLETION_ONSTACK(done);
	struct waiter own = { .device = &done };
	u32 i, j;

	KUNIT_ASSERT_NOT_NULL(test, w);
	INIT_WORK_ONSTACK(&own.work, complete_device);
	for (i = 0; i < ARRAY_SIZE(queues); i++) {
		workqueue_set_max_active(queues[i][0], WAITERS / 2);
		reinit_completion(&device);
		reinit_completion(&done);
		for (j = 0; j < WAITERS; j++) {
			w[j].device = &device;
			INIT_WORK(&w[j].work, wait_for_device);
			queue_work(queues[i][0], &w[j].work);
		}
		queue_work(queues[i][1], &own.work);
		KUNIT_EXPECT_NE(test, 0, wait_for_completion_timeout(&done, 60 * HZ));
		complete_all(&device);
		flush_work(&own.work);
		for (j = 0; j < WAITERS; j++)
			flush_work(&w[j].work);
	}
	destroy_work_on_stack(&own.work);
}

static struct kunit_case log_write_cases[] = {
	KUNIT_CASE(what_was_not_published_is_not_restored),
	KUNIT_CASE(a_change_belongs_to_the_epoch_that_is_open_when_it_has_room),
	KUNIT_CASE(writers_that_see_the_same_room_do_not_both_have_it),
	KUNIT_CASE(a_commit_without_room_for_one_stream_makes_nothing_durable),
	KUNIT_CASE(a_commit_looks_only_at_streams_with_records),
	KUNIT_CASE(a_stream_with_records_of_the_next_epoch_is_not_forgotten),
	KUNIT_CASE(an_epoch_is_written_to_devices_that_have_a_part_of_it),
	KUNIT_CASE(one_flush_is_enough_for_all_that_ask_before_it_begins),
	KUNIT_CASE(a_flush_of_a_disk_does_not_count_for_others),
	KUNIT_CASE(a_log_that_has_waited_for_a_later_flush_needs_none),
	KUNIT_CASE(a_commit_without_room_for_its_record_closes_no_epoch),
	KUNIT_CASE(versions_beyond_the_lease_wait_for_a_commit),
	KUNIT_CASE(room_in_another_stream_wakes_no_writer),
	KUNIT_CASE(an_idle_log_has_one_empty_epoch_at_its_end),
	KUNIT_CASE(a_log_that_is_not_idle_has_no_empty_epochs),
	KUNIT_CASE(a_recount_ends_when_it_is_told),
	KUNIT_CASE(a_table_describes_all_that_a_store_may_hold),
	KUNIT_CASE(what_others_leave_is_enough_for_a_checkpoint),
	KUNIT_CASE(a_step_leaves_the_room_for_its_end),
	KUNIT_CASE(a_step_leaves_less_once_writers_are_stopped),
	KUNIT_CASE(what_a_step_may_take_streams_leave),
	KUNIT_CASE(a_step_writes_more_than_a_directory),
	KUNIT_CASE(a_directory_leaves_room_for_the_table_behind_it),
	KUNIT_CASE(checkpoints_without_room_are_counted_unless_they_make_some),
	KUNIT_CASE(a_log_waits_for_no_others_devices),
	KUNIT_CASE(a_stream_takes_a_segment_if_all_devices_have_room),
	KUNIT_CASE(streams_leave_room_for_what_is_live),
	KUNIT_CASE(streams_of_a_device_share_its_segment),
	KUNIT_CASE(a_segment_stays_until_all_streams_epochs_are_of_no_use),
	KUNIT_CASE(an_open_epoch_waits_until_what_fills_segments_is_durable),
	KUNIT_CASE(the_last_segments_ask_for_a_checkpoint),
	KUNIT_CASE(writers_that_wait_have_a_checkpoint_made_at_once),
	KUNIT_CASE(the_last_extents_are_for_what_an_epoch_has_when_it_is_closed),
	{}
};

static struct kunit_suite log_write_suite = {
	.name = "kvtree_log_write",
	.test_cases = log_write_cases,
};

kunit_test_suite(log_write_suite);
