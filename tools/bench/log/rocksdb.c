// SPDX-License-Identifier: GPL-2.0
/*
 * RocksDB with its write-ahead log: one thread for each put in progress, where waiting threads
 * are written together; or one thread with batches.
 */
#include <pthread.h>
#include <rocksdb/c.h>
#include <stdio.h>

#include "bench_log.h"

struct client {
	rocksdb_t *db;
	rocksdb_writeoptions_t *how;
};

struct worker {
	struct system *sys;
	pthread_t thread;
	struct draw draw;
	double until;
	uint64_t done;
};

static void must(char *err, const char *what)
{
	if (err)
		die("rocksdb: %s: %s", what, err);
}

static void put(struct client *c, uint32_t nr, uint64_t count)
{
	char key[KEY_LEN], value[VALUE_LEN], *err = NULL;

	key_make(key, nr);
	value_make(value, nr, count);
	rocksdb_put(c->db, c->how, key, KEY_LEN, value, VALUE_LEN, &err);
	must(err, "rocksdb_put");
}

static void *work(void *arg)
{
	struct worker *w = arg;
	struct client *c = w->sys->client;

	do {
		put(c, draw_key(&w->draw), w->sys->count + w->done);
		w->done++;
	} while (seconds_now() < w->until);
	return NULL;
}

static uint64_t run_threads(struct system *sys, double until)
{
	static struct worker workers[DEPTH_MAX];
	uint64_t n = 0;
	unsigned int i;

	for (i = 0; i < sys->depth; i++) {
		workers[i] = (struct worker) { .sys = sys, .until = until };
		workers[i].draw.state = sys->draw.state + ((uint64_t)i << 40);
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i]))
			die("no more threads");
	}
	for (i = 0; i < sys->depth; i++) {
		pthread_join(workers[i].thread, NULL);
		n += workers[i].done;
	}
	sys->draw.state = workers[0].draw.state;
	return n;
}

static uint64_t run_batch(struct system *sys, double until)
{
	rocksdb_writebatch_t *batch = rocksdb_writebatch_create();
	struct client *c = sys->client;
	char key[KEY_LEN], value[VALUE_LEN], *err = NULL;
	unsigned int i;
	uint32_t nr;
	uint64_t n = 0;

	do {
		for (i = 0; i < sys->depth; i++, n++) {
			nr = draw_key(&sys->draw);
			key_make(key, nr);
			value_make(value, nr, sys->count + n);
			rocksdb_writebatch_put(batch, key, KEY_LEN, value, VALUE_LEN);
		}
		rocksdb_write(c->db, c->how, batch, &err);
		must(err, "rocksdb_write");
		rocksdb_writebatch_clear(batch);
	} while (seconds_now() < until);
	rocksdb_writebatch_destroy(batch);
	return n;
}

static void stop(struct system *sys)
{
	struct client *c = sys->client;

	rocksdb_close(c->db);
	rocksdb_writeoptions_destroy(c->how);
	free(c);
}

static struct client *open_db(const char *folder, bool sync)
{
	rocksdb_options_t *options = rocksdb_options_create();
	struct client *c = calloc(1, sizeof(*c));
	char path[128], *err = NULL;
	uint32_t i;

	if (!c)
		die("out of memory");
	snprintf(path, sizeof(path), "%s/%s", disk_folder(), folder);
	rocksdb_options_set_create_if_missing(options, 1);
	c->db = rocksdb_open(options, path, &err);
	must(err, path);
	rocksdb_options_destroy(options);
	c->how = rocksdb_writeoptions_create();
	for (i = 0; i < nr_keys; i++)
		put(c, i, 0);
	rocksdb_writeoptions_set_sync(c->how, sync);
	return c;
}

static void add(struct systems *s, const char *name, const char *batch_name, struct client *c)
{
	unsigned int i;

	systems_add_depths(s, &(struct system) {
		.name = name, .run = run_threads, .client = c, .stop = stop });
	for (i = 1; i < NR_DEPTHS; i++)
		systems_add(s, &(struct system) {
			.name = batch_name, .depth = depths[i], .run = run_batch, .client = c });
}

/**
 * rocksdb_start() - add RocksDB
 * @s: gets the systems
 */
void rocksdb_start(struct systems *s)
{
	add(s, "rocksdb WAL, not synced", "rocksdb WAL, not synced, batch",
	    open_db("rocksdb", false));
	add(s, "rocksdb sync", "rocksdb sync, batch", open_db("rocksdb-sync", true));
}
