/* SPDX-License-Identifier: GPL-2.0 */
/* Checkpoints: all that is live is written again, and superblocks say where. */
#ifndef KVT_LOG_CHECKPOINT_H
#define KVT_LOG_CHECKPOINT_H

#include <linux/container_of.h>
#include <linux/mutex.h>

#include "commit.h"

/* A log with its commits and checkpoints. */
struct kvt_checkpoints {
	struct kvt_commits commits;
	struct mutex checkpoint_lock;	/* one checkpoint at a time */
	bool unasked;			/* checkpoint_lock: nobody waits for the present one */
	u32 no_room;			/* so many in a row had none */
	u64 number;			/* of the superblock written last */
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

/* save.c */
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

int kvt_save(struct kvt_saved *saved, struct kvt_checkpoints *cps, u64 epoch);
int kvt_saved_room(struct kvt_saved *saved, u32 i, u32 blocks, enum kvt_room room);
void kvt_saved_exit(struct kvt_saved *saved);

/* checkpoint.c */
int kvt_checkpoint(struct kvt_checkpoints *cps);
int kvt_checkpoint_awake(struct kvt_checkpoints *cps);
int kvt_checkpoint_forgo(struct kvt_checkpoints *cps);
void kvt_checkpoint_work(struct work_struct *work);

#endif /* KVT_LOG_CHECKPOINT_H */
