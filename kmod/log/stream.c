// SPDX-License-Identifier: GPL-2.0
/*
 * Streams: each has the buffers of one CPU, or of several, and a worker that writes them.
 *
 * Writers add records to a stream's open buffer.  A buffer has records of one epoch; it is sealed
 * when it is full, when a record of a later epoch comes, or when a commit closes its epoch.  The
 * worker, or the committer, writes sealed buffers in order, each as one chunk, and keeps a list of
 * the extents it has written for the epoch's trailer.
 */
#include <linux/bottom_half.h>
#include <linux/cpumask.h>
#include <linux/vmalloc.h>

#include "base/index.h"
#include "base/park.h"
#include "base/stats.h"
#include "base/value.h"
#include "stream.h"

/* A sealed buffer becomes a chunk, and a chunk fits into a segment. */
static_assert((KVTREE_LOG_SEGMENT_MIN - 1) * KVTREE_LOG_BLOCK / 2 >= KVT_LOG_CHUNK_BYTES);
static_assert(KVTREE_LOG_CHUNK_MAX * KVTREE_LOG_BLOCK >= KVT_LOG_CHUNK_BYTES);
/* The largest record fits into an empty buffer. */
static_assert(KVT_VALUE_SIZE_MAX + sizeof(struct kvtree_log_record) + KVTREE_KEY_MAX +
	      sizeof(struct kvtree_log_chunk) < KVT_LOG_BUF_BYTES / 4);
static_assert(KVT_LOG_OUTSIDE_MAX >= 2 * KVTREE_COLS_MAX);
/* One trailer can always list all extents. */
static_assert(KVTREE_LOG_STREAMS_MAX * KVT_LOG_EXTENTS * sizeof(struct kvtree_log_extent) +
	      sizeof(struct kvtree_log_trailer) <=
	      KVTREE_LOG_TRAILER_MAX * KVTREE_LOG_BLOCK);

/* The size of a buffer's chunk in bytes. */
static u32 buf_bytes(const struct kvt_log_buf *buf)
{
	return kvt_chunk_blocks(buf) * KVTREE_LOG_BLOCK;
}

/* Seal the open buffer; under the stream's lock. */
static void stream_seal(struct kvt_stream *s)
{
	s->sealed += buf_bytes(&s->buf[(s->first + s->nr_sealed) % KVT_LOG_BUFS]);
	s->nr_sealed++;
}

/* The open buffer, or NULL if there is none; under the stream's lock. */
static struct kvt_log_buf *stream_buffer(struct kvt_stream *s)
{
	if (s->nr_sealed == KVT_LOG_BUFS || s->sealed >= KVT_LOG_SEALED_BYTES)
		return NULL;
	return &s->buf[(s->first + s->nr_sealed) % KVT_LOG_BUFS];
}

static bool buf_empty(const struct kvt_log_buf *buf)
{
	return buf->used == sizeof(struct kvtree_log_chunk);
}

static bool buf_fits(const struct kvt_log_buf *buf, const struct kvt_log_size *size)
{
	return buf_empty(buf) ||
	       (buf->used + size->len <= KVT_LOG_BUF_BYTES &&
		buf->nr_outside + size->nr_outside <= KVT_LOG_OUTSIDE_MAX &&
		buf->outside_len <= KVT_LOG_OUTSIDE_BYTES);
}

/* Find a buffer for a record of an epoch, or return NULL; under the stream's lock. */
static struct kvt_log_buf *stream_buf(struct kvt_stream *s, u64 epoch,
				      const struct kvt_log_size *size)
{
	struct kvt_log_buf *buf = stream_buffer(s);

	if (buf && !buf_empty(buf) && (buf->epoch != epoch || !buf_fits(buf, size))) {
		stream_seal(s);
		kvt_stream_start(s);
		buf = stream_buffer(s);
	}
	if (buf)
		buf->epoch = epoch;
	return buf;
}

/* The same as log_fits(), if it depends on the sizes of the records. */
static noinline bool log_fits_small(const struct kvt_log *log, struct kvt_live more)
{
	return kvt_room_holds(&log->space, kvt_live_sum(kvt_live_now(&log->space), more));
}

/* Whether checkpoints can still be made once @more is live as well. */
static bool log_fits(const struct kvt_log *log, struct kvt_live more)
{
	u64 bytes = kvt_live_bytes(&log->space) + more.bytes;

	return likely(bytes <= READ_ONCE(log->space.any_max)) || log_fits_small(log, more);
}

static struct kvt_live change_live(const struct kvt_key *key, const struct kvt_value *old,
				   const struct kvt_value *new, const struct kvt_log_size *size)
{
	struct kvt_live live = {};

	if (new)
		live = kvt_live_record(kvt_log_size_bytes(size));
	if (old)
		live = kvt_live_less(live, kvt_log_live(key->len, old));
	return live;
}

static int reserve_check(struct kvt_log *log, u64 version, struct kvt_live more)
{
	if (unlikely(READ_ONCE(log->state.error)))
		return -EROFS;
	if (unlikely(test_bit(KVT_LOG_FULL, &log->state.flags)))
		return -EAGAIN;
	if (unlikely(version >= READ_ONCE(log->state.lease))) {
		/* Of two writers at once, the one with the higher version may have to ask again. */
		WRITE_ONCE(log->state.lease_asked, max(version, READ_ONCE(log->state.lease_asked)));
		return -EAGAIN;
	}
	if (more.bytes > 0 && unlikely(!log_fits(log, more)))
		return -ENOSPC;
	return 0;
}

/*
 * Count what a change adds to the live bytes.  Writers on several CPUs may have seen the same room.
 * Each of them counts its own change and then checks again, so the live bytes do not exceed it.
 */
static int log_grow(struct kvt_log *log, struct kvt_live more)
{
	if (!more.bytes)
		return 0;
	kvt_park(KVT_PARK_LOG_GROW);
	kvt_live_add(&log->space, more);
	if (more.bytes < 0 || likely(log_fits(log, (struct kvt_live) {})))
		return 0;
	kvt_live_sub(&log->space, more);
	return -ENOSPC;
}

/*
 * Have commits look at a stream; under its lock.  If the committer closes the epoch and does not
 * see the bit, the writer sees the next epoch: pairs with the barrier in commit_close().  This
 * comes first, also for a change that is refused.  If that waits for a new lease, either the
 * committer sees what it has asked for, or it sees the next epoch, and DIRTY clear, and asks for
 * a commit.
 */
static void stream_dirty(struct kvt_stream *s)
{
	if (test_bit(s->id, s->log->dirty))
		return;
	set_bit(s->id, s->log->dirty);
	/* Before the epoch is read: pairs with commit_close(). */
	smp_mb__after_atomic();
}

/* Schedule a commit, unless one is already scheduled. */
static void log_dirty(struct kvt_log *log)
{
	if (test_bit(KVT_LOG_DIRTY, &log->state.flags) ||
	    test_and_set_bit(KVT_LOG_DIRTY, &log->state.flags))
		return;
	kvt_log_commit_later(log);
}

/**
 * kvt_log_reserve() - log a change that is about to be published
 * @log: the log
 * @note: filled; to be passed to kvt_log_publish()
 * @key: the key
 * @old: the value that is replaced or removed, or NULL
 * @new: the value, with its version; NULL: the key is removed
 *
 * Context: the caller holds the key's place.  Preemption and bottom halves are off; or else only a
 * writer in a softirq can run on the same CPU between this call and kvt_log_publish().
 *
 * Return: 0, and preemption is off until kvt_log_publish(), which must follow; -EAGAIN: call
 * kvt_log_wait_space() and try again; -ENOSPC: the devices are full; -EROFS: writing has failed.
 */
int kvt_log_reserve(struct kvt_log *log, struct kvt_log_note *note, const struct kvt_key *key,
		    const struct kvt_value *old, const struct kvt_value *new)
{
	struct kvt_log_size size = kvt_log_size(key->len, new);
	u64 version = new ? new->version : old->version;
	struct kvt_live more = change_live(key, old, new, &size);
	struct kvt_log_buf *buf = NULL;
	struct kvt_blob **outside;
	struct kvt_stream *s;
	u8 *to;
	int err;

	preempt_disable();
	s = kvt_log_stream(log);
	kvt_park(KVT_PARK_LOG_RESERVE);
	raw_spin_lock(&s->lock);
	/* A writer that depends on this change reads this epoch or a later one: see log.h. */
	smp_mb__after_spinlock();
	stream_dirty(s);
	note->epoch = READ_ONCE(log->state.epoch);
	/*
	 * FULL and DIRTY are read after the epoch.  Once writers are stopped and the open epoch is
	 * closed, none finds room in the next one: see step_stop_writers().  DIRTY is cleared
	 * before the next epoch is open: pairs with commit_close().
	 */
	smp_rmb();
	err = reserve_check(log, version, more);
	if (!err) {
		buf = stream_buf(s, note->epoch, &size);
		err = buf ? log_grow(log, more) : -EAGAIN;
	}
	if (err) {
		raw_spin_unlock(&s->lock);
		/* Only a commit renews the lease, even if there is nothing else to commit. */
		if (unlikely(!kvt_log_lease_lasts(&log->state)))
			log_dirty(log);
		preempt_enable();
		return err;
	}
	to = buf->data + buf->used;
	outside = buf->outside + buf->nr_outside;
	buf->used += size.len;
	buf->nr_outside += size.nr_outside;
	buf->outside_len += size.outside_len;
	buf->nr_records++;
	atomic_inc(&buf->busy);
	s->max_version = max(s->max_version, version);
	raw_spin_unlock(&s->lock);

	note->log = log;
	note->live = more;
	note->buf = buf;
	note->record = kvt_log_encode(to, &size, key, version, new, outside);
	log_dirty(log);
	return 0;
}
KVT_EXPORT_FOR_TESTS(kvt_log_reserve);

/**
 * kvt_log_publish() - complete a logged change
 * @note: of kvt_log_reserve()
 * @published: the change is in the index; false: it was given up, and recovery ignores its record
 *
 * Context: as kvt_log_reserve().
 */
void kvt_log_publish(struct kvt_log_note *note, bool published)
{
	if (!published) {
		note->record->type = KVTREE_LOG_NOTHING;
		kvt_live_sub(&note->log->space, note->live);
	}
	/* Pairs with atomic_read_acquire() in stream_write_begin(): the record is complete. */
	atomic_dec_return_release(&note->buf->busy);
	preempt_enable();
}
KVT_EXPORT_FOR_TESTS(kvt_log_publish);

/**
 * kvt_stream_close() - seal a stream's buffer of a closed epoch
 * @s: the stream
 * @epoch: the last closed epoch
 *
 * Context: process context.
 *
 * Return: true if the stream has sealed buffers to write: this one, or earlier ones.
 */
bool kvt_stream_close(struct kvt_stream *s, u64 epoch)
{
	struct kvt_log_buf *buf;
	bool sealed;

	local_bh_disable();
	raw_spin_lock(&s->lock);
	buf = stream_buffer(s);
	if (buf && !buf_empty(buf) && buf->epoch <= epoch)
		stream_seal(s);
	sealed = s->nr_sealed;
	raw_spin_unlock(&s->lock);
	local_bh_enable();
	return sealed;
}
KVT_EXPORT_FOR_TESTS(kvt_stream_close);

/* Return the oldest sealed buffer after the first @skip ones, or NULL. */
static struct kvt_log_buf *stream_sealed(struct kvt_stream *s, u32 skip)
{
	struct kvt_log_buf *buf = NULL;

	local_bh_disable();
	raw_spin_lock(&s->lock);
	if (s->nr_sealed > skip)
		buf = &s->buf[(s->first + skip) % KVT_LOG_BUFS];
	raw_spin_unlock(&s->lock);
	local_bh_enable();
	return buf;
}

/**
 * kvt_stream_behind() - whether a stream has yet to write records of an epoch
 * @s: the stream, closed up to the epoch
 * @epoch: the epoch
 *
 * Context: process context.
 *
 * Return: true if a sealed buffer has records of the epoch or of an earlier one.
 */
bool kvt_stream_behind(struct kvt_stream *s, u64 epoch)
{
	const struct kvt_log_buf *buf = stream_sealed(s, 0);

	return buf && buf->epoch <= epoch;
}

/**
 * kvt_stream_clean() - let commits pass over a stream that has nothing more for them
 * @s: the stream
 *
 * Context: process context; under commit_lock.
 */
void kvt_stream_clean(struct kvt_stream *s)
{
	local_bh_disable();
	raw_spin_lock(&s->lock);
	/* Without sealed buffers nothing is being written, so no extent is added. */
	if (!s->nr_sealed && buf_empty(stream_buffer(s)) && !READ_ONCE(s->nr_extents))
		clear_bit(s->id, s->log->dirty);
	raw_spin_unlock(&s->lock);
	local_bh_enable();
}

/* Whether there is room to list the next chunk's extent; the caller alone adds extents. */
static bool stream_names(struct kvt_stream *s, u64 epoch)
{
	u32 room = KVT_LOG_EXTENTS;

	/* The last entries are kept for the buffers of a closed epoch. */
	if (epoch >= READ_ONCE(s->log->state.epoch))
		room -= KVT_LOG_BUFS;
	return READ_ONCE(s->nr_extents) < room;
}

/* The extent that a chunk belongs to, a new one if need be; under the extents' lock. */
static struct kvt_log_extent *stream_extent(struct kvt_stream *s, u64 epoch,
					    const struct kvt_log_pos *pos)
{
	struct kvt_log_extent *last = s->nr_extents ? &s->extent[s->nr_extents - 1] : NULL;

	if (last && last->epoch == epoch && last->pos.sequence == pos->sequence &&
	    last->pos.block + last->blocks == pos->block)
		return last;
	last = &s->extent[s->nr_extents++];
	last->blocks = 0;
	return last;
}

/* Mark the keys that a buffer's records change, before any of the records can be durable. */
static void stream_mark(struct kvt_stream *s, struct kvt_log_buf *buf)
{
	const struct kvtree_log_record *rec;
	u32 at;

	if (buf->marked)
		return;
	buf->marked = true;
	for (at = sizeof(struct kvtree_log_chunk); at < buf->used; at += le32_to_cpu(rec->len)) {
		rec = (const void *)(buf->data + at);
		if (rec->type != KVTREE_LOG_NOTHING)
			kvt_image_mark(&s->log->image, (const u8 *)(rec + 1),
				       le16_to_cpu(rec->key_len));
	}
}

/* Begin to write a buffer.  Returns an outcome. */
static int stream_write(struct kvt_stream *s, struct kvt_log_buf *buf)
{
	struct kvt_log_extent *extent;
	struct kvt_log_pos pos;
	int err;

	if (!stream_names(s, buf->epoch))
		return KVT_LOG_BEHIND;
	err = kvt_append(s->part, s->id, kvt_chunk_blocks(buf), buf->epoch, &pos);
	if (err)
		return err;
	stream_mark(s, buf);
	kvt_stat_add(s->log->state.env.stats, KVTREE_STAT_LOG_RECORD_BYTES, kvt_buf_payload(buf));
	mutex_lock(&s->extents_lock);
	extent = stream_extent(s, buf->epoch, &pos);
	kvt_io_init(&s->io);
	s->writing = buf;
	err = kvt_chunk_write(s->part->dev, buf, s->id, &pos, s->stage, extent, &s->io);
	mutex_unlock(&s->extents_lock);
	return err;
}

static void stream_written(struct kvt_stream *s, struct kvt_log_buf *buf)
{
	u32 bytes = buf_bytes(buf);

	kvt_buf_reset(buf);
	local_bh_disable();
	raw_spin_lock(&s->lock);
	s->sealed -= bytes;
	s->first = (s->first + 1) % KVT_LOG_BUFS;
	s->nr_sealed--;
	raw_spin_unlock(&s->lock);
	local_bh_enable();
	/* Pairs with the barrier of waiters, which queue themselves and check again. */
	if (kvt_event_has_sleeper(&s->log->state.space_event))
		kvt_event_wake_for(&s->log->state.space_event, s);
}

static void stream_fail(struct kvt_stream *s, int err)
{
	if (err)
		kvt_log_fail(&s->log->state, err, "a record could not be written");
}

/* Begin to write a buffer, or drop it if the log has failed.  Returns whether that was possible. */
static bool stream_write_begin(struct kvt_stream *s, struct kvt_log_buf *buf)
{
	int err;

	/* This takes little time: writers do not sleep between reserving and publishing. */
	while (atomic_read_acquire(&buf->busy))
		cond_resched();
	if (READ_ONCE(s->log->state.error)) {
		stream_written(s, buf);
		return true;
	}
	err = stream_write(s, buf);
	/* If a checkpoint is making room, do not ask for a commit: both are repeated after it. */
	if (err == KVT_LOG_BEHIND && !test_bit(KVT_LOG_FULL, &s->log->state.flags))
		kvt_log_want(s->log, buf->epoch);
	if (err == KVT_LOG_BEHIND || err == KVT_LOG_NO_ROOM)
		return false;
	stream_fail(s, err);
	return true;
}

/* Wait for the buffer that is being written, if one is, and free it. */
static void stream_write_end(struct kvt_stream *s)
{
	if (!s->writing)
		return;
	stream_fail(s, kvt_io_wait(&s->io));
	stream_written(s, s->writing);
	s->writing = NULL;
}

/* Write the sealed buffers up to an epoch; do not wait for the last one.  Under flush_lock. */
static bool stream_flush(struct kvt_stream *s, u64 epoch)
{
	struct kvt_log_buf *buf;

	while ((buf = stream_sealed(s, s->writing ? 1 : 0)) && buf->epoch <= epoch) {
		stream_write_end(s);
		if (!stream_write_begin(s, buf))
			return false;
	}
	return true;
}

/**
 * kvt_stream_flush_begin() - write the sealed buffers, and do not wait for the last one
 * @s: the stream
 * @epoch: the last epoch to write
 *
 * The committer writes one stream this way, and then waits for the workers, which hold the flush
 * locks of the other streams.  For lockdep, their locks are of another subclass than this one.
 *
 * Context: process context, sleeps; kvt_stream_flush_end() must follow.
 *
 * Return: true; false: there was no room for some of them.
 */
bool kvt_stream_flush_begin(struct kvt_stream *s, u64 epoch)
{
	mutex_lock_nested(&s->flush_lock, SINGLE_DEPTH_NESTING);
	return stream_flush(s, epoch);
}
KVT_EXPORT_FOR_TESTS(kvt_stream_flush_begin);

/**
 * kvt_stream_flush_end() - wait until the last buffer is written
 * @s: the stream
 *
 * Context: process context, sleeps.
 */
void kvt_stream_flush_end(struct kvt_stream *s)
{
	stream_write_end(s);
	mutex_unlock(&s->flush_lock);
}
KVT_EXPORT_FOR_TESTS(kvt_stream_flush_end);

static void stream_flush_work(struct work_struct *work)
{
	struct kvt_stream *s = container_of(work, struct kvt_stream, flush);

	mutex_lock(&s->flush_lock);
	/* When the machine is about to sleep, write only what a commit waits for. */
	stream_flush(s, READ_ONCE(kvt_log_asleep) ? READ_ONCE(s->log->state.closed) : U64_MAX);
	kvt_stream_flush_end(s);
}

static int stream_init(struct kvt_log *log, struct kvt_stream *s, u32 id)
{
	int err = 0;
	u32 i;

	raw_spin_lock_init(&s->lock);
	mutex_init(&s->flush_lock);
	mutex_init(&s->extents_lock);
	INIT_WORK(&s->flush, stream_flush_work);
	s->log = log;
	s->id = id;
	s->part = &log->space.part[id % log->devs.nr];
	s->stage = vmalloc(KVT_LOG_BUF_BYTES);
	for (i = 0; !err && i < KVT_LOG_BUFS; i++)
		err = kvt_buf_init(&s->buf[i], KVT_LOG_OUTSIDE_MAX);
	return s->stage ? err : -ENOMEM;
}

static u32 streams_max(const struct kvt_log *log)
{
	/* Changes that are refused take no buffers. */
	if (log->devs.read_only)
		return 1;
	return min3(kvt_room_streams(&log->space), nr_cpu_ids, KVTREE_LOG_STREAMS_MAX);
}

/* Halve the number of streams if that makes room for records.  Returns whether it does. */
static bool streams_halve(struct kvt_log *log)
{
	u64 max = kvt_room_live_max(&log->space);
	u32 nr = log->nr_streams;

	log->nr_streams = nr / 2;
	kvt_room_init(&log->space, log->nr_streams);
	if (kvt_room_live_max(&log->space) > max)
		return true;
	log->nr_streams = nr;
	kvt_room_init(&log->space, log->nr_streams);
	return false;
}

/*
 * The more streams there are, the less the store may hold.  If the store was filled on a machine
 * with fewer CPUs, and so with fewer streams, use fewer streams here as well.
 */
static void streams_count(struct kvt_log *log)
{
	u64 live = kvt_live_bytes(&log->space), slack = kvt_live_slack(&log->space);

	log->nr_streams = streams_max(log);
	kvt_room_init(&log->space, log->nr_streams);
	while (log->nr_streams > 1 && live > kvt_room_live_max(&log->space) + slack)
		if (!streams_halve(log))
			break;
}

/**
 * kvt_streams_init() - make a stream for each CPU, or fewer
 * @log: the log; its devices are open, and all live bytes are counted; kvt_streams_exit() must
 *	follow, whatever is returned
 *
 * This also calls kvt_room_init(), because the room for records depends on the number of streams.
 *
 * Context: process context, sleeps.
 *
 * Return: 0 or -ENOMEM.
 */
int kvt_streams_init(struct kvt_log *log)
{
	int err = 0;
	u32 i;

	streams_count(log);
	log->streams = kvcalloc(log->nr_streams, sizeof(*log->streams), GFP_KERNEL);
	if (!log->streams) {
		log->nr_streams = 0;
		return -ENOMEM;
	}
	for (i = 0; i < log->devs.nr; i++)
		kvt_append_init(&log->space.part[i]);
	for (i = 0; !err && i < log->nr_streams; i++)
		err = stream_init(log, &log->streams[i], i);
	return err;
}
KVT_EXPORT_FOR_TESTS(kvt_streams_init);

/**
 * kvt_streams_exit() - free the streams
 * @log: the log, which has no writers any more
 *
 * Context: process context, sleeps.
 */
void kvt_streams_exit(struct kvt_log *log)
{
	struct kvt_stream *s;
	u32 i, j;

	for (i = 0; i < log->nr_streams; i++) {
		s = &log->streams[i];
		if (s->log)
			cancel_work_sync(&s->flush);
		for (j = 0; j < KVT_LOG_BUFS; j++)
			kvt_buf_exit(&s->buf[j]);
		vfree(s->stage);
	}
	kvfree(log->streams);
	log->streams = NULL;
	log->nr_streams = 0;
}
KVT_EXPORT_FOR_TESTS(kvt_streams_exit);
