// SPDX-License-Identifier: GPL-2.0
/* A recovery: the checkpoint, then the log, epoch after epoch. */
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

/* What a device has of the next epoch, which must be there. */
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

/* An epoch, on all devices, whose walks have come to its beginning. */
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

/* A life, up to an epoch that must be there. */
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

/* The log up to an epoch: epoch after epoch, in each of them all devices. */
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
 * kvt_log_recover() - go through all that a recovery restores
 * @set: loaded
 * @found: of kvt_log_find(); its epoch may be an earlier one
 * @sink: where it goes; what it counts is zero
 *
 * First comes the checkpoint, then epoch after epoch, in each of them all devices.  Of a key's
 * records, the one with the highest version counts, a removal before a put of the same: the
 * checkpoint may have newer ones than the first epochs, and those of one epoch come in any order.
 * Among the epochs, versions of a key only grow: what is removed at the end of one, and not put by
 * the checkpoint with a higher version, no later one puts with the same or a lower.  So it may be
 * forgotten there.
 *
 * Return: 0, and all of it was given to @sink; -EBADMSG: damaged; -EOPNOTSUPP: a newer format;
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
