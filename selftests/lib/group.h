/* SPDX-License-Identifier: GPL-2.0 */
/* A memory cgroup, and what the kernel has charged to it. */
#ifndef KVT_TEST_GROUP_H
#define KVT_TEST_GROUP_H

#include <stdbool.h>

struct kvt_group {
	char path[128];
};

/*
 * A group's charge differs from its memory by the charges and counts that each CPU keeps
 * back, and by what its processes need themselves.
 */
#define KVT_GROUP_SLACK	(3 << 20)

/* Returns false if the kernel has no memory cgroups, or not here: skip the test then. */
bool kvt_group_make(struct kvt_group *g, const char *name);
/* The calling process, and its children, from now on. */
void kvt_group_enter(const struct kvt_group *g);
long kvt_group_bytes(const struct kvt_group *g);
/* Set its limit in bytes; less than 0: no limit. */
void kvt_group_limit(const struct kvt_group *g, long bytes);
/* Its processes wait for each allocation while it has more than that. */
void kvt_group_throttle(const struct kvt_group *g, long bytes);
/* How often it needed more than it may have. */
long kvt_group_over(const struct kvt_group *g);
/* When no process is in it any more. */
void kvt_group_end(const struct kvt_group *g);

#endif /* KVT_TEST_GROUP_H */
