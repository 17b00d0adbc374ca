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
	{ ENODEV, "no /dev/kvtree on this machine: load the module (modprobe kvtree)" },
	{ ENOTTY, "not a kvtree session, or a kernel module that is older than this program" },
	{ ENOENT, "not found: no such key, or no store of this name" },
	{ EEXIST, "it exists already" },
	{ ECANCELED, "the key has another version: read it again; or it was canceled" },
	{ ESTALE, "the store was destroyed or detached: close this session" },
	{ EACCES, "the store's owner and mode, or how it was opened, do not allow this" },
	{ EPERM, "this needs CAP_SYS_ADMIN: run it as root" },
	{ EINVAL, "invalid argument: a column, flag or name out of its range" },
	{ ENAMETOOLONG, "the store's name is too long: at most 63 bytes" },
	{ EMSGSIZE, "the value does not fit into the buffer" },
	{ E2BIG, "too long: a key has at most 4096 bytes, a value 1 MiB in 256 columns" },
	{ EOPNOTSUPP, "this kernel module does not offer this operation" },
	{ ENOPKG, "kvtree_bwtree.ko cannot be loaded: \"modprobe kvtree_bwtree\" says why" },
	{ EKEYREJECTED, "the store's validator refuses this value" },
	{ ENXIO, "the store has no such filter (any more)" },
	{ EDQUOT, "the store's limit is reached: remove keys, or use a larger store" },
	{ ENOSPC, "the store's device is full: remove keys, or attach a larger device" },
	{ EROFS, "the store is read-only after a write error: see the kernel log" },
	{ EIO, "the store's device failed: some changes are lost; see the kernel log" },
	{ EAGAIN, "the store is busy, or too many operations are under way: try again" },
	{ EBUSY, "too many changes at the same place, or it is in use: try again" },
	{ ENOMEM, "out of memory, or the memory cgroup's limit is reached" },
	{ EFAULT, "a pointer points to memory that is not there" },
	{ EBADF, "the descriptor is not open" },
	{ EMFILE, "too many open files in this process" },
	{ ENFILE, "too many open files in the system" },
	{ EINTR, "a signal handler ran before anything completed" },
	{ ETIME, "the time was over before anything completed" },
	{ EINPROGRESS, "the operation has not been executed" },
	{ EBADMSG, "damaged; or the kernel module and this library do not fit together" },
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
