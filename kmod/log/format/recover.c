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

/* Replay a device's part of an epoch. */
static int replay_part(struct kvt_log_visit *visit, struct kvt_log_walk *walk)
{
	const struct kvt_log_extent at = {
		.pos = walk->at,
		.dev = walk->dev,
		.generation = walk->generation,
		.epoch = le64_to_cpu(walk->trailer->epoch),
	};

	return kvt_log_visit_segment(visit, &at, KVTREE_LOG_KIND_COMMIT) ?:
	       replay_trailer(visit, walk);
}

static int recover_bury(struct kvt_log_sink *sink)
{
	return sink->bury ? sink->bury(sink) : KVT_LOG_SOUND;
}

/* Replay the next epoch, on all devices that take part in it. */
static int replay_epoch(struct kvt_log_visit *visit, struct kvt_log_epochs *ep)
{
	struct kvt_log_sink *sink = visit->sink;
	int verdict;
	u32 dev;

	verdict = kvt_log_epochs_next(ep);
	for (dev = 0; !verdict && dev < visit->set->nr_devs; dev++)
		if (ep->devices >> dev & 1)
			verdict = replay_part(visit, &ep->walk[dev]);
	if (!verdict && (!sink->due || sink->due(sink)))
		verdict = recover_bury(sink);
	kvt_env_rest();
	return verdict;
}

/* Replay a life, up to an epoch that must be there. */
static int replay_life(struct kvt_log_visit *visit, struct kvt_log_epochs *ep, u32 life, u64 last)
{
	int verdict = kvt_log_epochs_life(ep, life);

	while (!verdict && ep->epoch < last)
		verdict = replay_epoch(visit, ep);
	return verdict;
}

static int replay_lives(struct kvt_log_visit *visit, struct kvt_log_epochs *ep, u64 epoch)
{
	const struct kvtree_log_life *life;
	int verdict = KVT_LOG_SOUND;
	u64 last;
	u32 i;

	for (i = 0; !verdict && i < kvt_log_set_lives(visit->set); i++) {
		life = kvt_log_set_life(visit->set, 0, i);
		last = le64_to_cpu(life->last_epoch) ?: epoch;
		verdict = replay_life(visit, ep, i, min(last, epoch));
	}
	return verdict;
}

/* Replay the log up to an epoch. */
static int replay(struct kvt_log_visit *visit, u64 epoch)
{
	struct kvt_log_epochs *ep = kvt_env_alloc(sizeof(*ep));
	int verdict;

	if (!ep)
		return -ENOMEM;
	verdict = kvt_log_epochs_init(ep, visit->set, true) ?: replay_lives(visit, ep, epoch);
	kvt_log_epochs_exit(ep);
	kvt_env_free(ep);
	return verdict;
}

/**
 * kvt_log_recover() - pass everything that a recovery restores to a sink
 * @set: loaded
 * @found: of kvt_log_find(); its epoch may be an earlier one
 * @sink: the sink; its counts are zero
 *
 * The checkpoint comes first, and then one epoch after the other, from all its devices.  The record
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
