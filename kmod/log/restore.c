// SPDX-License-Identifier: GPL-2.0
/*
 * Restore: the second half of a recovery.  One thread walks the checkpoint and the trailers to find
 * extents; workers read them and put their records into the index, in any order: see replay.c.
 *
 * Removals leave tombstones.  When these have become a considerable part of the index, the thread
 * waits at the end of an epoch until the workers have replayed all that it has found, and removes
 * the tombstones.  So the memory that a recovery needs is bounded by what was live at the end of
 * some epoch, what the checkpoint has, one epoch, and the queued extents, no matter how much was
 * put and removed before.  If only some steps of a checkpoint were made, it has what was live when
 * the last of them was, long after the first epochs of the log.
 * Its time stays proportional to the log: each removal of tombstones walks the index, but comes
 * after a number of removals that is in proportion to it.
 */
#include <linux/cpumask.h>
#include <linux/sched/signal.h>
#include <linux/sizes.h>

#include "base/mem.h"
#include "life.h"

/*
 * The most workers.  One more than there are CPUs is started, as some of them wait for a device.
 * Pieces of ranges are small: reading one takes as long as putting its records into the index.  So
 * others are started that read ranges only, and end when the log comes: as many again, if the most
 * allows that.
 */
#define WORKERS_MAX	16
/* The most extents that wait for a worker. */
#define QUEUE		64
/* Parts of the checkpoint for each worker: enough that all finish at about the same time. */
#define PARTS		16
/* With fewer bytes of removals, tombstones stay until the end; in tests, this is little. */
#define TOMBSTONES_MIN	((u64)(KVT_AUDITS ? SZ_4K : SZ_4M))

struct restore_worker {
	struct work_struct work;
	struct restore *restore;
	struct kvt_replay replay;
};

/* What a worker reads: ranges, or an extent of the log or of a checkpoint without ranges. */
struct restore_item {
	u32 first;
	u32 end;			/* of the ranges; 0: it is an extent */
	struct kvt_log_extent extent;
};

struct restore {
	struct kvt_log_sink sink;
	struct kvt_life *life;
	struct kvt_log *log;		/* of the life */
	u32 nr_workers;
	u32 nr_log_workers;		/* the first of them read everything, the others ranges */
	struct restore_worker *workers;

	spinlock_t lock;		/* protects the fields up to verdict */
	struct restore_item queue[QUEUE];
	u32 first;
	u32 nr;
	u32 nr_busy;			/* workers that are reading an item */
	bool closed;			/* no more items will come */
	int verdict;			/* the first one that is not KVT_LOG_SOUND */
	wait_queue_head_t extents;	/* for workers */
	wait_queue_head_t room;
};

static void restore_segment(struct kvt_log_sink *sink, u32 dev, u32 segment,
			    enum kvtree_log_kind kind)
{
	struct restore *r = container_of(sink, struct restore, sink);

	kvt_segs_mark(&r->log->space.part[dev].segs, segment,
		      kind == KVTREE_LOG_KIND_CHECKPOINT ? KVT_SEG_CHECKPOINT : KVT_SEG_LOG,
		      r->life->found.epoch);
}

static bool restore_queue(struct restore *r, const struct restore_item *item)
{
	bool room;

	spin_lock(&r->lock);
	room = r->nr < QUEUE;
	if (room)
		r->queue[(r->first + r->nr++) % QUEUE] = *item;
	spin_unlock(&r->lock);
	return room;
}

/* Queue an item for a worker; wait while the queue is full. */
static int restore_add(struct restore *r, const struct restore_item *item)
{
	bool queued = false;
	int err;

	err = wait_event_killable(r->room,
				  READ_ONCE(r->verdict) || (queued = restore_queue(r, item)));
	if (err)
		return -EINTR;
	if (queued)
		wake_up(&r->extents);
	return fatal_signal_pending(current) ? -EINTR : READ_ONCE(r->verdict);
}

static int restore_ranges(struct kvt_log_sink *sink, u32 first, u32 end)
{
	const struct restore_item item = { .first = first, .end = end };

	return restore_add(container_of(sink, struct restore, sink), &item);
}

/* Make the ranges before keys are marked in them.  Workers may still read the sink's directory. */
static int restore_image(struct restore *r)
{
	struct kvt_log_directory dir = r->sink.dir;
	int err;

	if (kvt_image_ranges(&r->log->image))
		return 0;
	err = kvt_image_init(&r->log->image, &dir);
	if (err)
		r->sink.dir = dir;
	return err;
}

static int restore_extent(struct kvt_log_sink *sink, const struct kvt_log_extent *extent)
{
	struct restore *r = container_of(sink, struct restore, sink);
	const struct restore_item item = { .extent = *extent };
	int err = 0;

	if (!extent->saved)
		err = restore_image(r);
	return err ?: kvt_carry_note(&r->life->checkpoints.commits, extent) ?:
	       restore_add(r, &item);
}

static bool restore_reads(const struct restore_worker *w, const struct restore_item *item)
{
	return item->end || w - w->restore->workers < w->restore->nr_log_workers;
}

/* Take the next item.  Returns false if there is none; *@over: none will come for this worker. */
static bool restore_take(struct restore_worker *w, struct restore_item *item, bool *over)
{
	struct restore *r = w->restore;
	bool got, low = false;

	spin_lock(&r->lock);
	/* No ranges come after the log. */
	*over = r->closed || (r->nr && !restore_reads(w, &r->queue[r->first]));
	got = r->nr && !*over;
	if (got) {
		*item = r->queue[r->first];
		r->first = (r->first + 1) % QUEUE;
		r->nr--;
		r->nr_busy++;
		low = r->nr == QUEUE / 2;
	}
	spin_unlock(&r->lock);
	/* The thread that fills the queue need not wake for each item. */
	if (low)
		wake_up(&r->room);
	return got;
}

/* Note the first failure; items that are still queued are not read then. */
static void restore_fail(struct restore *r, int verdict, const struct restore_item *item)
{
	bool first;

	spin_lock(&r->lock);
	first = !r->verdict;
	if (first)
		WRITE_ONCE(r->verdict, verdict);
	spin_unlock(&r->lock);
	/* kvt_log_range_read() has already reported errors of ranges. */
	if (first && !item->end)
		kvt_log_extent_wrong(&r->log->devs.set, &item->extent, verdict);
	wake_up(&r->room);
}

/* Stop at the first failure, also at another worker's. */
static int restore_read_ranges(struct restore_worker *w, u32 first, u32 end)
{
	struct restore *r = w->restore;
	int verdict = 0;

	for (; !verdict && !READ_ONCE(r->verdict) && first < end; first++)
		verdict = kvt_replay_range(&w->replay, &r->sink.dir, first, end);
	return verdict;
}

static int restore_read(struct restore_worker *w, const struct restore_item *item)
{
	if (item->end)
		return restore_read_ranges(w, item->first, item->end);
	return kvt_replay_extent(&w->replay, &item->extent);
}

/* Under the lock. */
static bool restore_drained(const struct restore *r)
{
	return !r->nr && !r->nr_busy;
}

static void restore_one(struct restore_worker *w, const struct restore_item *item)
{
	struct restore *r = w->restore;
	int verdict = 0;
	bool idle;

	if (!READ_ONCE(r->verdict))
		verdict = restore_read(w, item);
	if (verdict)
		restore_fail(r, verdict, item);
	spin_lock(&r->lock);
	r->nr_busy--;
	idle = restore_drained(r);
	spin_unlock(&r->lock);
	if (idle)
		wake_up(&r->room);
}

static void restore_work(struct work_struct *work)
{
	struct restore_worker *w = container_of(work, struct restore_worker, work);
	struct restore *r = w->restore;
	struct restore_item item;
	bool got, over;

	do {
		wait_event(r->extents, (got = restore_take(w, &item, &over)) || over);
		if (got)
			restore_one(w, &item);
		cond_resched();
	} while (!over);
	kvt_replay_exit(&w->replay);
}

/* Whether the workers have replayed all items so far. */
static bool restore_idle(struct restore *r)
{
	bool idle;

	spin_lock(&r->lock);
	idle = restore_drained(r);
	spin_unlock(&r->lock);
	return idle;
}

/* Bytes of removals since the last burial. */
static u64 restore_tombstones(const struct restore *r)
{
	u64 bytes = 0;
	u32 i;

	for (i = 0; i < r->nr_workers; i++)
		bytes += READ_ONCE(r->workers[i].replay.tombstones);
	return bytes;
}

static bool restore_due(struct kvt_log_sink *sink)
{
	struct restore *r = container_of(sink, struct restore, sink);

	return restore_tombstones(r) > max(TOMBSTONES_MIN, kvt_live_bytes(&r->log->space) / 4);
}

/* Wait until the workers are idle, and remove the tombstones. */
static int restore_bury(struct kvt_log_sink *sink)
{
	struct restore *r = container_of(sink, struct restore, sink);
	u32 i;

	if (wait_event_killable(r->room, restore_idle(r)))
		return -EINTR;
	if (READ_ONCE(r->verdict) || !restore_tombstones(r))
		return READ_ONCE(r->verdict);
	for (i = 0; i < r->nr_workers; i++)
		r->workers[i].replay.tombstones = 0;
	return kvt_replay_bury(&r->workers[0].replay);
}

/* Start the workers.  One is needed, the others are started if there is memory. */
static int restore_begin(struct restore *r)
{
	u32 max = min(num_online_cpus() + 1, WORKERS_MAX), i;
	struct restore_worker *w;

	r->nr_log_workers = max;
	if (kvt_log_has_ranges(r->log->devs.set.dev[0].super))
		max = min(2 * max, WORKERS_MAX);
	r->workers = kvcalloc(max, sizeof(*r->workers), GFP_KERNEL);
	if (!r->workers)
		return -ENOMEM;
	for (i = 0; i < max; i++) {
		w = &r->workers[i];
		w->restore = r;
		INIT_WORK(&w->work, restore_work);
		if (kvt_replay_init(&w->replay, r->log)) {
			kvt_replay_exit(&w->replay);
			break;
		}
		queue_work(r->log->state.wq, &w->work);
		r->nr_workers++;
	}
	/* Tests have few ranges, but some parts should have several all the same. */
	r->sink.parts = KVT_AUDITS ? 4 : PARTS * r->nr_workers;
	return r->nr_workers ? 0 : -ENOMEM;
}

static void segment_base(struct restore *r, u32 dev, u32 segment, bool base)
{
	struct kvt_seg_table *segs = &r->log->space.part[dev].segs;

	spin_lock(&segs->lock);
	kvt_segs_base(segs, segment, base);
	spin_unlock(&segs->lock);
}

static void range_bases(struct restore *r, const struct kvt_log_range *range, bool base)
{
	u32 i;

	for (i = 0; i < range->nr_pieces; i++)
		if (base == !i)
			segment_base(r, range->piece[i].dev, range->piece[i].pos.segment, base);
}

/* Note which segments have bases, and nothing else: first those with any, then the others. */
static void restore_bases(struct restore *r)
{
	const struct kvt_log_directory *dir = &kvt_image_ranges(&r->log->image)->dir;
	const struct kvtree_log_checkpoint *to;
	u32 i;

	for (i = 0; i < dir->nr; i++) {
		range_bases(r, dir->range[i], true);
		cond_resched();
	}
	for (i = 0; i < dir->nr; i++) {
		range_bases(r, dir->range[i], false);
		cond_resched();
	}
	for (i = 0; i < r->log->devs.nr; i++) {
		to = &r->log->devs.dev[i].super->checkpoint;
		if (to->blocks)
			segment_base(r, i, le32_to_cpu(to->table.segment), false);
	}
}

static int restore_end(struct restore *r, int err)
{
	u32 i;

	spin_lock(&r->lock);
	r->closed = true;
	r->verdict = r->verdict ?: err;
	spin_unlock(&r->lock);
	wake_up_all(&r->extents);
	for (i = 0; i < r->nr_workers; i++)
		flush_work(&r->workers[i].work);
	kvfree(r->workers);
	err = kvt_log_errno(r->verdict);
	if (!err)
		err = restore_image(r);
	if (!err)
		restore_bases(r);
	if (!kvt_image_ranges(&r->log->image))
		kvt_log_directory_free(&r->sink.dir);
	return err;
}

/**
 * kvt_life_restore() - fill the index from the devices
 * @life: of the log; its index is empty, and has no other users
 *
 * Context: process context, sleeps.
 *
 * Return: 0; -EBADMSG: damaged; -ENOMEM; -EINTR; or an error of a device.
 */
int kvt_life_restore(struct kvt_life *life)
{
	struct kvt_log *log = &life->checkpoints.commits.log;
	struct restore *r = kvzalloc(sizeof(*r), GFP_KERNEL);
	int err;

	if (!r)
		return -ENOMEM;
	r->life = life;
	r->log = log;
	r->sink.segment = restore_segment;
	r->sink.extent = restore_extent;
	r->sink.ranges = restore_ranges;
	r->sink.due = restore_due;
	r->sink.bury = restore_bury;
	spin_lock_init(&r->lock);
	init_waitqueue_head(&r->extents);
	init_waitqueue_head(&r->room);
	err = restore_begin(r);
	if (!err)
		err = kvt_log_recover(&log->devs.set, &life->found, &r->sink);
	err = restore_end(r, err);
	log->space.replay_bytes = r->sink.log_blocks * KVTREE_LOG_BLOCK;
	kvfree(r);
	return err;
}
KVT_EXPORT_FOR_TESTS(kvt_life_restore);
