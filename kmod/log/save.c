// SPDX-License-Identifier: GPL-2.0
/*
 * Saving: all keys and values of the index are written, by several workers.
 *
 * Each goes through a range of keys.  The first has all of them; one that has come to
 * the end of its range takes the upper half of another's.  Nothing is known of how many
 * keys there are where, so a range is halved by the number that its bounds' bytes
 * are, and again until there is something in the upper part.
 */
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/moduleparam.h>
#include <linux/rcupdate.h>
#include <linux/sched/signal.h>
#include <linux/timekeeping.h>
#include <linux/unaligned.h>
#include <linux/vmalloc.h>

#include "base/index.h"
#include "base/value.h"
#include "checkpoint.h"

/* Values that are looked at under one RCU read section, and while a range is held. */
#define SAVE_BATCH	512
/* Columns outside of a buffer's records, at most: the smallest has 16 bytes. */
#define SAVE_OUTSIDE_MAX	(KVT_LOG_OUTSIDE_BYTES / 2 / KVT_INLINE_ALWAYS + KVTREE_COLS_MAX)
/* Ranges that a worker takes from others, and places where it looks for a half. */
#define SPLITS_MAX	32
#define HALVES_MAX	24
/* The longest rest of a worker, us. */
#define REST_MAX	100000

static unsigned int log_savers;
module_param(log_savers, uint, 0644);
MODULE_PARM_DESC(log_savers, "workers that write a checkpoint, at most 8; 0: half as many as there are CPUs");

struct bound {
	u32 len;
	u8 key[KVTREE_KEY_MAX];
};

struct saver {
	struct work_struct work;
	struct saving *saving;
	struct kvt_log_buf buf;
	u8 *stage;			/* KVT_LOG_BUF_BYTES */

	struct mutex lock;		/* of the range */
	bool active;			/* there may be more in it */
	bool bounded;			/* false: it goes on to the last key */
	struct bound end;		/* excluded */
	struct kvt_iter *iter;

	u32 nr_splits;
	struct bound half;		/* found: where a new range begins */
	struct bound high;
};

struct saving {
	struct kvt_saved *saved;
	bool unasked;			/* nobody waits for it */
	struct task_struct *task;	/* who waits for it */
	int err;			/* the first one */
	struct bound last;		/* the last key, some time ago */
	u32 nr;
	struct saver savers[];
};

/* Eight bytes of a key as a number; behind its end are zeros, or another byte. */
static u64 key_number(const u8 *key, u32 len, u32 at, u8 behind)
{
	__be64 raw;

	memset(&raw, behind, sizeof(raw));
	if (at < len)
		memcpy(&raw, key + at, min(len - at, 8U));
	return be64_to_cpu(raw);
}

/* A key between a position and @high.  False: the bytes leave no room for one. */
static bool bound_half(struct bound *half, const struct kvt_iter *at, const struct bound *high)
{
	u32 same = 0, max = min(at->len, high->len);
	u64 a, b;

	while (same < max && at->key[same] == high->key[same])
		same++;
	if (same + 8 > KVTREE_KEY_MAX)
		return false;
	a = key_number(at->key, at->len, same, at->bound == KVT_PAST ? 0xff : 0);
	b = key_number(high->key, high->len, same, 0);
	if (b <= a || b - a < 2)
		return false;
	memcpy(half->key, at->key, same);
	put_unaligned_be64(a + (b - a) / 2, half->key + same);
	half->len = same + 8;
	return true;
}

static void iter_begin(struct kvt_iter *iter, const struct bound *at)
{
	iter->bound = KVT_AT;
	iter->len = at->len;
	memcpy(iter->key, at->key, at->len);
	iter->index->ops->iter_rest(iter);
}

/* Step on.  Returns whether the iterator stands on a key. */
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
	iter_begin(iter, from);
	return iter_step(iter) && kvt_iter_cmp(iter, end->key, end->len) < 0;
}

/* Find where the upper part of @from's range begins, whose lock is held: s->half. */
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

/* Take a part of another's range.  Nobody looks at ours while it is not active. */
static bool saver_take(struct saver *s, struct saver *from)
{
	bool took;

	mutex_lock(&from->lock);
	took = from->active && saver_halve(s, from);
	if (took) {
		s->bounded = from->bounded;
		s->end = from->end;
		from->bounded = true;
		from->end = s->half;
	}
	mutex_unlock(&from->lock);
	if (!took)
		return false;
	mutex_lock(&s->lock);
	iter_begin(s->iter, &s->half);
	s->active = true;
	mutex_unlock(&s->lock);
	return true;
}

/* Another range to go through, if somebody has one that is worth it. */
static bool saver_next(struct saver *s)
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

/* Whether there is room in the buffer for another value, after this one was added. */
static bool saver_add(struct saver *s, const struct kvt_value *v)
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
	return buf->used < KVT_SAVE_RECORDS_BYTES && buf->outside_len < KVT_LOG_OUTSIDE_BYTES;
}

static bool saver_past_end(const struct saver *s)
{
	return s->bounded && kvt_iter_cmp(s->iter, s->end.key, s->end.len) >= 0;
}

/* Fill the buffer.  True: it is full. */
static bool saver_fill(struct saver *s)
{
	const struct kvt_index_ops *ops = s->iter->index->ops;
	unsigned int left = SAVE_BATCH;
	struct kvt_value *v;
	bool full = false;

	mutex_lock(&s->lock);
	rcu_read_lock();
	while (!full && left--) {
		v = kvt_iter_one(s->iter);
		if (IS_ERR(v))
			break;
		s->active = v && !saver_past_end(s);
		if (!s->active)
			break;
		full = !saver_add(s, v);
	}
	rcu_read_unlock();
	ops->iter_rest(s->iter);
	mutex_unlock(&s->lock);
	return full;
}

/* Room in the table for one more extent. */
static int table_add(struct kvt_saved_dev *d)
{
	u32 room = d->room ? d->room * 2 : 128;
	struct kvtree_log_table *table;

	if (d->nr == d->room) {
		table = kvzalloc(struct_size(table, extents, room), GFP_KERNEL);
		if (!table)
			return -ENOMEM;
		if (d->table)
			memcpy(table, d->table, struct_size(table, extents, d->nr));
		kvfree(d->table);
		d->table = table;
		d->room = room;
	}
	d->nr++;
	return 0;
}

/**
 * kvt_saved_room() - make sure that so many blocks follow on a device
 * @saved: what was saved so far
 * @i: the device's index
 * @blocks: how many
 * @room: what for: KVT_ROOM_SAVE or KVT_ROOM_TABLE
 *
 * Context: process context, sleeps; nobody else has @saved, or its lock is held.
 *
 * Return: 0 and the place is that device's pos; KVT_LOG_NO_ROOM; or an error of the device.
 */
int kvt_saved_room(struct kvt_saved *saved, u32 i, u32 blocks, enum kvt_room room)
{
	struct kvt_log_dev *dev = &saved->log->devs.dev[i];
	struct kvt_saved_dev *d = &saved->dev[i];
	u32 size = le32_to_cpu(dev->super->segment_blocks);

	if (blocks > size - 1)
		return KVT_LOG_NO_ROOM;
	if (d->pos.block && blocks <= size - d->pos.block)
		return 0;
	return kvt_room_take(&saved->log->space.part[i], room, 0, &d->pos);
}

/* The device, of those in @devs, that has the least of its share so far. */
static u32 saved_next(const struct kvt_saved *saved, unsigned long devs)
{
	const struct kvt_log *log = saved->log;
	u64 part, least = U64_MAX;
	u32 i, next = 0;

	for_each_set_bit(i, &devs, log->devs.nr) {
		part = mul_u64_u64_div_u64(saved->dev[i].blocks, log->space.shares,
					   log->space.part[i].share);
		if (part < least) {
			least = part;
			next = i;
		}
	}
	return next;
}

/* Make room for a chunk on some device, *@i. */
static int saved_room(struct kvt_saved *saved, u32 blocks, u32 *i)
{
	unsigned long devs = BIT(saved->log->devs.nr) - 1;
	int err = KVT_LOG_NO_ROOM;

	while (devs && err == KVT_LOG_NO_ROOM) {
		*i = saved_next(saved, devs);
		__clear_bit(*i, &devs);
		err = kvt_saved_room(saved, *i, blocks, KVT_ROOM_SAVE);
	}
	return err;
}

/* Where a chunk goes.  *@nr is its place in the table of device *@i. */
static int saved_place(struct kvt_saved *saved, u32 blocks, u32 *i, u32 *nr,
		       struct kvt_log_pos *pos)
{
	struct kvt_saved_dev *d;
	int err;

	mutex_lock(&saved->lock);
	err = saved_room(saved, blocks, i);
	if (!err) {
		d = &saved->dev[*i];
		*nr = d->nr;
		*pos = d->pos;
		err = table_add(d);
	}
	if (!err) {
		d->pos.block += blocks;
		d->blocks += blocks;
	}
	mutex_unlock(&saved->lock);
	return err;
}

static void saved_note(struct kvt_saved_dev *d, u32 nr, const struct kvt_log_extent *extent,
		       u32 records)
{
	struct kvtree_log_extent *to = &d->table->extents[nr];

	kvt_log_pos_store(&to->pos, &extent->pos);
	to->blocks = cpu_to_le32(extent->blocks);
	to->crc = cpu_to_le32(extent->crc);
	d->records += records;
	d->bytes += (u64)extent->blocks * KVTREE_LOG_BLOCK;
}

static int saver_write(struct saver *s)
{
	struct kvt_saved *saved = s->saving->saved;
	struct kvt_log_extent extent = {};
	struct kvt_log_pos pos;
	struct kvt_io io;
	u32 i, nr;
	int err;

	if (!s->buf.nr_records)
		return 0;
	err = saved_place(saved, kvt_chunk_blocks(&s->buf), &i, &nr, &pos);
	if (err)
		return err;
	kvt_io_init(&io);
	err = kvt_chunk_write(&saved->log->devs.dev[i], &s->buf, 0, &pos, s->stage, &extent, &io);
	err = kvt_io_wait(&io) ?: err;
	if (err)
		return err;
	mutex_lock(&saved->lock);
	saved_note(&saved->dev[i], nr, &extent, s->buf.nr_records);
	mutex_unlock(&saved->lock);
	kvt_buf_reset(&s->buf);
	return 0;
}

/* Whether the log may be full before the checkpoint is made, if that takes its time. */
static bool saving_is_urgent(struct kvt_log *log)
{
	return kvt_room_short(&log->space) || test_bit(KVT_LOG_FULL, &log->state.flags);
}

/* Leave processors and devices to writers, if there are any, for a third of the time. */
static void saver_rest(struct kvt_log *log, ktime_t since)
{
	s64 worked = ktime_us_delta(ktime_get(), since);

	if (test_bit(KVT_LOG_DIRTY, &log->state.flags) && !saving_is_urgent(log))
		fsleep(clamp_t(s64, worked / 2, 1, REST_MAX));
}

/* Why the rest is not to be written; 0: it is.  The machine waits for an attach. */
static int saving_ends(const struct saving *saving)
{
	const struct kvt_log *log = saving->saved->log;
	int err = READ_ONCE(saving->err);

	if (err)
		return err;
	if (READ_ONCE(log->state.error))
		return -EIO;
	if (fatal_signal_pending(saving->task))
		return -EINTR;
	/* The end of a log makes one of its own if it has to. */
	if (saving->unasked && test_bit(KVT_LOG_CLOSED, &log->state.flags))
		return KVT_LOG_SLEEPS;
	return READ_ONCE(kvt_log_asleep) && log->state.alive ? KVT_LOG_SLEEPS : 0;
}

static void saver_work(struct work_struct *work)
{
	struct saver *s = container_of(work, struct saver, work);
	struct saving *saving = s->saving;
	struct kvt_log *log = saving->saved->log;
	ktime_t since = ktime_get();
	int err = 0;

	while (!err && (s->active || saver_next(s))) {
		if (saver_fill(s)) {
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
	s->iter->bound = KVT_AT;
	index->ops->iter_rest(s->iter);
	s->buf.epoch = epoch;
	return kvt_buf_init(&s->buf, SAVE_OUTSIDE_MAX);
}

static void saver_exit(struct saver *s)
{
	kvt_buf_exit(&s->buf);
	kvfree(s->iter);
	vfree(s->stage);
}

/* The index's last key, for who halves a range that has no end. */
static void saving_last(struct saving *saving)
{
	struct kvt_iter *iter = saving->savers[0].iter;

	iter->reverse = true;
	iter->len = sizeof(saving->last.key);
	memset(iter->key, 0xff, iter->len);
	iter->index->ops->iter_rest(iter);
	if (iter_step(iter)) {
		saving->last.len = iter->len;
		memcpy(saving->last.key, iter->key, iter->len);
	}
	iter->reverse = false;
	iter->len = 0;
	iter->bound = KVT_AT;
	iter->index->ops->iter_rest(iter);
}

/* The first saver is needed, others are made if there is memory. */
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
	saving->savers[0].active = true;
	return 0;
}

static void saving_run(struct saving *saving)
{
	u32 i;

	for (i = 1; i < saving->nr; i++)
		queue_work(saving->saved->log->state.wq, &saving->savers[i].work);
	saver_work(&saving->savers[0].work);
	/* One that could not begin so far has nothing to do. */
	for (i = 1; i < saving->nr; i++)
		cancel_work_sync(&saving->savers[i].work);
}

static u32 savers_wanted(void)
{
	u32 nr = READ_ONCE(log_savers) ?: num_online_cpus() / 2;

	return clamp(nr, 1U, KVT_SAVERS_MAX);
}

/**
 * kvt_save() - write all keys and values of a log's index
 * @saved: zeros; filled; kvt_saved_exit() must follow, whatever is returned
 * @cps: the log's checkpoints, of which this is one
 * @epoch: of the checkpoint
 *
 * What is changed meanwhile may be written as it was before, or after.
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

	saved->log = &cps->commits.log;
	mutex_init(&saved->lock);
	if (!saving)
		return -ENOMEM;
	saving->saved = saved;
	saving->unasked = cps->unasked;
	saving->task = current;
	err = saving_init(saving, max, epoch);
	if (!err) {
		saving_run(saving);
		err = saving->err;
	}
	for (i = 0; i < saving->nr; i++)
		saver_exit(&saving->savers[i]);
	kvfree(saving);
	return err;
}

/**
 * kvt_saved_exit() - free what was noted of a save
 * @saved: of kvt_save()
 */
void kvt_saved_exit(struct kvt_saved *saved)
{
	u32 i;

	for (i = 0; i < KVTREE_LOG_DEVS_MAX; i++)
		kvfree(saved->dev[i].table);
}
