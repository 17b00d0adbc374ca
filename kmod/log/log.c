// SPDX-License-Identifier: GPL-2.0
/* A log from the attach of its devices to their detach. */
#include <linux/err.h>
#include <linux/sched/signal.h>

#include "base/stats.h"
#include "compat.h"
#include "life.h"
#include "log.h"

/* Versions that a store may give out before its first commit. */
#define LEASE_FIRST	BIT_ULL(32)

/* Open the devices, in the given order. */
static int log_open_devs(struct kvt_log *log, const struct kvt_log_args *args)
{
	int err = 0;
	u32 i;

	kvt_devs_init(&log->devs, args->read_only);
	for (i = 0; !err && i < args->nr; i++) {
		log->devs.dev[i].devs = &log->devs;
		err = kvt_dev_open(&log->devs.dev[i], args->paths[i]);
		if (!err)
			log->devs.set.size[i] = kvt_dev_blocks(&log->devs.dev[i]);
	}
	log->devs.set.nr_given = args->nr;
	log->devs.set.until = args->until;
	return err;
}

/* Sort the devices by index. */
static void log_sort_devs(struct kvt_log *log)
{
	struct { struct file *file; struct block_device *bdev; } given[KVTREE_LOG_DEVS_MAX];
	u32 i, slot;

	for (i = 0; i < log->devs.nr; i++) {
		given[i].file = log->devs.dev[i].file;
		given[i].bdev = log->devs.dev[i].bdev;
	}
	for (i = 0; i < log->devs.nr; i++) {
		slot = log->devs.set.dev[i].slot;
		log->devs.dev[i].file = given[slot].file;
		log->devs.dev[i].bdev = given[slot].bdev;
		log->devs.dev[i].index = i;
		log->devs.set.dev[i].slot = i;
	}
}

static int life_init_dev(struct kvt_life *life, u32 i)
{
	struct kvt_commits *commits = &life->checkpoints.commits;
	struct kvt_log *log = &commits->log;
	const struct kvtree_log_super *super = log->devs.set.dev[i].super;
	struct kvt_log_dev *dev = &log->devs.dev[i];
	struct kvt_part *part = &log->space.part[i];
	struct kvt_chain *chain = &commits->chain[i];

	part->space = &log->space;
	part->dev = dev;
	chain->commits = commits;
	chain->part = part;
	chain->trailer = kvmalloc_array(KVTREE_LOG_TRAILER_MAX, KVTREE_LOG_BLOCK, GFP_KERNEL);
	dev->super = kmemdup(super, sizeof(*super), GFP_KERNEL);
	if (!dev->super || !chain->trailer)
		return -ENOMEM;
	log->space.capacity += le32_to_cpu(super->nr_segments) * kvt_part_bytes(part);
	return kvt_segs_init(&part->segs, le32_to_cpu(super->nr_segments));
}

/* Report what a crash, or damage after it, may have lost. */
static void life_tell(const struct kvt_life *life)
{
	const struct kvt_log *log = &life->checkpoints.commits.log;
	const struct kvt_log_found *found = &life->found;

	if (found->seen > found->epoch)
		pr_warn("kvtree: store '%s': epoch %llu was begun, is not complete and is left out\n",
			log->state.env.name, found->seen);
	else if (found->open && !log->devs.set.until)
		pr_info("kvtree: store '%s' was not detached: epoch %llu is the last one found\n",
			log->state.env.name, found->epoch);
}

static int life_load(struct kvt_life *life)
{
	struct kvt_log *log = &life->checkpoints.commits.log;
	int err;
	u32 i;

	err = kvt_log_set_load(&log->devs.set);
	if (err)
		return err;
	log->devs.nr = log->devs.set.nr_devs;
	log_sort_devs(log);
	/* A log that is read-only is never flushed. */
	err = log->devs.read_only ? 0 : kvt_disks_use(&log->devs);
	for (i = 0; !err && i < log->devs.nr; i++)
		err = life_init_dev(life, i);
	if (err)
		return err;
	kvt_live_init(&log->space);
	log->image.seed = kvt_log_key_seed(log->devs.dev[0].super);
	err = kvt_log_find(&log->devs.set, &life->found);
	if (err)
		return err;
	life_tell(life);
	kvt_carry_init(&life->checkpoints.commits, &life->found);
	err = kvt_life_restore(life);
	kvt_carry_sort(&life->checkpoints.commits);
	return err;
}

/**
 * kvt_log_free() - close the devices and free a log
 * @log: the log, after kvt_log_finish()
 *
 * Context: process context, sleeps.
 */
void kvt_log_free(struct kvt_log *log)
{
	struct kvt_commits *commits = kvt_commits_of(log);
	u32 i;

	kvt_streams_exit(log);
	kvt_log_queues_exit(log);
	kvt_image_exit(&log->image);
	kvt_disks_leave(&log->devs);
	for (i = 0; i < KVTREE_LOG_DEVS_MAX; i++) {
		kvt_segs_exit(&log->space.part[i].segs);
		kvfree(commits->chain[i].trailer);
		kfree(log->devs.dev[i].super);
		kvt_dev_close(&log->devs.dev[i]);
	}
	kvt_carry_exit(commits);
	kvt_log_set_free(&log->devs.set);
	percpu_counter_destroy(&log->space.live);
	kvfree(kvt_life_of(log));
}

/**
 * kvt_log_queues_init() - make a log's workqueues
 * @log: the log; kvt_log_queues_exit() must follow, whatever is returned
 *
 * Workers that wait for devices may use up all that a queue runs at once.  So each log has its own
 * queues, and does not wait for other logs' devices.
 *
 * Context: process context, sleeps.
 *
 * Return: 0 or -ENOMEM.
 */
int kvt_log_queues_init(struct kvt_log *log)
{
	log->state.wq = alloc_workqueue("kvtree_log/%.20s",
					WQ_UNBOUND | WQ_MEM_RECLAIM | WQ_FREEZABLE, 0,
					log->state.env.name);
	/* Unbound: an idle CPU should write the buffers, rather than the one that fills them. */
	log->flush_wq = alloc_workqueue("kvtree_flush/%.18s", WQ_UNBOUND | WQ_MEM_RECLAIM, 0,
					log->state.env.name);
	return log->state.wq && log->flush_wq ? 0 : -ENOMEM;
}
KVT_EXPORT_FOR_TESTS(kvt_log_queues_init);

/**
 * kvt_log_queues_exit() - remove a log's workqueues
 * @log: of kvt_log_queues_init(); nothing will be queued any more
 *
 * Context: process context, sleeps.
 */
void kvt_log_queues_exit(struct kvt_log *log)
{
	if (log->flush_wq)
		destroy_workqueue(log->flush_wq);
	if (log->state.wq)
		destroy_workqueue(log->state.wq);
}
KVT_EXPORT_FOR_TESTS(kvt_log_queues_exit);

static struct kvt_life *life_alloc(const struct kvt_log_env *env)
{
	struct kvt_life *life = kvzalloc(sizeof(*life), GFP_KERNEL);
	struct kvt_commits *commits;
	struct kvt_log *log;

	if (!life)
		return NULL;
	commits = &life->checkpoints.commits;
	log = &commits->log;
	log->state.env = *env;
	log->devs.state = &log->state;
	log->space.state = &log->state;
	log->space.devs = &log->devs;
	mutex_init(&commits->commit_lock);
	mutex_init(&life->checkpoints.checkpoint_lock);
	INIT_DELAYED_WORK(&log->state.commit, kvt_commit_work);
	INIT_DELAYED_WORK(&commits->idle, kvt_idle_work);
	INIT_DELAYED_WORK(&log->state.checkpoint, kvt_checkpoint_work);
	kvt_log_state_init(&log->state);
	INIT_LIST_HEAD(&life->sleepers);
	if (percpu_counter_init(&log->space.live, 0, GFP_KERNEL)) {
		kvfree(life);
		return NULL;
	}
	return life;
}

/**
 * kvt_log_open() - recover a store from its devices
 * @env: of the store; its index is empty, and recovery fills it
 * @args: which devices, and how
 *
 * This does not write to the devices.
 *
 * Context: process context, sleeps.
 *
 * Return: the log, for kvt_log_start() or kvt_log_finish(); or an error pointer: -ENOMEM, or an
 * error of kvt_dev_open(), kvt_log_set_load(), kvt_log_find() or kvt_life_restore().
 */
struct kvt_log *kvt_log_open(const struct kvt_log_env *env, const struct kvt_log_args *args)
{
	struct kvt_life *life = life_alloc(env);
	struct kvt_log *log;
	int err;

	if (!life)
		return ERR_PTR(-ENOMEM);
	log = &life->checkpoints.commits.log;
	err = kvt_log_queues_init(log) ?: log_open_devs(log, args);
	if (!err)
		err = life_load(life);
	if (!err)
		return log;
	kvt_log_free(log);
	return ERR_PTR(err);
}

/**
 * kvt_log_floor() - the lowest version that cannot have been given out
 * @log: of kvt_log_open()
 *
 * Return: a version; it and higher ones have never been given out.
 */
u64 kvt_log_floor(const struct kvt_log *log)
{
	return container_of(log, struct kvt_life, checkpoints.commits.log)->found.version_lease;
}

static void super_begin_life(struct kvt_life *now, struct kvt_log_dev *dev)
{
	const struct kvt_commits *commits = &now->checkpoints.commits;
	const struct kvt_log *log = &commits->log;
	u64 first = commits->carry.epoch ?: now->found.epoch + 1;
	struct kvtree_log_super *super = dev->super;
	/* If the carried epoch is all that the only life has, the new life replaces that one. */
	__le32 flags = commits->carry.epoch ? super->lives[0].flags :
					  cpu_to_le32(KVTREE_LOG_LIFE_MET_NONE);
	u32 nr = kvt_super_close_life(super, first - 1);
	struct kvtree_log_life *life = &super->lives[nr];

	life->generation = cpu_to_le64(log->devs.generation);
	life->first_epoch = cpu_to_le64(first);
	life->last_epoch = 0;
	life->flags = nr ? 0 : flags;
	if (commits->carry.epoch)
		life->flags |= cpu_to_le32(KVTREE_LOG_LIFE_CARRIED);
	kvt_log_pos_store(&life->commit, &commits->chain[dev->index].next);
	kvt_log_pos_store(&super->ahead, &commits->chain[dev->index].ahead);
	super->ahead_generation = life->generation;
	super->nr_lives = cpu_to_le32(nr + 1);
	if (log->devs.nr > 1)
		super->incompat |= cpu_to_le64(KVTREE_LOG_SPARSE);
	super->generation = cpu_to_le64(log->devs.generation);
	super->version_lease = cpu_to_le64(log->state.lease);
	strscpy_pad((char *)super->label, log->state.env.name, sizeof(super->label));
}

/* How many more lives the superblock has room for.  A last life without epochs is replaced. */
static u32 lives_left(const struct kvt_life *life)
{
	const struct kvtree_log_super *super = life->checkpoints.commits.log.devs.dev[0].super;
	u32 nr = le32_to_cpu(super->nr_lives);

	return KVTREE_LOG_LIVES_MAX - nr +
	       (nr && life->found.epoch < le64_to_cpu(super->lives[nr - 1].first_epoch));
}

/* Whether there is room on all devices for a life to begin. */
static bool life_has_room(const struct kvt_life *life,
			  bool (*has_room)(const struct kvt_part *part, u32 carried))
{
	const struct kvt_commits *commits = &life->checkpoints.commits;
	const struct kvt_log *log = &commits->log;
	u32 i;

	for (i = 0; i < log->devs.nr; i++)
		if (!has_room(&log->space.part[i],
			      kvt_carry_segments(commits, &log->space.part[i])))
			return false;
	return true;
}

/* Take the life's first segments for commit records, carry the last epoch, and list the life. */
static int life_write(struct kvt_life *life)
{
	struct kvt_commits *commits = &life->checkpoints.commits;
	struct kvt_log *log = &commits->log;
	struct kvt_chain *chain;
	int err = 0;
	u32 i;

	for (i = 0; !err && i < log->devs.nr; i++) {
		chain = &commits->chain[i];
		err = kvt_room_take(chain->part, KVT_ROOM_LAST, 0, &chain->next);
		if (!err)
			err = kvt_room_take(chain->part, KVT_ROOM_LAST, 0, &chain->ahead);
		if (!err)
			super_begin_life(life, chain->part->dev);
	}
	err = err ?: kvt_carry(commits) ?: kvt_supers_write(&life->checkpoints);
	if (!err)
		kvt_carry_exit(commits);
	return err;
}

static void chain_shut(struct kvt_chain *chain, struct kvt_log_pos *pos)
{
	if (pos->sequence)
		kvt_segs_shut(&chain->part->segs, pos->segment);
	*pos = (struct kvt_log_pos) {};
}

/*
 * Leave a life that has no epoch but the carried one.  Its segments are log that was replayed, and
 * another life will have another generation.
 */
static void life_leave(struct kvt_life *life)
{
	struct kvt_commits *commits = &life->checkpoints.commits;
	struct kvt_log *log = &commits->log;
	u32 i;

	for (i = 0; i < log->devs.nr; i++) {
		chain_shut(&commits->chain[i], &commits->chain[i].next);
		chain_shut(&commits->chain[i], &commits->chain[i].ahead);
	}
	log->devs.generation++;
}

/*
 * A checkpoint in several steps relies on the last epoch.  If it must be carried, let a life do
 * that and nothing else, if there is room.  A crash then changes nothing: the next attach need not
 * carry the epoch again.
 */
static int life_secure(struct kvt_life *life)
{
	int err;

	if (!life->checkpoints.commits.carry.epoch || !lives_left(life) ||
	    !life_has_room(life, kvt_room_secures))
		return 0;
	err = life_write(life);
	if (!err)
		life_leave(life);
	return err;
}

/* A checkpoint before a life: in one step, or in several, which rely on what recovery has found. */
static int life_checkpoint(struct kvt_life *life)
{
	struct kvt_checkpoints *cps = &life->checkpoints;
	const struct kvt_room_step step = {};
	int err = KVT_LOG_NO_ROOM;

	if (kvt_room_step(&cps->commits.log.space, &step) == U64_MAX) {
		err = kvt_checkpoint_awake(cps);
		cps->no_room = !!err;
	}
	if (err == KVT_LOG_NO_ROOM)
		err = life_secure(life) ?: kvt_checkpoint_awake(cps);
	if (!err)
		kvt_carry_exit(&cps->commits);
	return err;
}

/* A device may have got more than its share, where others had no room yet. */
static bool life_evens_out(const struct kvt_life *life)
{
	const struct kvt_log *log = &life->checkpoints.commits.log;

	return log->space.steps && log->devs.nr > 1 && !life_has_room(life, kvt_room_begins);
}

/*
 * If there is no room for a life, make a checkpoint before it begins.  This needs no commit
 * records, can use any device that has room, and frees everything that it replaces.  If a fatal
 * signal or a crash ends it, the next attach makes it again.  One more life must always be
 * possible, for life_secure().
 */
static int life_make_room(struct kvt_life *life)
{
	int err;

	if (life_has_room(life, kvt_room_begins) && lives_left(life) > 1)
		return 0;
	err = life_checkpoint(life);
	if (!err && life_evens_out(life))
		err = life_checkpoint(life);
	if (err && err != KVT_LOG_NO_ROOM)
		return err;
	/* Without a checkpoint, the room that is left may suffice. */
	return life_has_room(life, kvt_room_ends) && lives_left(life) > 1 ? 0 : KVT_LOG_NO_ROOM;
}

static int life_begin(struct kvt_life *life)
{
	int err = life_write(life);

	life->checkpoints.commits.log.state.alive = !err;
	return err;
}

/* No life begins: changes are refused, and all that was recovered counts as durable. */
static void log_start_read_only(struct kvt_log *log)
{
	set_bit(KVT_LOG_STOPPED, &log->state.flags);
	WRITE_ONCE(log->state.error, -EROFS);
}

/**
 * kvt_log_start() - begin a life, so that changes can be logged, unless the log is read-only
 * @log: of kvt_log_open()
 *
 * Context: process context, sleeps.
 *
 * Return: 0, also if there is no room for a life: the store is read-only then; -ENOMEM; or an error
 * of a device.  kvt_log_finish() must follow in any case.
 */
int kvt_log_start(struct kvt_log *log)
{
	struct kvt_life *life = kvt_life_of(log);
	const struct kvt_log_found *found = &life->found;
	int err;

	life->checkpoints.number = log->devs.set.number;
	log->devs.generation = found->generation + 1;
	log->state.lease = found->version_lease + LEASE_FIRST;
	log->state.closed = found->epoch;
	log->state.durable = found->epoch;
	log->state.epoch = found->epoch + 1;
	log->space.live_closed = kvt_live_now(&log->space);
	log->space.live_durable = log->space.live_closed;
	/* The limit, and so the number of streams, depends on it. */
	log->space.directory = kvt_image_ranges(&log->image)->bytes;
	err = kvt_streams_init(log);
	if (!err && log->devs.read_only) {
		log_start_read_only(log);
		return 0;
	}
	if (!err) {
		err = kvt_supers_complete(&life->checkpoints) ?:
		      life_make_room(life) ?: life_begin(life);
		kvt_sleep_add(life);
	}
	if (err)
		set_bit(KVT_LOG_STOPPED, &log->state.flags);
	else if (kvt_room_long(&log->space))
		queue_delayed_work(log->state.wq, &log->state.checkpoint, 0);
	if (err == KVT_LOG_NO_ROOM) {
		kvt_log_fail(&log->state, kvt_log_outcome_errno(err), "there is no room to begin");
		err = 0;
	}
	return err;
}

/* Commit until no record is left. */
static int finish_commit(struct kvt_log *log)
{
	struct kvt_commits *commits = kvt_commits_of(log);
	int err = log->state.error;

	mutex_lock(&commits->commit_lock);
	while (!err && kvt_log_dirty_epoch(log) > log->state.durable)
		err = kvt_commit(commits);
	mutex_unlock(&commits->commit_lock);
	return err;
}

static int log_finish(struct kvt_log *log)
{
	struct kvt_checkpoints *cps = kvt_checkpoints_of(log);
	int err = finish_commit(log);

	/* Make room by a checkpoint, and commit what it has not. */
	if (err == KVT_LOG_NO_ROOM)
		err = kvt_checkpoint(cps) ?: finish_commit(log);
	if (err == KVT_LOG_NO_ROOM)
		return kvt_log_outcome_errno(kvt_checkpoint_forgo(cps));
	/* Optional checkpoints: without them, the next attach takes longer. */
	if (!err && kvt_room_long(&log->space))
		kvt_checkpoint(cps);
	else if (!err && kvt_room_slow(&log->space))
		kvt_checkpoint_little(cps);
	if (!err)
		kvt_image_audit(log);
	return kvt_log_outcome_errno(err) ?: log->state.error ?: kvt_supers_end(cps);
}

/**
 * kvt_log_finish() - make everything durable
 * @log: the log, which has no writers any more
 *
 * The caller repeats this while it returns -EAGAIN, and calls kvt_log_free() then.
 *
 * Context: process context, sleeps.
 *
 * Return: 0; -EAGAIN: there is no memory now, or the machine is about to sleep; or the error that
 * has kept changes from becoming durable.
 */
int kvt_log_finish(struct kvt_log *log)
{
	int err = 0;

	if (!test_and_set_bit(KVT_LOG_CLOSED, &log->state.flags)) {
		kvt_sleep_remove(kvt_life_of(log));
		/* The streams' workers, which may still write, must not queue them again. */
		disable_delayed_work_sync(&log->state.checkpoint);
		disable_delayed_work_sync(&kvt_commits_of(log)->idle);
		disable_delayed_work_sync(&log->state.commit);
	}
	if (log->nr_streams && !test_bit(KVT_LOG_STOPPED, &log->state.flags)) {
		kvt_recount_check(log);
		err = log_finish(log);
	}
	if (err != -ENOMEM)
		return err;
	pr_warn_ratelimited("kvtree: store '%s': no memory to make it durable: trying again\n",
			    log->state.env.name);
	return -EAGAIN;
}

/**
 * kvt_log_checkpoint() - make a checkpoint, and free the segments that it makes useless
 * @log: the log
 *
 * Context: process context, sleeps.
 *
 * Return: 0; -ENOSPC: there is no room for it; -ENOMEM; -EIO or another error of a
 * device; -EROFS: the log is read-only; -EINTR: a fatal signal came before all was written.
 */
int kvt_log_checkpoint(struct kvt_log *log)
{
	if (log->devs.read_only)
		return -EROFS;
	return kvt_log_outcome_errno(kvt_checkpoint_awake(kvt_checkpoints_of(log)));
}

/* The bytes of all segments that are free, or that checkpoints take. */
static u64 segments_bytes(const struct kvt_log *log, bool image)
{
	u64 sum = 0;
	u32 i;

	for (i = 0; i < log->devs.nr; i++) {
		const struct kvt_part *part = &log->space.part[i];

		sum += (image ? READ_ONCE(part->segs.nr_image) : READ_ONCE(part->segs.nr_free)) *
		       kvt_part_bytes(part);
	}
	return sum;
}

/**
 * kvt_log_stat() - read a statistic of a log
 * @log: the log
 * @id: which: one of a log that is not counted in kvt_stats
 *
 * Context: any.
 *
 * Return: its value.
 */
u64 kvt_log_stat(const struct kvt_log *log, enum kvtree_stat id)
{
	switch (id) {
	case KVTREE_STAT_LOG_EPOCH:
		return READ_ONCE(log->state.epoch);
	case KVTREE_STAT_LOG_DURABLE:
		return READ_ONCE(log->state.durable);
	case KVTREE_STAT_LOG_LIVE_BYTES:
		return percpu_counter_sum_positive((struct percpu_counter *)&log->space.live);
	case KVTREE_STAT_LOG_LIVE_MAX:
		return kvt_room_live_max(&log->space);
	case KVTREE_STAT_LOG_CAPACITY:
		return log->space.capacity;
	case KVTREE_STAT_LOG_FREE_BYTES:
		return segments_bytes(log, false);
	case KVTREE_STAT_LOG_IMAGE_BYTES:
		return segments_bytes(log, true);
	case KVTREE_STAT_LOG_RANGES:
		return kvt_image_count(&log->image).ranges;
	case KVTREE_STAT_LOG_PIECES:
		return kvt_image_count(&log->image).pieces;
	case KVTREE_STAT_LOG_ERROR:
		return -READ_ONCE(log->state.error);
	default:
		return 0;
	}
}

/**
 * kvt_log_progress() - how far the checkpoint under way is
 * @log: the log
 * @percent: filled, if there is one; it stays 0 unless the checkpoint writes everything
 *
 * Context: any.
 *
 * Return: whether there is one.
 */
bool kvt_log_progress(const struct kvt_log *log, u32 *percent)
{
	u32 progress = READ_ONCE(log->image.progress);

	if (!progress)
		return false;
	*percent = progress - 1;
	return true;
}

/**
 * kvt_log_uuid() - get the UUID of a store
 * @log: the store's log
 * @uuid: filled; "kvtree store format" has written it to all devices
 *
 * Context: any.
 */
void kvt_log_uuid(const struct kvt_log *log, __u8 uuid[16])
{
	memcpy(uuid, log->devs.dev[0].super->uuid, 16);
}

/**
 * kvt_logs_init() - prepare the module for logs
 *
 * Context: module init.
 *
 * Return: 0, -ENOMEM, or -ENOENT: the kernel has no crc32c.
 */
int kvt_logs_init(void)
{
	int err = kvt_crc32c_init();

	if (err)
		return err;
	err = kvt_sleep_init();
	if (err)
		kvt_logs_exit();
	return err;
}

/**
 * kvt_logs_exit() - end of kvt_logs_init()
 *
 * Context: module exit; no log is left.
 */
void kvt_logs_exit(void)
{
	/* It does no harm if kvt_sleep_init() has failed. */
	kvt_sleep_exit();
	kvt_crc32c_exit();
}
