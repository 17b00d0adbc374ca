/* SPDX-License-Identifier: GPL-2.0 */
/* The parts of a store that its log uses. */
#ifndef KVT_LOG_STORE_ENV_H
#define KVT_LOG_STORE_ENV_H

struct kvt_index;
struct kvt_quota;
struct kvt_reclaim;
struct kvt_stats;
struct mem_cgroup;

/* All of these outlive the log. */
struct kvt_log_env {
	const char *name;
	struct kvt_index *index;
	struct kvt_quota *quota;
	struct kvt_reclaim *reclaim;
	struct kvt_stats *stats;
	struct mem_cgroup *memcg;
};

#endif /* KVT_LOG_STORE_ENV_H */
