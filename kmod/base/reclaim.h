/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Memory that readers may still hold: freed a grace period later, in batches,
 * by a worker and not in the request ("Analyzing the tradeoff between throughput
 * and latency in multicore scalable in-memory database systems", Mitake et al.
 * 2016).
 *
 * Retiring never allocates and never fails.  Nodes and blobs carry a link.  Values do
 * not, because one more word would be a third of a small one; a bag collects pointers
 * to them.  Before a writer publishes a value's replacement, it owns a bag with room.
 * Right after that it leaves the bag to the CPU's next writer or, if it is full, to the
 * worker, which also fetches bags that are partly full.
 *
 * The memory that waits is bounded per store.  Above the bound writers wait
 * (kvt_reclaim_throttle()); readers never do.  A writer that began below the bound may
 * exceed it by what its one change replaces: a value of a MiB, or the layers that only
 * a long key used; a worker of a recovery, by a few pages.  Above a sixteenth of the
 * bound the worker lags behind, and each write that may sleep frees one value after its
 * grace period: a write takes little longer, and none waits for many.  Such a value may
 * be counted as freed when its writer is still about to free it.
 *
 * A thread may be preempted anywhere, for as long as threads of a higher priority run.  So a
 * writer that frees a value first takes it off the list, under a lock that is not held while
 * anything is freed.  And a writer has a bag with values of other writers only with preemption
 * off: it takes the bag while it holds its key's place, and gives it back before it may be
 * preempted or sleep.
 *
 * The worker runs one cycle at a time: gather the CPUs' lists, wait for a grace period,
 * free, and gather again until nothing is left.  kvt_reclaim.state says where the cycle
 * is.
 */
#ifndef KVT_BASE_RECLAIM_H
#define KVT_BASE_RECLAIM_H

#include <linux/atomic.h>
#include <linux/gfp_types.h>
#include <linux/llist.h>
#include <linux/percpu.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/workqueue.h>

#include "event.h"

struct kvt_stats;

enum kvt_garbage {
	KVT_GARBAGE_BLOB,	/* a large column's block */
	KVT_GARBAGE_LEAF,
	KVT_GARBAGE_INNER,
	KVT_GARBAGE_NR
};

/* In kvt_reclaim_cpu.bag: the bag is empty, and nothing to the worker. */
#define KVT_BAG_EMPTY	1ul

/* With this many values a bag takes 1 KiB. */
#define KVT_BAG_VALUES	125

struct kvt_bag {
	struct llist_node link;
	size_t bytes;		/* retired with it */
	u32 nr;
	u32 freed;		/* values freed, or about to be */
	void *value[KVT_BAG_VALUES];
};

struct kvt_reclaim_cpu {
	struct llist_head list[KVT_GARBAGE_NR];
	unsigned long bag;	/* one with room, or 0; taken by an exchange */
	struct llist_head bags;	/* full ones, or surplus */
	atomic64_t pending;	/* bytes not yet added to kvt_reclaim.waiting */
	/* The worker's, of the present cycle. */
	struct llist_node *garbage[KVT_GARBAGE_NR];
	struct llist_node *gathered;	/* bags */
	/* The same bags, after their grace period: writers and the worker free them. */
	spinlock_t ready_lock;		/* of @ready */
	struct llist_node *ready;
};

/* Frees one object.  Called by the worker, in process context.  Returns its bytes. */
typedef size_t (*kvt_free_fn)(struct llist_node *link);

/* Frees values, of a bag or others.  Process context, may sleep. */
typedef void (*kvt_free_values_fn)(void **values, unsigned int nr);

struct kvt_reclaim {
	struct kvt_reclaim_cpu __percpu *cpu;
	kvt_free_fn free[KVT_GARBAGE_NR];
	kvt_free_values_fn free_values;
	u64 bound;			/* bytes */
	s64 batch;			/* bytes that a CPU counts by itself */
	s64 help;			/* of .waiting; above it writers help */
	s64 limit;			/* of .waiting; keeps all that waits under the bound */
	struct workqueue_struct *wq;
	struct kvt_stats *stats;
	atomic64_t waiting;		/* bytes retired and not yet freed */
	s64 waiting_max;
	atomic_t state;
	struct kvt_event freed;		/* for throttled writers */
	struct delayed_work gather;
	struct rcu_work free_work;
};

int kvt_reclaim_init(struct kvt_reclaim *reclaim, struct workqueue_struct *wq,
		     struct kvt_stats *stats, u64 bound);
/* Free everything, waiting for readers.  No producer may be left.  Sleeps. */
void kvt_reclaim_exit(struct kvt_reclaim *reclaim);

void kvt_reclaim_retire(struct kvt_reclaim *reclaim, enum kvt_garbage type,
			struct llist_node *link, size_t bytes);

bool kvt_bag_is_there(const struct kvt_reclaim *reclaim);
struct kvt_bag *kvt_bag_take(struct kvt_reclaim *reclaim);
struct kvt_bag *kvt_bag_new(gfp_t gfp);
struct kvt_bag *kvt_bag_get(struct kvt_reclaim *reclaim, gfp_t gfp);
void kvt_bag_put(struct kvt_reclaim *reclaim, struct kvt_bag *bag);
void kvt_reclaim_retire_value(struct kvt_reclaim *reclaim, struct kvt_bag *bag, void *value,
			      size_t bytes);

int kvt_reclaim_throttle(struct kvt_reclaim *reclaim, bool may_sleep);
struct kvt_event *kvt_reclaim_event(struct kvt_reclaim *reclaim);
u64 kvt_reclaim_waiting(const struct kvt_reclaim *reclaim);
u64 kvt_reclaim_waiting_max(const struct kvt_reclaim *reclaim);

#endif /* KVT_BASE_RECLAIM_H */
