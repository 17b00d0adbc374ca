// SPDX-License-Identifier: GPL-2.0
/*
 * Checkpoints: all keys and values, written beside the load.
 *
 * A checkpoint contains every change of the epochs up to the durable one at its
 * beginning, and perhaps later ones.  So it counts together with the log from
 * there on, and not before the last epoch that it may have met is durable.
 */
#include <linux/err.h>
#include <linux/rcupdate.h>
#include <linux/vmalloc.h>

#include "../index.h"
#include "../stats.h"
#include "../value.h"
#include "internal.h"

/* When to try again if there was no memory. */
#define RETRY	(HZ / 5)

/* A checkpoint under way. */
struct checkpoint {
	struct kvt_log *log;
	u64 epoch;				/* contained */
	struct kvt_log_pos commit[KVTREE_LOG_DEVS_MAX];	/* of the trailer after it */
	struct kvt_iter *iter;
	struct kvt_log_buf buf;
	u8 *stage;
	u32 dev;				/* the next chunk goes there */
	struct checkpoint_dev {
		struct kvt_log_pos pos;
		struct kvtree_log_table *table;
		u32 nr;
		u32 room;
		struct kvtree_log_checkpoint super;	/* what the superblock will say */
		u64 records;
		u64 bytes;
	} devs[KVTREE_LOG_DEVS_MAX];
};

static int checkpoint_init(struct checkpoint *cp, struct kvt_log *log)
{
	const struct kvt_index_ops *ops = log->env.index->ops;

	cp->log = log;
	cp->stage = vmalloc(KVT_LOG_BUF_BYTES);
	cp->iter = kvzalloc(ops->iter_size, GFP_KERNEL);
	if (!cp->stage || !cp->iter)
		return -ENOMEM;
	cp->iter->index = log->env.index;
	cp->iter->bound = KVT_AT;
	ops->iter_rest(cp->iter);
	return kvt_buf_init(&cp->buf);
}

static void checkpoint_exit(struct checkpoint *cp)
{
	u32 i;

	for (i = 0; i < KVTREE_LOG_DEVS_MAX; i++)
		kvfree(cp->devs[i].table);
	kvt_buf_exit(&cp->buf);
	kvfree(cp->iter);
	vfree(cp->stage);
	kvfree(cp);
}

/* Where it begins: what is durable is published in the index. */
static void checkpoint_begin(struct checkpoint *cp)
{
	struct kvt_log *log = cp->log;
	u32 i;

	mutex_lock(&log->commit_lock);
	cp->epoch = log->durable;
	for (i = 0; i < log->nr_devs; i++) {
		struct kvt_log_dev *dev = &log->dev[i];

		cp->commit[i] = dev->commit;
		WRITE_ONCE(dev->taken, 0);
		WRITE_ONCE(dev->freed, kvt_segs_useless(&dev->segs, cp->epoch));
		/* A stream that has not seen it may take one of the reserve. */
		WRITE_ONCE(dev->checkpoint, true);
	}
	mutex_unlock(&log->commit_lock);
	cp->buf.epoch = cp->epoch;
}

/* Room in the table for one more extent. */
static struct kvtree_log_extent *table_add(struct checkpoint_dev *d)
{
	u32 room = d->room ? d->room * 2 : 128;
	struct kvtree_log_table *table;

	if (d->nr == d->room) {
		table = kvzalloc(struct_size(table, extents, room), GFP_KERNEL);
		if (!table)
			return NULL;
		if (d->table)
			memcpy(table, d->table, struct_size(table, extents, d->nr));
		kvfree(d->table);
		d->table = table;
		d->room = room;
	}
	return &d->table->extents[d->nr++];
}

/* Make sure that so many blocks follow on the device. */
static int checkpoint_room(struct checkpoint *cp, u32 i, u32 blocks)
{
	struct kvt_log_dev *dev = &cp->log->dev[i];
	struct checkpoint_dev *d = &cp->devs[i];
	u32 size = le32_to_cpu(dev->super->segment_blocks);

	if (blocks > size - 1)
		return -ENOSPC;
	if (d->pos.block && blocks <= size - d->pos.block)
		return 0;
	WRITE_ONCE(dev->taken, dev->taken + 1);
	return kvt_segs_take(dev, KVT_SEG_NEW, KVTREE_LOG_KIND_CHECKPOINT, 0, KVT_COMMIT_KEEP,
			     &d->pos);
}

/* Write the buffer to one of the devices, each in turn. */
static int checkpoint_write(struct checkpoint *cp)
{
	struct kvt_log_extent extent = {};
	struct kvtree_log_extent *to;
	u32 blocks = kvt_chunk_blocks(&cp->buf), i = cp->dev;
	struct checkpoint_dev *d = &cp->devs[i];
	int err;

	if (!cp->buf.nr_records)
		return 0;
	cp->dev = (cp->dev + 1) % cp->log->nr_devs;
	to = table_add(d);
	if (!to)
		return -ENOMEM;
	err = checkpoint_room(cp, i, blocks);
	if (!err)
		err = kvt_chunk_write(&cp->log->dev[i], &cp->buf, 0, &d->pos, cp->stage, &extent);
	if (err)
		return err;
	kvt_log_pos_store(&to->pos, &extent.pos);
	to->blocks = cpu_to_le32(extent.blocks);
	to->crc = cpu_to_le32(extent.crc);
	d->pos.block += blocks;
	d->records += cp->buf.nr_records;
	d->bytes += (u64)blocks * KVTREE_LOG_BLOCK;
	kvt_buf_reset(&cp->buf);
	return 0;
}

/* Whether a value was added to the buffer, under RCU. */
static bool checkpoint_add(struct checkpoint *cp, const struct kvt_value *v)
{
	struct kvt_key key = { .data = cp->iter->key, .len = cp->iter->len };
	struct kvt_log_size size = kvt_log_size(key.len, v);
	struct kvt_log_buf *buf = &cp->buf;

	kvt_log_encode(buf->data + buf->used, &size, &key, v->version, v,
		       buf->outside + buf->nr_outside);
	buf->used += size.len;
	buf->nr_outside += size.nr_outside;
	buf->outside_len += size.outside_len;
	buf->nr_records++;
	return buf->used < KVT_LOG_BUF_BYTES * 3 / 4 &&
	       buf->nr_outside < KVT_LOG_OUTSIDE_MAX - KVTREE_COLS_MAX &&
	       buf->outside_len < KVT_LOG_OUTSIDE_BYTES;
}

/* Fill the buffer.  Returns 0: it is full; -ENODATA: that was all; or -EAGAIN. */
static int checkpoint_fill(struct checkpoint *cp)
{
	const struct kvt_index_ops *ops = cp->iter->index->ops;
	unsigned int left = 512;
	struct kvt_value *v;
	int err = -EAGAIN;

	rcu_read_lock();
	while (err == -EAGAIN && left--) {
		v = ops->iter_next(cp->iter);
		if (!v)
			err = -ENODATA;
		else if (IS_ERR(v))
			break;
		else if (!checkpoint_add(cp, v))
			err = 0;
	}
	rcu_read_unlock();
	ops->iter_rest(cp->iter);
	return err;
}

static int checkpoint_scan(struct checkpoint *cp)
{
	int err = -EAGAIN, werr;

	while (err != -ENODATA) {
		err = checkpoint_fill(cp);
		if (err != -EAGAIN) {
			werr = checkpoint_write(cp);
			if (werr)
				return werr;
		}
		if (READ_ONCE(cp->log->error))
			return -EIO;
		cond_resched();
	}
	return 0;
}

static int table_write(struct checkpoint *cp, u32 i)
{
	struct kvt_log_dev *dev = &cp->log->dev[i];
	struct checkpoint_dev *d = &cp->devs[i];
	struct kvtree_log_checkpoint *to = &d->super;
	u64 generation = cp->log->generation;
	size_t used = struct_size(d->table, extents, d->nr);
	u32 blocks = DIV_ROUND_UP(used, KVTREE_LOG_BLOCK);
	struct kvtree_log_table *table;
	int err;

	to->epoch = cpu_to_le64(cp->epoch);
	to->generation = cpu_to_le64(generation);
	if (!d->nr)
		return 0;
	err = checkpoint_room(cp, i, blocks);
	if (err)
		return err;
	table = vzalloc((size_t)blocks * KVTREE_LOG_BLOCK);
	if (!table)
		return -ENOMEM;
	memcpy(table, d->table, used);
	table->magic = cpu_to_le64(KVTREE_LOG_TABLE_MAGIC);
	table->blocks = cpu_to_le32(blocks);
	table->epoch = to->epoch;
	table->generation = to->generation;
	table->nr_extents = cpu_to_le64(d->nr);
	table->crc = cpu_to_le32(kvt_log_crc_zero(dev->super, generation, &d->pos, table,
						  (size_t)blocks * KVTREE_LOG_BLOCK,
						  offsetof(struct kvtree_log_table, crc)));
	err = kvt_dev_write(dev, kvt_log_pos_block(dev->super, &d->pos), blocks, table);
	kvt_log_pos_store(&to->table, &d->pos);
	to->blocks = cpu_to_le32(blocks);
	to->records = cpu_to_le64(d->records);
	to->bytes = cpu_to_le64(d->bytes);
	vfree(table);
	return err;
}

/* The lives that are not contained in it: the last one, from there on. */
static void checkpoint_lives(struct checkpoint *cp, u32 i)
{
	struct kvtree_log_super *super = cp->log->dev[i].super;
	struct kvtree_log_life *life = &super->lives[0];

	super->checkpoint = cp->devs[i].super;
	memset(super->lives, 0, sizeof(super->lives));
	super->nr_lives = cpu_to_le32(1);
	life->generation = cpu_to_le64(cp->log->generation);
	life->first_epoch = cpu_to_le64(cp->epoch + 1);
	kvt_log_pos_store(&life->commit, &cp->commit[i]);
	super->version_lease = cpu_to_le64(READ_ONCE(cp->log->lease));
}

/* It counts if everything that it may have met is durable. */
static int checkpoint_count(struct checkpoint *cp)
{
	struct kvt_log *log = cp->log;
	u64 met = READ_ONCE(log->epoch);
	int err = 0;
	u32 i;

	WRITE_ONCE(log->drain, met);
	mutex_lock(&log->commit_lock);
	while (!err && log->durable < met)
		err = kvt_commit(log);
	mutex_unlock(&log->commit_lock);
	WRITE_ONCE(log->drain, 0);
	for (i = 0; !err && i < log->nr_devs; i++)
		err = table_write(cp, i);
	if (!err)
		err = kvt_devs_flush(log);
	if (err)
		return err;
	for (i = 0; i < log->nr_devs; i++)
		checkpoint_lives(cp, i);
	err = kvt_supers_write(log);
	if (err)
		kvt_log_fail(log, err, "a superblock could not be written");
	return err;
}

static int checkpoint_run(struct kvt_log *log)
{
	struct checkpoint *cp = kvzalloc(sizeof(*cp), GFP_KERNEL);
	int err;
	u32 i;

	if (!cp)
		return -ENOMEM;
	err = checkpoint_init(cp, log);
	if (!err) {
		checkpoint_begin(cp);
		err = checkpoint_scan(cp);
	}
	if (!err)
		err = checkpoint_count(cp);
	for (i = 0; i < log->nr_devs; i++) {
		if (err && !log->error)
			kvt_segs_drop_new(&log->dev[i]);
		else if (!err)
			kvt_segs_checkpoint(&log->dev[i], cp->epoch);
		WRITE_ONCE(log->dev[i].checkpoint, false);
	}
	checkpoint_exit(cp);
	return err;
}

/* There may be room again: let the streams and the writers see. */
static void checkpoint_resume(struct kvt_log *log)
{
	u32 i;

	if (!test_bit(KVT_LOG_FULL, &log->flags))
		return;
	clear_bit(KVT_LOG_FULL, &log->flags);
	/* Pairs with the barrier of who queues itself and looks again. */
	smp_mb__after_atomic();
	for (i = 0; i < log->nr_streams; i++)
		kvt_stream_close(&log->streams[i], 0);
	mod_delayed_work(kvt_log_wq, &log->commit, 0);
	wake_up_all(&log->space_wait);
}

/**
 * kvt_log_checkpoint() - make a checkpoint, and free what is of no use any more
 * @log: the log
 *
 * Context: process context, sleeps.
 *
 * Return: 0; -ENOSPC: there is no room for it; -ENOMEM; -EIO or another error of a
 * device; -EINTR: a fatal signal came before it began.
 */
int kvt_log_checkpoint(struct kvt_log *log)
{
	int err;

	if (mutex_lock_killable(&log->checkpoint_lock))
		return -EINTR;
	err = READ_ONCE(log->error) ? -EIO : checkpoint_run(log);
	if (!err)
		kvt_stat_inc(log->env.stats, KVTREE_STAT_LOG_CHECKPOINTS);
	mutex_unlock(&log->checkpoint_lock);
	if (!err)
		checkpoint_resume(log);
	return err;
}

/**
 * kvt_checkpoint_work() - make a checkpoint because the log is full, or soon will be
 * @work: a log's
 */
void kvt_checkpoint_work(struct work_struct *work)
{
	struct kvt_log *log = container_of(to_delayed_work(work), struct kvt_log, checkpoint);
	int err;

	if (test_bit(KVT_LOG_STOPPED, &log->flags))
		return;
	err = kvt_log_checkpoint(log);
	if (!err || READ_ONCE(log->error))
		return;
	pr_warn_ratelimited("kvtree: store '%s': no checkpoint: error %d\n", log->env.name, err);
	queue_delayed_work(kvt_log_wq, &log->checkpoint, RETRY);
}
