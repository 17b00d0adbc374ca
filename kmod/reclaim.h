/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Memory that readers may still hold: freed a grace period later, in batches,
 * by a worker, never in the request ("Analyzing the tradeoff between throughput
 * and latency in multicore scalable in-memory database systems", Mitake et al.
 * 2016).  Retiring never allocates: the object itself carries the link.
 *
 * The amount that waits is bounded per store.  Above the bound writers are made
 * to wait (kvt_reclaim_throttle()); readers never are.
 */
#ifndef KVT_RECLAIM_H
#define KVT_RECLAIM_H

#include <linux/atomic.h>
#include <linux/llist.h>
#include <linux/types.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

struct kvt_stats;

enum kvt_garbage {
	KVT_GARBAGE_VALUE,
	KVT_GARBAGE_BLOB,	/* a large column's block */
	KVT_GARBAGE_LEAF,
	KVT_GARBAGE_INNER,
	KVT_GARBAGE_NR
};

struct kvt_reclaim_cpu {
	struct llist_head list[KVT_GARBAGE_NR];
};

/* Frees one object.  Called by the worker, in process context.  Returns its bytes. */
typedef size_t (*kvt_free_fn)(struct llist_node *link);

struct kvt_reclaim {
	struct kvt_reclaim_cpu __percpu *cpu;
	kvt_free_fn free[KVT_GARBAGE_NR];
	atomic64_t waiting;		/* bytes retired and not yet freed */
	atomic64_t waiting_max;
	u64 bound;			/* bytes */
	struct workqueue_struct *wq;
	struct kvt_stats *stats;
	wait_queue_head_t wait;		/* throttled writers */
	struct delayed_work gather;
	struct rcu_work free_work;
	struct llist_node *batch[KVT_GARBAGE_NR];
	atomic_t state;
};

int kvt_reclaim_init(struct kvt_reclaim *reclaim, struct workqueue_struct *wq,
		     struct kvt_stats *stats, u64 bound);
/* Free everything, waiting for readers.  No producer may be left.  Sleeps. */
void kvt_reclaim_exit(struct kvt_reclaim *reclaim);

/**
 * kvt_reclaim_retire() - hand over an object that is no longer reachable
 * @reclaim: the store's
 * @type: which free function it needs
 * @link: in the object; nobody else may use it any more
 * @bytes: its size, for the bound; the free function must return the same
 *
 * Context: any but NMI; not under a node lock.  Never sleeps, never allocates.
 */
void kvt_reclaim_retire(struct kvt_reclaim *reclaim, enum kvt_garbage type,
			struct llist_node *link, size_t bytes);

/**
 * kvt_reclaim_throttle() - wait until less memory waits than the bound
 * @reclaim: the store's
 * @may_sleep: false: do not wait
 *
 * Context: outside of RCU read sections and locks if @may_sleep.
 *
 * Return: 0, -EAGAIN if it would have to wait and may not, -EINTR if a fatal
 * signal came.
 */
int kvt_reclaim_throttle(struct kvt_reclaim *reclaim, bool may_sleep);

#endif /* KVT_RECLAIM_H */
