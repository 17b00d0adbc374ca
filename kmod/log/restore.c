// SPDX-License-Identifier: GPL-2.0
/*
 * Restore: a recovery's second half.  One thread goes through checkpoint and
 * trailers and finds extents; workers read them and bring their records into the
 * index, in any order: see replay.c.
 *
 * Removals leave tombstones.  When these have become a good part of what is there, the
 * thread waits at the end of an epoch until all that it has found is replayed, and removes
 * them.  So a recovery takes memory for what was live at the end of some epoch, and for an
 * epoch and the extents that are queued, however much was put and removed before; and as each
 * tombstone pays for a few keys that are gone through, it takes time in proportion to the log.
 */
#include <linux/cpumask.h>
#include <linux/sched/signal.h>
#include <linux/sizes.h>

#include "base/mem.h"
#include "life.h"

/* Workers read while others wait for the device: one more than there are CPUs. */
#define WORKERS_MAX	16
/* Extents that were found and wait for a worker. */
#define QUEUE		64
/* Bytes of removals that are always few; in tests there are few. */
#define TOMBSTONES_MIN	((u64)(KVT_AUDITS ? SZ_4K : SZ_4M))

struct restore_worker {
	struct work_struct work;
	struct restore *restore;
	struct kvt_replay replay;
};

/* What a worker reads: an extent of the log, or of a checkpoint without ranges; or a range. */
struct restore_item {
	bool is_range;
	u32 range;
	struct kvt_log_extent extent;
};

struct restore {
	struct kvt_log_sink sink;
	struct kvt_life *life;
	struct kvt_log *log;		/* of the life */
	u32 nr_workers;
	struct restore_worker *workers;

	spinlock_t lock;		/* of what follows */
	struct restore_item queue[QUEUE];
	u32 first;
	u32 nr;
	u32 nr_busy;			/* workers that have taken one */
	bool closed;			/* there are no more */
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

/* Have a worker read it, when there is room for it. */
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

static int restore_range(struct kvt_log_sink *sink, u32 i)
{
	const struct restore_item item = { .is_range = true, .range = i };

	return restore_add(container_of(sink, struct restore, sink), &item);
}

/* Have ranges, before anything of the log is marked in them.  The workers still read the sink's. */
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

/* Take what comes next.  False: there is none, and there will be none. */
static bool restore_take(struct restore *r, struct restore_item *item, bool *over)
{
	bool got;

	spin_lock(&r->lock);
	*over = r->closed;
	got = r->nr && !*over;
	if (got) {
		*item = r->queue[r->first];
		r->first = (r->first + 1) % QUEUE;
		r->nr--;
		r->nr_busy++;
	}
	spin_unlock(&r->lock);
	if (got)
		wake_up(&r->room);
	return got;
}

/* What is queued is not read any more, and the first verdict is the one that counts. */
static void restore_fail(struct restore *r, int verdict, const struct restore_item *item)
{
	bool first;

	spin_lock(&r->lock);
	first = !r->verdict;
	if (first)
		WRITE_ONCE(r->verdict, verdict);
	spin_unlock(&r->lock);
	/* Of ranges it was said. */
	if (first && !item->is_range)
		kvt_log_extent_wrong(&r->log->devs.set, &item->extent, verdict);
	wake_up(&r->room);
}

static int restore_read(struct restore_worker *w, const struct restore_item *item)
{
	if (item->is_range)
		return kvt_replay_range(&w->replay, &w->restore->sink.dir, item->range);
	return kvt_replay_extent(&w->replay, &item->extent);
}

static void restore_one(struct restore_worker *w, const struct restore_item *item)
{
	struct restore *r = w->restore;
	int verdict = 0;

	if (!READ_ONCE(r->verdict))
		verdict = restore_read(w, item);
	if (verdict)
		restore_fail(r, verdict, item);
	spin_lock(&r->lock);
	r->nr_busy--;
	spin_unlock(&r->lock);
	wake_up(&r->room);
}

static void restore_work(struct work_struct *work)
{
	struct restore_worker *w = container_of(work, struct restore_worker, work);
	struct restore *r = w->restore;
	struct restore_item item;
	bool got, over;

	do {
		wait_event(r->extents, (got = restore_take(r, &item, &over)) || over);
		if (got)
			restore_one(w, &item);
		cond_resched();
	} while (!over);
}

/* Whether all that was found is replayed. */
static bool restore_idle(struct restore *r)
{
	bool idle;

	spin_lock(&r->lock);
	idle = !r->nr && !r->nr_busy;
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

/* Remove the tombstones, when the workers have nothing to do. */
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

/* One is needed; as many others as there is memory for. */
static int restore_begin(struct restore *r)
{
	u32 max = min(num_online_cpus() + 1, WORKERS_MAX), i;
	struct restore_worker *w;

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
	return r->nr_workers ? 0 : -ENOMEM;
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
	for (i = 0; i < r->nr_workers; i++)
		kvt_replay_exit(&r->workers[i].replay);
	kvfree(r->workers);
	err = kvt_log_errno(r->verdict);
	if (!err)
		err = restore_image(r);
	if (!kvt_image_ranges(&r->log->image))
		kvt_log_directory_free(&r->sink.dir);
	return err;
}

/**
 * kvt_life_restore() - bring what the devices have into the index
 * @life: of the log, whose index is empty and nobody else's
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
	r->sink.range = restore_range;
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
