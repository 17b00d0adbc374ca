// SPDX-License-Identifier: LGPL-2.1-only
/*
 * BPF programs: whether they may use a store, and what they name it by.
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
