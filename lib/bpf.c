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

/*
 * Have the kernel describe what comes after @id.  Every such structure begins with the
 * id to go on from; the caller's has @size bytes, at least @min.
 */
static int next_after(const struct kvtree *kv, unsigned long cmd, __u32 id, void *info,
		      size_t size, size_t min)
{
	if (size > KVT_IOC_SIZE_MAX || size < min)
		return -EINVAL;
	memset(info, 0, size);
	memcpy(info, &id, sizeof(id));
	return kvt_ioctl(kv, kvt_ioc_sized(cmd, size), info);
}

KVTREE_API int kvtree_bpf_binding_next(const struct kvtree *kv,
				       struct kvtree_bpf_binding *binding, size_t size)
{
	return next_after(kv, KVTREE_IOC_BPF_BINDING, binding->map_id, binding, size,
			  offsetof(struct kvtree_bpf_binding, access));
}

KVTREE_API int kvtree_bpf_hook_next(const struct kvtree *kv,
				    struct kvtree_bpf_hook *hook, size_t size)
{
	return next_after(kv, KVTREE_IOC_BPF_HOOK, hook->id, hook, size,
			  offsetof(struct kvtree_bpf_hook, kind));
}
