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
#include "checkpoint.h"

/* Delay before a retry: short while writers wait for room or soon will, long otherwise. */
#define RETRY	(HZ / 5)
#define RETRY_LATER	(30 * HZ)
/* Checkpoints that may fail for lack of room, and gain nothing, before one succeeds. */
#define TRIES	3

/* How much a checkpoint writes. */
enum how {
	HOW_CHANGED,	/* what has changed; or everything, if that is needed to free enough */
	HOW_ALL,	/* everything */
	HOW_LITTLE,	/* what has changed; or else no checkpoint is made */
};

/* Begin the checkpoint in the tables of segments. */
static void round_segments(struct kvt_round *round)
{
	struct kvt_log *log = &round->all->commits.log;
	u32 i;

	for (i = 0; i < log->devs.nr; i++) {
		struct kvt_part *part = &log->space.part[i];

		kvt_segs_save_begin(&part->segs, round->epoch, round->full);
		/* Append to the last checkpoint's segments, unless this one will free them. */
		if (round->full && !round->resumed)
			memset(part->image, 0, sizeof(part->image));
	}
}

/*
 * Whether unchanged ranges may stay where they are.  If writers wait already, everything is
 * written again, to free as many segments as possible.
 */
static bool round_keeps(const struct kvt_round *round, enum how how)
{
	const struct kvt_log *log = &round->all->commits.log;

	return how != HOW_ALL && kvt_log_has_ranges(log->devs.dev[0].super) &&
	       !test_bit(KVT_LOG_FULL, &log->state.flags) &&
	       kvt_room_describes(&log->space) && kvt_room_spare(&log->space);
}

/* Choose the epoch to contain: the durable one, since all its changes are in the index. */
static void round_begin(struct kvt_round *round, enum how how)
{
	struct kvt_commits *commits = &round->all->commits;
	struct kvt_log *log = &commits->log;
	u32 i;

	round->size = kvt_live_bytes(&log->space);
	mutex_lock(&commits->commit_lock);
	round->epoch = log->state.durable;
	round->replay_bytes = log->space.replay_bytes;
	for (i = 0; i < log->devs.nr; i++) {
		round->commit[i] = commits->chain[i].next;
		round->ahead[i] = commits->chain[i].ahead;
	}
	round_segments(round);
	if (!round_keeps(round, how)) {
		round->full = true;
		round->resumed = log->image.todo;
		round_segments(round);
	}
	mutex_unlock(&commits->commit_lock);
}

/**
 * kvt_checkpoint_drain() - make all changes up to now durable
 * @commits: of the log
 * @epoch: filled: the last of them is in this one
 *
 * Context: process context, sleeps; under commit_lock.
 *
 * Return: as kvt_commit().
 */
int kvt_checkpoint_drain(struct kvt_commits *commits, u64 *epoch)
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
	err = kvt_checkpoint_drain(commits, &epoch) ?: kvt_supers_end(cps);
	if (!err)
		set_bit(KVT_LOG_STOPPED, &state->flags);
	kvt_log_fail(state, -ENOSPC, "there is no room for a checkpoint");
	mutex_unlock(&commits->commit_lock);
	return err;
}

/* End a checkpoint that has not begun to write. */
static void round_give_up(struct kvt_round *round)
{
	struct kvt_log *log = &round->all->commits.log;
	u32 i;

	for (i = 0; i < log->devs.nr; i++)
		kvt_segs_step_end(&log->space.part[i].segs, round->epoch, false, true);
}

/* A checkpoint of everything lists all ranges, or those that a failed one has left. */
static int round_todo(struct kvt_round *round)
{
	struct kvt_image *image = &round->all->commits.log.image;
	u32 nr = kvt_image_ranges(image)->dir.nr;

	if (round->resumed) {
		swap(round->todo, image->todo);
		return 0;
	}
	kvfree(image->todo);
	image->todo = NULL;
	if (!round->full)
		return 0;
	round->todo = kvmalloc_array(BITS_TO_LONGS(nr), sizeof(long), GFP_KERNEL);
	if (!round->todo)
		return -ENOMEM;
	bitmap_fill(round->todo, nr);
	return 0;
}

/* Take the marks.  Ranges that have changed since they were written are written again. */
static int round_take(struct kvt_round *round)
{
	struct kvt_image *image = &round->all->commits.log.image;
	u32 nr = kvt_image_ranges(image)->dir.nr, i;

	round->marks = kvt_image_take(image);
	if (!round->marks)
		return -ENOMEM;
	for (i = 0; round->todo && i < nr; i++)
		if (round->marks[i] != KVT_MARK_NONE)
			__set_bit(i, round->todo);
	return 0;
}

/* What an earlier checkpoint has written counts as done. */
static void round_done(struct kvt_round *round)
{
	const struct kvt_log_directory *dir =
		&kvt_image_ranges(&round->all->commits.log.image)->dir;
	u32 i;

	for_each_clear_bit(i, round->todo, dir->nr) {
		round->done += kvt_log_range_bytes(dir->range[i]);
		cond_resched();
	}
}

/*
 * Whether another step follows.  If there was no room for one, try the last one: it may use what
 * the others have to leave.
 */
static bool round_goes_on(struct kvt_round *round, int err)
{
	struct kvt_log *log = &round->all->commits.log;
	u32 i;

	if (!err)
		return !round->step.last;
	if (err != KVT_LOG_NO_ROOM || round->step.last)
		return false;
	round->rest = true;
	for (i = 0; i < log->devs.nr; i++)
		kvt_segs_save_begin(&log->space.part[i].segs, round->epoch, true);
	return true;
}

static int round_steps(struct kvt_round *round)
{
	struct kvt_image *image = &round->all->commits.log.image;
	int err;

	WRITE_ONCE(image->progress, 1);
	if (round->full)
		round_done(round);
	do {
		err = kvt_step(round);
		round->stepped |= !err;
	} while (round_goes_on(round, err));
	WRITE_ONCE(image->progress, 0);
	return err;
}

/*
 * The next checkpoint of everything goes on where a step has failed.  But if there was no room, it
 * begins again: what was written before may have become useless since.
 */
static void round_leave(struct kvt_round *round, int err)
{
	if (err && err != KVT_LOG_NO_ROOM && (round->stepped || round->resumed))
		swap(round->todo, round->all->commits.log.image.todo);
	kvfree(round->todo);
	kvfree(round->costs);
}

/* Write it.  If that fails, return the marks of what was not written for the next checkpoint. */
static int round_write(struct kvt_round *round)
{
	int err = round_todo(round) ?: round_take(round);

	if (err)
		round_give_up(round);
	else
		err = round_steps(round);
	if (round->marks)
		kvt_image_give(&round->all->commits.log.image, round->marks);
	round_leave(round, err);
	return err;
}

static int checkpoint_run(struct kvt_checkpoints *cps, enum how how)
{
	struct kvt_round *round = kvzalloc(sizeof(*round), GFP_KERNEL);
	int err = KVT_LOG_NO_ROOM;

	if (!round)
		return -ENOMEM;
	round->all = cps;
	round->again = how == HOW_ALL && cps->commits.log.state.alive;
	round_begin(round, how);
	if (round->full && how == HOW_LITTLE)
		round_give_up(round);
	else
		err = round_write(round);
	cps->futile = !err && !round->helps;
	kvfree(round);
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

static u32 segments_free(const struct kvt_space *space)
{
	u32 nr = 0, i;

	for (i = 0; i < space->devs->nr; i++)
		nr += READ_ONCE(space->part[i].segs.nr_free);
	return nr;
}

/*
 * Whether more segments are free after a checkpoint that found no room than after any such
 * checkpoint since the last success.  Steps alone are no progress: each attempt may begin
 * with the segment that the one before has left partly filled.
 */
static bool checkpoint_gains(struct kvt_checkpoints *cps)
{
	u32 free = segments_free(&cps->commits.log.space);
	bool gains = cps->no_room && free > cps->most_free;

	if (gains || !cps->no_room)
		cps->most_free = free;
	return gains;
}

/**
 * kvt_checkpoint_judge() - count checkpoints that fail for lack of room, and end the life then
 * @cps: the log's checkpoints
 * @err: what the last one has returned
 *
 * Checkpoints that leave more segments free than all before are not counted: the next one may
 * fit.  If several others do not fit, none will.  As writers wait, no more changes are
 * accepted.  Make those already accepted durable, in the room kept for checkpoints, and end the
 * life there, so that writers do not wait forever.
 *
 * Context: process context, sleeps; under checkpoint_lock.
 */
void kvt_checkpoint_judge(struct kvt_checkpoints *cps, int err)
{
	struct kvt_log_state *state = &cps->commits.log.state;

	if (!err || !state->alive)
		cps->no_room = 0;
	else if (err == KVT_LOG_NO_ROOM && !checkpoint_gains(cps))
		cps->no_room++;
	if (err != KVT_LOG_NO_ROOM || cps->no_room < TRIES ||
	    test_bit(KVT_LOG_CLOSED, &state->flags))
		return;
	kvt_checkpoint_forgo(cps);
}
KVT_EXPORT_FOR_TESTS(kvt_checkpoint_judge);

/* Under the lock. */
static int checkpoint_locked(struct kvt_checkpoints *cps)
{
	struct kvt_log_state *state = &cps->commits.log.state;
	bool futile;
	int err;

	cps->futile = false;
	err = READ_ONCE(state->error) ? -EIO : checkpoint_make(cps);
	/* If writers still wait, it counts as if there had been no room for it. */
	futile = cps->futile && test_bit(KVT_LOG_FULL, &state->flags);
	kvt_checkpoint_judge(cps, futile ? KVT_LOG_NO_ROOM : err);
	if (futile)
		kvt_room_stop_writers(&cps->commits.log.space);
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
