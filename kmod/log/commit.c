// SPDX-License-Identifier: GPL-2.0
/*
 * Commits: close an epoch, write it and make it durable.
 *
 * The committer closes the open epoch, seals the streams' buffers of that epoch and has them
 * written.  It writes a trailer, the commit record, to each device that has a part of the epoch.  A
 * trailer lists the epoch's extents on the device and their checksums, so all of these writes may
 * complete in any order: the epoch is durable when they are done and each of these devices was
 * flushed once.  It also says which devices have a trailer, so that recovery knows if one is lost.
 * An epoch without extents has trailers on all devices.
 */
#include <linux/timekeeping.h>

#include "base/stats.h"
#include "commit.h"

/* How far a new lease is ahead of the versions in use, and how much is left when it is renewed. */
#define LEASE_AHEAD	BIT_ULL(32)
#define LEASE_RENEW	BIT_ULL(31)

#define COMMIT_FAILED	"a commit record could not be written"

/* A minute is long enough for users that want few commits. */
unsigned int kvt_log_idle_ms = 1000;
KVT_EXPORT_FOR_TESTS(kvt_log_idle_ms);
KVT_LOG_PARAM(log_idle_ms, kvt_log_idle_ms, 0, 60000);
MODULE_PARM_DESC(log_idle_ms, "ms for which a store is idle before it commits an empty epoch, at most 60000; 0: never");

/* Close the open epoch, unless a closed one is not durable yet.  Returns the epoch to commit. */
static u64 commit_close(struct kvt_log *log)
{
	u64 epoch = log->state.closed;

	if (epoch == log->state.durable) {
		epoch = log->state.epoch;
		kvt_live_set(&log->space.live_closed, kvt_live_now(&log->space));
		WRITE_ONCE(log->state.closed, epoch);
		/* A reader that sees DIRTY clear also sees @closed: see kvt_log_dirty_epoch(). */
		smp_mb__before_atomic();
		clear_bit(KVT_LOG_DIRTY, &log->state.flags);
		/* A writer that reads the new epoch sees DIRTY cleared: see kvt_log_reserve(). */
		smp_mb__after_atomic();
		WRITE_ONCE(log->state.epoch, epoch + 1);
		/* Before the dirty streams are looked for: pairs with stream_dirty(). */
		smp_mb();
	}
	return epoch;
}

/*
 * Seal the streams' buffers of an epoch.  The workers write them, except those of one stream,
 * which is often the only one with records.  Returns this stream for the caller to write, or NULL.
 */
static struct kvt_stream *commit_seal(struct kvt_log *log, u64 epoch)
{
	struct kvt_stream *own = NULL;
	u32 i;

	for_each_set_bit(i, log->dirty, log->nr_streams) {
		if (!kvt_stream_close(&log->streams[i], epoch))
			continue;
		if (own)
			kvt_stream_start(own);
		own = &log->streams[i];
	}
	return own;
}

/* Wait until the workers have written all records of the epoch.  The devices are flushed later. */
static int commit_wait_streams(struct kvt_log *log, const struct kvt_stream *own, u64 epoch)
{
	struct kvt_stream *s;
	u32 i;

	for_each_set_bit(i, log->dirty, log->nr_streams) {
		s = &log->streams[i];
		if (s == own)
			continue;
		flush_work(&s->flush);
		if (kvt_stream_behind(s, epoch) && !log->state.error)
			return KVT_LOG_NO_ROOM;
	}
	return log->state.error;
}

/* Commits have met all versions of other streams before, and renewed the lease if need be. */
static u64 commit_lease(struct kvt_log *log)
{
	u64 version = READ_ONCE(log->state.lease_asked);
	u32 i;

	for_each_set_bit(i, log->dirty, log->nr_streams)
		version = max(version, READ_ONCE(log->streams[i].max_version));
	return version + LEASE_RENEW > log->state.lease ? version + LEASE_AHEAD : log->state.lease;
}

static void trailer_name(struct kvtree_log_trailer *t, const struct kvt_log_extent *extent,
			 u32 stream)
{
	u32 nr = le32_to_cpu(t->nr_extents);
	struct kvtree_log_extent *to = &t->extents[nr];

	kvt_log_pos_store(&to->pos, &extent->pos);
	to->blocks = cpu_to_le32(extent->blocks);
	to->crc = cpu_to_le32(extent->crc);
	to->stream = cpu_to_le32(stream);
	to->reserved = 0;
	t->nr_extents = cpu_to_le32(nr + 1);
}

/* List a stream's extents of an epoch in the device's trailer. */
static void trailer_extents(struct kvt_chain *chain, struct kvt_stream *s, u64 epoch)
{
	u32 i;

	mutex_lock(&s->extents_lock);
	for (i = 0; i < s->nr_extents && s->extent[i].epoch == epoch; i++)
		trailer_name(chain->trailer, &s->extent[i], s->id);
	WRITE_ONCE(s->nr_extents, s->nr_extents - i);
	memmove(s->extent, s->extent + i, s->nr_extents * sizeof(s->extent[0]));
	mutex_unlock(&s->extents_lock);
}

/* List the carried extents.  They fit: one trailer has listed them before. */
static void trailer_carried(struct kvt_chain *chain)
{
	const struct kvt_log_dev *dev = chain->part->dev;
	const struct kvt_carry *carry = &chain->commits->carry;
	u32 i;

	chain->trailer->time = cpu_to_le64(carry->time);
	for (i = 0; i < carry->nr; i++)
		if (carry->extent[i].dev == dev->index)
			trailer_name(chain->trailer, &carry->extent[i], carry->extent[i].stream);
}

/* Fill a device's trailer, except what depends on other devices or on the trailer's place. */
static void trailer_fill(struct kvt_chain *chain, u64 epoch)
{
	struct kvtree_log_trailer *t = chain->trailer;
	struct kvt_log_dev *dev = chain->part->dev;
	struct kvt_commits *commits = chain->commits;
	struct kvt_log *log = &commits->log;
	size_t used;
	u32 i;

	memset(t, 0, sizeof(*t));
	t->magic = cpu_to_le64(KVTREE_LOG_TRAILER_MAGIC);
	t->epoch = cpu_to_le64(epoch);
	t->generation = cpu_to_le64(log->devs.generation);
	t->version_lease = cpu_to_le64(commits->lease_next);
	t->time = cpu_to_le64(ktime_get_real_ns());
	t->dev_index = cpu_to_le32(dev->index);
	for_each_set_bit(i, log->dirty, log->nr_streams)
		if (log->streams[i].part == chain->part)
			trailer_extents(chain, &log->streams[i], epoch);
	if (epoch == commits->carry.epoch)
		trailer_carried(chain);
	used = struct_size(t, extents, le32_to_cpu(t->nr_extents));
	chain->trailer_blocks = DIV_ROUND_UP(used, KVTREE_LOG_BLOCK);
	t->blocks = cpu_to_le32(chain->trailer_blocks);
	memset((u8 *)t + used, 0, chain->trailer_blocks * KVTREE_LOG_BLOCK - used);
}

/* Whether a trailer with this many blocks is the last one in its segment. */
static bool trailer_last(const struct kvt_chain *chain, u32 blocks)
{
	return chain->next.block + blocks + KVTREE_LOG_TRAILER_MAX >
	       le32_to_cpu(chain->part->dev->super->segment_blocks);
}

/*
 * Make sure that each device has room for this trailer and for the next one.  This comes first, so
 * that a commit for which one device has no room begins on none.
 */
static int trailers_room(struct kvt_commits *commits)
{
	struct kvt_log *log = &commits->log;
	enum kvt_room room = log->state.drain ? KVT_ROOM_LAST : KVT_ROOM_COMMIT;
	int err = 0;
	u32 i;

	for (i = 0; !err && i < log->devs.nr; i++) {
		struct kvt_chain *chain = &commits->chain[i];

		if (!chain->spare.block && trailer_last(chain, KVTREE_LOG_TRAILER_MAX))
			err = kvt_room_take(chain->part, room, 0, &chain->spare);
	}
	return err;
}

/*
 * Fill the devices' trailers, and choose those that are written.  A new lease is written to all
 * devices, so that it is not lost with one of them.
 */
static void trailers_fill(struct kvt_commits *commits, u64 epoch)
{
	bool renews = commits->lease_next != commits->log.state.lease;
	u32 i;

	commits->devices = 0;
	for (i = 0; i < commits->log.devs.nr; i++) {
		trailer_fill(&commits->chain[i], epoch);
		if (commits->chain[i].trailer->nr_extents)
			commits->devices |= BIT(i);
	}
	if (renews || !commits->devices)
		commits->devices = kvt_devs_all(&commits->log.devs);
}

/* Advance to the place of the next trailer. */
static void trailer_step(struct kvt_chain *chain)
{
	if (!trailer_last(chain, chain->trailer_blocks)) {
		chain->next.block += chain->trailer_blocks;
		return;
	}
	kvt_segs_shut(&chain->part->segs, chain->next.segment);
	chain->next = chain->ahead;
	chain->ahead = chain->spare;
	chain->spare = (struct kvt_log_pos) {};
}

static void trailer_write(struct kvt_chain *chain, u64 epoch, struct kvt_io *io)
{
	struct kvtree_log_trailer *t = chain->trailer;
	struct kvt_log_dev *dev = chain->part->dev;
	struct kvt_log_pos at = chain->next;

	t->devices = chain->commits->devices;
	kvt_segs_used(&chain->part->segs, at.segment, epoch);
	trailer_step(chain);
	kvt_log_pos_store(&t->next, &chain->next);
	kvt_log_pos_store(&t->ahead, &chain->ahead);
	t->head_crc = cpu_to_le32(kvt_log_trailer_head_crc(dev->super, dev->devs->generation, &at,
							   t));
	t->crc = cpu_to_le32(kvt_log_crc_zero(dev->super, dev->devs->generation, &at, t,
					      (size_t)chain->trailer_blocks * KVTREE_LOG_BLOCK,
					      offsetof(struct kvtree_log_trailer, crc)));
	kvt_dev_write_begin(dev, kvt_log_pos_block(dev->super, &at), chain->trailer_blocks, t, io);
}

static int trailers_write(struct kvt_commits *commits, u64 epoch)
{
	struct kvt_log *log = &commits->log;
	struct kvt_io io;
	u32 i;

	commits->lease_next = commit_lease(log);
	trailers_fill(commits, epoch);
	kvt_io_init(&io);
	for (i = 0; i < log->devs.nr; i++)
		if (commits->devices & BIT(i))
			trailer_write(&commits->chain[i], epoch, &io);
	return kvt_io_wait(&io);
}

/*
 * Write an epoch's records and its trailers.  The trailers have the checksums of the records and
 * need not be written after them: before the flush, a device may reorder the writes anyway.
 */
static int commit_write(struct kvt_commits *commits, u64 epoch)
{
	struct kvt_log *log = &commits->log;
	struct kvt_stream *own = commit_seal(log, epoch);
	bool room = !own || kvt_stream_flush_begin(own, epoch);
	int err, failed = 0;

	err = commit_wait_streams(log, own, epoch);
	if (!err && !room)
		err = KVT_LOG_NO_ROOM;
	if (!err)
		failed = trailers_write(commits, epoch);
	if (own)
		kvt_stream_flush_end(own);
	if (!failed && !err && !log->state.error)
		failed = kvt_devs_flush_some(&log->devs, commits->devices);
	/* After a failed flush, it is unknown what has become stable. */
	if (failed)
		kvt_log_fail(&log->state, failed, COMMIT_FAILED);
	return err ?: log->state.error;
}

/* Add the trailers, and the extents in them, to what a recovery would read. */
static void trailers_count(struct kvt_commits *commits)
{
	struct kvt_log *log = &commits->log;
	const struct kvtree_log_trailer *t;
	u64 blocks = 0;
	u32 i, j, nr = 0;

	for (i = 0; i < log->devs.nr; i++) {
		if (!(commits->devices & BIT(i)))
			continue;
		t = commits->chain[i].trailer;
		nr += le32_to_cpu(t->nr_extents);
		blocks += le32_to_cpu(t->blocks);
		for (j = 0; j < le32_to_cpu(t->nr_extents); j++)
			blocks += le32_to_cpu(t->extents[j].blocks);
	}
	commits->unproved = nr > 0;
	WRITE_ONCE(log->space.replay_bytes, log->space.replay_bytes + blocks * KVTREE_LOG_BLOCK);
}

static unsigned long idle_ticks(void)
{
	return msecs_to_jiffies(READ_ONCE(kvt_log_idle_ms));
}

/* Schedule the empty commit that follows the last one; it may be queued already. */
static void idle_begin(struct kvt_commits *commits)
{
	commits->committed = jiffies;
	if (commits->unproved && idle_ticks())
		queue_delayed_work(commits->log.state.wq, &commits->idle, idle_ticks());
}

/*
 * The epoch's devices were flushed: declare the epoch durable, and wake all that wait for it.
 * Nobody may be told before.
 */
static void commit_done(struct kvt_commits *commits, u64 epoch)
{
	struct kvt_log *log = &commits->log;
	bool renewed = log->state.lease != commits->lease_next;
	u32 i;

	for_each_set_bit(i, log->dirty, log->nr_streams)
		kvt_stream_clean(&log->streams[i]);
	WRITE_ONCE(log->state.lease, commits->lease_next);
	kvt_live_set(&log->space.live_durable, log->space.live_closed);
	trailers_count(commits);
	kvt_stat_inc(log->state.env.stats, KVTREE_STAT_LOG_EPOCHS);
	/* Pairs with kvt_log_synced(). */
	smp_store_release(&log->state.durable, epoch);
	kvt_event_wake(&log->state.durable_event);
	if (renewed && kvt_event_has_sleeper(&log->state.space_event))
		kvt_event_wake(&log->state.space_event);
	idle_begin(commits);
}

/**
 * kvt_commit() - make the open epoch durable, or a closed one for which a commit has failed
 * @commits: of the log
 *
 * Context: process context, sleeps; under commit_lock.
 *
 * Return: 0; KVT_LOG_NO_ROOM: there is no room for the epoch; or the log's error.
 */
int kvt_commit(struct kvt_commits *commits)
{
	struct kvt_log *log = &commits->log;
	u64 epoch;
	int err;

	if (log->state.error)
		return log->state.error;
	err = trailers_room(commits);
	if (err) {
		if (err != KVT_LOG_NO_ROOM)
			kvt_log_fail(&log->state, err, COMMIT_FAILED);
		return err;
	}
	epoch = commit_close(log);
	err = commit_write(commits, epoch);
	if (err)
		return err;
	commit_done(commits, epoch);
	if (kvt_room_long(&log->space))
		queue_delayed_work(log->state.wq, &log->state.checkpoint, 0);
	return 0;
}
KVT_EXPORT_FOR_TESTS(kvt_commit);

/**
 * kvt_commit_carried() - commit the carried epoch
 * @commits: of the log; the epoch's extents are in their new places
 *
 * Context: process context, sleeps; the caller has the log to itself.
 *
 * Return: 0 or the error of a device.
 */
int kvt_commit_carried(struct kvt_commits *commits)
{
	return trailers_write(commits, commits->carry.epoch) ?:
	       kvt_devs_flush_some(&commits->log.devs, commits->devices);
}

/*
 * Whether anything is not durable.  A needless commit is not free: the next one waits for its
 * flush.
 */
static bool commit_is_needed(const struct kvt_log *log)
{
	return max(kvt_log_dirty_epoch(log), READ_ONCE(log->state.wanted)) > log->state.durable;
}

/**
 * kvt_commit_work() - commit, if anything is not durable
 * @work: a log's
 */
void kvt_commit_work(struct work_struct *work)
{
	struct kvt_log *log = container_of(to_delayed_work(work), struct kvt_log, state.commit);
	struct kvt_commits *commits = kvt_commits_of(log);
	int err = 0;

	mutex_lock(&commits->commit_lock);
	/* A checkpoint may have committed, or the run that was in progress when this was queued. */
	if (commit_is_needed(log))
		err = kvt_commit(commits);
	mutex_unlock(&commits->commit_lock);
	if (err)
		return;
	/* If a caller has asked for a later epoch, commit it without delay. */
	if (READ_ONCE(log->state.wanted) > log->state.durable)
		mod_delayed_work(log->state.wq, &log->state.commit, 0);
	else if (test_bit(KVT_LOG_DIRTY, &log->state.flags))
		kvt_log_commit_later(log);
}

/*
 * Whether there is room for an empty commit without taking the last segments.  No caller waits for
 * it, so it must not make writers wait, or make a full log end: see kvt_checkpoint_judge().
 */
static bool idle_has_room(const struct kvt_commits *commits)
{
	u32 i;

	for (i = 0; i < commits->log.devs.nr; i++) {
		const struct kvt_chain *chain = &commits->chain[i];
		const struct kvt_part *part = chain->part;

		if (!chain->spare.block && trailer_last(chain, KVTREE_LOG_TRAILER_MAX) &&
		    READ_ONCE(part->segs.nr_free) <= kvt_room_keep(part, KVT_ROOM_COMMIT))
			return false;
	}
	return true;
}

/*
 * Under commit_lock.  Whether an empty epoch is needed to show that the last one was durable.  If
 * there are new changes, their commit queues the idle work again; so does the end of a sleep.
 */
static bool idle_is_needed(const struct kvt_commits *commits)
{
	const struct kvt_log *log = &commits->log;

	return commits->unproved && !commit_is_needed(log) && !READ_ONCE(log->state.error) &&
	       !READ_ONCE(kvt_log_asleep) && idle_has_room(commits);
}

/* Under commit_lock.  Returns after how many jiffies to check again; 0: there is no need to. */
static unsigned long idle_run(struct kvt_commits *commits)
{
	unsigned long ticks = idle_ticks(), since = jiffies - commits->committed;

	if (!ticks || !idle_is_needed(commits))
		return 0;
	if (since < ticks)
		return ticks - since;
	kvt_commit(commits);
	return 0;
}

/**
 * kvt_idle_work() - commit an epoch without records when the log is idle
 * @work: a log's
 *
 * If the last epoch on the devices is incomplete, recovery cannot tell whether it was never
 * completely written or was damaged later, and drops it.  On an idle store, an epoch with records
 * would stay the last one.  So an empty epoch follows it: its commit record shows that all epochs
 * before it were durable.
 *
 * A detach, or a machine that is about to sleep, does not wait for this any longer than for a
 * commit: if another commit is in progress, this work does not wait for it but checks again later.
 */
void kvt_idle_work(struct work_struct *work)
{
	struct kvt_commits *commits = container_of(to_delayed_work(work), struct kvt_commits, idle);
	unsigned long later = idle_ticks();

	if (mutex_trylock(&commits->commit_lock)) {
		later = idle_run(commits);
		mutex_unlock(&commits->commit_lock);
	}
	if (later)
		queue_delayed_work(commits->log.state.wq, &commits->idle, later);
}
KVT_EXPORT_FOR_TESTS(kvt_idle_work);
