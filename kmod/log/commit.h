/* SPDX-License-Identifier: GPL-2.0 */
/* Commits: commit records (struct kvtree_log_trailer) make an epoch durable. */
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
	struct kvt_log_pos next;		/* of the next commit record */
	struct kvt_log_pos ahead;		/* of the first one in the next segment */
	struct kvt_log_pos spare;		/* ... and in the one after; block 0: no segment */
	struct kvtree_log_trailer *trailer;	/* KVTREE_LOG_TRAILER_MAX blocks */
	u32 trailer_blocks;
};

/* The epoch that is written again when a life begins: see carry.c. */
struct kvt_carry {
	u64 epoch;		/* the epoch; 0: nothing is carried */
	u32 nr;
	u32 room;
	u64 time;		/* of its commit record */
	struct kvt_log_extent *extent;	/* all extents of the epoch */
};

/* A log with its commits. */
struct kvt_commits {
	struct kvt_log log;
	struct kvt_chain chain[KVTREE_LOG_DEVS_MAX];
	struct kvt_carry carry;
	struct mutex commit_lock;	/* serializes commits; protects the fields up to unproved */
	u64 lease_next;			/* the lease in the next trailers */
	u32 devices;			/* a bit for each that has the last trailers */
	unsigned long committed;	/* jiffies of the last commit */
	bool unproved;			/* it had records, and no commit has followed */
	struct delayed_work idle;	/* commits an empty epoch when the log is idle */
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
void kvt_carry_sort(struct kvt_commits *commits);
u32 kvt_carry_segments(const struct kvt_commits *commits, const struct kvt_part *part);
int kvt_carry(struct kvt_commits *commits);

#endif /* KVT_LOG_COMMIT_H */
