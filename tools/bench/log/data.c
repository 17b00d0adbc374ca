// SPDX-License-Identifier: GPL-2.0
/* Keys and values: the same for all systems, and the same in every run. */
#include <string.h>

#include "bench_log.h"

uint32_t nr_keys;
uint32_t value_len = VALUE_LEN;

/**
 * draw_key() - the next key of a sequence
 * @draw: state of the sequence
 *
 * Return: its number, below nr_keys
 */
uint32_t draw_key(struct draw *draw)
{
	return random_of(draw->state++) % nr_keys;
}

/**
 * key_scattered() - numbers in a row, in no order
 * @i: one of them
 * @n: how many there are
 *
 * Return: another number below @n for each @i below @n, if @n has no factor above 2^31
 */
uint32_t key_scattered(uint32_t i, uint32_t n)
{
	return (uint64_t)i * 2654435761u % n;
}

/**
 * value_make() - a value for a key
 * @value: VALUE_LEN bytes
 * @nr: the key's number
 * @count: distinguishes it from other values
 *
 * It is not compressible.
 */
void value_make(char *value, uint32_t nr, uint64_t count)
{
	uint64_t words[VALUE_LEN / 8 + 1], i;

	words[0] = nr;
	words[1] = count;
	for (i = 2; i < ARRAY_SIZE(words); i++)
		words[i] = random_of(random_of(nr) + random_of(count) + i);
	memcpy(value, words, VALUE_LEN);
}

/**
 * value_right() - whether a value was written for the key
 * @value: the value read
 * @len: its length
 * @nr: the key's number
 *
 * Return: whether it is correct
 */
bool value_right(const char *value, size_t len, uint32_t nr)
{
	char want[VALUE_LEN];
	uint64_t count;

	if (len != value_len)
		return false;
	memcpy(&count, value + 8, sizeof(count));
	value_make(want, nr, count);
	return !memcmp(value, want, value_len);
}
