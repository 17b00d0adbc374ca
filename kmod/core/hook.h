/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Hooks: functions, most often BPF programs, that a store calls.
 *
 * A filter decides which records a scan returns.  A validator decides whether a key may
 * get a value; a store has at most one.
 *
 * Hooks are called under RCU and outside of any lock, in process or softirq context.  The
 * owner (kvt_hook_detach()) or the store (kvt_hooks_drop()) detaches a hook, whichever
 * comes first; the function it calls stays for a grace period after that.
 *
 * Each function that becomes a store's validator gets a turn, a unique number.  A writer
 * remembers the turn of the validator it asked, and compares it again when it holds the
 * key's place.  Once kvt_hook_attach() or kvt_hook_replace() of a validator has returned,
 * no value is published that only an earlier validator, or none, has seen.
 */
#ifndef KVT_CORE_HOOK_H
#define KVT_CORE_HOOK_H

#include <linux/compiler.h>
#include <linux/types.h>
#include <linux/kvtree.h>
#include <kvtree.bpf.h>

#include "store.h"

struct kvt_hook;
struct kvt_key;
struct kvt_value;

/* The record that a hook is asked about, from which its kfuncs copy. */
struct kvt_hook_record {
	struct bpf_kvt_record rec;	/* passed to the program */
	const u8 *key;
	const struct kvt_value *value;
};

typedef int (*kvt_hook_fn)(struct bpf_kvt_record *rec);

/* How to attach one. */
struct kvt_hook_args {
	u32 kind;		/* KVTREE_HOOK_* */
	const char *store;	/* its name, a string */
	const char *name;	/* a string, copied */
	kvt_hook_fn call;
	const u32 *owner;	/* names the hook to its owner; holds the id of the link */
};

int kvt_hook_attach(const struct kvt_hook_args *args);
int kvt_hook_replace(const struct kvt_hook_args *args);
void kvt_hook_detach(const u32 *owner);
void kvt_hooks_drop(struct kvt_store *store);
int kvt_hook_list(struct kvt_store *store, struct kvtree_bpf_hook *info);

struct kvt_hook *kvt_hook_filter(const struct kvt_store *store, u32 id);
bool kvt_hook_match(const struct kvt_hook *hook, const struct kvt_key *key,
		    const struct kvt_value *v);
int kvt_hook_validate(const struct kvt_store *store, const struct kvt_key *key,
		      const struct kvt_value *v, u64 *turn);

/**
 * kvt_hook_validator() - the store's validator
 * @store: the store
 *
 * Context: any.
 *
 * Return: its turn, or 0: there is none.
 */
static inline u64 kvt_hook_validator(const struct kvt_store *store)
{
	return READ_ONCE(store->validator_turn);
}

#endif /* KVT_CORE_HOOK_H */
