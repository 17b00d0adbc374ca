// SPDX-License-Identifier: GPL-2.0
/*
 * Checkpoints: write all keys and values that have changed, while writers go on.
 *
 * A checkpoint of epoch S contains every change of the epochs up to S, which is the last durable
 * epoch when the checkpoint begins.  As it reads the index while writers change it, it may also
 * contain some changes of later epochs.  So recovery loads the checkpoint and replays the log from
 * epoch S + 1 on; and the checkpoint takes effect only when every epoch from which it may have met
 * changes is durable.
 */
#include <linux/vmalloc.h>

#include "checkpoint.h"

/* Delay before a retry: short while writers wait for room or soon will, long otherwise. */
#define RETRY	(HZ / 5)
#define RETRY_LATER	(30 * HZ)
/* Checkpoints in a row that may fail for lack of room, although writers waited. */
#define TRIES	3

/* How much a checkpoint writes. */
enum how {
	HOW_CHANGED,	/* what has changed; or everything, if that is needed to free enough */
	HOW_ALL,	/* everything */
	HOW_LITTLE,	/* what has changed; or else no checkpoint is made */
};

/* A checkpoint under way. */
struct checkpoint {
	struct kvt_checkpoints *all;		/* of the log */
	struct kvt_log *log;
	u64 epoch;				/* the last epoch that it contains completely */
	u32 met;				/* later epochs from which it may have changes */
	u64 replay_bytes;			/* log that need not be replayed after it */
	u64 lease;				/* on versions: the same on all devices */
	struct kvt_log_pos commit[KVTREE_LOG_DEVS_MAX];	/* of the trailer of epoch + 1 */
	enum how how;
	u64 directory;				/* bytes of the old one, one more piece per range */
	bool full;				/* everything is written again */
	struct kvt_ranges *ranges;		/* the new ones */
	struct kvt_saved saved;
};

/* Begin the checkpoint in the tables of segments. */
static void checkpoint_segments(struct checkpoint *cp)
{
	struct kvt_space *space = &cp->log->space;
	u32 i;

	for (i = 0; i < cp->log->devs.nr; i++) {
		kvt_segs_save_begin(&space->part[i].segs, cp->epoch, cp->full);
		/* Append to the last checkpoint's segments, unless this one will free them. */
		if (cp->full)
			memset(space->part[i].image, 0, sizeof(space->part[i].image));
	}
}

/* The size of a directory in which each range has one more piece. */
static u64 directory_bytes(const struct kvt_log_directory *dir)
{
	u64 bytes = 0;
	u32 i;

	for (i = 0; i < dir->nr; i++) {
		bytes += kvt_log_record_size(dir->range[i]->key_len,
					     (dir->range[i]->nr_pieces + 1) *
					     sizeof(struct kvtree_log_piece));
		cond_resched();
	}
	return bytes;
}

/*
 * Whether unchanged ranges may stay where they are.  If writers wait already, everything is
 * written again, to free as many segments as possible.
 */
static bool checkpoint_keeps(const struct checkpoint *cp)
{
	const struct kvt_log *log = cp->log;

	return cp->how != HOW_ALL && kvt_log_has_ranges(log->devs.dev[0].super) &&
	       !test_bit(KVT_LOG_FULL, &log->state.flags) &&
	       kvt_room_describes(&log->space, cp->directory) && kvt_room_spare(&log->space);
}

/* Count what earlier checkpoints have on each device, so that each has its share of the total. */
static void checkpoint_share(struct checkpoint *cp)
{
	const struct kvt_part *part;
	u32 i;

	for (i = 0; !cp->full && i < cp->log->devs.nr; i++) {
		part = &cp->log->space.part[i];
		cp->saved.dev[i].blocks = (u64)part->segs.nr_image *
					  le32_to_cpu(part->dev->super->segment_blocks);
	}
}

/* Choose the epoch to contain: the durable one, since all its changes are in the index. */
static void checkpoint_begin(struct checkpoint *cp)
{
	struct kvt_commits *commits = &cp->all->commits;
	struct kvt_log *log = cp->log;
	u32 i;

	mutex_lock(&commits->commit_lock);
	cp->epoch = log->state.durable;
	cp->replay_bytes = log->space.replay_bytes;
	for (i = 0; i < log->devs.nr; i++)
		cp->commit[i] = commits->chain[i].next;
	checkpoint_segments(cp);
	if (!checkpoint_keeps(cp)) {
		cp->full = true;
		checkpoint_segments(cp);
	}
	checkpoint_share(cp);
	mutex_unlock(&commits->commit_lock);
}

/* Choose the place of a device's table, before the commits at the end take the last segments. */
static int table_place(struct checkpoint *cp, u32 i)
{
	struct kvt_log_pos *at = &cp->log->space.part[i].image[KVT_PLACE_REST];
	struct kvt_saved_dev *d = &cp->saved.dev[i];
	u32 blocks = DIV_ROUND_UP(struct_size(d->table, extents, d->nr), KVTREE_LOG_BLOCK);
	int err;

	if (!d->nr)
		return 0;
	err = kvt_saved_room(&cp->saved, i, KVT_PLACE_REST, blocks);
	if (err)
		return err;
	kvt_log_pos_store(&d->super.table, at);
	d->super.blocks = cpu_to_le32(blocks);
	at->block += blocks;
	return 0;
}

static int table_write(struct checkpoint *cp, u32 i)
{
	struct kvt_saved_dev *d = &cp->saved.dev[i];
	struct kvt_log_dev *dev = &cp->log->devs.dev[i];
	struct kvtree_log_checkpoint *to = &d->super;
	u64 generation = cp->log->devs.generation;
	u32 blocks = le32_to_cpu(to->blocks);
	struct kvtree_log_table *table;
	struct kvt_log_pos pos;
	int err;

	to->epoch = cpu_to_le64(cp->epoch);
	to->generation = cpu_to_le64(generation);
	to->met = cpu_to_le32(cp->met);
	to->records = cpu_to_le64(d->records);
	to->bytes = cpu_to_le64(d->bytes);
	if (!d->nr)
		return 0;
	table = vzalloc((size_t)blocks * KVTREE_LOG_BLOCK);
	if (!table)
		return -ENOMEM;
	pos = kvt_log_pos_load(&to->table);
	memcpy(table, d->table, struct_size(d->table, extents, d->nr));
	table->magic = cpu_to_le64(KVTREE_LOG_TABLE_MAGIC);
	table->blocks = cpu_to_le32(blocks);
	table->epoch = to->epoch;
	table->generation = to->generation;
	table->nr_extents = cpu_to_le64(d->nr);
	table->crc = cpu_to_le32(kvt_log_crc_zero(dev->super, generation, &pos, table,
						  (size_t)blocks * KVTREE_LOG_BLOCK,
						  offsetof(struct kvtree_log_table, crc)));
	kvt_saved_count(&cp->saved, blocks);
	err = kvt_dev_write(dev, kvt_log_pos_block(dev->super, &pos), blocks, table);
	vfree(table);
	return err;
}

/* List the lives to be replayed after it: the present one, if it has begun, from there on. */
static void checkpoint_lives(struct checkpoint *cp, u32 i)
{
	struct kvtree_log_super *super = cp->log->devs.dev[i].super;
	struct kvtree_log_life *life = &super->lives[0];

	super->checkpoint = cp->saved.dev[i].super;
	super->incompat |= cpu_to_le64(KVTREE_LOG_RANGES);
	memset(super->lives, 0, sizeof(super->lives));
	super->nr_lives = cpu_to_le32(cp->log->state.alive);
	if (cp->log->state.alive) {
		life->generation = cpu_to_le64(cp->log->devs.generation);
		life->first_epoch = cpu_to_le64(cp->epoch + 1);
		kvt_log_pos_store(&life->commit, &cp->commit[i]);
	}
	super->generation = cpu_to_le64(cp->log->devs.generation);
	super->version_lease = cpu_to_le64(cp->lease);
}

/* Make all changes up to now durable, and set *@epoch to the last one; under commit_lock. */
static int checkpoint_drain(struct kvt_commits *commits, u64 *epoch)
{
	struct kvt_log_state *state = &commits->log.state;
	int err = 0;

	*epoch = state->alive ? state->epoch : state->durable;
	WRITE_ONCE(state->drain, *epoch);
	while (!err && state->durable < *epoch)
		err = kvt_commit(commits);
	WRITE_ONCE(state->drain, 0);
	return err;
}

/**
 * kvt_checkpoint_forgo() - end a life if there is no room for a checkpoint
 * @cps: the log's checkpoints
 *
 * This makes everything durable, in the room that was kept for checkpoints, and writes superblocks
 * that end the life there.
 *
 * Context: process context, sleeps; under checkpoint_lock, or the caller has the log to itself.
 *
 * Return: 0; KVT_LOG_NO_ROOM; or the log's error.
 */
int kvt_checkpoint_forgo(struct kvt_checkpoints *cps)
{
	struct kvt_commits *commits = &cps->commits;
	struct kvt_log_state *state = &commits->log.state;
	u64 epoch;
	int err;

	/* The lock keeps commits out, so that the superblocks of all devices agree. */
	mutex_lock(&commits->commit_lock);
	err = checkpoint_drain(commits, &epoch) ?: kvt_supers_end(cps);
	if (!err)
		set_bit(KVT_LOG_STOPPED, &state->flags);
	kvt_log_fail(state, -ENOSPC, "there is no room for a checkpoint");
	mutex_unlock(&commits->commit_lock);
	return err;
}

/* It has taken effect.  Recovery begins later in the log now: count what it need not replay. */
static void checkpoint_took(struct checkpoint *cp)
{
	struct kvt_commits *commits = &cp->all->commits;
	struct kvt_space *space = &commits->log.space;

	mutex_lock(&commits->commit_lock);
	WRITE_ONCE(space->replay_bytes, space->replay_bytes - cp->replay_bytes);
	mutex_unlock(&commits->commit_lock);
	WRITE_ONCE(space->whole, cp->full);
}

static int checkpoint_count(struct checkpoint *cp)
{
	struct kvt_commits *commits = &cp->all->commits;
	struct kvt_log *log = cp->log;
	int err = 0;
	u64 met;
	u32 i;

	for (i = 0; !err && i < log->devs.nr; i++)
		err = table_place(cp, i);
	if (err)
		return err;
	/* The last epoch that it may have met.  If recovery does not find it, data was lost. */
	mutex_lock(&commits->commit_lock);
	err = checkpoint_drain(commits, &met);
	cp->lease = log->state.lease;
	mutex_unlock(&commits->commit_lock);
	cp->met = min(met - cp->epoch, (u64)U32_MAX);

	for (i = 0; !err && i < log->devs.nr; i++)
		err = table_write(cp, i);
	if (!err)
		err = kvt_devs_flush(&log->devs);
	if (err)
		return err;
	for (i = 0; i < log->devs.nr; i++)
		checkpoint_lives(cp, i);
	err = kvt_supers_write(cp->all);
	if (!err)
		checkpoint_took(cp);
	return err;
}

/* There may be room again: wake the streams' workers, the committer and the writers. */
static void checkpoint_resume(struct kvt_log *log)
{
	u32 i;

	if (!test_bit(KVT_LOG_FULL, &log->state.flags))
		return;
	clear_bit(KVT_LOG_FULL, &log->state.flags);
	/* Pairs with the barrier of waiters, which queue themselves and check again. */
	smp_mb__after_atomic();
	for (i = 0; i < log->nr_streams; i++)
		kvt_stream_start(&log->streams[i]);
	mod_delayed_work(log->state.wq, &log->state.commit, 0);
	kvt_event_wake(&log->state.space_event);
}

/*
 * Free the useless segments.  Discarding them may take long, so if writers wait, half of the
 * segments are freed at once, without a discard.
 */
static void checkpoint_give(struct kvt_log *log, bool resume)
{
	struct kvt_part *part;
	u32 i;

	if (resume && test_bit(KVT_LOG_FULL, &log->state.flags)) {
		for (i = 0; i < log->devs.nr; i++) {
			part = &log->space.part[i];
			kvt_segs_give(part, DIV_ROUND_UP(part->segs.useless, 2), false);
		}
		checkpoint_resume(log);
	}
	for (i = 0; i < log->devs.nr; i++)
		kvt_segs_give(&log->space.part[i], U32_MAX, true);
	if (resume)
		checkpoint_resume(log);
}

static void segment_keep(struct kvt_log *log, u32 dev, u32 segment)
{
	log->space.part[dev].segs.seg[segment].kept = true;
}

/* Mark the segments that the new checkpoint uses; they may be those of earlier checkpoints. */
static void checkpoint_keep(struct checkpoint *cp)
{
	const struct kvt_log_directory *dir = &cp->ranges->dir;
	u32 i, j;

	for (i = 0; i < dir->nr; i++) {
		const struct kvt_log_range *range = dir->range[i];

		for (j = 0; j < range->nr_pieces; j++)
			segment_keep(cp->log, range->piece[j].dev, range->piece[j].pos.segment);
		cond_resched();
	}
	for (i = 0; i < cp->log->devs.nr; i++) {
		const struct kvt_saved_dev *d = &cp->saved.dev[i];

		for (j = 0; j < d->nr; j++)
			segment_keep(cp->log, i, le32_to_cpu(d->table->extents[j].pos.segment));
		if (d->nr)
			segment_keep(cp->log, i, le32_to_cpu(d->super.table.segment));
	}
}

/* Do not append to segments of the last checkpoint that are useless. */
static void part_leave(struct kvt_part *part)
{
	u32 i;

	for (i = 0; i < KVT_PLACES; i++)
		if (part->segs.seg[part->image[i].segment].state != KVT_SEG_CHECKPOINT)
			part->image[i].block = 0;
}

/* Free the useless segments. */
static void checkpoint_free(struct checkpoint *cp, bool counts)
{
	struct kvt_log *log = cp->log;
	u32 i;

	if (counts)
		checkpoint_keep(cp);
	for (i = 0; i < log->devs.nr; i++) {
		kvt_segs_save_end(&log->space.part[i].segs, cp->epoch, counts);
		part_leave(&log->space.part[i]);
	}
	checkpoint_give(log, counts);
}

static int checkpoint_take(struct checkpoint *cp)
{
	cp->saved.marks = kvt_image_take(&cp->log->image);
	return cp->saved.marks ? 0 : -ENOMEM;
}

/* Write the checkpoint, and make it take effect. */
static int checkpoint_write(struct checkpoint *cp)
{
	int err;

	WRITE_ONCE(cp->log->image.progress, 1);
	err = kvt_plan(&cp->saved, cp->full) ?: kvt_save(&cp->saved, cp->all, cp->epoch);
	if (err)
		return err;
	cp->ranges = kvt_ranges_make(&cp->saved.dir);
	if (!cp->ranges)
		return -ENOMEM;
	cp->saved.dir = (struct kvt_log_directory) {};
	return checkpoint_count(cp);
}

/* Drop the marks of what the checkpoint contains; if it failed, return them for the next one. */
static void checkpoint_marks(struct checkpoint *cp, bool counts)
{
	struct kvt_image *image = &cp->log->image;

	if (counts) {
		kvt_image_replace(image, cp->ranges, cp->saved.marks);
		return;
	}
	kvt_image_give(image, cp->saved.marks);
	if (cp->ranges) {
		kvt_directory_discard(&cp->ranges->dir, cp->saved.old);
		kvt_ranges_free(cp->ranges);
	}
}

static int checkpoint_run(struct kvt_checkpoints *cps, enum how how)
{
	struct checkpoint *cp = kvzalloc(sizeof(*cp), GFP_KERNEL);
	struct kvt_log *log = &cps->commits.log;
	int err;

	if (!cp)
		return -ENOMEM;
	cp->all = cps;
	cp->log = log;
	cp->how = how;
	cp->saved.log = log;
	cp->saved.live = kvt_live_bytes(&log->space);
	cp->saved.old = &kvt_image_ranges(&log->image)->dir;
	mutex_init(&cp->saved.lock);
	cp->directory = directory_bytes(cp->saved.old);
	checkpoint_begin(cp);
	if (cp->full && how == HOW_LITTLE)
		err = KVT_LOG_NO_ROOM;
	else
		err = checkpoint_take(cp) ?: checkpoint_write(cp);
	WRITE_ONCE(log->image.progress, 0);
	/* Without checkpoints no segment becomes free, and writers would wait forever. */
	if (err == -EIO)
		kvt_log_fail(&log->state, err, "a checkpoint could not be written");
	/* If a superblock could not be written, it may name either checkpoint: free nothing. */
	if (!err || !log->state.error)
		checkpoint_free(cp, !err);
	kvt_saved_exit(&cp->saved);
	if (cp->saved.marks)
		checkpoint_marks(cp, !err);
	kvfree(cp);
	return err;
}

/*
 * As writers go on, a checkpoint may contain a value twice that is moved to a key which it has not
 * reached yet.  If there is no room for that, it is made again, while writers wait.
 */
static int checkpoint_make(struct kvt_checkpoints *cps)
{
	struct kvt_log *log = &cps->commits.log;
	/* Before a life has begun, it is not known how much room it will need. */
	int err = checkpoint_run(cps, log->state.alive ? HOW_CHANGED : HOW_ALL);

	if (err == KVT_LOG_NO_ROOM && log->state.alive && !READ_ONCE(log->state.error)) {
		kvt_room_stop_writers(&log->space);
		err = checkpoint_run(cps, HOW_ALL);
	}
	return err;
}

/*
 * If several checkpoints in a row do not fit, none will.  As writers wait, no more changes are
 * accepted.  Make those already accepted durable, in the room kept for checkpoints, and end the
 * life there, so that writers do not wait forever.
 */
static void checkpoint_judge(struct kvt_checkpoints *cps, int err)
{
	struct kvt_log_state *state = &cps->commits.log.state;

	cps->no_room = err == KVT_LOG_NO_ROOM && state->alive ? cps->no_room + 1 : 0;
	if (cps->no_room < TRIES || test_bit(KVT_LOG_CLOSED, &state->flags))
		return;
	kvt_checkpoint_forgo(cps);
}

/* Under the lock. */
static int checkpoint_locked(struct kvt_checkpoints *cps)
{
	struct kvt_log_state *state = &cps->commits.log.state;
	int err = READ_ONCE(state->error) ? -EIO : checkpoint_make(cps);

	checkpoint_judge(cps, err);
	if (err)
		return err;
	kvt_stat_inc(state->env.stats, KVTREE_STAT_LOG_CHECKPOINTS);
	if (READ_ONCE(cps->commits.log.space.whole))
		kvt_stat_inc(state->env.stats, KVTREE_STAT_LOG_CHECKPOINTS_FULL);
	return 0;
}

/**
 * kvt_checkpoint() - make a checkpoint, unless the machine sleeps
 * @cps: the checkpoints of a log that is not read-only
 *
 * Context: process context, sleeps.
 *
 * Return: 0; KVT_LOG_NO_ROOM; KVT_LOG_SLEEPS; -ENOMEM; -EIO or another error of a device; -EINTR: a
 * fatal signal came before all was written.
 */
int kvt_checkpoint(struct kvt_checkpoints *cps)
{
	int err;

	if (mutex_lock_killable(&cps->checkpoint_lock))
		return -EINTR;
	err = checkpoint_locked(cps);
	mutex_unlock(&cps->checkpoint_lock);
	return err;
}

/**
 * kvt_checkpoint_little() - make a checkpoint if it need not write everything
 * @cps: the checkpoints of a log without writers
 *
 * Context: process context, sleeps.
 *
 * Return: as kvt_checkpoint().
 */
int kvt_checkpoint_little(struct kvt_checkpoints *cps)
{
	int err;

	mutex_lock(&cps->checkpoint_lock);
	err = READ_ONCE(cps->commits.log.state.error) ? -EIO : checkpoint_run(cps, HOW_LITTLE);
	mutex_unlock(&cps->checkpoint_lock);
	return err;
}

/**
 * kvt_checkpoint_awake() - make a checkpoint; if the machine sleeps, afterwards
 * @cps: the checkpoints of a log that is not read-only
 *
 * Context: process context, sleeps.
 *
 * Return: as kvt_checkpoint(), but for KVT_LOG_SLEEPS.
 */
int kvt_checkpoint_awake(struct kvt_checkpoints *cps)
{
	struct kvt_event *event = &cps->commits.log.state.checkpoint_event;
	struct wait_queue_entry entry;
	int err;

	init_waitqueue_entry(&entry, current);
	add_wait_queue(&event->head, &entry);
	do {
		err = kvt_checkpoint(cps);
		if (err == KVT_LOG_SLEEPS && kvt_log_wait_awake())
			err = -EINTR;
	} while (err == KVT_LOG_SLEEPS);
	remove_wait_queue(&event->head, &entry);
	return err;
}

/* Whether writers wait for a checkpoint to make room, or soon will. */
static bool checkpoint_makes_room(const struct kvt_log *log)
{
	return kvt_room_low(&log->space) || test_bit(KVT_LOG_FULL, &log->state.flags);
}

/* Make a checkpoint if there still is a reason: another one may just have been made. */
static int checkpoint_unasked(struct kvt_checkpoints *cps)
{
	struct kvt_log *log = &cps->commits.log;
	int err = 0;

	mutex_lock(&cps->checkpoint_lock);
	cps->unasked = true;
	if (kvt_room_long(&log->space) || checkpoint_makes_room(log))
		err = checkpoint_locked(cps);
	cps->unasked = false;
	mutex_unlock(&cps->checkpoint_lock);
	return err;
}

/**
 * kvt_checkpoint_work() - make a checkpoint because the log is long or full, or soon will be
 * @work: a log's
 */
void kvt_checkpoint_work(struct work_struct *work)
{
	struct kvt_log *log = container_of(to_delayed_work(work), struct kvt_log, state.checkpoint);
	int err;

	if (test_bit(KVT_LOG_STOPPED, &log->state.flags) || READ_ONCE(kvt_log_asleep))
		return;
	err = checkpoint_unasked(kvt_checkpoints_of(log));
	/* After a sleep, this work is queued again. */
	if (!err || err == KVT_LOG_SLEEPS || READ_ONCE(log->state.error))
		return;
	pr_warn_ratelimited("kvtree: store '%s': no checkpoint: error %d\n", log->state.env.name,
			    kvt_log_outcome_errno(err));
	queue_delayed_work(log->state.wq, &log->state.checkpoint,
			   checkpoint_makes_room(log) ? RETRY : RETRY_LATER);
}
