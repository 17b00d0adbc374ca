// SPDX-License-Identifier: GPL-2.0
/* See keygen.h. */
#include <string.h>

#include "keygen.h"

const char *const bench_keys_names[KEYS_NR] = {
	[KEYS_RANDOM_8]	 = "W1",
	[KEYS_DECIMAL]	 = "W2",
	[KEYS_PREFIX_40] = "W3",
	[KEYS_ASCENDING] = "W6",
};

static uint32_t put_number(uint64_t n, uint8_t *to)
{
	n = __builtin_bswap64(n);
	memcpy(to, &n, sizeof(n));
	return sizeof(n);
}

/* Each number below 2^31 comes once: every step can be undone. */
static uint32_t shuffle_31(uint32_t n)
{
	const uint32_t mask = (1u << 31) - 1;

	n = (n ^ n >> 15) * 0x2c1b3c6du & mask;
	n = (n ^ n >> 12) * 0x297a2d39u & mask;
	return n ^ n >> 15;
}

static uint32_t put_decimal(uint32_t n, uint8_t *to)
{
	uint8_t digits[10];
	uint32_t i = sizeof(digits), len;

	do {
		digits[--i] = '0' + n % 10;
		n /= 10;
	} while (n);
	len = sizeof(digits) - i;
	memcpy(to, digits + i, len);
	return len;
}

uint32_t bench_key(enum bench_keys keys, uint64_t n, uint8_t *to)
{
	switch (keys) {
	case KEYS_RANDOM_8:
		return put_number(bench_mix(n + 1), to);
	case KEYS_DECIMAL:
		return put_decimal(shuffle_31(n), to);
	case KEYS_PREFIX_40:
		memset(to, 'k', 32);
		return 32 + put_number(bench_mix(n + 1), to + 32);
	default:
		return put_number(n, to);
	}
}
