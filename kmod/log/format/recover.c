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

/* What is in use of a segment has to be of the life and kind that are said: look once. */
static int recover_segment(struct kvt_log_recovery *rec, const struct kvt_log_extent *in,
			   enum kvtree_log_kind kind)
{
	u8 *seen = &rec->seen[in->dev][in->pos.segment / 8], bit = 1 << in->pos.segment % 8;
	struct kvt_log_sink *sink = rec->sink;
	int verdict;

	if (*seen & bit)
		return KVT_LOG_SOUND;
	*seen |= bit;
	sink->segments++;
	if (sink->segment)
		sink->segment(sink, in->dev, in->pos.segment, kind);
	verdict = kvt_log_segment_check(rec->set, in->dev, in->generation, &in->pos, kind);
	if (!in->saved && (verdict == KVT_LOG_DAMAGED || verdict == -EIO))
		kvt_log_say(rec->set, "device %u: it has a part of epoch %llu", in->dev + 1,
			    (unsigned long long)in->epoch);
	return verdict;
}

static int recover_extent(struct kvt_log_recovery *rec, const struct kvt_log_extent *extent,
			  enum kvtree_log_kind kind)
{
	return extent_take(rec->set, extent, &rec->left[extent->dev]) ?:
	       recover_segment(rec, extent, kind) ?:
	       rec->sink->extent(rec->sink, extent);
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

/* @extent: the table itself, which becomes one after the other of those that it names. */
static int load_extents(struct kvt_log_recovery *rec, struct kvt_log_extent *extent,
			const struct kvtree_log_table *table)
{
	int verdict = KVT_LOG_SOUND;
	u64 i;

	for (i = 0; !verdict && i < le64_to_cpu(table->nr_extents); i++) {
		extent->pos = kvt_log_pos_load(&table->extents[i].pos);
		extent->blocks = le32_to_cpu(table->extents[i].blocks);
		extent->crc = le32_to_cpu(table->extents[i].crc);
		extent->stream = le32_to_cpu(table->extents[i].stream);
		if (!kvt_log_pos_valid(rec->set->dev[extent->dev].super, &extent->pos,
				       extent->blocks))
			return KVT_LOG_DAMAGED;
		verdict = recover_extent(rec, extent, KVTREE_LOG_KIND_CHECKPOINT);
	}
	return verdict;
}

static int load_table(struct kvt_log_recovery *rec, struct kvt_log_extent *at)
{
	const struct kvt_log_dev_super *dev = &rec->set->dev[at->dev];
	struct kvtree_log_table *table;
	int verdict;

	table = kvt_env_alloc((size_t)at->blocks * KVTREE_LOG_BLOCK);
	if (!table)
		return -ENOMEM;
	verdict = rec->set->read(rec->set, dev->slot, kvt_log_pos_block(dev->super, &at->pos),
				 at->blocks, table);
	if (!verdict && !table_sound(dev->super, &at->pos, table))
		verdict = KVT_LOG_DAMAGED;
	if (!verdict)
		verdict = recover_segment(rec, at, KVTREE_LOG_KIND_CHECKPOINT);
	if (!verdict)
		verdict = load_extents(rec, at, table);
	kvt_env_free(table);
	return verdict;
}

/* A device's part of the checkpoint. */
static int load_dev(struct kvt_log_recovery *rec, u32 dev)
{
	const struct kvtree_log_checkpoint *cp = &rec->set->dev[dev].super->checkpoint;
	struct kvt_log_extent at = {
		.pos = kvt_log_pos_load(&cp->table),
		.dev = dev,
		.blocks = le32_to_cpu(cp->blocks),
		.generation = le64_to_cpu(cp->generation),
		.epoch = le64_to_cpu(cp->epoch),
		.saved = true,
	};
	int verdict;

	if (!at.blocks)
		return KVT_LOG_SOUND;
	if (!kvt_log_pos_valid(rec->set->dev[dev].super, &at.pos, at.blocks)) {
		kvt_log_say(rec->set, "device %u: the superblock's checkpoint is wrong", dev + 1);
		return KVT_LOG_DAMAGED;
	}
	verdict = load_table(rec, &at);
	if (verdict == KVT_LOG_DAMAGED || verdict == -EIO)
		kvt_log_say(rec->set, "device %u: the checkpoint of epoch %llu %s", dev + 1,
			    (unsigned long long)at.epoch,
			    verdict == -EIO ? "cannot be read" : "is damaged");
	return verdict;
}

/* The checkpoint. */
static int load(struct kvt_log_recovery *rec)
{
	int verdict = KVT_LOG_SOUND;
	u32 dev;

	for (dev = 0; !verdict && dev < rec->set->nr_devs; dev++)
		verdict = load_dev(rec, dev);
	return verdict;
}

static int replay_trailer(struct kvt_log_recovery *rec, struct kvt_log_walk *walk)
{
	struct kvt_log_extent extent;
	int verdict = KVT_LOG_SOUND;
	u32 i;

	rec->sink->log_blocks += le32_to_cpu(walk->trailer->blocks);
	for (i = 0; !verdict && i < le32_to_cpu(walk->trailer->nr_extents); i++) {
		kvt_log_walk_extent(walk, i, &extent);
		rec->sink->log_blocks += extent.blocks;
		verdict = recover_extent(rec, &extent, KVTREE_LOG_KIND_STREAM);
	}
	return verdict;
}

/* What a device has of the next epoch, which must be there. */
static int replay_next(struct kvt_log_recovery *rec, struct kvt_log_walk *walk)
{
	const struct kvt_log_extent at = {
		.pos = walk->pos,
		.dev = walk->dev,
		.generation = walk->generation,
		.epoch = walk->epoch,
	};
	int verdict;

	verdict = recover_segment(rec, &at, KVTREE_LOG_KIND_COMMIT);
	if (!verdict)
		verdict = kvt_log_walk_next(walk);
	if (verdict == KVT_LOG_END) {
		kvt_log_say(rec->set, "device %u has lost the commit record of epoch %llu",
			    walk->dev + 1, (unsigned long long)walk->epoch);
		verdict = KVT_LOG_DAMAGED;
	}
	return verdict ?: replay_trailer(rec, walk);
}

static int recover_bury(struct kvt_log_sink *sink)
{
	return sink->bury ? sink->bury(sink) : KVT_LOG_SOUND;
}

/* An epoch, on all devices, whose walks have come to its beginning. */
static int replay_epoch(struct kvt_log_recovery *rec, struct kvt_log_walk *walks)
{
	struct kvt_log_sink *sink = rec->sink;
	int verdict = KVT_LOG_SOUND;
	u32 dev;

	for (dev = 0; !verdict && dev < rec->set->nr_devs; dev++)
		verdict = replay_next(rec, &walks[dev]);
	if (!verdict && (!sink->due || sink->due(sink)))
		verdict = recover_bury(sink);
	kvt_env_rest();
	return verdict;
}

/* A life, up to an epoch that must be there. */
static int replay_life(struct kvt_log_recovery *rec, struct kvt_log_walk *walks, u32 life,
		       u64 last)
{
	int verdict = KVT_LOG_SOUND;
	u32 dev;

	for (dev = 0; !verdict && dev < rec->set->nr_devs; dev++)
		verdict = kvt_log_walk_life(&walks[dev], life);
	while (!verdict && walks->epoch <= last)
		verdict = replay_epoch(rec, walks);
	return verdict;
}

static int replay_lives(struct kvt_log_recovery *rec, struct kvt_log_walk *walks, u64 epoch)
{
	const struct kvtree_log_life *life;
	int verdict = KVT_LOG_SOUND;
	u64 last;
	u32 i;

	for (i = 0; !verdict && i < set_lives(rec->set); i++) {
		life = kvt_log_set_life(rec->set, 0, i);
		last = le64_to_cpu(life->last_epoch) ?: epoch;
		verdict = replay_life(rec, walks, i, min(last, epoch));
	}
	return verdict;
}

/* The log up to an epoch: epoch after epoch, in each of them all devices. */
static int replay(struct kvt_log_recovery *rec, u64 epoch)
{
	struct kvt_log_walk *walks = kvt_env_alloc(rec->set->nr_devs * sizeof(*walks));
	int verdict = KVT_LOG_SOUND;
	u32 dev;

	if (!walks)
		return -ENOMEM;
	for (dev = 0; !verdict && dev < rec->set->nr_devs; dev++)
		verdict = kvt_log_walk_init(&walks[dev], rec->set, dev);
	if (!verdict)
		verdict = replay_lives(rec, walks, epoch);
	for (dev = 0; dev < rec->set->nr_devs; dev++)
		kvt_log_walk_exit(&walks[dev]);
	kvt_env_free(walks);
	return verdict;
}

static int recovery_begin(struct kvt_log_recovery *rec)
{
	const struct kvtree_log_super *super;
	u32 dev;

	for (dev = 0; dev < rec->set->nr_devs; dev++) {
		super = rec->set->dev[dev].super;
		rec->left[dev] = le64_to_cpu(super->nr_blocks);
		rec->seen[dev] = kvt_env_alloc(le32_to_cpu(super->nr_segments) / 8 + 1);
		if (!rec->seen[dev])
			return -ENOMEM;
	}
	return KVT_LOG_SOUND;
}

static void recovery_end(struct kvt_log_recovery *rec)
{
	u32 dev;

	for (dev = 0; dev < rec->set->nr_devs; dev++)
		kvt_env_free(rec->seen[dev]);
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
	struct kvt_log_recovery rec = { .set = set, .sink = sink };
	int verdict;

	verdict = recovery_begin(&rec) ?:
		  load(&rec) ?:
		  replay(&rec, found->epoch) ?:
		  recover_bury(sink);
	recovery_end(&rec);
	return kvt_log_errno(verdict);
}
KVT_EXPORT_FOR_TESTS(kvt_log_recover);
