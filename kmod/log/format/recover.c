// SPDX-License-Identifier: GPL-2.0
/*
 * What a recovery restores: up to which epoch, and what stands where.
 *
 * The trailer of an epoch is written when the one before is durable.  So of the
 * highest epoch that any device knows, M, everything may be missing, and nothing
 * of the epochs before it: what is missing there was lost later.  Any part of a trailer
 * shows that its epoch was begun.
 */
#include "format.h"

static u32 set_lives(const struct kvt_log_set *set)
{
	return le32_to_cpu(set->dev[0].super->nr_lives);
}

/*
 * Take the blocks of an extent from those that a device has.  No two extents have one in common:
 * who says so has made the device, so that it would be read for ever.
 */
static int extent_take(struct kvt_log_set *set, const struct kvt_log_extent *extent, u64 *left)
{
	if (extent->blocks > *left) {
		kvt_log_say(set, "device %u: the records of epoch %llu are more than fit on it",
			    extent->dev + 1, (unsigned long long)extent->epoch);
		return KVT_LOG_DAMAGED;
	}
	*left -= extent->blocks;
	return KVT_LOG_SOUND;
}

/*
 * Whether a device has all that the trailer names, and the headers of the segments that
 * may have been begun for it: KVT_LOG_DAMAGED if not.
 */
static int trailer_judge(struct kvt_log_walk *walk, struct kvt_log_reader *reader)
{
	u64 left = le64_to_cpu(walk->set->dev[walk->dev].super->nr_blocks);
	struct kvt_log_extent extent;
	int verdict = KVT_LOG_SOUND;
	u32 i;

	for (i = 0; !verdict && i < le32_to_cpu(walk->trailer->nr_extents); i++) {
		kvt_log_walk_extent(walk, i, &extent);
		verdict = extent_take(walk->set, &extent, &left);
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

/* One device's last trailer, or part of one, of the life that is open. */
struct tail {
	u64 epoch;	/* of it; one less than the life's first if there is none */
	bool complete;
	u64 lease;
	u64 time;
};

static int tail_find(struct kvt_log_walk *walk, struct kvt_log_reader *reader, struct tail *tail)
{
	u32 life = set_lives(walk->set) - 1;
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
		/* The one before is no tail any more: all that it names has to be there. */
		tail->epoch = walk->epoch;
		tail->complete = false;
		return KVT_LOG_SOUND;
	}
	/* Back to the last one, which was walked over. */
	kvt_log_walk_life(walk, life);
	if (tail->epoch < walk->epoch)
		return KVT_LOG_SOUND;
	while (walk->epoch <= tail->epoch) {
		verdict = kvt_log_walk_next(walk);
		/* It was there a moment ago. */
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
		 * The last lease may not have been promised yet.  It does no harm: it is
		 * not smaller.
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
 * Whether the superblocks' lists of lives make sense, and are the same on all devices.  Lives
 * begin after the checkpoint: no epoch has extents of both.
 */
static bool lives_sane(struct kvt_log_set *set)
{
	u64 epoch = le64_to_cpu(set->dev[0].super->checkpoint.epoch), generation = 0;
	const struct kvtree_log_life *life, *other;
	u32 i, dev;

	for (i = 0; i < set_lives(set); i++) {
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
		if (!epoch && i + 1 < set_lives(set))
			return false;
	}
	return true;
}

/* The epoch that was asked for is none of those that can be restored. */
static int until_refused(struct kvt_log_set *set, const char *what, u64 epoch)
{
	kvt_log_say(set, "epoch %llu cannot be restored: %s %llu",
		    (unsigned long long)set->until, what, (unsigned long long)epoch);
	return -ERANGE;
}

/* The last life ends with an epoch, on one device or all: was that the last one durable? */
static int carried_judge(struct kvt_log_set *set, u64 epoch)
{
	const struct kvtree_log_life *last = kvt_log_set_life(set, 0, set_lives(set) - 1);
	u64 carried = le64_to_cpu(last->first_epoch);

	if (!(le32_to_cpu(last->flags) & KVTREE_LOG_LIFE_CARRIED) || epoch >= carried)
		return KVT_LOG_SOUND;
	kvt_log_say(set, "epoch %llu was durable, but only epoch %llu is found",
		    (unsigned long long)carried, (unsigned long long)epoch);
	return KVT_LOG_DAMAGED;
}

/* Whether a device has the epoch in its last life.  What stands behind may be damaged. */
static int until_walk(struct kvt_log_walk *walk, struct kvt_log_found *found)
{
	int verdict;

	verdict = kvt_log_walk_life(walk, set_lives(walk->set) - 1);
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

/* Instead of the last epoch, one that was asked for. */
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
	/* Of lives that have ended it is known what is there. */
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
 * Whether it is known which epochs a checkpoint has met.  The first versions did not say; but if
 * all is in the checkpoint, or was when the first life began, there are none.
 */
static bool met_known(const struct kvtree_log_super *super)
{
	return super->checkpoint.met || !super->checkpoint.epoch || !super->nr_lives ||
	       le32_to_cpu(super->lives[0].flags) & KVTREE_LOG_LIFE_MET_NONE;
}

/* Before that, a checkpoint has values that are too new, and what they were is gone. */
static u64 first_epoch(const struct kvtree_log_super *super)
{
	const struct kvtree_log_checkpoint *cp = &super->checkpoint;

	if (!met_known(super))
		return 0;
	return (le64_to_cpu(cp->epoch) + le32_to_cpu(cp->met)) ?: 1;
}

/* The end of a life that has none in the superblock, which may say how far it goes at least. */
static int find_end(struct kvt_log_set *set, struct kvt_log_found *found)
{
	return find_open(set, found) ?: carried_judge(set, found->epoch);
}

/* The last epoch of the last life, or of the checkpoint if there is no life. */
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
	if (!set_lives(set))
		return !set->until || set->until == found->epoch ? KVT_LOG_SOUND :
		       until_refused(set, "the only one is", found->epoch);
	last = kvt_log_set_life(set, 0, set_lives(set) - 1);
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

/* Whether a store can go on from there. */
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
		kvt_log_say(set, "epochs, lives or versions have come to their end");
		return KVT_LOG_DAMAGED;
	}
	return KVT_LOG_SOUND;
}

/**
 * kvt_log_find() - find out up to which epoch a recovery restores
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

static int visit_segment(struct kvt_log_set *set, struct kvt_log_visit *visit,
			 const struct kvt_log_extent *in, enum kvtree_log_kind kind)
{
	int verdict = visit->segment(visit, in->dev, &in->pos, in->generation, kind);

	if (!in->saved && (verdict == KVT_LOG_DAMAGED || verdict == -EIO))
		kvt_log_say(set, "device %u: it has a part of epoch %llu", in->dev + 1,
			    (unsigned long long)in->epoch);
	return verdict;
}

static int visit_extent(struct kvt_log_set *set, struct kvt_log_visit *visit,
			const struct kvt_log_extent *extent, enum kvtree_log_kind kind)
{
	return extent_take(set, extent, &visit->left[extent->dev]) ?:
	       visit_segment(set, visit, extent, kind) ?:
	       visit->extent(visit, extent);
}

static int visit_trailer(struct kvt_log_walk *walk, struct kvt_log_visit *visit)
{
	struct kvt_log_extent extent;
	int verdict = KVT_LOG_SOUND;
	u32 i;

	visit->log_blocks += le32_to_cpu(walk->trailer->blocks);
	for (i = 0; !verdict && i < le32_to_cpu(walk->trailer->nr_extents); i++) {
		kvt_log_walk_extent(walk, i, &extent);
		visit->log_blocks += extent.blocks;
		verdict = visit_extent(walk->set, visit, &extent, KVTREE_LOG_KIND_STREAM);
	}
	return verdict;
}

/* The segment in which the next trailer is. */
static int visit_commit(struct kvt_log_walk *walk, struct kvt_log_visit *visit)
{
	const struct kvt_log_extent at = {
		.pos = walk->pos,
		.dev = walk->dev,
		.generation = walk->generation,
		.epoch = walk->epoch,
	};

	return visit_segment(walk->set, visit, &at, KVTREE_LOG_KIND_COMMIT);
}

/* What a device has of the next epoch, which must be there. */
static int visit_next(struct kvt_log_walk *walk, struct kvt_log_visit *visit)
{
	int verdict;

	verdict = visit_commit(walk, visit);
	if (!verdict)
		verdict = kvt_log_walk_next(walk);
	if (verdict == KVT_LOG_END) {
		kvt_log_say(walk->set, "device %u has lost the commit record of epoch %llu",
			    walk->dev + 1, (unsigned long long)walk->epoch);
		verdict = KVT_LOG_DAMAGED;
	}
	return verdict ?: visit_trailer(walk, visit);
}

/* An epoch, on all devices, whose walks have come to its beginning. */
static int visit_epoch(struct kvt_log_walk *walks, struct kvt_log_visit *visit)
{
	int verdict = KVT_LOG_SOUND;
	u32 dev;

	for (dev = 0; !verdict && dev < walks->set->nr_devs; dev++)
		verdict = visit_next(&walks[dev], visit);
	if (!verdict && visit->epoch)
		verdict = visit->epoch(visit);
	kvt_env_rest();
	return verdict;
}

/* A life, up to an epoch that must be there. */
static int visit_life(struct kvt_log_walk *walks, u32 life, u64 last, struct kvt_log_visit *visit)
{
	int verdict = KVT_LOG_SOUND;
	u32 dev;

	for (dev = 0; !verdict && dev < walks->set->nr_devs; dev++)
		verdict = kvt_log_walk_life(&walks[dev], life);
	while (!verdict && walks->epoch <= last)
		verdict = visit_epoch(walks, visit);
	return verdict;
}

static int visit_lives(struct kvt_log_set *set, const struct kvt_log_found *found,
		       struct kvt_log_walk *walks, struct kvt_log_visit *visit)
{
	const struct kvtree_log_life *life;
	int verdict = KVT_LOG_SOUND;
	u64 last;
	u32 i;

	for (i = 0; !verdict && i < set_lives(set); i++) {
		life = kvt_log_set_life(set, 0, i);
		last = le64_to_cpu(life->last_epoch) ?: found->epoch;
		verdict = visit_life(walks, i, min(last, found->epoch), visit);
	}
	return verdict;
}

/* Epoch after epoch, in each of them all devices. */
static int visit_log(struct kvt_log_set *set, const struct kvt_log_found *found,
		     struct kvt_log_visit *visit)
{
	struct kvt_log_walk *walks = kvt_env_alloc(set->nr_devs * sizeof(*walks));
	int verdict = KVT_LOG_SOUND;
	u32 dev;

	if (!walks)
		return -ENOMEM;
	for (dev = 0; !verdict && dev < set->nr_devs; dev++)
		verdict = kvt_log_walk_init(&walks[dev], set, dev);
	if (!verdict)
		verdict = visit_lives(set, found, walks, visit);
	for (dev = 0; dev < set->nr_devs; dev++)
		kvt_log_walk_exit(&walks[dev]);
	kvt_env_free(walks);
	return verdict;
}

static bool table_sound(const struct kvtree_log_super *super, const struct kvt_log_pos *pos,
			const struct kvtree_log_table *table)
{
	const struct kvtree_log_checkpoint *cp = &super->checkpoint;
	u32 blocks = le32_to_cpu(cp->blocks);

	return le64_to_cpu(table->magic) == KVTREE_LOG_TABLE_MAGIC &&
	       table->generation == cp->generation && table->epoch == cp->epoch &&
	       le32_to_cpu(table->blocks) == blocks &&
	       le64_to_cpu(table->nr_extents) <=
	       ((u64)blocks * KVTREE_LOG_BLOCK - sizeof(*table)) / sizeof(table->extents[0]) &&
	       le32_to_cpu(table->crc) ==
	       kvt_log_crc_zero(super, le64_to_cpu(cp->generation), pos, table,
				(size_t)blocks * KVTREE_LOG_BLOCK,
				offsetof(struct kvtree_log_table, crc));
}

static int visit_table(struct kvt_log_set *set, u32 dev, const struct kvtree_log_table *table,
		       struct kvt_log_visit *visit)
{
	struct kvt_log_extent extent = {
		.dev = dev,
		.generation = le64_to_cpu(table->generation),
		.epoch = le64_to_cpu(table->epoch),
		.saved = true,
	};
	int verdict = KVT_LOG_SOUND;
	u64 i;

	for (i = 0; !verdict && i < le64_to_cpu(table->nr_extents); i++) {
		extent.pos = kvt_log_pos_load(&table->extents[i].pos);
		extent.blocks = le32_to_cpu(table->extents[i].blocks);
		extent.crc = le32_to_cpu(table->extents[i].crc);
		extent.stream = le32_to_cpu(table->extents[i].stream);
		if (!kvt_log_pos_valid(set->dev[dev].super, &extent.pos, extent.blocks))
			return KVT_LOG_DAMAGED;
		verdict = visit_extent(set, visit, &extent, KVTREE_LOG_KIND_CHECKPOINT);
	}
	return verdict;
}

static int visit_checkpoint(struct kvt_log_set *set, u32 dev, struct kvt_log_visit *visit)
{
	const struct kvtree_log_super *super = set->dev[dev].super;
	struct kvt_log_pos pos = kvt_log_pos_load(&super->checkpoint.table);
	u32 blocks = le32_to_cpu(super->checkpoint.blocks);
	struct kvtree_log_table *table;
	int verdict;

	if (!blocks)
		return KVT_LOG_SOUND;
	if (!kvt_log_pos_valid(super, &pos, blocks)) {
		kvt_log_say(set, "device %u: the superblock's checkpoint is wrong", dev + 1);
		return KVT_LOG_DAMAGED;
	}
	table = kvt_env_alloc((size_t)blocks * KVTREE_LOG_BLOCK);
	if (!table)
		return -ENOMEM;
	verdict = set->read(set, set->dev[dev].slot, kvt_log_pos_block(super, &pos), blocks, table);
	if (!verdict && !table_sound(super, &pos, table))
		verdict = KVT_LOG_DAMAGED;
	if (!verdict)
		verdict = visit->segment(visit, dev, &pos, le64_to_cpu(table->generation),
					 KVTREE_LOG_KIND_CHECKPOINT);
	if (!verdict)
		verdict = visit_table(set, dev, table, visit);
	if (verdict == KVT_LOG_DAMAGED || verdict == -EIO)
		kvt_log_say(set, "device %u: the checkpoint of epoch %llu %s", dev + 1,
			    (unsigned long long)le64_to_cpu(super->checkpoint.epoch),
			    verdict == -EIO ? "cannot be read" : "is damaged");
	kvt_env_free(table);
	return verdict;
}

/**
 * kvt_log_visit_all() - go through all that a recovery restores
 * @set: loaded
 * @found: of kvt_log_find()
 * @visit: what to do with it
 *
 * First comes the checkpoint, then epoch after epoch, in each of them all devices.  Of a key's
 * records that were visited, the one with the highest version counts, a removal before a put of
 * the same: the checkpoint may have newer ones than the first epochs, and those of one epoch come
 * in any order.  Among the epochs, versions of a key only grow: what is removed at the end of one,
 * and not put by the checkpoint with a higher version, no later one puts with the same or a lower.
 *
 * Return: 0; -EBADMSG: damaged; -EOPNOTSUPP: a newer format; -EIO; -ENOMEM; or an errno that
 * @visit returned.
 */
int kvt_log_visit_all(struct kvt_log_set *set, const struct kvt_log_found *found,
		      struct kvt_log_visit *visit)
{
	int verdict = KVT_LOG_SOUND;
	u32 dev;

	for (dev = 0; !verdict && dev < set->nr_devs; dev++) {
		visit->left[dev] = le64_to_cpu(set->dev[dev].super->nr_blocks);
		verdict = visit_checkpoint(set, dev, visit);
	}
	if (!verdict)
		verdict = visit_log(set, found, visit);
	return kvt_log_errno(verdict);
}
KVT_EXPORT_FOR_TESTS(kvt_log_visit_all);
