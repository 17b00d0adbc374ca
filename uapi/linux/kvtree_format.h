/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * kvtree - the format of a durable store on its devices.
 *
 * Documentation/on-disk-format.rst explains it, and why recovery succeeds after
 * a crash at any moment.  All numbers are little-endian; reserved fields are zero
 * when written and ignored when read.  Positions and lengths are in blocks of
 * KVTREE_LOG_BLOCK bytes unless stated otherwise.
 *
 * Every checksum is crc32c, with all bits set before the first byte and not
 * inverted at the end, over a struct kvtree_log_seed followed by the protected
 * bytes.  The seed identifies the place of those bytes, so a block written in an
 * earlier life of the device, or for another place, does not match.
 */
#ifndef _UAPI_LINUX_KVTREE_FORMAT_H
#define _UAPI_LINUX_KVTREE_FORMAT_H

#include <linux/types.h>

#define KVTREE_LOG_BLOCK	4096u	/* bytes */
#define KVTREE_LOG_DEVS_MAX	8u	/* devices of a store */
#define KVTREE_LOG_STREAMS_MAX	128u	/* streams of a store */
#define KVTREE_LOG_LIVES_MAX	32u

/*
 * A device
 * ========
 *
 * block 0		superblock, copy 0
 * block 16		superblock, copy 1
 * block 256 on		segments, each of segment_blocks blocks
 */
#define KVTREE_LOG_SUPER_COPIES	2u
#define KVTREE_LOG_SUPER_STRIDE	16u
#define KVTREE_LOG_DATA_START	256u

#define KVTREE_LOG_SEGMENT_MIN	1024u	/* blocks */
#define KVTREE_LOG_SEGMENT_MAX	65536u
#define KVTREE_LOG_SEGMENTS_MIN	32u
#define KVTREE_LOG_SEGMENTS_MAX	(1u << 22)	/* each takes a little memory */

#define KVTREE_LOG_SUPER_MAGIC	0x425365657274766bull	/* "kvtreeSB" */
#define KVTREE_LOG_VERSION	1u

/* In incompat: the checkpoint consists of ranges, see struct kvtree_log_piece. */
#define KVTREE_LOG_RANGES	(1ull << 0)
/* In incompat: a device may lack the trailers of epochs without extents on it. */
#define KVTREE_LOG_SPARSE	(1ull << 1)

/* A place on a device: a block of a segment in one of its uses. */
struct kvtree_log_pos {
	__le64 sequence;	/* grows with each use of a segment in a life */
	__le32 segment;
	__le32 block;		/* of the segment */
};

/*
 * A life begins when a store is attached.  Its generation is in the seeds of all
 * checksums of its blocks.  A life that has ended is valid up to last_epoch; the
 * last life of a superblock, up to the last epoch found complete.
 */
struct kvtree_log_life {
	__le64 generation;
	__le64 first_epoch;
	__le64 last_epoch;		/* of the last life: 0 */
	__le32 flags;			/* KVTREE_LOG_LIFE_... */
	__le32 reserved;
	struct kvtree_log_pos commit;	/* the first trailer of the life, on this device */
};

/*
 * Only in the first life: when it began, the checkpoint contained everything.  So there was no
 * later epoch, and kvtree_log_checkpoint.met is 0 and known.
 */
#define KVTREE_LOG_LIFE_MET_NONE	(1u << 0)
/* The first epoch was stable before the life began: a log without it is damaged. */
#define KVTREE_LOG_LIFE_CARRIED		(1u << 1)

/* A checkpoint's part on one device; zeros if there is no checkpoint. */
struct kvtree_log_checkpoint {
	__le64 epoch;			/* contains all epochs up to this one */
	__le64 generation;
	struct kvtree_log_pos table;	/* a struct kvtree_log_table */
	__le32 blocks;			/* of the table; 0: nothing on this device */
	__le32 met;			/* later epochs that were durable as well; 0: unknown */
	__le64 records;
	__le64 bytes;			/* of all chunks, or pieces, on this device */
};

/*
 * The superblock.  `number` % 2 is the copy's index.  A change is written to every
 * device as two consecutive numbers with one write_id, one after the other.  Recovery
 * takes the newest change that every device has in either copy.
 */
struct kvtree_log_super {
	__le64 magic;
	__le32 crc;			/* of this block, this field taken as 0 */
	__le32 version;
	__le64 compat;			/* features that may be ignored */
	__le64 ro_compat;		/* ... that only readers may ignore */
	__le64 incompat;		/* ... that may not be ignored */
	__u8   uuid[16];		/* of the store */
	__le32 dev_index;
	__le32 nr_devs;
	__le64 nr_blocks;		/* of this device that are used */
	__le32 segment_blocks;
	__le32 nr_segments;		/* of this device */
	__le64 number;			/* of the superblock, 1 when formatted */
	__le64 write_id;		/* of the change: random, the same on all devices */
	__le64 formatted;		/* seconds since 1970 */
	__u8   label[64];		/* the name that was last attached, with NULs */
	__le64 generation;		/* of the last life */
	__le64 version_lease;		/* no version at or above it was given to a value */
	__le32 nr_lives;
	__le32 reserved;
	struct kvtree_log_checkpoint checkpoint;
	struct kvtree_log_life lives[KVTREE_LOG_LIVES_MAX];
	struct kvtree_log_pos ahead;	/* the first trailer after the segment of a life's commit */
	__le64 ahead_generation;	/* of that life, the last one; or ahead means nothing */
	__u8   zero[2288];
};

/*
 * Marks of other formats in block 0 of a device.  If copy 0 is invalid and block 0 has one of
 * these, the device holds that format, whatever copy 1 says.
 */
struct kvtree_log_mark {
	__u16 offset;			/* in the block */
	__u16 bytes;
	char mark[12];
};

#define KVTREE_LOG_MARKS {							\
	{    0,  8, "\0\0\0\0\0\0\0" },	/* wiped, as before most file systems */	\
	{    0,  4, "XFSB" },							\
	{    0,  6, "LUKS\xba\xbe" },						\
	{    0,  6, "SKUL\xba\xbe" },						\
	{    0,  4, "\xfc\x4e\x2b\xa9" },	/* member of a RAID */			\
	{    0,  4, "hsqs" },							\
	{    0,  4, "SnAp" },							\
	{    0,  8, "dmvdo001" },						\
	{    0,  8, "integrt" },						\
	{    0, 10, "bluestore " },						\
	{    0,  8, "LABELONE" },	/* LVM, in one of four sectors */	\
	{  512,  8, "LABELONE" },						\
	{ 1024,  8, "LABELONE" },						\
	{ 1536,  8, "LABELONE" },						\
	{  510,  2, "\x55\xaa" },	/* partition table; boot code remains */	\
	{ 4086, 10, "SWAPSPACE2" },						\
}

/*
 * The last sectors of a superblock are zeros.  A crash may leave any content in one of them; if
 * more of them are not zero in copy 0, the device holds another format as well.  Otherwise it is
 * damaged.
 */
#define KVTREE_LOG_SECTOR	512u
#define KVTREE_LOG_ZEROS_FROM	2048u

/*
 * Segments
 * ========
 *
 * The first block of a segment is a header, written with the first data.  The
 * segments in use are those that the checkpoint's table and the trailers name;
 * all others are free.
 */
#define KVTREE_LOG_SEGMENT_MAGIC 0x475365657274766bull	/* "kvtreeSG" */

enum kvtree_log_kind {
	KVTREE_LOG_KIND_COMMIT		= 1,	/* trailers */
	KVTREE_LOG_KIND_STREAM		= 2,	/* chunks of streams */
	KVTREE_LOG_KIND_CHECKPOINT	= 3,	/* chunks and the table of a checkpoint */
};

struct kvtree_log_segment {
	__le64 magic;
	__le32 crc;			/* of this block, this field taken as 0 */
	__le32 kind;			/* enum kvtree_log_kind */
	__le64 generation;
	__le64 sequence;
	__le32 segment;
	__le32 stream;			/* of its first chunk; nothing depends on it */
	__u8   uuid[16];
	__u8   zero[4040];
};

/*
 * Epochs
 * ======
 *
 * An epoch is durable when all devices that take part in it have its trailer and the extents
 * named in that.  Those with extents of the epoch take part, or all if there are none, or if the
 * lease is a new one.
 * The trailers of an epoch are written when the epoch before is durable.
 */
#define KVTREE_LOG_TRAILER_MAGIC 0x525465657274766bull	/* "kvtreeTR" */
#define KVTREE_LOG_TRAILER_MAX	64u	/* blocks */

/* Whole chunks, one after the other, of one stream and epoch. */
struct kvtree_log_extent {
	struct kvtree_log_pos pos;
	__le32 blocks;
	__le32 crc;			/* of all its blocks */
	__le32 stream;
	__le32 reserved;
};

struct kvtree_log_trailer {
	__le64 magic;
	__le32 crc;			/* of all blocks, this field taken as 0 */
	__le32 blocks;
	__le64 epoch;
	__le64 generation;
	__le64 version_lease;
	__le64 time;			/* nanoseconds since 1970 */
	struct kvtree_log_pos next;	/* position of the next trailer */
	struct kvtree_log_pos ahead;	/* position of the first one in the next segment */
	__le32 nr_extents;
	__le32 dev_index;
	__u8   devices;			/* a bit for each that takes part in the epoch; 0: all do */
	__u8   reserved[3];
	__le32 head_crc;		/* of this header, both checksums taken as 0; 0: none */
	struct kvtree_log_extent extents[];
};

/*
 * What a checkpoint wrote on one device: extents, as in a trailer.  With KVTREE_LOG_RANGES, the
 * extents of its directory.
 */
#define KVTREE_LOG_TABLE_MAGIC	0x425465657274766bull	/* "kvtreeTB" */

struct kvtree_log_table {
	__le64 magic;
	__le32 crc;			/* of all blocks, this field taken as 0 */
	__le32 blocks;
	__le64 epoch;
	__le64 generation;
	__le64 nr_extents;
	__u8   reserved[24];
	struct kvtree_log_extent extents[];
};

/*
 * Records
 * =======
 *
 * A chunk is a header and records, padded with zeros to a block, then the columns
 * stored outside of their records, in the order of the records that name them,
 * each padded with zeros to 8 bytes, and the last one to a block.
 */
#define KVTREE_LOG_CHUNK_MAGIC	0x4843766bu	/* "kvCH" */
#define KVTREE_LOG_CHUNK_MAX	1024u		/* blocks */

struct kvtree_log_chunk {
	__le32 magic;
	__le32 blocks;			/* of the chunk */
	__le32 records_len;		/* bytes of this header and the records */
	__le32 outside_len;		/* bytes of the columns outside, padding included */
	__le64 epoch;			/* of a checkpoint's: that of the checkpoint */
	__le32 stream;
	__le32 nr_records;
};

/*
 * An unknown type at or above KVTREE_LOG_SKIPPABLE is skipped; below, refused.  So is a type in
 * a place where it has no meaning.
 */
enum kvtree_log_type {
	KVTREE_LOG_PUT		= 1,
	KVTREE_LOG_REMOVE	= 2,	/* of the value that has this version */
	KVTREE_LOG_RANGE	= 3,	/* in a directory; version 1 */
	KVTREE_LOG_COVER	= 4,	/* in a delta; version 1, no key */
	KVTREE_LOG_NOTHING	= 128,
};

#define KVTREE_LOG_SKIPPABLE	128u

/*
 * A record: this header, the key, and the value, padded with zeros to 8 bytes.
 * The value is `value` bytes of column 0; or, with KVTREE_LOG_COLUMNS, `value`
 * struct kvtree_log_column in ascending order, followed by the data of the columns
 * that are not outside.
 */
struct kvtree_log_record {
	__le32 len;			/* bytes of all of it, a multiple of 8 */
	__u8   type;
	__u8   flags;			/* KVTREE_LOG_COLUMNS */
	__le16 key_len;
	__le64 version;
	__le32 group;			/* 0; records of one group are valid together */
	__le32 value;
};

#define KVTREE_LOG_COLUMNS	(1u << 0)

struct kvtree_log_column {
	__le16 id;
	__le16 flags;			/* KVTREE_LOG_OUTSIDE */
	__le32 len;
};

#define KVTREE_LOG_OUTSIDE	(1u << 0)

/*
 * Ranges
 * ======
 *
 * With KVTREE_LOG_RANGES, the tables of all devices together list the extents of the
 * directory.  It has a record KVTREE_LOG_RANGE for each range, in any order: the key is the
 * lowest of the range, and the plain value is an array of struct kvtree_log_piece, oldest first;
 * a range without pieces is empty.  A range ends before the next one's key.  All keys are
 * different, and the lowest is the empty key.
 */
#define KVTREE_LOG_RANGES_MAX	(1u << 26)
#define KVTREE_LOG_PIECES_MAX	16u	/* of a range */

/*
 * A piece is part of a chunk: some of its records, and their columns outside of the records.
 * Recovery ignores records with keys out of the range, which may have been larger.
 *
 * The first piece of a range, the base, has a record KVTREE_LOG_PUT for every key.  The
 * others are deltas, which begin with a KVTREE_LOG_COVER.  Recovery ignores older pieces for
 * keys with a bit in it: such a key is in the delta or not in the range.  A delta has no other
 * keys.
 */
struct kvtree_log_piece {
	struct kvtree_log_pos pos;	/* of the chunk */
	__le64 generation;		/* of the life that wrote it */
	__le32 offset;			/* bytes from there to the records; a multiple of 8 */
	__le32 len;			/* bytes of the records; a multiple of 8 */
	__le32 outside;			/* bytes from pos to the columns outside; a multiple of 8 */
	__le32 outside_len;		/* bytes of these; 0: none */
	__le32 crc;			/* of the records and the columns outside, seed of pos */
	__le32 records;			/* number of KVTREE_LOG_PUT */
	__u8   dev;			/* dev_index */
	__u8   flags;			/* KVTREE_LOG_PIECE_DELTA */
	__u8   cover_bits;		/* of a delta, 1 to KVTREE_LOG_COVER_BITS; of a base, 0 */
	__u8   reserved[5];
};

#define KVTREE_LOG_PIECE_DELTA	(1u << 0)

/*
 * The bit of a key: crc32c over the UUID, then the key, modulo 2^KVTREE_LOG_COVER_BITS.  A
 * cover is the set of these bits modulo 2^cover_bits: as a plain value of less than
 * KVTREE_LOG_COVER_BYTES, an array of __le16 in ascending order; of KVTREE_LOG_COVER_BYTES, a
 * bitmap, with bit b in byte b / 8, there bit b % 8.
 */
#define KVTREE_LOG_COVER_BITS	12u
#define KVTREE_LOG_COVER_BYTES	512u

/* The beginning of what a checksum covers. */
struct kvtree_log_seed {
	__u8   uuid[16];
	__le64 generation;		/* 0 for a superblock */
	__le64 sequence;		/* of the segment; 0 for a superblock */
	__le32 segment;			/* ~0 for a superblock */
	__le32 block;			/* of the segment; the copy of a superblock */
	__le32 dev_index;
	__le32 reserved;
};

#if !defined(__cplusplus) && defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
_Static_assert(sizeof(struct kvtree_log_pos) == 16, "struct kvtree_log_pos");
_Static_assert(sizeof(struct kvtree_log_life) == 48, "struct kvtree_log_life");
_Static_assert(sizeof(struct kvtree_log_checkpoint) == 56, "struct kvtree_log_checkpoint");
_Static_assert(sizeof(struct kvtree_log_super) == KVTREE_LOG_BLOCK, "struct kvtree_log_super");
_Static_assert(sizeof(struct kvtree_log_segment) == KVTREE_LOG_BLOCK,
	       "struct kvtree_log_segment");
_Static_assert(sizeof(struct kvtree_log_extent) == 32, "struct kvtree_log_extent");
_Static_assert(sizeof(struct kvtree_log_trailer) == 96, "struct kvtree_log_trailer");
_Static_assert(sizeof(struct kvtree_log_table) == 64, "struct kvtree_log_table");
_Static_assert(sizeof(struct kvtree_log_chunk) == 32, "struct kvtree_log_chunk");
_Static_assert(sizeof(struct kvtree_log_record) == 24, "struct kvtree_log_record");
_Static_assert(sizeof(struct kvtree_log_column) == 8, "struct kvtree_log_column");
_Static_assert(sizeof(struct kvtree_log_piece) == 56, "struct kvtree_log_piece");
_Static_assert(8 * KVTREE_LOG_COVER_BYTES == 1 << KVTREE_LOG_COVER_BITS, "covers");
_Static_assert(sizeof(struct kvtree_log_seed) == 48, "struct kvtree_log_seed");
#endif

#endif /* _UAPI_LINUX_KVTREE_FORMAT_H */
