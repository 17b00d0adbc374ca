// SPDX-License-Identifier: GPL-2.0
/* Handles by which BPF programs name stores. */
#include <linux/errno.h>
#include <linux/hashtable.h>
#include <linux/mutex.h>
#include <linux/random.h>
#include <linux/rculist.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>

#include "compat.h"
#include "handle.h"
#include "store.h"

#define HANDLE_BITS	8

static DEFINE_MUTEX(handles_lock);
static struct hlist_head handles[1 << HANDLE_BITS];

/* They are random: any of their bits will do. */
static struct hlist_head *handle_bucket(u64 id)
{
	return &handles[id & (ARRAY_SIZE(handles) - 1)];
}

/**
 * kvt_handle_find() - what a handle stands for
 * @id: a number that a program gave
 *
 * Context: under rcu_read_lock(), any context, including NMI.
 *
 * Return: the handle, valid until rcu_read_unlock(), or NULL.
 */
const struct kvt_handle *kvt_handle_find(u64 id)
{
	const struct kvt_handle *handle;

	hlist_for_each_entry_rcu(handle, handle_bucket(id), node)
		if (likely(handle->id == id))
			return handle;
	return NULL;
}

/* A number that nobody has; 0 is never one. */
static u64 handle_number(void)
{
	u64 id;

	lockdep_assert_held(&handles_lock);
	do {
		id = get_random_u64();
		rcu_read_lock();
		if (kvt_handle_find(id))
			id = 0;
		rcu_read_unlock();
	} while (!id);
	return id;
}

/**
 * kvt_handles_allow() - let BPF programs use a store
 * @store: the store
 *
 * Context: process context, sleeps.
 *
 * Return: 0, also if they may already; -ENOMEM; -ESTALE: it was destroyed.
 */
int kvt_handles_allow(struct kvt_store *store)
{
	struct kvt_handles *new;
	struct kvt_handle *handle;
	unsigned int i;
	int err = 0;

	new = kzalloc(sizeof(*new), GFP_KERNEL_ACCOUNT);
	if (!new)
		return -ENOMEM;
	mutex_lock(&handles_lock);
	if (store->handles_closed) {
		err = -ESTALE;
	} else if (!store->handles) {
		for (i = 0; i < KVT_HANDLES_NR; i++) {
			handle = &new->handle[i];
			handle->id = handle_number();
			handle->store = store;
			handle->access = i + 1;
			hlist_add_head_rcu(&handle->node, handle_bucket(handle->id));
		}
		store->handles = new;
		new = NULL;
	}
	mutex_unlock(&handles_lock);
	kfree(new);
	return err;
}
KVT_EXPORT_FOR_TESTS(kvt_handles_allow);

static void handles_remove(struct kvt_store *store)
{
	struct kvt_handles *old = store->handles;
	unsigned int i;

	lockdep_assert_held(&handles_lock);
	if (!old)
		return;
	for (i = 0; i < KVT_HANDLES_NR; i++)
		hlist_del_rcu(&old->handle[i].node);
	store->handles = NULL;
	kfree_rcu(old, rcu);
}

/**
 * kvt_handles_forbid() - let BPF programs use a store no more
 * @store: the store
 *
 * A call that has found the store goes on to its end.
 *
 * Context: process context, sleeps.
 */
void kvt_handles_forbid(struct kvt_store *store)
{
	mutex_lock(&handles_lock);
	handles_remove(store);
	mutex_unlock(&handles_lock);
}
KVT_EXPORT_FOR_TESTS(kvt_handles_forbid);

/**
 * kvt_handles_close() - the same, for a store that is being destroyed
 * @store: the store, which nobody can allow again
 *
 * Context: process context, sleeps; before the RCU grace period after which the
 * store is freed.
 */
void kvt_handles_close(struct kvt_store *store)
{
	mutex_lock(&handles_lock);
	store->handles_closed = true;
	handles_remove(store);
	mutex_unlock(&handles_lock);
}

/**
 * kvt_handle_of() - a store's handle
 * @store: the store
 * @access: KVTREE_OPEN_READ, KVTREE_OPEN_WRITE or both
 *
 * Context: process context, sleeps.
 *
 * Return: the handle, or 0: programs may not use the store.
 */
u64 kvt_handle_of(struct kvt_store *store, unsigned int access)
{
	u64 id = 0;

	mutex_lock(&handles_lock);
	if (store->handles)
		id = store->handles->handle[access - 1].id;
	mutex_unlock(&handles_lock);
	return id;
}
KVT_EXPORT_FOR_TESTS(kvt_handle_of);
