// SPDX-License-Identifier: GPL-2.0
/* Settings of a store: access and limits. */
#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/err.h>
#include <linux/limits.h>
#include <linux/string.h>
#include <linux/user_namespace.h>
#include <linux/kvtree.h>

#include "base/quota.h"
#include "compat.h"
#include "settings.h"
#include "store.h"

#define SET_OWNER	(KVTREE_SET_UID | KVTREE_SET_GID)
#define SET_LIMITS	(KVTREE_SET_LIMIT_BYTES | KVTREE_SET_LIMIT_KEYS)
#define SET_ALL		(KVTREE_SET_MODE | SET_OWNER | SET_LIMITS)

/* Takes the mode as user space gives it, with more bits than a umode_t. */
static bool mode_valid(u32 mode)
{
	return !(mode & ~0666);
}

static bool owner_valid(const struct kvt_settings *s)
{
	return uid_valid(s->uid) && gid_valid(s->gid);
}

/**
 * kvt_settings_init() - the settings of a new store
 * @settings: set
 * @args: from user space
 *
 * Context: process context.
 *
 * Return: 0 or -EINVAL.
 */
int kvt_settings_init(struct kvt_settings_now *settings, const struct kvtree_store_create *args)
{
	if (!mode_valid(args->mode))
		return -EINVAL;
	spin_lock_init(&settings->lock);
	mutex_init(&settings->change);
	settings->now = (struct kvt_settings) {
		.mode = args->mode,
		.uid = make_kuid(current_user_ns(), args->uid),
		.gid = make_kgid(current_user_ns(), args->gid),
		.limit_bytes = args->limit_bytes,
		.limit_keys = args->limit_keys,
	};
	return owner_valid(&settings->now) ? 0 : -EINVAL;
}

/**
 * kvt_store_settings() - a store's settings at one moment
 * @store: the store
 *
 * Context: process context.
 *
 * Return: a copy.
 */
struct kvt_settings kvt_store_settings(struct kvt_store *store)
{
	struct kvt_settings now;

	spin_lock(&store->settings.lock);
	now = store->settings.now;
	spin_unlock(&store->settings.lock);
	return now;
}

/* Make the new settings. */
static int settings_change(struct kvt_settings *s, const struct kvtree_store_set *args)
{
	if (args->set & KVTREE_SET_MODE) {
		if (!mode_valid(args->mode))
			return -EINVAL;
		s->mode = args->mode;
	}
	if (args->set & KVTREE_SET_UID)
		s->uid = make_kuid(current_user_ns(), args->uid);
	if (args->set & KVTREE_SET_GID)
		s->gid = make_kgid(current_user_ns(), args->gid);
	if (args->set & KVTREE_SET_LIMIT_BYTES)
		s->limit_bytes = args->limit_bytes;
	if (args->set & KVTREE_SET_LIMIT_KEYS)
		s->limit_keys = args->limit_keys;
	return owner_valid(s) ? 0 : -EINVAL;
}

/* As for a file: its owner may change the mode, and only an administrator the rest. */
static bool may_set(const struct kvt_settings *s, u32 set)
{
	if (!(set & ~KVTREE_SET_MODE) && uid_eq(current_fsuid(), s->uid))
		return true;
	/* Test this last: a refusal leaves a line in the audit log. */
	return capable(CAP_SYS_ADMIN);
}

/* Called for one change at a time, inside the store. */
static int store_set(struct kvt_store *store, const struct kvtree_store_set *args)
{
	struct kvt_settings s = kvt_store_settings(store);
	int err;

	if (!may_set(&s, args->set))
		return -EPERM;
	err = settings_change(&s, args);
	if (err)
		return err;
	spin_lock(&store->settings.lock);
	store->settings.now = s;
	spin_unlock(&store->settings.lock);
	if (args->set & SET_LIMITS)
		kvt_quota_limit(&store->quota, s.limit_bytes ?: U64_MAX, s.limit_keys ?: U64_MAX);
	return 0;
}

/**
 * kvt_store_set() - change settings of a store
 * @args: from user space
 *
 * Sessions keep the access that they were opened with.  A store may be over its new limits:
 * changes that make it larger are refused until it is below them again.
 *
 * Context: process context, sleeps.
 *
 * Return: 0, -EINVAL, -ENOENT, -EPERM, -ESTALE: it was destroyed; nothing was changed then.
 */
int kvt_store_set(const struct kvtree_store_set *args)
{
	struct kvt_store *store;
	int err = -ESTALE;

	if (!args->set || args->set & ~SET_ALL ||
	    memchr_inv(args->reserved, 0, sizeof(args->reserved)) ||
	    !kvt_store_name_valid(args->name))
		return -EINVAL;
	store = kvt_store_find(args->name);
	if (IS_ERR(store))
		return PTR_ERR(store);
	if (kvt_store_enter(store)) {
		mutex_lock(&store->settings.change);
		err = store_set(store, args);
		mutex_unlock(&store->settings.change);
		kvt_store_leave(store);
	}
	kvt_store_put(store);
	return err;
}

/**
 * kvt_store_access() - what the caller may do with a store
 * @store: the store
 * @want: KVTREE_OPEN_READ and KVTREE_OPEN_WRITE, those in question
 *
 * As for a file: the first of owner, group and others that fits the caller's
 * credentials decides, and CAP_DAC_OVERRIDE overrides.
 *
 * Context: process context.
 *
 * Return: the part of @want that is granted.
 */
unsigned int kvt_store_access(struct kvt_store *store, unsigned int want)
{
	const struct kvt_settings s = kvt_store_settings(store);
	unsigned int mode = s.mode, granted = 0;

	if (uid_eq(current_fsuid(), s.uid))
		mode >>= 6;
	else if (in_group_p(s.gid))
		mode >>= 3;
	if (mode & 4)
		granted |= KVTREE_OPEN_READ;
	if (mode & 2)
		granted |= KVTREE_OPEN_WRITE;
	/* Test this last and without an audit record: opening the device tries all access. */
	if ((want & ~granted) && ns_capable_noaudit(&init_user_ns, CAP_DAC_OVERRIDE))
		granted = want;
	else if ((want & ~granted & KVTREE_OPEN_READ) &&
		 ns_capable_noaudit(&init_user_ns, CAP_DAC_READ_SEARCH))
		granted |= KVTREE_OPEN_READ;
	return granted & want;
}

/**
 * kvt_store_owned() - whether the caller may control access to a store
 * @store: the store
 *
 * Context: process context.
 *
 * Return: true for its owner and for an administrator.
 */
bool kvt_store_owned(struct kvt_store *store)
{
	return uid_eq(current_fsuid(), kvt_store_settings(store).uid) || capable(CAP_SYS_ADMIN);
}
