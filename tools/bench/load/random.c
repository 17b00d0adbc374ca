// SPDX-License-Identifier: GPL-2.0
/*
 * Numbers that look random, the same for the same seed on every machine.
 */
#include <math.h>

#include "bench_load.h"

/**
 * mix64() - scatter the bits of a number
 * @n: the number
 *
 * The finalizer of splitmix64, a permutation.
 *
 * Return: the number that stands for it
 */
uint64_t mix64(uint64_t n)
{
	n = (n ^ (n >> 30)) * 0xbf58476d1ce4e5b9ull;
	n = (n ^ (n >> 27)) * 0x94d049bb133111ebull;
	return n ^ (n >> 31);
}

/**
 * fnv64() - the hash by which YCSB scatters numbers
 * @n: the number
 *
 * FNV-1a over its 8 bytes, the low one first, without the sign.
 *
 * Return: 0..2^63
 */
uint64_t fnv64(uint64_t n)
{
	uint64_t hash = 0xcbf29ce484222325ull;
	int i;

	for (i = 0; i < 8; i++, n >>= 8)
		hash = (hash ^ (n & 0xff)) * 1099511628211ull;
	return hash >> 63 ? -hash : hash;
}

/**
 * rng_seed() - begin a sequence
 * @rng: the sequence
 * @seed: the user's
 * @client: whose it is
 * @stream: which of the client's it is
 */
void rng_seed(struct rng *rng, uint64_t seed, uint64_t client, uint64_t stream)
{
	rng->state = mix64(mix64(mix64(seed) + client) + stream);
}

/**
 * rng_next() - the next number
 * @rng: the sequence
 *
 * Return: 64 bits (splitmix64)
 */
uint64_t rng_next(struct rng *rng)
{
	rng->state += 0x9e3779b97f4a7c15ull;
	return mix64(rng->state);
}

/**
 * rng_below() - a number in a range
 * @rng: the sequence
 * @n: the end of the range, above 0
 *
 * Return: 0..n-1
 */
uint64_t rng_below(struct rng *rng, uint64_t n)
{
	return (uint64_t)(((__uint128_t)rng_next(rng) * n) >> 64);
}

/**
 * rng_unit() - a number from 0 to 1
 * @rng: the sequence
 *
 * Return: at least 0, less than 1
 */
double rng_unit(struct rng *rng)
{
	return ldexp((double)(rng_next(rng) >> 11), -53);
}
