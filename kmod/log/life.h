/* SPDX-License-Identifier: GPL-2.0 */
/* A life of a log: from the attach of its devices to their detach. */
#ifndef KVT_LOG_LIFE_H
#define KVT_LOG_LIFE_H

#include <linux/bitmap.h>
#include <linux/container_of.h>

#include "base/value.h"
#include "checkpoint.h"

struct kvt_column;

struct kvt_life {
	struct kvt_checkpoints checkpoints;
	struct kvt_log_found found;
	struct list_head sleepers;	/* of all logs: see sleep.c */
};

static inline struct kvt_life *kvt_life_of(struct kvt_log *log)
{
	return container_of(log, struct kvt_life, checkpoints.commits.log);
}

/* log.c */
int kvt_log_queues_init(struct kvt_log *log);
void kvt_log_queues_exit(struct kvt_log *log);

/* sleep.c */
int kvt_sleep_init(void);
void kvt_sleep_exit(void);
void kvt_sleep_add(struct kvt_life *life);
void kvt_sleep_remove(struct kvt_life *life);

/* replay.c */

/* Records of a range that are put into the index together. */
#define KVT_REPLAY_BATCH	256

/* What a value is counted as. */
struct kvt_replay_size {
	s64 charge;
	struct kvt_live live;
};

struct kvt_replay {
	struct kvt_log *log;
	struct kvt_log_reader reader;
	struct kvt_column *edits;	/* KVTREE_COLS_MAX of them */
	size_t tombstones;		/* bytes of removals since the last kvt_replay_bury() */
	bool marks;			/* mark the keys: their records are not in the checkpoint */
	bool sorted;			/* the records are a range's, in order so far */
	/* Values that are not in the index yet, in order; their keys are in the reader's memory. */
	u32 nr;
	struct kvt_insert inserts[KVT_REPLAY_BATCH];
	struct kvt_replay_size sizes[KVT_REPLAY_BATCH];
	struct kvt_cell cells[KVT_REPLAY_BATCH];	/* hold values without blocks */
	DECLARE_BITMAP(kept, KVTREE_COLS_MAX);
};

int kvt_replay_init(struct kvt_replay *replay, struct kvt_log *log);
void kvt_replay_exit(struct kvt_replay *replay);
int kvt_replay_range(struct kvt_replay *replay, const struct kvt_log_directory *dir, u32 i,
		     u32 end);
int kvt_replay_extent(struct kvt_replay *replay, const struct kvt_log_extent *extent);
int kvt_replay_bury(struct kvt_replay *replay);

/* restore.c */
int kvt_life_restore(struct kvt_life *life);

/* audit.c */
void kvt_image_audit(struct kvt_log *log);

/* recount.c */
void kvt_recount_check(struct kvt_log *log);

#endif /* KVT_LOG_LIFE_H */
