/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Limits of a store: bytes of live memory (values and nodes) and keys.
 *
 * Both are pools.  A CPU takes from the shared pool in batches that shrink near
 * the limit and keeps the remainder, so writers on different CPUs seldom touch
 * the same cache line.  Before a charge is refused, it collects what the other
 * CPUs hold.  So the limit is never exceeded, and a charge is refused too early
 * only because of charges and returns at that very moment.  Giving back always
 * succeeds.  While more is charged than a new limit allows, CPUs do not use what
 * they hold.
 */
#ifndef KVT_BASE_QUOTA_H
#define KVT_BASE_QUOTA_H

#include <linux/atomic.h>
#include <linux/cache.h>
#include <linux/percpu.h>
#include <linux/types.h>

struct kvt_pool_cpu {
	atomic64_t stock;	/* taken from the pool, not charged */
};

struct kvt_pool {
	s64 limit;
	s64 batch;		/* the most that a CPU takes ahead */
	bool over;		/* more may be taken than a new limit allows */
	struct kvt_pool_cpu __percpu *cpu;
	atomic64_t taken ____cacheline_aligned_in_smp;	/* charged, and the CPUs' stock */
};

struct kvt_quota {
	struct kvt_pool bytes;
	struct kvt_pool keys;
};

int kvt_quota_init(struct kvt_quota *quota, u64 limit_bytes, u64 limit_keys);
void kvt_quota_limit(struct kvt_quota *quota, u64 limit_bytes, u64 limit_keys);
void kvt_quota_exit(struct kvt_quota *quota);

/* Any context but NMI.  0 or -EDQUOT. */
int kvt_quota_charge(struct kvt_quota *quota, size_t bytes);
void kvt_quota_uncharge(struct kvt_quota *quota, size_t bytes);
int kvt_quota_charge_keys(struct kvt_quota *quota, u32 nr);
void kvt_quota_uncharge_keys(struct kvt_quota *quota, u32 nr);

/* Bytes and keys charged; exact if nothing is charged meanwhile. */
u64 kvt_quota_bytes(const struct kvt_quota *quota);
u64 kvt_quota_keys(const struct kvt_quota *quota);

#endif /* KVT_BASE_QUOTA_H */
