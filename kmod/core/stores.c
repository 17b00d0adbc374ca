// SPDX-License-Identifier: GPL-2.0
/* Making, attaching, describing, destroying and detaching stores. */
#include <linux/cred.h>
#include <linux/err.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/wait_bit.h>

#include "audit.h"
#include "base/event.h"
#include "base/index.h"
#include "base/trace.h"
#include "base/value.h"
#include "binding.h"
#include "compat.h"
#include "debugfs.h"
#include "engine.h"
#include "hook.h"
#include "log/log.h"
#include "store.h"
#include "stores.h"

static unsigned int reclaim_bound_mb = 64;
module_param(reclaim_bound_mb, uint, 0644);
MODULE_PARM_DESC(reclaim_bound_mb, "MiB that may await a grace period in a new store, at least 1");

/* When to retry a teardown that had no memory, or would have kept the machine awake, ms. */
#define STORE_RETRY		200

/* For work items of indexes and reclaims. */
static struct workqueue_struct *kvt_wq;
/* For those that wait for memory or for readers: the others must not wait for them. */
static struct workqueue_struct *kvt_slow_wq;
/*
 * For teardowns, which wait for work items of the other queues.  They write a store's changes to
 * its devices, so not while the machine sleeps.
 */
static struct workqueue_struct *kvt_teardown_wq;
static atomic_t kvt_teardowns = ATOMIC_INIT(0);	/* stores not torn down yet */

static const struct kvt_store_bpf *stores_bpf;

/* Write all changes to the devices.  No caller is inside.  Returns false to try again later. */
static bool store_finish(struct kvt_store *store)
{
	int err;

	stores_bpf->late_exit(&store->late_posts);
	err = store->log ? kvt_log_finish(store->log) : 0;
	if (err == -EAGAIN)
		return false;
	store->gone_err = err;
	return true;
}

/* Free what store_fill() made, and the log, which is finished. */
static void store_empty(struct kvt_store *store)
{
	struct kvt_audit audit;

	if (store->log)
		kvt_log_free(store->log);
	kvt_audit_values(&audit, store);
	if (!IS_ERR_OR_NULL(store->index))
		store->index->ops->destroy(store->index);
	if (store->reclaim.cpu)
		kvt_reclaim_exit(&store->reclaim);
	kvt_audit_check(&audit, store);
	if (store->quota.bytes.cpu)
		kvt_quota_exit(&store->quota);
	mem_cgroup_put(store->memcg);
}

/* If the machine is about to sleep, this runs when it is awake again. */
static void store_finish_later(struct kvt_store *store)
{
	queue_delayed_work(kvt_teardown_wq, &store->teardown, msecs_to_jiffies(STORE_RETRY));
}

static void store_teardown(struct work_struct *work)
{
	struct kvt_store *store = container_of(to_delayed_work(work), struct kvt_store, teardown);
	const struct kvt_index_ops *ops = store->index->ops;

	/*
	 * For readers that do not enter, and for the index's destroy().  A process waits for it,
	 * as for an unmount, and it is as rare.  Do it once, even if the rest has to be retried.
	 */
	if (!store->unread) {
		synchronize_rcu_expedited();
		store->unread = true;
	}
	if (!store_finish(store)) {
		store_finish_later(store);
		return;
	}
	store_empty(store);
	kvt_engine_put(ops);
	/* Pairs with kvt_store_gone(). */
	smp_store_release(&store->gone, true);
	kvt_event_wake(&store->gone_event);
	kvt_store_put(store);
	if (atomic_dec_and_test(&kvt_teardowns))
		wake_up_var(&kvt_teardowns);
}

static void store_left(struct percpu_ref *ref)
{
	struct kvt_store *store = container_of(ref, struct kvt_store, inside);

	queue_delayed_work(kvt_teardown_wq, &store->teardown, 0);
}

static int store_fill(struct kvt_store *store, const struct kvt_index_ops *ops, u32 page_size,
		      u64 limit_bytes, u64 limit_keys)
{
	struct kvt_index_env env = {
		.quota = &store->quota,
		.reclaim = &store->reclaim,
		.stats = &store->stats,
		.wq = kvt_wq,
		.slow_wq = kvt_slow_wq,
		.memcg = get_mem_cgroup_from_mm(current->mm),
		.page_size = page_size,
	};
	int err;

	store->memcg = env.memcg;
	err = percpu_ref_init(&store->inside, store_left, 0, GFP_KERNEL);
	if (!err)
		err = kvt_stats_init(&store->stats);
	if (!err)
		err = kvt_quota_init(&store->quota, limit_bytes ?: U64_MAX,
				     limit_keys ?: U64_MAX);
	if (!err)
		err = kvt_reclaim_init(&store->reclaim, kvt_wq, &store->stats,
				       (u64)max(READ_ONCE(reclaim_bound_mb), 1U) << 20);
	if (err)
		return err;
	kvt_value_setup_reclaim(&store->reclaim);
	store->index = ops->create(&env);
	return PTR_ERR_OR_ZERO(store->index);
}

/* List the store without letting it be found yet: it is being recovered. */
static int store_announce(struct kvt_store *store)
{
	int err;

	mutex_lock(&kvt_stores_lock);
	err = kvt_store_enlist(store);
	store->attaching = !err;
	mutex_unlock(&kvt_stores_lock);
	return err;
}

/* Undo store_announce(), as the store could not be recovered. */
static void store_withdraw(struct kvt_store *store)
{
	mutex_lock(&kvt_stores_lock);
	kvt_store_delist(store);
	mutex_unlock(&kvt_stores_lock);
}

/* Let the store be found. */
static int store_publish_locked(struct kvt_store *store)
{
	int err;

	if (!store->attaching) {
		err = kvt_store_enlist(store);
		if (err)
			return err;
	}
	err = kvt_store_reveal(store);
	if (err) {
		if (!store->attaching)
			kvt_store_delist(store);
		return err;
	}
	store->attaching = false;
	store->debugfs = kvt_debugfs_add(store);
	trace_kvt_store_create(store->id, store->name);
	return 0;
}

static int store_publish(struct kvt_store *store)
{
	int err;

	mutex_lock(&kvt_stores_lock);
	err = store_publish_locked(store);
	mutex_unlock(&kvt_stores_lock);
	return err;
}

/* Let the store no longer be found, and free it when all callers have left. */
static void store_unpublish(struct kvt_store *store)
{
	kvt_store_delist(store);
	/* The teardown waits for programs that have found it by a binding. */
	kvt_bindings_close(store);
	kvt_hooks_drop(store);
	kvt_debugfs_remove(store->debugfs);
	trace_kvt_store_destroy(store->id, store->name);
	atomic_inc(&kvt_teardowns);
	/* Keep the log until the callers that wait for it have been woken. */
	percpu_ref_get(&store->inside);
	percpu_ref_kill(&store->inside);
	/* End waiting changes.  Changes that were made have to become durable. */
	if (store->log)
		kvt_event_end(kvt_log_space_event(store->log));
	percpu_ref_put(&store->inside);
}

static struct kvt_store *store_alloc(const struct kvtree_store_create *args)
{
	struct kvt_store *store = kzalloc(sizeof(*store), GFP_KERNEL);

	if (!store)
		return NULL;
	strscpy(store->name, args->name, sizeof(store->name));
	kref_init(&store->ref);
	kvt_event_init(&store->gone_event, "the store to be gone");
	kvt_bindings_init(store);
	stores_bpf->late_init(&store->late_posts);
	INIT_DELAYED_WORK(&store->teardown, store_teardown);
	return store;
}

/* Restore the store from its devices, and log changes from now on. */
static int store_attach(struct kvt_store *store, const struct kvt_log_args *args)
{
	const struct kvt_log_env env = {
		.name = store->name,
		.index = store->index,
		.quota = &store->quota,
		.reclaim = &store->reclaim,
		.stats = &store->stats,
		.memcg = store->memcg,
	};
	struct kvt_log *log;
	int err;

	err = store_announce(store);
	if (err)
		return err;
	log = kvt_log_open(&env, args);
	if (IS_ERR(log))
		return PTR_ERR(log);
	store->log = log;
	atomic64_set(&store->version_floor, kvt_log_floor(log));
	return kvt_log_start(log);
}

/**
 * kvt_store_allow_bpf() - let BPF programs use a store that is bound to their maps
 * @store: the store
 *
 * Context: process context, sleeps.
 *
 * Return: 0; -EOPNOTSUPP: the running kernel does not support it; -ENOMEM; or as
 * kvt_bindings_allow().
 */
int kvt_store_allow_bpf(struct kvt_store *store)
{
	if (!stores_bpf->offered())
		return -EOPNOTSUPP;
	return stores_bpf->prepare() ?: kvt_bindings_allow(store);
}

/*
 * Make a store with an engine, and with devices if there is @log.  The limits do not refuse what is
 * recovered.  The store takes over the reference to the engine if this succeeds.
 */
static int store_make(const struct kvtree_store_create *args, const struct kvt_index_ops *ops,
		      const struct kvt_log_args *log, bool sync)
{
	struct kvt_store *store;
	int err;

	if (!kvt_engine_has_pages(ops, args->page_size))
		return -EINVAL;
	if (args->flags & KVTREE_STORE_BPF && !stores_bpf->offered())
		return -EOPNOTSUPP;

	store = store_alloc(args);
	if (!store)
		return -ENOMEM;
	store->log_sync = sync;
	store->log_read_only = log && log->read_only;
	err = kvt_settings_init(&store->settings, args);
	if (err)
		goto put;
	err = store_fill(store, ops, args->page_size, log ? 0 : args->limit_bytes,
			 log ? 0 : args->limit_keys);
	if (!err && log)
		err = store_attach(store, log);
	if (!err && log)
		kvt_quota_limit(&store->quota, args->limit_bytes ?: U64_MAX,
				args->limit_keys ?: U64_MAX);
	if (!err && args->flags & KVTREE_STORE_BPF)
		err = kvt_store_allow_bpf(store);
	if (!err)
		err = store_publish(store);
	if (err) {
		if (store->attaching)
			store_withdraw(store);
		kvt_bindings_close(store);
		/* There are no changes yet: nothing is lost if this fails. */
		store_finish(store);
		store_empty(store);
	}
put:
	if (err)
		kvt_store_put(store);
	return err;
}

/* Check the arguments, and make a store with the engine that they name; @load: load it first. */
static int store_begin(const struct kvtree_store_create *args, bool load,
		       const struct kvt_log_args *log, bool sync)
{
	const struct kvt_index_ops *ops;
	int err;

	if (!kvt_store_name_valid(args->name) ||
	    !kvt_store_field_valid(args->engine, sizeof(args->engine)) ||
	    args->flags & ~KVTREE_STORE_BPF || args->reserved2 ||
	    memchr_inv(args->reserved, 0, sizeof(args->reserved)))
		return -EINVAL;
	ops = load ? kvt_engine_get(args->engine) : kvt_engine_tryget(args->engine);
	if (IS_ERR(ops))
		return PTR_ERR(ops);
	err = store_make(args, ops, log, sync);
	if (err)
		kvt_engine_put(ops);
	return err;
}

/**
 * kvt_store_create() - make a volatile store
 * @args: from user space; the caller has checked permissions
 *
 * Context: process context, sleeps.
 *
 * Return: 0, -EINVAL, -EEXIST, -ENOMEM, -EDQUOT: not even the empty index fits
 * the limit; -ENOPKG: the engine's module cannot be loaded; -EOPNOTSUPP: nothing is offered to
 * BPF programs.
 */
int kvt_store_create(const struct kvtree_store_create *args)
{
	return store_begin(args, true, NULL, false);
}
KVT_EXPORT_FOR_TESTS(kvt_store_create);

/**
 * kvt_store_create_loaded() - make a volatile store, if its engine is loaded already
 * @args: its settings
 *
 * Context: process context, sleeps.  May be in the init of a module.
 *
 * Return: as kvt_store_create(); -ENOPKG: the engine's module is not loaded.
 */
int kvt_store_create_loaded(const struct kvtree_store_create *args)
{
	return store_begin(args, false, NULL, false);
}

/**
 * kvt_store_attach() - make a store from its devices
 * @store: its settings, from user space
 * @args: from user space; the caller has checked them, and permissions
 * @paths: of the devices
 *
 * Context: process context, sleeps.
 *
 * Return: 0; as kvt_store_create(); or as kvt_log_open() and kvt_log_start().
 */
int kvt_store_attach(const struct kvtree_store_create *store,
		     const struct kvtree_store_attach *args, char *const *paths)
{
	const struct kvt_log_args log = {
		.paths = paths,
		.nr = args->nr_devices,
		.read_only = args->flags & KVTREE_ATTACH_READ_ONLY,
		.until = args->until,
	};

	return store_begin(store, true, &log, args->flags & KVTREE_ATTACH_SYNC);
}

/* Destroy a store or, if @durable, detach one. */
static int store_remove(const char *name, bool durable)
{
	struct kvt_store *store;
	int err = 0;

	mutex_lock(&kvt_stores_lock);
	store = kvt_store_named(name);
	if (!store)
		err = -ENOENT;
	else if (store->attaching)
		err = -EBUSY;
	else if (durable != !!store->log)
		err = durable ? -EOPNOTSUPP : -EBUSY;
	if (!err) {
		kref_get(&store->ref);
		store_unpublish(store);
	}
	mutex_unlock(&kvt_stores_lock);
	if (err)
		return err;
	err = kvt_store_wait_gone(store);
	kvt_store_put(store);
	return err;
}

/**
 * kvt_store_destroy() - destroy a volatile store
 * @name: its name; the caller has checked permissions
 *
 * Waits until all callers inside have left and the memory is freed; a fatal signal
 * ends the wait, not the destruction.
 *
 * Context: process context, sleeps.
 *
 * Return: 0, -ENOENT, -EINTR, or -EBUSY: it has devices, or is about to have.
 */
int kvt_store_destroy(const char *name)
{
	return store_remove(name, false);
}
KVT_EXPORT_FOR_TESTS(kvt_store_destroy);

/**
 * kvt_store_detach() - detach a durable store from its devices, which keep it
 * @name: its name; the caller has checked permissions
 *
 * Waits as kvt_store_destroy() does, and until the devices are released.
 *
 * Context: process context, sleeps.
 *
 * Return: 0; -ENOENT; -EINTR; -EOPNOTSUPP: it has none; -EBUSY: it is being attached;
 * -EIO: not all is durable.
 */
int kvt_store_detach(const char *name)
{
	return store_remove(name, true);
}

static void store_info(struct kvt_store *store, struct kvtree_store_info *info)
{
	const struct kvt_settings settings = kvt_store_settings(store);

	info->id = store->id;
	strscpy_pad(info->name, store->name, sizeof(info->name));
	strscpy_pad(info->engine, store->index->ops->name, sizeof(info->engine));
	info->flags = kvt_bindings_allowed(store) ? KVTREE_STORE_BPF : 0;
	if (store->attaching)
		info->flags |= KVTREE_STORE_ATTACHING;
	if (store->log || store->attaching)
		info->flags |= KVTREE_STORE_DURABLE;
	if (store->log_sync)
		info->flags |= KVTREE_STORE_SYNC;
	if (store->log_read_only)
		info->flags |= KVTREE_STORE_READ_ONLY;
	info->mode = settings.mode;
	info->uid = from_kuid_munged(current_user_ns(), settings.uid);
	info->gid = from_kgid_munged(current_user_ns(), settings.gid);
	info->limit_bytes = settings.limit_bytes;
	info->limit_keys = settings.limit_keys;
	info->page_size = store->index->env.page_size;
	info->keys = kvt_store_stat(store, KVTREE_STAT_KEYS);
	info->bytes = kvt_store_stat(store, KVTREE_STAT_BYTES);
	/* The log of a store that is attaching may be set and freed meanwhile. */
	if (!store->log || store->attaching)
		return;
	kvt_log_uuid(store->log, info->uuid);
	if (kvt_log_progress(store->log, &info->progress))
		info->flags |= KVTREE_STORE_CHECKPOINTING;
}

/**
 * kvt_store_list() - describe the store with the smallest id above a given one
 * @info: its after is read, the rest is filled
 *
 * Context: process context, sleeps.
 *
 * Return: 0 or -ENOENT: there is none.
 */
int kvt_store_list(struct kvtree_store_info *info)
{
	struct kvt_store *store;

	mutex_lock(&kvt_stores_lock);
	store = kvt_store_after(info->after);
	/* A store that is listed is not torn down. */
	if (store)
		store_info(store, info);
	mutex_unlock(&kvt_stores_lock);
	return store ? 0 : -ENOENT;
}

/**
 * kvt_store_describe() - describe a store
 * @store: the store
 * @info: filled
 *
 * Context: process context.
 *
 * Return: 0 or -ESTALE.
 */
int kvt_store_describe(struct kvt_store *store, struct kvtree_store_info *info)
{
	if (!kvt_store_enter(store))
		return -ESTALE;
	store_info(store, info);
	kvt_store_leave(store);
	return 0;
}

/**
 * kvt_stores_init() - prepare to make stores
 * @bpf: the BPF part's functions for stores; valid until module exit
 *
 * Context: module init.
 *
 * Return: 0 or -ENOMEM.
 */
int kvt_stores_init(const struct kvt_store_bpf *bpf)
{
	stores_bpf = bpf;
	kvt_wq = alloc_workqueue("kvtree", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	if (!kvt_wq)
		return -ENOMEM;
	kvt_slow_wq = alloc_workqueue("kvtree_slow", WQ_UNBOUND, 0);
	if (!kvt_slow_wq)
		goto no_slow_wq;
	kvt_teardown_wq = alloc_workqueue("kvtree_teardown", WQ_UNBOUND | WQ_FREEZABLE, 0);
	if (!kvt_teardown_wq)
		goto no_teardown_wq;
	return 0;

no_teardown_wq:
	destroy_workqueue(kvt_slow_wq);
no_slow_wq:
	destroy_workqueue(kvt_wq);
	return -ENOMEM;
}

/**
 * kvt_stores_exit() - destroy every store
 *
 * Context: module exit, sleeps.  No session is left.
 */
void kvt_stores_exit(void)
{
	struct kvt_store *store;

	mutex_lock(&kvt_stores_lock);
	while ((store = kvt_store_after(0)))
		store_unpublish(store);
	mutex_unlock(&kvt_stores_lock);
	/*
	 * The counts of callers inside drop to zero in RCU callbacks, which
	 * then queue the teardowns.
	 */
	rcu_barrier();
	/* Teardowns to be retried are on a timer, not on the queue. */
	wait_var_event(&kvt_teardowns, !atomic_read(&kvt_teardowns));
	destroy_workqueue(kvt_teardown_wq);
	destroy_workqueue(kvt_slow_wq);
	destroy_workqueue(kvt_wq);
}
