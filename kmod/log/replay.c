// SPDX-License-Identifier: GPL-2.0
/*
 * Replay: put the records that a recovery restores into the index.
 *
 * Within the checkpoint, and within each epoch, a key's records come in any order.  The record
 * with the highest version stays; between a put and a removal of the same version, the removal
 * does.  A removal leaves a tombstone, an empty value with the highest bit of its version set, so
 * that an older put that comes later does not bring the key back.  Tombstones are removed between
 * two epochs, since no later epoch has an older put of a removed key: see kvt_log_recover().  So
 * several threads may replay at the same time, each the records that it reads.  The index has no
 * other users during recovery.
 *
 * The records of a range are in order.  So they are collected, and put into the index together.
 */
#include <linux/container_of.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>

#include "base/index.h"
#include "base/mem.h"
#include "base/merge.h"
#include "base/quota.h"
#include "base/reclaim.h"
#include "base/stats.h"
#include "base/value.h"
#include "life.h"

#define TOMBSTONE	BIT_ULL(63)

static struct kvt_mem replay_mem(const struct kvt_log *log)
{
	return (struct kvt_mem) { .memcg = log->state.env.memcg, .gfp = KVT_GFP_PROCESS };
}

/* The cell for a value without a block; NULL: the index or the version does not allow cells. */
static struct kvt_cell *replay_cell(struct kvt_replay *replay, const struct kvt_log_entry *entry)
{
	if (!kvt_index_may_cell(replay->log->state.env.index, entry->key_len) ||
	    entry->version >= KVT_CELL_VERSION_END)
		return NULL;
	return &replay->cells[replay->nr];
}

static struct kvt_value *replay_plain(struct kvt_replay *replay, const struct kvt_key *key,
				      const struct kvt_log_entry *entry)
{
	struct kvt_mem mem = replay_mem(replay->log);
	struct kvt_value *v;
	u8 *data;

	v = kvt_value_make_whole(&mem, key, entry->cols[0].len, &data, replay_cell(replay, entry));
	if (v)
		memcpy(data, entry->cols[0].data, entry->cols[0].len);
	return v;
}

static struct kvt_value *replay_merge(struct kvt_replay *replay, const struct kvt_key *key,
				      const struct kvt_log_entry *entry)
{
	struct kvt_merge merge = {
		.edits = replay->edits, .nr = entry->ncols, .key_len = key->len,
	};
	struct kvt_mem mem = replay_mem(replay->log);
	struct kvt_value *v;

	if (kvt_merge_plan(&merge))
		return NULL;
	if (merge.edits_lack) {
		if (kvt_merge_give_blobs(&merge, replay->edits, &mem))
			return NULL;
		kvt_merge_plan(&merge);
	}
	v = kvt_value_alloc(&mem, key, merge.size);
	if (v)
		kvt_merge_fill(&merge, v, replay->kept);
	return v;
}

static struct kvt_value *replay_columns(struct kvt_replay *replay, const struct kvt_key *key,
					const struct kvt_log_entry *entry)
{
	struct kvt_cell *cell = replay_cell(replay, entry);
	struct kvt_column *edits = replay->edits;
	struct kvt_value *v;
	u32 i;

	if (!entry->ncols && cell)
		return kvt_cell_init_empty(cell, key->len, 0);
	for (i = 0; i < entry->ncols; i++)
		edits[i] = (struct kvt_column) {
			.id = entry->cols[i].id,
			.len = entry->cols[i].len,
			.data = entry->cols[i].data,
		};
	v = replay_merge(replay, key, entry);
	for (i = 0; !v && i < entry->ncols; i++)
		if (edits[i].blob)
			kvt_blob_put(edits[i].blob);
	return v;
}

static struct kvt_value *replay_value(struct kvt_replay *replay, const struct kvt_key *key,
				      const struct kvt_log_entry *entry)
{
	struct kvt_mem mem = replay_mem(replay->log);
	struct kvt_value *v;

	if (entry->type == KVTREE_LOG_REMOVE) {
		v = kvt_value_alloc(&mem, key, kvt_value_head_size(key->len));
		if (v)
			v->version = entry->version | TOMBSTONE;
		return v;
	}
	if (entry->plain)
		v = replay_plain(replay, key, entry);
	else
		v = replay_columns(replay, key, entry);
	if (v)
		v->version = entry->version;
	return v;
}

/* Whether the index already has a newer record of the key, or the same one. */
static bool replay_old(const struct kvt_value *old, const struct kvt_value *new)
{
	return old && !kvt_log_newer(new->version & ~TOMBSTONE, new->version & TOMBSTONE,
				     old->version & ~TOMBSTONE, old->version & TOMBSTONE);
}

static void replay_count(struct kvt_replay *replay, u32 key_len, const struct kvt_value *old,
			 const struct kvt_value *new)
{
	s64 delta = (new ? kvt_value_charge(new) : 0) - (old ? kvt_value_charge(old) : 0);
	struct kvt_log_env *env = &replay->log->state.env;
	struct kvt_live live = {};

	if (delta > 0)
		kvt_quota_charge(env->quota, delta);
	else
		kvt_quota_uncharge(env->quota, -delta);
	kvt_stat_add(env->stats, KVTREE_STAT_VALUE_BYTES, delta);
	if (new && !old) {
		kvt_quota_charge_keys(env->quota, 1);
		kvt_stat_inc(env->stats, KVTREE_STAT_VALUES);
	} else if (old && !new) {
		kvt_quota_uncharge_keys(env->quota, 1);
		kvt_stat_add(env->stats, KVTREE_STAT_VALUES, -1);
	}
	if (new)
		live = kvt_log_live(key_len, new);
	if (old)
		live = kvt_live_less(live, kvt_log_live(key_len, old));
	kvt_live_add(&replay->log->space, live);
}

static int change_begin(struct kvt_replay *replay, struct kvt_change *change)
{
	struct mem_cgroup *memcg = set_active_memcg(replay->log->state.env.memcg);
	int err;

	err = change->index->ops->begin(change);
	set_active_memcg(memcg);
	return err;
}

static void change_finish(struct kvt_replay *replay, struct kvt_change *change)
{
	struct mem_cgroup *memcg = set_active_memcg(replay->log->state.env.memcg);

	change->index->ops->finish(change);
	set_active_memcg(memcg);
}

/* The key's place takes no cell: turn the value into a block. */
static int replay_leave_cell(struct kvt_replay *replay, const struct kvt_key *key,
			     struct kvt_value **new)
{
	struct kvt_mem mem = replay_mem(replay->log);
	struct kvt_value *block = kvt_value_of_cell(&mem, key, *new);

	if (!block)
		return -ENOMEM;
	*new = block;
	return -EAGAIN;
}

/*
 * Put @new into the index, unless this has a newer record of the key.  If @new is NULL, remove a
 * tombstone.
 */
static int replay_change(struct kvt_replay *replay, const struct kvt_key *key,
			 struct kvt_value **new)
{
	struct kvt_change change = {
		.index = replay->log->state.env.index,
		.key = *key,
		.gfp = KVT_GFP_PROCESS | __GFP_ACCOUNT | __GFP_NOWARN,
		.may_insert = *new,
		.removes = !*new,
		.wants_cell = *new && kvt_value_fits_cell(*new) &&
			      (*new)->version < KVT_CELL_VERSION_END,
	};
	const struct kvt_index_ops *ops = change.index->ops;
	struct kvt_reclaim *reclaim = replay->log->state.env.reclaim;
	struct kvt_bag *bag = kvt_bag_get(reclaim, GFP_KERNEL);
	struct kvt_value *placed = NULL;
	struct kvt_cell cell;
	bool done = false;
	int err;

	do {
		err = change_begin(replay, &change);
		if (err)
			break;
		if (*new ? replay_old(change.old, *new) : !change.old) {
			ops->abort(&change);
			break;
		}
		if (*new)
			placed = kvt_value_placed(&change, *new, &cell);
		if (*new && !placed) {
			ops->abort(&change);
			err = replay_leave_cell(replay, key, new);
			continue;
		}
		err = ops->commit(&change, placed);
		done = !err;
	} while (err == -EAGAIN);
	change_finish(replay, &change);
	if (done) {
		replay_count(replay, key->len, change.old, placed);
		if (kvt_value_has_block(change.old)) {
			kvt_value_retire(reclaim, bag, change.old, NULL);
			bag = NULL;
		}
		if (placed != *new)
			kvt_value_free_shell(*new);
		*new = NULL;
	}
	kvt_bag_put(reclaim, bag);
	return err;
}

/*
 * Count values that the index has taken for keys that it did not have.  They are not read: another
 * thread may already have replaced them.
 */
static void replay_count_new(struct kvt_replay *replay, u32 from, u32 nr)
{
	struct kvt_log_env *env = &replay->log->state.env;
	struct kvt_live live = {};
	s64 bytes = 0;
	u32 i;

	for (i = from; i < from + nr; i++) {
		live.bytes += replay->sizes[i].live.bytes;
		live.large += replay->sizes[i].live.large;
		bytes += replay->sizes[i].charge;
	}
	kvt_quota_charge(env->quota, bytes);
	kvt_quota_charge_keys(env->quota, nr);
	kvt_stat_add(env->stats, KVTREE_STAT_VALUE_BYTES, bytes);
	kvt_stat_add(env->stats, KVTREE_STAT_VALUES, nr);
	kvt_live_add(&replay->log->space, live);
}

/* Have the engine insert values from @from on, as many as it can.  Returns how many. */
static u32 replay_insert(struct kvt_replay *replay, u32 from)
{
	struct kvt_index *index = replay->log->state.env.index;
	struct mem_cgroup *memcg = set_active_memcg(replay->log->state.env.memcg);
	u32 done;

	done = index->ops->insert_sorted(index, &replay->inserts[from], replay->nr - from,
					 KVT_GFP_PROCESS | __GFP_ACCOUNT | __GFP_NOWARN);
	set_active_memcg(memcg);
	if (done)
		replay_count_new(replay, from, done);
	return done;
}

/* Put one of the values that wait into the index, or free it if that has a newer one. */
static int replay_insert_one(struct kvt_replay *replay, u32 i)
{
	struct kvt_insert *insert = &replay->inserts[i];
	int err = replay_change(replay, &insert->key, &insert->value);

	/* If the index has taken the value, this is NULL. */
	kvt_value_free(insert->value);
	return err;
}

/* Free the values that wait, from @from on: the index has the others. */
static void replay_drop(struct kvt_replay *replay, u32 from)
{
	for (; from < replay->nr; from++)
		kvt_value_free(replay->inserts[from].value);
	replay->nr = 0;
}

/* Put all values that wait into the index; after an error, free the others. */
static int replay_flush(struct kvt_replay *replay)
{
	u32 at = 0;
	int err = 0;

	while (!err && at < replay->nr) {
		err = kvt_reclaim_throttle(replay->log->state.env.reclaim, true);
		if (err)
			break;
		at += replay_insert(replay, at);
		if (at < replay->nr)
			err = replay_insert_one(replay, at++);
		cond_resched();
	}
	replay_drop(replay, at);
	return err;
}

/* Whether a key comes after those that wait.  It does, unless the device is damaged or forged. */
static bool replay_follows(const struct kvt_replay *replay, const struct kvt_key *key)
{
	const struct kvt_key *last;

	if (!replay->nr)
		return true;
	last = &replay->inserts[replay->nr - 1].key;
	return kvt_log_key_cmp(last->data, last->len, key->data, key->len) < 0;
}

/* A record of a range: these are in order, and stay in memory until replay_piece(). */
static int replay_sorted(struct kvt_replay *replay, const struct kvt_key *key,
			 const struct kvt_log_entry *entry)
{
	struct kvt_value *v;
	int err = 0;

	if (replay->nr == KVT_REPLAY_BATCH)
		err = replay_flush(replay);
	if (err)
		return err;
	v = replay_value(replay, key, entry);
	if (!v)
		return -ENOMEM;
	replay->inserts[replay->nr] = (struct kvt_insert) { .key = *key, .value = v };
	replay->sizes[replay->nr++] = (struct kvt_replay_size) {
		.charge = kvt_value_charge(v),
		.live = kvt_log_live(key->len, v),
	};
	return 0;
}

static int replay_piece(struct kvt_log_reader *reader)
{
	return replay_flush(container_of(reader, struct kvt_replay, reader));
}

static int replay_entry(struct kvt_log_reader *reader, const struct kvt_log_entry *entry)
{
	struct kvt_replay *replay = container_of(reader, struct kvt_replay, reader);
	struct kvt_key key = { .data = entry->key, .len = entry->key_len };
	struct kvt_value *v;
	int err;

	if (replay->sorted && !replay_follows(replay, &key)) {
		/* Then nobody knows which keys to expect: the range's others come one by one. */
		err = replay_flush(replay);
		if (err)
			return err;
		replay->sorted = false;
	}
	if (replay->sorted)
		return replay_sorted(replay, &key, entry);
	if (replay->marks)
		kvt_image_mark(&replay->log->image, key.data, key.len);
	v = replay_value(replay, &key, entry);
	if (!v)
		return -ENOMEM;
	err = kvt_reclaim_throttle(replay->log->state.env.reclaim, true);
	if (!err)
		err = replay_change(replay, &key, &v);
	/* v is NULL if the index has taken it. */
	if (!err && !v && entry->type == KVTREE_LOG_REMOVE)
		WRITE_ONCE(replay->tombstones,
			   replay->tombstones + kvt_log_record_size(key.len, 0));
	kvt_value_free(v);
	return err;
}

/**
 * kvt_replay_init() - prepare to replay
 * @replay: zeros; kvt_replay_exit() must follow, whatever is returned
 * @log: the log; its index is empty, and has no other users
 *
 * Context: process context, sleeps.
 *
 * Return: 0 or -ENOMEM.
 */
int kvt_replay_init(struct kvt_replay *replay, struct kvt_log *log)
{
	replay->log = log;
	replay->reader.entry = replay_entry;
	replay->reader.piece = replay_piece;
	replay->edits = kvcalloc(KVTREE_COLS_MAX, sizeof(*replay->edits), GFP_KERNEL);
	if (!replay->edits)
		return -ENOMEM;
	return kvt_log_reader_init(&replay->reader, &log->devs.set);
}
KVT_EXPORT_FOR_TESTS(kvt_replay_init);

/**
 * kvt_replay_exit() - free a replay's memory
 * @replay: of kvt_replay_init(), or zeros
 */
void kvt_replay_exit(struct kvt_replay *replay)
{
	kvt_log_reader_exit(&replay->reader);
	kvfree(replay->edits);
}
KVT_EXPORT_FOR_TESTS(kvt_replay_exit);

/**
 * kvt_replay_range() - read a range of the checkpoint, and put its records into the index
 * @replay: this thread's
 * @dir: the checkpoint's directory
 * @i: which range
 * @end: those before this one come next, with the same @replay
 *
 * Context: process context, sleeps.
 *
 * Return: as kvt_log_range_read(); -ENOMEM; -EINTR.
 */
int kvt_replay_range(struct kvt_replay *replay, const struct kvt_log_directory *dir, u32 i,
		     u32 end)
{
	int verdict;

	replay->marks = false;
	replay->sorted = true;
	verdict = kvt_log_range_read(&replay->reader, dir, i, end);
	replay->sorted = false;
	/* Some are left if it ended early. */
	replay_drop(replay, 0);
	return verdict;
}

/**
 * kvt_replay_extent() - read an extent, and put its records into the index
 * @replay: this thread's
 * @extent: the extent
 *
 * Context: process context, sleeps.
 *
 * Return: as kvt_log_extent_read(); -ENOMEM; -EINTR.
 */
int kvt_replay_extent(struct kvt_replay *replay, const struct kvt_log_extent *extent)
{
	replay->marks = !extent->saved;
	return kvt_log_extent_read(&replay->reader, extent);
}
KVT_EXPORT_FOR_TESTS(kvt_replay_extent);

struct burial {
	struct kvt_walk walk;
	struct kvt_replay *replay;
};

static int bury_see(struct kvt_walk *walk, const struct kvt_value *v)
{
	/* The walk may take long, and giving up is safe: nothing was written to a device yet. */
	if (fatal_signal_pending(current))
		return -EINTR;
	return v->version & TOMBSTONE ? 1 : 0;
}

static int bury_act(struct kvt_walk *walk, const struct kvt_key *key)
{
	struct kvt_replay *replay = container_of(walk, struct burial, walk)->replay;
	struct kvt_value *none = NULL;
	int err = kvt_reclaim_throttle(replay->log->state.env.reclaim, true);

	return err ?: replay_change(replay, key, &none);
}

/**
 * kvt_replay_bury() - remove the tombstones
 * @replay: one of the replays; together they have replayed all of the checkpoint and all of some
 *	epochs, and nothing of later ones
 *
 * Context: process context, sleeps.
 *
 * Return: 0; -ENOMEM; -EINTR: a fatal signal came.
 */
int kvt_replay_bury(struct kvt_replay *replay)
{
	struct burial burial = {
		.walk = { .see = bury_see, .act = bury_act },
		.replay = replay,
	};

	return kvt_index_walk(replay->log->state.env.index, &burial.walk);
}
KVT_EXPORT_FOR_TESTS(kvt_replay_bury);
