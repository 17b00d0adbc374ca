/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Bindings: they let BPF programs that have a map use a store.
 *
 * A program passes the address of a map's value.  It cannot make one up: the kfuncs take
 * it as a constant string (__str), for which the verifier accepts nothing but a pointer
 * into the value of a frozen, read-only map, and it gives such a pointer only to programs
 * that were loaded with that map.  So a program may use a store because it has the map,
 * not because it knows something, which a tracing program could read in kernel memory.
 * Two other classes of arguments admit more on 6.12.  Any trusted struct bpf_map passes
 * for a map (__map), and an iterator over maps gets all of them.  Memory may be any
 * address: a function that is verified by itself takes a pointer to kernel memory, which
 * its caller may only read, for memory of its own.
 *
 * A binding holds its map, so that no other map gets the address.  Once it has the last
 * reference to the map, no program can use the binding.  The next caller that binds or
 * lists maps of the store removes it.
 *
 * A binding that was found stays until the end of the RCU read section, and so does its
 * store: the teardown of a store waits for a grace period after its bindings have ended.
 */
#ifndef KVT_CORE_BINDING_H
#define KVT_CORE_BINDING_H

#include <linux/list.h>
#include <linux/types.h>
#include <linux/uidgid.h>
#include <linux/kvtree.h>

struct bpf_map;
struct kvt_store;

struct kvt_binding {
	const void *addr;	/* of the map's value */
	struct kvt_store *store;
	unsigned int access;	/* KVTREE_OPEN_* */
	kuid_t uid;		/* the user that bound the map */
	u32 generation;		/* of the store's bindings */
	struct bpf_map *map;	/* held */
	struct list_head list;	/* of the store's */
	struct rcu_head rcu;
};

/* The bindings of a store. */
struct kvt_bindings {
	struct list_head list;
	unsigned int nr;
	u32 generation;		/* a new one begins when all end at once */
	bool allowed;		/* programs may use the store */
	bool closed;		/* ... and never will */
};

void kvt_bindings_init(struct kvt_store *store);
int kvt_bindings_allow(struct kvt_store *store);
void kvt_bindings_forbid(struct kvt_store *store);
void kvt_bindings_close(struct kvt_store *store);
bool kvt_bindings_allowed(const struct kvt_store *store);
u32 kvt_bindings_generation(const struct kvt_store *store);

int kvt_bind(struct kvt_store *store, struct bpf_map *map, const void *addr,
	     unsigned int access);
int kvt_unbind(struct kvt_store *store, u32 map_id);
int kvt_bindings_list(struct kvt_store *store, struct kvtree_bpf_binding *info);

#endif /* KVT_CORE_BINDING_H */
