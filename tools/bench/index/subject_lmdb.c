// SPDX-License-Identifier: GPL-2.0
/*
 * LMDB, in a file in memory, without syncing: a transaction for many writes, a
 * snapshot for many reads.  Reads by the writing thread are in its transaction.
 */
#include <lmdb.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "memory.h"
#include "subject.h"

#define MAP_SIZE	(16ull << 30)
/* Writes in a transaction. */
#define TXN_WRITES	1000

#define DIR_PATH	"/dev/shm"

static MDB_env *env;
static MDB_dbi dbi;
static bool wide;
static MDB_txn *writes;
static MDB_cursor *writes_cursor;
static unsigned int pending;
static __thread MDB_txn *reads;
static __thread MDB_cursor *reads_cursor;

static void must(int err)
{
	if (!err)
		return;
	fprintf(stderr, "lmdb: %s\n", mdb_strerror(err));
	abort();
}

/*
 * A private file system in memory, because a mount option decides on huge pages.
 * Without the right to mount, small pages are used; the results show it.
 */
static void mount_pages(bool small)
{
	if (unshare(CLONE_NEWNS) && unshare(CLONE_NEWUSER | CLONE_NEWNS))
		return;
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("kvt-bench", DIR_PATH, "tmpfs", 0,
		  small ? "huge=never,size=100%" : "huge=always,size=100%"))
		return;
}

static void lm_init(const struct bench_config *config)
{
	char path[] = DIR_PATH "/kvt-bench-XXXXXX";
	MDB_txn *txn;
	int fd;

	memory_pages(config->small_pages);
	mount_pages(config->small_pages);
	wide = config->wide;
	fd = mkstemp(path);
	if (fd < 0)
		abort();
	close(fd);
	must(mdb_env_create(&env));
	must(mdb_env_set_mapsize(env, MAP_SIZE));
	must(mdb_env_open(env, path, MDB_NOSUBDIR | MDB_NOSYNC | MDB_WRITEMAP | MDB_NOLOCK |
			  MDB_NOTLS, 0600));
	/* It is removed with the process. */
	unlink(path);
	must(mdb_txn_begin(env, NULL, 0, &txn));
	must(mdb_dbi_open(txn, NULL, 0, &dbi));
	must(mdb_txn_commit(txn));
}

static void end_writes(void)
{
	if (!writes)
		return;
	if (writes_cursor)
		mdb_cursor_close(writes_cursor);
	writes_cursor = NULL;
	must(mdb_txn_commit(writes));
	writes = NULL;
	pending = 0;
}

/* Nothing checks that snapshots are newer than the last write. */
static void lm_end(void)
{
	end_writes();
	if (!reads)
		return;
	mdb_cursor_close(reads_cursor);
	mdb_txn_abort(reads);
	reads = NULL;
}

static MDB_txn *write_txn(void)
{
	if (!writes)
		must(mdb_txn_begin(env, NULL, 0, &writes));
	return writes;
}

static MDB_txn *read_txn(void)
{
	if (writes)
		return writes;
	if (!reads) {
		must(mdb_txn_begin(env, NULL, MDB_RDONLY, &reads));
		must(mdb_cursor_open(reads, dbi, &reads_cursor));
	}
	return reads;
}

static MDB_cursor *cursor(void)
{
	if (read_txn() == reads)
		return reads_cursor;
	if (!writes_cursor)
		must(mdb_cursor_open(writes, dbi, &writes_cursor));
	return writes_cursor;
}

/* The first write ends the current snapshot. */
static void lm_write(void)
{
	if (reads) {
		mdb_cursor_close(reads_cursor);
		mdb_txn_abort(reads);
		reads = NULL;
	}
	write_txn();
}

static void written(void)
{
	if (++pending == TXN_WRITES)
		end_writes();
}

static void lm_clear(void)
{
	must(mdb_drop(write_txn(), dbi, 0));
	end_writes();
}

static MDB_val val(struct bench_key_ref key)
{
	return (MDB_val) { .mv_size = key.len, .mv_data = (void *)key.data };
}

static size_t value_size(void)
{
	return wide ? BENCH_COLS * sizeof(uint32_t) : sizeof(uint64_t);
}

static void lm_put(struct bench_key_ref key, const union bench_value *value)
{
	MDB_val k = val(key), v = { .mv_size = value_size(), .mv_data = (void *)value };

	lm_write();
	must(mdb_put(writes, dbi, &k, &v, 0));
	written();
}

static bool lm_get(struct bench_key_ref key, union bench_value *value)
{
	MDB_val k = val(key), v;

	if (mdb_get(read_txn(), dbi, &k, &v))
		return false;
	memcpy(value, v.mv_data, value_size());
	return true;
}

static bool lm_put_column(struct bench_key_ref key, unsigned int column, uint32_t to)
{
	union bench_value value;

	lm_write();
	if (!lm_get(key, &value))
		return false;
	value.column[column] = to;
	lm_put(key, &value);
	return true;
}

static bool lm_remove(struct bench_key_ref key)
{
	MDB_val k = val(key);
	int err;

	lm_write();
	err = mdb_del(writes, dbi, &k, NULL);
	written();
	return !err;
}

static unsigned int lm_scan(struct bench_key_ref key, unsigned int nr, struct bench_scan *out)
{
	size_t size = wide ? sizeof(uint32_t) : sizeof(uint64_t);
	MDB_cursor *at = cursor();
	MDB_val k = val(key), v;
	unsigned int i;
	int err;

	err = mdb_cursor_get(at, &k, &v, MDB_SET_RANGE);
	for (i = 0; i < nr && !err; i++) {
		memcpy(out->key[i], k.mv_data, k.mv_size);
		out->len[i] = k.mv_size;
		out->value[i] = 0;
		memcpy(&out->value[i], v.mv_data, size);
		err = i + 1 < nr ? mdb_cursor_get(at, &k, &v, MDB_NEXT) : 0;
	}
	return i;
}

static void lm_memory(struct bench_memory *m)
{
	MDB_stat stat;

	must(mdb_env_stat(env, &stat));
	m->nodes = stat.ms_psize * (stat.ms_leaf_pages + stat.ms_branch_pages);
	m->all = m->nodes;
}

const struct subject subject_lmdb = {
	.name = "lmdb", .one_writer = true, .init = lm_init, .clear = lm_clear, .end = lm_end,
	.memory = lm_memory, .put = lm_put, .get = lm_get, .scan = lm_scan,
	.remove = lm_remove, .put_column = lm_put_column,
};
