/* SPDX-License-Identifier: GPL-2.0 */
/* The keys of the workloads: the n-th of each is always the same. */
#ifndef KVT_BENCH_KEYGEN_H
#define KVT_BENCH_KEYGEN_H

#include <stdbool.h>

#include "../random.h"

#define BENCH_KEY_MAX	48
/* Of keys that are not scanned. */
#define BENCH_KEY_LONG	112

enum bench_keys {
	KEYS_RANDOM_8,		/* eight random bytes */
	KEYS_COMMON_32,		/* the same after 32 bytes that all keys have */
	KEYS_DECIMAL,		/* random numbers below 2^31, written down */
	KEYS_ASCENDING,		/* eight bytes */
	KEYS_DESCENDING,	/* the same */
	KEYS_USER,		/* "user" and a number of 1 to 20 digits, as in YCSB */
	KEYS_TEN_DIGITS,	/* random numbers below 2^31, with zeros before them */
	KEYS_GAMER,		/* 78 to 110 letters and digits, 94 on the average */
	KEYS_HASH_20,		/* 20 random bytes */
	KEYS_NR
};

/* Different for different @n.  Returns its length. */
uint32_t bench_key(enum bench_keys keys, uint64_t n, uint8_t *to);
/* Whether they are numbers of eight bytes. */
bool bench_keys_fixed(enum bench_keys keys);

#endif /* KVT_BENCH_KEYGEN_H */
