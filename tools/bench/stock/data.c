// SPDX-License-Identifier: GPL-2.0
/*
 * Keys, values and the order of requests: the same for all systems, and the same in every run.
 */
#include <string.h>

#include "../zipf.h"
#include "bench_stock.h"

uint32_t nr_keys;
struct key *plain_keys;
struct key *col_keys;

static struct zipf zipf;
static uint32_t *popular;	/* the i-th most popular key */

static void *zalloc(size_t nr, size_t size)
{
	void *p = calloc(nr, size);

	if (!p)
		die("out of memory");
	return p;
}

/* 5 to 24 letters and digits; the first five are unique. */
static void col_key(struct key *key, uint32_t i)
{
	static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyz";
	/* A permutation: 48271 and 36 have no common divisor. */
	uint64_t rest = i * 48271ull % (36ull * 36 * 36 * 36 * 36);
	uint64_t random = random_of(i);
	unsigned int at;

	key->len = 5 + random % 20;
	random = random_of(random);
	for (at = 0; at < 5; at++, rest /= 36)
		key->data[4 - at] = digits[rest % 36];
	for (; at < key->len; at++, random = random_of(random))
		key->data[at] = digits[10 + random % 26];
}

/* Spread popular keys over the order of keys. */
static void shuffle_popular(void)
{
	uint32_t i, j, key;

	zipf_init(&zipf, nr_keys, ZIPF_YCSB);
	popular = zalloc(nr_keys, sizeof(*popular));
	for (i = 0; i < nr_keys; i++)
		popular[i] = i;
	for (i = nr_keys - 1; i > 0; i--) {
		j = random_of(i) % (i + 1);
		key = popular[i];
		popular[i] = popular[j];
		popular[j] = key;
	}
}

/**
 * data_init() - generate the keys
 * @keys: the number of keys in each of the two sets
 */
void data_init(uint32_t keys)
{
	uint32_t i;

	nr_keys = keys;
	plain_keys = zalloc(keys, sizeof(*plain_keys));
	col_keys = zalloc(keys, sizeof(*col_keys));
	for (i = 0; i < keys; i++) {
		plain_keys[i].len = KEY_LEN;
		key_make(plain_keys[i].data, i);
		col_key(&col_keys[i], i);
	}
	shuffle_popular();
}

/**
 * contents_init() - the initial content of a service
 * @c: set up
 */
void contents_init(struct contents *c)
{
	unsigned int w;
	uint32_t i;

	c->values = zalloc(nr_keys, sizeof(*c->values));
	c->cols = zalloc(nr_keys, sizeof(*c->cols));
	for (i = 0; i < nr_keys; i++) {
		for (w = 0; w < VALUE_LEN / 8; w++)
			c->values[i][w] = random_of(i * 16ull + w);
		for (w = 0; w < COLS; w++)
			c->cols[i][w] = (uint32_t)random_of(~(i * 16ull + w));
	}
}

/**
 * workload_name() - the name of a workload in the results
 * @w: the workload
 *
 * Return: a constant string
 */
const char *workload_name(enum workload w)
{
	static const char * const names[] = {
		[EMPTY] = "empty",
		[PLAIN_GET] = "get",
		[PLAIN_PUT] = "put",
		[MYCSB_A] = "mycsb_a",
		[MYCSB_B] = "mycsb_b",
		[MYCSB_C] = "mycsb_c",
	};

	return names[w];
}

/* A request of MYCSB, with a percentage of puts. */
static void fill_mycsb(struct request *r, uint64_t random, unsigned int puts)
{
	r->key = popular[zipf_next(&zipf, &(struct rng){ random })];
	r->kind = random % 100 < puts ? PUT_COL : GET_COLS;
	r->col = r->kind == PUT_COL ? (random >> 32) % COLS : 0;
}

/**
 * workload_fill() - the requests of a workload
 * @w: the workload
 * @seed: selects a part of its endless sequence
 * @reqs: filled in
 * @n: elements at @reqs
 */
void workload_fill(enum workload w, uint64_t seed, struct request *reqs, unsigned int n)
{
	static const unsigned int puts[] = { [MYCSB_A] = 50, [MYCSB_B] = 5, [MYCSB_C] = 0 };
	static const enum kind kinds[] = { NOTHING, GET, PUT };
	uint64_t random;
	unsigned int i;

	for (i = 0; i < n; i++) {
		random = random_of(random_of(seed * WORKLOADS + w) + i);
		if (w >= MYCSB_A)
			fill_mycsb(&reqs[i], random, puts[w]);
		else
			reqs[i] = (struct request) { random % nr_keys, kinds[w], 0 };
	}
}
