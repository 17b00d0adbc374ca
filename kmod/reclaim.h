/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Memory that readers may still hold: freed a grace period later, in batches,
 * by a worker, never in the request ("Analyzing the tradeoff between throughput
 * and latency in multicore scalable in-memory database systems", Mitake et al.
 * 2016).  Retiring never allocates: the object itself carries the link.
 *
 * The amount that waits is bounded per store.  Above the bound writers are made
 * to wait (kvt_reclaim_throttle()); readers never are.
 *
 * One cycle at a time: gather (take what lies on the CPUs' lists), a grace
 * period, free, and gather again until there is nothing.  kvt_reclaim.state
 * says where the cycle is.
 */
#ifndef KVT_RECLAIM_H
#define KVT_RECLAIM_H

#include <linux/atomic.h>
#include <linux/llist.h>
#include <linux/percpu.h>
#include <linux/types.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

struct kvt_stats;

enum kvt_garbage {
	KVT_GARBAGE_VALUE,	/* a value with all of its blobs */
	KVT_GARBAGE_SHELL,	/* a value without its blobs */
	KVT_GARBAGE_BLOB,	/* a large column's block */
	KVT_GARBAGE_LEAF,
	KVT_GARBAGE_INNER,
	KVT_GARBAGE_NR
};

struct kvt_reclaim_cpu {
	struct llist_head list[KVT_GARBAGE_NR];
	atomic64_t pending;	/* bytes not yet added to kvt_reclaim.waiting */
	struct llist_node *garbage[KVT_GARBAGE_NR];	/* of the present cycle */
};

/* Frees one object.  Called by the worker, in process context.  Returns its bytes. */
typedef size_t (*kvt_free_fn)(struct llist_node *link);

struct kvt_reclaim {
	struct kvt_reclaim_cpu __percpu *cpu;
	kvt_free_fn free[KVT_GARBAGE_NR];
	u64 bound;			/* bytes */
	s64 batch;			/* bytes that a CPU counts by itself */
	struct workqueue_struct *wq;
	struct kvt_stats *stats;
	atomic64_t waiting;		/* bytes retired and not yet freed */
	s64 waiting_max;
	atomic_t state;
	wait_queue_head_t wait;		/* throttled writers */
	struct delayed_work gather;
	struct rcu_work free_work;
};

int kvt_reclaim_init(struct kvt_reclaim *reclaim, struct workqueue_struct *wq,
		     struct kvt_stats *stats, u64 bound);
/* Free everything, waiting for readers.  No producer may be left.  Sleeps. */
void kvt_reclaim_exit(struct kvt_reclaim *reclaim);

void kvt_reclaim_retire(struct kvt_reclaim *reclaim, enum kvt_garbage type,
			struct llist_node *link, size_t bytes);
int kvt_reclaim_throttle(struct kvt_reclaim *reclaim, bool may_sleep);
bool kvt_reclaim_wait(struct kvt_reclaim *reclaim, struct wait_queue_entry *entry);
bool kvt_reclaim_unwait(struct kvt_reclaim *reclaim, struct wait_queue_entry *entry);
u64 kvt_reclaim_waiting(const struct kvt_reclaim *reclaim);
u64 kvt_reclaim_waiting_max(const struct kvt_reclaim *reclaim);

#endif /* KVT_RECLAIM_H */
