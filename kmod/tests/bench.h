/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What kvtree_bench measures: maps from keys of eight bytes to a number, read
 * under RCU unless their name mentions a lock.
 */
#ifndef KVT_TESTS_BENCH_H
#define KVT_TESTS_BENCH_H

#include <linux/types.h>

#include "splitmix64.h"

/* What a get copies out. */
struct bench_found {
	u64 version;
	u64 value;
};

struct kvt_index;

struct bench_map {
	const char *name;
	bool dense_only;	/* sparse keys cost it too much memory */
	int (*open)(void);
	void (*close)(void);	/* frees all its contents */
	/* Inserts the key or replaces its value by one with a higher version. */
	int (*put)(u64 key, u64 value);
	bool (*get)(u64 key, struct bench_found *found);
};

extern const struct bench_map bench_kvtree, bench_rbtree_spin, bench_rbtree_rcu, bench_maple,
	bench_xarray, bench_rhashtable;

/* Maps with 30-byte keys.  Their puts are timed, from any number of threads. */
#define BENCH_NAME_LEN	30
#define BENCH_NAME_DATA	200

struct bench_names {
	const char *name;
	int (*open)(void);
	void (*close)(void);
	int (*put)(const u8 *key, const u8 *data);
	/* For maps that free replaced values only after their readers. */
	int (*hold)(const u8 *key, u64 ns);	/* be such a reader for @ns */
	u64 (*waiting_max)(void);		/* the most bytes that waited for readers */
	u64 waiting_bound;
};

extern const struct bench_names bench_names_kvtree, bench_names_rhashtable, bench_names_empty;

static inline u64 bench_random(u64 *state)
{
	return splitmix64(*state += SPLITMIX64_STEP);
}

/* 0..@n - 1 */
static inline u32 bench_below(u64 *state, u32 n)
{
	return (bench_random(state) >> 32) * n >> 32;
}

int bench_latency(void);

#endif /* KVT_TESTS_BENCH_H */
