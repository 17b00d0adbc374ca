// SPDX-License-Identifier: GPL-2.0
/* Walking from trailer to trailer of a life, on one device. */
#include "format.h"

/* Blocks read at once; a trailer always fits. */
#define WALK_BLOCKS	(2 * KVTREE_LOG_TRAILER_MAX)

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
	walk->buf = kvt_env_alloc((size_t)WALK_BLOCKS * KVTREE_LOG_BLOCK);
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
	walk->buf_blocks = 0;
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

/* Report something about the next trailer. */
static void walk_say(const struct kvt_log_walk *walk, const char *what)
{
	kvt_log_say(walk->set,
		    "device %u, segment %u, block %u: the commit record of epoch %llu %s",
		    walk->dev + 1, walk->pos.segment, walk->pos.block,
		    (unsigned long long)walk->epoch, what);
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

/* Whether a block may begin a trailer of @epoch; if 0, of any epoch after the walk's next one. */
static bool walk_may_be_of(const struct kvt_log_walk *walk, const struct kvtree_log_trailer *t,
			   u64 epoch)
{
	u64 its = le64_to_cpu(t->epoch);

	return walk_may_be(walk, t) && (epoch ? its == epoch : its > walk->epoch);
}

/*
 * Whether there is a sound trailer at the walk's position, which is in memory, that was made for
 * the place @pos; @epoch is as for walk_may_be_of().
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
 * Whether a trailer begins at the walk's position, which is in memory; the rest of it may be
 * missing.  @epoch is as for walk_may_be_of().  An attach that did not complete may have used the
 * same generation, but no sequence number of a segment is used twice.
 */
static bool walk_begun(const struct kvt_log_walk *walk, u64 epoch)
{
	const struct kvtree_log_trailer *t = walk_at(walk);
	u64 next = le64_to_cpu(t->next.sequence);

	return walk_may_be_of(walk, t, epoch) && next &&
	       (next == walk->pos.sequence || next == walk->ahead.sequence);
}

/*
 * The next trailer should have been at @end; the walk's position, which is in memory, is after it.
 * Returns KVT_LOG_DAMAGED if there is a trailer of a later epoch here, or the beginning of one, or
 * the trailer that was made for @end; otherwise KVT_LOG_END.
 */
static int walk_later(const struct kvt_log_walk *walk, const struct kvt_log_pos *end)
{
	if (walk_sound(walk, &walk->pos, 0) || walk_begun(walk, 0) ||
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
	bool begun = walk_begun(walk, walk->epoch);
	int verdict = KVT_LOG_END;

	for (walk->pos.block++; verdict == KVT_LOG_END && walk->pos.block < size;
	     walk->pos.block++) {
		kvt_env_rest();
		verdict = walk_fill(walk) ?: walk_later(walk, &at);
	}
	walk->pos = walk->ahead;
	if (verdict == KVT_LOG_END && walk->ahead.block)
		verdict = walk_fill_trailer(walk) ?: walk_later(walk, &at);
	walk->pos = at;
	walk->begun = begun;
	if (verdict == KVT_LOG_DAMAGED)
		walk_say(walk, "is damaged");
	if (verdict == KVT_LOG_END && begun)
		walk_say(walk, "is not complete: the epoch is left out");
	if (verdict == -EIO)
		walk_say(walk, "may be in blocks that cannot be read");
	return verdict;
}

/* Whether the contents of a sound trailer are possible: the device may have been forged. */
static bool walk_sane(const struct kvt_log_walk *walk, const struct kvtree_log_trailer *t)
{
	const struct kvtree_log_super *super = walk_super(walk);
	struct kvt_log_pos pos = kvt_log_pos_load(&t->next);
	struct kvt_log_pos ahead = kvt_log_pos_load(&t->ahead);
	u32 i, blocks;

	if (!kvt_log_pos_valid(super, &pos, 1) || !kvt_log_pos_valid(super, &ahead, 1) ||
	    le64_to_cpu(t->version_lease) >= KVT_LOG_NUMBER_MAX)
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
 * Return: KVT_LOG_SOUND and @walk->trailer, which is valid until the next call; KVT_LOG_END: there
 * is none, and @walk->begun says whether there is a part of it; KVT_LOG_DAMAGED, which was
 * reported; or an errno.
 */
int kvt_log_walk_next(struct kvt_log_walk *walk)
{
	const struct kvtree_log_trailer *t;
	int err;

	walk->trailer = NULL;
	err = walk_fill_trailer(walk);
	if (err == -EIO)
		walk_say(walk, "cannot be read");
	if (err)
		return err;
	if (!walk_sound(walk, &walk->pos, walk->epoch))
		return walk_end(walk);
	t = walk_at(walk);
	if (!walk_sane(walk, t)) {
		kvt_log_say(walk->set, "device %u: the commit record of epoch %llu is wrong",
			    walk->dev + 1, (unsigned long long)walk->epoch);
		return KVT_LOG_DAMAGED;
	}
	walk->trailer = t;
	walk->pos = kvt_log_pos_load(&t->next);
	walk->ahead = kvt_log_pos_load(&t->ahead);
	walk->epoch++;
	return KVT_LOG_SOUND;
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
