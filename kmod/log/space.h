/* SPDX-License-Identifier: GPL-2.0 */
/* The space of a log: the segments of its devices, and how many are left for each use. */
#ifndef KVT_LOG_SPACE_H
#define KVT_LOG_SPACE_H

#include <linux/atomic.h>
#include <linux/mutex.h>
#include <linux/percpu_counter.h>
#include <linux/spinlock.h>

#include "dev.h"
#include "live.h"

/* What a segment of a device holds: see table.c. */
enum kvt_seg_state {
	KVT_SEG_FREE,
	KVT_SEG_LOG,		/* records of streams, or commit records */
	KVT_SEG_CHECKPOINT,	/* a part of the current checkpoint, or of earlier ones */
	KVT_SEG_NEW,		/* a part of the checkpoint that is being made */
	KVT_SEG_USELESS,	/* nothing needed: free once it has been discarded */
};

/* What a segment is taken for: see room.c. */
enum kvt_room {
	KVT_ROOM_STREAM,	/* records */
	KVT_ROOM_COMMIT,	/* commit records */
	KVT_ROOM_DRAIN,		/* records of a carried epoch, or that a checkpoint waits for */
	KVT_ROOM_LAST,		/* commit records that a checkpoint waits for, or of a new life */
	KVT_ROOM_BASES,		/* a checkpoint's bases */
	KVT_ROOM_REST,		/* the rest of a checkpoint */
};

struct kvt_seg {
	u64 epoch;		/* KVT_SEG_LOG: the last epoch that has records in it */
	u8 state;
	bool open;		/* more will be written to it */
	bool kept;		/* KVT_SEG_CHECKPOINT: the new checkpoint refers to it */
	bool stale;		/* KVT_SEG_FREE: it was not discarded */
	bool base;		/* it has bases, and nothing else; until it is free */
};

struct kvt_seg_table {
	spinlock_t lock;	/* protects the table */
	u32 nr;
	u32 nr_free;
	u32 nr_log;		/* KVT_SEG_LOG */
	u32 nr_image;		/* KVT_SEG_CHECKPOINT and KVT_SEG_NEW */
	u32 nr_base;		/* segments with bases */
	u32 next;		/* where to look for a free segment */
	u64 sequence;		/* number of the last segment taken */
	struct kvt_seg *seg;
	bool saving;		/* a checkpoint is being made */
	bool full;		/* ... which writes all that is live */
	u32 leave;		/* segments that it leaves free if it writes all that is live */
	u32 planned;		/* ... that its current step may yet take */
	u32 useless_bases;	/* of those KVT_SEG_USELESS when it has ended */
	u32 useless;		/* log that it will free; after it, segments KVT_SEG_USELESS */
};

/* The place where the streams of a device append. */
struct kvt_append {
	struct mutex lock;		/* protects all fields */
	struct kvt_log_pos pos;		/* of the next chunk; block 0: no segment yet */
	bool closed;			/* the segment is for closed epochs while append_ahead() */
	u64 epoch;			/* the last one that has been given a place */
	u32 ahead;			/* limit on segments filled with records not yet durable */
	u32 nr_filled;			/* segments filled so far */
	u64 filled[KVT_LOG_AHEAD_MAX];	/* @epoch then; nr_filled % ahead is the oldest */
};

/*
 * Where a checkpoint appends.  Bases stay until everything is written again; most of the rest does
 * not, and each checkpoint writes a new directory.  In segments of its own, the rest becomes free.
 */
enum kvt_place {
	KVT_PLACE_BASES,
	KVT_PLACE_REST,		/* deltas, directories and tables */
	KVT_PLACES,
};

/* A device's part of the space. */
struct kvt_part {
	struct kvt_space *space;
	struct kvt_log_dev *dev;
	struct kvt_seg_table segs;
	struct kvt_append append;
	u64 share;			/* part of a checkpoint: share / space->shares */
	u32 most;			/* segments that the bases of a full store fill */
	struct kvt_log_pos image[KVT_PLACES];	/* of next chunks; block 0: no segment */
};

struct kvt_space {
	struct kvt_log_state *state;
	struct kvt_devs *devs;
	struct kvt_part part[KVTREE_LOG_DEVS_MAX];
	u32 nr_streams;			/* streams that need room */
	bool steps;			/* there is room for steps, not for two copies */
	u64 capacity;			/* bytes of all segments */
	u64 shares;			/* sum of the devices' shares */
	u64 any_most;			/* live bytes that always fit, in records of any size */
	u64 small_most;			/* the same if all are small: see kvt_room_holds() */
	u64 any_max;			/* the same two with the present directory */
	u64 small_max;
	u64 large_devs;			/* ... and the others' weight: all may be on one device */
	struct kvt_live live_closed;	/* what was live when the last epoch was closed */
	struct kvt_live live_durable;	/* the same for the last durable epoch */
	u64 replay_bytes;		/* bytes that a recovery reads besides the checkpoint */
	bool whole;			/* the last checkpoint wrote all that was live */
	u64 directory;			/* bytes of the checkpoint's directory, about */
	u64 described;			/* the most of these for which room is reserved */
	struct percpu_counter live;	/* bytes that a full checkpoint would write */
	s32 live_batch;			/* limit on the bytes that a CPU counts for itself only */
	atomic64_t large;		/* see struct kvt_live */
};

/* The size of a segment in bytes. */
static inline u64 kvt_part_bytes(const struct kvt_part *part)
{
	return (u64)le32_to_cpu(part->dev->super->segment_blocks) * KVTREE_LOG_BLOCK;
}

/* The bytes that a segment holds at least: its size, less what may stay unused at its end. */
static inline u64 kvt_part_segment(const struct kvt_part *part)
{
	return kvt_part_bytes(part) - KVT_LOG_CHUNK_BYTES;
}

/* Whether a chunk fits into what is left of a position's segment.  Block 0: no segment yet. */
static inline bool kvt_part_fits(const struct kvt_part *part, const struct kvt_log_pos *pos,
				 u32 blocks)
{
	return pos->block && blocks <= le32_to_cpu(part->dev->super->segment_blocks) - pos->block;
}

/* The number of streams that write to a device. */
static inline u32 kvt_part_streams(const struct kvt_part *part)
{
	u32 devs = part->space->devs->nr;

	return (part->space->nr_streams + devs - 1 - part->dev->index) / devs;
}

/* Segments discarded at once. */
#define KVT_GIVE_MAX	64U

/* table.c */
int kvt_segs_init(struct kvt_seg_table *segs, u32 nr);
void kvt_segs_exit(struct kvt_seg_table *segs);
void kvt_segs_mark(struct kvt_seg_table *segs, u32 segment, enum kvt_seg_state state, u64 epoch);
int kvt_segs_take(struct kvt_seg_table *segs, u32 keep, enum kvt_seg_state state,
		  struct kvt_log_pos *pos);
void kvt_segs_base(struct kvt_seg_table *segs, u32 segment, bool base);
void kvt_segs_used(struct kvt_seg_table *segs, u32 segment, u64 epoch);
void kvt_segs_shut(struct kvt_seg_table *segs, u32 segment);
void kvt_segs_save_begin(struct kvt_seg_table *segs, u64 epoch, bool full);
void kvt_segs_step_end(struct kvt_seg_table *segs, u64 epoch, bool counts, bool last);
void kvt_segs_give(struct kvt_part *part, u32 max, bool discard);
u32 kvt_segs_regain(struct kvt_seg_table *segs, u32 max);

/* What is known about the next step of a checkpoint of everything: see kvt_room_step(). */
struct kvt_room_step {
	u32 tries;			/* checkpoints that have failed for lack of room */
	bool stopped;			/* writers are stopped, what they wrote is durable */
};

/* room.c */
extern unsigned int kvt_log_step_segments;
u32 kvt_room_ahead(const struct kvt_part *part);
u32 kvt_room_streams(const struct kvt_space *space);
void kvt_room_init(struct kvt_space *space, u32 nr_streams);
void kvt_room_describe(struct kvt_space *space, u64 bytes);
u32 kvt_room_keep(const struct kvt_part *part, enum kvt_room room);
u32 kvt_room_left(const struct kvt_part *part);
bool kvt_room_low(const struct kvt_space *space);
bool kvt_room_short(const struct kvt_space *space);
bool kvt_room_long(const struct kvt_space *space);
bool kvt_room_slow(const struct kvt_space *space);
bool kvt_room_spare(const struct kvt_space *space);
bool kvt_room_small(const struct kvt_space *space);
u64 kvt_room_segment(const struct kvt_part *part, bool small);
u64 kvt_room_step(struct kvt_space *space, const struct kvt_room_step *step);
u64 kvt_room_net(const struct kvt_space *space);
void kvt_room_step_rest(struct kvt_space *space, bool stopped);
bool kvt_room_describes(const struct kvt_space *space);
bool kvt_room_begins(const struct kvt_part *part, u32 carried);
bool kvt_room_ends(const struct kvt_part *part, u32 carried);
bool kvt_room_secures(const struct kvt_part *part, u32 carried);
void kvt_room_stop_writers(struct kvt_space *space);
bool kvt_room_grows(struct kvt_space *space);
bool kvt_room_regrows(const struct kvt_space *space);
bool kvt_room_holds(const struct kvt_space *space, struct kvt_live live);
u64 kvt_room_live_max(const struct kvt_space *space);
int kvt_room_take(struct kvt_part *part, enum kvt_room room, u32 stream,
		  struct kvt_log_pos *pos);

/* append.c */
void kvt_append_init(struct kvt_part *part);
int kvt_append(struct kvt_part *part, u32 stream, u32 blocks, u64 epoch, struct kvt_log_pos *pos);

/* live.c */
void kvt_live_init(struct kvt_space *space);
u64 kvt_live_slack(const struct kvt_space *space);
struct kvt_live kvt_live_now(const struct kvt_space *space);

/* What records need of segments, to be compared with kvt_room_segment(). */
static inline u64 kvt_room_cost(struct kvt_live live, bool small)
{
	return live.bytes + (small ? live.large : 0);
}

/* How many bytes are live, off by kvt_live_slack() at most. */
static inline u64 kvt_live_bytes(const struct kvt_space *space)
{
	return percpu_counter_read_positive((struct percpu_counter *)&space->live);
}

/* Count what the store has grown by.  Large records are rare, so they are counted exactly. */
static inline void kvt_live_add(struct kvt_space *space, struct kvt_live live)
{
	percpu_counter_add_batch(&space->live, live.bytes, space->live_batch);
	if (unlikely(live.large)) {
		atomic64_add(live.large, &space->large);
		/* If several writers add and then check, at least one sees what all have added. */
		smp_mb__after_atomic();
	}
}

static inline void kvt_live_sub(struct kvt_space *space, struct kvt_live live)
{
	kvt_live_add(space, kvt_live_less((struct kvt_live) {}, live));
}

#endif /* KVT_LOG_SPACE_H */
