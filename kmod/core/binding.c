// SPDX-License-Identifier: GPL-2.0
/* Bindings of maps to stores. */
#include <linux/bpf.h>
#include <linux/cred.h>
#include <linux/errno.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "binding.h"
#include "binding_table.h"
#include "compat.h"
#include "store.h"

static_assert(KVTREE_BPF_MAP_NAME_MAX == BPF_OBJ_NAME_LEN);

static DEFINE_MUTEX(bindings_lock);

/**
 * kvt_bindings_init() - initialize a store's bindings
 * @store: the store
 *
 * Context: any.
 */
void kvt_bindings_init(struct kvt_store *store)
{
	INIT_LIST_HEAD(&store->bindings.list);
}

/**
 * kvt_bindings_allow() - let BPF programs use a store
 * @store: the store
 *
 * Context: process context, sleeps.
 *
 * Return: 0, also if they may already; -ESTALE: it was destroyed.
 */
int kvt_bindings_allow(struct kvt_store *store)
{
	struct kvt_bindings *bindings = &store->bindings;
	int err = 0;

	mutex_lock(&bindings_lock);
	if (bindings->closed)
		err = -ESTALE;
	else
		WRITE_ONCE(bindings->allowed, true);
	mutex_unlock(&bindings_lock);
	return err;
}
KVT_EXPORT_FOR_TESTS(kvt_bindings_allow);

/**
 * kvt_bindings_allowed() - whether BPF programs may use a store
 * @store: the store
 *
 * Context: any.
 *
 * Return: true if they may.
 */
bool kvt_bindings_allowed(const struct kvt_store *store)
{
	return READ_ONCE(store->bindings.allowed);
}

/**
 * kvt_bindings_generation() - which bindings a store has now
 * @store: the store
 *
 * Context: any.
 *
 * Return: a number that changes whenever all bindings end at once: programs were forbidden
 * to use the store, or it was destroyed.
 */
u32 kvt_bindings_generation(const struct kvt_store *store)
{
	return READ_ONCE(store->bindings.generation);
}

static void binding_end(struct kvt_binding *binding)
{
	lockdep_assert_held(&bindings_lock);
	kvt_binding_table_remove(binding);
	list_del(&binding->list);
	binding->store->bindings.nr--;
	/* Programs that have found the binding do not use the map. */
	bpf_map_put(binding->map);
	kfree_rcu(binding, rcu);
}

static void bindings_end(struct kvt_bindings *bindings)
{
	struct kvt_binding *binding, *next;

	WRITE_ONCE(bindings->allowed, false);
	WRITE_ONCE(bindings->generation, bindings->generation + 1);
	list_for_each_entry_safe(binding, next, &bindings->list, list)
		binding_end(binding);
}

/* End the bindings that hold the last reference to their map. */
static void bindings_sweep(struct kvt_bindings *bindings)
{
	struct kvt_binding *binding, *next;

	list_for_each_entry_safe(binding, next, &bindings->list, list)
		if (atomic64_read(&binding->map->refcnt) == 1)
			binding_end(binding);
}

/*
 * Whether the caller may bind one more map.  The store's owner may use all bindings.  Any
 * other user must leave at least as many free as it has, including the new one, so other
 * users never take the last one.
 */
static bool bindings_room(struct kvt_store *store, kuid_t uid)
{
	const struct kvt_bindings *bindings = &store->bindings;
	unsigned int room = KVTREE_BPF_BINDINGS_MAX - bindings->nr, own = 0;
	const struct kvt_binding *binding;

	if (kvt_store_owned(store))
		return room;
	list_for_each_entry(binding, &bindings->list, list)
		own += uid_eq(binding->uid, uid);
	return own + 1 < room;
}

/**
 * kvt_bindings_forbid() - stop BPF programs from using a store
 * @store: the store
 *
 * A call that has already found the store completes.  Waiting posts are not made, even if
 * programs are allowed to use the store again before their turn comes.
 *
 * Context: process context, sleeps.
 */
void kvt_bindings_forbid(struct kvt_store *store)
{
	mutex_lock(&bindings_lock);
	bindings_end(&store->bindings);
	mutex_unlock(&bindings_lock);
}
KVT_EXPORT_FOR_TESTS(kvt_bindings_forbid);

/**
 * kvt_bindings_close() - end a store's bindings for good
 * @store: the store, which is being destroyed
 *
 * Context: process context, sleeps; before the RCU grace period after which the
 * store is freed.
 */
void kvt_bindings_close(struct kvt_store *store)
{
	mutex_lock(&bindings_lock);
	store->bindings.closed = true;
	bindings_end(&store->bindings);
	mutex_unlock(&bindings_lock);
}

static bool binding_exists(const void *addr)
{
	bool exists;

	rcu_read_lock();
	exists = kvt_binding_table_find(addr);
	rcu_read_unlock();
	return exists;
}

static int binding_publish(struct kvt_binding *new)
{
	struct kvt_bindings *bindings = &new->store->bindings;
	int err;

	lockdep_assert_held(&bindings_lock);
	if (bindings->closed)
		return -ESTALE;
	if (!bindings->allowed)
		return -EPERM;
	if (binding_exists(new->addr))
		return -EBUSY;
	bindings_sweep(bindings);
	if (!bindings_room(new->store, new->uid))
		return -ENOSPC;
	new->generation = bindings->generation;
	err = kvt_binding_table_add(new);
	if (err)
		return err;
	bindings->nr++;
	list_add_tail(&new->list, &bindings->list);
	return 0;
}

/**
 * kvt_bind() - let the BPF programs that have a map use a store
 * @store: the store
 * @map: the map; on success the binding takes over its reference
 * @addr: of the map's value
 * @access: KVTREE_OPEN_READ, KVTREE_OPEN_WRITE or both
 *
 * Context: process context, sleeps.
 *
 * Return: 0; -EPERM: programs may not use the store; -EBUSY: the map is bound;
 * -ENOSPC: too many maps are bound, or too many by this user; -ESTALE: the store was
 * destroyed; -ENOMEM.
 */
int kvt_bind(struct kvt_store *store, struct bpf_map *map, const void *addr,
	     unsigned int access)
{
	struct kvt_binding *new;
	int err;

	new = kzalloc(sizeof(*new), GFP_KERNEL_ACCOUNT);
	if (!new)
		return -ENOMEM;
	new->store = store;
	new->map = map;
	new->addr = addr;
	new->access = access;
	new->uid = current_fsuid();
	mutex_lock(&bindings_lock);
	err = binding_publish(new);
	mutex_unlock(&bindings_lock);
	if (err)
		kfree(new);
	return err;
}
KVT_EXPORT_FOR_TESTS(kvt_bind);

/**
 * kvt_unbind() - end a binding
 * @store: the store
 * @map_id: its map's id, which no other map has while it is bound
 *
 * A call that has already found the store completes, and its posts are made.
 *
 * Context: process context, sleeps.
 *
 * Return: 0 or -ENOENT: the map is not bound to the store.
 */
int kvt_unbind(struct kvt_store *store, u32 map_id)
{
	struct kvt_binding *binding;
	int err = -ENOENT;

	mutex_lock(&bindings_lock);
	list_for_each_entry(binding, &store->bindings.list, list) {
		if (binding->map->id != map_id)
			continue;
		binding_end(binding);
		err = 0;
		break;
	}
	mutex_unlock(&bindings_lock);
	return err;
}
KVT_EXPORT_FOR_TESTS(kvt_unbind);

static const struct kvt_binding *bindings_after(const struct kvt_bindings *bindings, u32 after)
{
	const struct kvt_binding *binding, *first = NULL;

	list_for_each_entry(binding, &bindings->list, list)
		if (binding->map->id > after && (!first || binding->map->id < first->map->id))
			first = binding;
	return first;
}

/**
 * kvt_bindings_list() - describe the bound map with the smallest id above a given one
 * @store: the store
 * @info: its after is read, the rest is 0 and filled
 *
 * Context: process context, sleeps.
 *
 * Return: 0 or -ENOENT: there is none.
 */
int kvt_bindings_list(struct kvt_store *store, struct kvtree_bpf_binding *info)
{
	const struct kvt_binding *binding;

	mutex_lock(&bindings_lock);
	bindings_sweep(&store->bindings);
	binding = bindings_after(&store->bindings, info->after);
	if (binding) {
		info->map_id = binding->map->id;
		info->access = binding->access;
		strscpy_pad(info->name, binding->map->name, sizeof(info->name));
	}
	mutex_unlock(&bindings_lock);
	return binding ? 0 : -ENOENT;
}
KVT_EXPORT_FOR_TESTS(kvt_bindings_list);
