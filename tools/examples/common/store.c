// SPDX-License-Identifier: GPL-2.0
/* Stores that BPF programs may use. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "example.h"

static struct kvtree *open_store(const char *name, int *err)
{
	struct kvtree *kv = NULL;

	*err = kvtree_open(name, KVTREE_OPEN_READ | KVTREE_OPEN_WRITE, &kv);
	if (*err == -ENODEV)
		die("there is no /dev/kvtree: is the module loaded? try: sudo modprobe kvtree");
	if (*err && *err != -ENOENT)
		die("cannot open the store '%s': %s", name, kvtree_strerror(*err));
	return kv;
}

/**
 * store_open() - open a store for reading and writing
 * @name: its name
 *
 * Exits on errors other than a missing store.
 *
 * Return: the session, or NULL if there is no such store
 */
struct kvtree *store_open(const char *name)
{
	int err;

	return open_store(name, &err);
}

static void create_store(const char *name, uint64_t limit_bytes)
{
	struct kvtree_store_create args = {
		.mode = 0600, .uid = geteuid(), .gid = getegid(), .limit_bytes = limit_bytes,
	};
	struct kvtree *kv;
	int err;

	strncpy(args.name, name, sizeof(args.name) - 1);
	kv = open_store(NULL, &err);
	if (err)
		die("there is no store 'default': load the module again");
	err = kvtree_store_create(kv, &args, sizeof(args));
	/* Another process may have created it first. */
	if (err && err != -EEXIST)
		die("cannot create the store '%s': %s", name,
		    err == -EPERM ? "this needs root" : kvtree_strerror(err));
	kvtree_close(kv);
}

/**
 * store_make() - open a store for BPF programs, and create it if necessary
 * @name: its name
 * @limit_bytes: memory limit, if the store is created now; 0: no limit
 *
 * Exits on failure.
 *
 * Return: the session
 */
struct kvtree *store_make(const char *name, uint64_t limit_bytes)
{
	struct kvtree *kv;
	int err;

	kv = open_store(name, &err);
	if (!kv) {
		create_store(name, limit_bytes);
		kv = open_store(name, &err);
		if (!kv)
			die("the store '%s' was destroyed meanwhile", name);
	}
	err = kvtree_bpf_allow(kv, 1);
	if (err == -EOPNOTSUPP)
		die("BPF programs cannot use kvtree: kernel and module need BTF, %s",
		    "and the kernel a JIT");
	if (err)
		die("cannot let BPF programs use the store '%s': %s", name,
		    kvtree_strerror(err));
	return kv;
}

/**
 * store_bind() - let a program use the store
 * @kv: the session
 * @map: the program's map for the store
 * @access: KVTREE_OPEN_*, no more than the program needs
 *
 * Exits on failure.
 */
void store_bind(struct kvtree *kv, const struct bpf_map *map, unsigned int access)
{
	int err;

	err = kvtree_bpf_bind(kv, bpf_map__fd(map), access);
	if (err)
		die("cannot bind the map '%s' to its store: %s", bpf_map__name(map),
		    kvtree_strerror(err));
}

/**
 * store_counter() - read one of the store's counters
 * @kv: the session
 * @id: KVTREE_STAT_*
 *
 * Exits on failure.
 *
 * Return: its value
 */
uint64_t store_counter(struct kvtree *kv, unsigned int id)
{
	uint64_t values[KVTREE_STAT_NR] = { 0 };
	int nr;

	nr = kvtree_stat(kv, values, ARRAY_SIZE(values));
	if (nr < 0)
		die("cannot read counters: %s", kvtree_strerror(nr));
	return values[id];
}
