// SPDX-License-Identifier: GPL-2.0
/*
 * The engines, and the default for stores that name none.
 *
 * An engine may be a module of its own, which registers here and is loaded when a store first
 * needs it.  A store has a reference to its engine's module until its index is freed.
 */
#include <linux/err.h>
#include <linux/kernel.h>
#include <linux/kmod.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/string.h>
#include <linux/umh.h>
#include <linux/kvtree.h>

#include "base/index.h"
#include "base/stats.h"
#include "compat.h"
#include "default_store.h"
#include "engine.h"

/* How often to ask for a module: a machine that has been awake for a moment may sleep again. */
#define ENGINE_TRIES	5

struct kvt_engine {
	const char *name;
	const struct kvt_index_ops *ops;	/* NULL: it is not registered */
	struct module *owner;			/* NULL: it is part of this module */
};

/* Protects what engines register.  Not held while a module is loaded. */
static DEFINE_MUTEX(engines_lock);

/* Users can have only these engines' modules loaded. */
static struct kvt_engine engines[] = {
	{ "masstree", &kvt_masstree_ops },
#ifdef KVT_BWTREE_BUILTIN
	{ "bwtree", &kvt_bwtree_ops },
#else
	{ "bwtree" },
#endif
};

static struct kvt_engine *engine_default = &engines[0];

static struct kvt_engine *engine_named(const char *name)
{
	unsigned int i;

	if (!*name)
		return READ_ONCE(engine_default);
	for (i = 0; i < ARRAY_SIZE(engines); i++)
		if (!strcmp(engines[i].name, name))
			return &engines[i];
	return NULL;
}

static const struct kvt_index_ops *engine_tryget(const struct kvt_engine *engine)
{
	const struct kvt_index_ops *ops;

	mutex_lock(&engines_lock);
	ops = engine->ops;
	if (ops && !try_module_get(engine->owner))
		ops = NULL;
	mutex_unlock(&engines_lock);
	return ops;
}

/**
 * kvt_engine_tryget() - an engine by its name, with a reference to its module, if it is loaded
 * @name: its name, terminated; "": the default
 *
 * Context: process context.
 *
 * Return: the engine, for kvt_engine_put(); ERR_PTR(-EINVAL): there is none of that name;
 * ERR_PTR(-ENOPKG): its module is not loaded.
 */
const struct kvt_index_ops *kvt_engine_tryget(const char *name)
{
	const struct kvt_engine *engine = engine_named(name);

	if (!engine)
		return ERR_PTR(-EINVAL);
	return engine_tryget(engine) ?: ERR_PTR(-ENOPKG);
}

static int engine_ask(const struct kvt_engine *engine)
{
	/* A program's exit code is not negative, and modprobe's success does not say much. */
	return request_module("kvtree-engine-%s", engine->name) == -EBUSY ? -EBUSY : 0;
}

/**
 * kvt_engine_ask() - ask for an engine's module once, if it is not loaded
 * @name: the engine's name, terminated; "": the default
 *
 * Context: process context, sleeps.  Holds no lock, and is not in the init of this module, which
 * the engine's module needs.
 *
 * Return: 0, whether or not it is loaded now; -EINVAL: there is no engine of that name; -EBUSY:
 * the machine is about to sleep, and starts no program that could load it.
 */
int kvt_engine_ask(const char *name)
{
	const struct kvt_index_ops *ops = kvt_engine_tryget(name);

	if (ops == ERR_PTR(-ENOPKG))
		return engine_ask(engine_named(name));
	if (IS_ERR(ops))
		return PTR_ERR(ops);
	kvt_engine_put(ops);
	return 0;
}

/* A machine that is about to sleep stops the process here.  Returns false if it never wakes. */
static bool engine_wait_awake(void)
{
	if (usermodehelper_read_trylock())
		return false;
	usermodehelper_read_unlock();
	return true;
}

/**
 * kvt_engine_get() - an engine by its name, with a reference to its module
 * @name: its name, terminated; "": the default
 *
 * Loads the engine's module if it is not loaded: the caller has checked that the user has
 * CAP_SYS_ADMIN, or the user did not choose the engine.
 *
 * Context: in a process's system call, sleeps.  Holds no lock.
 *
 * Return: the engine, for kvt_engine_put(); ERR_PTR(-EINVAL): there is none of that name;
 * ERR_PTR(-ENOPKG): its module cannot be loaded.
 */
const struct kvt_index_ops *kvt_engine_get(const char *name)
{
	const struct kvt_engine *engine = engine_named(name);
	const struct kvt_index_ops *ops;
	unsigned int tries = ENGINE_TRIES;

	if (!engine)
		return ERR_PTR(-EINVAL);
	ops = engine_tryget(engine);
	if (ops)
		return ops;
	while (engine_ask(engine) == -EBUSY && --tries && engine_wait_awake())
		;
	return engine_tryget(engine) ?: ERR_PTR(-ENOPKG);
}

/**
 * kvt_engine_put() - drop the reference to an engine's module
 * @ops: the engine; no function of it runs or will run for the caller's index
 *
 * Context: process context.
 */
void kvt_engine_put(const struct kvt_index_ops *ops)
{
	/* The reference keeps it registered. */
	module_put(engine_named(ops->name)->owner);
}

/**
 * kvt_engine_has_pages() - whether an engine supports the page size that a user asks for
 * @ops: the engine
 * @size: bytes; 0: the user does not ask
 *
 * Context: any.
 *
 * Return: true if they can.
 */
bool kvt_engine_has_pages(const struct kvt_index_ops *ops, u32 size)
{
	if (!size)
		return true;
	return ops->page_min && size >= ops->page_min && size <= ops->page_max;
}

/**
 * __kvt_engine_register() - let stores use the engine of a module: see kvt_engine_register()
 * @ops: the engine
 * @owner: its module
 * @build: a checksum of the headers that the module was built with
 *
 * Context: the module's init, after everything else.
 *
 * Return: 0; -EINVAL: no engine of that name can be registered, or the headers were others
 * than this module's; -EEXIST.
 */
int __kvt_engine_register(const struct kvt_index_ops *ops, struct module *owner, u32 build)
{
	struct kvt_engine *engine = engine_named(ops->name);
	int err = -EEXIST;

	if (build != KVT_ENGINE_BUILD) {
		pr_err_once("kvtree: %s was built for another version than the one that is loaded\n",
			    module_name(owner));
		return -EINVAL;
	}
	if (!engine || ops->iter_size > KVT_ITER_SIZE_MAX || ops->nr_stats > KVT_STAT_ENGINE_MAX)
		return -EINVAL;
	mutex_lock(&engines_lock);
	if (!engine->ops) {
		engine->ops = ops;
		engine->owner = owner;
		err = 0;
	}
	mutex_unlock(&engines_lock);
	if (!err)
		kvt_default_store_retry();
	return err;
}
KVT_EXPORT(__kvt_engine_register);

/**
 * kvt_engine_unregister() - undo kvt_engine_register()
 * @ops: the engine, to whose module no store has a reference
 *
 * Context: the module's exit.
 */
void kvt_engine_unregister(const struct kvt_index_ops *ops)
{
	struct kvt_engine *engine = engine_named(ops->name);

	mutex_lock(&engines_lock);
	engine->ops = NULL;
	engine->owner = NULL;
	mutex_unlock(&engines_lock);
}
KVT_EXPORT(kvt_engine_unregister);

/* Does not load the engine: parameters are set under a lock, and before the module's init. */
static int engine_set(const char *text, const struct kernel_param *param)
{
	struct kvt_engine *engine;
	char name[KVTREE_ENGINE_MAX];

	/* As echo writes it. */
	if (strscpy(name, text, sizeof(name)) < 0)
		return -EINVAL;
	engine = engine_named(strim(name));
	if (!engine)
		return -EINVAL;
	WRITE_ONCE(engine_default, engine);
	return 0;
}

static int engine_get(char *text, const struct kernel_param *param)
{
	return sysfs_emit(text, "%s\n", READ_ONCE(engine_default)->name);
}

static const struct kernel_param_ops engine_param_ops = {
	.set = engine_set,
	.get = engine_get,
};

module_param_cb(engine, &engine_param_ops, NULL, 0644);
MODULE_PARM_DESC(engine, "index engine of new stores that name none: masstree or bwtree");
