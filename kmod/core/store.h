/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A store: a named index with an owner, a mode and limits.
 *
 * Two counts protect a store.  References (kvt_store_find(), kvt_store_put()) belong to
 * sessions and keep struct kvt_store and its counters.  Callers inside the store
 * (kvt_store_enter(), kvt_store_leave()) keep its contents; every operation enters and
 * leaves.  A destroyed store cannot be entered.  When the last caller has left, a worker frees
 * the index and everything that belongs to it; sessions may still hold the shell, and their
 * operations get ESTALE.
 *
 * No caller is inside while it takes a page fault on user memory: the memory's owner could make
 * that last forever, and block the destruction of the store.  An operation that meets a fault
 * leaves, and enters again (kvt_op_leave(), kvt_op_reenter()).  So a caller that is inside
 * leaves soon, unless it waits for an event that kvt_store_waiters() looks at: for memory to be
 * freed, or for devices.  A destruction that takes long names these callers.  Callers that wait
 * for room in the log are sent away (kvt_event_end()).  All others wait for memory at most, and
 * BPF programs are inside for one RCU read section or one post.  Once all have left, only devices
 * that do not answer, or much memory to be freed, can keep a store; then the message says that.
 */
#ifndef KVT_CORE_STORE_H
#define KVT_CORE_STORE_H

#include <linux/atomic.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/percpu-refcount.h>
#include <linux/rcupdate.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <linux/kvtree.h>

#include "base/quota.h"
#include "base/reclaim.h"
#include "base/stats.h"
#include "binding.h"
#include "settings.h"

struct dentry;
struct kvt_waiters;
struct kvt_hook;
struct kvt_index;
struct kvt_log;
struct mem_cgroup;

/* Posts of BPF programs that could not be made at once (bpf/post.c). */
struct kvt_late_posts {
	spinlock_t lock;		/* of the list */
	struct list_head posts;		/* in their order; the first is being made */
	u32 bytes;			/* of the posts; written under the lock */
	struct work_struct work;
};

struct kvt_store {
	/* Fixed from creation on, except validator_turn. */
	struct kvt_index *index;
	struct kvt_log *log;		/* NULL: it is volatile */
	bool log_sync;			/* every change must be durable when it is reported */
	bool log_read_only;		/* nothing can be changed */
	u64 validator_turn;		/* of the validator; 0: there is none (hook.c) */
	struct mem_cgroup *memcg;	/* the creator's; charged for all memory */
	u64 id;
	char name[KVTREE_NAME_MAX];

	struct kvt_settings_now settings;
	struct percpu_ref inside;
	struct kref ref;
	struct list_head list;		/* kvt_stores_lock */
	bool attaching;			/* kvt_stores_lock: it is listed, and cannot be found */
	struct dentry *debugfs;
	struct kvt_bindings bindings;	/* of BPF programs (binding.c) */
	struct kvt_hook __rcu *validator;
	struct kvt_late_posts late_posts;
	struct delayed_work teardown;
	bool unread;			/* teardown: no reader is left */
	struct kvt_event gone_event;
	bool gone;			/* the index is freed, and gone_err is set */
	int gone_err;			/* the error, if not all changes are durable */

	struct kvt_stats stats;
	struct kvt_quota quota;
	struct kvt_reclaim reclaim;

	/*
	 * No value with a greater version was ever removed.  Removals write it, every
	 * write reads it.
	 */
	atomic64_t version_floor ____cacheline_aligned_in_smp;
};

bool kvt_store_field_valid(const char *field, size_t size);
bool kvt_store_name_valid(const char *name);
struct kvt_store *kvt_store_find(const char *name);
struct kvt_store *kvt_store_by_id(u64 id);
void kvt_store_put(struct kvt_store *store);

/* For stores.c. */
extern struct mutex kvt_stores_lock;
struct kvt_store *kvt_store_named(const char *name);
struct kvt_store *kvt_store_after(u64 id);
int kvt_store_enlist(struct kvt_store *store);
int kvt_store_reveal(struct kvt_store *store);
void kvt_store_delist(struct kvt_store *store);

void kvt_store_waiters(struct kvt_store *store, struct kvt_waiters *waiters);
int kvt_store_gone(const struct kvt_store *store);
int kvt_store_wait_gone(struct kvt_store *store);

u64 kvt_store_stat(const struct kvt_store *store, enum kvtree_stat id);
int kvt_store_engine_stat(const struct kvt_store *store, struct kvtree_engine_stat *stat);

u64 kvt_store_next_version(const struct kvt_store *store, u64 old);
void kvt_store_raise_floor(struct kvt_store *store, u64 version);

/**
 * kvt_store_enter() - enter a store, which keeps its contents
 * @store: the store, with a reference held
 *
 * Context: any.
 *
 * Return: true, and kvt_store_leave() must follow; false if it was destroyed.
 */
static inline bool kvt_store_enter(struct kvt_store *store)
{
	return percpu_ref_tryget_live(&store->inside);
}

/**
 * kvt_store_leave() - end of kvt_store_enter()
 * @store: the store
 *
 * Context: any.
 */
static inline void kvt_store_leave(struct kvt_store *store)
{
	percpu_ref_put(&store->inside);
}

/**
 * kvt_store_dying() - whether a teardown waits for callers to leave
 * @store: a store that the caller is inside of, or has a reference to
 *
 * Context: any.
 *
 * Return: true if it was destroyed meanwhile.
 */
static inline bool kvt_store_dying(struct kvt_store *store)
{
	return percpu_ref_is_dying(&store->inside);
}

/**
 * kvt_store_enter_rcu() - enter a store for a short time
 * @store: the store, with a reference held
 *
 * Cheaper than kvt_store_enter(): the contents stay for a grace period after the
 * store can no longer be entered.
 *
 * Context: any.
 *
 * Return: true, under rcu_read_lock(), and kvt_store_leave_rcu() must follow;
 * false if it was destroyed.
 */
static inline bool kvt_store_enter_rcu(struct kvt_store *store)
{
	rcu_read_lock();
	if (likely(!kvt_store_dying(store)))
		return true;
	rcu_read_unlock();
	return false;
}

/**
 * kvt_store_leave_rcu() - end of kvt_store_enter_rcu()
 * @store: the store
 *
 * Context: any.
 */
static inline void kvt_store_leave_rcu(struct kvt_store *store)
{
	rcu_read_unlock();
}

#endif /* KVT_CORE_STORE_H */
