/* SPDX-License-Identifier: GPL-2.0 */
/* What the files of the log share. */
#ifndef KVT_LOG_INTERNAL_H
#define KVT_LOG_INTERNAL_H

#include <linux/align.h>
#include <linux/atomic.h>
#include <linux/bitmap.h>
#include <linux/completion.h>
#include <linux/mutex.h>
#include <linux/percpu_counter.h>
#include <linux/smp.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "base/value.h"
#include "log/format/format.h"
#include "state.h"

struct block_device;
struct file;
struct kvt_blob;
struct kvt_column;
struct kvt_disk;

/* Segments of a device in memory: see table.c. */
enum kvt_seg_state {
	KVT_SEG_FREE,
	KVT_SEG_LOG,		/* of a stream, or commit records */
	KVT_SEG_CHECKPOINT,	/* of the checkpoint that counts */
	KVT_SEG_NEW,		/* of the one that is being made */
	KVT_SEG_USELESS,	/* free when the device has been told */
};

/* What a segment is taken for: see room.c. */
enum kvt_room {
	KVT_ROOM_STREAM,	/* records */
	KVT_ROOM_COMMIT,	/* commit records */
	KVT_ROOM_DRAIN,		/* records carried, or that a checkpoint waits for */
	KVT_ROOM_LAST,		/* commit records that it waits for, or of a new life */
	KVT_ROOM_SAVE,		/* a checkpoint */
};

struct kvt_seg {
	u64 epoch;		/* LOG: the last one that has anything in it */
	u8 state;
	bool open;		/* it is being written to */
};

struct kvt_seg_table {
	spinlock_t lock;	/* of all of it */
	u32 nr;
	u32 nr_free;
	u32 nr_log;		/* KVT_SEG_LOG */
	u32 next;		/* where to look for a free one */
	u64 sequence;		/* of the last one taken */
	struct kvt_seg *seg;
	bool saving;		/* a checkpoint is being made */
	u32 taken;		/* by it */
	u32 useless;		/* what it will free; or KVT_SEG_USELESS */
};

struct kvt_log_dev {
	struct kvt_log *log;
	struct file *file;
	struct block_device *bdev;
	u32 index;
	struct kvtree_log_super *super;		/* as it will be written next */
	struct kvt_seg_table segs;
	u64 share;			/* of the log's shares: its part of a checkpoint */
};

/* The commit records of a device; under commit_lock. */
struct kvt_chain {
	struct kvt_log_dev *dev;
	struct kvt_log_pos next;		/* where the next one goes */
	struct kvt_log_pos ahead;		/* the first one of the next segment */
	struct kvt_log_pos spare;		/* the same behind that; block 0: not taken yet */
	struct kvtree_log_trailer *trailer;	/* KVTREE_LOG_TRAILER_MAX blocks */
	u32 trailer_blocks;
};

/* What is being written or read: see device.c. */
struct kvt_io {
	atomic_t left;
	int err;
	struct completion done;
};

#define KVT_LOG_BUFS		4
#define KVT_LOG_BUF_BYTES	(256 * 1024)
/* Columns outside of the records of a stream's buffer, and when a buffer is full of them. */
#define KVT_LOG_OUTSIDE_MAX	1024
#define KVT_LOG_OUTSIDE_BYTES	(128 * 1024)
/* The largest chunk: one more value may have been added. */
#define KVT_LOG_CHUNK_BYTES	(KVT_LOG_BUF_BYTES + KVT_LOG_OUTSIDE_BYTES +	\
				 KVTREE_VALUE_MAX + KVTREE_COLS_MAX * 8 + KVTREE_LOG_BLOCK)

/* Chunks that wait to be written: with so many bytes, no further buffer is opened. */
#define KVT_LOG_SEALED_BYTES	(KVT_LOG_BUFS * KVT_LOG_BUF_BYTES)

struct kvt_log_buf {
	u8 *data;
	u32 used;		/* bytes; the chunk's header is one of them */
	u32 nr_records;
	u64 epoch;
	atomic_t busy;		/* records that are not published yet */
	u32 nr_outside;
	u32 outside_len;
	struct kvt_blob **outside;
};

/* How far a stream may be ahead of what is durable, in segments. */
#define KVT_LOG_AHEAD_MAX	8U

/* Extents of a stream that no trailer has named yet. */
#define KVT_LOG_EXTENTS		62

struct kvt_stream {
	raw_spinlock_t lock;	/* of the first part */
	u32 first;		/* the oldest buffer that is sealed */
	u32 nr_sealed;		/* the next one is open, if there is one */
	u32 sealed;		/* bytes of their chunks */
	u64 max_version;
	struct kvt_log_buf buf[KVT_LOG_BUFS];

	struct kvt_log *log;
	struct kvt_log_dev *dev;
	u32 id;
	struct work_struct flush;
	struct mutex flush_lock;	/* of what follows: who writes */
	struct kvt_log_buf *writing;	/* the oldest buffer, if it is being written */
	struct kvt_io io;	/* ... which this waits for */
	u8 *stage;		/* KVT_LOG_BUF_BYTES */
	struct kvt_log_pos pos;	/* the next chunk; block 0: no segment yet */
	u64 written;		/* the last chunk's epoch */
	u32 ahead;		/* segments filled with what is not durable yet, at most */
	u32 nr_filled;
	u64 filled[KVT_LOG_AHEAD_MAX];	/* the last epoch in each; nr_filled % ahead is next */
	struct mutex extents_lock;	/* of the extents */
	u32 nr_extents;
	struct kvt_log_extent extent[KVT_LOG_EXTENTS];
} ____cacheline_aligned_in_smp;

/* That a log has a device, or several, on a disk: see disk.c. */
struct kvt_disk_use {
	struct list_head list;		/* of the disk */
	struct kvt_disk *disk;
	struct kvt_log *log;
};

/* What is written again when a life begins: see carry.c. */
struct kvt_carry {
	u64 epoch;		/* 0: nothing */
	u32 nr;
	u32 room;
	struct kvt_log_extent *extent;	/* all of the epoch's */
};

struct kvt_log {
	struct kvt_log_state state;
	u32 nr_devs;
	u32 nr_streams;
	struct kvt_stream *streams;
	struct kvt_log_dev dev[KVTREE_LOG_DEVS_MAX];
	struct kvt_chain chain[KVTREE_LOG_DEVS_MAX];
	struct kvt_log_set set;
	struct kvt_log_found found;
	struct kvt_carry carry;
	u64 generation;
	bool read_only;			/* nothing is written to the devices */
	u64 number;			/* of the superblock written last */
	u64 capacity;			/* bytes of all segments */
	u64 live_max;			/* bytes that checkpoints can always be made of */
	u64 shares;
	u64 live_closed;		/* what was live when an epoch was closed */
	u64 live_durable;		/* ... and that epoch is durable */

	struct workqueue_struct *flush_wq;	/* of streams */
	struct mutex commit_lock;	/* one commit at a time */
	struct delayed_work idle;	/* commits nothing, once nothing else is committed */
	unsigned long committed;	/* commit_lock: jiffies of the last commit */
	bool unproved;			/* commit_lock: it had records, and none has followed */
	struct mutex checkpoint_lock;	/* one checkpoint at a time */
	u32 no_room;			/* so many in a row had none */
	u64 lease_next;			/* commit_lock: in the next trailer */
	u64 replay_bytes;		/* commit_lock: that a recovery reads beside a checkpoint */
	bool unasked;			/* checkpoint_lock: nobody waits for the present one */
	struct percpu_counter live;	/* bytes that a checkpoint would write */
	s32 live_batch;			/* by how much each CPU's part may be off */
	struct list_head sleepers;	/* of all logs: see sleep.c */
	u32 nr_disks;			/* that the devices are on */
	struct kvt_disk *disks[KVTREE_LOG_DEVS_MAX];
	struct kvt_disk_use uses[KVTREE_LOG_DEVS_MAX];
};

extern unsigned int kvt_log_idle_ms;
extern unsigned int kvt_log_savers;

/* log.c */
int kvt_log_queues_init(struct kvt_log *log);
void kvt_log_queues_exit(struct kvt_log *log);

/* events.c */
void kvt_log_commit_later(struct kvt_log *log);

/* device.c */
int kvt_dev_open(struct kvt_log_dev *dev, const char *path);
void kvt_dev_close(struct kvt_log_dev *dev);
u64 kvt_dev_blocks(const struct kvt_log_dev *dev);
int kvt_dev_read(struct kvt_log_dev *dev, u64 block, u32 nr, void *buf);
int kvt_dev_write(struct kvt_log_dev *dev, u64 block, u32 nr, const void *buf);
void kvt_dev_write_begin(struct kvt_log_dev *dev, u64 block, u32 nr, const void *buf,
			 struct kvt_io *io);
void kvt_io_init(struct kvt_io *io);
int kvt_io_wait(struct kvt_io *io);
int kvt_devs_flush(struct kvt_log *log);
void kvt_dev_discard(struct kvt_log_dev *dev, u32 segment, u32 nr);

/* disk.c */
int kvt_disks_use(struct kvt_log *log);
void kvt_disks_leave(struct kvt_log *log);
void kvt_disks_lock(struct kvt_log *log);
void kvt_disks_unlock(struct kvt_log *log);
void kvt_disk_fail(struct kvt_log_dev *dev);

/* table.c */
int kvt_segs_init(struct kvt_seg_table *segs, u32 nr);
void kvt_segs_exit(struct kvt_seg_table *segs);
void kvt_segs_mark(struct kvt_seg_table *segs, u32 segment, enum kvt_seg_state state, u64 epoch);
int kvt_segs_take(struct kvt_log_dev *dev, enum kvt_room room, u32 stream,
		  struct kvt_log_pos *pos);
void kvt_segs_used(struct kvt_seg_table *segs, u32 segment, u64 epoch);
void kvt_segs_shut(struct kvt_seg_table *segs, u32 segment);
void kvt_segs_save_begin(struct kvt_seg_table *segs, u64 epoch);
void kvt_segs_save_end(struct kvt_seg_table *segs, u64 epoch, bool counts);
void kvt_segs_give(struct kvt_log_dev *dev, u32 max, bool discard);

/* encode.c */
struct kvt_log_size {
	u32 len;		/* bytes of the record */
	u32 nr_outside;
	u32 outside_len;	/* bytes, padding included */
};

static inline u64 kvt_log_size_bytes(const struct kvt_log_size *size)
{
	return size->len + size->outside_len;
}

static inline u32 kvt_log_record_size(u32 key_len, u32 len)
{
	return ALIGN(sizeof(struct kvtree_log_record) + key_len + len, 8);
}

struct kvt_log_size kvt_log_size_table(u32 key_len, const struct kvt_value *v);

/* How much a record takes.  @v: the value; NULL: a removal. */
static inline struct kvt_log_size kvt_log_size(u32 key_len, const struct kvt_value *v)
{
	u32 len = 0;

	if (v && unlikely(!kvt_value_plain(v)))
		return kvt_log_size_table(key_len, v);
	if (v)
		kvt_value_plain_data(v, &len);
	return (struct kvt_log_size) { .len = kvt_log_record_size(key_len, len) };
}

struct kvtree_log_record *kvt_log_encode(u8 *to, const struct kvt_log_size *size,
					 const struct kvt_key *key, u64 version,
					 const struct kvt_value *v, struct kvt_blob **outside);

/* chunk.c */
u32 kvt_chunk_blocks(const struct kvt_log_buf *buf);
int kvt_chunk_write(struct kvt_log_dev *dev, struct kvt_log_buf *buf, u32 stream,
		    const struct kvt_log_pos *pos, u8 *stage, struct kvt_log_extent *extent,
		    struct kvt_io *io);
void kvt_buf_reset(struct kvt_log_buf *buf);
int kvt_buf_init(struct kvt_log_buf *buf, u32 outside);
void kvt_buf_exit(struct kvt_log_buf *buf);

/* stream.c */
int kvt_streams_init(struct kvt_log *log);
void kvt_streams_exit(struct kvt_log *log);
bool kvt_stream_close(struct kvt_stream *s, u64 epoch);
bool kvt_stream_flush_begin(struct kvt_stream *s, u64 epoch);
void kvt_stream_flush_end(struct kvt_stream *s);
bool kvt_stream_behind(struct kvt_stream *s, u64 epoch);

/* commit.c */
void kvt_commit_work(struct work_struct *work);
void kvt_idle_work(struct work_struct *work);
int kvt_commit(struct kvt_log *log);
int kvt_commit_carried(struct kvt_log *log);

/* supers.c */
int kvt_supers_write(struct kvt_log *log);
int kvt_supers_complete(struct kvt_log *log);
int kvt_supers_end(struct kvt_log *log);
u32 kvt_super_close_life(struct kvtree_log_super *super, u64 epoch);

/* room.c */
u32 kvt_room_ahead(const struct kvt_log_dev *dev);
void kvt_room_init(struct kvt_log *log);
u32 kvt_room_keep(const struct kvt_log_dev *dev, enum kvt_room room);
bool kvt_room_low(const struct kvt_log_dev *dev);
bool kvt_room_short(const struct kvt_log_dev *dev);
bool kvt_room_long(const struct kvt_log *log);
bool kvt_room_begins(const struct kvt_log_dev *dev, u32 carried);
bool kvt_room_ends(const struct kvt_log_dev *dev, u32 carried);
void kvt_room_stop_writers(struct kvt_log *log);
int kvt_room_take(struct kvt_log_dev *dev, enum kvt_room room, u32 stream,
		  struct kvt_log_pos *pos);

/* live.c */
void kvt_live_init(struct kvt_log *log);
u64 kvt_live_bytes(const struct kvt_log *log);
u64 kvt_live_slack(const struct kvt_log *log);
void kvt_live_check(struct kvt_log *log);

/* The store has grown by @bytes of records. */
static inline void kvt_live_add(struct kvt_log *log, s64 bytes)
{
	percpu_counter_add_batch(&log->live, bytes, log->live_batch);
}

/* save.c */
#define KVT_SAVERS_MAX		8	/* workers */
/* A buffer is written when it has so many bytes of records, or KVT_LOG_OUTSIDE_BYTES outside. */
#define KVT_SAVE_RECORDS_BYTES	(KVT_LOG_BUF_BYTES * 3 / 4)
/* So each extent has as much, but for the last one of each worker. */
#define KVT_SAVE_EXTENT_BYTES	min(KVT_SAVE_RECORDS_BYTES, KVT_LOG_OUTSIDE_BYTES)

struct kvt_saved {
	struct kvt_log *log;
	struct mutex lock;		/* of what follows */
	struct kvt_saved_dev {
		u64 blocks;			/* of chunks that have a place here */
		struct kvt_log_pos pos;		/* the next chunk */
		struct kvtree_log_table *table;
		u32 nr;
		u32 room;
		u64 records;
		u64 bytes;
		struct kvtree_log_checkpoint super;	/* what the superblock will say */
	} dev[KVTREE_LOG_DEVS_MAX];
};

int kvt_save(struct kvt_saved *saved, struct kvt_log *log, u64 epoch);
int kvt_saved_room(struct kvt_saved *saved, u32 i, u32 blocks);
void kvt_saved_exit(struct kvt_saved *saved);

/* checkpoint.c */
int kvt_checkpoint(struct kvt_log *log);
int kvt_checkpoint_awake(struct kvt_log *log);
int kvt_checkpoint_forgo(struct kvt_log *log);
void kvt_checkpoint_work(struct work_struct *work);

/* sleep.c */
int kvt_sleep_init(void);
void kvt_sleep_exit(void);
void kvt_sleep_add(struct kvt_log *log);
void kvt_sleep_remove(struct kvt_log *log);

/* replay.c */
struct kvt_replay {
	struct kvt_log_sink sink;
	struct kvt_log *log;
	struct kvt_log_reader reader;
	struct kvt_column *edits;	/* KVTREE_COLS_MAX of them */
	size_t tombstones;		/* bytes of removals, to bury */
	struct kvt_cell cell;		/* where a value is that has no block */
	DECLARE_BITMAP(kept, KVTREE_COLS_MAX);
};

int kvt_replay_init(struct kvt_replay *replay, struct kvt_log *log);
void kvt_replay_exit(struct kvt_replay *replay);
int kvt_replay_extent(struct kvt_replay *replay, const struct kvt_log_extent *extent);
int kvt_replay_bury(struct kvt_replay *replay);

/* restore.c */
int kvt_log_restore(struct kvt_log *log);

/* carry.c */
void kvt_carry_init(struct kvt_log *log);
void kvt_carry_exit(struct kvt_log *log);
int kvt_carry_note(struct kvt_log *log, const struct kvt_log_extent *extent);
u32 kvt_carry_segments(const struct kvt_log_dev *dev);
int kvt_carry(struct kvt_log *log);

/* The stream of this CPU.  Avoid the modulo: cpu is normally below nr_streams. */
static inline struct kvt_stream *kvt_log_stream(const struct kvt_log *log)
{
	u32 cpu = raw_smp_processor_id();

	return &log->streams[likely(cpu < log->nr_streams) ? cpu : cpu % log->nr_streams];
}

/* How many bytes a segment holds at least: its size, less what may stay unused at its end. */
static inline u64 kvt_dev_segment(const struct kvt_log_dev *dev)
{
	return (u64)le32_to_cpu(dev->super->segment_blocks) * KVTREE_LOG_BLOCK -
	       KVT_LOG_CHUNK_BYTES;
}

/* Have a stream's worker write what is sealed.  Context: any but NMI. */
static inline void kvt_stream_start(struct kvt_stream *s)
{
	queue_work(s->log->flush_wq, &s->flush);
}

/* Streams that a device has. */
static inline u32 kvt_dev_streams(const struct kvt_log_dev *dev)
{
	u32 devs = dev->log->nr_devs;

	return (dev->log->nr_streams + devs - 1 - dev->index) / devs;
}

#endif /* KVT_LOG_INTERNAL_H */
