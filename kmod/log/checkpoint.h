/* SPDX-License-Identifier: GPL-2.0 */
/* Checkpoints: write what has changed, and then superblocks that point to it. */
#ifndef KVT_LOG_CHECKPOINT_H
#define KVT_LOG_CHECKPOINT_H

#include <linux/container_of.h>
#include <linux/mutex.h>

#include "base/stats.h"
#include "commit.h"

/* A log with its commits and checkpoints. */
struct kvt_checkpoints {
	struct kvt_commits commits;
	struct mutex checkpoint_lock;	/* one checkpoint at a time */
	bool unasked;			/* no caller waits for the current one; checkpoint_lock */
	bool futile;			/* the last one has made no room; the same */
	u32 no_room;			/* failed for lack of room since a success; not all count */
	u32 most_free;			/* the most segments that were free after such a failure */
	u64 number;			/* of the superblocks written last */
};

static inline struct kvt_checkpoints *kvt_checkpoints_of(struct kvt_log *log)
{
	return container_of(log, struct kvt_checkpoints, commits.log);
}

/* supers.c */
int kvt_supers_write(struct kvt_checkpoints *cps);
int kvt_supers_complete(struct kvt_checkpoints *cps);
int kvt_supers_end(struct kvt_checkpoints *cps);
u32 kvt_super_close_life(struct kvtree_log_super *super, u64 epoch);

/* A run of ranges that one worker writes, or several together: see plan.c. */
struct kvt_job {
	u32 first;		/* index of the first range, in the old directory */
	u32 end;		/* index after the last one */
	u32 delta_max;		/* limit on the bytes of the range's delta; 0: write a base */
};

/* What a checkpoint writes, and has written. */
struct kvt_saved {
	struct kvt_log *log;
	const struct kvt_log_directory *old;
	unsigned long *marks;		/* what has changed in each of its ranges */
	unsigned long *todo;		/* ranges to be written; NULL: those that are marked */
	unsigned long *left;		/* of these, the ones left to later steps; NULL: none */
	const struct kvt_live *costs;	/* of its ranges: what each holds now; NULL: not needed */
	u64 live;			/* bytes */
	u32 range_bytes;
	u32 cover_bits;
	u32 nr_jobs;
	struct kvt_job *jobs;		/* in ascending order */
	struct kvt_log_directory dir;	/* the new one; it shares unchanged ranges with the old */
	struct mutex lock;		/* protects dev[].blocks, done and the places of chunks */
	u64 done;			/* bytes of records written so far, by other steps too */
	u64 size;			/* of all these at the end, about; 0: not known */
	struct kvt_saved_dev {
		u64 blocks;		/* of chunks placed on this device */
		struct kvtree_log_table *table;
		u32 nr;			/* extents in the table */
		u32 room;
		u64 records;		/* in the directory's pieces on this device */
		u64 bytes;		/* of these pieces */
		struct kvtree_log_checkpoint super;	/* for the superblock */
	} dev[KVTREE_LOG_DEVS_MAX];
};

/* The part of a checkpoint that is being written: see step.c. */
struct kvt_step {
	u64 epoch;			/* recovery replays the epochs after it */
	u32 met;			/* of these, the ones from which it may have changes */
	u64 lease;			/* on versions: the same on all devices */
	bool last;			/* nothing is left to later steps */
	struct kvt_ranges *ranges;	/* the new ones */
	unsigned long *marks;		/* of kvt_round, for the new ranges */
	unsigned long *todo;
	struct kvt_live *costs;
	struct kvt_saved saved;
};

/* A checkpoint that is being made, in one step or several. */
struct kvt_round {
	struct kvt_checkpoints *all;	/* of the log */
	u64 epoch;			/* the last epoch that it contains completely */
	u64 replay_bytes;		/* log that need not be replayed after it */
	struct kvt_log_pos commit[KVTREE_LOG_DEVS_MAX];	/* of the first trailer after epoch */
	struct kvt_log_pos ahead[KVTREE_LOG_DEVS_MAX];	/* ... and the first in the next segment */
	bool full;			/* everything is written again */
	bool resumed;			/* ... that an earlier checkpoint has left */
	bool again;			/* one has just failed for lack of room */
	bool stepped;			/* a step has taken effect */
	bool rest;			/* the next step writes all that is left */
	bool helps;			/* there is room for writers afterwards */
	bool stopped;			/* writers are, and all that they wrote is durable */
	u64 done;			/* bytes of records written so far */
	u64 size;			/* if @full: bytes that were live when it began */
	u64 blocks[KVTREE_LOG_DEVS_MAX];	/* of chunks placed on each device so far */
	unsigned long *marks;		/* of the ranges that are not written yet */
	unsigned long *todo;		/* if @full: these ranges, whether marked or not */
	struct kvt_live *costs;		/* of all ranges, if it has several steps */
	struct kvt_step step;
};

/* measure.c */
int kvt_measure(const struct kvt_checkpoints *cps, const struct kvt_log_directory *dir,
		struct kvt_live **costs);

/* plan.c */
int kvt_plan(struct kvt_saved *saved, u64 room);

/* Count blocks that a checkpoint writes. */
static inline void kvt_saved_count(const struct kvt_saved *saved, u32 blocks)
{
	kvt_stat_add(saved->log->state.env.stats, KVTREE_STAT_LOG_CHECKPOINT_BYTES,
		     (u64)blocks * KVTREE_LOG_BLOCK);
}

/* Whether a step of a checkpoint of everything writes a range. */
static inline bool kvt_saved_writes(const struct kvt_saved *saved, u32 i)
{
	return test_bit(i, saved->todo) && !(saved->left && test_bit(i, saved->left));
}

/* The size of a device's table with this many extents. */
static inline u32 kvt_saved_table_blocks(u32 nr)
{
	return DIV_ROUND_UP(struct_size_t(struct kvtree_log_table, extents, nr), KVTREE_LOG_BLOCK);
}

/* saved.c */
int kvt_saved_room(struct kvt_saved *saved, u32 i, enum kvt_place place, u32 blocks);
int kvt_saved_write(struct kvt_saved *saved, enum kvt_place place, struct kvt_log_buf *buf,
		    u8 *stage, struct kvt_log_extent *extent);
void kvt_saved_done(struct kvt_saved *saved, u64 bytes);
int kvt_saved_keep(struct kvt_saved *saved, u32 more);
int kvt_saved_flush(struct kvt_saved *saved, struct kvt_log_buf *buf, u8 *stage);
void kvt_saved_describe(struct kvt_saved *saved, struct kvt_log_buf *buf,
			const struct kvt_log_range *range);
void kvt_saved_exit(struct kvt_saved *saved);

/* save.c */
int kvt_save_ends(const struct kvt_checkpoints *cps, struct task_struct *task);
int kvt_save(struct kvt_saved *saved, struct kvt_checkpoints *cps, u64 epoch);

/* step.c */
int kvt_step(struct kvt_round *round);

/* checkpoint.c */
int kvt_checkpoint_drain(struct kvt_commits *commits, u64 *epoch);
int kvt_checkpoint(struct kvt_checkpoints *cps);
int kvt_checkpoint_little(struct kvt_checkpoints *cps);
int kvt_checkpoint_awake(struct kvt_checkpoints *cps);
int kvt_checkpoint_forgo(struct kvt_checkpoints *cps);
void kvt_checkpoint_judge(struct kvt_checkpoints *cps, int err);
void kvt_checkpoint_work(struct work_struct *work);

#endif /* KVT_LOG_CHECKPOINT_H */
