// SPDX-License-Identifier: GPL-2.0
/*
 * LMDB, in a file in memory, without syncing: a transaction for many inserts, a
 * snapshot for many gets.
 */
#include <lmdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "subject.h"

#define MAP_SIZE	(8ull << 30)
/* Inserts in a transaction. */
#define TXN_INSERTS	1000

static MDB_env *env;
static MDB_dbi dbi;
static MDB_txn *writes, *reads;
static MDB_cursor *cursor;
static unsigned int pending;

static void must(int err)
{
	if (!err)
		return;
	fprintf(stderr, "lmdb: %s\n", mdb_strerror(err));
	abort();
}

static void lm_init(const struct subject *unused __attribute__((__unused__)))
{
	char path[] = "/dev/shm/kvt-bench-XXXXXX";
	int fd = mkstemp(path);
	char lock[sizeof(path) + 8];

	if (fd < 0)
		abort();
	close(fd);
	must(mdb_env_create(&env));
	must(mdb_env_set_mapsize(env, MAP_SIZE));
	must(mdb_env_open(env, path, MDB_NOSUBDIR | MDB_NOSYNC | MDB_WRITEMAP | MDB_NOLOCK, 0600));
	/* It goes with the process. */
	unlink(path);
	snprintf(lock, sizeof(lock), "%s-lock", path);
	unlink(lock);
	must(mdb_txn_begin(env, NULL, 0, &writes));
	must(mdb_dbi_open(writes, NULL, 0, &dbi));
}

static void end_reads(void)
{
	if (!reads)
		return;
	mdb_cursor_close(cursor);
	mdb_txn_abort(reads);
	reads = NULL;
}

static void lm_inserted(void)
{
	if (writes)
		must(mdb_txn_commit(writes));
	writes = NULL;
	pending = 0;
	end_reads();
	must(mdb_txn_begin(env, NULL, MDB_RDONLY, &reads));
	must(mdb_cursor_open(reads, dbi, &cursor));
}

static void begin_writes(void)
{
	end_reads();
	if (!writes)
		must(mdb_txn_begin(env, NULL, 0, &writes));
}

static void lm_clear(void)
{
	begin_writes();
	must(mdb_drop(writes, dbi, 0));
	lm_inserted();
}

static MDB_val val(struct bench_key_ref key)
{
	return (MDB_val) { .mv_size = key.len, .mv_data = (void *)key.data };
}

static void lm_insert(struct bench_key_ref key, uint64_t value)
{
	MDB_val k = val(key), v = { .mv_size = sizeof(value), .mv_data = &value };

	begin_writes();
	must(mdb_put(writes, dbi, &k, &v, 0));
	if (++pending < TXN_INSERTS)
		return;
	must(mdb_txn_commit(writes));
	writes = NULL;
	pending = 0;
}

static bool lm_get(struct bench_key_ref key, uint64_t *value)
{
	MDB_val k = val(key), v;

	if (mdb_get(reads, dbi, &k, &v))
		return false;
	memcpy(value, v.mv_data, sizeof(*value));
	return true;
}

static unsigned int lm_scan(struct bench_key_ref key, unsigned int nr)
{
	static uint8_t to[64];
	MDB_val k = val(key), v;
	uint64_t value;
	unsigned int i;
	int err;

	err = mdb_cursor_get(cursor, &k, &v, MDB_SET_RANGE);
	for (i = 0; i < nr && !err; i++) {
		memcpy(&value, v.mv_data, sizeof(value));
		memcpy(to, k.mv_data, k.mv_size < sizeof(to) ? k.mv_size : sizeof(to));
		asm volatile("" : : "r"(value) : "memory");
		err = mdb_cursor_get(cursor, &k, &v, MDB_NEXT);
	}
	return i;
}

static void lm_memory(struct bench_memory *m)
{
	MDB_envinfo info;
	MDB_stat stat;

	must(mdb_env_info(env, &info));
	must(mdb_env_stat(env, &stat));
	m->nodes = stat.ms_psize * (stat.ms_leaf_pages + stat.ms_branch_pages);
	m->all = m->nodes;
}

const struct subject subject_lmdb = {
	.name = "lmdb", .init = lm_init, .clear = lm_clear, .insert = lm_insert,
	.inserted = lm_inserted, .get = lm_get, .scan = lm_scan, .memory = lm_memory,
};
