// SPDX-License-Identifier: LGPL-2.1-only
/*
 * Names of counters.
 */
#include "internal.h"

static const struct {
	const char *name;
	int gauge;
	const char *text;
} counter[] = {
#define KVT_COUNTER(...)	{ __VA_ARGS__ }
#include <kvtree_counters.h>
};

_Static_assert(ARRAY_SIZE(counter) == KVTREE_STAT_NR, "names of counters");

KVTREE_API int kvtree_stat(const struct kvtree *kv, uint64_t *values,
			   unsigned int nr)
{
	struct kvtree_stat_args arg = {
		.values = kvt_ptr(values),
		.nr = nr,
	};
	int err;

	if (nr)
		memset(values, 0, nr * sizeof(*values));
	err = kvt_ioctl(kv, KVTREE_IOC_STAT, &arg);
	return err ? err : (int)arg.nr;
}

KVTREE_API int kvtree_engine_stat(const struct kvtree *kv,
				  struct kvtree_engine_stat *stat, size_t size)
{
	__u32 nr = stat->nr;

	if (size > KVT_IOC_SIZE_MAX || size < sizeof(*stat))
		return -EINVAL;
	memset(stat, 0, size);
	stat->nr = nr;
	return kvt_ioctl(kv, kvt_ioc_sized(KVTREE_IOC_ENGINE_STAT, size), stat);
}

KVTREE_API const char *kvtree_stat_name(unsigned int id)
{
	return id < ARRAY_SIZE(counter) ? counter[id].name : NULL;
}

KVTREE_API const char *kvtree_stat_text(unsigned int id)
{
	return id < ARRAY_SIZE(counter) ? counter[id].text : NULL;
}

KVTREE_API int kvtree_stat_is_gauge(unsigned int id)
{
	return id < ARRAY_SIZE(counter) && counter[id].gauge;
}
