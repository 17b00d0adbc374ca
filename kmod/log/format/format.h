/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Reading a store's devices.
 *
 * Nothing that was read is trusted: every length and position is checked before it is used, even
 * if the checksum is right.  kvt_log_set.say() reports each error in words, once.
 */
#ifndef KVT_LOG_FORMAT_FORMAT_H
#define KVT_LOG_FORMAT_FORMAT_H

#include "env.h"

/*
 * Epochs, generations, versions and the like are below this, so that a store can count on from
 * any number that was read.
 */
#define KVT_LOG_NUMBER_MAX	0x4000000000000000ULL

/* The features that this version knows. */
#define KVT_LOG_INCOMPAT	(KVTREE_LOG_RANGES | KVTREE_LOG_SPARSE)

/*
 * What was found at a place.  A function that returns a verdict returns a negative errno instead
 * if it could not find out: a device cannot be read, there is no memory, or a callback failed.  An
 * errno never says what was found.
 */
enum kvt_log_verdict {
	KVT_LOG_SOUND,
	KVT_LOG_END,		/* nothing, or an incomplete write: the log ends here */
	KVT_LOG_DAMAGED,
	KVT_LOG_NEWER,		/* a newer format than this program knows */
};

/* A place on a device: struct kvtree_log_pos in the CPU's byte order. */
struct kvt_log_pos {
	u64 sequence;
	u32 segment;
	u32 block;
};

struct kvt_log_dev_super {
	struct kvtree_log_super copy[KVTREE_LOG_SUPER_COPIES];
	bool valid[KVTREE_LOG_SUPER_COPIES];
	bool unread;				/* a copy cannot be read */
	const struct kvtree_log_super *super;	/* the copy in use: see set_choose() */
	u32 slot;				/* the device's index in the caller's list */
};

/* The devices of a store that is being read. */
struct kvt_log_set {
	/* Set by the caller. */
	int (*read)(struct kvt_log_set *set, u32 slot, u64 block, u32 nr, void *buf);
	void (*say)(struct kvt_log_set *set, const char *text);
	u32 nr_given;
	u64 size[KVTREE_LOG_DEVS_MAX];		/* blocks of each device given */
	u64 until;				/* the epoch to restore; 0: the last one */
	bool mend;				/* accept one copy overwritten by others */
	/* Set by kvt_log_set_load(); devices are in the order of their index. */
	u32 nr_devs;
	u64 number;				/* the highest one of the superblocks in use */
	bool previous;				/* all have one copy of these, and one before */
	u64 version_end;			/* versions of records are below this */
	struct kvt_log_dev_super *dev;
};

/* A column of a value that was read. */
struct kvt_log_col {
	u16 id;
	u32 len;
	const u8 *data;
};

/* A record that was read. */
struct kvt_log_entry {
	u8 type;
	u16 key_len;
	const u8 *key;
	u64 version;
	u32 group;
	bool plain;			/* column 0 alone */
	u32 ncols;
	struct kvt_log_col *cols;	/* of KVTREE_COLS_MAX */
};

/* An extent, and its place. */
struct kvt_log_extent {
	struct kvt_log_pos pos;
	u32 dev;
	u32 blocks;
	u32 crc;
	u32 stream;
	u64 generation;
	u64 epoch;
	bool saved;			/* it was written by a checkpoint */
	bool directory;			/* its records are ranges */
};

/* Types of records that may occur at some kind of place. */
enum kvt_log_types {
	KVT_LOG_CHANGES = 1 << KVTREE_LOG_PUT | 1 << KVTREE_LOG_REMOVE,
	KVT_LOG_VALUES = 1 << KVTREE_LOG_PUT,
	KVT_LOG_COVERS = 1 << KVTREE_LOG_COVER,
	KVT_LOG_RANGES = 1 << KVTREE_LOG_RANGE,
};

/* Records that are being read. */
struct kvt_log_records {
	struct kvt_log_reader *reader;	/* has room for a record's columns */
	const u8 *data;			/* aligned to 8 bytes */
	u32 at;				/* the next record, in the data */
	u32 end;
	u32 outside;			/* the next column outside of its record, in the data */
	u32 outside_end;
	enum kvt_log_types types;	/* those that may occur */
};

/* A part of a range's image: struct kvtree_log_piece in the CPU's byte order. */
struct kvt_log_piece {
	struct kvt_log_pos pos;
	u64 generation;
	u32 dev;
	u32 offset;
	u32 len;
	u32 outside;
	u32 outside_len;
	u32 crc;
	u32 records;
	u8 cover_bits;
	bool delta;
};

/* The size of a piece's records, and of the columns outside of them. */
static inline u64 kvt_log_piece_bytes(const struct kvt_log_piece *piece)
{
	return (u64)piece->len + piece->outside_len;
}

/* A range of keys; constant once it is in a directory. */
struct kvt_log_range {
	u32 key_len;
	u32 nr_pieces;
	u8 *key;			/* the lowest one; follows the pieces */
	struct kvt_log_piece piece[];	/* the oldest first */
};

/* The size of a record with a key, and @len bytes after it. */
static inline u32 kvt_log_record_size(u32 key_len, u32 len)
{
	return ALIGN(sizeof(struct kvtree_log_record) + key_len + len, 8);
}

/* The size of all its pieces. */
static inline u64 kvt_log_range_bytes(const struct kvt_log_range *range)
{
	u64 bytes = 0;
	u32 i;

	for (i = 0; i < range->nr_pieces; i++)
		bytes += kvt_log_piece_bytes(&range->piece[i]);
	return bytes;
}

/* The ranges of a store, in ascending order. */
struct kvt_log_directory {
	u32 nr;
	u32 room;
	struct kvt_log_range **range;
};

/* A piece of a range in memory, and its next record: see range.c. */
struct kvt_log_run {
	const struct kvt_log_piece *piece;
	const struct kvtree_log_super *super;	/* of its device */
	struct kvt_log_records next;		/* from the next record on */
	struct kvt_log_records after;		/* from the one after it */
	struct kvt_log_entry entry;		/* the next record */
	u32 nr;					/* records so far, with this one */
	bool end;				/* there is none */
	u8 cover[KVTREE_LOG_COVER_BYTES];	/* of a delta: the hashes that it covers */
};

/* How many pieces of each range are read ahead, the oldest first. */
#define KVT_LOG_AHEAD		2
/* The most blocks that one such read gets. */
#define KVT_LOG_AHEAD_BLOCKS	64

/* What was read of one piece of several ranges. */
struct kvt_log_ahead {
	u8 *buf;			/* NULL until something is read */
	u32 dev;
	u64 block;			/* on the device */
	u32 blocks;			/* 0: nothing */
	u32 alone;			/* ranges before this one are not read ahead */
};

/* The memory with which one thread reads extents. */
struct kvt_log_reader {
	/* Called for each record, maybe before its checksum has been verified; may be NULL. */
	int (*entry)(struct kvt_log_reader *reader, const struct kvt_log_entry *entry);
	/* Called after records of some of a range's pieces, while these are in memory; or NULL. */
	int (*piece)(struct kvt_log_reader *reader);
	struct kvt_log_set *set;
	struct kvt_log_col cols[KVTREE_COLS_MAX];
	u8 *buf;			/* KVTREE_LOG_CHUNK_MAX blocks */
	struct kvt_log_ahead ahead[KVT_LOG_AHEAD];
	u32 ahead_blocks;		/* the most that are read ahead at once */
	u32 merge_blocks;		/* those that pieces of a range are read to together */
	u64 records;
	u64 bytes;
	struct kvt_log_run run[KVTREE_LOG_PIECES_MAX];	/* of a range, the oldest first */
};

/* A walk from trailer to trailer on one device. */
struct kvt_log_walk {
	struct kvt_log_set *set;
	u32 dev;
	u64 generation;
	u64 epoch;			/* the lowest that the next trailer may have */
	struct kvt_log_pos at;		/* of the current trailer */
	struct kvt_log_pos pos;		/* of the next trailer */
	struct kvt_log_pos ahead;	/* of the first trailer in the next segment; or zeros */
	const struct kvtree_log_trailer *trailer;	/* the current one */
	u8 *buf;
	u32 buf_segment;
	u32 buf_block;
	u32 buf_blocks;
	u64 begun;			/* set at the end: the epoch of a part of a trailer there */
	const char *wrong;		/* why there is no sound next trailer, for a message */
	bool exact;			/* do not look for later trailers where one is missing */
	bool bad;			/* a block of this segment cannot be read */
	u32 bad_segment;
};

/* The epochs of a life, one after the other on all devices: see epochs.c. */
struct kvt_log_epochs {
	struct kvt_log_set *set;
	u64 epoch;			/* the current one */
	u32 devices;			/* a bit for each that takes part in it; at first, 0 */
	bool begun;			/* set at the end: a part of the next epoch is there */
	bool known;			/* all epochs that are asked for exist */
	u64 version_lease;		/* the highest of all trailers, also of those ahead */
	u32 behind;			/* devices whose walks have to go on */
	int verdict[KVTREE_LOG_DEVS_MAX];	/* of the walks: on the trailers ahead */
	struct kvt_log_walk walk[KVTREE_LOG_DEVS_MAX];
};

/* What kvt_log_find() has found. */
struct kvt_log_found {
	u64 epoch;			/* the last durable one, or the one asked for */
	u64 first;			/* the earliest one that can be asked for; 0: unknown */
	u64 seen;			/* the highest epoch of any trailer, complete or not */
	u64 version_lease;
	u64 generation;			/* of the last life */
	u64 time;			/* of the last trailer, ns since 1970 */
	bool open;			/* the superblock does not say where the last life ends */
};

/* Callbacks that take what a recovery finds: the module's workers, or a program. */
struct kvt_log_sink {
	/* Called once for each segment in use.  May be NULL. */
	void (*segment)(struct kvt_log_sink *sink, u32 dev, u32 segment,
			enum kvtree_log_kind kind);
	/* Read an extent, now or before bury() returns.  Returns a verdict or an errno. */
	int (*extent)(struct kvt_log_sink *sink, const struct kvt_log_extent *extent);
	/* Read ranges of the checkpoint in the same way, in order, by kvt_log_range_read(). */
	int (*ranges)(struct kvt_log_sink *sink, u32 first, u32 end);
	/* Whether bury() is due at the end of an epoch.  NULL: it is due after each. */
	bool (*due)(struct kvt_log_sink *sink);
	/*
	 * Forget the removed keys: all extents of an epoch and of those before it were passed, and
	 * no later epoch has older puts of these keys.  Also called at the end.  May be NULL.
	 * Returns as extent().
	 */
	int (*bury)(struct kvt_log_sink *sink);
	/*
	 * Empty at first.  If the checkpoint has ranges, kvt_log_recover() loads their directory
	 * before the first ranges().  The caller frees it, whatever is returned.
	 */
	struct kvt_log_directory dir;
	/* How many times ranges() is called at least, if there are so many ranges. */
	u32 parts;
	/* Counted by kvt_log_recover(). */
	u64 segments;
	u64 log_blocks;			/* blocks of the log, including the commit records */
};

/* The state of a recovery on its way through checkpoint and log. */
struct kvt_log_visit {
	struct kvt_log_set *set;
	struct kvt_log_sink *sink;
	u64 left[KVTREE_LOG_DEVS_MAX];	/* a device's segments' bytes, less those visited */
	u8 *seen[KVTREE_LOG_DEVS_MAX];	/* a bit for each segment: its header was checked */
};

/**
 * kvt_log_errno() - the errno of a verdict
 * @verdict: an enum kvt_log_verdict, or a negative errno
 *
 * Return: 0; -EBADMSG: damaged; -EOPNOTSUPP: a newer format; or @verdict if it is an errno.
 */
static inline int kvt_log_errno(int verdict)
{
	switch (verdict) {
	case KVT_LOG_END:
	case KVT_LOG_DAMAGED:
		return -EBADMSG;
	case KVT_LOG_NEWER:
		return -EOPNOTSUPP;
	default:
		return verdict;
	}
}

/**
 * kvt_log_newer() - whether one record of a key supersedes another one
 * @version: of the one
 * @removed: it removes the key
 * @than: version of the other
 * @than_removed: the other removes the key
 *
 * Return: true if the version is higher, or if it is the same and only the one is a removal.
 */
static inline bool kvt_log_newer(u64 version, bool removed, u64 than, bool than_removed)
{
	return version != than ? version > than : removed && !than_removed;
}

/**
 * kvt_log_key_cmp() - compare two keys
 * @a: one key
 * @a_len: its bytes
 * @b: the other
 * @b_len: its bytes
 *
 * Return: less than 0, 0 or more than 0, as @a is less than, equal to or greater than @b.
 */
static inline int kvt_log_key_cmp(const u8 *a, u32 a_len, const u8 *b, u32 b_len)
{
	u32 len = min(a_len, b_len), at = 0;
	int cmp = 0;
	__be64 x, y;

	if (len < sizeof(x))
		cmp = memcmp(a, b, len);
	/* Eight bytes at a time; the last ones may have been compared before. */
	while (at < len && len >= sizeof(x)) {
		at = min(at, len - (u32)sizeof(x));
		memcpy(&x, a + at, sizeof(x));
		memcpy(&y, b + at, sizeof(y));
		if (x != y)
			return be64_to_cpu(x) < be64_to_cpu(y) ? -1 : 1;
		at += sizeof(x);
	}
	return cmp ?: (a_len > b_len) - (a_len < b_len);
}

/**
 * kvt_log_has_ranges() - whether a store's checkpoint consists of ranges
 * @super: of any of its devices
 *
 * Return: true if it does.
 */
static inline bool kvt_log_has_ranges(const struct kvtree_log_super *super)
{
	return le64_to_cpu(super->incompat) & KVTREE_LOG_RANGES;
}

/**
 * kvt_log_dev_blocks() - how many blocks extents can have on a device: those of its segments
 * @super: the device's; sane
 *
 * Return: blocks.
 */
static inline u64 kvt_log_dev_blocks(const struct kvtree_log_super *super)
{
	return (u64)le32_to_cpu(super->nr_segments) * le32_to_cpu(super->segment_blocks);
}

/**
 * kvt_log_set_all() - all devices of a set
 * @set: loaded
 *
 * Return: a bit for each.
 */
static inline u32 kvt_log_set_all(const struct kvt_log_set *set)
{
	return (1U << set->nr_devs) - 1;
}

/* super.c */
u32 kvt_log_crc(const struct kvtree_log_super *super, u64 generation,
		const struct kvt_log_pos *pos, const void *data, size_t len);
u32 kvt_log_crc_zero(const struct kvtree_log_super *super, u64 generation,
		     const struct kvt_log_pos *pos, const void *data, size_t len,
		     size_t crc_off);
void kvt_log_super_seal(struct kvtree_log_super *super);
bool kvt_log_super_sound(const struct kvtree_log_super *super, u32 copy);
u64 kvt_log_super_block(u64 number);
int kvt_log_set_load(struct kvt_log_set *set);
void kvt_log_set_free(struct kvt_log_set *set);
u32 kvt_log_set_lives(const struct kvt_log_set *set);
const struct kvtree_log_life *kvt_log_set_life(const struct kvt_log_set *set, u32 dev, u32 i);
void kvt_log_say(struct kvt_log_set *set, const char *fmt, ...);

/* segment.c */
void kvt_log_segment_fill(struct kvtree_log_segment *head, const struct kvtree_log_super *super,
			  u64 generation, const struct kvt_log_pos *pos,
			  enum kvtree_log_kind kind, u32 stream);
int kvt_log_segment_sound(struct kvt_log_set *set, u32 dev, u64 generation,
			  const struct kvt_log_pos *pos, enum kvtree_log_kind kind);
int kvt_log_segment_check(struct kvt_log_set *set, const struct kvt_log_extent *in,
			  enum kvtree_log_kind kind);

/* record.c */
int kvt_log_records_next(struct kvt_log_records *in, struct kvt_log_entry *entry);
int kvt_log_chunk_parse(struct kvt_log_reader *reader, const u8 *chunk, u32 blocks,
			enum kvt_log_types types);

/* extent.c */
int kvt_log_reader_init(struct kvt_log_reader *reader, struct kvt_log_set *set);
void kvt_log_reader_exit(struct kvt_log_reader *reader);
int kvt_log_extent_read(struct kvt_log_reader *reader, const struct kvt_log_extent *extent);
int kvt_log_extent_check(struct kvt_log_reader *reader, const struct kvt_log_extent *extent);
void kvt_log_extent_newer(struct kvt_log_set *set, const struct kvt_log_extent *extent);
void kvt_log_extent_wrong(struct kvt_log_set *set, const struct kvt_log_extent *extent,
			  int verdict);
int kvt_log_bytes_take(struct kvt_log_set *set, const struct kvt_log_extent *in, u64 bytes,
		       u64 *left);
int kvt_log_extent_take(struct kvt_log_set *set, const struct kvt_log_extent *extent, u64 *left);

/* table.c */
int kvt_log_table_read(struct kvt_log_set *set, u32 dev, struct kvtree_log_table **table);
void kvt_log_table_extent(const struct kvt_log_set *set, u32 dev,
			  const struct kvtree_log_table *table, u32 i,
			  struct kvt_log_extent *extent);
void kvt_log_table_wrong(struct kvt_log_set *set, u32 dev, int verdict);

/* piece.c */
void kvt_log_piece_load(struct kvt_log_piece *piece, const struct kvtree_log_piece *from);
void kvt_log_piece_store(struct kvtree_log_piece *to, const struct kvt_log_piece *piece);
bool kvt_log_piece_sane(const struct kvt_log_set *set, const struct kvtree_log_piece *from,
			bool first);
u32 kvt_log_piece_crc_begin(const struct kvtree_log_super *super,
			    const struct kvt_log_piece *piece);
u32 kvt_log_key_seed(const struct kvtree_log_super *super);
u32 kvt_log_key_hash(u32 seed, const u8 *key, u32 len);

/* directory.c */
struct kvt_log_range *kvt_log_range_alloc(const u8 *key, u32 key_len, u32 nr_pieces);
int kvt_log_directory_load(struct kvt_log_set *set, struct kvt_log_directory *dir);
void kvt_log_directory_free(struct kvt_log_directory *dir);
int kvt_log_directory_add(struct kvt_log_directory *dir, struct kvt_log_range *range);
void kvt_log_directory_sort(struct kvt_log_directory *dir);
u32 kvt_log_directory_find(const struct kvt_log_directory *dir, const u8 *key, u32 len);

/* ahead.c */
const u8 *kvt_log_ahead_get(struct kvt_log_reader *reader, const struct kvt_log_directory *dir,
			    u32 i, u32 end, u32 nr);

/* range.c */
int kvt_log_range_read(struct kvt_log_reader *reader, const struct kvt_log_directory *dir, u32 i,
		       u32 end);

/* walk.c */
u32 kvt_log_trailer_head_crc(const struct kvtree_log_super *super, u64 generation,
			     const struct kvt_log_pos *pos, const struct kvtree_log_trailer *t);
int kvt_log_walk_init(struct kvt_log_walk *walk, struct kvt_log_set *set, u32 dev);
void kvt_log_walk_exit(struct kvt_log_walk *walk);
int kvt_log_walk_life(struct kvt_log_walk *walk, u32 life);
int kvt_log_walk_next(struct kvt_log_walk *walk);
int kvt_log_walk_back(struct kvt_log_walk *walk);
u32 kvt_log_walk_devices(const struct kvt_log_walk *walk);
void kvt_log_walk_extent(const struct kvt_log_walk *walk, u32 i, struct kvt_log_extent *extent);
void kvt_log_walk_say(const struct kvt_log_walk *walk, u64 epoch);

/* epochs.c */
int kvt_log_epochs_init(struct kvt_log_epochs *ep, struct kvt_log_set *set, bool known);
void kvt_log_epochs_exit(struct kvt_log_epochs *ep);
int kvt_log_epochs_life(struct kvt_log_epochs *ep, u32 life);
int kvt_log_epochs_next(struct kvt_log_epochs *ep);

/* find.c */
int kvt_log_find(struct kvt_log_set *set, struct kvt_log_found *found);

/* visit.c */
int kvt_log_visit_begin(struct kvt_log_visit *visit, struct kvt_log_set *set,
			struct kvt_log_sink *sink);
void kvt_log_visit_end(struct kvt_log_visit *visit);
int kvt_log_visit_segment(struct kvt_log_visit *visit, const struct kvt_log_extent *in,
			  enum kvtree_log_kind kind);
int kvt_log_visit_extent(struct kvt_log_visit *visit, const struct kvt_log_extent *extent,
			 enum kvtree_log_kind kind);
int kvt_log_visit_piece(struct kvt_log_visit *visit, const struct kvt_log_piece *piece);

/* load.c */
int kvt_log_load(struct kvt_log_visit *visit);

/* recover.c */
int kvt_log_recover(struct kvt_log_set *set, const struct kvt_log_found *found,
		    struct kvt_log_sink *sink);

/**
 * kvt_log_pos_load() - a position, as it is written
 * @from: from a device
 *
 * Return: the position, not checked.
 */
static inline struct kvt_log_pos kvt_log_pos_load(const struct kvtree_log_pos *from)
{
	return (struct kvt_log_pos) {
		.sequence = le64_to_cpu(from->sequence),
		.segment = le32_to_cpu(from->segment),
		.block = le32_to_cpu(from->block),
	};
}

/**
 * kvt_log_pos_store() - convert a position to the on-disk format
 * @to: filled
 * @pos: the position
 */
static inline void kvt_log_pos_store(struct kvtree_log_pos *to, const struct kvt_log_pos *pos)
{
	to->sequence = cpu_to_le64(pos->sequence);
	to->segment = cpu_to_le32(pos->segment);
	to->block = cpu_to_le32(pos->block);
}

/**
 * kvt_log_pos_block() - the device's block at a position
 * @super: the device's
 * @pos: in one of its segments
 *
 * Return: a number of blocks from the device's beginning.
 */
static inline u64 kvt_log_pos_block(const struct kvtree_log_super *super,
				    const struct kvt_log_pos *pos)
{
	return KVTREE_LOG_DATA_START +
	       (u64)pos->segment * le32_to_cpu(super->segment_blocks) + pos->block;
}

/**
 * kvt_log_pos_valid() - whether blocks are in a segment, after its header
 * @super: the device's
 * @pos: where they begin
 * @blocks: how many
 *
 * Return: true if they do.
 */
static inline bool kvt_log_pos_valid(const struct kvtree_log_super *super,
				     const struct kvt_log_pos *pos, u32 blocks)
{
	u32 size = le32_to_cpu(super->segment_blocks);

	return pos->segment < le32_to_cpu(super->nr_segments) && pos->block &&
	       pos->block < size && blocks && blocks <= size - pos->block;
}

#endif /* KVT_LOG_FORMAT_FORMAT_H */
