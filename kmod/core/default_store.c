// SPDX-License-Identifier: GPL-2.0
/*
 * The store 'default', which sessions use until they open another one.
 *
 * It is made when the module is loaded.  If its engine is a module, a worker makes it a moment
 * later: that module can be loaded only after this one, which it needs.  Opening the device waits
 * for the worker.  If the engine's module cannot be loaded, the store is made when that module is
 * loaded after all, and every opening by root has the worker try again.
 */
#include <linux/atomic.h>
#include <linux/capability.h>
#include <linux/errno.h>
#include <linux/jiffies.h>
#include <linux/moduleparam.h>
#include <linux/mutex.h>
#include <linux/printk.h>
#include <linux/user_namespace.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <linux/kvtree.h>

#include "default_store.h"
#include "engine.h"
#include "store.h"
#include "stores.h"

/* When to ask for the engine's module again, which the machine could not load while it slept. */
#define DEFAULT_RETRY		msecs_to_jiffies(200)

/*
 * How long callers that open the device wait, all together: each of them holds a lock of all
 * miscellaneous devices.  The program that loads the engine's module may open one of them.
 */
#define DEFAULT_WAIT		(10 * HZ)

static unsigned int default_limit_mb = 1024;
module_param(default_limit_mb, uint, 0444);
MODULE_PARM_DESC(default_limit_mb, "MiB that the store 'default' may hold (0: no limit)");

static unsigned int default_uid;
module_param(default_uid, uint, 0444);
MODULE_PARM_DESC(default_uid, "owner of the store 'default'");

static unsigned int default_gid;
module_param(default_gid, uint, 0444);
MODULE_PARM_DESC(default_gid, "group of the store 'default'");

static unsigned int default_mode = 0600;
module_param(default_mode, uint, 0444);
MODULE_PARM_DESC(default_mode, "mode of the store 'default', for example 0660");

/* It was not made yet.  Written under the lock, which nobody holds while a module is loaded. */
static bool default_wanted = true;
static DEFINE_MUTEX(default_lock);

/* 1: the worker is about to ask for the engine's module, or waits for it. */
static atomic_t default_asking = ATOMIC_INIT(0);
static DECLARE_WAIT_QUEUE_HEAD(default_asked);
/* When nobody waits for it any more, in jiffies. */
static unsigned long default_end;

static struct kvtree_store_create default_args(void)
{
	return (struct kvtree_store_create) {
		.name = KVT_DEFAULT_STORE,
		.uid = default_uid,
		.gid = default_gid,
		.mode = default_mode,
		.limit_bytes = (u64)default_limit_mb << 20,
	};
}

static int default_create(void)
{
	struct kvtree_store_create args = default_args();

	return kvt_store_create_loaded(&args);
}

/* Whether there is a store of this name: a user may have made another one. */
static bool default_exists(void)
{
	struct kvt_store *store = kvt_store_find(KVT_DEFAULT_STORE);

	if (IS_ERR(store))
		return false;
	kvt_store_put(store);
	return true;
}

/* Make it, unless it was made before.  Loads nothing. */
static int default_make(void)
{
	int err = 0;

	mutex_lock(&default_lock);
	if (default_wanted) {
		err = default_exists() ? 0 : default_create();
		/* One of this name is just being attached. */
		if (err == -EEXIST)
			err = 0;
		if (!err)
			WRITE_ONCE(default_wanted, false);
	}
	mutex_unlock(&default_lock);
	return err;
}

static void default_work_fn(struct work_struct *work)
{
	int err = default_make(), asked = 0;

	if (err == -ENOPKG) {
		asked = kvt_engine_ask("");
		err = default_make();
	}
	if (err && asked == -EBUSY)
		queue_delayed_work(system_freezable_wq, to_delayed_work(work), DEFAULT_RETRY);
	else if (err == -ENOPKG)
		pr_warn_once("kvtree: no store 'default': its engine's module cannot be loaded\n");
	else if (err)
		pr_warn_once("kvtree: no store 'default': error %d\n", err);
	atomic_set(&default_asking, 0);
	/* If the machine is about to sleep, waiting callers must not keep it awake. */
	wake_up_all(&default_asked);
}

static DECLARE_DELAYED_WORK(default_work, default_work_fn);

/* Open files of the device wait until the worker has asked.  Not called by two at once. */
static void default_ask(void)
{
	WRITE_ONCE(default_end, jiffies + DEFAULT_WAIT);
	atomic_set(&default_asking, 1);
}

/**
 * kvt_default_store_init() - make the store, or prepare to
 *
 * Context: module init, when stores can be made.
 *
 * Return: 0 or as kvt_store_create().
 */
int kvt_default_store_init(void)
{
	struct kvtree_store_create args = default_args();
	struct kvt_settings_now settings;
	/* Report wrong parameters now, not when the engine is loaded. */
	int err = kvt_settings_init(&settings, &args) ?: default_make();

	if (err != -ENOPKG)
		return err;
	default_ask();
	return 0;
}

/**
 * kvt_default_store_start() - begin to make the store, if it does not exist
 *
 * Context: module init, which cannot fail any more.
 */
void kvt_default_store_start(void)
{
	if (atomic_read(&default_asking))
		queue_delayed_work(system_freezable_wq, &default_work, 0);
}

/**
 * kvt_default_store_exit() - stop trying to make the store
 *
 * Context: module exit, before stores are destroyed; no engine's module is left.
 */
void kvt_default_store_exit(void)
{
	cancel_delayed_work_sync(&default_work);
}

/**
 * kvt_default_store_retry() - make the store if it does not exist, as an engine was registered
 *
 * Context: process context.
 */
void kvt_default_store_retry(void)
{
	int err = default_make();

	if (err && err != -ENOPKG)
		pr_warn("kvtree: no store 'default': error %d\n", err);
}

/* Whether the caller may have modules loaded.  It did not ask for that: audit nothing. */
static bool default_may_ask(void)
{
	return ns_capable_noaudit(&init_user_ns, CAP_SYS_ADMIN);
}

/**
 * kvt_default_store_wait() - wait until the store was made, or cannot be
 *
 * If it is missing, and the caller may load modules, try again to make it.
 *
 * Context: process context, sleeps; not called by two at once: the device's open().
 *
 * Return: 0 or -EINTR: a fatal signal came.
 */
int kvt_default_store_wait(void)
{
	long left;

	if (READ_ONCE(default_wanted) && !atomic_read(&default_asking) && default_may_ask()) {
		default_ask();
		mod_delayed_work(system_freezable_wq, &default_work, 0);
	}
	left = READ_ONCE(default_end) - jiffies;
	if (atomic_read(&default_asking) && left > 0 &&
	    wait_event_killable_timeout(default_asked, !atomic_read(&default_asking), left) < 0)
		return -EINTR;
	return 0;
}
