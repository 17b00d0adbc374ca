/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A store's log: what makes it durable.
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
 * It writes them, and to every device one trailer with their positions and checksums, waits
 * for all writes and flushes each device once.  Then the epoch is durable.  Commits run one
 * at a time; data of later epochs may be written meanwhile.  Each stream has its own buffers
 * and worker.  Recovery does not care which CPU filled which stream.  When no commit has come
 * for a while, one more has no records: its trailer shows that the epoch before was durable.
 *
 * Lock order: checkpoint_lock, commit_lock, an index's node locks, a stream's lock (raw,
 * bottom halves off).
 */
#ifndef KVT_LOG_H
#define KVT_LOG_H

#include <linux/types.h>
#include <linux/kvtree.h>

struct kvt_event;
struct kvt_waiters;
struct kvt_index;
struct kvt_key;
struct kvt_log;
struct kvt_log_buf;
struct kvt_quota;
struct kvt_reclaim;
struct kvt_stats;
struct kvt_value;
struct mem_cgroup;

/* What a store lends its log; it outlives the log. */
struct kvt_log_env {
	const char *name;
	struct kvt_index *index;
	struct kvt_quota *quota;
	struct kvt_reclaim *reclaim;
	struct kvt_stats *stats;
	struct mem_cgroup *memcg;
};

/* What is to be attached. */
struct kvt_log_args {
	char *const *paths;	/* of devices, in any order */
	u32 nr;			/* 1..KVTREE_LOG_DEVS_MAX */
	bool read_only;		/* nothing is written to them */
	u64 until;		/* of a log that is read-only: the epoch; 0: the last one */
};

/* A change between kvt_log_reserve() and kvt_log_publish(). */
struct kvt_log_note {
	struct kvt_log *log;
	struct kvt_log_buf *buf;
	struct kvtree_log_record *record;
	u64 epoch;
	s64 live;		/* by how much the store grows */
};

int kvt_logs_init(void);
void kvt_logs_exit(void);

struct kvt_log *kvt_log_open(const struct kvt_log_env *env, const struct kvt_log_args *args);
u64 kvt_log_floor(const struct kvt_log *log);
int kvt_log_start(struct kvt_log *log);
int kvt_log_finish(struct kvt_log *log);
void kvt_log_free(struct kvt_log *log);

int kvt_log_reserve(struct kvt_log *log, struct kvt_log_note *note, const struct kvt_key *key,
		    const struct kvt_value *old, const struct kvt_value *new);
void kvt_log_publish(struct kvt_log_note *note, bool published);

u64 kvt_log_dirty_epoch(const struct kvt_log *log);
int kvt_log_wait_space(struct kvt_log *log);
int kvt_log_sync(struct kvt_log *log, u64 epoch);
int kvt_log_synced(const struct kvt_log *log, u64 epoch);
void kvt_log_want(struct kvt_log *log, u64 epoch);
bool kvt_log_has_space(const struct kvt_log *log);
struct kvt_event *kvt_log_space_event(struct kvt_log *log);
struct kvt_event *kvt_log_durable_event(struct kvt_log *log);
void kvt_log_waiters(struct kvt_log *log, struct kvt_waiters *waiters);
int kvt_log_checkpoint(struct kvt_log *log);
u64 kvt_log_stat(const struct kvt_log *log, enum kvtree_stat id);
void kvt_log_uuid(const struct kvt_log *log, __u8 uuid[16]);
int kvt_log_recount(struct kvt_log *log, int (*pause)(void *arg), void *arg, u64 *live);

#endif /* KVT_LOG_H */
