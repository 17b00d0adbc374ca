/* SPDX-License-Identifier: GPL-2.0 */
/* Commits: epochs become durable, by commit records on all devices. */
#ifndef KVT_LOG_COMMIT_H
#define KVT_LOG_COMMIT_H

#include <linux/container_of.h>
#include <linux/mutex.h>

#include "stream.h"

struct kvt_commits;

/* The commit records of a device; under commit_lock. */
struct kvt_chain {
	struct kvt_commits *commits;
	struct kvt_part *part;			/* of the space, on the device */
	struct kvt_log_pos next;		/* where the next one goes */
	struct kvt_log_pos ahead;		/* the first one of the next segment */
	struct kvt_log_pos spare;		/* the same behind that; block 0: not taken yet */
	struct kvtree_log_trailer *trailer;	/* KVTREE_LOG_TRAILER_MAX blocks */
	u32 trailer_blocks;
};

/* What is written again when a life begins: see carry.c. */
struct kvt_carry {
	u64 epoch;		/* 0: nothing */
	u32 nr;
	u32 room;
	u64 time;		/* of its commit record */
	struct kvt_log_extent *extent;	/* all of the epoch's */
};

/* A log with its commits. */
struct kvt_commits {
	struct kvt_log log;
	struct kvt_chain chain[KVTREE_LOG_DEVS_MAX];
	struct kvt_carry carry;
	struct mutex commit_lock;	/* one commit at a time; of what follows */
	u64 lease_next;			/* in the next trailer */
	unsigned long committed;	/* jiffies of the last commit */
	bool unproved;			/* it had records, and none has followed */
	struct delayed_work idle;	/* commits nothing, once nothing else is committed */
};

static inline struct kvt_commits *kvt_commits_of(struct kvt_log *log)
{
	return container_of(log, struct kvt_commits, log);
}

extern unsigned int kvt_log_idle_ms;

/* commit.c */
void kvt_commit_work(struct work_struct *work);
void kvt_idle_work(struct work_struct *work);
int kvt_commit(struct kvt_commits *commits);
int kvt_commit_carried(struct kvt_commits *commits);

/* carry.c */
void kvt_carry_init(struct kvt_commits *commits, const struct kvt_log_found *found);
void kvt_carry_exit(struct kvt_commits *commits);
int kvt_carry_note(struct kvt_commits *commits, const struct kvt_log_extent *extent);
u32 kvt_carry_segments(const struct kvt_commits *commits, const struct kvt_log_dev *dev);
int kvt_carry(struct kvt_commits *commits);

#endif /* KVT_LOG_COMMIT_H */
