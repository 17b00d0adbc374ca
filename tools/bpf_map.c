// SPDX-License-Identifier: GPL-2.0
/*
 * Maps by which BPF programs name a store.
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

/* By its id, or where it is pinned. */
static int map_open(const char *which)
{
	bool number = *which && strspn(which, "0123456789") == strlen(which);
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	if (number) {
		attr.map_id = strtoul(which, NULL, 10);
		return bpf(BPF_MAP_GET_FD_BY_ID, &attr);
	}
	attr.pathname = (uintptr_t)which;
	return bpf(BPF_OBJ_GET, &attr);
}

static int say_bind_failed(const char *which, int err)
{
	switch (err) {
	case -EPERM:
		warn("bpf: programs may not use the store: see kvtree bpf allow");
		break;
	case -EBUSY:
		warn("bpf: %s is bound to a store already: see kvtree bpf unbind", which);
		break;
	case -EBADF:
	case -EINVAL:
		warn("bpf: %s is no array of one element, of 8 to %u bytes, with BPF_F_RDONLY_PROG",
		     which, KVTREE_BPF_MAP_MAX);
		break;
	case -ENOENT:
		warn("bpf: %s is not bound to the store", which);
		return STATUS_NOT;
	default:
		return report(err, "bpf", NULL);
	}
	return STATUS_ERROR;
}

/**
 * map_bind() - let the programs that have a map use the store
 * @which: the map: its id, or where it is pinned
 * @access: KVTREE_OPEN_*; none: end that
 *
 * Return: the exit status
 */
int map_bind(const char *which, unsigned int access)
{
	int map = map_open(which), err;
	struct kvtree *kv;

	if (map < 0) {
		warn("bpf: cannot open the map %s: %s", which, strerror(errno));
		return STATUS_ERROR;
	}
	kv = open_store(access ? access : KVTREE_OPEN_READ);
	err = access ? kvtree_bpf_bind(kv, map, access) : kvtree_bpf_unbind(kv, map);
	kvtree_close(kv);
	close(map);
	return err ? say_bind_failed(which, err) : STATUS_OK;
}
