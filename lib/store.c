// SPDX-License-Identifier: LGPL-2.1-only
/*
 * Stores: creating, changing, destroying, listing.
 */
#include "internal.h"

KVTREE_API int kvtree_store_create(const struct kvtree *kv,
				   const struct kvtree_store_create *args,
				   size_t size)
{
	if (size > KVT_IOC_SIZE_MAX)
		return -EINVAL;
	/* The kernel only reads it. */
	return kvt_ioctl(kv, kvt_ioc_sized(KVTREE_IOC_STORE_CREATE, size),
			 (void *)(uintptr_t)args);
}

KVTREE_API int kvtree_store_set(const struct kvtree *kv, const struct kvtree_store_set *args,
				size_t size)
{
	if (size > KVT_IOC_SIZE_MAX)
		return -EINVAL;
	/* The kernel only reads it. */
	return kvt_ioctl(kv, kvt_ioc_sized(KVTREE_IOC_STORE_SET, size), (void *)(uintptr_t)args);
}

KVTREE_API int kvtree_store_destroy(const struct kvtree *kv, const char *name)
{
	struct kvtree_store_destroy arg = { .flags = 0 };

	if (strlen(name) >= sizeof(arg.name))
		return -ENAMETOOLONG;
	memcpy(arg.name, name, strlen(name));
	return kvt_ioctl(kv, KVTREE_IOC_STORE_DESTROY, &arg);
}

KVTREE_API int kvtree_store_next(const struct kvtree *kv,
				 struct kvtree_store_info *info, size_t size)
{
	__u64 after = info->id;

	if (size > KVT_IOC_SIZE_MAX || size < sizeof(info->after))
		return -EINVAL;
	memset(info, 0, size);
	info->after = after;
	return kvt_ioctl(kv, kvt_ioc_sized(KVTREE_IOC_STORE_LIST, size), info);
}

KVTREE_API int kvtree_store_self(const struct kvtree *kv,
				 struct kvtree_store_info *info, size_t size)
{
	if (size > KVT_IOC_SIZE_MAX)
		return -EINVAL;
	memset(info, 0, size);
	return kvt_ioctl(kv, kvt_ioc_sized(KVTREE_IOC_STORE_SELF, size), info);
}
