// SPDX-License-Identifier: GPL-2.0
/*
 * Saving: several workers (struct saver) write a checkpoint's keys and values.
 *
 * A worker takes one job after the other: see plan.c.  When none is left, it takes over the upper
 * half of the interval of keys that another worker has yet to write.  As the distribution of keys
 * is unknown, the interval is halved by reading the bytes of its bounds as numbers, repeatedly
 * until there is a key in the upper part.
 *
 * A worker collects a range's records in its buffer; they form a piece.  When the buffer has enough
 * pieces, the worker writes it as a chunk, and the pieces' positions are known then.  A chunk has
 * either bases or deltas.  So that few chunks are small, the jobs that write bases come first.
 */
#include <linux/bitmap.h>
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/moduleparam.h>
#include <linux/rcupdate.h>
#include <linux/sched/signal.h>
#include <linux/timekeeping.h>
#include <linux/unaligned.h>
#include <linux/vmalloc.h>

#include "base/index.h"
#include "base/value.h"
#include "checkpoint.h"

/* Values visited in one RCU read section, and while the interval's lock is held. */
#define SAVE_BATCH	512
/* The most columns outside of a buffer's records: the smallest such column has 16 bytes. */
#define SAVE_OUTSIDE_MAX							\
	((KVT_SAVE_BYTES + KVT_LOG_PIECE_BYTES) / 2 / KVT_INLINE_ALWAYS + KVTREE_COLS_MAX)
/* One more piece fits into a buffer. */
static_assert(KVT_SAVE_BYTES + KVT_LOG_PIECE_BYTES + KVT_VALUE_SIZE_MAX +
	      sizeof(struct kvtree_log_record) + KVTREE_KEY_MAX <= KVT_LOG_BUF_BYTES);
/* How often a worker tries to take a part of others' intervals, and how often it halves one. */
#define SPLITS_MAX	32
#define HALVES_MAX	24
/* The longest pause of a worker, us. */
#define REST_MAX	100000

static unsigned int log_savers;
module_param(log_savers, uint, 0644);
MODULE_PARM_DESC(log_savers, "workers that write a checkpoint, at most 8; 0: half as many as there are CPUs");

struct bound {
	u32 len;
	u8 key[KVTREE_KEY_MAX];
};

/* The current piece: where it begins in the buffer. */
struct piece {
	u32 used;
	u32 nr_outside;
	u32 outside_len;
	u32 nr_records;
	bool has_low;			/* low is set; false: its first key will determine it */
	struct bound low;		/* the lower bound of the piece's range */
};

struct saver {
	struct work_struct work;
	struct saving *saving;
	struct kvt_log_buf buf;
	u8 *stage;			/* KVT_LOG_BUF_BYTES */
	enum kvt_place place;		/* where the buffer is to be written */
	bool done;			/* nothing is left for it */

	struct mutex lock;		/* protects the interval: the fields up to iter */
	bool active;			/* there may be more keys in it */
	bool bounded;			/* false: it goes on to the last key */
	bool delta;			/* it is one range, and a delta of it is written */
	struct bound end;		/* excluded: keys are less than this */
	struct kvt_iter *iter;

	const struct kvt_job *job;	/* the interval is a part of it */
	bool first;			/* the job needs a piece here, and has none so far */
	struct piece piece;
	struct kvt_log_directory made;	/* new ranges */
	u32 nr_placed;			/* ... with pieces that are written */
	DECLARE_BITMAP(cover, KVT_COVER_BITS);	/* the hashes that a delta covers */
	struct bound before;		/* the last key of the previous piece */

	u32 nr_splits;
	struct bound half;		/* where a new interval begins */
	struct bound high;
};

struct saving {
	struct kvt_saved *saved;
	const struct kvt_checkpoints *cps;
	struct task_struct *task;	/* the task that makes it */
	int err;			/* the first error */
	struct bound last;		/* the index's last key when saving began */
	struct mutex lock;		/* protects next; held by a worker that looks for work */
	u32 next[KVT_PLACES];		/* where to look for a job that writes there */
	u32 nr;
	struct saver savers[];
};

/* Find a key halfway between a position and @high.  Returns false if there is none. */
static bool bound_half(struct bound *half, const struct kvt_iter *at, const struct bound *high)
{
	u32 same = 0, max = min(at->len, high->len);
	u64 a, b;

	while (same < max && at->key[same] == high->key[same])
		same++;
	if (same + 8 > KVTREE_KEY_MAX)
		return false;
	a = kvt_key_number(at->key, at->len, same, at->bound == KVT_PAST ? 0xff : 0);
	b = kvt_key_number(high->key, high->len, same, 0);
	if (b <= a || b - a < 2)
		return false;
	memcpy(half->key, at->key, same);
	put_unaligned_be64(a + (b - a) / 2, half->key + same);
	half->len = same + 8;
	return true;
}

/* Advance.  Returns whether the iterator is at a key. */
static bool iter_step(struct kvt_iter *iter)
{
	struct kvt_value *v;

	do {
		rcu_read_lock();
		v = kvt_iter_one(iter);
		rcu_read_unlock();
		iter->index->ops->iter_rest(iter);
		cond_resched();
	} while (IS_ERR(v));
	return v;
}

/* Whether there is a key from @from on and before @end. */
static bool range_has(struct kvt_iter *iter, const struct bound *from, const struct bound *end)
{
	kvt_iter_seek(iter, from->key, from->len);
	return iter_step(iter) && kvt_iter_cmp(iter, end->key, end->len) < 0;
}

/* Set s->half to the beginning of the upper part of @from's interval; @from's lock is held. */
static bool saver_halve(struct saver *s, const struct saver *from)
{
	u32 i;

	s->high = from->bounded ? from->end : s->saving->last;
	for (i = 0; i < HALVES_MAX; i++) {
		if (!bound_half(&s->half, from->iter, &s->high))
			return false;
		if (range_has(s->iter, &s->half, &s->high))
			return true;
		s->high = s->half;
	}
	return false;
}

/* Begin a piece at the end of the buffer.  @low: where its range begins; NULL: not known yet. */
static void piece_begin(struct saver *s, const struct bound *low)
{
	struct piece *piece = &s->piece;

	piece->used = s->buf.used;
	piece->nr_outside = s->buf.nr_outside;
	piece->outside_len = s->buf.outside_len;
	piece->nr_records = s->buf.nr_records;
	piece->has_low = low;
	if (low)
		piece->low = *low;
}

/* Take the upper part of another worker's interval.  Ours is private until it is active. */
static bool saver_take(struct saver *s, struct saver *from)
{
	bool took;

	mutex_lock(&from->lock);
	took = from->active && !from->delta && saver_halve(s, from);
	if (took) {
		s->job = from->job;
		s->bounded = from->bounded;
		s->end = from->end;
		from->bounded = true;
		from->end = s->half;
	}
	mutex_unlock(&from->lock);
	if (!took)
		return false;
	s->first = false;
	piece_begin(s, &s->half);
	mutex_lock(&s->lock);
	kvt_iter_seek(s->iter, s->half.key, s->half.len);
	s->delta = false;
	s->active = true;
	mutex_unlock(&s->lock);
	return true;
}

/* Take a part of another worker's interval, if there is one that can be split. */
static bool saver_split(struct saver *s)
{
	struct saving *saving = s->saving;
	u32 i, self = s - saving->savers;

	if (s->nr_splits++ == SPLITS_MAX)
		return false;
	for (i = 1; i < saving->nr; i++)
		if (saver_take(s, &saving->savers[(self + i) % saving->nr]))
			return true;
	return false;
}

static void bound_set(struct bound *bound, const struct kvt_log_range *range)
{
	bound->len = range->key_len;
	memcpy(bound->key, range->key, range->key_len);
}

/* Set the hashes that a delta covers: those that agree with a marked one in the low @bits bits. */
static void cover_fill(struct saver *s, const unsigned long *marked, u32 bits)
{
	u32 bit, nr = 1U << bits;

	bitmap_zero(s->cover, KVT_COVER_BITS);
	for_each_set_bit(bit, marked, KVT_COVER_BITS)
		__set_bit(bit % nr, s->cover);
	for (bit = nr; bit < KVT_COVER_BITS; bit++)
		__assign_bit(bit, s->cover, test_bit(bit % nr, s->cover));
}

/* Write a delta's first record, which lists what it covers: see struct kvtree_log_piece. */
static void cover_write(struct saver *s, u32 bits)
{
	u32 bit, nr = 1U << bits, weight = bitmap_weight(s->cover, nr);
	u32 bytes = min_t(u32, weight * sizeof(__le16), KVTREE_LOG_COVER_BYTES);
	struct kvtree_log_record *rec;
	__le16 *list;
	u8 *map;

	rec = kvt_log_record_begin(&s->buf, KVTREE_LOG_COVER, kvt_log_record_size(0, bytes));
	rec->value = cpu_to_le32(bytes);
	list = (__le16 *)(rec + 1);
	map = (u8 *)(rec + 1);
	for_each_set_bit(bit, s->cover, nr) {
		if (bytes < KVTREE_LOG_COVER_BYTES)
			*list++ = cpu_to_le16(bit);
		else
			map[bit / BITS_PER_BYTE] |= BIT(bit % BITS_PER_BYTE);
	}
}

/*
 * Begin a job, or begin it again to write a base instead of a delta.  No other worker takes a part
 * of the interval before it is active, or while a delta is written.
 */
static void saver_begin(struct saver *s, const struct kvt_job *job, bool delta)
{
	const struct kvt_saved *saved = s->saving->saved;
	const struct kvt_log_directory *old = saved->old;

	s->job = job;
	s->first = true;
	bound_set(&s->half, old->range[job->first]);
	s->bounded = job->end < old->nr;
	if (s->bounded)
		bound_set(&s->end, old->range[job->end]);
	piece_begin(s, &s->half);
	if (delta) {
		cover_fill(s, kvt_mark_bits(saved->marks[job->first]), saved->cover_bits);
		cover_write(s, saved->cover_bits);
	}
	mutex_lock(&s->lock);
	kvt_iter_seek(s->iter, s->half.key, s->half.len);
	s->delta = delta;
	s->active = true;
	mutex_unlock(&s->lock);
}

/* Let a range begin with the shortest prefix of its first key that is above the key before it. */
static void piece_separate(struct saver *s)
{
	struct bound *low = &s->piece.low;
	u32 same = 0;

	while (same < s->before.len && s->before.key[same] == s->iter->key[same])
		same++;
	low->len = same + 1;
	memcpy(low->key, s->iter->key, low->len);
	s->piece.has_low = true;
}

static void saver_add(struct saver *s, const struct kvt_value *v)
{
	struct kvt_key key = { .data = s->iter->key, .len = s->iter->len };
	struct kvt_log_size size = kvt_log_size(key.len, v);
	struct kvt_log_buf *buf = &s->buf;

	kvt_log_encode(buf->data + buf->used, &size, &key, v->version, v,
		       buf->outside + buf->nr_outside);
	buf->used += size.len;
	buf->nr_outside += size.nr_outside;
	buf->outside_len += size.outside_len;
	buf->nr_records++;
	if (!s->piece.has_low)
		piece_separate(s);
}

static bool saver_past_end(const struct saver *s)
{
	return s->bounded && kvt_iter_cmp(s->iter, s->end.key, s->end.len) >= 0;
}

/* Whether the current key must be written. */
static bool saver_wants(const struct saver *s)
{
	if (!s->delta)
		return true;
	return test_bit(kvt_log_key_hash(s->saving->saved->log->image.seed, s->iter->key,
					 s->iter->len), s->cover);
}

/* Whether the piece is as large as it may be. */
static bool piece_is_full(const struct saver *s)
{
	u32 max = s->delta ? s->job->delta_max : s->saving->saved->range_bytes;

	return s->buf.used - s->piece.used + s->buf.outside_len - s->piece.outside_len >= max;
}

enum fill {
	FILL_MORE,	/* there may be more */
	FILL_PIECE,	/* the piece is full */
	FILL_ALL,	/* the interval ends */
};

static enum fill saver_fill(struct saver *s)
{
	const struct kvt_index_ops *ops = s->iter->index->ops;
	enum fill fill = FILL_MORE;
	unsigned int left = SAVE_BATCH;
	struct kvt_value *v;

	mutex_lock(&s->lock);
	rcu_read_lock();
	while (fill == FILL_MORE && left--) {
		v = kvt_iter_one(s->iter);
		if (IS_ERR(v))
			break;
		s->active = v && !saver_past_end(s);
		if (!s->active) {
			fill = FILL_ALL;
		} else if (saver_wants(s)) {
			saver_add(s, v);
			fill = piece_is_full(s) ? FILL_PIECE : FILL_MORE;
		}
	}
	rcu_read_unlock();
	ops->iter_rest(s->iter);
	mutex_unlock(&s->lock);
	return fill;
}

/* Remove the incomplete piece from the buffer. */
static void piece_drop(struct saver *s)
{
	const struct piece *piece = &s->piece;
	struct kvt_log_buf *buf = &s->buf;

	while (buf->nr_outside > piece->nr_outside)
		kvt_blob_put(buf->outside[--buf->nr_outside]);
	buf->outside_len = piece->outside_len;
	buf->nr_records = piece->nr_records;
	buf->used = piece->used;
}

/* The buffer is written: enter the positions and checksums of its pieces. */
static void saver_placed(struct saver *s, const struct kvt_log_extent *extent, u32 outside_at)
{
	struct kvt_log *log = s->saving->saved->log;
	const struct kvtree_log_super *super = log->devs.dev[extent->dev].super;
	struct kvt_blob **blob = s->buf.outside;
	static const u8 zeros[8];
	u32 len;

	for (; s->nr_placed < s->made.nr; s->nr_placed++) {
		struct kvt_log_range *range = s->made.range[s->nr_placed];
		struct kvt_log_piece *piece;

		if (!range->nr_pieces)
			continue;
		piece = &range->piece[range->nr_pieces - 1];
		piece->pos = extent->pos;
		piece->dev = extent->dev;
		piece->generation = log->devs.generation;
		piece->outside += outside_at;
		piece->crc = kvt_log_crc(super, piece->generation, &piece->pos,
					 s->buf.data + piece->offset, piece->len);
		for (len = 0; len < piece->outside_len; blob++) {
			u32 size = (*blob)->len, pad = ALIGN(size, 8) - size;

			piece->crc = kvt_crc32c(piece->crc, (*blob)->data, size);
			piece->crc = kvt_crc32c(piece->crc, zeros, pad);
			len += size + pad;
		}
	}
}

/* Write the buffer. */
static int saver_write(struct saver *s)
{
	u32 outside_at = ALIGN(s->buf.used, KVTREE_LOG_BLOCK);
	struct kvt_log_extent extent;
	int err;

	if (!s->buf.nr_records)
		return 0;
	err = kvt_saved_write(s->saving->saved, s->place, &s->buf, s->stage, &extent);
	if (err)
		return err;
	kvt_saved_done(s->saving->saved, kvt_buf_payload(&s->buf));
	saver_placed(s, &extent, outside_at);
	kvt_buf_reset(&s->buf);
	piece_begin(s, NULL);
	return 0;
}

/* Where a job writes, unless its delta becomes too large. */
static enum kvt_place job_place(const struct kvt_job *job)
{
	return job->delta_max ? KVT_PLACE_REST : KVT_PLACE_BASES;
}

/* Find the next job that writes to a place.  Returns NULL if there is none. */
static const struct kvt_job *saving_job(struct saving *saving, enum kvt_place place)
{
	const struct kvt_saved *saved = saving->saved;
	u32 *next = &saving->next[place];

	for (; *next < saved->nr_jobs; (*next)++) {
		if (job_place(&saved->jobs[*next]) == place)
			return &saved->jobs[*next];
		cond_resched();
	}
	return NULL;
}

/*
 * Begin the next job, or a part of another worker's.  If there is none, the worker is done.
 * Returns false if the buffer has to be written first.
 */
static bool saver_begin_next(struct saver *s)
{
	struct saving *saving = s->saving;
	const struct kvt_job *base = saving_job(saving, KVT_PLACE_BASES);
	const struct kvt_job *delta = base ? NULL : saving_job(saving, KVT_PLACE_REST);
	/* Only bases are divided among workers. */
	enum kvt_place place = delta ? KVT_PLACE_REST : KVT_PLACE_BASES;

	if (s->place != place && s->buf.nr_records)
		return false;
	s->place = place;
	if (base || delta) {
		saving->next[place]++;
		saver_begin(s, base ?: delta, delta);
	} else {
		s->done = !saver_split(s);
	}
	return true;
}

/* One worker looks at a time: a job is active before others look for a part of it. */
static int saver_next(struct saver *s)
{
	bool began;

	mutex_lock(&s->saving->lock);
	began = saver_begin_next(s);
	mutex_unlock(&s->saving->lock);
	return began ? 0 : saver_write(s);
}

/* A delta has become too large: write a base instead. */
static int saver_restart(struct saver *s)
{
	int err;

	piece_drop(s);
	err = saver_write(s);
	if (err)
		return err;
	s->place = KVT_PLACE_BASES;
	saver_begin(s, s->job, false);
	return 0;
}

/* Make the new range that has the current piece; a delta is added to the old range's pieces. */
static struct kvt_log_range *piece_range(const struct saver *s)
{
	const struct kvt_log_range *old = s->saving->saved->old->range[s->job->first];
	const struct piece *from = &s->piece;
	u32 nr = s->delta ? old->nr_pieces : 0;
	struct kvt_log_range *range;
	struct kvt_log_piece *piece;

	range = kvt_log_range_alloc(from->low.key, from->low.len, nr + (s->buf.used > from->used));
	if (!range || !range->nr_pieces)
		return range;
	memcpy(range->piece, old->piece, nr * sizeof(*piece));
	piece = &range->piece[nr];
	piece->offset = from->used;
	piece->len = s->buf.used - from->used;
	piece->outside = from->outside_len;
	piece->outside_len = s->buf.outside_len - from->outside_len;
	piece->records = s->buf.nr_records - from->nr_records - s->delta;
	piece->delta = s->delta;
	piece->cover_bits = s->delta ? s->saving->saved->cover_bits : 0;
	return range;
}

/* Complete the piece.  A part that was taken from another worker needs no range if it is empty. */
static int saver_cut(struct saver *s)
{
	if (s->buf.used == s->piece.used && !s->first)
		return 0;
	if (kvt_log_directory_add(&s->made, piece_range(s)))
		return -ENOMEM;
	s->first = false;
	s->before.len = min(s->iter->len, KVTREE_KEY_MAX);
	memcpy(s->before.key, s->iter->key, s->before.len);
	piece_begin(s, NULL);
	return 0;
}

/* Whether the buffer has complete pieces only, and may not have room for another one. */
static bool saver_is_full(const struct saver *s)
{
	return s->buf.used == s->piece.used &&
	       s->buf.used + s->buf.outside_len >= KVT_SAVE_BYTES;
}

/* Whether the log may run out of room before the checkpoint is done, unless it hurries. */
static bool saving_is_urgent(struct kvt_log *log)
{
	return kvt_room_short(&log->space) || test_bit(KVT_LOG_FULL, &log->state.flags);
}

/* If there are writers, leave the CPUs and devices to them for a third of the time. */
static void saver_rest(struct kvt_log *log, ktime_t since)
{
	s64 worked = ktime_us_delta(ktime_get(), since);

	if (test_bit(KVT_LOG_DIRTY, &log->state.flags) && !saving_is_urgent(log))
		fsleep(clamp_t(s64, worked / 2, 1, REST_MAX));
}

/**
 * kvt_save_ends() - find out whether a checkpoint has to end before it is complete
 * @cps: the checkpoints
 * @task: the task that makes it
 *
 * A machine that is about to sleep waits for a checkpoint that is made before a life begins, but
 * not for others.
 *
 * Context: any.
 *
 * Return: 0: it goes on; -EIO; -EINTR: a fatal signal came; KVT_LOG_SLEEPS.
 */
int kvt_save_ends(const struct kvt_checkpoints *cps, struct task_struct *task)
{
	const struct kvt_log *log = &cps->commits.log;

	if (READ_ONCE(log->state.error))
		return -EIO;
	if (fatal_signal_pending(task))
		return -EINTR;
	/* A detach makes a checkpoint of its own if it has to. */
	if (cps->unasked && test_bit(KVT_LOG_CLOSED, &log->state.flags))
		return KVT_LOG_SLEEPS;
	return READ_ONCE(kvt_log_asleep) && log->state.alive ? KVT_LOG_SLEEPS : 0;
}

static int saving_ends(const struct saving *saving)
{
	return READ_ONCE(saving->err) ?: kvt_save_ends(saving->cps, saving->task);
}

/* Save a batch of values. */
static int saver_step(struct saver *s)
{
	enum fill fill = saver_fill(s);

	if (fill == FILL_MORE)
		return 0;
	if (fill == FILL_PIECE && s->delta)
		return saver_restart(s);
	return saver_cut(s);
}

static void saver_work(struct work_struct *work)
{
	struct saver *s = container_of(work, struct saver, work);
	struct saving *saving = s->saving;
	struct kvt_log *log = saving->saved->log;
	ktime_t since = ktime_get();
	int err = 0;

	while (!err && !s->done) {
		err = s->active ? saver_step(s) : saver_next(s);
		if (!err && saver_is_full(s)) {
			err = saver_write(s);
			saver_rest(log, since);
			since = ktime_get();
		}
		err = err ?: saving_ends(saving);
		cond_resched();
	}
	err = err ?: saver_write(s) ?: saving_ends(saving);
	if (err)
		cmpxchg(&saving->err, 0, err);
}

static int saver_init(struct saver *s, struct saving *saving, struct kvt_index *index, u64 epoch)
{
	s->saving = saving;
	INIT_WORK(&s->work, saver_work);
	mutex_init(&s->lock);
	s->stage = vmalloc(KVT_LOG_BUF_BYTES);
	s->iter = kvzalloc(index->ops->iter_size, GFP_KERNEL);
	if (!s->stage || !s->iter)
		return -ENOMEM;
	s->iter->index = index;
	s->buf.epoch = epoch;
	return kvt_buf_init(&s->buf, SAVE_OUTSIDE_MAX);
}

static void saver_exit(struct saver *s)
{
	kvt_log_directory_free(&s->made);
	kvt_buf_exit(&s->buf);
	kvfree(s->iter);
	vfree(s->stage);
}

/* Find the index's last key, the upper bound for splitting an interval that has no end. */
static void saving_last(struct saving *saving)
{
	struct kvt_iter *iter = saving->savers[0].iter;
	struct bound *last = &saving->last;

	memset(last->key, 0xff, sizeof(last->key));
	iter->reverse = true;
	kvt_iter_seek(iter, last->key, sizeof(last->key));
	if (iter_step(iter)) {
		last->len = iter->len;
		memcpy(last->key, iter->key, iter->len);
	}
	iter->reverse = false;
}

/* Make the workers.  One is needed, the others are made if there is memory. */
static int saving_init(struct saving *saving, u32 max, u64 epoch)
{
	struct kvt_log *log = saving->saved->log;
	int err = 0;

	while (saving->nr < max && !err) {
		struct saver *s = &saving->savers[saving->nr];

		err = saver_init(s, saving, log->state.env.index, epoch);
		if (err)
			saver_exit(s);
		else
			saving->nr++;
	}
	if (!saving->nr)
		return err;
	saving_last(saving);
	return 0;
}

static void saving_run(struct saving *saving)
{
	u32 i;

	for (i = 1; i < saving->nr; i++)
		queue_work(saving->saved->log->state.wq, &saving->savers[i].work);
	saver_work(&saving->savers[0].work);
	/* No work is left to take, or saving ends: a worker that has not begun is not needed. */
	for (i = 1; i < saving->nr; i++)
		cancel_work_sync(&saving->savers[i].work);
}

static u32 savers_wanted(void)
{
	u32 nr = READ_ONCE(log_savers) ?: num_online_cpus() / 2;

	return clamp(nr, 1U, KVT_SAVERS_MAX);
}

/* Make the new directory: the ranges that stay as they are, and the workers' new ones. */
static int saving_compose(struct saving *saving)
{
	struct kvt_log_directory *dir = &saving->saved->dir, *made;
	u32 nr = 0, i;
	int err;

	for (i = 0; i < saving->nr; i++)
		nr += saving->savers[i].made.nr;
	err = kvt_saved_keep(saving->saved, nr);
	if (err)
		return err;
	for (i = 0; i < saving->nr; i++) {
		made = &saving->savers[i].made;
		if (made->nr)
			memcpy(dir->range + dir->nr, made->range, made->nr * sizeof(*made->range));
		dir->nr += made->nr;
		made->nr = 0;
	}
	kvt_log_directory_sort(dir);
	return 0;
}

/* Write the directory, with the buffer of the first worker. */
static int saving_directory(struct saving *saving)
{
	const struct kvt_log_directory *dir = &saving->saved->dir;
	struct saver *s = &saving->savers[0];
	int err = 0;
	u32 i;

	for (i = 0; !err && i < dir->nr; i++) {
		kvt_saved_describe(saving->saved, &s->buf, dir->range[i]);
		if (s->buf.used >= KVT_SAVE_BYTES || i + 1 == dir->nr)
			err = kvt_saved_flush(saving->saved, &s->buf, s->stage) ?:
			      saving_ends(saving);
		cond_resched();
	}
	return err;
}

/* Make and write the new directory, when all workers are done. */
static int saving_end(struct saving *saving)
{
	return saving->err ?: saving_compose(saving) ?: saving_directory(saving);
}

/**
 * kvt_save() - write what has changed, and the new directory
 * @saved: what to write; filled
 * @cps: the log's checkpoints
 * @epoch: of the checkpoint
 *
 * A value that changes is written as it was before the change, or after.
 *
 * Context: process context, sleeps.
 *
 * Return: 0; KVT_LOG_NO_ROOM; KVT_LOG_SLEEPS; -ENOMEM; -EINTR: a fatal signal came; -EIO or
 * another error of a device.
 */
int kvt_save(struct kvt_saved *saved, struct kvt_checkpoints *cps, u64 epoch)
{
	u32 max = savers_wanted(), i;
	struct saving *saving = kvzalloc(struct_size(saving, savers, max), GFP_KERNEL);
	int err;

	if (!saving)
		return -ENOMEM;
	saving->saved = saved;
	saving->cps = cps;
	saving->task = current;
	mutex_init(&saving->lock);
	err = saving_init(saving, max, epoch);
	if (!err) {
		saving_run(saving);
		err = saving_end(saving);
	}
	for (i = 0; i < saving->nr; i++)
		saver_exit(&saving->savers[i]);
	kvfree(saving);
	return err;
}
