// SPDX-License-Identifier: GPL-2.0
/* Recovery: pass the checkpoint to a sink, and then the log, one epoch after the other. */
#include "format.h"

static int replay_trailer(struct kvt_log_visit *visit, struct kvt_log_walk *walk)
{
	struct kvt_log_extent extent;
	int verdict = KVT_LOG_SOUND;
	u32 i;

	visit->sink->log_blocks += le32_to_cpu(walk->trailer->blocks);
	for (i = 0; !verdict && i < le32_to_cpu(walk->trailer->nr_extents); i++) {
		kvt_log_walk_extent(walk, i, &extent);
		visit->sink->log_blocks += extent.blocks;
		verdict = kvt_log_visit_extent(visit, &extent, KVTREE_LOG_KIND_STREAM);
	}
	return verdict;
}

/* Replay a device's part of the next epoch, which must be there. */
static int replay_next(struct kvt_log_visit *visit, struct kvt_log_walk *walk)
{
	const struct kvt_log_extent at = {
		.pos = walk->pos,
		.dev = walk->dev,
		.generation = walk->generation,
		.epoch = walk->epoch,
	};
	int verdict;

	verdict = kvt_log_visit_segment(visit, &at, KVTREE_LOG_KIND_COMMIT);
	if (!verdict)
		verdict = kvt_log_walk_next(walk);
	if (verdict == KVT_LOG_END) {
		kvt_log_say(visit->set, "device %u has lost the commit record of epoch %llu",
			    walk->dev + 1, (unsigned long long)walk->epoch);
		verdict = KVT_LOG_DAMAGED;
	}
	return verdict ?: replay_trailer(visit, walk);
}

static int recover_bury(struct kvt_log_sink *sink)
{
	return sink->bury ? sink->bury(sink) : KVT_LOG_SOUND;
}

/* Replay the next epoch, on all devices; all walks are at its beginning. */
static int replay_epoch(struct kvt_log_visit *visit, struct kvt_log_walk *walks)
{
	struct kvt_log_sink *sink = visit->sink;
	int verdict = KVT_LOG_SOUND;
	u32 dev;

	for (dev = 0; !verdict && dev < visit->set->nr_devs; dev++)
		verdict = replay_next(visit, &walks[dev]);
	if (!verdict && (!sink->due || sink->due(sink)))
		verdict = recover_bury(sink);
	kvt_env_rest();
	return verdict;
}

/* Replay a life, up to an epoch that must be there. */
static int replay_life(struct kvt_log_visit *visit, struct kvt_log_walk *walks, u32 life,
		       u64 last)
{
	int verdict = KVT_LOG_SOUND;
	u32 dev;

	for (dev = 0; !verdict && dev < visit->set->nr_devs; dev++)
		verdict = kvt_log_walk_life(&walks[dev], life);
	while (!verdict && walks->epoch <= last)
		verdict = replay_epoch(visit, walks);
	return verdict;
}

static int replay_lives(struct kvt_log_visit *visit, struct kvt_log_walk *walks, u64 epoch)
{
	const struct kvtree_log_life *life;
	int verdict = KVT_LOG_SOUND;
	u64 last;
	u32 i;

	for (i = 0; !verdict && i < kvt_log_set_lives(visit->set); i++) {
		life = kvt_log_set_life(visit->set, 0, i);
		last = le64_to_cpu(life->last_epoch) ?: epoch;
		verdict = replay_life(visit, walks, i, min(last, epoch));
	}
	return verdict;
}

/* Replay the log up to an epoch. */
static int replay(struct kvt_log_visit *visit, u64 epoch)
{
	struct kvt_log_walk *walks = kvt_env_alloc(visit->set->nr_devs * sizeof(*walks));
	int verdict = KVT_LOG_SOUND;
	u32 dev;

	if (!walks)
		return -ENOMEM;
	for (dev = 0; !verdict && dev < visit->set->nr_devs; dev++)
		verdict = kvt_log_walk_init(&walks[dev], visit->set, dev);
	if (!verdict)
		verdict = replay_lives(visit, walks, epoch);
	for (dev = 0; dev < visit->set->nr_devs; dev++)
		kvt_log_walk_exit(&walks[dev]);
	kvt_env_free(walks);
	return verdict;
}

/**
 * kvt_log_recover() - pass everything that a recovery restores to a sink
 * @set: loaded
 * @found: of kvt_log_find(); its epoch may be an earlier one
 * @sink: the sink; its counts are zero
 *
 * The checkpoint comes first, and then one epoch after the other, each on all devices.  The record
 * of a key with the highest version is the valid one; between a put and a removal of the same
 * version, the removal is.  The sink has to compare versions: the checkpoint may have newer records
 * than the first epochs, and the records of an epoch come in any order.
 *
 * From epoch to epoch, a key's versions only grow.  So if a key is removed at the end of an epoch,
 * and the checkpoint has no put of it with a higher version, no later epoch has a put of it with
 * the same version or a lower one: the sink may forget the removal at that point.
 *
 * Return: 0, and @sink has got all of it; -EBADMSG: damaged; -EOPNOTSUPP: a newer format;
 * -EIO; -ENOMEM; or an errno that @sink returned.
 */
int kvt_log_recover(struct kvt_log_set *set, const struct kvt_log_found *found,
		    struct kvt_log_sink *sink)
{
	struct kvt_log_visit visit;
	int verdict;

	verdict = kvt_log_visit_begin(&visit, set, sink) ?:
		  kvt_log_load(&visit) ?:
		  replay(&visit, found->epoch) ?:
		  recover_bury(sink);
	kvt_log_visit_end(&visit);
	return kvt_log_errno(verdict);
}
KVT_EXPORT_FOR_TESTS(kvt_log_recover);
