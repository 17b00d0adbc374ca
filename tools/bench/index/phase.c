// SPDX-License-Identifier: GPL-2.0
/* See phase.h. */
#include <stdlib.h>
#include <string.h>

#include "../clock.h"
#include "../zipf.h"
#include "memory.h"
#include "phase.h"
#include "workers.h"

/* Operations between two pauses; a power of two. */
#define PAUSE		64

/* An operation of a workload with writes, drawn before the clock runs. */
struct draw {
	uint32_t key;
	bool write;
	uint8_t column;
	uint8_t len;
};

struct worker {
	struct draw *draws;
	struct bench_counts counts;
	uint64_t ops;
	uint64_t found;
	bool wrong;
};

static struct {
	const struct subject *s;
	const struct bench_config *config;
	unsigned int threads;
	struct zipf zipf;
	uint64_t oldest;	/* of the existing keys */
	struct request r;
	struct worker worker[THREADS_MAX];
} run;

static void pause_at(uint64_t i)
{
	if (run.s->pause && !(i % PAUSE))
		run.s->pause();
}

/* Values */

static uint32_t column_of(uint64_t n, unsigned int column)
{
	return (n + column * 0x9e3779u) & 0xffffff;
}

/* The high bits only make values differ. */
static void make_value(uint64_t n, uint64_t change, union bench_value *value)
{
	unsigned int i;

	if (!run.config->wide) {
		value->number = n | change << 32;
		return;
	}
	for (i = 0; i < BENCH_COLS; i++)
		value->column[i] = column_of(n, i) | (uint32_t)change << 24;
}

static bool value_ok(uint64_t n, const union bench_value *value)
{
	uint32_t differ = 0;
	unsigned int i;

	if (!run.config->wide)
		return (uint32_t)value->number == n;
	for (i = 0; i < BENCH_COLS; i++)
		differ |= (value->column[i] ^ column_of(n, i)) & 0xffffff;
	return !differ;
}

static struct bench_key_ref make_key(uint64_t n, uint8_t *to)
{
	return (struct bench_key_ref) { .data = to, .len = bench_key(run.config->keys, n, to) };
}

/* Operations */

static void put_one(uint64_t n)
{
	uint8_t bytes[BENCH_KEY_LONG];
	union bench_value value;

	make_value(n, run.r.seed, &value);
	run.s->put(make_key(n, bytes), &value);
}

static void put_column(struct worker *w, uint64_t n, unsigned int column)
{
	uint32_t value = column_of(n, column) | (uint32_t)run.r.seed << 24;
	uint8_t bytes[BENCH_KEY_LONG];

	w->wrong |= !run.s->put_column(make_key(n, bytes), column, value);
}

static void get_one(struct worker *w, uint64_t n)
{
	uint8_t bytes[BENCH_KEY_LONG];
	union bench_value value;

	w->wrong |= !run.s->get(make_key(n, bytes), &value) || !value_ok(n, &value);
	w->found += n;
}

/* The driver compares the result with those of other subjects. */
static void scan_one(struct worker *w, uint64_t n, unsigned int nr)
{
	static __thread struct bench_scan out;
	uint64_t mask = run.config->wide ? 0xffffff : 0xffffffff;
	uint8_t bytes[BENCH_KEY_LONG];
	unsigned int i, found;

	found = run.s->scan(make_key(n, bytes), nr, &out);
	w->wrong |= !found;
	for (i = 0; i < found; i++)
		w->found += (i + 1) * ((out.value[i] & mask) + out.key[i][out.len[i] - 1]);
	w->ops += found;
}

/* Phases: each worker executes its share of the operations. */

static uint64_t share(uint64_t nr, unsigned int id)
{
	return nr * (id + 1) / run.r.threads - nr * id / run.r.threads;
}

static struct rng random_state(unsigned int id)
{
	return (struct rng) { run.r.seed * THREADS_MAX + id };
}

static void insert_all(struct worker *w, unsigned int id)
{
	uint64_t i;

	for (i = id; i < run.config->nr_keys; i += run.r.threads) {
		put_one(i);
		pause_at(w->ops++);
	}
}

static void chase(struct worker *w, unsigned int id)
{
	w->ops = share(run.r.nr_ops, id);
	w->found = run.s->chase(random_state(id).state, w->ops);
}

static void get_some(struct worker *w, unsigned int id)
{
	struct rng rng = random_state(id);
	uint64_t nr = share(run.r.nr_ops, id);

	for (; w->ops < nr; w->ops++) {
		get_one(w, rng_below(&rng, run.config->nr_keys));
		pause_at(w->ops);
	}
}

static void get_batches(struct worker *w, unsigned int id)
{
	struct rng rng = random_state(id);
	uint64_t nr = share(run.r.nr_ops, id);
	uint64_t j, value[BATCH], n[BATCH];
	uint8_t bytes[BATCH][BENCH_KEY_MAX];
	struct bench_key_ref key[BATCH];

	for (; w->ops < nr; w->ops += BATCH) {
		for (j = 0; j < BATCH; j++) {
			n[j] = rng_below(&rng, run.config->nr_keys);
			key[j] = make_key(n[j], bytes[j]);
		}
		w->wrong |= run.s->get_batch(key, value) != BATCH;
		for (j = 0; j < BATCH; j++) {
			w->wrong |= (uint32_t)value[j] != n[j];
			w->found += n[j];
		}
		pause_at(w->ops / BATCH * PAUSE);
	}
}

static void put_some(struct worker *w, unsigned int id)
{
	struct rng rng = random_state(id);
	uint64_t n, nr = share(run.r.nr_ops, id);

	for (; w->ops < nr; w->ops++) {
		n = rng_below(&rng, run.config->nr_keys);
		put_one(n);
		w->found += n;
		pause_at(w->ops);
	}
}

static void put_batches(struct worker *w, unsigned int id)
{
	struct rng rng = random_state(id);
	uint64_t j, n, nr = share(run.r.nr_ops, id);
	uint8_t bytes[BATCH][BENCH_KEY_MAX];
	struct bench_key_ref key[BATCH];
	union bench_value value[BATCH];

	for (; w->ops < nr; w->ops += BATCH) {
		for (j = 0; j < BATCH; j++) {
			n = rng_below(&rng, run.config->nr_keys);
			key[j] = make_key(n, bytes[j]);
			make_value(n, run.r.seed, &value[j]);
			w->found += n;
		}
		run.s->put_batch(key, value);
		pause_at(w->ops / BATCH * PAUSE);
	}
}

static void scan_some(struct worker *w, unsigned int id)
{
	struct rng rng = random_state(id);
	uint64_t nr = share(run.r.nr_ops, id), n;

	while (w->ops < nr) {
		n = rng_below(&rng, run.config->nr_keys);
		scan_one(w, n, run.r.phase == PHASE_SCAN_100 ? SCAN_MAX :
			 1 + rng_below(&rng, SCAN_MAX));
		pause_at(0);
	}
}

static void churn(struct worker *w, unsigned int id)
{
	uint64_t i, oldest = run.oldest, next = oldest + run.config->nr_keys;
	uint8_t bytes[BENCH_KEY_LONG];

	for (i = id; i < run.r.nr_ops / 2; i += run.r.threads) {
		put_one(next + i);
		w->wrong |= !run.s->remove(make_key(oldest + i, bytes));
		w->ops += 2;
		pause_at(w->ops);
	}
}

static void do_draws(struct worker *w, unsigned int id)
{
	uint64_t i, nr = share(run.r.nr_ops, id);
	const struct draw *d = w->draws;

	for (i = 0; i < nr; i++, d++) {
		if (d->write && run.config->wide)
			put_column(w, d->key, d->column);
		else if (d->write)
			put_one(d->key);
		else if (run.r.phase == PHASE_COLS_E)
			scan_one(w, d->key, d->len);
		else
			get_one(w, d->key);
		pause_at(i);
	}
	w->ops = nr;
}

static const struct phase_kind {
	void (*run)(struct worker *w, unsigned int id);
	unsigned int writes;	/* of 1000 operations */
	bool drawn;
	bool even;		/* uniform, not Zipf */
	bool fresh;		/* every other write is of a new key */
	bool writer;
} kinds[PHASE_NR] = {
	[PHASE_INSERT]	 = { insert_all, .writer = true },
	[PHASE_CHASE]	 = { chase },
	[PHASE_GET]	 = { get_some },
	[PHASE_BATCH]	 = { get_batches },
	[PHASE_PUT]	 = { put_some, .writer = true },
	[PHASE_PUT_BATCH] = { put_batches, .writer = true },
	[PHASE_SCAN_100] = { scan_some },
	[PHASE_SCAN]	 = { scan_some },
	[PHASE_CHURN]	 = { churn, .writer = true },
	[PHASE_MIX]	 = { do_draws, 500, .drawn = true, .writer = true },
	[PHASE_SYNTHETIC] = { do_draws, 167, .drawn = true, .writer = true, .even = true,
			      .fresh = true },
	[PHASE_GAMERS]	 = { do_draws, 118, .drawn = true, .writer = true, .even = true },
	[PHASE_CHUNKS]	 = { do_draws, 313, .drawn = true, .writer = true, .even = true,
			     .fresh = true },
	[PHASE_COLS_A]	 = { do_draws, 500, .drawn = true, .writer = true },
	[PHASE_COLS_B]	 = { do_draws, 50, .drawn = true, .writer = true },
	[PHASE_COLS_C]	 = { do_draws, 0, .drawn = true },
	[PHASE_COLS_E]	 = { do_draws, 50, .drawn = true, .writer = true },
};

static uint32_t draw_key(bool write, struct rng *rng)
{
	const struct phase_kind *kind = &kinds[run.r.phase];
	uint64_t nr = run.config->nr_keys;

	if (!kind->even)
		return zipf_next(&run.zipf, rng);
	return rng_below(rng, write && kind->fresh ? 2 * nr : nr);
}

static void draw(struct worker *w, unsigned int id)
{
	struct rng rng = random_state(id);
	uint64_t i, nr = share(run.r.nr_ops, id);
	bool write;

	w->draws = calloc(nr, sizeof(*w->draws));
	if (!w->draws)
		abort();
	for (i = 0; i < nr; i++) {
		write = rng_below(&rng, 1000) < kinds[run.r.phase].writes;
		w->draws[i] = (struct draw) {
			.key = draw_key(write, &rng),
			.write = write,
			.column = rng_below(&rng, BENCH_COLS),
			.len = 1 + rng_below(&rng, SCAN_MAX),
		};
	}
}

static void work(unsigned int id)
{
	struct worker *w = &run.worker[id];

	if (run.s->begin)
		run.s->begin();
	counters_begin();
	kinds[run.r.phase].run(w, id);
	w->counts = counters_end();
	if (run.s->end)
		run.s->end();
}

/* Whether the subject supports the phase. */
static bool can(const struct subject *s)
{
	if (s->chase || run.r.phase == PHASE_CHASE)
		return s->chase && run.r.phase == PHASE_CHASE;
	if (s->one_writer && kinds[run.r.phase].writer && run.r.threads > 1)
		return false;
	if (run.r.phase == PHASE_PUT || run.r.phase == PHASE_PUT_BATCH)
		return s->put_batch;
	return run.r.phase != PHASE_BATCH || s->get_batch;
}

void phase_init(const struct subject *s, const struct bench_config *config, unsigned int threads)
{
	run.s = s;
	run.config = config;
	zipf_init(&run.zipf, config->nr_keys, ZIPF_YCSB);
	s->init(config);
	workers_start(threads, s->enter);
}

static void prepare(void)
{
	const struct phase_kind *kind = &kinds[run.r.phase];
	unsigned int i;

	for (i = 0; i < run.r.threads; i++) {
		run.worker[i] = (struct worker) { .found = 0 };
		if (kind->drawn)
			draw(&run.worker[i], i);
	}
	if (run.r.phase == PHASE_INSERT) {
		run.s->clear();
		run.oldest = 0;
	}
}

/* Collect the other results, after stopping the clock. */
static void conclude(struct answer *a)
{
	unsigned int i;

	for (i = 0; i < run.r.threads; i++) {
		a->ops += run.worker[i].ops;
		a->found += run.worker[i].found;
		a->wrong |= run.worker[i].wrong;
		a->counts.cycles += run.worker[i].counts.cycles;
		a->counts.instructions += run.worker[i].counts.instructions;
		free(run.worker[i].draws);
	}
	if (run.r.phase == PHASE_CHURN)
		run.oldest += run.r.nr_ops / 2;
	if (run.r.phase == PHASE_INSERT) {
		run.s->memory(&a->memory);
		a->memory.huge = memory_huge();
	}
}

/* Add the subject's counts; or, before a phase, subtract them. */
static void count_swaps(struct bench_swaps *swaps, int sign)
{
	struct bench_swaps now = { 0 };
	unsigned int i;

	if (!run.s->swaps)
		return;
	run.s->swaps(&now);
	for (i = 0; i < SWAPS; i++) {
		swaps->made[i] += sign * now.made[i];
		swaps->lost[i] += sign * now.lost[i];
	}
}

struct answer phase_run(const struct request *r)
{
	struct answer a = { .done = false };
	uint64_t cpu, wall;

	run.r = *r;
	a.done = can(run.s);
	if (!a.done)
		return a;
	prepare();
	count_swaps(&a.swaps, -1);
	cpu = cpu_ns();
	wall = now_ns();
	workers_run(r->threads, work);
	if (kinds[r->phase].writer && run.s->publish)
		run.s->publish();
	a.cpu_ns = cpu_ns() - cpu;
	a.wall_ns = now_ns() - wall;
	count_swaps(&a.swaps, 1);
	conclude(&a);
	return a;
}
