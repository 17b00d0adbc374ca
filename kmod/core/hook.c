// SPDX-License-Identifier: GPL-2.0
/* Hooks of stores. */
#include <linux/ctype.h>
#include <linux/err.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/xarray.h>

#include "base/name.h"
#include "base/value.h"
#include "compat.h"
#include "hook.h"

static_assert(BPF_KVT_HOOK_NAME == KVTREE_HOOK_NAME_MAX);
static_assert(BPF_KVT_STORE_NAME == KVTREE_NAME_MAX);

struct hook_counts {
	u64 calls;
	u64 refused;
};

struct kvt_hook {
	struct kvt_store *store;	/* NULL: detached from it; written under hooks_lock */
	kvt_hook_fn call;		/* changes */
	u64 turn;			/* of call, if it is a validator; changes after it */
	u32 id;
	u32 kind;
	const u32 *owner;
	struct hook_counts __percpu *counts;
	char name[KVTREE_HOOK_NAME_MAX];
	struct rcu_head rcu;
};

/* Of all stores, by id.  Ids are allocated cyclically, so that an old id is not reused soon. */
static DEFINE_XARRAY_ALLOC(hooks);
static u32 hooks_next;
static u64 hooks_turn;			/* the last that was given to a validator */
static DEFINE_MUTEX(hooks_lock);

static void hook_free(struct kvt_hook *hook)
{
	free_percpu(hook->counts);
	kfree(hook);
}

static void hook_free_rcu(struct rcu_head *rcu)
{
	hook_free(container_of(rcu, struct kvt_hook, rcu));
}

/* A name has other characters than digits: commands take the name of a hook or its id. */
static bool hook_name_valid(const char *name)
{
	return !isdigit(*name) && strlen(name) < KVTREE_HOOK_NAME_MAX && kvt_name_allowed(name);
}

static struct kvt_hook *hook_alloc(const struct kvt_hook_args *args)
{
	struct kvt_hook *hook = kzalloc(sizeof(*hook), GFP_KERNEL_ACCOUNT);

	if (!hook)
		return NULL;
	hook->counts = alloc_percpu_gfp(struct hook_counts, GFP_KERNEL_ACCOUNT);
	if (!hook->counts) {
		kfree(hook);
		return NULL;
	}
	hook->call = args->call;
	hook->kind = args->kind;
	hook->owner = args->owner;
	strscpy(hook->name, args->name, sizeof(hook->name));
	return hook;
}

/* The store, with a reference, if the caller may control access to it. */
static struct kvt_store *hook_store(const struct kvt_hook_args *args)
{
	unsigned int access = KVTREE_OPEN_READ;
	struct kvt_store *store;
	int err = 0;

	/* A validator sees values, and decides what is written. */
	if (args->kind == KVTREE_HOOK_VALIDATOR)
		access |= KVTREE_OPEN_WRITE;
	store = kvt_store_find(args->store);
	if (IS_ERR(store))
		return store;
	if (kvt_store_access(store, access) != access)
		err = -EACCES;
	else if (!kvt_store_owned(store))
		err = -EPERM;
	if (!err)
		return store;
	kvt_store_put(store);
	return ERR_PTR(err);
}

/* Enter the store if programs may use it; this cannot change while the lock is held. */
static int hook_enter(struct kvt_store *store)
{
	lockdep_assert_held(&hooks_lock);
	if (!kvt_store_enter(store))
		return -ESTALE;
	if (kvt_bindings_allowed(store))
		return 0;
	kvt_store_leave(store);
	return -EPERM;
}

/* Whether the store can have this hook, too. */
static int hook_fits(const struct kvt_store *store, const struct kvt_hook *hook)
{
	struct kvt_hook *other;
	unsigned long id;

	if (hook->kind == KVTREE_HOOK_VALIDATOR && store->validator_turn)
		return -EEXIST;
	xa_for_each(&hooks, id, other)
		if (other->store == store && *hook->name && !strcmp(other->name, hook->name))
			return -EEXIST;
	return 0;
}

static int hook_publish(struct kvt_hook *hook, struct kvt_store *store)
{
	int err;

	lockdep_assert_held(&hooks_lock);
	err = hook_fits(store, hook);
	if (err)
		return err;
	hook->store = store;
	err = xa_alloc_cyclic(&hooks, &hook->id, hook, XA_LIMIT(1, INT_MAX), &hooks_next,
			      GFP_KERNEL_ACCOUNT);
	if (err < 0)
		return err;
	if (hook->kind == KVTREE_HOOK_VALIDATOR) {
		hook->turn = ++hooks_turn;
		rcu_assign_pointer(store->validator, hook);
		WRITE_ONCE(store->validator_turn, hook->turn);
	}
	return 0;
}

/*
 * A validator's turn has begun.  Writers that hold a place may have read an earlier turn.
 * Once they have released it, only values that this validator allows are published.
 */
static void hook_settle(u32 kind)
{
	if (kind == KVTREE_HOOK_VALIDATOR)
		synchronize_rcu();
}

/**
 * kvt_hook_attach() - have a store call a function
 * @args: the function and the store
 *
 * Context: process context, sleeps; on behalf of the current task.
 *
 * Return: 0; -EINVAL: the name; -ENOENT: there is no such store; -EACCES: the caller may not
 * use it; -EPERM: the caller does not own it, or programs may not use it; -EEXIST: it has a
 * validator, or a hook of that name; -ESTALE: it is being destroyed; -ENOMEM; -EBUSY: no
 * id is free.
 */
int kvt_hook_attach(const struct kvt_hook_args *args)
{
	struct kvt_store *store;
	struct kvt_hook *hook;
	int err;

	if (!hook_name_valid(args->name))
		return -EINVAL;
	store = hook_store(args);
	if (IS_ERR(store))
		return PTR_ERR(store);
	err = -ENOMEM;
	hook = hook_alloc(args);
	if (!hook)
		goto put;
	/* The store's owner may forbid it meanwhile: see kvt_hooks_drop(). */
	mutex_lock(&hooks_lock);
	err = hook_enter(store);
	if (!err) {
		err = hook_publish(hook, store);
		kvt_store_leave(store);
	}
	mutex_unlock(&hooks_lock);
	if (err)
		hook_free(hook);
	else
		hook_settle(args->kind);
put:
	kvt_store_put(store);
	return err;
}
KVT_EXPORT_FOR_TESTS(kvt_hook_attach);

static struct kvt_hook *hook_of_owner(const u32 *owner)
{
	struct kvt_hook *hook;
	unsigned long id;

	lockdep_assert_held(&hooks_lock);
	xa_for_each(&hooks, id, hook)
		if (hook->owner == owner)
			return hook;
	return NULL;
}

static void hook_set_call(struct kvt_hook *hook, kvt_hook_fn call)
{
	lockdep_assert_held(&hooks_lock);
	WRITE_ONCE(hook->call, call);
	if (hook->kind != KVTREE_HOOK_VALIDATOR)
		return;
	/* Pairs with kvt_hook_validate(): a reader of this turn also reads this function. */
	smp_store_release(&hook->turn, ++hooks_turn);
	WRITE_ONCE(hook->store->validator_turn, hook->turn);
}

/**
 * kvt_hook_replace() - have a hook call another function
 * @args: as for kvt_hook_attach(), except for the function
 *
 * Context: process context, sleeps; on behalf of the current task.
 *
 * Return: 0; -ENOENT: there is no such hook, or store; -EINVAL: another store or name;
 * -ESTALE, -EACCES, -EPERM as kvt_hook_attach().
 */
int kvt_hook_replace(const struct kvt_hook_args *args)
{
	struct kvt_store *store;
	struct kvt_hook *hook;
	int err;

	store = hook_store(args);
	if (IS_ERR(store))
		return PTR_ERR(store);
	mutex_lock(&hooks_lock);
	err = hook_enter(store);
	if (err)
		goto unlock;
	hook = hook_of_owner(args->owner);
	if (!hook)
		err = -ENOENT;
	else if (hook->store != store || strcmp(hook->name, args->name))
		err = -EINVAL;
	else
		hook_set_call(hook, args->call);
	kvt_store_leave(store);
unlock:
	mutex_unlock(&hooks_lock);
	kvt_store_put(store);
	if (!err)
		hook_settle(args->kind);
	return err;
}
KVT_EXPORT_FOR_TESTS(kvt_hook_replace);

/* Have the store no longer call the hook. */
static void hook_drop(struct kvt_hook *hook)
{
	struct kvt_store *store = hook->store;

	lockdep_assert_held(&hooks_lock);
	if (!store)
		return;
	if (hook->kind == KVTREE_HOOK_VALIDATOR) {
		WRITE_ONCE(store->validator_turn, 0);
		RCU_INIT_POINTER(store->validator, NULL);
	}
	WRITE_ONCE(hook->store, NULL);
}

/**
 * kvt_hook_detach() - detach a hook
 * @owner: as given to kvt_hook_attach()
 *
 * Calls in progress complete.
 *
 * Context: process context, sleeps.
 */
void kvt_hook_detach(const u32 *owner)
{
	struct kvt_hook *hook;

	mutex_lock(&hooks_lock);
	hook = hook_of_owner(owner);
	if (hook) {
		hook_drop(hook);
		xa_erase(&hooks, hook->id);
	}
	mutex_unlock(&hooks_lock);
	if (hook)
		call_rcu(&hook->rcu, hook_free_rcu);
}
KVT_EXPORT_FOR_TESTS(kvt_hook_detach);

/**
 * kvt_hooks_drop() - detach all hooks of a store
 * @store: the store, which programs may not use any more, so that no hook follows
 *
 * Context: process context, sleeps; before the RCU grace period after which the
 * store is freed.
 */
void kvt_hooks_drop(struct kvt_store *store)
{
	struct kvt_hook *hook;
	unsigned long id;

	mutex_lock(&hooks_lock);
	xa_for_each(&hooks, id, hook)
		if (hook->store == store)
			hook_drop(hook);
	mutex_unlock(&hooks_lock);
}
KVT_EXPORT_FOR_TESTS(kvt_hooks_drop);

static void hook_describe(const struct kvt_hook *hook, struct kvtree_bpf_hook *info)
{
	const struct hook_counts *counts;
	int cpu;

	info->id = hook->id;
	info->kind = hook->kind;
	info->link_id = READ_ONCE(*hook->owner);
	strscpy_pad(info->name, hook->name, sizeof(info->name));
	for_each_possible_cpu(cpu) {
		counts = per_cpu_ptr(hook->counts, cpu);
		info->calls += READ_ONCE(counts->calls);
		info->refused += READ_ONCE(counts->refused);
	}
}

/**
 * kvt_hook_list() - describe the hook with the smallest id above a given one
 * @store: the store
 * @info: its after is read, the rest is 0 and filled
 *
 * Context: process context, sleeps.
 *
 * Return: 0 or -ENOENT: there is none.
 */
int kvt_hook_list(struct kvt_store *store, struct kvtree_bpf_hook *info)
{
	struct kvt_hook *hook;
	int err = -ENOENT;
	unsigned long id;

	mutex_lock(&hooks_lock);
	xa_for_each_start(&hooks, id, hook, (unsigned long)info->after + 1) {
		if (hook->store != store)
			continue;
		hook_describe(hook, info);
		err = 0;
		break;
	}
	mutex_unlock(&hooks_lock);
	return err;
}
KVT_EXPORT_FOR_TESTS(kvt_hook_list);

/**
 * kvt_hook_filter() - a filter by its id
 * @store: the store
 * @id: a number that a user gave
 *
 * Context: under rcu_read_lock(), which keeps the filter.
 *
 * Return: the filter, or NULL: the store has none of that id.
 */
struct kvt_hook *kvt_hook_filter(const struct kvt_store *store, u32 id)
{
	struct kvt_hook *hook = xa_load(&hooks, id);

	if (!hook || READ_ONCE(hook->store) != store || hook->kind != KVTREE_HOOK_FILTER)
		return NULL;
	return hook;
}
KVT_EXPORT_FOR_TESTS(kvt_hook_filter);

/* Call the hook, and count its answer. */
static bool hook_ask(const struct kvt_hook *hook, const struct kvt_key *key,
		     const struct kvt_value *v, u64 version)
{
	struct kvt_hook_record record = {
		.rec.version = version,
		.rec.key_len = key->len,
		.rec.val_len = BPF_KVT_ABSENT,
		.rec.ncols = kvt_value_ncols(v),
		.key = key->data,
		.value = v,
	};
	kvt_hook_fn call = READ_ONCE(hook->call);
	struct kvt_column col = {};
	bool yes;

	if (kvt_value_find(v, 0, &col))
		record.rec.val_len = col.len;
	yes = call(&record.rec);
	this_cpu_inc(hook->counts->calls);
	if (!yes)
		this_cpu_inc(hook->counts->refused);
	return yes;
}

/**
 * kvt_hook_match() - whether a scan returns a record
 * @hook: a filter
 * @key: the record's key
 * @v: its value
 *
 * Context: under the rcu_read_lock() under which @hook and @v were found.
 *
 * Return: what the filter says.
 */
bool kvt_hook_match(const struct kvt_hook *hook, const struct kvt_key *key,
		    const struct kvt_value *v)
{
	return hook_ask(hook, key, v, v->version);
}
KVT_EXPORT_FOR_TESTS(kvt_hook_match);

/**
 * kvt_hook_validate() - whether a value may be published
 * @store: the store
 * @key: its key
 * @v: the value, which does not change any more
 * @turn: set to the turn of the validator that was asked, or 0: there is none
 *
 * Context: under rcu_read_lock(), with no place held.
 *
 * Return: 0 or -EKEYREJECTED.
 */
int kvt_hook_validate(const struct kvt_store *store, const struct kvt_key *key,
		      const struct kvt_value *v, u64 *turn)
{
	const struct kvt_hook *hook = rcu_dereference(store->validator);

	/* Before the function is read: pairs with hook_set_call(). */
	*turn = hook ? smp_load_acquire(&hook->turn) : 0;
	return !hook || hook_ask(hook, key, v, 0) ? 0 : -EKEYREJECTED;
}
