/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Limits of a store: bytes of live memory (values and nodes) and keys.
 *
 * Bytes are taken from a shared pool in per-CPU batches that shrink near the
 * limit, so that writers on different CPUs seldom touch the same line.  What
 * lies in the CPUs' batches is the slack: the limit may be refused that much
 * too early, never passed.  Giving back always succeeds.
 */
#ifndef KVT_QUOTA_H
#define KVT_QUOTA_H

#include <linux/atomic.h>
#include <linux/percpu.h>
#include <linux/types.h>

struct kvt_quota_cpu {
	atomic64_t bytes;	/* taken from the pool, not yet charged */
};

struct kvt_quota {
	u64 limit_bytes;	/* U64_MAX: none */
	u64 limit_keys;
	atomic64_t bytes;	/* taken from the pool: charged plus what the CPUs hold */
	atomic64_t keys;
	struct kvt_quota_cpu __percpu *cpu;
};

int kvt_quota_init(struct kvt_quota *quota, u64 limit_bytes, u64 limit_keys);
void kvt_quota_exit(struct kvt_quota *quota);

/* Any context but NMI.  0 or -EDQUOT. */
int kvt_quota_charge(struct kvt_quota *quota, size_t bytes);
void kvt_quota_uncharge(struct kvt_quota *quota, size_t bytes);
int kvt_quota_charge_key(struct kvt_quota *quota);
void kvt_quota_uncharge_key(struct kvt_quota *quota);

/* Bytes charged; exact when nobody charges meanwhile. */
u64 kvt_quota_bytes(const struct kvt_quota *quota);

#endif /* KVT_QUOTA_H */
