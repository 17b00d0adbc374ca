/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Random numbers for all benchmarks.  Inline, because one is drawn for each measured
 * operation.
 */
#ifndef BENCH_RANDOM_H
#define BENCH_RANDOM_H

#include <stdint.h>

#include "../../kmod/tests/splitmix64.h"

struct rng {
	uint64_t state;
};

/**
 * rng_seed() - begin a sequence
 * @rng: the sequence
 * @seed: the user's
 * @client: number of the client
 * @stream: number of the client's sequence
 */
static inline void rng_seed(struct rng *rng, uint64_t seed, uint64_t client, uint64_t stream)
{
	rng->state = splitmix64(splitmix64(splitmix64(seed) + client) + stream);
}

/**
 * rng_next() - the next number
 * @rng: the sequence
 *
 * Return: 64 bits
 */
static inline uint64_t rng_next(struct rng *rng)
{
	return splitmix64(rng->state += SPLITMIX64_STEP);
}

/**
 * rng_below() - a number in a range
 * @rng: the sequence
 * @n: the end of the range, above 0
 *
 * Return: 0..n-1
 */
static inline uint64_t rng_below(struct rng *rng, uint64_t n)
{
	return (uint64_t)(((__uint128_t)rng_next(rng) * n) >> 64);
}

/**
 * rng_unit() - a number from 0 to 1
 * @rng: the sequence
 *
 * Return: at least 0, less than 1
 */
static inline double rng_unit(struct rng *rng)
{
	return (double)(rng_next(rng) >> 11) / 0x1p53;
}

/**
 * random_of() - a random number for each number
 * @n: which one
 *
 * Return: the first number of a sequence with the state @n
 */
static inline uint64_t random_of(uint64_t n)
{
	struct rng rng = { n };

	return rng_next(&rng);
}

#endif /* BENCH_RANDOM_H */
