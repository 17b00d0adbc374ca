/* SPDX-License-Identifier: GPL-2.0 */
/* The keys of the workloads: the n-th key of each is always the same. */
#ifndef KVT_BENCH_KEYGEN_H
#define KVT_BENCH_KEYGEN_H

#include <stdbool.h>

#include "../random.h"

#define BENCH_KEY_MAX	48
/* The maximum for keys that are not scanned. */
#define BENCH_KEY_LONG	112

enum bench_keys {
	KEYS_RANDOM_8,		/* eight random bytes */
	KEYS_COMMON_32,		/* the same, after a common prefix of 32 bytes */
	KEYS_DECIMAL,		/* random numbers below 2^31, in decimal */
	KEYS_ASCENDING,		/* eight bytes */
	KEYS_DESCENDING,	/* the same */
	KEYS_USER,		/* "user" and a number of 1 to 20 digits, as in YCSB */
	KEYS_TEN_DIGITS,	/* random numbers below 2^31, with leading zeros */
	KEYS_GAMER,		/* 78 to 110 letters and digits, 94 on the average */
	KEYS_HASH_20,		/* 20 random bytes */
	KEYS_NR
};

/* Different for each @n.  Returns the length. */
uint32_t bench_key(enum bench_keys keys, uint64_t n, uint8_t *to);
/* Whether the keys are numbers of eight bytes. */
bool bench_keys_fixed(enum bench_keys keys);

#endif /* KVT_BENCH_KEYGEN_H */
