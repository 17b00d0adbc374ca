// SPDX-License-Identifier: GPL-2.0
/*
 * Maps that BPF programs use to name a store.
 */
#include <fcntl.h>
#include <linux/bpf.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bpf.h"

static int bpf(int cmd, union bpf_attr *attr)
{
	return (int)syscall(SYS_bpf, cmd, attr, sizeof(*attr));
}

/* Whether it is an id rather than a path; an id that no map can have becomes 0. */
static bool is_id(const char *which, __u32 *id)
{
	unsigned long long n;

	if (!*which || strspn(which, "0123456789") != strlen(which))
		return false;
	n = strtoull(which, NULL, 10);
	*id = n <= UINT32_MAX ? (__u32)n : 0;
	return true;
}

/* Open a map by its id or the path where it is pinned. */
static int map_open(const char *which)
{
	union bpf_attr attr;
	__u32 id;

	memset(&attr, 0, sizeof(attr));
	if (is_id(which, &id)) {
		attr.map_id = id;
		return bpf(BPF_MAP_GET_FD_BY_ID, &attr);
	}
	attr.pathname = (uintptr_t)which;
	return bpf(BPF_OBJ_GET, &attr);
}

static int say_no_map(const char *which)
{
	warn("bpf: cannot open the map %s: %s", which, strerror(errno));
	return STATUS_ERROR;
}

static int say_bind_failed(const char *which, int err)
{
	switch (err) {
	case 0:
		return STATUS_OK;
	case -EPERM:
		warn("bpf: programs may not use the store: see kvtree bpf allow");
		break;
	case -EBUSY:
		warn("bpf: %s is bound to a store already: see kvtree bpf unbind", which);
		break;
	case -EBADF:
	case -EINVAL:
		warn("bpf: %s is not an array of one element, 8 to %u bytes, BPF_F_RDONLY_PROG",
		     which, KVTREE_BPF_MAP_MAX);
		break;
	case -ENOSPC:
		warn("bpf: too many maps are bound to the store, or too many by you");
		break;
	default:
		return report(err, "bpf", NULL);
	}
	return STATUS_ERROR;
}

/**
 * map_bind() - let the programs that have a map use the store
 * @which: the map's id, or the path where it is pinned
 * @access: KVTREE_OPEN_*
 *
 * Return: the exit status
 */
int map_bind(const char *which, unsigned int access)
{
	int map = map_open(which), err;
	struct kvtree *kv;

	if (map < 0)
		return say_no_map(which);
	kv = open_store(access);
	err = kvtree_bpf_bind(kv, map, access);
	kvtree_close(kv);
	close(map);
	return say_bind_failed(which, err);
}

static int say_unbind_failed(const char *which, int err)
{
	switch (err) {
	case 0:
		return STATUS_OK;
	case -EPERM:
		warn("bpf: only the store's owner may unbind a map by its id");
		return STATUS_ERROR;
	case -ENOENT:
		warn("bpf: %s is not bound to the store", which);
		return STATUS_NOT;
	default:
		return report(err, "bpf", NULL);
	}
}

/**
 * map_unbind() - end a binding
 * @which: the map's id (for the store's owner), or the path where it is pinned
 *
 * Return: the exit status
 */
int map_unbind(const char *which)
{
	struct kvtree *kv;
	int map = -1, err;
	__u32 id;

	if (!is_id(which, &id)) {
		map = map_open(which);
		if (map < 0)
			return say_no_map(which);
	}
	kv = open_store_any();
	err = map < 0 ? kvtree_bpf_unbind_id(kv, id) : kvtree_bpf_unbind(kv, map);
	kvtree_close(kv);
	if (map >= 0)
		close(map);
	return say_unbind_failed(which, err);
}
