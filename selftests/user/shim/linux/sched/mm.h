/* SPDX-License-Identifier: GPL-2.0 */
/* There are no memory cgroups. */
#ifndef SHIM_SCHED_MM_H
#define SHIM_SCHED_MM_H

#include <linux/types.h>

struct mem_cgroup;

static inline struct mem_cgroup *set_active_memcg(struct mem_cgroup *memcg)
{
	return NULL;
}

#endif /* SHIM_SCHED_MM_H */
