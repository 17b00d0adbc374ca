// SPDX-License-Identifier: GPL-2.0
/* LMDB: the puts in progress form one transaction. */
#include <lmdb.h>
#include <stdio.h>
#include <sys/stat.h>

#include "bench_log.h"

#define MAP_BYTES	(512ul << 20)

struct client {
	MDB_env *env;
	MDB_dbi dbi;
};

static void must(int err, const char *what)
{
	if (err)
		die("lmdb: %s: %s", what, mdb_strerror(err));
}

static uint64_t run(struct system *sys, double until)
{
	struct client *c = sys->client;
	char key[KEY_LEN], value[VALUE_LEN];
	MDB_val k = { KEY_LEN, key }, v = { VALUE_LEN, value };
	MDB_txn *txn;
	unsigned int i;
	uint32_t nr;
	uint64_t n = 0;

	do {
		must(mdb_txn_begin(c->env, NULL, 0, &txn), "mdb_txn_begin");
		for (i = 0; i < sys->depth; i++, n++) {
			nr = draw_key(&sys->draw);
			key_make(key, nr);
			value_make(value, nr, sys->count + n);
			must(mdb_put(txn, c->dbi, &k, &v, 0), "mdb_put");
		}
		must(mdb_txn_commit(txn), "mdb_txn_commit");
	} while (seconds_now() < until);
	return n;
}

static void load(struct client *c)
{
	char key[KEY_LEN], value[VALUE_LEN];
	MDB_val k = { KEY_LEN, key }, v = { VALUE_LEN, value };
	MDB_txn *txn;
	uint32_t i;

	must(mdb_txn_begin(c->env, NULL, 0, &txn), "mdb_txn_begin");
	must(mdb_dbi_open(txn, NULL, 0, &c->dbi), "mdb_dbi_open");
	for (i = 0; i < nr_keys; i++) {
		key_make(key, i);
		value_make(value, i, 0);
		must(mdb_put(txn, c->dbi, &k, &v, 0), "mdb_put");
	}
	must(mdb_txn_commit(txn), "mdb_txn_commit");
}

static void stop(struct system *sys)
{
	struct client *c = sys->client;

	mdb_env_close(c->env);
	free(c);
}

static void add(struct systems *s, const char *name, const char *folder, unsigned int flags)
{
	struct client *c = calloc(1, sizeof(*c));
	char path[128];

	if (!c)
		die("out of memory");
	snprintf(path, sizeof(path), "%s/%s", disk_folder(), folder);
	mkdir(path, 0700);
	must(mdb_env_create(&c->env), "mdb_env_create");
	must(mdb_env_set_mapsize(c->env, MAP_BYTES), "mdb_env_set_mapsize");
	must(mdb_env_open(c->env, path, flags, 0600), path);
	load(c);
	systems_add_depths(s, &(struct system) {
		.name = name, .run = run, .client = c, .stop = stop });
}

/**
 * lmdb_start() - add LMDB
 * @s: gets the systems
 */
void lmdb_start(struct systems *s)
{
	add(s, "lmdb nosync", "lmdb-nosync", MDB_NOSYNC);
	add(s, "lmdb sync", "lmdb-sync", 0);
}
