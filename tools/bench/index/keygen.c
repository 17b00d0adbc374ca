// SPDX-License-Identifier: GPL-2.0
/* See keygen.h. */
#include <string.h>

#include "keygen.h"

static uint32_t put_number(uint64_t n, uint8_t *to)
{
	n = __builtin_bswap64(n);
	memcpy(to, &n, sizeof(n));
	return sizeof(n);
}

/* A permutation of the numbers below 2^31: every step can be inverted. */
static uint32_t shuffle_31(uint32_t n)
{
	const uint32_t mask = (1u << 31) - 1;

	n = (n ^ n >> 15) * 0x2c1b3c6du & mask;
	n = (n ^ n >> 12) * 0x297a2d39u & mask;
	return n ^ n >> 15;
}

/* With leading zeros if it has less than @width digits. */
static uint32_t put_decimal(uint64_t n, uint32_t width, uint8_t *to)
{
	uint8_t digits[20];
	uint32_t i = sizeof(digits), len;

	do {
		digits[--i] = '0' + n % 10;
		n /= 10;
	} while (n || sizeof(digits) - i < width);
	len = sizeof(digits) - i;
	memcpy(to, digits + i, len);
	return len;
}

/* Random bytes that depend only on @n. */
static uint32_t put_random(uint64_t n, uint32_t len, uint8_t *to)
{
	struct rng rng = { n };
	uint32_t i, some;
	uint64_t bytes;

	for (i = 0; i < len; i += some) {
		bytes = rng_next(&rng);
		some = len - i < sizeof(bytes) ? len - i : sizeof(bytes);
		memcpy(to + i, &bytes, some);
	}
	return len;
}

static uint32_t put_letters(uint64_t n, uint32_t len, uint8_t *to)
{
	static const char letters[] =
		"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
	uint32_t i;

	put_random(n, len, to);
	for (i = 0; i < len; i++)
		to[i] = letters[to[i] * (sizeof(letters) - 1) >> 8];
	return len;
}

uint32_t bench_key(enum bench_keys keys, uint64_t n, uint8_t *to)
{
	switch (keys) {
	case KEYS_RANDOM_8:
		return put_number(splitmix64(n + 1), to);
	case KEYS_COMMON_32:
		memset(to, 'k', 32);
		return 32 + put_number(splitmix64(n + 1), to + 32);
	case KEYS_DECIMAL:
		return put_decimal(shuffle_31(n), 1, to);
	case KEYS_TEN_DIGITS:
		return put_decimal(shuffle_31(n), 10, to);
	case KEYS_USER:
		memcpy(to, "user", 4);
		return 4 + put_decimal(splitmix64(n + 1), 1, to + 4);
	case KEYS_GAMER:
		return put_letters(n, 78 + splitmix64(n + 1) % 33, to);
	case KEYS_HASH_20:
		return put_random(n, 20, to);
	case KEYS_DESCENDING:
		return put_number((1ull << 40) - n, to);
	default:
		return put_number(n, to);
	}
}

bool bench_keys_fixed(enum bench_keys keys)
{
	return keys == KEYS_RANDOM_8 || keys == KEYS_ASCENDING || keys == KEYS_DESCENDING;
}
