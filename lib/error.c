// SPDX-License-Identifier: LGPL-2.1-only
/*
 * Errors in words.
 */
#include "internal.h"

static const struct {
	int err;
	const char *text;
} meaning[] = {
	{ 0, "success" },
	{ ENODEV, "no /dev/kvtree: load the module (modprobe kvtree); or a device is missing" },
	{ ENOTTY, "not a kvtree session, or a kernel module that is older than this program" },
	{ ENOENT, "not found: no such key, store, device or file" },
	{ EEXIST, "it exists already" },
	{ ECANCELED, "the key has another version: read it again; or it was canceled" },
	{ ESTALE, "the store was destroyed or detached, or there is no default store" },
	{ EACCES, "the store's owner and mode, or how it was opened, do not allow this" },
	{ EPERM, "this needs CAP_SYS_ADMIN (root); or BPF programs may not use the store" },
	{ EINVAL, "invalid argument: a column, flag or name; or a device that is not formatted" },
	{ ENAMETOOLONG, "too long: a store's name has at most 63 bytes; or the path of a device" },
	{ EMSGSIZE, "the value does not fit into the buffer" },
	{ E2BIG, "too long: a key has at most 4096 bytes, a value 1 MiB in 256 columns" },
	{ EOPNOTSUPP, "not supported by this store, device, module or kernel" },
	{ ENOPKG, "kvtree_bwtree.ko cannot be loaded: \"modprobe kvtree_bwtree\" says why" },
	{ EKEYREJECTED, "the store's validator refuses this value" },
	{ ENXIO, "the store has no such filter (any more)" },
	{ ERANGE, "that epoch does not exist, or can no longer be restored" },
	{ EDQUOT, "the store's limit is reached: remove keys, or raise it (kvtree store set)" },
	{ ENOSPC, "the store's devices are full: remove keys; or too many maps are bound" },
	{ EROFS, "read-only: attached so, or since a write error (see the kernel log)" },
	{ EIO, "a device failed, and changes may be lost: see the kernel log" },
	{ EAGAIN, "the store is busy, or too many operations are under way: try again" },
	{ EBUSY, "in use, durable (detach it instead), or changed too often at once: try again" },
	{ ENOMEM, "out of memory, or the memory cgroup's limit is reached" },
	{ EFAULT, "a pointer points to memory that is not mapped" },
	{ EBADF, "the descriptor is not open" },
	{ EMFILE, "too many open files in this process" },
	{ ENFILE, "too many open files in the system" },
	{ EINTR, "a signal handler ran before anything completed" },
	{ ETIME, "timed out before anything completed" },
	{ EINPROGRESS, "the operation has not been executed" },
	{ EBADMSG, "damaged; or the kernel module and this library do not match" },
	{ ENOTBLK, "not a block device" },
	{ EXDEV, "the devices belong to different stores, or one is given twice" },
	{ ENODATA, "it holds no durable store" },
};

KVTREE_API const char *kvtree_strerror(int err)
{
	const char *text = NULL;
	size_t i;

	if (err < 0 && err > -4096)
		err = -err;
	for (i = 0; i < ARRAY_SIZE(meaning); i++)
		if (meaning[i].err == err)
			return meaning[i].text;
#ifdef __GLIBC__
	/* Unlike strerror() it has no buffer that threads would share. */
	text = strerrordesc_np(err);
#endif
	return text ? text : "unknown error";
}
