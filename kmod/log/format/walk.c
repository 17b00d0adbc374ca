// SPDX-License-Identifier: GPL-2.0
/* Walking from trailer to trailer of a life, on one device. */
#include "format.h"

/* Blocks read at once; a trailer always fits. */
#define WALK_BLOCKS	(2 * KVTREE_LOG_TRAILER_MAX)

/**
 * kvt_log_trailer_head_crc() - the checksum of a trailer's header
 * @super: of the device
 * @generation: of the life
 * @pos: the trailer's place
 * @t: the header; its checksums may have any value
 *
 * Return: the checksum; never 0.
 */
u32 kvt_log_trailer_head_crc(const struct kvtree_log_super *super, u64 generation,
			     const struct kvt_log_pos *pos, const struct kvtree_log_trailer *t)
{
	struct kvtree_log_trailer head = *t;

	head.crc = 0;
	head.head_crc = 0;
	return kvt_log_crc(super, generation, pos, &head, sizeof(head)) ?: 1;
}
KVT_EXPORT_FOR_TESTS(kvt_log_trailer_head_crc);

/**
 * kvt_log_walk_init() - prepare to walk
 * @walk: filled; kvt_log_walk_exit() must follow, whatever is returned
 * @set: the devices
 * @dev: index of one
 *
 * Return: 0 or -ENOMEM.
 */
int kvt_log_walk_init(struct kvt_log_walk *walk, struct kvt_log_set *set, u32 dev)
{
	memset(walk, 0, sizeof(*walk));
	walk->set = set;
	walk->dev = dev;
	walk->buf = kvt_env_alloc_raw((size_t)WALK_BLOCKS * KVTREE_LOG_BLOCK);
	return walk->buf ? 0 : -ENOMEM;
}

/**
 * kvt_log_walk_exit() - free a walk's memory
 * @walk: of kvt_log_walk_init()
 */
void kvt_log_walk_exit(struct kvt_log_walk *walk)
{
	kvt_env_free(walk->buf);
	walk->buf = NULL;
}

static const struct kvtree_log_super *walk_super(const struct kvt_log_walk *walk)
{
	return walk->set->dev[walk->dev].super;
}

/**
 * kvt_log_walk_life() - go to the beginning of a life
 * @walk: the walk; its next trailer will be the first one of the life
 * @life: index of the life in the superblock
 *
 * Return: KVT_LOG_SOUND; KVT_LOG_DAMAGED: the position in the superblock is impossible.
 */
int kvt_log_walk_life(struct kvt_log_walk *walk, u32 life)
{
	const struct kvtree_log_life *from = kvt_log_set_life(walk->set, walk->dev, life);

	walk->generation = le64_to_cpu(from->generation);
	walk->epoch = le64_to_cpu(from->first_epoch);
	walk->pos = kvt_log_pos_load(&from->commit);
	walk->trailer = NULL;
	walk->begun = 0;
	walk->buf_blocks = 0;
	walk->ahead = (struct kvt_log_pos) {};
	/* Of the last life that this version has begun; earlier versions do not change it. */
	if (walk_super(walk)->ahead_generation == from->generation)
		walk->ahead = kvt_log_pos_load(&walk_super(walk)->ahead);
	if (!kvt_log_pos_valid(walk_super(walk), &walk->ahead, 1))
		walk->ahead = (struct kvt_log_pos) {};
	if (kvt_log_pos_valid(walk_super(walk), &walk->pos, 1))
		return KVT_LOG_SOUND;
	kvt_log_say(walk->set, "device %u: the superblock's life %u is wrong", walk->dev + 1, life);
	return KVT_LOG_DAMAGED;
}

/* Read @blocks blocks at the position into memory.  Returns 0 or an errno. */
static int walk_read(struct kvt_log_walk *walk, u32 blocks)
{
	int err;

	err = walk->set->read(walk->set, walk->set->dev[walk->dev].slot,
			      kvt_log_pos_block(walk_super(walk), &walk->pos), blocks, walk->buf);
	walk->buf_segment = walk->pos.segment;
	walk->buf_block = walk->pos.block;
	walk->buf_blocks = err ? 0 : blocks;
	return err;
}

/**
 * kvt_log_walk_say() - report why there is no sound next trailer
 * @walk: after kvt_log_walk_next() did not return KVT_LOG_SOUND
 * @epoch: the lowest whose trailer it should be
 */
void kvt_log_walk_say(const struct kvt_log_walk *walk, u64 epoch)
{
	if (walk->wrong)
		kvt_log_say(walk->set,
			    "device %u, segment %u, block %u: the commit record of epoch %llu %s",
			    walk->dev + 1, walk->pos.segment, walk->pos.block,
			    (unsigned long long)max(epoch, walk->epoch), walk->wrong);
}

/* Read as many blocks at the position as a trailer may have, or more.  Returns 0 or an errno. */
static int walk_fill(struct kvt_log_walk *walk)
{
	const struct kvtree_log_super *super = walk_super(walk);
	u32 left = le32_to_cpu(super->segment_blocks) - walk->pos.block;
	u32 want = min(left, KVTREE_LOG_TRAILER_MAX);
	u32 have = walk->buf_blocks;

	if (have && walk->buf_segment == walk->pos.segment &&
	    walk->pos.block >= walk->buf_block &&
	    walk->pos.block + want <= walk->buf_block + have)
		return 0;
	return walk_read(walk, min(left, WALK_BLOCKS));
}

/* The block at the position, which is in memory. */
static const struct kvtree_log_trailer *walk_at(const struct kvt_log_walk *walk)
{
	size_t at = walk->pos.block - walk->buf_block;

	return (const void *)(walk->buf + at * KVTREE_LOG_BLOCK);
}

static bool walk_may_be(const struct kvt_log_walk *walk, const struct kvtree_log_trailer *t)
{
	return le64_to_cpu(t->magic) == KVTREE_LOG_TRAILER_MAGIC &&
	       le64_to_cpu(t->generation) == walk->generation;
}

/*
 * The same for a place where only a trailer matters, not the blocks after it.  If some of them
 * cannot be read, read the first block alone, and then as many as the trailer in it has.
 */
static int walk_fill_trailer(struct kvt_log_walk *walk)
{
	u32 left = le32_to_cpu(walk_super(walk)->segment_blocks) - walk->pos.block;
	const struct kvtree_log_trailer *t = (const void *)walk->buf;
	u32 blocks;
	int err;

	err = walk->bad && walk->bad_segment == walk->pos.segment ? -EIO : walk_fill(walk);
	if (err != -EIO)
		return err;
	walk->bad = true;
	walk->bad_segment = walk->pos.segment;
	err = walk_read(walk, 1);
	if (err || !walk_may_be(walk, t))
		return err;
	blocks = min(min(le32_to_cpu(t->blocks), left), KVTREE_LOG_TRAILER_MAX);
	return blocks > 1 ? walk_read(walk, blocks) : 0;
}

/* Whether a block may begin a trailer of @epoch or a later one. */
static bool walk_may_be_of(const struct kvt_log_walk *walk, const struct kvtree_log_trailer *t,
			   u64 epoch)
{
	return walk_may_be(walk, t) && le64_to_cpu(t->epoch) >= epoch;
}

/*
 * Whether there is a sound trailer of @epoch or a later one at the walk's position, which is in
 * memory, that was made for the place @pos.
 */
static bool walk_sound(const struct kvt_log_walk *walk, const struct kvt_log_pos *pos, u64 epoch)
{
	u32 left = walk->buf_block + walk->buf_blocks - walk->pos.block;
	const struct kvtree_log_trailer *t = walk_at(walk);
	u32 blocks = le32_to_cpu(t->blocks);

	return walk_may_be_of(walk, t, epoch) &&
	       blocks && blocks <= KVTREE_LOG_TRAILER_MAX && blocks <= left &&
	       le32_to_cpu(t->nr_extents) <=
	       (blocks * KVTREE_LOG_BLOCK - sizeof(*t)) / sizeof(t->extents[0]) &&
	       le32_to_cpu(t->crc) ==
	       kvt_log_crc_zero(walk_super(walk), walk->generation, pos, t,
				(size_t)blocks * KVTREE_LOG_BLOCK,
				offsetof(struct kvtree_log_trailer, crc));
}

/*
 * Whether a trailer of @epoch or a later one begins at the walk's position, which is in memory; the
 * rest of it may be missing.  An attach that did not complete may have used the same generation,
 * but no sequence number of a segment is used twice.
 */
static bool walk_begun(const struct kvt_log_walk *walk, u64 epoch)
{
	const struct kvtree_log_trailer *t = walk_at(walk);
	u64 next = le64_to_cpu(t->next.sequence);

	return walk_may_be_of(walk, t, epoch) && next &&
	       (next == walk->pos.sequence || next == walk->ahead.sequence);
}

/*
 * The epoch of the trailer that begins where the next one should be; 0: none does.  A crash may
 * have left anything in the sector with the header, so this must be sound; or else be of the very
 * next epoch, as the first versions wrote no checksum of it, but trailers of all epochs.
 */
static u64 walk_begun_epoch(const struct kvt_log_walk *walk)
{
	const struct kvtree_log_trailer *t = walk_at(walk);
	u64 epoch = le64_to_cpu(t->epoch);

	if (!walk_begun(walk, walk->epoch))
		return 0;
	if (epoch != walk->epoch &&
	    le32_to_cpu(t->head_crc) != kvt_log_trailer_head_crc(walk_super(walk), walk->generation,
								 &walk->pos, t))
		return 0;
	return epoch;
}

/*
 * The next trailer should have been at @end; the walk's position, which is in memory, is after it.
 * Returns KVT_LOG_DAMAGED if there is a trailer of a later epoch here, or the beginning of one, or
 * the trailer that was made for @end; otherwise KVT_LOG_END.
 */
static int walk_later(const struct kvt_log_walk *walk, const struct kvt_log_pos *end)
{
	if (walk_sound(walk, &walk->pos, walk->epoch + 1) || walk_begun(walk, walk->epoch + 1) ||
	    walk_sound(walk, end, walk->epoch))
		return KVT_LOG_DAMAGED;
	return KVT_LOG_END;
}

/*
 * The next trailer is not where it should be.  The life ends here, unless a later trailer follows,
 * anywhere in this segment or at the beginning of the next one.
 */
static int walk_end(struct kvt_log_walk *walk)
{
	u32 size = le32_to_cpu(walk_super(walk)->segment_blocks);
	struct kvt_log_pos at = walk->pos;
	int verdict = KVT_LOG_END;

	walk->begun = walk_begun_epoch(walk);
	for (walk->pos.block++; verdict == KVT_LOG_END && walk->pos.block < size;
	     walk->pos.block++) {
		kvt_env_rest();
		verdict = walk_fill(walk) ?: walk_later(walk, &at);
	}
	walk->pos = walk->ahead;
	if (verdict == KVT_LOG_END && walk->ahead.block)
		verdict = walk_fill_trailer(walk) ?: walk_later(walk, &at);
	walk->pos = at;
	if (verdict == KVT_LOG_DAMAGED)
		walk->wrong = "is damaged";
	if (verdict == KVT_LOG_END)
		walk->wrong = "is not complete: the epoch is left out";
	if (verdict == -EIO)
		walk->wrong = "may be in blocks that cannot be read";
	return verdict;
}

/* Whether a trailer names all devices; or, with the feature bit, some that exist, and its own. */
static bool walk_devices_sane(const struct kvt_log_walk *walk, const struct kvtree_log_trailer *t)
{
	u32 all = kvt_log_set_all(walk->set);

	if (!t->devices || t->devices == all)
		return true;
	return !(t->devices & ~all) && t->devices >> walk->dev & 1 &&
	       le64_to_cpu(walk_super(walk)->incompat) & KVTREE_LOG_SPARSE;
}

/* Whether the contents of a sound trailer are possible: the device may have been forged. */
static bool walk_sane(const struct kvt_log_walk *walk, const struct kvtree_log_trailer *t)
{
	const struct kvtree_log_super *super = walk_super(walk);
	struct kvt_log_pos pos = kvt_log_pos_load(&t->next);
	struct kvt_log_pos ahead = kvt_log_pos_load(&t->ahead);
	u32 i, blocks;

	if (!kvt_log_pos_valid(super, &pos, 1) || !kvt_log_pos_valid(super, &ahead, 1) ||
	    le64_to_cpu(t->epoch) >= KVT_LOG_NUMBER_MAX ||
	    le64_to_cpu(t->version_lease) >= KVT_LOG_NUMBER_MAX)
		return false;
	if (!walk_devices_sane(walk, t))
		return false;
	/* A walk never goes back, so that it ends. */
	if (pos.sequence < walk->pos.sequence ||
	    (pos.sequence == walk->pos.sequence &&
	     (pos.segment != walk->pos.segment || pos.block <= walk->pos.block)))
		return false;
	for (i = 0; i < le32_to_cpu(t->nr_extents); i++) {
		pos = kvt_log_pos_load(&t->extents[i].pos);
		blocks = le32_to_cpu(t->extents[i].blocks);
		if (!kvt_log_pos_valid(super, &pos, blocks) ||
		    le32_to_cpu(t->extents[i].stream) >= KVTREE_LOG_STREAMS_MAX)
			return false;
	}
	return true;
}

/**
 * kvt_log_walk_next() - go to the next trailer
 * @walk: of kvt_log_walk_life()
 *
 * Nothing is reported: whether it is an error that there is no sound trailer depends on the epoch.
 *
 * Return: KVT_LOG_SOUND and @walk->trailer, which is valid until the next call; KVT_LOG_END: there
 * is none, and @walk->begun is its epoch if there is a part of it; KVT_LOG_DAMAGED; or an errno.
 */
int kvt_log_walk_next(struct kvt_log_walk *walk)
{
	const struct kvtree_log_trailer *t;
	int err;

	walk->trailer = NULL;
	walk->wrong = NULL;
	err = walk_fill_trailer(walk);
	if (err == -EIO)
		walk->wrong = "cannot be read";
	if (err)
		return err;
	if (!walk_sound(walk, &walk->pos, walk->epoch))
		return walk->exact ? KVT_LOG_END : walk_end(walk);
	t = walk_at(walk);
	if (!walk_sane(walk, t)) {
		walk->wrong = "is wrong";
		return KVT_LOG_DAMAGED;
	}
	walk->trailer = t;
	walk->at = walk->pos;
	walk->pos = kvt_log_pos_load(&t->next);
	walk->ahead = kvt_log_pos_load(&t->ahead);
	walk->epoch = le64_to_cpu(t->epoch) + 1;
	return KVT_LOG_SOUND;
}

/**
 * kvt_log_walk_back() - go back from the end of a life to its last trailer
 * @walk: kvt_log_walk_next() has returned that trailer, and then KVT_LOG_END
 *
 * Return: KVT_LOG_SOUND and @walk->trailer; or an errno, and the walk can only be used to report
 * it: also -EIO if the trailer, which was there a moment ago, is not there now.
 */
int kvt_log_walk_back(struct kvt_log_walk *walk)
{
	int err;

	walk->pos = walk->at;
	walk->epoch--;
	walk->wrong = "cannot be read";
	err = walk_fill_trailer(walk);
	if (!err && !walk_sound(walk, &walk->at, walk->epoch))
		err = -EIO;
	if (err)
		return err;
	walk->trailer = walk_at(walk);
	walk->epoch++;
	return KVT_LOG_SOUND;
}

/**
 * kvt_log_walk_devices() - which devices take part in the current trailer's epoch
 * @walk: after kvt_log_walk_next()
 *
 * Return: a bit for each.
 */
u32 kvt_log_walk_devices(const struct kvt_log_walk *walk)
{
	return walk->trailer->devices ?: kvt_log_set_all(walk->set);
}

/**
 * kvt_log_walk_extent() - get an extent from the current trailer
 * @walk: after kvt_log_walk_next()
 * @i: less than its nr_extents
 * @extent: filled
 */
void kvt_log_walk_extent(const struct kvt_log_walk *walk, u32 i, struct kvt_log_extent *extent)
{
	const struct kvtree_log_extent *from = &walk->trailer->extents[i];

	*extent = (struct kvt_log_extent) {
		.pos = kvt_log_pos_load(&from->pos),
		.dev = walk->dev,
		.blocks = le32_to_cpu(from->blocks),
		.crc = le32_to_cpu(from->crc),
		.stream = le32_to_cpu(from->stream),
		.generation = walk->generation,
		.epoch = walk->epoch - 1,
	};
}
