/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Handles: the numbers by which BPF programs name stores.
 *
 * A store whose owner allows programs to use it has a handle for each kind of
 * access.  A handle is random and never used again: who was not told it does
 * not find it, and it leads nowhere when the store is gone or its owner has
 * forbidden programs to use it.
 *
 * A handle that was found, and the store that it leads to, stay until the end of
 * the RCU read section: the teardown of a store waits for those.
 */
#ifndef KVT_HANDLE_H
#define KVT_HANDLE_H

#include <linux/list.h>
#include <linux/types.h>
#include <linux/kvtree.h>

struct kvt_store;

struct kvt_handle {
	struct hlist_node node;
	u64 id;
	struct kvt_store *store;
	unsigned int access;	/* KVTREE_OPEN_* */
};

/* One for each subset of read and write, but for the empty one. */
#define KVT_HANDLES_NR	(KVTREE_OPEN_READ | KVTREE_OPEN_WRITE)

/* Those of a store. */
struct kvt_handles {
	struct kvt_handle handle[KVT_HANDLES_NR];	/* by access, less 1 */
	struct rcu_head rcu;
};

int kvt_handles_allow(struct kvt_store *store);
void kvt_handles_forbid(struct kvt_store *store);
void kvt_handles_close(struct kvt_store *store);
u64 kvt_handle_of(struct kvt_store *store, unsigned int access);
const struct kvt_handle *kvt_handle_find(u64 id);

#endif /* KVT_HANDLE_H */
