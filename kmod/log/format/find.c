// SPDX-License-Identifier: GPL-2.0
/*
 * Finding the last epoch that a recovery restores.
 *
 * An epoch's trailers are written only when the epoch before it is durable.  Let M be the highest
 * epoch of which any device has a trailer, or a part of one.  After a crash, anything of M may be
 * missing, because it may not have been durable.  But all epochs before M were: if a part of one of
 * them is missing, it was lost later, which is damage.
 */
#include "format.h"

/*
 * Check that a device has all extents of the trailer, and the headers of their segments.  Returns
 * KVT_LOG_DAMAGED if not.
 */
static int trailer_judge(struct kvt_log_walk *walk, struct kvt_log_reader *reader)
{
	u64 left = kvt_log_dev_blocks(walk->set->dev[walk->dev].super) * KVTREE_LOG_BLOCK;
	struct kvt_log_extent extent;
	int verdict = KVT_LOG_SOUND;
	u32 i;

	for (i = 0; !verdict && i < le32_to_cpu(walk->trailer->nr_extents); i++) {
		kvt_log_walk_extent(walk, i, &extent);
		verdict = kvt_log_extent_take(walk->set, &extent, &left);
		if (!verdict)
			verdict = kvt_log_segment_sound(walk->set, walk->dev, extent.generation,
							&extent.pos, KVTREE_LOG_KIND_STREAM);
		if (!verdict)
			verdict = kvt_log_extent_read(reader, &extent);
	}
	if (verdict == -EIO)
		kvt_log_extent_wrong(walk->set, &extent, verdict);
	return verdict;
}

/* A device's last trailer, or part of one, in the open life. */
struct tail {
	u64 epoch;	/* of the trailer; if there is none, one less than the life's first */
	bool complete;
	u64 lease;
	u64 time;
};

static int tail_find(struct kvt_log_walk *walk, struct kvt_log_reader *reader, struct tail *tail)
{
	u32 life = kvt_log_set_lives(walk->set) - 1;
	int verdict;

	tail->lease = le64_to_cpu(walk->set->dev[walk->dev].super->version_lease);
	tail->complete = true;
	verdict = kvt_log_walk_life(walk, life);
	if (verdict)
		return verdict;
	tail->epoch = walk->epoch - 1;
	while (!(verdict = kvt_log_walk_next(walk))) {
		tail->epoch = walk->epoch - 1;
		tail->lease = le64_to_cpu(walk->trailer->version_lease);
		tail->time = le64_to_cpu(walk->trailer->time);
		kvt_env_rest();
	}
	if (verdict != KVT_LOG_END)
		return verdict;
	if (walk->begun) {
		/* The trailer before is not the last one: its epoch was durable. */
		tail->epoch = walk->epoch;
		tail->complete = false;
		return KVT_LOG_SOUND;
	}
	/* Go back to the last trailer, which the walk has passed. */
	kvt_log_walk_life(walk, life);
	if (tail->epoch < walk->epoch)
		return KVT_LOG_SOUND;
	while (walk->epoch <= tail->epoch) {
		verdict = kvt_log_walk_next(walk);
		/* An end is an error of the device here: the trailer was there a moment ago. */
		if (verdict)
			return verdict == KVT_LOG_END ? -EIO : verdict;
	}
	verdict = trailer_judge(walk, reader);
	tail->complete = verdict != KVT_LOG_DAMAGED;
	return tail->complete ? verdict : KVT_LOG_SOUND;
}

static int tails_judge(struct kvt_log_set *set, const struct tail *tails,
		       struct kvt_log_found *found)
{
	bool all = true;
	u32 i;

	found->seen = 0;
	for (i = 0; i < set->nr_devs; i++)
		found->seen = max(found->seen, tails[i].epoch);
	found->version_lease = 0;
	for (i = 0; i < set->nr_devs; i++) {
		if (tails[i].epoch + 1 < found->seen) {
			kvt_log_say(set, "device %u ends with epoch %llu, but epoch %llu was begun",
				    i + 1, (unsigned long long)tails[i].epoch,
				    (unsigned long long)found->seen);
			return KVT_LOG_DAMAGED;
		}
		if (tails[i].epoch + 1 == found->seen && !tails[i].complete) {
			kvt_log_say(set, "device %u has lost a part of epoch %llu", i + 1,
				    (unsigned long long)tails[i].epoch);
			return KVT_LOG_DAMAGED;
		}
		if (tails[i].epoch < found->seen || !tails[i].complete)
			all = false;
		found->time = max(found->time, tails[i].time);
		/*
		 * The last trailer's lease may never have taken effect.  Using it does no harm, as
		 * leases only grow.
		 */
		found->version_lease = max(found->version_lease, tails[i].lease);
	}
	found->epoch = all ? found->seen : found->seen - 1;
	return KVT_LOG_SOUND;
}

static int find_open(struct kvt_log_set *set, struct kvt_log_found *found)
{
	struct tail *tails = kvt_env_alloc(KVTREE_LOG_DEVS_MAX * sizeof(*tails));
	struct kvt_log_reader *reader = kvt_env_alloc(sizeof(*reader));
	struct kvt_log_walk walk;
	int verdict = -ENOMEM;
	u32 i;

	if (tails && reader)
		verdict = kvt_log_reader_init(reader, set);
	for (i = 0; !verdict && i < set->nr_devs; i++) {
		verdict = kvt_log_walk_init(&walk, set, i);
		if (!verdict)
			verdict = tail_find(&walk, reader, &tails[i]);
		kvt_log_walk_exit(&walk);
	}
	if (!verdict)
		verdict = tails_judge(set, tails, found);
	if (reader)
		kvt_log_reader_exit(reader);
	kvt_env_free(reader);
	kvt_env_free(tails);
	return verdict;
}

/*
 * Whether the superblocks' lists of lives are possible, and the same on all devices.  Lives begin
 * after the checkpoint's epoch, so no epoch has extents of both.
 */
static bool lives_sane(struct kvt_log_set *set)
{
	u64 epoch = le64_to_cpu(set->dev[0].super->checkpoint.epoch), generation = 0;
	const struct kvtree_log_life *life, *other;
	u32 i, dev;

	for (i = 0; i < kvt_log_set_lives(set); i++) {
		life = kvt_log_set_life(set, 0, i);
		for (dev = 1; dev < set->nr_devs; dev++) {
			other = kvt_log_set_life(set, dev, i);
			if (other->generation != life->generation ||
			    other->first_epoch != life->first_epoch ||
			    other->last_epoch != life->last_epoch ||
			    other->flags != life->flags)
				return false;
		}
		if (le64_to_cpu(life->generation) <= generation ||
		    le64_to_cpu(life->generation) >
		    le64_to_cpu(set->dev[0].super->generation) ||
		    le64_to_cpu(life->first_epoch) <= epoch ||
		    le64_to_cpu(life->first_epoch) >= KVT_LOG_NUMBER_MAX ||
		    le64_to_cpu(life->last_epoch) >= KVT_LOG_NUMBER_MAX)
			return false;
		generation = le64_to_cpu(life->generation);
		epoch = le64_to_cpu(life->last_epoch);
		if (epoch && epoch < le64_to_cpu(life->first_epoch))
			return false;
		/* Only the last one may be open. */
		if (!epoch && i + 1 < kvt_log_set_lives(set))
			return false;
	}
	return true;
}

/* Report that the epoch asked for cannot be restored. */
static int until_refused(struct kvt_log_set *set, const char *what, u64 epoch)
{
	kvt_log_say(set, "epoch %llu cannot be restored: %s %llu",
		    (unsigned long long)set->until, what, (unsigned long long)epoch);
	return -ERANGE;
}

/* A carried epoch was durable when its life began: the last life must not end before it. */
static int carried_judge(struct kvt_log_set *set, u64 epoch)
{
	const struct kvtree_log_life *last = kvt_log_set_life(set, 0, kvt_log_set_lives(set) - 1);
	u64 carried = le64_to_cpu(last->first_epoch);

	if (!(le32_to_cpu(last->flags) & KVTREE_LOG_LIFE_CARRIED) || epoch >= carried)
		return KVT_LOG_SOUND;
	kvt_log_say(set, "epoch %llu was durable, but only epoch %llu is found",
		    (unsigned long long)carried, (unsigned long long)epoch);
	return KVT_LOG_DAMAGED;
}

/* Check that a device has epoch @until in the last life.  Later epochs may be damaged. */
static int until_walk(struct kvt_log_walk *walk, struct kvt_log_found *found)
{
	int verdict;

	verdict = kvt_log_walk_life(walk, kvt_log_set_lives(walk->set) - 1);
	while (!verdict && walk->epoch <= walk->set->until) {
		verdict = kvt_log_walk_next(walk);
		if (verdict)
			break;
		found->time = max(found->time, le64_to_cpu(walk->trailer->time));
		found->version_lease = max(found->version_lease,
					   le64_to_cpu(walk->trailer->version_lease));
		kvt_env_rest();
	}
	if (verdict != KVT_LOG_END)
		return verdict;
	verdict = carried_judge(walk->set, walk->epoch - 1);
	return verdict ?: until_refused(walk->set, "the last one is", walk->epoch - 1);
}

/* Restore the epoch asked for instead of the last one. */
static int find_until(struct kvt_log_set *set, struct kvt_log_found *found, u64 begin, u64 end)
{
	struct kvt_log_walk walk;
	int verdict = KVT_LOG_SOUND;
	u32 i;

	found->epoch = set->until;
	found->seen = set->until;
	if (!found->first)
		return until_refused(set, "nothing says what else is in the checkpoint of epoch",
				     le64_to_cpu(set->dev[0].super->checkpoint.epoch));
	if (set->until < found->first)
		return until_refused(set, "the first one is", found->first);
	if (end && set->until > end)
		return until_refused(set, "the last one is", end);
	/* Lives that have ended have all epochs up to their last one. */
	if (end || set->until < begin)
		return KVT_LOG_SOUND;
	for (i = 0; !verdict && i < set->nr_devs; i++) {
		verdict = kvt_log_walk_init(&walk, set, i);
		if (!verdict)
			verdict = until_walk(&walk, found);
		kvt_log_walk_exit(&walk);
	}
	return verdict;
}

/*
 * Whether it is known which later epochs a checkpoint has changes of.  The first versions did not
 * store that.  But there are none if nothing but the checkpoint exists, or if nothing else existed
 * when the first life began.
 */
static bool met_known(const struct kvtree_log_super *super)
{
	return super->checkpoint.met || !super->checkpoint.epoch || !super->nr_lives ||
	       le32_to_cpu(super->lives[0].flags) & KVTREE_LOG_LIFE_MET_NONE;
}

/* The first epoch to be restored: for earlier ones, the checkpoint's values may be too new. */
static u64 first_epoch(const struct kvtree_log_super *super)
{
	const struct kvtree_log_checkpoint *cp = &super->checkpoint;

	if (!met_known(super))
		return 0;
	return (le64_to_cpu(cp->epoch) + le32_to_cpu(cp->met)) ?: 1;
}

/* Find the end of an open life, and check that it is not before an epoch known to be durable. */
static int find_end(struct kvt_log_set *set, struct kvt_log_found *found)
{
	return find_open(set, found) ?: carried_judge(set, found->epoch);
}

/* Find the last epoch of the last life, or of the checkpoint if there is no life. */
static int find_epoch(struct kvt_log_set *set, struct kvt_log_found *found)
{
	const struct kvtree_log_super *super = set->dev[0].super;
	const struct kvtree_log_life *last;

	found->epoch = le64_to_cpu(super->checkpoint.epoch);
	found->first = first_epoch(super);
	found->version_lease = le64_to_cpu(super->version_lease);
	found->generation = le64_to_cpu(super->generation);
	found->seen = found->epoch;
	if (!lives_sane(set)) {
		kvt_log_say(set, "the superblocks' lists of lives are wrong");
		return KVT_LOG_DAMAGED;
	}
	if (!kvt_log_set_lives(set))
		return !set->until || set->until == found->epoch ? KVT_LOG_SOUND :
		       until_refused(set, "the only one is", found->epoch);
	last = kvt_log_set_life(set, 0, kvt_log_set_lives(set) - 1);
	found->open = !last->last_epoch;
	if (set->until)
		return find_until(set, found, le64_to_cpu(last->first_epoch),
				  le64_to_cpu(last->last_epoch));
	if (!last->last_epoch)
		return find_end(set, found);
	found->epoch = le64_to_cpu(last->last_epoch);
	found->seen = found->epoch;
	return KVT_LOG_SOUND;
}

/* Whether a store can continue from there. */
static int found_judge(struct kvt_log_set *set, const struct kvt_log_found *found)
{
	const struct kvtree_log_checkpoint *cp = &set->dev[0].super->checkpoint;
	u64 met = le64_to_cpu(cp->epoch) + le32_to_cpu(cp->met);

	if (found->epoch < met) {
		kvt_log_say(set, "epoch %llu was durable, but only epoch %llu is found",
			    (unsigned long long)met, (unsigned long long)found->epoch);
		return KVT_LOG_DAMAGED;
	}
	if (max(found->epoch, max(found->generation, found->version_lease)) >=
	    KVT_LOG_NUMBER_MAX / 2) {
		kvt_log_say(set, "no epochs, lives or versions are left");
		return KVT_LOG_DAMAGED;
	}
	return KVT_LOG_SOUND;
}

/**
 * kvt_log_find() - find the last epoch that a recovery restores
 * @set: loaded
 * @found: filled
 *
 * Return: 0; -EBADMSG: damaged; -EOPNOTSUPP: a newer format; -ERANGE: @set->until cannot be
 * restored; -EIO; -ENOMEM.
 */
int kvt_log_find(struct kvt_log_set *set, struct kvt_log_found *found)
{
	int verdict;

	memset(found, 0, sizeof(*found));
	set->version_end = KVT_LOG_NUMBER_MAX;
	verdict = find_epoch(set, found);
	if (!verdict)
		verdict = found_judge(set, found);
	set->version_end = found->version_lease;
	return kvt_log_errno(verdict);
}
KVT_EXPORT_FOR_TESTS(kvt_log_find);
