// SPDX-License-Identifier: GPL-2.0
/*
 * Let every allocation of an operation fail, and on kernels that support it every
 * copy from and to user memory, one at a time: first the first, then the second,
 * and so on, until the operation needs no more of them.  A failure must leave the
 * store unchanged, to the last counter, and the operation must succeed when it is
 * tried again.
 *
 * Uses the kernel's fault injection per task (/proc/self/fail-nth).
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include "kselftest_harness.h"
#include "lib/kvt_test.h"

#define RW		(KVTREE_OPEN_READ | KVTREE_OPEN_WRITE)
#define DEBUGFS		"/sys/kernel/debug/"

/* More failures than any operation can have. */
#define N_MAX		2000

/* One store after the other, and what makes them fail. */
struct failing {
	int dev;
	int nth;
	char name[KVTREE_NAME_MAX];
	unsigned int stores;
	int fd;
};

/* Does something with the @n-th failure.  Returns false if there was none any more. */
typedef bool (*failing_fn)(struct failing *f, const void *arg, unsigned int n);

FIXTURE(fail) {
	struct failing f;
};

static void set_knob(const char *file, const char *value)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), DEBUGFS "%s", file);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	/* An attribute that does not exist needs no setting. */
	if (fd < 0)
		return;
	KVT_CHECK(write(fd, value, strlen(value)) == (ssize_t)strlen(value));
	close(fd);
}

/* Nothing is spared, and a failure that is meant is not reported. */
static void set_knobs(void)
{
	if (access(DEBUGFS "failslab", F_OK))
		mount("debugfs", DEBUGFS, "debugfs", 0, NULL);
	set_knob("failslab/ignore-gfp-wait", "N");
	set_knob("failslab/cache-filter", "N");
	set_knob("failslab/verbose", "0");
	set_knob("fail_page_alloc/ignore-gfp-wait", "N");
	set_knob("fail_page_alloc/ignore-gfp-highmem", "N");
	set_knob("fail_page_alloc/min-order", "0");
	set_knob("fail_page_alloc/verbose", "0");
	set_knob("fail_usercopy/verbose", "0");
}

FIXTURE_SETUP(fail)
{
	set_knobs();
	self->f.dev = kvt_open();
	ASSERT_LE(0, self->f.dev);
	self->f.nth = kvt_nth_open();
	ASSERT_LE(0, self->f.nth);
	self->f.fd = -1;
}

FIXTURE_TEARDOWN(fail)
{
	close(self->f.fd);
	kvt_destroy(self->f.dev, self->f.name);
	close(self->f.nth);
	close(self->f.dev);
}

/* What an operation must leave alone if it fails. */
struct state {
	__u64 digest;
	__u64 stats[KVTREE_STAT_NR];
};

static const enum kvtree_stat kept[] = {
	KVTREE_STAT_KEYS, KVTREE_STAT_VALUES, KVTREE_STAT_VALUE_BYTES,
	/* Of a Masstree, which does not tidy up before it knows whether there is memory. */
	KVTREE_STAT_BYTES, KVTREE_STAT_LAYERS, KVTREE_STAT_LEAF_NODES, KVTREE_STAT_LEAF_BYTES,
	KVTREE_STAT_INNER_NODES, KVTREE_STAT_INNER_BYTES,
};

#define KEPT_ALWAYS	3

static void take_state(int fd, struct state *state)
{
	state->digest = kvt_digest(fd);
	KVT_CHECK(kvt_stats(fd, state->stats) == 0);
}

static bool same_state(int fd, const struct state *before)
{
	size_t i, nr = kvt_is_masstree(fd) ? NR(kept) : KEPT_ALWAYS;
	struct state now;

	take_state(fd, &now);
	for (i = 0; i < nr; i++) {
		if (now.stats[kept[i]] != before->stats[kept[i]])
			return false;
	}
	return now.digest == before->digest;
}

/* An operation under test, and the store that it needs. */
struct scenario {
	const char *name;
	void (*prepare)(int fd);
	/* Fills the operations; returns their number. */
	int (*ops)(struct kvtree_op *ops);
	/* Whether the store is as it is to be after them. */
	bool (*after)(int fd);
	/* Results of the operations when they succeed; NULL: 0 for all. */
	const int *results;
	/* The session's scratch memory is enough for it. */
	bool allocates_nothing;
	/* By a session that has not kept any memory yet. */
	bool new_session;
};

#define OPS_MAX		8
/* What an operation's result is before there is one. */
#define NO_RESULT	1234

static unsigned char big[KVTREE_VALUE_MAX];
static unsigned char out[KVTREE_VALUE_MAX];
static struct kvtree_col cols[256];
static struct kvtree_scan scan_args;
static unsigned char long_key[2][KVTREE_KEY_MAX];

static void fresh_store(struct failing *f)
{
	struct kvtree_store_create create = { .mode = 0600, .page_size = 256 };

	if (f->fd >= 0) {
		close(f->fd);
		KVT_CHECK(kvt_destroy(f->dev, f->name) == 0);
	}
	snprintf(create.name, sizeof(f->name), "fail-%d.%u", getpid(), f->stores++);
	strcpy(f->name, create.name);
	/* In small pages few keys make all levels; not every engine has any. */
	if (kvt_ioctl(f->dev, KVTREE_IOC_STORE_CREATE, &create)) {
		create.page_size = 0;
		KVT_CHECK(kvt_ioctl(f->dev, KVTREE_IOC_STORE_CREATE, &create) == 0);
	}
	f->fd = kvt_store(f->dev, f->name, RW);
	KVT_CHECK(f->fd >= 0);
}

static int wanted(const struct scenario *s, int i)
{
	return s->results ? s->results[i] : 0;
}

/* The operations once, with the n-th failure.  Returns whether there was one. */
static bool submit_failing(int nth, int fd, unsigned int n, struct kvtree_batch *batch, int *ret)
{
	struct kvtree_op *ops = (void *)(uintptr_t)batch->ops;
	__u32 i;

	for (i = 0; i < batch->nr; i++)
		ops[i].result = NO_RESULT;
	batch->done = ~0u;
	/* Touch the memory to be written, so that no page fault interferes. */
	memset(out, 0, sizeof(out));
	kvt_nth_set(nth, n);
	*ret = kvt_ioctl(fd, KVTREE_IOC_BATCH, batch);
	return kvt_nth_done(nth);
}

/* Once more, and without a failure, what failed. */
static void submit_again(int fd, const struct scenario *s, const struct kvtree_op *ops, int nr,
			 int unsure)
{
	struct kvtree_op again[OPS_MAX];
	int i, ret;

	memset(out, 0, sizeof(out));
	s->ops(again);
	for (i = 0; i < nr; i++) {
		if (ops[i].result == wanted(s, i))
			continue;
		ret = kvt_exec(fd, &again[i]);
		KVT_CHECK(ret == wanted(s, i) || (i == unsure && ret == -ENOENT));
	}
}

/*
 * Run the operations with the n-th failure.  Returns false if there was none
 * any more.
 */
static bool run_failing(struct failing *f, const void *arg, unsigned int n)
{
	const struct scenario *s = arg;
	struct kvtree_op ops[OPS_MAX];
	struct kvtree_batch batch = { .op_size = sizeof(ops[0]), .ops = kvt_ptr(ops) };
	int i, fd, ret, good = 0, unsure = -1;
	struct state before;
	bool failed;

	fresh_store(f);
	s->prepare(f->fd);
	take_state(f->fd, &before);
	batch.nr = s->ops(ops);
	fd = s->new_session ? kvt_store(f->dev, f->name, RW) : dup(f->fd);
	KVT_CHECK(fd >= 0);
	failed = submit_failing(f->nth, fd, n, &batch, &ret);
	close(fd);

	KVT_CHECK(ret == 0 || (failed && (ret == -ENOMEM || ret == -EFAULT)));
	for (i = 0; i < (int)batch.nr; i++) {
		int want = wanted(s, i), got = ops[i].result;

		/* Only a call that failed leaves operations without a result. */
		KVT_CHECK(got == NO_RESULT ? ret : got == want || got == -ENOMEM || got == -EFAULT);
		KVT_CHECK(failed || got == want);
		good += got == want;
	}
	if (!ret)
		KVT_CHECK(batch.done == batch.nr);
	if (good == (int)batch.nr) {
		KVT_CHECK(s->after(f->fd));
		return failed;
	}
	/* An operation may have taken place although its outcome could not be copied. */
	if (ret == -EFAULT && batch.done < batch.nr)
		unsure = batch.done;
	if (batch.nr == 1 && unsure == 0 && !same_state(f->fd, &before)) {
		KVT_CHECK(s->after(f->fd));
		return true;
	}
	/* If no operation succeeded or may have, nothing has changed. */
	if (!good && unsure < 0)
		KVT_CHECK(same_state(f->fd, &before));
	submit_again(f->fd, s, ops, batch.nr, unsure);
	KVT_CHECK(s->after(f->fd));
	return true;
}

/* Run it with the first failure, the second, ... until there is none.  Returns how many. */
static unsigned int run_failures(struct failing *f, failing_fn fn, const void *arg)
{
	unsigned int n;

	for (n = 1; n < N_MAX && fn(f, arg, n); n++)
		;
	KVT_CHECK(n < N_MAX);
	return n - 1;
}

/*
 * Occasional allocations of the kernel's own checkers may fail as well, such as KASAN's for
 * a new stack trace: an operation that allocates nothing then runs without failures at a
 * later try.  Where copies of user memory fail, too, it never does.
 */
static void run_scenario(struct __test_metadata *_metadata, struct failing *f,
			 const struct scenario *s)
{
	unsigned int nr = run_failures(f, run_failing, s), again;

	for (again = 0; again < 2 && nr && s->allocates_nothing; again++)
		nr = run_failures(f, run_failing, s);
	if (!s->allocates_nothing || access(DEBUGFS "fail_usercopy", F_OK))
		EXPECT_EQ(s->allocates_nothing, !nr);
	TH_LOG("%u failures", nr);
}

/*
 * The scenarios
 */
static void prepare_nothing(int fd)
{
	(void)fd;
}

static void prepare_k(int fd)
{
	KVT_CHECK(kvt_put(fd, STR("k"), STR("old value"), NULL) == 0);
	KVT_CHECK(kvt_put(fd, STR("l"), STR("other"), NULL) == 0);
}

static int ops_put_k(struct kvtree_op *ops)
{
	ops[0] = kvt_op(KVTREE_OP_PUT, STR("k"));
	ops[0].val = kvt_ptr("new value");
	ops[0].val_len = 9;
	return 1;
}

static bool after_put_k(int fd)
{
	return kvt_has(fd, STR("k"), STR("new value"));
}

TEST_F(fail, put_of_a_new_key)
{
	static const struct scenario s = {
		.prepare = prepare_nothing, .ops = ops_put_k, .after = after_put_k,
	};

	run_scenario(_metadata, &self->f, &s);
}

TEST_F(fail, put_over_an_old_value)
{
	static const struct scenario s = {
		.prepare = prepare_k, .ops = ops_put_k, .after = after_put_k,
	};

	run_scenario(_metadata, &self->f, &s);
}

/*
 * Ascending puts leave full leaves, and in the end a full root above them.
 */
static unsigned int full_keys;

static void put_ascending(int fd, unsigned int from, unsigned int to)
{
	char key[16];

	for (; from < to; from++) {
		snprintf(key, sizeof(key), "m%06u", from * 2);
		KVT_CHECK(kvt_put(fd, kvt_bytes(key, 7), STR(""), NULL) == 0);
	}
}

static __u64 stat_of(int fd, unsigned int stat)
{
	__u64 stats[KVTREE_STAT_NR];

	KVT_CHECK(kvt_stats(fd, stats) == 0);
	return stats[stat];
}

/* So many keys that with one more there are @inner nodes: how many is the engine's affair. */
static void count_full(struct failing *f, unsigned int inner)
{
	fresh_store(f);
	for (full_keys = 0; stat_of(f->fd, KVTREE_STAT_INNER_NODES) < inner; full_keys++) {
		KVT_CHECK(full_keys < 10000);
		put_ascending(f->fd, full_keys, full_keys + 1);
	}
	full_keys--;
}

static void prepare_full(int fd)
{
	put_ascending(fd, 0, full_keys);
}

/* A Bw-tree may have left the split to the next change. */
static bool after_split(int fd, unsigned int inner)
{
	return (!kvt_is_masstree(fd) || stat_of(fd, KVTREE_STAT_INNER_NODES) == inner) &&
	       stat_of(fd, KVTREE_STAT_KEYS) == full_keys + 1;
}

static bool after_split_of_leaf(int fd)
{
	return after_split(fd, 1) && kvt_has(fd, STR("k"), STR("new value"));
}

TEST_F(fail, put_that_splits_a_leaf)
{
	static const struct scenario s = {
		.prepare = prepare_full, .ops = ops_put_k, .after = after_split_of_leaf,
	};

	count_full(&self->f, 1);
	run_scenario(_metadata, &self->f, &s);
}

static int ops_put_between(struct kvtree_op *ops)
{
	ops[0] = kvt_op(KVTREE_OP_PUT, STR("m000101"));
	return 1;
}

static bool after_split_of_root(int fd)
{
	return after_split(fd, 3) && kvt_has(fd, STR("m000101"), STR(""));
}

TEST_F(fail, put_that_splits_up_to_the_root)
{
	static const struct scenario s = {
		.prepare = prepare_full, .ops = ops_put_between, .after = after_split_of_root,
	};

	count_full(&self->f, 3);
	run_scenario(_metadata, &self->f, &s);
}

static void prepare_long_key(int fd)
{
	memset(long_key, 'L', sizeof(long_key));
	long_key[1][KVTREE_KEY_MAX - 1] = 'M';
	KVT_CHECK(kvt_put(fd, kvt_bytes(long_key[0], 200), STR("first"), NULL) == 0);
}

static int ops_put_layers(struct kvtree_op *ops)
{
	static unsigned char key[200];

	memset(key, 'L', sizeof(key));
	key[199] = 'M';
	ops[0] = kvt_op(KVTREE_OP_PUT, kvt_bytes(key, 200));
	ops[0].val = kvt_ptr("second");
	ops[0].val_len = 6;
	return 1;
}

static bool after_put_layers(int fd)
{
	unsigned char key[200];
	__u64 stats[KVTREE_STAT_NR];

	memset(key, 'L', sizeof(key));
	if (!kvt_has(fd, kvt_bytes(key, 200), STR("first")))
		return false;
	key[199] = 'M';
	KVT_CHECK(kvt_stats(fd, stats) == 0);
	return kvt_has(fd, kvt_bytes(key, 200), STR("second")) &&
	       stats[KVTREE_STAT_LAYERS] == (kvt_is_masstree(fd) ? 24 : 0);
}

TEST_F(fail, put_that_makes_layers)
{
	static const struct scenario s = {
		.prepare = prepare_long_key, .ops = ops_put_layers, .after = after_put_layers,
	};

	run_scenario(_metadata, &self->f, &s);
}

static void prepare_longest_key(int fd)
{
	memset(long_key, 'L', sizeof(long_key));
	long_key[1][KVTREE_KEY_MAX - 1] = 'M';
	KVT_CHECK(kvt_put(fd, kvt_bytes(long_key[0], KVTREE_KEY_MAX), STR("first"), NULL) == 0);
}

static int ops_put_all_layers(struct kvtree_op *ops)
{
	ops[0] = kvt_op(KVTREE_OP_PUT, kvt_bytes(long_key[1], KVTREE_KEY_MAX));
	ops[0].val = kvt_ptr("second");
	ops[0].val_len = 6;
	return 1;
}

static bool after_put_all_layers(int fd)
{
	return kvt_has(fd, kvt_bytes(long_key[0], KVTREE_KEY_MAX), STR("first")) &&
	       kvt_has(fd, kvt_bytes(long_key[1], KVTREE_KEY_MAX), STR("second"));
}

/* 511 nodes of a Masstree at once, each of which may be the one that is not to be had. */
TEST_F_TIMEOUT(fail, put_that_makes_all_layers_of_the_longest_key, 600)
{
	static const struct scenario s = {
		.prepare = prepare_longest_key, .ops = ops_put_all_layers,
		.after = after_put_all_layers,
	};
	unsigned int n, step;

	/* The first ones, the last ones, and some in between. */
	for (n = 1, step = 1; n < N_MAX; n += step) {
		if (!run_failing(&self->f, &s, n)) {
			if (step == 1)
				break;
			n -= step;
			step = 1;
			continue;
		}
		if (n == 10)
			step = 97;
	}
	TH_LOG("%u failures", n - 1);
	EXPECT_LT(kvt_is_masstree(self->f.fd) ? 500 : 1, n);
}

static int ops_put_cols(struct kvtree_op *ops)
{
	static struct kvtree_col c[4] = {
		{ .id = 1, .len = 10 }, { .id = 2, .len = 5000 }, { .id = 3, .len = 9000 },
		{ .id = 200, .len = 700 },
	};

	ops[0] = kvt_op(KVTREE_OP_PUT, STR("k"));
	ops[0].flags = KVTREE_F_COLS;
	ops[0].arg = kvt_ptr(c);
	ops[0].ncols = 4;
	ops[0].val = kvt_ptr(big);
	ops[0].val_len = 14710;
	return 1;
}

static bool after_put_cols(int fd)
{
	struct kvtree_col c[5] = { { .id = 0 }, { .id = 1 }, { .id = 2 }, { .id = 3 },
				   { .id = 200 } };

	return kvt_get_cols(fd, STR("k"), c, 5, out, sizeof(out)) >= 14710 &&
	       c[1].len == 10 && c[2].len == 5000 && c[3].len == 9000 && c[4].len == 700;
}

TEST_F(fail, put_of_several_columns)
{
	static const struct scenario s = {
		.prepare = prepare_nothing, .ops = ops_put_cols, .after = after_put_cols,
	};

	run_scenario(_metadata, &self->f, &s);
}

TEST_F(fail, put_of_several_columns_beside_others)
{
	static const struct scenario s = {
		.prepare = prepare_k, .ops = ops_put_cols, .after = after_put_cols,
	};

	run_scenario(_metadata, &self->f, &s);
}

/* Columns that together are too much for one block have to move. */
static void prepare_cols_spill(int fd)
{
	struct kvtree_col c[2] = { { .id = 1, .len = 1900 }, { .id = 2, .len = 1900 } };

	KVT_CHECK(kvt_put_cols(fd, STR("k"), c, 2, kvt_bytes(big, 3800), NULL) == 0);
}

static int ops_put_spill(struct kvtree_op *ops)
{
	static struct kvtree_col c[2] = { { .id = 3, .len = 1900 }, { .id = 4, .len = 1900 } };

	ops[0] = kvt_op(KVTREE_OP_PUT, STR("k"));
	ops[0].flags = KVTREE_F_COLS;
	ops[0].arg = kvt_ptr(c);
	ops[0].ncols = 2;
	ops[0].val = kvt_ptr(big);
	ops[0].val_len = 3800;
	return 1;
}

static bool after_put_spill(int fd)
{
	struct kvtree_col c[4] = { { .id = 1 }, { .id = 2 }, { .id = 3 }, { .id = 4 } };

	return kvt_get_cols(fd, STR("k"), c, 4, out, sizeof(out)) == 7600;
}

TEST_F(fail, put_that_outgrows_the_block_of_its_columns)
{
	static const struct scenario s = {
		.prepare = prepare_cols_spill, .ops = ops_put_spill, .after = after_put_spill,
	};

	run_scenario(_metadata, &self->f, &s);
}

static int ops_put_big(struct kvtree_op *ops)
{
	ops[0] = kvt_op(KVTREE_OP_PUT, STR("k"));
	ops[0].val = kvt_ptr(big);
	ops[0].val_len = KVTREE_VALUE_MAX;
	return 1;
}

static bool after_put_big(int fd)
{
	return kvt_has(fd, STR("k"), kvt_bytes(big, KVTREE_VALUE_MAX));
}

TEST_F(fail, put_of_a_megabyte)
{
	static const struct scenario s = {
		.prepare = prepare_k, .ops = ops_put_big, .after = after_put_big,
	};

	run_scenario(_metadata, &self->f, &s);
}

static void prepare_big(int fd)
{
	KVT_CHECK(kvt_put(fd, STR("k"), kvt_bytes(big, KVTREE_VALUE_MAX), NULL) == 0);
}

static int ops_get_big(struct kvtree_op *ops)
{
	ops[0] = kvt_op(KVTREE_OP_GET, STR("k"));
	ops[0].val = kvt_ptr(out);
	ops[0].val_len = sizeof(out);
	return 1;
}

static bool after_get_big(int fd)
{
	(void)fd;
	return !memcmp(out, big, sizeof(out));
}

TEST_F(fail, get_of_a_megabyte)
{
	static const int results[] = { KVTREE_VALUE_MAX };
	static const struct scenario s = {
		.prepare = prepare_big, .ops = ops_get_big, .after = after_get_big,
		.results = results, .allocates_nothing = true,
	};

	run_scenario(_metadata, &self->f, &s);
}

static void prepare_cols(int fd)
{
	struct kvtree_op op;

	ops_put_cols(&op);
	KVT_CHECK(kvt_exec(fd, &op) == 0);
}

static int ops_get_cols(struct kvtree_op *ops)
{
	ops[0] = kvt_op(KVTREE_OP_GET, STR("k"));
	ops[0].flags = KVTREE_F_COLS | KVTREE_F_ALL_COLS;
	ops[0].arg = kvt_ptr(cols);
	ops[0].ncols = 256;
	ops[0].val = kvt_ptr(out);
	ops[0].val_len = sizeof(out);
	return 1;
}

static bool after_get_cols(int fd)
{
	(void)fd;
	return !memcmp(out, big, 14710) && cols[3].id == 200 && cols[3].len == 700;
}

TEST_F(fail, get_of_all_columns)
{
	static const int results[] = { 14710 };
	static const struct scenario s = {
		.prepare = prepare_cols, .ops = ops_get_cols, .after = after_get_cols,
		.results = results,
	};

	run_scenario(_metadata, &self->f, &s);
}

static int ops_cas(struct kvtree_op *ops)
{
	ops_put_k(ops);
	/* A new store's first key has its first version. */
	ops[0].opcode = KVTREE_OP_CAS;
	ops[0].version = 1;
	return 1;
}

TEST_F(fail, cas)
{
	static const struct scenario s = {
		.prepare = prepare_k, .ops = ops_cas, .after = after_put_k,
	};

	fresh_store(&self->f);
	prepare_k(self->f.fd);
	if (kvt_version(self->f.fd, STR("k")) != 1)
		SKIP(return, "versions do not begin with 1");
	run_scenario(_metadata, &self->f, &s);
}

static int ops_add(struct kvtree_op *ops)
{
	ops[0] = kvt_op(KVTREE_OP_ADD, STR("k"));
	ops[0].col = 9;
	ops[0].arg = 5;
	return 1;
}

static bool after_add(int fd)
{
	struct kvtree_col c = { .id = 9 };
	__u64 n = 0;

	return kvt_get_cols(fd, STR("k"), &c, 1, &n, 8) == 8 && n == 5;
}

TEST_F(fail, add_that_makes_a_key)
{
	static const struct scenario s = {
		.prepare = prepare_nothing, .ops = ops_add, .after = after_add,
	};

	run_scenario(_metadata, &self->f, &s);
}

TEST_F(fail, add_that_makes_a_column)
{
	static const struct scenario s = {
		.prepare = prepare_k, .ops = ops_add, .after = after_add,
	};

	run_scenario(_metadata, &self->f, &s);
}

static int ops_remove(struct kvtree_op *ops)
{
	ops[0] = kvt_op(KVTREE_OP_REMOVE, STR("k"));
	return 1;
}

static bool after_remove(int fd)
{
	return !kvt_version(fd, STR("k"));
}

TEST_F(fail, remove)
{
	static const struct scenario s = {
		.prepare = prepare_k, .ops = ops_remove, .after = after_remove,
		.allocates_nothing = true,
	};

	run_scenario(_metadata, &self->f, &s);
}

/* Put a key; its removal leaves layers to a worker that cannot be created. */
static void prepare_layers(int fd)
{
	struct kvtree_op op;

	prepare_long_key(fd);
	ops_put_layers(&op);
	KVT_CHECK(kvt_exec(fd, &op) == 0);
}

static int ops_remove_layers(struct kvtree_op *ops)
{
	static unsigned char key[2][200];

	memset(key, 'L', sizeof(key));
	key[1][199] = 'M';
	ops[0] = kvt_op(KVTREE_OP_REMOVE, kvt_bytes(key[0], 200));
	ops[1] = kvt_op(KVTREE_OP_REMOVE, kvt_bytes(key[1], 200));
	return 2;
}

static bool layers_gone(void *arg)
{
	__u64 stats[KVTREE_STAT_NR];

	KVT_CHECK(kvt_stats(*(int *)arg, stats) == 0);
	return !stats[KVTREE_STAT_LAYERS] && !stats[KVTREE_STAT_WAITING_BYTES];
}

static bool after_remove_layers(int fd)
{
	/* What could not be arranged for at once is made up for. */
	return kvt_eventually(layers_gone, &fd);
}

TEST_F(fail, remove_that_empties_layers)
{
	static const struct scenario s = {
		.prepare = prepare_layers, .ops = ops_remove_layers, .after = after_remove_layers,
	};

	run_scenario(_metadata, &self->f, &s);
}

static void prepare_scan(int fd)
{
	__u32 i;

	put_ascending(fd, 0, 15);
	for (i = 0; i < 40; i++)
		KVT_CHECK(kvt_put(fd, kvt_bytes(&i, 4), kvt_bytes(big, 3000), NULL) == 0);
}

static int ops_scan(struct kvtree_op *ops)
{
	static const unsigned char end[300] = { 0xff };

	memset(&scan_args, 0, sizeof(scan_args));
	scan_args.flags = KVTREE_SCAN_ALL_COLS;
	scan_args.end = kvt_ptr(end);
	scan_args.end_len = sizeof(end);
	ops[0] = kvt_op(KVTREE_OP_SCAN, STR(""));
	ops[0].arg = kvt_ptr(&scan_args);
	ops[0].val = kvt_ptr(out);
	ops[0].val_len = sizeof(out);
	return 1;
}

static bool after_scan(int fd)
{
	(void)fd;
	return scan_args.count == 55 && scan_args.out_flags == KVTREE_SCAN_DONE;
}

TEST_F(fail, scan)
{
	static int results[1];
	static const struct scenario s = {
		.prepare = prepare_scan, .ops = ops_scan, .after = after_scan,
		.allocates_nothing = true,
		.results = results,
	};
	struct kvtree_op op;

	fresh_store(&self->f);
	prepare_scan(self->f.fd);
	ops_scan(&op);
	results[0] = kvt_exec(self->f.fd, &op);
	ASSERT_LT(0, results[0]);
	ASSERT_TRUE(after_scan(self->f.fd));
	run_scenario(_metadata, &self->f, &s);
}

static int ops_batch(struct kvtree_op *ops)
{
	static char buf[2][16];

	ops[0] = kvt_op(KVTREE_OP_PUT, STR("a"));
	ops[1] = kvt_op(KVTREE_OP_PUT, STR("b"));
	ops[2] = kvt_op(KVTREE_OP_GET, STR("k"));
	ops[2].val = kvt_ptr(buf[0]);
	ops[2].val_len = 16;
	ops[3] = kvt_op(KVTREE_OP_GET, STR("l"));
	ops[3].val = kvt_ptr(buf[1]);
	ops[3].val_len = 16;
	ops[4] = kvt_op(KVTREE_OP_PUT, STR("c"));
	ops[5] = kvt_op(KVTREE_OP_REMOVE, STR("l"));
	ops_put_k(&ops[6]);
	ops_add(&ops[7]);
	ops[7].key = kvt_ptr("n");
	return 8;
}

static bool after_batch(int fd)
{
	return kvt_has(fd, STR("a"), STR("")) && kvt_has(fd, STR("b"), STR("")) &&
	       kvt_has(fd, STR("c"), STR("")) && !kvt_version(fd, STR("l")) &&
	       kvt_has(fd, STR("k"), STR("new value")) && kvt_version(fd, STR("n"));
}

TEST_F(fail, batch)
{
	static const int results[] = { 0, 0, 9, 5, 0, 0, 0, 0 };
	static const struct scenario s = {
		.prepare = prepare_k, .ops = ops_batch, .after = after_batch,
		.results = results,
	};

	run_scenario(_metadata, &self->f, &s);
}

/* The first operation of a session has to get what later ones find there. */
TEST_F(fail, put_by_a_new_session)
{
	static const struct scenario s = {
		.prepare = prepare_nothing, .ops = ops_put_cols, .after = after_put_cols,
		.new_session = true,
	};

	run_scenario(_metadata, &self->f, &s);
}

TEST_F(fail, get_by_a_new_session)
{
	static const int results[] = { 14710 };
	static const struct scenario s = {
		.prepare = prepare_cols, .ops = ops_get_cols, .after = after_get_cols,
		.results = results, .new_session = true,
	};

	run_scenario(_metadata, &self->f, &s);
}

TEST_F(fail, scan_by_a_new_session)
{
	static int results[1];
	static const struct scenario s = {
		.prepare = prepare_scan, .ops = ops_scan, .after = after_scan,
		.results = results, .new_session = true,
	};
	struct kvtree_op op;

	fresh_store(&self->f);
	prepare_scan(self->f.fd);
	ops_scan(&op);
	results[0] = kvt_exec(self->f.fd, &op);
	ASSERT_LT(0, results[0]);
	run_scenario(_metadata, &self->f, &s);
}

TEST_F(fail, batch_by_a_new_session)
{
	static const int results[] = { 0, 0, 9, 5, 0, 0, 0, 0 };
	static const struct scenario s = {
		.prepare = prepare_k, .ops = ops_batch, .after = after_batch,
		.results = results, .new_session = true,
	};

	run_scenario(_metadata, &self->f, &s);
}

/*
 * Calls
 */
static int count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	KVT_CHECK(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static int count_stores(int dev)
{
	struct kvtree_store_info info = {};
	int n = 0;

	while (!kvt_ioctl(dev, KVTREE_IOC_STORE_LIST, &info)) {
		info.after = info.id;
		n++;
	}
	return n;
}

/*
 * Occasional allocations of the kernel itself, such as pages for per-CPU data, shift the
 * numbers of the others, so that a failure may be skipped.  Hence several times.
 */
static void run_calls(struct __test_metadata *_metadata, struct failing *f, failing_fn fn)
{
	unsigned int i;

	for (i = 0; i < 5; i++)
		TH_LOG("%u failures", run_failures(f, fn, NULL));
}

static bool create_failing(struct failing *f, const void *arg, unsigned int n)
{
	struct kvtree_store_create create = { .mode = 0600 };
	int ret, before = count_stores(f->dev);
	bool failed;

	snprintf(create.name, sizeof(create.name), "fail-%d.new", getpid());
	kvt_nth_set(f->nth, n);
	ret = kvt_ioctl(f->dev, KVTREE_IOC_STORE_CREATE, &create);
	failed = kvt_nth_done(f->nth);
	KVT_CHECK(ret == 0 || (failed && (ret == -ENOMEM || ret == -EFAULT)));
	KVT_CHECK(count_stores(f->dev) == before + !ret);
	KVT_CHECK(ret || !kvt_destroy(f->dev, create.name));
	return failed;
}

TEST_F(fail, creation_of_a_store)
{
	run_calls(_metadata, &self->f, create_failing);
}

static bool open_failing(struct failing *f, const void *arg, unsigned int n)
{
	struct kvtree_store_open open = { .flags = RW };
	int ret, before = count_fds();
	bool failed;

	strcpy(open.name, f->name);
	kvt_nth_set(f->nth, n);
	ret = kvt_ioctl(f->dev, KVTREE_IOC_STORE_OPEN, &open);
	failed = kvt_nth_done(f->nth);
	KVT_CHECK(ret >= 0 || (failed && (ret == -ENOMEM || ret == -EFAULT || ret == -ENFILE)));
	KVT_CHECK(count_fds() == before + (ret >= 0));
	if (ret >= 0) {
		KVT_CHECK(!kvt_put(ret, STR("k"), STR("v"), NULL));
		close(ret);
	}
	return failed;
}

TEST_F(fail, opening_of_a_store)
{
	fresh_store(&self->f);
	run_calls(_metadata, &self->f, open_failing);
}

static bool open_device_failing(struct failing *f, const void *arg, unsigned int n)
{
	int fd, err, before = count_fds();
	bool failed;

	kvt_nth_set(f->nth, n);
	fd = open(KVT_DEV, O_RDWR | O_CLOEXEC);
	err = errno;
	failed = kvt_nth_done(f->nth);
	KVT_CHECK(fd >= 0 || (failed && (err == ENOMEM || err == EFAULT || err == ENFILE)));
	KVT_CHECK(count_fds() == before + (fd >= 0));
	if (fd >= 0)
		close(fd);
	return failed;
}

TEST_F(fail, opening_of_the_device)
{
	run_calls(_metadata, &self->f, open_device_failing);
}

static bool destroy_failing(struct failing *f, const void *arg, unsigned int n)
{
	struct kvtree_store_destroy destroy = {};
	struct kvtree_store_info info;
	bool failed;
	int ret;

	fresh_store(f);
	prepare_scan(f->fd);
	strcpy(destroy.name, f->name);
	kvt_nth_set(f->nth, n);
	ret = kvt_ioctl(f->dev, KVTREE_IOC_STORE_DESTROY, &destroy);
	failed = kvt_nth_done(f->nth);
	KVT_CHECK(ret == 0 || (failed && (ret == -ENOMEM || ret == -EFAULT)));
	/* Gone, or as it was. */
	KVT_CHECK(kvt_find(f->dev, f->name, &info) == (ret ? 0 : -ENOENT));
	KVT_CHECK(kvt_put(f->fd, STR("k"), STR("v"), NULL) == (ret ? 0 : -ESTALE));
	if (!ret) {
		close(f->fd);
		f->fd = -1;
	}
	return failed;
}

TEST_F(fail, destruction_of_a_store)
{
	run_calls(_metadata, &self->f, destroy_failing);
}

int main(int argc, char **argv)
{
	size_t i;

	if (access(KVT_NTH, F_OK)) {
		printf("TAP version 13\n1..0 # SKIP the kernel has no fault injection\n");
		return KSFT_SKIP;
	}
	for (i = 0; i < sizeof(big); i++)
		big[i] = i * 31 + i / 255;
	return test_harness_run(argc, argv);
}
