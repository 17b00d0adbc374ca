// SPDX-License-Identifier: GPL-2.0
/* See phase.h. */
#include <string.h>
#include <time.h>

#include "phase.h"

#define SCAN_LEN	100
/* Operations between two pauses; a power of two. */
#define PAUSE		64

const char *const phase_names[PHASE_NR] = {
	[PHASE_INSERT]	= "insert",
	[PHASE_GET]	= "get",
	[PHASE_BATCH]	= "batch32",
	[PHASE_SCAN]	= "scan100",
};

static uint64_t now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void pause_at(const struct subject *s, uint64_t i)
{
	if (s->pause && !(i % PAUSE))
		s->pause();
}

static void insert_all(const struct subject *s, const struct request *r, struct answer *a)
{
	uint8_t bytes[BENCH_KEY_MAX];
	struct bench_key_ref key = { .data = bytes };
	uint64_t i;

	for (i = 0; i < r->nr_keys; i++) {
		key.len = bench_key(r->keys, i, bytes);
		s->insert(key, i);
		pause_at(s, i);
	}
	if (s->inserted)
		s->inserted();
	a->ops = r->nr_keys;
}

static void get_some(const struct subject *s, const struct request *r, struct answer *a)
{
	uint64_t i, n, value = 0, state = r->seed;
	uint8_t bytes[BENCH_KEY_MAX];
	struct bench_key_ref key = { .data = bytes };

	for (i = 0; i < r->nr_ops; i++) {
		n = bench_below(&state, r->nr_keys);
		key.len = bench_key(r->keys, n, bytes);
		a->wrong |= !s->get(key, &value) || value != n;
		pause_at(s, i);
	}
	a->ops = r->nr_ops;
}

static void get_batches(const struct subject *s, const struct request *r, struct answer *a)
{
	uint8_t bytes[BATCH][BENCH_KEY_MAX];
	uint64_t i, j, value[BATCH], n[BATCH], state = r->seed;
	struct bench_key_ref key[BATCH];

	for (i = 0; i < r->nr_ops / BATCH; i++) {
		for (j = 0; j < BATCH; j++) {
			n[j] = bench_below(&state, r->nr_keys);
			key[j].data = bytes[j];
			key[j].len = bench_key(r->keys, n[j], bytes[j]);
		}
		a->wrong |= s->get_batch(key, value) != BATCH || memcmp(n, value, sizeof(n));
		pause_at(s, i * BATCH);
	}
	a->ops = r->nr_ops / BATCH * BATCH;
}

static void scan_some(const struct subject *s, const struct request *r, struct answer *a)
{
	uint8_t bytes[BENCH_KEY_MAX];
	struct bench_key_ref key = { .data = bytes };
	uint64_t i, state = r->seed;

	for (i = 0; i < r->nr_ops / SCAN_LEN; i++) {
		key.len = bench_key(r->keys, bench_below(&state, r->nr_keys), bytes);
		a->ops += s->scan(key, SCAN_LEN);
		pause_at(s, i * PAUSE);
	}
	/* Some begin near the end. */
	a->wrong = a->ops < r->nr_ops / 2;
}

struct answer phase_run(const struct subject *s, const struct request *r)
{
	static void (*const run[])(const struct subject *s, const struct request *r,
				   struct answer *a) = {
		insert_all, get_some, get_batches, scan_some,
	};
	struct answer a = { .done = r->phase != PHASE_BATCH || s->get_batch };
	uint64_t cpu, wall;

	if (!a.done)
		return a;
	if (r->phase == PHASE_INSERT)
		s->clear();
	cpu = now(CLOCK_THREAD_CPUTIME_ID);
	wall = now(CLOCK_MONOTONIC);
	run[r->phase](s, r, &a);
	a.cpu_ns = now(CLOCK_THREAD_CPUTIME_ID) - cpu;
	a.wall_ns = now(CLOCK_MONOTONIC) - wall;
	if (r->phase == PHASE_INSERT)
		s->memory(&a.memory);
	return a;
}
