// SPDX-License-Identifier: GPL-2.0
/* Commits: an epoch is closed, written and becomes durable. */
#include <linux/timekeeping.h>

#include "base/stats.h"
#include "commit.h"

/* By how much the lease on versions is ahead of them, and when it is renewed. */
#define LEASE_AHEAD	BIT_ULL(32)
#define LEASE_RENEW	BIT_ULL(31)

#define COMMIT_FAILED	"a commit record could not be written"

/* A minute is long enough for whoever wants few commits. */
unsigned int kvt_log_idle_ms = 1000;
KVT_EXPORT_FOR_TESTS(kvt_log_idle_ms);
KVT_LOG_PARAM(log_idle_ms, kvt_log_idle_ms, 0, 60000);
MODULE_PARM_DESC(log_idle_ms, "ms without a commit after which an empty one shows that the last was durable, at most 60000; 0: never");

/* Close the open epoch, unless one that was closed is not durable yet. */
static u64 commit_close(struct kvt_log *log)
{
	u64 epoch = log->state.closed;

	if (epoch == log->state.durable) {
		epoch = log->state.epoch;
		kvt_live_set(&log->space.live_closed, kvt_live_now(&log->space));
		WRITE_ONCE(log->state.closed, epoch);
		/* Who finds it clean finds this epoch closed: see kvt_log_dirty_epoch(). */
		smp_mb__before_atomic();
		clear_bit(KVT_LOG_DIRTY, &log->state.flags);
		/* A record of the epoch that is open from now on sets it again. */
		smp_mb__after_atomic();
		WRITE_ONCE(log->state.epoch, epoch + 1);
	}
	return epoch;
}

/*
 * Seal what the streams have of an epoch, and have it written: by their workers but for
 * one, which often is the only one that has anything.  Returns that, or NULL.
 */
static struct kvt_stream *commit_seal(struct kvt_log *log, u64 epoch)
{
	struct kvt_stream *own = NULL;
	u32 i;

	for (i = 0; i < log->nr_streams; i++) {
		if (!kvt_stream_close(&log->streams[i], epoch))
			continue;
		if (own)
			kvt_stream_start(own);
		own = &log->streams[i];
	}
	return own;
}

/* Wait until all that the workers have of the epoch is written. */
static int commit_flush(struct kvt_log *log, const struct kvt_stream *own, u64 epoch)
{
	struct kvt_stream *s;
	u32 i;

	for (i = 0; i < log->nr_streams; i++) {
		s = &log->streams[i];
		if (s == own)
			continue;
		flush_work(&s->flush);
		if (kvt_stream_behind(s, epoch) && !log->state.error)
			return KVT_LOG_NO_ROOM;
	}
	return log->state.error;
}

static u64 commit_lease(struct kvt_log *log)
{
	u64 version = READ_ONCE(log->state.lease_asked);
	u32 i;

	for (i = 0; i < log->nr_streams; i++)
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

/* Name the extents of an epoch in the device's trailer. */
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

/* Those that were copied are as many as one trailer has named. */
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
	for (i = 0; i < log->nr_streams; i++)
		if (log->streams[i].part == chain->part)
			trailer_extents(chain, &log->streams[i], epoch);
	if (epoch == commits->carry.epoch)
		trailer_carried(chain);
	used = struct_size(t, extents, le32_to_cpu(t->nr_extents));
	chain->trailer_blocks = DIV_ROUND_UP(used, KVTREE_LOG_BLOCK);
	t->blocks = cpu_to_le32(chain->trailer_blocks);
	memset((u8 *)t + used, 0, chain->trailer_blocks * KVTREE_LOG_BLOCK - used);
}

/* Whether a trailer of so many blocks is the last one in its segment. */
static bool trailer_last(const struct kvt_chain *chain, u32 blocks)
{
	return chain->next.block + blocks + KVTREE_LOG_TRAILER_MAX >
	       le32_to_cpu(chain->part->dev->super->segment_blocks);
}

/*
 * See that each device has room for a trailer, and for the next one: before anything is
 * done, so that what has no room anywhere is begun nowhere.
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

/* The next trailer goes after this one. */
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

	trailer_fill(chain, epoch);
	kvt_segs_used(&chain->part->segs, at.segment, epoch);
	trailer_step(chain);
	kvt_log_pos_store(&t->next, &chain->next);
	kvt_log_pos_store(&t->ahead, &chain->ahead);
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
	kvt_io_init(&io);
	for (i = 0; i < log->devs.nr; i++)
		trailer_write(&commits->chain[i], epoch, &io);
	return kvt_io_wait(&io);
}

/*
 * Write all that an epoch has, and the trailers, which name it by its checksums: they
 * need not wait for it, as a device may write what was not flushed in any order.
 */
static int commit_write(struct kvt_commits *commits, u64 epoch)
{
	struct kvt_log *log = &commits->log;
	struct kvt_stream *own = commit_seal(log, epoch);
	bool room = !own || kvt_stream_flush_begin(own, epoch);
	int err, failed = 0;

	err = commit_flush(log, own, epoch);
	if (!err && !room)
		err = KVT_LOG_NO_ROOM;
	if (!err)
		failed = trailers_write(commits, epoch);
	if (own)
		kvt_stream_flush_end(own);
	if (!failed && !err && !log->state.error)
		failed = kvt_devs_flush(&log->devs);
	/* Nothing is known of what a failed flush has written. */
	if (failed)
		kvt_log_fail(&log->state, failed, COMMIT_FAILED);
	return err ?: log->state.error;
}

/* Count the trailers and all that they name. */
static void trailers_count(struct kvt_commits *commits)
{
	struct kvt_log *log = &commits->log;
	const struct kvtree_log_trailer *t;
	u64 blocks = 0;
	u32 i, j, nr = 0;

	for (i = 0; i < log->devs.nr; i++) {
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

/* While commits go on, this is queued already. */
static void idle_begin(struct kvt_commits *commits)
{
	commits->committed = jiffies;
	if (commits->unproved && idle_ticks())
		queue_delayed_work(commits->log.state.wq, &commits->idle, idle_ticks());
}

static void commit_done(struct kvt_commits *commits, u64 epoch)
{
	struct kvt_log *log = &commits->log;
	bool renewed = log->state.lease != commits->lease_next;

	WRITE_ONCE(log->state.lease, commits->lease_next);
	kvt_live_set(&log->space.live_durable, log->space.live_closed);
	trailers_count(commits);
	/* Pairs with kvt_log_synced(). */
	smp_store_release(&log->state.durable, epoch);
	kvt_stat_inc(log->state.env.stats, KVTREE_STAT_LOG_EPOCHS);
	kvt_event_wake(&log->state.durable_event);
	if (renewed && kvt_event_has_sleeper(&log->state.space_event))
		kvt_event_wake(&log->state.space_event);
	idle_begin(commits);
}

/**
 * kvt_commit() - make the open epoch durable, or the one that could not be so far
 * @commits: of the log
 *
 * Context: process context, sleeps; under commit_lock.
 *
 * Return: 0; KVT_LOG_NO_ROOM: there is none for what it has; or the error that the log has.
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
 * kvt_commit_carried() - commit the epoch that was carried
 * @commits: of the log, with all that the epoch has in its new places
 *
 * Context: process context, sleeps; by who has the log alone.
 *
 * Return: 0 or the error of a device.
 */
int kvt_commit_carried(struct kvt_commits *commits)
{
	return trailers_write(commits, commits->carry.epoch) ?:
	       kvt_devs_flush(&commits->log.devs);
}

/*
 * Whether anything is not durable.  A commit that nothing needs is not free: whoever comes next
 * waits for its flush.
 */
static bool commit_is_needed(const struct kvt_log *log)
{
	return max(kvt_log_dirty_epoch(log), READ_ONCE(log->state.wanted)) > log->state.durable;
}

/**
 * kvt_commit_work() - commit what there is, if there is anything
 * @work: a log's
 */
void kvt_commit_work(struct work_struct *work)
{
	struct kvt_log *log = container_of(to_delayed_work(work), struct kvt_log, state.commit);
	struct kvt_commits *commits = kvt_commits_of(log);
	int err = 0;

	mutex_lock(&commits->commit_lock);
	/* A checkpoint may have done so, or the run that was under way when this was queued. */
	if (commit_is_needed(log))
		err = kvt_commit(commits);
	mutex_unlock(&commits->commit_lock);
	if (err)
		return;
	/* Who came while it was written need not wait for the next interval. */
	if (READ_ONCE(log->state.wanted) > log->state.durable)
		mod_delayed_work(log->state.wq, &log->state.commit, 0);
	else if (test_bit(KVT_LOG_DIRTY, &log->state.flags))
		kvt_log_commit_later(log);
}

/*
 * Whether a commit finds room that nothing else may need: for one that nobody waits for writers
 * are not to wait, nor is a full store to end.
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
 * Under commit_lock.  Whether an empty epoch has to show that the last one was durable.  Changes
 * made meanwhile are committed in due time, which queues this again, as does the end of a sleep.
 */
static bool idle_is_needed(const struct kvt_commits *commits)
{
	const struct kvt_log *log = &commits->log;

	return commits->unproved && !commit_is_needed(log) && !READ_ONCE(log->state.error) &&
	       !READ_ONCE(kvt_log_asleep) && idle_has_room(commits);
}

/* Under commit_lock.  When to look again, in jiffies from now; 0: there is no need to. */
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
 * kvt_idle_work() - once nothing is committed any more, commit an epoch without records
 * @work: a log's
 *
 * Of the highest epoch that the devices know recovery cannot tell whether it was never completely
 * written or damaged later, and drops it.  An idle store would keep such an epoch for ever.  One
 * that is empty takes its place: its commit record shows that all before it was durable.
 *
 * Neither a detach nor a machine that is about to sleep waits for this longer than for a commit:
 * where one is under way it looks again later.
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
