// SPDX-License-Identifier: GPL-2.0
/*
 * The records of a store.
 *
 * A record has a number, from which its key is made like YCSB's.  The content of a field depends
 * on the key, the field, and a salt at its beginning that differs for each write: a reader can
 * tell whether a field was written for it, whatever client wrote it last.
 */
#include "bench_load.h"

#define PREFIX_LEN	(sizeof(RECORD_PREFIX) - 1)
#define SALT_LEN	sizeof(uint32_t)
#define SALTED_MIN	8	/* shorter fields have no salt and a fixed content */
#define POWERS		20	/* 10^0..10^19 */

/**
 * fnv64() - YCSB's hash for scattering numbers
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
 * record_key_room() - the length of the longest key
 * @shape: the records
 *
 * Return: bytes
 */
size_t record_key_room(const struct shape *shape)
{
	return shape->key_size ? shape->key_size : PREFIX_LEN + RECORD_DIGITS;
}

/**
 * record_size() - the length of a record's value
 * @shape: the records
 *
 * Return: bytes in all fields
 */
size_t record_size(const struct shape *shape)
{
	return (size_t)shape->fields * shape->field_size;
}

/**
 * record_digits() - the number of digits in a key
 * @shape: the records
 *
 * Return: the number
 */
unsigned int record_digits(const struct shape *shape)
{
	return (unsigned int)(record_key_room(shape) - PREFIX_LEN);
}

static uint64_t power_of_ten(unsigned int n)
{
	uint64_t power = 1;

	while (n--)
		power *= 10;
	return power;
}

/*
 * The number in the key of a record: the record's number, or another one that scatters the keys.
 * YCSB's hash needs 19 digits.  With fewer digits, multiply by a number that has no common divisor
 * with a power of ten, so that the results are distinct.
 */
static uint64_t scatter(const struct shape *shape, uint64_t number)
{
	unsigned int digits = record_digits(shape);
	uint64_t modulus, factor;

	if (shape->ordered)
		return number;
	if (digits >= POWERS - 1)
		return fnv64(number);
	modulus = power_of_ten(digits);
	factor = (uint64_t)((double)modulus * 0.6180339887498949);
	factor += 11 - factor % 10;
	return (uint64_t)((__uint128_t)number * factor % modulus);
}

/**
 * record_key() - the key of a record
 * @shape: the records
 * @number: the record
 * @key: room for record_key_room() bytes
 *
 * Return: the key's length
 */
size_t record_key(const struct shape *shape, uint64_t number, char *key)
{
	char digits[RECORD_DIGITS];
	uint64_t n = scatter(shape, number);
	size_t len = 0, pad = 0;

	do {
		digits[RECORD_DIGITS - ++len] = (char)('0' + n % 10);
		n /= 10;
	} while (n);
	if (shape->key_size > PREFIX_LEN + len)
		pad = shape->key_size - PREFIX_LEN - len;
	memcpy(key, RECORD_PREFIX, PREFIX_LEN);
	memset(key + PREFIX_LEN, '0', pad);
	memcpy(key + PREFIX_LEN + pad, digits + RECORD_DIGITS - len, len);
	return PREFIX_LEN + pad + len;
}

/* The state with which the content of a field begins. */
static uint64_t origin(const char *key, size_t key_len, unsigned int field, uint32_t salt)
{
	uint64_t hash = key_len, word;

	for (; key_len >= sizeof(word); key += sizeof(word), key_len -= sizeof(word)) {
		memcpy(&word, key, sizeof(word));
		hash = splitmix64(hash ^ word);
	}
	word = 0;
	memcpy(&word, key, key_len);
	return splitmix64(hash ^ word) + ((uint64_t)field << 32) + salt;
}

/* The next 8 bytes of the content, in printable characters. */
static uint64_t content(uint64_t *at)
{
	return (splitmix64(++*at) & 0x1f1f1f1f1f1f1f1full) + 0x4040404040404040ull;
}

static void fill(uint64_t at, char *data, size_t len)
{
	uint64_t word;

	for (; len >= sizeof(word); data += sizeof(word), len -= sizeof(word)) {
		word = content(&at);
		memcpy(data, &word, sizeof(word));
	}
	word = content(&at);
	memcpy(data, &word, len);
}

static bool is_content(uint64_t at, const char *data, size_t len)
{
	uint64_t word;

	for (; len >= sizeof(word); data += sizeof(word), len -= sizeof(word)) {
		word = content(&at);
		if (memcmp(data, &word, sizeof(word)))
			return false;
	}
	word = content(&at);
	return !memcmp(data, &word, len);
}

/**
 * record_fill() - make the content of a field
 * @key: the record's key
 * @key_len: bytes at @key
 * @field: the field
 * @salt: distinguishes this write from others
 * @data: the field
 * @len: bytes in the field
 */
void record_fill(const char *key, size_t key_len, unsigned int field, uint32_t salt,
		 char *data, size_t len)
{
	if (len < SALTED_MIN) {
		fill(origin(key, key_len, field, 0), data, len);
		return;
	}
	memcpy(data, &salt, SALT_LEN);
	fill(origin(key, key_len, field, salt), data + SALT_LEN, len - SALT_LEN);
}

/**
 * record_right() - whether a field's content was written for it
 * @key: the record's key
 * @key_len: bytes at @key
 * @field: the field
 * @data: the field's content
 * @len: bytes at @data
 *
 * Return: true if it does
 */
bool record_right(const char *key, size_t key_len, unsigned int field, const char *data,
		  size_t len)
{
	uint32_t salt;

	if (len < SALTED_MIN)
		return is_content(origin(key, key_len, field, 0), data, len);
	memcpy(&salt, data, SALT_LEN);
	return is_content(origin(key, key_len, field, salt), data + SALT_LEN, len - SALT_LEN);
}
