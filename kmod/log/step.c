// SPDX-License-Identifier: GPL-2.0
/*
 * Steps: a checkpoint is written in one step, or in several if there is no room for all of it.
 *
 * Each step writes some ranges, a new directory, and then superblocks that name it.  What the
 * replaced ranges had on the devices becomes free, so the next step has room.  All steps but the
 * last leave the log as it is: a recovery replays it from the same epoch as before.  Versions
 * decide then, since ranges that are written already may have newer values than the log's first
 * epochs.
 */
#include <linux/bitmap.h>
#include <linux/vmalloc.h>

#include "checkpoint.h"

/*
 * Count what each device has already, so that each has its share of the total.  If
 * everything is written, that is what earlier steps have written.
 */
static void step_share(struct kvt_round *round)
{
	struct kvt_log *log = &round->all->commits.log;
	const struct kvt_part *part;
	u64 before;
	u32 i;

	for (i = 0; i < log->devs.nr; i++) {
		part = &log->space.part[i];
		before = (u64)part->segs.nr_image * le32_to_cpu(part->dev->super->segment_blocks);
		round->step.saved.dev[i].blocks = round->full ? round->blocks[i] : before;
	}
}

/* Choose the place of a device's table, before the commits at the end take the last segments. */
static int table_place(struct kvt_saved *saved, u32 i)
{
	struct kvt_log_pos *at = &saved->log->space.part[i].image[KVT_PLACE_REST];
	struct kvt_saved_dev *d = &saved->dev[i];
	u32 blocks = kvt_saved_table_blocks(d->nr);
	int err;

	if (!d->nr)
		return 0;
	err = kvt_saved_room(saved, i, KVT_PLACE_REST, blocks);
	if (err)
		return err;
	kvt_log_pos_store(&d->super.table, at);
	d->super.blocks = cpu_to_le32(blocks);
	at->block += blocks;
	return 0;
}

static int table_write(struct kvt_step *step, u32 i)
{
	struct kvt_saved_dev *d = &step->saved.dev[i];
	struct kvt_log_dev *dev = &step->saved.log->devs.dev[i];
	struct kvtree_log_checkpoint *to = &d->super;
	u64 generation = dev->devs->generation;
	u32 blocks = le32_to_cpu(to->blocks);
	struct kvtree_log_table *table;
	struct kvt_log_pos pos;
	int err;

	to->epoch = cpu_to_le64(step->epoch);
	to->generation = cpu_to_le64(generation);
	to->met = cpu_to_le32(step->met);
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
	kvt_saved_count(&step->saved, blocks);
	err = kvt_dev_write(dev, kvt_log_pos_block(dev->super, &pos), blocks, table);
	vfree(table);
	return err;
}

/* List the lives to be replayed after it: the present one, if it has begun, from there on. */
static void super_lives(const struct kvt_round *round, u32 i)
{
	const struct kvt_log *log = &round->all->commits.log;
	struct kvtree_log_super *super = log->devs.dev[i].super;
	struct kvtree_log_life *life = &super->lives[0];

	memset(super->lives, 0, sizeof(super->lives));
	super->nr_lives = cpu_to_le32(log->state.alive);
	if (!log->state.alive)
		return;
	life->generation = cpu_to_le64(log->devs.generation);
	life->first_epoch = cpu_to_le64(round->epoch + 1);
	kvt_log_pos_store(&life->commit, &round->commit[i]);
	kvt_log_pos_store(&super->ahead, &round->ahead[i]);
	super->ahead_generation = life->generation;
}

static void super_fill(const struct kvt_round *round, u32 i)
{
	const struct kvt_log *log = &round->all->commits.log;
	struct kvtree_log_super *super = log->devs.dev[i].super;

	super->checkpoint = round->step.saved.dev[i].super;
	super->incompat |= cpu_to_le64(KVTREE_LOG_RANGES);
	if (round->step.last)
		super_lives(round, i);
	super->generation = cpu_to_le64(log->devs.generation);
	super->version_lease = cpu_to_le64(round->step.lease);
}

/* Recovery begins later in the log now: count what it need not replay any more. */
static void log_shorten(struct kvt_round *round)
{
	struct kvt_commits *commits = &round->all->commits;
	struct kvt_space *space = &commits->log.space;

	mutex_lock(&commits->commit_lock);
	WRITE_ONCE(space->replay_bytes, space->replay_bytes - round->replay_bytes);
	mutex_unlock(&commits->commit_lock);
	WRITE_ONCE(space->whole, round->full);
}

/* Make all that the step may have met durable.  If recovery does not find it, data was lost. */
static int step_drain(struct kvt_round *round)
{
	struct kvt_commits *commits = &round->all->commits;
	struct kvt_step *step = &round->step;
	u64 met;
	int err;

	mutex_lock(&commits->commit_lock);
	err = kvt_checkpoint_drain(commits, &met);
	step->lease = commits->log.state.lease;
	mutex_unlock(&commits->commit_lock);
	step->met = min(met - step->epoch, (u64)U32_MAX);
	return err;
}

/* Write the tables and the superblocks. */
static int step_take_effect(struct kvt_round *round)
{
	struct kvt_log *log = &round->all->commits.log;
	int err = 0;
	u32 i;

	for (i = 0; !err && i < log->devs.nr; i++)
		err = table_place(&round->step.saved, i);
	if (!err)
		err = step_drain(round);
	for (i = 0; !err && i < log->devs.nr; i++)
		err = table_write(&round->step, i);
	if (!err)
		err = kvt_devs_flush(&log->devs);
	if (err)
		return err;
	for (i = 0; i < log->devs.nr; i++)
		super_fill(round, i);
	return kvt_supers_write(round->all);
}

/* There may be room again: wake the streams' workers, the committer and the writers. */
static void log_resume(struct kvt_log *log)
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

/* Discarding can be left to the next checkpoint if somebody waits. */
static bool log_has_time(const struct kvt_log *log)
{
	return !test_bit(KVT_LOG_FULL, &log->state.flags) &&
	       !test_bit(KVT_LOG_CLOSED, &log->state.flags) && !READ_ONCE(kvt_log_asleep);
}

/*
 * Discard what was freed without it before, and is still free.  Writers may take half of what is
 * left meanwhile.
 */
static void log_regain(struct kvt_log *log)
{
	struct kvt_part *part;
	u32 i;

	for (i = 0; i < log->devs.nr; i++) {
		part = &log->space.part[i];
		while (log_has_time(log) &&
		       kvt_segs_regain(&part->segs, min(KVT_GIVE_MAX, kvt_room_left(part) / 2)))
			kvt_segs_give(part, U32_MAX, true);
	}
	log_resume(log);
}

/*
 * Free the useless segments.  Discarding them may take long, so if writers wait, half of the
 * segments are freed at once, without a discard.
 */
static void log_give(struct kvt_log *log, bool resume)
{
	bool full = test_bit(KVT_LOG_FULL, &log->state.flags);
	struct kvt_part *part;
	u32 i;

	for (i = 0; i < log->devs.nr; i++) {
		part = &log->space.part[i];
		if (resume && full)
			kvt_segs_give(part, DIV_ROUND_UP(part->segs.useless, 2), false);
	}
	if (resume && full)
		log_resume(log);
	for (i = 0; i < log->devs.nr; i++)
		kvt_segs_give(&log->space.part[i], U32_MAX, true);
	if (resume)
		log_resume(log);
	if (resume && !full)
		log_regain(log);
}

static void segment_keep(struct kvt_log *log, u32 dev, u32 segment)
{
	log->space.part[dev].segs.seg[segment].kept = true;
}

/* Mark the segments that the new directory uses; they may be those of earlier checkpoints. */
static void step_keep(const struct kvt_step *step)
{
	const struct kvt_log_directory *dir = &step->ranges->dir;
	const struct kvt_saved *saved = &step->saved;
	u32 i, j;

	for (i = 0; i < dir->nr; i++) {
		const struct kvt_log_range *range = dir->range[i];

		for (j = 0; j < range->nr_pieces; j++)
			segment_keep(saved->log, range->piece[j].dev, range->piece[j].pos.segment);
		cond_resched();
	}
	for (i = 0; i < saved->log->devs.nr; i++) {
		const struct kvt_saved_dev *d = &saved->dev[i];

		for (j = 0; j < d->nr; j++)
			segment_keep(saved->log, i, le32_to_cpu(d->table->extents[j].pos.segment));
		if (d->nr)
			segment_keep(saved->log, i, le32_to_cpu(d->super.table.segment));
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

/* Free the useless segments.  Discard those of the last step only: the others may be taken soon. */
static void step_free(struct kvt_round *round, bool counts)
{
	struct kvt_log *log = &round->all->commits.log;
	bool last = !counts || round->step.last;
	u32 i;

	if (counts) {
		step_keep(&round->step);
		kvt_room_describe(&log->space, round->step.ranges->bytes);
	}
	for (i = 0; i < log->devs.nr; i++) {
		kvt_segs_step_end(&log->space.part[i].segs, round->epoch, counts, last);
		part_leave(&log->space.part[i]);
		if (!last)
			kvt_segs_give(&log->space.part[i], U32_MAX, false);
	}
	if (!last)
		return;
	/* Writers that wait go on only if there is room for them and for the next checkpoint. */
	round->helps = kvt_room_regrows(&log->space);
	log_give(log, counts && (round->helps || !test_bit(KVT_LOG_FULL, &log->state.flags)));
}

/* Stop the writers, and make durable what they have written. */
static int step_stop_writers(struct kvt_round *round)
{
	struct kvt_commits *commits = &round->all->commits;
	struct kvt_log *log = &commits->log;
	u64 epoch;
	int err;

	if (!test_bit(KVT_LOG_FULL, &log->state.flags))
		kvt_room_stop_writers(&log->space);
	mutex_lock(&commits->commit_lock);
	/* Even if there is nothing: a writer that found room before may not have noted it yet. */
	err = kvt_checkpoint_drain(commits, &epoch);
	mutex_unlock(&commits->commit_lock);
	round->stopped = !err;
	return err;
}

/*
 * Find out how much the next step may write.  Everything, if there is room for it; or if the
 * previous step found none, since the last one may use what others leave.  Before a life begins,
 * there is only one step if what recovery has found may not be stable: each other one relies on it.
 */
static int step_room(struct kvt_round *round, u64 *room)
{
	struct kvt_commits *commits = &round->all->commits;
	struct kvt_space *space = &commits->log.space;
	struct kvt_room_step step = {
		.tries = round->all->no_room + round->again, .stopped = round->stopped,
	};
	bool grows = !commits->log.state.alive || round->stopped || kvt_room_grows(space);
	int err = 0;

	*room = round->full ? kvt_room_step(space, &step) : U64_MAX;
	if (*room == U64_MAX)
		return 0;
	if (round->rest)
		kvt_room_step_rest(space, round->stopped);
	if (round->rest || commits->carry.epoch) {
		*room = U64_MAX;
		return 0;
	}
	/* This takes time, so writers go on. */
	if (!round->costs)
		err = kvt_measure(round->all, round->step.saved.old, &round->costs);
	if (!err && !grows) {
		err = step_stop_writers(round);
		step.stopped = true;
		*room = kvt_room_step(space, &step);
	}
	return err;
}

/* Choose the ranges.  Until the last step, recovery begins where it did before. */
static int step_plan(struct kvt_round *round)
{
	struct kvt_step *step = &round->step;
	struct kvt_log *log = step->saved.log;
	u64 before = le64_to_cpu(log->devs.dev[0].super->checkpoint.epoch), room;
	int err = step_room(round, &room);

	if (err)
		return err;
	step->saved.costs = round->costs;
	err = kvt_plan(&step->saved, room);
	step->last = !step->saved.left;
	step->epoch = step->last ? round->epoch : before;
	return err;
}

/*
 * Find the marks of the new ranges, which of these are still to be written: those that the step has
 * left as they were; and what each holds.
 */
static int step_carry(struct kvt_round *round)
{
	struct kvt_step *step = &round->step;
	const struct kvt_log_directory *old = step->saved.old, *new = &step->ranges->dir;
	u32 i, j = 0;

	if (step->last)
		return 0;
	step->marks = kvcalloc(new->nr, sizeof(*step->marks), GFP_KERNEL);
	step->todo = kvcalloc(BITS_TO_LONGS(new->nr), sizeof(*step->todo), GFP_KERNEL);
	step->costs = kvcalloc(new->nr, sizeof(*step->costs), GFP_KERNEL);
	if (!step->marks || !step->todo || !step->costs)
		return -ENOMEM;
	for (i = 0; i < new->nr; i++)
		step->costs[i].bytes = kvt_log_range_bytes(new->range[i]);
	for (i = 0; i < old->nr; i++) {
		cond_resched();
		if (kvt_saved_writes(&step->saved, i))
			continue;
		while (new->range[j] != old->range[i])
			j++;
		step->costs[j] = round->costs[i];
		if (!test_bit(i, step->saved.left))
			continue;
		step->marks[j] = round->marks[i];
		__set_bit(j, step->todo);
	}
	return 0;
}

/* Write the ranges and the directory, and make them take effect. */
static int step_write(struct kvt_round *round)
{
	struct kvt_step *step = &round->step;
	int err = step_plan(round) ?: kvt_save(&step->saved, round->all, step->epoch);

	if (err)
		return err;
	step->ranges = kvt_ranges_make(&step->saved.dir);
	if (!step->ranges)
		return -ENOMEM;
	step->saved.dir = (struct kvt_log_directory) {};
	return step_carry(round) ?: step_take_effect(round);
}

/* The blocks of what a step has written on a device, but for the directory, which will not stay. */
static u64 bases_blocks(const struct kvt_saved_dev *dev)
{
	u64 blocks = dev->blocks;
	u32 i;

	for (i = 0; i < dev->nr; i++)
		blocks -= le32_to_cpu(dev->table->extents[i].blocks);
	return blocks;
}

/* The new ranges replace the old ones.  Drop the marks of what was written; keep the others. */
static void step_replace(struct kvt_round *round)
{
	struct kvt_log *log = &round->all->commits.log;
	struct kvt_step *step = &round->step;
	u32 i;

	if (!step->last)
		for_each_set_bit(i, step->saved.left, step->saved.old->nr)
			round->marks[i] = KVT_MARK_NONE;
	kvt_image_replace(&log->image, step->ranges, round->marks);
	kvfree(round->todo);
	kvfree(round->costs);
	round->marks = step->marks;
	round->todo = step->todo;
	round->costs = step->costs;
	round->done = step->saved.done;
	for (i = 0; i < KVTREE_LOG_DEVS_MAX; i++)
		round->blocks[i] = bases_blocks(&step->saved.dev[i]);
}

static void step_discard(struct kvt_step *step)
{
	if (step->ranges) {
		kvt_directory_discard(&step->ranges->dir, step->saved.old);
		kvt_ranges_free(step->ranges);
	}
	kvfree(step->marks);
	kvfree(step->todo);
	kvfree(step->costs);
}

static void step_init(struct kvt_round *round)
{
	struct kvt_log *log = &round->all->commits.log;
	struct kvt_saved *saved = &round->step.saved;

	memset(&round->step, 0, sizeof(round->step));
	saved->log = log;
	saved->live = kvt_live_bytes(&log->space);
	saved->old = &kvt_image_ranges(&log->image)->dir;
	saved->marks = round->marks;
	saved->todo = round->todo;
	saved->done = round->done;
	saved->size = round->full ? round->size : 0;
	mutex_init(&saved->lock);
	step_share(round);
	kvt_saved_done(saved, 0);
}

/**
 * kvt_step() - write some ranges of a checkpoint, or all that are left, and make that take effect
 * @round: the checkpoint, whose marks are taken; its step.last is set if nothing is left
 *
 * Context: process context, sleeps; under checkpoint_lock.
 *
 * Return: 0; KVT_LOG_NO_ROOM; KVT_LOG_SLEEPS; -ENOMEM; -EINTR; or an error of a device.  The steps
 * before one that fails stay in effect.
 */
int kvt_step(struct kvt_round *round)
{
	struct kvt_log *log = &round->all->commits.log;
	int err;

	step_init(round);
	err = step_write(round);
	/* Without checkpoints no segment becomes free, and writers would wait forever. */
	if (err == -EIO)
		kvt_log_fail(&log->state, err, "a checkpoint could not be written");
	if (!err && round->step.last)
		log_shorten(round);
	/* If a superblock could not be written, it may name either checkpoint: free nothing. */
	if (!err || !log->state.error)
		step_free(round, !err);
	if (err)
		step_discard(&round->step);
	else
		step_replace(round);
	kvt_saved_exit(&round->step.saved);
	return err;
}
