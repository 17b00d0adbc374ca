/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A store's log: what makes it durable.
 *
 * Every change is a record in the buffer of the CPU that it is made on.  The
 * protocol, in three parts.
 *
 * Writers.  With the key's place held, kvt_log_reserve() takes the lock of the
 * CPU's stream, reads the open epoch, takes room for the record in the stream's
 * open buffer, lets go of the lock and fills the record; then the change is
 * published in the index, and kvt_log_publish() says so.  A buffer has records of
 * one epoch: who finds that the epoch is another seals it and opens the next one,
 * and so does who finds it full.  If no buffer is free nothing has changed, the
 * writer lets go of the place and waits outside.
 *
 * Why epochs are consistent cuts.  Say that change B depends on change A: its writer
 * has seen A, or a program acted on it.  A read the epoch before it was published,
 * B after, and behind a full barrier (the stream's lock).  The epoch only grows, so B's
 * is not smaller than A's: an epoch contains all that what is in it depends on.  No
 * writer is waited for before an epoch is closed, and none waits for another CPU.
 * A record that has been reserved and not published keeps its buffer from being
 * written (kvt_log_buf.busy): so what a durable epoch contains is published.
 *
 * Commits.  A worker increments the epoch, seals what the streams have of the old
 * one, has that written together with one trailer to every device, with places and
 * checksums of it, waits for all of it and flushes each device once.  Then the epoch
 * is durable.  Commits come one after the other; data of later epochs may be written
 * meanwhile.
 * Streams have buffers, and a worker each; which CPU fills which stream means
 * nothing to what is read back.
 *
 * Lock order: an index's node locks, then a stream's lock (raw, bottom halves
 * off).  commit_lock is outside of both, and inside of checkpoint_lock.
 */
#ifndef KVT_LOG_H
#define KVT_LOG_H

#include <linux/types.h>
#include <linux/wait.h>
#include <linux/kvtree.h>

struct kvt_guests;
struct kvt_index;
struct kvt_key;
struct kvt_log;
struct kvt_log_buf;
struct kvt_quota;
struct kvt_reclaim;
struct kvt_stats;
struct kvt_value;
struct mem_cgroup;
struct wait_queue_entry;

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
wait_queue_head_t *kvt_log_space_queue(struct kvt_log *log);
wait_queue_head_t *kvt_log_durable_queue(struct kvt_log *log);
void kvt_log_guests(struct kvt_log *log, struct kvt_guests *guests);
int kvt_log_checkpoint(struct kvt_log *log);
u64 kvt_log_stat(const struct kvt_log *log, enum kvtree_stat id);
int kvt_log_recount(struct kvt_log *log, int (*pause)(void *arg), void *arg, u64 *live);

#endif /* KVT_LOG_H */
