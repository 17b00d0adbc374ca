// SPDX-License-Identifier: GPL-2.0
/*
 * The life of a store: load keys, put during a checkpoint, recover from the log and from the
 * checkpoint.  No checkpoints are made but those that are asked for.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <kvtree.h>

#include "bench_log.h"

#define NAME		"bench-log-life"
#define BASE_SECONDS	1.0

struct rows {
	struct row *load, *log, *saved, *save, *save_mb, *log_mb, *saved_mb;
	struct row *alone, *beside, *slowdown, *written;
};

static void rows_make(struct rows *r, const struct plan *plan, const struct pair *pair)
{
	const char *speed = pair_text(pair, "keys, 16-byte keys, 100-byte values");
	const char *bytes = pair_text(pair, "bytes on the device");
	const char *puts = pair_text(pair, "puts of one thread, not synced");

	*r = (struct rows) {
		.load = row_new(plan, speed, "loaded by batches of 64", "keys/s"),
		.save = row_new(plan, speed, "saved by a checkpoint", "keys/s"),
		.log = row_new(plan, speed, "recovered from the log", "keys/s"),
		.saved = row_new(plan, speed, "recovered from a checkpoint", "keys/s"),
		.save_mb = row_new(plan, bytes, "written by a checkpoint", "MB/s"),
		.log_mb = row_new(plan, bytes, "of the log when it is recovered", "MB/s"),
		.saved_mb = row_new(plan, bytes, "of a checkpoint when it is recovered", "MB/s"),
		.written = row_new(plan, bytes, "of the log for a byte of key and value", "bytes"),
		.alone = row_new(plan, puts, "alone", "puts/s"),
		.beside = row_new(plan, puts, "beside a checkpoint", "puts/s"),
		.slowdown = row_new(plan, puts, "beside a checkpoint, of those before and after",
				    "times"),
	};
}

struct checkpoint {
	struct store *store;
	pthread_t thread;
	bool done;
	double took;
};

static void *checkpoint_run(void *arg)
{
	struct checkpoint *c = arg;
	double start = seconds_now();

	store_checkpoint(c->store);
	c->took = seconds_now() - start;
	__atomic_store_n(&c->done, true, __ATOMIC_RELEASE);
	return NULL;
}

/* Puts until that time, or until the checkpoint is complete. */
static double put_rate(struct store *store, struct draw *draw, double seconds,
		       const struct checkpoint *c)
{
	double start = seconds_now(), took;
	char value[VALUE_LEN];
	struct kvtree_op op;
	uint64_t n = 0;

	do {
		op_make(&op, value, draw_key(draw), n, false);
		op_run(store, &op);
		n++;
		took = seconds_now() - start;
	} while (c ? !__atomic_load_n(&c->done, __ATOMIC_ACQUIRE) : took < seconds);
	return (double)n / took;
}

/* Also measures a checkpoint without concurrent puts. */
static void measure_checkpoint(struct rows *r, struct store *store, const char *device,
			       const struct options *o, unsigned int round)
{
	struct draw draw = { .state = round };
	struct checkpoint c = { .store = store };
	double before, beside, after, start;
	uint64_t written;

	store_sync(store);
	written = disk_written(device);
	start = seconds_now();
	store_checkpoint(store);
	row_set(r->save, round, o->load / (seconds_now() - start));
	row_set(r->save_mb, round, (disk_written(device) - written) /
		(seconds_now() - start) / 1e6);

	before = put_rate(store, &draw, BASE_SECONDS, NULL);
	if (pthread_create(&c.thread, NULL, checkpoint_run, &c))
		die("no thread");
	beside = put_rate(store, &draw, 0, &c);
	pthread_join(c.thread, NULL);
	after = put_rate(store, &draw, BASE_SECONDS, NULL);
	row_set(r->alone, round, (before + after) / 2);
	row_set(r->beside, round, beside);
	row_set(r->slowdown, round, 2 * beside / (before + after));
}

/* Returns the seconds. */
static double recover(struct store *store, const struct options *o)
{
	double seconds = store_reattach(store);

	store_check(store, o->load);
	return seconds;
}

static void run_round(struct rows *r, const struct options *o, const char *device,
		      unsigned int round)
{
	struct store store;
	uint64_t written, bytes;
	double seconds;

	store_format(o, device);
	store_attach(&store, NAME, "", device);
	written = disk_written(device);
	seconds = seconds_now();
	bytes = store_load(&store, 0, o->load, round);
	row_set(r->load, round, o->load / (seconds_now() - seconds));
	store_sync(&store);
	written = disk_written(device) - written;
	row_set(r->written, round, (double)written / bytes);

	store_expect_log(&store);
	seconds = recover(&store, o);
	row_set(r->log, round, o->load / seconds);
	row_set(r->log_mb, round, written / seconds / 1e6);

	measure_checkpoint(r, &store, device, o, round);
	store_sync(&store);
	written = disk_written(device);
	store_checkpoint(&store);
	written = disk_written(device) - written;
	seconds = recover(&store, o);
	row_set(r->saved, round, o->load / seconds);
	row_set(r->saved_mb, round, written / seconds / 1e6);
	store_detach(&store);
}

/**
 * life_measure() - measure loading, checkpoints and recovery
 * @o: options
 * @pair: the devices
 */
void life_measure(const struct options *o, const struct pair *pair)
{
	const char *what = pair_text(pair, "checkpoints and recovery");
	struct rows r;
	unsigned int round;
	uint32_t replay_mb;
	double slower;

	rows_make(&r, &o->plan, pair);
	nr_keys = o->load;
	replay_mb = store_replay_mb(REPLAY_NEVER);
	for (round = 0; round <= o->plan.rounds; round++) {
		progress(&o->plan, what, round);
		run_round(&r, o, pair->store, round);
	}
	progress(&o->plan, what, round);
	store_replay_mb(replay_mb);
	pair_ratio(pair, "put_during_checkpoint", row_median(r.slowdown), 0.95, 0);
	pair_ratio(pair, "write_amplification_100", row_median(r.written), 0, 1.3);
	slower = row_median(r.log);
	if (row_median(r.saved) < slower)
		slower = row_median(r.saved);
	pair_ratio(pair, "recovery_vs_batched_load", slower / row_median(r.load), 1, 0);
}
