/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A store's log, which makes its changes durable.
 *
 * Every change appends a record to the buffer of the CPU it runs on.  The protocol has
 * three parts.
 *
 * Writers.  With the key's place held, kvt_log_reserve() locks the CPU's stream, reads
 * the open epoch, reserves room for the record in the stream's open buffer, unlocks and
 * fills the record.  Then the writer publishes the change in the index and calls
 * kvt_log_publish().  A buffer holds records of one epoch: a writer that finds it full, or
 * of an older epoch, seals it and opens the next.  If no buffer is free, nothing
 * has changed; the writer releases the place and waits outside.
 *
 * Why epochs are consistent cuts.  Let change B depend on change A: B's writer has seen A,
 * or a program acted on it.  A's writer read the epoch before it published A; B's writer
 * reads it later, after a full barrier (the stream's lock).  The epoch only grows, so B's
 * is not smaller than A's: an epoch contains everything its changes depend on.  Closing
 * an epoch waits for no writer, and no writer waits for another CPU.  A record that is
 * reserved but not published keeps its buffer from being written (kvt_log_buf.busy), so
 * everything in a durable epoch is published.
 *
 * Commits.  A worker increments the epoch and seals the streams' buffers of the old one.
 * It writes them, and to each device that has any of them one trailer with their positions and
 * checksums, waits for all writes and flushes each of these devices once.  Then the epoch is
 * durable.  Commits run one at a time; streams may be writing data of later epochs.  Each stream
 * has its own buffers and worker.  Recovery does not care which CPU filled which stream.  When
 * there has been no commit for a while, an empty one follows, on all devices: its trailers show
 * that the epoch before was durable.
 *
 * Lock order: checkpoint_lock, commit_lock, an index's node locks, a stream's lock (raw,
 * bottom halves off).
 */
#ifndef KVT_LOG_H
#define KVT_LOG_H

#include <linux/types.h>
#include <linux/kvtree.h>

#include "events.h"
#include "note.h"
#include "store_env.h"

/* The devices to attach. */
struct kvt_log_args {
	char *const *paths;	/* of devices, in any order */
	u32 nr;			/* 1..KVTREE_LOG_DEVS_MAX */
	bool read_only;		/* nothing is written to them */
	u64 until;		/* restore this epoch, if read-only; 0: the last one */
};

int kvt_logs_init(void);
void kvt_logs_exit(void);

struct kvt_log *kvt_log_open(const struct kvt_log_env *env, const struct kvt_log_args *args);
u64 kvt_log_floor(const struct kvt_log *log);
int kvt_log_start(struct kvt_log *log);
int kvt_log_finish(struct kvt_log *log);
void kvt_log_free(struct kvt_log *log);

int kvt_log_checkpoint(struct kvt_log *log);
u64 kvt_log_stat(const struct kvt_log *log, enum kvtree_stat id);
bool kvt_log_progress(const struct kvt_log *log, u32 *percent);
void kvt_log_uuid(const struct kvt_log *log, __u8 uuid[16]);
int kvt_log_recount(struct kvt_log *log, int (*pause)(void *arg), void *arg,
		    struct kvt_live *live);

#endif /* KVT_LOG_H */
