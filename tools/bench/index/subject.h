/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Subjects: ordered maps from keys, which are bytes, to values.  There is one subject per
 * process, and all of its threads are the driver's workers.
 *
 * A value is a number, or BENCH_COLS columns in "wide" workloads.  Its low bits identify
 * its key, so that everything read can be checked.
 */
#ifndef KVT_BENCH_SUBJECT_H
#define KVT_BENCH_SUBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "keygen.h"

#define BATCH		32
#define SCAN_MAX	100
#define BENCH_COLS	10
#define BENCH_VALUE_MAX	1200

struct bench_key_ref {
	const uint8_t *data;
	uint32_t len;
};

union bench_value {
	uint64_t number;
	uint32_t column[BENCH_COLS];
};

/* Keys and values copied by a scan; column 0 of wide values. */
struct bench_scan {
	uint8_t key[SCAN_MAX][BENCH_KEY_MAX];
	uint32_t len[SCAN_MAX];
	uint64_t value[SCAN_MAX];
};

/* Memory used, by kind; 0 if the subject cannot tell. */
struct bench_memory {
	uint64_t nodes;
	uint64_t values;
	uint64_t slack;		/* allocated and not in use */
	uint64_t all;
	double huge;		/* share of the process's memory in huge pages */
};

/* Exchanges of an engine without locks: attempted, and lost to another thread. */
enum bench_swap {
	SWAP_UPDATE,
	SWAP_CONSOLIDATE,
	SWAP_SPLIT,
	SWAP_POST,
	SWAPS
};

struct bench_swaps {
	uint64_t made[SWAPS];
	uint64_t lost[SWAPS];
};

/* The configuration of a process. */
struct bench_config {
	enum bench_keys keys;
	uint64_t nr_keys;
	bool fixed;		/* keys are numbers of 8 bytes, big-endian */
	bool wide;
	uint32_t value_len;	/* length of a value that begins with the number; 0: number */
	bool small_pages;
};

struct subject {
	const char *name;
	bool fixed_only;	/* only keys of 8 bytes and values that are numbers */
	bool long_values;	/* values may be longer than a number or columns */
	bool one_writer;	/* no writes by several threads at once */
	/* Called once in its process, by the main thread. */
	void (*init)(const struct bench_config *config);
	/* Called by each worker when it starts. */
	void (*enter)(void);
	/* Called by each worker around a phase. */
	void (*begin)(void);
	void (*end)(void);
	/* Called now and then, between operations. */
	void (*pause)(void);
	/* Called by the main thread while no worker works: removes everything. */
	void (*clear)(void);
	/* The same: makes everything written readable. */
	void (*publish)(void);
	/* The same. */
	void (*memory)(struct bench_memory *memory);
	/* The same: counts since its creation. */
	void (*swaps)(struct bench_swaps *swaps);

	/* Inserts the key or replaces its value. */
	void (*put)(struct bench_key_ref key, const union bench_value *value);
	/* Copies the value, and its version if there are any.  Returns whether the key exists. */
	bool (*get)(struct bench_key_ref key, union bench_value *value);
	/* Returns how many of the BATCH keys exist; their values are numbers. */
	unsigned int (*get_batch)(const struct bench_key_ref *keys, uint64_t *values);
	/* The same of put(), of BATCH keys. */
	void (*put_batch)(const struct bench_key_ref *keys, const union bench_value *values);
	/* Copies up to @nr keys and values from @key on.  Returns how many. */
	unsigned int (*scan)(struct bench_key_ref key, unsigned int nr, struct bench_scan *out);
	/* Returns whether the key existed. */
	bool (*remove)(struct bench_key_ref key);
	bool (*put_column)(struct bench_key_ref key, unsigned int column, uint32_t value);
	/* Loads that each depend on the previous one. */
	uint64_t (*chase)(uint64_t start, uint64_t nr);
};

static inline uint64_t bench_key_number(struct bench_key_ref key)
{
	uint64_t n;

	__builtin_memcpy(&n, key.data, sizeof(n));
	return __builtin_bswap64(n);
}

extern const struct subject subject_kvtree, subject_bwtree, subject_lmdb,
	subject_skiplist, subject_congee, subject_treeindex, subject_stdmap, subject_chase;

#endif /* KVT_BENCH_SUBJECT_H */
