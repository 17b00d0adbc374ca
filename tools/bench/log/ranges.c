// SPDX-License-Identifier: GPL-2.0
/*
 * What checkpoints write when a part of a store has changed, how long the store takes to be
 * attached then, and what is written in the long run, log and checkpoints together.
 *
 * Bytes are compared with those of records, which have 128 each, in the log as in checkpoints.
 */
#include <stdio.h>

#include "../zipf.h"
#include "bench_log.h"

#define NAME		"bench-log-ranges"
#define RECORD_BYTES	128u
#define RECORD_HEAD	24u
/* So little that the log begins a checkpoint when it is as large as half of what is live. */
#define REPLAY_LEAST	1u

/* Until the number of pieces in a range is steady, and in a round. */
#define WARM_CHECKPOINTS	8u
#define ROUND_CHECKPOINTS	8u
/* Puts between two looks at how many checkpoints there were. */
#define LOOK_PUTS		1024u

#define NR_ENGINES	2u

/*
 * Which keys are changed
 */
enum pattern { UNIFORM, ADJACENT, ZIPF };

struct changes {
	enum pattern pattern;
	struct rng rng;
	struct zipf zipf;
	uint32_t next;
	uint64_t count;		/* for the values: of all changes so far */
};

static uint32_t changes_key(struct changes *c)
{
	switch (c->pattern) {
	case ADJACENT:
		return c->next++ % nr_keys;
	case ZIPF:
		return key_scattered(zipf_next(&c->zipf, &c->rng), nr_keys);
	default:
		return rng_below(&c->rng, nr_keys);
	}
}

static void changes_put(struct changes *c, const struct store *store, uint32_t nr)
{
	uint32_t keys[BATCH], at, i, n;

	for (at = 0; at < nr; at += n) {
		n = nr - at < BATCH ? nr - at : BATCH;
		for (i = 0; i < n; i++)
			keys[i] = changes_key(c);
		store_put(store, keys, n, ++c->count);
	}
}

/*
 * A checkpoint after some changes
 */
struct engine {
	const char *name;
	struct row *all, *scattered, *adjacent, *at_detach;
	struct row *log, *detached;
};

static struct row *engine_row(const struct plan *plan, const struct engine *e, const char *workload,
			      const char *what, const char *unit)
{
	char *system;

	if (asprintf(&system, "%s, %s", e->name, what) < 0)
		die("out of memory");
	return row_new(plan, workload, system, unit);
}

static void engine_rows(struct engine *e, const struct plan *plan, const char *written)
{
	e->all = engine_row(plan, e, written, "everything", "MB");
	e->scattered = engine_row(plan, e, written, "1 % changed, scattered", "MB");
	e->adjacent = engine_row(plan, e, written, "1 % changed, adjacent", "MB");
	e->at_detach = engine_row(plan, e, written, "10 % changed, by a detach", "MB");
}

static void engine_times(struct engine *e, const struct plan *plan, const char *attached)
{
	e->log = engine_row(plan, e, attached, "everything from the log", "s");
	e->detached = engine_row(plan, e, attached, "after the detach", "s");
}

static void save(struct row *row, unsigned int round, const struct store *store)
{
	uint64_t written;

	store_sync(store);
	written = disk_written(store->device);
	store_checkpoint(store);
	row_set(row, round, (disk_written(store->device) - written) / 1e6);
}

static void detach_and_attach(struct engine *e, unsigned int round, struct store *store,
			      struct changes *c)
{
	uint64_t written;

	store_replay_mb(REPLAY_LEAST);
	changes_put(c, store, nr_keys / 10);
	store_sync(store);
	written = disk_written(store->device);
	row_set(e->detached, round, store_reattach(store));
	row_set(e->at_detach, round, (disk_written(store->device) - written) / 1e6);
	store_check(store, nr_keys);
}

/* Until the last step no checkpoint is made that is not asked for. */
static void engine_round(struct engine *e, const struct options *o, const char *device,
			 unsigned int round)
{
	struct changes scattered = { .pattern = UNIFORM, .rng = { round } };
	struct changes adjacent = { .pattern = ADJACENT, .next = random_of(round) % nr_keys };
	struct store store;

	store_replay_mb(REPLAY_NEVER);
	store_format(o, device);
	store_attach(&store, NAME, e->name, device);
	store_load(&store, 0, nr_keys, round);
	store_sync(&store);
	store_expect_log(&store);
	row_set(e->log, round, store_reattach(&store));
	store_check(&store, nr_keys);

	save(e->all, round, &store);
	changes_put(&scattered, &store, nr_keys / 100);
	save(e->scattered, round, &store);
	changes_put(&adjacent, &store, nr_keys / 100);
	save(e->adjacent, round, &store);
	detach_and_attach(e, round, &store, &scattered);
	store_detach(&store);
}

/* The larger of the engines' ratios has the target. */
static void engine_ratios(const struct pair *pair, const struct engine *e, const char *name,
			  const double *ratios, double at_most)
{
	double most = 0;
	unsigned int i;
	char text[64];

	for (i = 0; i < NR_ENGINES; i++) {
		snprintf(text, sizeof(text), "%s_%s", name, e[i].name);
		pair_ratio(pair, text, ratios[i], 0, 0);
		if (ratios[i] > most)
			most = ratios[i];
	}
	pair_ratio(pair, name, most, 0, at_most);
}

static void add_ratios(const struct pair *pair, const struct engine *e)
{
	double scattered[NR_ENGINES], adjacent[NR_ENGINES], attach[NR_ENGINES];
	unsigned int i;

	for (i = 0; i < NR_ENGINES; i++) {
		scattered[i] = row_ratio(e[i].scattered, e[i].all);
		adjacent[i] = row_ratio(e[i].adjacent, e[i].all);
		attach[i] = row_ratio(e[i].detached, e[i].log);
	}
	engine_ratios(pair, e, "checkpoint_bytes_after_1_percent_scattered", scattered, 0.05);
	engine_ratios(pair, e, "checkpoint_bytes_after_1_percent_adjacent", adjacent, 0.03);
	engine_ratios(pair, e, "attach_time_vs_full_recovery", attach, 0.3);
}

static void measure_engines(const struct options *o, const struct pair *pair)
{
	struct engine e[NR_ENGINES] = { { "masstree" }, { "bwtree" } };
	const char *what = pair_text(pair, "what has changed");
	unsigned int round, i;

	for (i = 0; i < NR_ENGINES; i++)
		engine_rows(&e[i], &o->plan, pair_text(pair, "written by a checkpoint"));
	for (i = 0; i < NR_ENGINES; i++)
		engine_times(&e[i], &o->plan, pair_text(pair, "time to attach"));
	for (round = 0; round <= o->plan.rounds; round++) {
		progress(&o->plan, what, round);
		for (i = 0; i < NR_ENGINES; i++)
			engine_round(&e[i], o, pair->store, round);
	}
	progress(&o->plan, what, round);
	add_ratios(pair, e);
}

/*
 * Log and checkpoints, in the long run
 */

/* Bytes written for each byte of a record, from the end of one checkpoint to that of another. */
static double written_per_byte(struct changes *c, const struct store *store, unsigned int nr)
{
	uint64_t end = store_checkpoints(store) + nr, written = disk_written(store->device);
	uint64_t first = c->count;

	do {
		changes_put(c, store, LOOK_PUTS);
	} while (store_checkpoints(store) < end);
	store_sync(store);
	written = disk_written(store->device) - written;
	return (double)written / ((c->count - first) * BATCH * RECORD_BYTES);
}

static struct row *measure_pattern(const struct options *o, const struct pair *pair,
				   enum pattern pattern, const char *name)
{
	const char *title = pair_text(pair, "written for a byte of a record that is put");
	struct row *row = row_new(&o->plan, title, name, "bytes");
	struct changes c = { .pattern = pattern };
	struct store store;
	unsigned int round;

	zipf_init(&c.zipf, nr_keys, ZIPF_YCSB);
	store_format(o, pair->store);
	store_attach(&store, NAME, "", pair->store);
	store_load(&store, 0, nr_keys, 0);
	store_checkpoint(&store);
	written_per_byte(&c, &store, WARM_CHECKPOINTS);
	for (round = 0; round <= o->plan.rounds; round++) {
		progress(&o->plan, name, round);
		row_set(row, round, written_per_byte(&c, &store, ROUND_CHECKPOINTS));
	}
	progress(&o->plan, name, round);
	store_sync(&store);
	store_check(&store, nr_keys);
	store_detach(&store);
	return row;
}

/**
 * ranges_measure() - measure what checkpoints write, and what that is good for
 * @o: options
 * @pair: where
 */
void ranges_measure(const struct options *o, const struct pair *pair)
{
	uint32_t replay_mb = store_replay_mb(REPLAY_LEAST);
	struct row *zipf, *uniform;

	value_len = RECORD_BYTES - RECORD_HEAD - KEY_LEN;
	nr_keys = o->records;
	measure_engines(o, pair);
	store_replay_mb(REPLAY_LEAST);
	uniform = measure_pattern(o, pair, UNIFORM, "puts of uniformly drawn keys");
	zipf = measure_pattern(o, pair, ZIPF, "puts of keys by Zipf's law, 0.99");
	store_replay_mb(replay_mb);
	pair_ratio(pair, "bytes_written_per_byte_put_uniform", row_median(uniform), 0, 2.6);
	pair_ratio(pair, "bytes_written_per_byte_put_zipf", row_median(zipf), 0, 2);
}
