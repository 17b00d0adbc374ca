// SPDX-License-Identifier: GPL-2.0
/* Bindings of BPF programs' maps to stores. */
#include <linux/bpf.h>
#include <linux/errno.h>
#include <linux/hash.h>
#include <linux/mutex.h>
#include <linux/rculist.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "binding.h"
#include "compat.h"
#include "store.h"

#define BINDING_BITS	8

static_assert(KVTREE_BPF_MAP_NAME_MAX == BPF_OBJ_NAME_LEN);

static DEFINE_MUTEX(bindings_lock);
static struct hlist_head bindings_by_addr[1 << BINDING_BITS];
static struct hlist_head bindings_by_id[1 << BINDING_BITS];
static u64 bindings_last;	/* id that was given */

static struct hlist_head *addr_bucket(const void *addr)
{
	return &bindings_by_addr[hash_ptr(addr, BINDING_BITS)];
}

static struct hlist_head *id_bucket(u64 id)
{
	return &bindings_by_id[id % ARRAY_SIZE(bindings_by_id)];
}

/**
 * kvt_binding_find() - what a program's pointer stands for
 * @addr: the pointer, which may lead anywhere
 *
 * Context: under rcu_read_lock(), any context, including NMI.
 *
 * Return: the binding, valid until rcu_read_unlock(), or NULL.
 */
const struct kvt_binding *kvt_binding_find(const void *addr)
{
	const struct kvt_binding *binding;

	hlist_for_each_entry_rcu(binding, addr_bucket(addr), by_addr)
		if (likely(binding->addr == addr))
			return binding;
	return NULL;
}

/**
 * kvt_binding_by_id() - a binding that was found before
 * @id: of it
 *
 * Context: under rcu_read_lock().
 *
 * Return: the binding, valid until rcu_read_unlock(), or NULL: it has ended.
 */
const struct kvt_binding *kvt_binding_by_id(u64 id)
{
	const struct kvt_binding *binding;

	hlist_for_each_entry_rcu(binding, id_bucket(id), by_id)
		if (binding->id == id)
			return binding;
	return NULL;
}

/**
 * kvt_bindings_init() - begin without bindings
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

static void binding_end(struct kvt_binding *binding)
{
	lockdep_assert_held(&bindings_lock);
	hlist_del_rcu(&binding->by_addr);
	hlist_del_rcu(&binding->by_id);
	list_del(&binding->list);
	binding->store->bindings.nr--;
	/* Programs that have found the binding do not look at the map. */
	bpf_map_put(binding->map);
	kfree_rcu(binding, rcu);
}

static void bindings_end(struct kvt_bindings *bindings)
{
	struct kvt_binding *binding, *next;

	WRITE_ONCE(bindings->allowed, false);
	list_for_each_entry_safe(binding, next, &bindings->list, list)
		binding_end(binding);
}

/* End those whose map nobody else holds. */
static void bindings_sweep(struct kvt_bindings *bindings)
{
	struct kvt_binding *binding, *next;

	list_for_each_entry_safe(binding, next, &bindings->list, list)
		if (atomic64_read(&binding->map->refcnt) == 1)
			binding_end(binding);
}

/**
 * kvt_bindings_forbid() - let BPF programs use a store no more
 * @store: the store
 *
 * A call that has found the store goes on to its end.
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
 * kvt_bindings_close() - the same, for a store that is being destroyed
 * @store: the store, which nobody can allow again
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

static struct kvt_binding *binding_of_addr(const void *addr)
{
	struct kvt_binding *binding;

	lockdep_assert_held(&bindings_lock);
	hlist_for_each_entry(binding, addr_bucket(addr), by_addr)
		if (binding->addr == addr)
			return binding;
	return NULL;
}

static int binding_publish(struct kvt_binding *new)
{
	struct kvt_bindings *bindings = &new->store->bindings;

	lockdep_assert_held(&bindings_lock);
	if (bindings->closed)
		return -ESTALE;
	if (!bindings->allowed)
		return -EPERM;
	if (binding_of_addr(new->addr))
		return -EBUSY;
	bindings_sweep(bindings);
	if (bindings->nr >= KVTREE_BPF_BINDINGS_MAX)
		return -ENOSPC;
	bindings->nr++;
	new->id = ++bindings_last;
	list_add_tail(&new->list, &bindings->list);
	hlist_add_head_rcu(&new->by_id, id_bucket(new->id));
	hlist_add_head_rcu(&new->by_addr, addr_bucket(new->addr));
	return 0;
}

/**
 * kvt_bind() - have a map stand for a store
 * @store: the store
 * @map: the map; its reference passes to the binding if that is made
 * @addr: of the map's value
 * @access: KVTREE_OPEN_READ, KVTREE_OPEN_WRITE or both
 *
 * Context: process context, sleeps.
 *
 * Return: 0; -EPERM: programs may not use the store; -EBUSY: the map is bound;
 * -ENOSPC: too many are; -ESTALE: the store was destroyed; -ENOMEM.
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
 * @store: of this store
 * @map: the map, which the caller holds
 *
 * A call that has found the store goes on to its end.
 *
 * Context: process context, sleeps.
 *
 * Return: 0 or -ENOENT: the map is not bound to the store.
 */
int kvt_unbind(struct kvt_store *store, const struct bpf_map *map)
{
	struct kvt_binding *binding;
	int err = -ENOENT;

	mutex_lock(&bindings_lock);
	list_for_each_entry(binding, &store->bindings.list, list) {
		if (binding->map != map)
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
 * @store: whose
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
