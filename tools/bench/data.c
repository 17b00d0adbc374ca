// SPDX-License-Identifier: GPL-2.0
/* Keys and random numbers: the same for all systems, and the same in every run. */
#include <string.h>

#include "common.h"

/**
 * mix() - a random number
 * @x: a different one has a different number, without a visible pattern
 *
 * splitmix64.
 *
 * Return: the number
 */
uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
	x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
	return x ^ (x >> 31);
}

/**
 * key_make() - the key of a number
 * @key: KEY_LEN bytes
 * @nr: the number
 *
 * As redis-benchmark makes them: "key:" and twelve digits.
 */
void key_make(char *key, uint32_t nr)
{
	unsigned int i;

	memcpy(key, "key:", 4);
	for (i = KEY_LEN; i-- > 4; nr /= 10)
		key[i] = '0' + nr % 10;
}
