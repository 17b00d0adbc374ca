// SPDX-License-Identifier: LGPL-2.1-only
/*
 * BPF programs: whether they may use a store, what they name it by, and which of them
 * it calls.
 */
#include "internal.h"

KVTREE_API int kvtree_bpf_allow(const struct kvtree *kv, int allow)
{
	struct kvtree_bpf_access arg = { .allow = !!allow };

	return kvt_ioctl(kv, KVTREE_IOC_BPF_ACCESS, &arg);
}

KVTREE_API int kvtree_bpf_handle(const struct kvtree *kv, unsigned int access,
				 uint64_t *handle)
{
	struct kvtree_bpf_handle arg = { .access = access };
	int err = kvt_ioctl(kv, KVTREE_IOC_BPF_HANDLE, &arg);

	if (!err)
		*handle = arg.handle;
	return err;
}

KVTREE_API int kvtree_bpf_hook_next(const struct kvtree *kv,
				    struct kvtree_bpf_hook *hook, size_t size)
{
	__u32 after = hook->id;

	if (size > KVT_IOC_SIZE_MAX || size < offsetof(struct kvtree_bpf_hook, kind))
		return -EINVAL;
	memset(hook, 0, size);
	hook->after = after;
	return kvt_ioctl(kv, kvt_ioc_sized(KVTREE_IOC_BPF_HOOK, size), hook);
}
