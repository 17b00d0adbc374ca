/* SPDX-License-Identifier: GPL-2.0 */
/*
 * SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): random numbers of tests and benchmarks, in the
 * kernel and outside, the same for the same seed on every machine.
 */
#ifndef KVT_SPLITMIX64_H
#define KVT_SPLITMIX64_H

#include <linux/types.h>

/* A sequence is splitmix64(state += SPLITMIX64_STEP).  Every number is a good first state. */
#define SPLITMIX64_STEP	0x9e3779b97f4a7c15ull

/* Scatter the bits of a number: a permutation. */
static inline __u64 splitmix64(__u64 n)
{
	n = (n ^ (n >> 30)) * 0xbf58476d1ce4e5b9ull;
	n = (n ^ (n >> 27)) * 0x94d049bb133111ebull;
	return n ^ (n >> 31);
}

#endif
