/* SPDX-License-Identifier: GPL-2.0 */
/* Settings of a store: access and limits, which may change while it is used. */
#ifndef KVT_CORE_SETTINGS_H
#define KVT_CORE_SETTINGS_H

#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/uidgid.h>

struct kvt_store;
struct kvtree_store_create;
struct kvtree_store_set;

struct kvt_settings {
	umode_t mode;
	kuid_t uid;
	kgid_t gid;
	u64 limit_bytes;		/* as asked for; 0: none */
	u64 limit_keys;
};

/* A store's settings, read and changed together: a mode means nothing without its owner. */
struct kvt_settings_now {
	spinlock_t lock;		/* of .now */
	struct kvt_settings now;
	struct mutex change;		/* one change at a time */
};

int kvt_settings_init(struct kvt_settings_now *settings, const struct kvtree_store_create *args);
struct kvt_settings kvt_store_settings(struct kvt_store *store);
int kvt_store_set(const struct kvtree_store_set *args);
unsigned int kvt_store_access(struct kvt_store *store, unsigned int want);
bool kvt_store_owned(struct kvt_store *store);

#endif /* KVT_CORE_SETTINGS_H */
