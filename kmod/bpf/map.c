// SPDX-License-Identifier: GPL-2.0
/* Maps that user space binds to stores. */
#include <linux/bpf.h>
#include <linux/err.h>
#include <linux/file.h>
#include <linux/fs.h>

#include "bpf.h"
#include "compat.h"
#include "core/binding.h"

/* Modules must import bpf_map_get(). */
KVT_IMPORT_BPF();

/* Check that a file descriptor belongs to the map and is open for writing. */
static int map_writable(int fd, const struct bpf_map *map)
{
	struct file *file = fget(fd);
	int err = 0;

	if (!file)
		return -EBADF;
	/* Another thread may have replaced the file since. */
	if (file->private_data != map)
		err = -EBADF;
	else if (!(file->f_mode & FMODE_CAN_WRITE))
		err = -EACCES;
	fput(file);
	return err;
}

/* The map of a file descriptor, with a reference. */
static struct bpf_map *map_get(int fd)
{
	struct bpf_map *map = bpf_map_get(fd);
	int err;

	if (IS_ERR(map))
		return map;
	err = map_writable(fd, map);
	if (!err)
		return map;
	bpf_map_put(map);
	return ERR_PTR(err);
}

/* The address of the only value, if the verifier can take it for a constant string. */
static int map_value(const struct bpf_map *map, const void **addr)
{
	u64 imm;

	if (map->map_type != BPF_MAP_TYPE_ARRAY || map->max_entries != 1 ||
	    !(map->map_flags & BPF_F_RDONLY_PROG) ||
	    map->value_size < sizeof(struct bpf_kvt_store) ||
	    map->value_size > KVTREE_BPF_MAP_MAX)
		return -EINVAL;
	if (!map->ops->map_direct_value_addr || map->ops->map_direct_value_addr(map, &imm, 0))
		return -EINVAL;
	*addr = (const void *)(uintptr_t)imm;
	return 0;
}

/**
 * kvt_bpf_map_bind() - bind a map to a store, or end a binding
 * @store: the store
 * @fd: the map's file descriptor, of the current task
 * @access: KVTREE_OPEN_READ, KVTREE_OPEN_WRITE or both; 0: end the binding
 *
 * Context: process context, sleeps.
 *
 * Return: 0; -EBADF, -EINVAL: no such map; -EACCES: not for writing; as kvt_bind()
 * or kvt_unbind().
 */
int kvt_bpf_map_bind(struct kvt_store *store, int fd, unsigned int access)
{
	struct bpf_map *map = map_get(fd);
	const void *addr;
	int err;

	if (IS_ERR(map))
		return PTR_ERR(map);
	if (!access) {
		err = kvt_unbind(store, map->id);
	} else {
		err = map_value(map, &addr) ?: kvt_bind(store, map, addr, access);
		/* The binding keeps the reference. */
		if (!err)
			return 0;
	}
	bpf_map_put(map);
	return err;
}
