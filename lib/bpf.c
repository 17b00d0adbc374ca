// SPDX-License-Identifier: LGPL-2.1-only
/*
 * BPF programs: whether they may use a store, by which maps, and which of them it calls.
 */
#include "internal.h"

KVTREE_API int kvtree_bpf_allow(const struct kvtree *kv, int allow)
{
	struct kvtree_bpf_access arg = { .allow = !!allow };

	return kvt_ioctl(kv, KVTREE_IOC_BPF_ACCESS, &arg);
}

static int bind_map(const struct kvtree *kv, int map_fd, unsigned int access)
{
	struct kvtree_bpf_bind arg = { .map_fd = map_fd, .access = access };

	return kvt_ioctl(kv, KVTREE_IOC_BPF_BIND, &arg);
}

KVTREE_API int kvtree_bpf_bind(const struct kvtree *kv, int map_fd, unsigned int access)
{
	return access ? bind_map(kv, map_fd, access) : -EINVAL;
}

KVTREE_API int kvtree_bpf_unbind(const struct kvtree *kv, int map_fd)
{
	return bind_map(kv, map_fd, 0);
}

KVTREE_API int kvtree_bpf_unbind_id(const struct kvtree *kv, __u32 map_id)
{
	struct kvtree_bpf_unbind arg = { .map_id = map_id };

	return kvt_ioctl(kv, KVTREE_IOC_BPF_UNBIND, &arg);
}

KVTREE_API int kvtree_bpf_binding_next(const struct kvtree *kv,
				       struct kvtree_bpf_binding *binding, size_t size)
{
	__u32 after = binding->map_id;

	if (size > KVT_IOC_SIZE_MAX || size < offsetof(struct kvtree_bpf_binding, access))
		return -EINVAL;
	memset(binding, 0, size);
	binding->after = after;
	return kvt_ioctl(kv, kvt_ioc_sized(KVTREE_IOC_BPF_BINDING, size), binding);
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
