// SPDX-License-Identifier: GPL-2.0
/*
 * Checkpoints: all keys and values, written beside the load.
 *
 * A checkpoint contains every change of the epochs up to the durable one at its
 * beginning, and perhaps later ones.  So it counts together with the log from
 * there on, and not before the last epoch that it may have met is durable.
 */
#include <linux/vmalloc.h>

#include "base/stats.h"
#include "checkpoint.h"

/* When to try again if there was no memory: writers may wait for room, or need none so far. */
#define RETRY	(HZ / 5)
#define RETRY_LATER	(30 * HZ)
/* How often if there was no room, although writers waited. */
#define TRIES	3

/* A checkpoint under way. */
struct checkpoint {
	struct kvt_checkpoints *all;		/* of the log, of which it is one */
	struct kvt_log *log;
	u64 epoch;				/* contained */
	u32 met;				/* epochs after it that it may have met */
	u64 replay_bytes;			/* that need not be replayed any more */
	u64 lease;				/* on versions: the same on all devices */
	struct kvt_log_pos commit[KVTREE_LOG_DEVS_MAX];	/* of the trailer after it */
	struct kvt_saved saved;
};

/* Where it begins: what is durable is published in the index. */
static void checkpoint_begin(struct checkpoint *cp)
{
	struct kvt_commits *commits = &cp->all->commits;
	struct kvt_log *log = cp->log;
	u32 i;

	mutex_lock(&commits->commit_lock);
	cp->epoch = log->state.durable;
	cp->replay_bytes = log->space.replay_bytes;
	for (i = 0; i < log->devs.nr; i++) {
		cp->commit[i] = commits->chain[i].next;
		kvt_segs_save_begin(&log->space.part[i].segs, cp->epoch);
	}
	mutex_unlock(&commits->commit_lock);
}

static int table_write(struct checkpoint *cp, u32 i)
{
	struct kvt_log_dev *dev = &cp->log->devs.dev[i];
	struct kvt_saved_dev *d = &cp->saved.dev[i];
	struct kvtree_log_checkpoint *to = &d->super;
	u64 generation = cp->log->devs.generation;
	size_t used = struct_size(d->table, extents, d->nr);
	u32 blocks = DIV_ROUND_UP(used, KVTREE_LOG_BLOCK);
	struct kvtree_log_table *table;
	int err;

	to->epoch = cpu_to_le64(cp->epoch);
	to->generation = cpu_to_le64(generation);
	to->met = cpu_to_le32(cp->met);
	if (!d->nr)
		return 0;
	err = kvt_saved_room(&cp->saved, i, blocks, KVT_ROOM_TABLE);
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

/* The lives that are not contained in it: the present one, if it has begun, from there on. */
static void checkpoint_lives(struct checkpoint *cp, u32 i)
{
	struct kvtree_log_super *super = cp->log->devs.dev[i].super;
	struct kvtree_log_life *life = &super->lives[0];

	super->checkpoint = cp->saved.dev[i].super;
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

/* Make everything durable that is there, up to @epoch; under commit_lock. */
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
 * kvt_checkpoint_forgo() - end a life without the checkpoint that has no room
 * @cps: the log's checkpoints
 *
 * Everything becomes durable, in the room that was kept for checkpoints, and the superblocks say
 * that the life ends with it.
 *
 * Context: process context, sleeps; under checkpoint_lock, or by who has the log alone.
 *
 * Return: 0; KVT_LOG_NO_ROOM; or the error that the log has.
 */
int kvt_checkpoint_forgo(struct kvt_checkpoints *cps)
{
	struct kvt_commits *commits = &cps->commits;
	struct kvt_log_state *state = &commits->log.state;
	u64 epoch;
	int err;

	/* No commit comes in between: the superblocks of all devices say the same. */
	mutex_lock(&commits->commit_lock);
	err = checkpoint_drain(commits, &epoch) ?: kvt_supers_end(cps);
	if (!err)
		set_bit(KVT_LOG_STOPPED, &state->flags);
	kvt_log_fail(state, -ENOSPC, "there is no room for a checkpoint");
	mutex_unlock(&commits->commit_lock);
	return err;
}

/* Recovery begins later in the log. */
static void log_shorten(struct checkpoint *cp)
{
	struct kvt_commits *commits = &cp->all->commits;
	struct kvt_space *space = &commits->log.space;

	mutex_lock(&commits->commit_lock);
	WRITE_ONCE(space->replay_bytes, space->replay_bytes - cp->replay_bytes);
	mutex_unlock(&commits->commit_lock);
}

static int checkpoint_count(struct checkpoint *cp)
{
	struct kvt_commits *commits = &cp->all->commits;
	struct kvt_log *log = cp->log;
	int err;
	u64 met;
	u32 i;

	/* What it may have met.  Recovery must find as much of the log, or something was lost. */
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
		log_shorten(cp);
	return err;
}

/* There may be room again: let the streams and the writers see. */
static void checkpoint_resume(struct kvt_log *log)
{
	u32 i;

	if (!test_bit(KVT_LOG_FULL, &log->state.flags))
		return;
	clear_bit(KVT_LOG_FULL, &log->state.flags);
	/* Pairs with the barrier of who queues itself and looks again. */
	smp_mb__after_atomic();
	for (i = 0; i < log->nr_streams; i++)
		kvt_stream_start(&log->streams[i]);
	mod_delayed_work(log->state.wq, &log->state.commit, 0);
	kvt_event_wake(&log->state.space_event);
}

/*
 * Give back what is useless.  To tell a device of it may take long: writers that wait
 * get half of it before.
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

static int checkpoint_run(struct kvt_checkpoints *cps)
{
	struct checkpoint *cp = kvzalloc(sizeof(*cp), GFP_KERNEL);
	struct kvt_log *log = &cps->commits.log;
	int err;
	u32 i;

	if (!cp)
		return -ENOMEM;
	cp->all = cps;
	cp->log = log;
	checkpoint_begin(cp);
	err = kvt_save(&cp->saved, cps, cp->epoch);
	if (!err)
		err = checkpoint_count(cp);
	/* A device that does not write frees nothing, and writers would wait forever. */
	if (err == -EIO)
		kvt_log_fail(&log->state, err, "a checkpoint could not be written");
	/* What a superblock that could not be written says is not known. */
	if (!err || !log->state.error) {
		for (i = 0; i < log->devs.nr; i++)
			kvt_segs_save_end(&log->space.part[i].segs, cp->epoch, !err);
		checkpoint_give(log, !err);
	}
	kvt_saved_exit(&cp->saved);
	kvfree(cp);
	return err;
}

/*
 * What is moved to where a checkpoint has not been yet is in it twice.  If there is no
 * room for that it is made again, while writers wait.
 */
static int checkpoint_make(struct kvt_checkpoints *cps)
{
	struct kvt_log *log = &cps->commits.log;
	int err = checkpoint_run(cps);

	if (err == KVT_LOG_NO_ROOM && log->state.alive && !READ_ONCE(log->state.error)) {
		kvt_room_stop_writers(&log->space);
		err = checkpoint_run(cps);
	}
	return err;
}

/*
 * If none fits, time after time, nothing makes room any more.  Writers wait, so that nothing is
 * accepted: what was becomes durable in the room that was kept for checkpoints, the life ends with
 * it, and nobody waits for ever.
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
	if (!err)
		kvt_stat_inc(state->env.stats, KVTREE_STAT_LOG_CHECKPOINTS);
	return err;
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
 * kvt_checkpoint_awake() - make a checkpoint, when the machine is awake
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

/* Whether there is still no room, or soon will be none. */
static bool checkpoint_makes_room(const struct kvt_log *log)
{
	return kvt_room_low(&log->space) || test_bit(KVT_LOG_FULL, &log->state.flags);
}

/* Make a checkpoint if there is a reason, and nobody has made one just now. */
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
	/* When the machine is awake this is queued again. */
	if (!err || err == KVT_LOG_SLEEPS || READ_ONCE(log->state.error))
		return;
	pr_warn_ratelimited("kvtree: store '%s': no checkpoint: error %d\n", log->state.env.name,
			    kvt_log_outcome_errno(err));
	queue_delayed_work(log->state.wq, &log->state.checkpoint,
			   checkpoint_makes_room(log) ? RETRY : RETRY_LATER);
}
