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

/* Check the last epoch, which the walks have passed, on all devices that take part in it. */
static int epoch_judge(struct kvt_log_epochs *ep, struct kvt_log_reader *reader)
{
	int verdict = KVT_LOG_SOUND;
	u32 dev;

	for (dev = 0; !verdict && dev < ep->set->nr_devs; dev++) {
		if (!(ep->devices >> dev & 1))
			continue;
		verdict = kvt_log_walk_back(&ep->walk[dev]);
		if (verdict == -EIO)
			kvt_log_walk_say(&ep->walk[dev], ep->epoch);
		if (!verdict)
			verdict = trailer_judge(&ep->walk[dev], reader);
	}
	return verdict;
}

/* Note an epoch's time. */
static void found_note(struct kvt_log_found *found, const struct kvt_log_epochs *ep)
{
	u32 dev;

	for (dev = 0; dev < ep->set->nr_devs; dev++)
		if (ep->devices >> dev & 1)
			found->time = max(found->time, le64_to_cpu(ep->walk[dev].trailer->time));
}

/* Go on until there is no complete epoch, or until @until.  Returns as kvt_log_epochs_next(). */
static int found_walk(struct kvt_log_found *found, struct kvt_log_epochs *ep, u64 until)
{
	int verdict = KVT_LOG_SOUND;

	while (!verdict && ep->epoch < until) {
		verdict = kvt_log_epochs_next(ep);
		if (!verdict)
			found_note(found, ep);
		kvt_env_rest();
	}
	found->version_lease = max(found->version_lease, ep->version_lease);
	return verdict;
}

/* The last trailers of an open life were found: which epoch is the last one? */
static int open_judge(struct kvt_log_found *found, struct kvt_log_epochs *ep,
		      struct kvt_log_reader *reader)
{
	int verdict = KVT_LOG_SOUND;

	found->epoch = ep->epoch;
	found->seen = ep->epoch + ep->begun;
	/* If the next one was begun, this one was durable. */
	if (!ep->begun)
		verdict = epoch_judge(ep, reader);
	if (verdict != KVT_LOG_DAMAGED)
		return verdict;
	found->epoch--;
	return KVT_LOG_SOUND;
}

static int find_open(struct kvt_log_set *set, struct kvt_log_found *found,
		     struct kvt_log_epochs *ep)
{
	struct kvt_log_reader *reader = kvt_env_alloc(sizeof(*reader));
	int verdict;

	if (!reader)
		return -ENOMEM;
	verdict = kvt_log_reader_init(reader, set) ?: found_walk(found, ep, KVT_LOG_NUMBER_MAX);
	if (verdict == KVT_LOG_END)
		verdict = open_judge(found, ep, reader);
	kvt_log_reader_exit(reader);
	kvt_env_free(reader);
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

/* Check that epoch @until is in the last life.  Later epochs may be damaged. */
static int until_find(struct kvt_log_set *set, struct kvt_log_found *found,
		      struct kvt_log_epochs *ep)
{
	int verdict = found_walk(found, ep, set->until);

	if (verdict != KVT_LOG_END)
		return verdict;
	return carried_judge(set, ep->epoch) ?:
	       until_refused(set, "the last one is", ep->epoch);
}

/* Go through the last life, whose end is not known. */
static int find_last(struct kvt_log_set *set, struct kvt_log_found *found)
{
	struct kvt_log_epochs *ep = kvt_env_alloc(sizeof(*ep));
	int verdict;

	if (!ep)
		return -ENOMEM;
	verdict = kvt_log_epochs_init(ep, set, false) ?:
		  kvt_log_epochs_life(ep, kvt_log_set_lives(set) - 1);
	if (!verdict)
		verdict = set->until ? until_find(set, found, ep) : find_open(set, found, ep);
	kvt_log_epochs_exit(ep);
	kvt_env_free(ep);
	return verdict;
}

/* Restore the epoch asked for instead of the last one. */
static int find_until(struct kvt_log_set *set, struct kvt_log_found *found, u64 begin, u64 end)
{
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
	return end || set->until < begin ? KVT_LOG_SOUND : find_last(set, found);
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
	return find_last(set, found) ?: carried_judge(set, found->epoch);
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
