// SPDX-License-Identifier: GPL-2.0
/* A store as its users see it: by name or id, its counters, its versions, its end. */
#include <linux/err.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/nospec.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/xarray.h>

#include "base/event.h"
#include "base/index.h"
#include "base/name.h"
#include "base/waiter.h"
#include "compat.h"
#include "log/log.h"
#include "store.h"

/* How long destroying a store waits before the kernel's log says what it waits for. */
#define STORE_PATIENCE		(5 * HZ)

/* By how much a removal raises the floor above the version that it removes. */
#define KVT_VERSION_SPARE	4096

/* Protects the list and its members. */
DEFINE_MUTEX(kvt_stores_lock);
static LIST_HEAD(stores);		/* ascending by id */
static u64 store_last_id;
/* Stores that can be found; the teardown of a store waits for readers. */
static DEFINE_XARRAY(stores_by_id);

/**
 * kvt_store_field_valid() - whether a field from user space holds a string
 * @field: the field
 * @size: its bytes
 *
 * Context: any.
 *
 * Return: true if it is terminated, with nothing but zeros after it.
 */
bool kvt_store_field_valid(const char *field, size_t size)
{
	size_t len = strnlen(field, size);

	return len < size && !memchr_inv(field + len, 0, size - len);
}

/**
 * kvt_store_name_valid() - whether a store may have a name
 * @name: a field of KVTREE_NAME_MAX bytes, from user space
 *
 * Context: any.
 *
 * Return: true if it is a string, and made of nothing but allowed characters.
 */
bool kvt_store_name_valid(const char *name)
{
	if (!kvt_store_field_valid(name, KVTREE_NAME_MAX) || !*name)
		return false;
	return strcmp(name, ".") && strcmp(name, "..") && kvt_name_allowed(name);
}

static void store_free(struct kref *ref)
{
	struct kvt_store *store = container_of(ref, struct kvt_store, ref);

	if (store->stats.cpu)
		kvt_stats_exit(&store->stats);
	percpu_ref_exit(&store->inside);
	kfree(store);
}

/**
 * kvt_store_put() - drop a reference
 * @store: the store, or NULL
 *
 * Context: any.
 */
void kvt_store_put(struct kvt_store *store)
{
	if (store)
		kref_put(&store->ref, store_free);
}
KVT_EXPORT_FOR_TESTS(kvt_store_put);

/**
 * kvt_store_named() - a store by name, also one that is being attached
 * @name: its name
 *
 * Context: under kvt_stores_lock.
 *
 * Return: the store, or NULL.
 */
struct kvt_store *kvt_store_named(const char *name)
{
	struct kvt_store *store;

	lockdep_assert_held(&kvt_stores_lock);
	list_for_each_entry(store, &stores, list)
		if (!strcmp(store->name, name))
			return store;
	return NULL;
}

/**
 * kvt_store_after() - the store with the smallest id above a given one
 * @id: that id; 0: the first store
 *
 * Context: under kvt_stores_lock.
 *
 * Return: the store, or NULL: there is none.
 */
struct kvt_store *kvt_store_after(u64 id)
{
	struct kvt_store *store;

	lockdep_assert_held(&kvt_stores_lock);
	list_for_each_entry(store, &stores, list)
		if (store->id > id)
			return store;
	return NULL;
}

/**
 * kvt_store_enlist() - list a store under its name, and give it an id
 * @store: the store
 *
 * Context: under kvt_stores_lock.
 *
 * Return: 0 or -EEXIST.
 */
int kvt_store_enlist(struct kvt_store *store)
{
	lockdep_assert_held(&kvt_stores_lock);
	if (kvt_store_named(store->name))
		return -EEXIST;
	store->id = ++store_last_id;
	list_add_tail(&store->list, &stores);
	return 0;
}

/**
 * kvt_store_reveal() - let lookups by id find a store that is listed
 * @store: the store
 *
 * Context: under kvt_stores_lock, sleeps.
 *
 * Return: 0 or -ENOMEM.
 */
int kvt_store_reveal(struct kvt_store *store)
{
	lockdep_assert_held(&kvt_stores_lock);
	return xa_err(xa_store(&stores_by_id, store->id, store, GFP_KERNEL));
}

/**
 * kvt_store_delist() - hide a store from lookups
 * @store: the store, which is listed
 *
 * Context: under kvt_stores_lock.
 */
void kvt_store_delist(struct kvt_store *store)
{
	lockdep_assert_held(&kvt_stores_lock);
	list_del(&store->list);
	xa_erase(&stores_by_id, store->id);
}

/**
 * kvt_store_find() - a store by name
 * @name: its name
 *
 * Context: process context, sleeps.
 *
 * Return: the store with a reference, or ERR_PTR(-ENOENT).
 */
struct kvt_store *kvt_store_find(const char *name)
{
	struct kvt_store *store;

	mutex_lock(&kvt_stores_lock);
	store = kvt_store_named(name);
	if (store && store->attaching)
		store = NULL;
	if (store)
		kref_get(&store->ref);
	mutex_unlock(&kvt_stores_lock);
	return store ?: ERR_PTR(-ENOENT);
}
KVT_EXPORT_FOR_TESTS(kvt_store_find);

/**
 * kvt_store_by_id() - a store by its id
 * @id: its id, which no other store ever has
 *
 * Context: under rcu_read_lock(), which keeps the store; any context.
 *
 * Return: the store, or NULL: it is gone.
 */
struct kvt_store *kvt_store_by_id(u64 id)
{
	return xa_load(&stores_by_id, id);
}

/**
 * kvt_store_waiters() - list the processes that wait inside of a store
 * @store: a store that the caller is inside of, or that is listed
 * @waiters: filled
 *
 * Context: process context.
 */
void kvt_store_waiters(struct kvt_store *store, struct kvt_waiters *waiters)
{
	memset(waiters, 0, sizeof(*waiters));
	kvt_waiters_add(waiters, kvt_reclaim_event(&store->reclaim));
	if (store->log)
		kvt_log_waiters(store->log, waiters);
}
KVT_EXPORT_FOR_TESTS(kvt_store_waiters);

/* Log which processes, or what else, keep a destroyed store. */
static void store_name_waiters(struct kvt_store *store)
{
	const struct kvt_waiter *waiter;
	struct kvt_waiters waiters;
	unsigned int i;

	/* Unless all callers have left, this keeps the store, although no caller may enter now. */
	if (!percpu_ref_tryget(&store->inside)) {
		pr_info("kvtree: store '%s' is freed once %s\n", store->name,
			store->log ? "its changes are on its devices" : "its memory is reclaimed");
		return;
	}
	kvt_store_waiters(store, &waiters);
	kvt_store_leave(store);
	pr_info("kvtree: store '%s' is freed once all calls in progress have ended\n",
		store->name);
	for (i = 0; i < waiters.nr; i++) {
		waiter = &waiters.waiter[i];
		pr_info("kvtree: store '%s': %s of process %d (%s) waits for %s\n", store->name,
			waiter->command ? "a command" : "a call", waiter->pid, waiter->comm,
			waiter->what);
	}
	if (waiters.more)
		pr_info("kvtree: store '%s': and %u more\n", store->name, waiters.more);
}

/*
 * Wait, with no locks held, and allow the process to be killed or frozen: it may wait for a process
 * that is frozen already.  Returns 0 after the timeout.
 */
#define store_wait_event_timeout(wq, condition, timeout)				\
	___wait_event(wq, ___wait_cond_timeout(condition), (TASK_KILLABLE | TASK_FREEZABLE), 0, \
		      timeout, __ret = schedule_timeout(__ret))

/**
 * kvt_store_gone() - whether the contents of a destroyed store are freed
 * @store: the store, with a reference held
 *
 * Context: any.  @store->gone_event is the event.
 *
 * Return: 0: they are, and all changes of a durable store are durable; -EIO: they are, and not all
 * changes are durable; -EAGAIN: not yet.
 */
int kvt_store_gone(const struct kvt_store *store)
{
	/* Pairs with store_teardown(): its result is read after this. */
	if (!smp_load_acquire(&store->gone))
		return -EAGAIN;
	return store->gone_err ? -EIO : 0;
}

/**
 * kvt_store_wait_gone() - wait until the contents of a destroyed store are freed
 * @store: the store, which no caller can enter any more; the caller has a reference, and
 *	is not inside
 *
 * Context: process context, sleeps.
 *
 * Return: 0: all changes of a durable store are durable; -EIO: not all of them;
 * -EINTR: a fatal signal came.
 */
int kvt_store_wait_gone(struct kvt_store *store)
{
	long left;

	do {
		left = store_wait_event_timeout(store->gone_event.head,
						kvt_store_gone(store) != -EAGAIN, STORE_PATIENCE);
		if (!left)
			store_name_waiters(store);
	} while (!left);
	return left < 0 ? -EINTR : kvt_store_gone(store);
}

/**
 * kvt_store_stat() - a counter of a store
 * @store: a store that the caller is inside of, or that is listed
 * @id: which
 *
 * Context: any.
 *
 * Return: its value.
 */
u64 kvt_store_stat(const struct kvt_store *store, enum kvtree_stat id)
{
	switch (id) {
	case KVTREE_STAT_KEYS:
		return kvt_quota_keys(&store->quota);
	case KVTREE_STAT_BYTES:
		return kvt_quota_bytes(&store->quota);
	case KVTREE_STAT_WAITING_BYTES:
		return kvt_reclaim_waiting(&store->reclaim);
	case KVTREE_STAT_WAITING_MAX:
		return kvt_reclaim_waiting_max(&store->reclaim);
	case KVTREE_STAT_LOG_EPOCH:
	case KVTREE_STAT_LOG_DURABLE:
	case KVTREE_STAT_LOG_LIVE_BYTES:
	case KVTREE_STAT_LOG_LIVE_MAX:
	case KVTREE_STAT_LOG_CAPACITY:
	case KVTREE_STAT_LOG_FREE_BYTES:
	case KVTREE_STAT_LOG_ERROR:
	case KVTREE_STAT_LOG_IMAGE_BYTES:
	case KVTREE_STAT_LOG_RANGES:
	case KVTREE_STAT_LOG_PIECES:
		return store->log ? kvt_log_stat(store->log, id) : 0;
	default:
		return kvt_stats_read(&store->stats, id);
	}
}
KVT_EXPORT_FOR_TESTS(kvt_store_stat);

/**
 * kvt_store_engine_stat() - a counter of a store's engine
 * @store: a store that the caller is inside of, or that is listed
 * @stat: its nr says which, the rest is filled
 *
 * Context: any.
 *
 * Return: 0 or -ENOENT: the engine has no counter of that number.
 */
int kvt_store_engine_stat(const struct kvt_store *store, struct kvtree_engine_stat *stat)
{
	const struct kvt_index_ops *ops = store->index->ops;
	const struct kvt_index_stat *found;
	u32 nr = stat->nr;

	if (nr >= ops->nr_stats)
		return -ENOENT;
	nr = array_index_nospec(nr, ops->nr_stats);
	found = &ops->stats[nr];
	*stat = (struct kvtree_engine_stat) {
		.nr = nr,
		.flags = found->now ? KVTREE_ENGINE_STAT_NOW : 0,
		.value = kvt_stats_read(&store->stats, KVT_STAT_ENGINE + nr),
	};
	strscpy(stat->name, found->name, sizeof(stat->name));
	strscpy(stat->text, found->text, sizeof(stat->text));
	return 0;
}

/**
 * kvt_store_next_version() - the version of a value before it is published
 * @store: the store
 * @old: version of the value that it replaces; 0: there is none
 *
 * Context: the key's place is held (after begin() of the index): a removal of
 * the key has raised the floor before the place could be taken.
 *
 * Return: a version larger than any that the key has had.
 */
u64 kvt_store_next_version(const struct kvt_store *store, u64 old)
{
	return max_t(u64, old, atomic64_read(&store->version_floor)) + 1;
}

/**
 * kvt_store_raise_floor() - keep versions growing across a removal
 * @store: the store
 * @version: of the value that is about to be removed
 *
 * Context: any; before the removal is committed.
 */
void kvt_store_raise_floor(struct kvt_store *store, u64 version)
{
	s64 floor = atomic64_read(&store->version_floor);

	while ((u64)floor < version)
		if (atomic64_try_cmpxchg(&store->version_floor, &floor,
					 version + KVT_VERSION_SPARE))
			break;
}
KVT_EXPORT_FOR_TESTS(kvt_store_raise_floor);
