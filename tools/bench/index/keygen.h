/* SPDX-License-Identifier: GPL-2.0 */
/* The keys of the workloads: the n-th of each is always the same. */
#ifndef KVT_BENCH_KEYGEN_H
#define KVT_BENCH_KEYGEN_H

#include <stdbool.h>
#include <stdint.h>

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

/* Random numbers (SplitMix64; Steele, Lea, Flood, OOPSLA 2014). */
static inline uint64_t bench_mix(uint64_t n)
{
	n = (n ^ (n >> 30)) * 0xbf58476d1ce4e5b9ull;
	n = (n ^ (n >> 27)) * 0x94d049bb133111ebull;
	return n ^ (n >> 31);
}

static inline uint64_t bench_random(uint64_t *state)
{
	return bench_mix(*state += 0x9e3779b97f4a7c15ull);
}

/* 0..@n - 1; @n is at most 2^32. */
static inline uint64_t bench_below(uint64_t *state, uint64_t n)
{
	return (bench_random(state) >> 32) * n >> 32;
}

#endif /* KVT_BENCH_KEYGEN_H */
