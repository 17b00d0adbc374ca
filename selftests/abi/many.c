// SPDX-License-Identifier: GPL-2.0
/*
 * Several processes and threads use one store at once, and each of them checks
 * what must hold for it: keys that nobody else removes are present, their versions
 * never decrease, sums are right, scans are sorted and complete.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include "kselftest_harness.h"
#include "lib/kvt_test.h"

#define WORKERS		3
#define THREADS		2	/* in each worker */
#define OWN		48	/* keys that each thread owns, never removed */
#define CHURN		400	/* keys that any worker puts and removes */
#define FAMILIES	4
#define ROUNDS		400
#define OPS		16	/* in a batch */
#define COUNTERS	4

#define OWNERS		(WORKERS * THREADS)

struct shared {
	int go;
	int working;
	__u64 added[COUNTERS];
	__u64 increments;
	__u64 made[CHURN];		/* successful creations */
	__u64 removed[CHURN];
};

FIXTURE(many) {
	struct kvt_env env;
	int fd;
	struct shared *shared;
};

FIXTURE_SETUP(many)
{
	kvt_env_init(&self->env, "many", 0, 0);
	self->fd = self->env.fd;
	self->shared = kvt_map_shared(sizeof(*self->shared));
}

FIXTURE_TEARDOWN(many)
{
	kvt_env_exit(&self->env);
}

static __u64 fetch(const __u64 *p)
{
	return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

static void count(__u64 *p, __u64 by)
{
	__atomic_fetch_add(p, by, __ATOMIC_ACQ_REL);
}

/* A key of a family: the families share 0, 8, 40 and 300 bytes. */
static struct kvt_bytes family_key(unsigned char *buf, const char *kind, __u32 id)
{
	static const int shared[FAMILIES] = { 0, 8, 40, 300 };
	int len = shared[id % FAMILIES], n;

	memset(buf, 'a' + id % FAMILIES, len);
	n = sprintf((char *)buf + len, "%s/%06u", kind, id);
	return kvt_bytes(buf, len + n);
}

#define KEY_ROOM	512

/* One thread of one worker. */
struct worker {
	int fd;
	int id;
	struct shared *shared;
	struct kvt_rand rand;
	__u64 version[OWN];
	__u64 value[OWN];
};

static struct kvt_bytes own_key(unsigned char *buf, int owner, int i)
{
	return family_key(buf, "own", owner * OWN + i);
}

static void exec_batch(int fd, struct kvtree_op *ops, __u32 nr)
{
	__u32 done;

	KVT_CHECK(kvt_batch(fd, ops, nr, &done) == 0);
	KVT_CHECK(done == nr);
}

/*
 * Run a batch of puts and gets of the worker's own keys, with one correct outcome,
 * and of churn keys, with two possible outcomes.
 */
static void worker_round(struct worker *w)
{
	static __thread unsigned char key[OPS][KEY_ROOM];
	__u64 val[OPS];
	int mine[OPS], j;
	struct kvtree_op ops[OPS];

	for (j = 0; j < OPS; j++) {
		int code = KVTREE_OP_GET, r = kvt_rand_below(&w->rand, 8);
		struct kvt_bytes k;

		mine[j] = -1;
		val[j] = 0;
		if (r < 4) {
			mine[j] = kvt_rand_below(&w->rand, OWN);
			k = own_key(key[j], w->id, mine[j]);
			if (r < 2)
				code = KVTREE_OP_PUT;
		} else {
			k = family_key(key[j], "churn", kvt_rand_below(&w->rand, CHURN));
			if (r == 4)
				code = KVTREE_OP_REMOVE;
			else if (r < 7)
				code = KVTREE_OP_PUT;
		}
		ops[j] = kvt_op(code, k);
		if (code == KVTREE_OP_REMOVE)
			continue;
		ops[j].val = kvt_ptr(&val[j]);
		ops[j].val_len = sizeof(val[j]);
		if (code == KVTREE_OP_PUT)
			val[j] = kvt_rand(&w->rand);
	}
	exec_batch(w->fd, ops, OPS);
	for (j = 0; j < OPS; j++) {
		int i = mine[j], ret = ops[j].result;

		switch (ops[j].opcode) {
		case KVTREE_OP_REMOVE:
			KVT_CHECK(ret == 0 || ret == -ENOENT);
			break;
		case KVTREE_OP_PUT:
			KVT_CHECK(ret == 0);
			if (i < 0)
				break;
			KVT_CHECK(ops[j].version > w->version[i]);
			w->version[i] = ops[j].version;
			w->value[i] = val[j];
			break;
		default:
			if (i < 0) {
				KVT_CHECK(ret == 8 || ret == -ENOENT);
				break;
			}
			KVT_CHECK(ret == 8);
			KVT_CHECK(ops[j].version == w->version[i]);
			KVT_CHECK(val[j] == w->value[i]);
		}
	}
}

static void *worker_thread(void *arg)
{
	__u64 i, rounds = kvt_fewer(ROUNDS, 4);
	struct worker *w = arg;

	for (i = 0; i < rounds; i++)
		worker_round(w);
	return NULL;
}

static void start_worker(struct worker *w, int fd, int id, struct shared *shared)
{
	unsigned char buf[KEY_ROOM];
	struct kvtree_op op;
	int i;

	memset(w, 0, sizeof(*w));
	w->fd = fd;
	w->id = id;
	w->shared = shared;
	w->rand.state = id * 1000 + 1;
	for (i = 0; i < OWN; i++) {
		op = kvt_op(KVTREE_OP_GET, own_key(buf, id, i));
		op.val = kvt_ptr(&w->value[i]);
		op.val_len = sizeof(w->value[i]);
		KVT_CHECK(kvt_exec(fd, &op) == 8);
		w->version[i] = op.version;
	}
}

static int worker_process(int fd, int process, struct shared *shared)
{
	static struct worker workers[THREADS];
	pthread_t thread[THREADS];
	int i;

	for (i = 0; i < THREADS; i++) {
		start_worker(&workers[i], fd, process * THREADS + i, shared);
		KVT_CHECK(pthread_create(&thread[i], NULL, worker_thread, &workers[i]) == 0);
	}
	for (i = 0; i < THREADS; i++)
		KVT_CHECK(pthread_join(thread[i], NULL) == 0);
	return 0;
}

/*
 * Scans until no worker is left, at least three times: sorted, every own key
 * seen once, and with a version that never goes back.
 */
static int scanner(int fd, bool reverse, struct shared *shared)
{
	static __u64 version[OWNERS * OWN];
	struct kvtree_scan scan = {};
	struct kvt_list list = {};
	size_t i, seen;
	int rounds;

	if (reverse)
		scan.flags = KVTREE_SCAN_REVERSE | KVTREE_SCAN_LAST;
	for (rounds = 0; rounds < 3 || __atomic_load_n(&shared->working, __ATOMIC_ACQUIRE);
	     rounds++) {
		KVT_CHECK(kvt_scan_all(fd, STR(""), &scan, rounds % 2 ? 2000 : 30000, &list) == 0);
		seen = 0;
		for (i = 0; i < list.nr; i++) {
			const struct kvt_rec *rec = &list.rec[i];
			const char *key = rec->key.data;
			unsigned long id;
			int cmp;

			if (i) {
				cmp = kvt_cmp(list.rec[i - 1].key, rec->key);
				KVT_CHECK(reverse ? cmp > 0 : cmp < 0);
			}
			KVT_CHECK(rec->val.len == 8);
			if (memcmp(key + rec->key.len - 10, "own/", 4))
				continue;
			id = strtoul(key + rec->key.len - 6, NULL, 10);
			KVT_CHECK(id < OWNERS * OWN);
			KVT_CHECK(rec->version >= version[id]);
			version[id] = rec->version;
			seen++;
		}
		KVT_CHECK(seen == OWNERS * OWN);
		kvt_list_free(&list);
	}
	return 0;
}

TEST_F(many, stable_keys_are_found_and_scans_are_complete_beside_changes)
{
	unsigned char buf[KEY_ROOM];
	__u64 val, before[KVTREE_STAT_NR], after[KVTREE_STAT_NR];
	int pid[WORKERS + 2], i;

	for (i = 0; i < OWNERS * OWN; i++) {
		val = i;
		ASSERT_EQ(0, kvt_put(self->fd, family_key(buf, "own", i), kvt_bytes(&val, 8),
				     NULL));
	}
	ASSERT_EQ(0, kvt_stats(self->fd, before));
	self->shared->working = 1;
	for (i = 0; i < WORKERS + 2; i++) {
		pid[i] = kvt_child();
		ASSERT_LE(0, pid[i]);
		if (!pid[i] && i < WORKERS)
			_exit(worker_process(self->fd, i, self->shared));
		if (!pid[i])
			_exit(scanner(self->fd, i == WORKERS, self->shared));
	}
	for (i = 0; i < WORKERS; i++)
		EXPECT_EQ(0, kvt_wait(pid[i]));
	__atomic_store_n(&self->shared->working, 0, __ATOMIC_RELEASE);
	EXPECT_EQ(0, kvt_wait(pid[WORKERS]));
	EXPECT_EQ(0, kvt_wait(pid[WORKERS + 1]));
	ASSERT_EQ(0, kvt_stats(self->fd, after));
	/* Nodes, and layers where there are any, came and went: it was not too easy. */
	EXPECT_LT(0, after[kvt_is_masstree(self->fd) ? KVTREE_STAT_LAYERS :
						      KVTREE_STAT_SPLIT_LEAF]);
	EXPECT_EQ(before[KVTREE_STAT_ERROR], after[KVTREE_STAT_ERROR]);
}

/* Add to random counters and columns, and report how much. */
static int adder(int fd, int id, struct shared *shared)
{
	struct kvt_rand rand = { .state = id };
	__u64 sum[COUNTERS] = {}, by;
	char key[32];
	__u32 i, c, times = kvt_fewer(1500, 4);

	for (i = 0; i < times; i++) {
		c = kvt_rand_below(&rand, COUNTERS);
		by = kvt_rand(&rand);
		sprintf(key, "counter%u", c / 2);
		KVT_CHECK(kvt_add(fd, kvt_bytes(key, 8), c % 2 * 100, by, NULL) == 0);
		sum[c] += by;
	}
	for (c = 0; c < COUNTERS; c++)
		count(&shared->added[c], sum[c]);
	return 0;
}

TEST_F(many, adds_of_all_processes_sum_up)
{
	struct kvtree_col cols[2] = { { .id = 0 }, { .id = 100 } };
	unsigned char buf[16];
	int pid[4], i, c;
	char key[32];

	for (i = 0; i < 4; i++) {
		pid[i] = kvt_child();
		if (!pid[i])
			_exit(adder(self->fd, i, self->shared));
	}
	for (i = 0; i < 4; i++)
		ASSERT_EQ(0, kvt_wait(pid[i]));
	for (c = 0; c < COUNTERS; c++) {
		__u64 want = self->shared->added[c], got = 0;

		sprintf(key, "counter%u", c / 2);
		ASSERT_EQ(16, kvt_get_cols(self->fd, kvt_bytes(key, 8), cols, 2, buf, 16));
		for (i = 7; i >= 0; i--)
			got = got << 8 | buf[c % 2 * 8 + i];
		EXPECT_EQ(want, got);
	}
}

/* Increments by reading and swapping: each must count once. */
static int swapper(int fd, int n)
{
	__u64 val, version;
	int i, ret;

	for (i = 0; i < n; i++) {
		do {
			ret = kvt_get(fd, STR("n"), &val, 8, &version);
			KVT_CHECK(ret == 8 || ret == -ENOENT);
			if (ret == -ENOENT) {
				val = 0;
				version = 0;
			}
			val++;
			ret = kvt_cas(fd, STR("n"), kvt_bytes(&val, 8), &version);
			KVT_CHECK(ret == 0 || ret == -ECANCELED);
		} while (ret);
	}
	return 0;
}

TEST_F(many, cas_increments_are_exact)
{
	__u64 val, times = kvt_fewer(700, 4);
	int pid[4], i;

	for (i = 0; i < 4; i++) {
		pid[i] = kvt_child();
		if (!pid[i])
			_exit(swapper(self->fd, times));
	}
	for (i = 0; i < 4; i++)
		ASSERT_EQ(0, kvt_wait(pid[i]));
	ASSERT_EQ(8, kvt_get(self->fd, STR("n"), &val, 8, NULL));
	EXPECT_EQ(4 * times, val);
}

/* Removal and re-insertion by others between read and swap. */
static int aba(int fd, int n)
{
	__u64 val = 0;
	int i;

	for (i = 0; i < n; i++) {
		KVT_CHECK(kvt_put(fd, STR("aba"), kvt_bytes(&val, 8), NULL) == 0);
		KVT_CHECK(kvt_remove(fd, STR("aba")) == 0);
	}
	return 0;
}

TEST_F(many, cas_is_not_fooled_by_remove_and_reinsert)
{
	__u64 val, version, last = 0;
	int pid, i, ret, won = 0, times = kvt_fewer(3000, 4);

	/*
	 * The other puts and removes a value that looks the same each time.  A
	 * swap that succeeds is its last version's: its remove then finds ours.
	 */
	pid = kvt_child();
	if (!pid)
		_exit(aba(self->fd, times));
	for (i = 0; i < times; i++) {
		ret = kvt_get(self->fd, STR("aba"), &val, 8, &version);
		if (ret == -ENOENT)
			continue;
		ASSERT_EQ(8, ret);
		/* A version once seen is never seen with a smaller one after it. */
		ASSERT_LE(last, version);
		last = version;
		ret = kvt_cas(self->fd, STR("aba"), kvt_bytes(&val, 8), &version);
		ASSERT_TRUE(ret == 0 || ret == -ECANCELED);
		if (!ret) {
			ASSERT_LT(last, version);
			last = version;
			won++;
		} else if (version) {
			ASSERT_LT(last, version);
		}
	}
	ASSERT_EQ(0, kvt_wait(pid));
	TH_LOG("%d swaps in between", won);
	EXPECT_EQ(0, kvt_version(self->fd, STR("aba")));
}

/* All try to make the same keys, then all try to remove them. */
static int creator(int fd, int id, struct shared *shared)
{
	unsigned char buf[KEY_ROOM];
	struct kvtree_op op;
	__u32 i, round;
	int ret;

	for (round = 0; round < 3; round++) {
		for (i = 0; i < CHURN; i++) {
			op = kvt_op(KVTREE_OP_PUT, family_key(buf, "churn", i));
			op.flags = KVTREE_F_CREATE;
			op.val = kvt_ptr(&id);
			op.val_len = sizeof(id);
			ret = kvt_exec(fd, &op);
			KVT_CHECK(ret == 0 || ret == -EEXIST);
			if (!ret)
				count(&shared->made[i], 1);
		}
		for (i = 0; i < CHURN; i++) {
			ret = kvt_remove(fd, family_key(buf, "churn", i));
			KVT_CHECK(ret == 0 || ret == -ENOENT);
			if (!ret)
				count(&shared->removed[i], 1);
		}
	}
	return 0;
}

TEST_F(many, each_creation_has_one_winner_and_each_removal_too)
{
	unsigned char buf[KEY_ROOM];
	__u64 stats[KVTREE_STAT_NR];
	int pid[4], i, there;

	for (i = 0; i < 4; i++) {
		pid[i] = kvt_child();
		if (!pid[i])
			_exit(creator(self->fd, i, self->shared));
	}
	for (i = 0; i < 4; i++)
		ASSERT_EQ(0, kvt_wait(pid[i]));
	there = 0;
	for (i = 0; i < CHURN; i++) {
		__u64 left = kvt_version(self->fd, family_key(buf, "churn", i)) != 0;

		ASSERT_EQ(self->shared->made[i], self->shared->removed[i] + left);
		there += left;
	}
	ASSERT_EQ(0, kvt_stats(self->fd, stats));
	EXPECT_EQ(there, stats[KVTREE_STAT_KEYS]);
}

/* Columns that always hold the same: small ones, and one large enough for a block of its own. */
#define LARGE		20000

static int columns_writer(int fd, int id, struct shared *shared)
{
	static char val[8 + LARGE + 8];
	struct kvtree_col cols[3] = {
		{ .id = 1, .len = 8 }, { .id = 2, .len = LARGE }, { .id = 200, .len = 8 },
	};
	int i, times = kvt_fewer(400, 4);

	for (i = 0; i < times; i++) {
		memset(val, id * 64 + i % 64, sizeof(val));
		KVT_CHECK(kvt_put_cols(fd, STR("k"), cols, 3, kvt_bytes(val, sizeof(val)),
				       NULL) == 0);
	}
	__atomic_fetch_sub(&shared->working, 1, __ATOMIC_ACQ_REL);
	return 0;
}

TEST_F(many, multi_column_put_is_seen_whole_or_not_at_all)
{
	struct kvtree_col put[3] = {
		{ .id = 1, .len = 8 }, { .id = 2, .len = LARGE }, { .id = 200, .len = 8 },
	};
	struct kvtree_col get[3] = { { .id = 1 }, { .id = 2 }, { .id = 200 } };
	static char val[8 + LARGE + 8];
	struct kvtree_scan scan = { .flags = KVTREE_SCAN_ALL_COLS };
	struct kvt_list list = {};
	int pid[2], i;

	ASSERT_EQ(0, kvt_put_cols(self->fd, STR("k"), put, 3, kvt_bytes(val, sizeof(val)), NULL));
	self->shared->working = 2;
	for (i = 0; i < 2; i++) {
		pid[i] = kvt_child();
		if (!pid[i])
			_exit(columns_writer(self->fd, i, self->shared));
	}
	do {
		ASSERT_EQ((int)sizeof(val), kvt_get_cols(self->fd, STR("k"), get, 3, val,
							 sizeof(val)));
		for (i = 1; i < (int)sizeof(val); i++)
			ASSERT_EQ(val[0], val[i]);
		ASSERT_EQ(0, kvt_scan_all(self->fd, STR("k"), &scan, 65536, &list));
		ASSERT_EQ(1, list.nr);
		ASSERT_EQ(3 * 8 + sizeof(val), list.rec[0].val.len);
		memcpy(val, (const char *)list.rec[0].val.data + 24, sizeof(val));
		kvt_list_free(&list);
		for (i = 1; i < (int)sizeof(val); i++)
			ASSERT_EQ(val[0], val[i]);
	} while (__atomic_load_n(&self->shared->working, __ATOMIC_ACQUIRE));
	ASSERT_EQ(0, kvt_wait(pid[0]));
	ASSERT_EQ(0, kvt_wait(pid[1]));
}

/*
 * Each worker fills and wipes its own prefix, again and again: wiped keys are
 * gone, put keys exist, whatever the others do to neighbouring layers.
 */
static int wiper(int fd, int id)
{
	struct kvtree_scan scan = { .flags = KVTREE_SCAN_PREFIX | KVTREE_SCAN_KEYS_ONLY };
	unsigned char key[160];
	struct kvt_list list = {};
	__u32 i, round, nr, len;

	for (round = 0; round < 60; round++) {
		/* All owners share the first bytes, here more of them, there less. */
		len = 8 * (round % 12) + 3;
		memset(key, 's', len);
		key[len] = id;
		scan.prefix_len = len + 1;
		nr = 1 + round * 7 % 40;
		for (i = 0; i < nr; i++) {
			memset(key + len + 1, 'x', 20);
			memcpy(key + len + 21, &i, 4);
			KVT_CHECK(kvt_put(fd, kvt_bytes(key, len + 25), kvt_bytes(&i, 4),
					  NULL) == 0);
		}
		if (round % 2)
			scan.flags |= KVTREE_SCAN_REVERSE | KVTREE_SCAN_LAST;
		else
			scan.flags &= ~(KVTREE_SCAN_REVERSE | KVTREE_SCAN_LAST);
		KVT_CHECK(kvt_scan_all(fd, kvt_bytes(key, len + 1), &scan, 700, &list) == 0);
		KVT_CHECK(list.nr == nr);
		kvt_list_free(&list);
		for (i = 0; i < nr; i++) {
			memcpy(key + len + 21, &i, 4);
			KVT_CHECK(kvt_has(fd, kvt_bytes(key, len + 25), kvt_bytes(&i, 4)));
			KVT_CHECK(kvt_remove(fd, kvt_bytes(key, len + 25)) == 0);
		}
		KVT_CHECK(kvt_scan_all(fd, kvt_bytes(key, len + 1), &scan, 700, &list) == 0);
		KVT_CHECK(list.nr == 0);
		kvt_list_free(&list);
	}
	return 0;
}

static bool only_a_root_is_left(void *arg)
{
	__u64 stats[KVTREE_STAT_NR];

	KVT_CHECK(kvt_stats(*(int *)arg, stats) == 0);
	return stats[KVTREE_STAT_LEAF_NODES] == 1 && !stats[KVTREE_STAT_INNER_NODES] &&
	       !stats[KVTREE_STAT_LAYERS] && !stats[KVTREE_STAT_WAITING_BYTES];
}

TEST_F(many, wiped_prefixes_are_gone_and_their_nodes_too)
{
	__u64 stats[KVTREE_STAT_NR];
	int pid[4], i;

	for (i = 0; i < 4; i++) {
		pid[i] = kvt_child();
		if (!pid[i])
			_exit(wiper(self->fd, i));
	}
	for (i = 0; i < 4; i++)
		ASSERT_EQ(0, kvt_wait(pid[i]));
	EXPECT_TRUE(kvt_eventually(only_a_root_is_left, &self->fd));
	ASSERT_EQ(0, kvt_stats(self->fd, stats));
	EXPECT_EQ(0, stats[KVTREE_STAT_KEYS]);
	EXPECT_EQ(0, stats[KVTREE_STAT_VALUES]);
	EXPECT_LT(0, stats[KVTREE_STAT_NODE_UNLINK]);
	if (kvt_is_masstree(self->fd))
		EXPECT_LT(0, stats[KVTREE_STAT_LAYER_COLLECT] + stats[KVTREE_STAT_LAYER_COLLAPSE]);
}

/*
 * Long batches, so that two processors work on the tree at the same time and
 * not only enter and leave the kernel: one fills the gaps between stable keys,
 * in no order, and empties them again; another looks for the stable ones.
 */
#define GAPS		4096
#define STABLE		512
#define DENSE_LEN	14

static void dense_op(struct kvtree_op *op, int opcode, __u32 n)
{
	memset(op, 0, sizeof(*op));
	op->opcode = opcode;
	op->flags = KVTREE_F_KEY_INLINE;
	op->key_len = DENSE_LEN;
	/* Some layers below, most keys in one. */
	memcpy(op->key_inline, n % 16 ? "same...." : "other...", 8);
	op->key_inline[8] = n >> 8;
	op->key_inline[9] = n;
	memcpy(op->key_inline + 10, "tail", 4);
}

static int gap_filler(int fd, int rounds)
{
	static struct kvtree_op ops[GAPS];
	int round, i, nr;
	__u32 n;

	for (round = 0; round < rounds; round++) {
		nr = 0;
		for (i = 0; i < GAPS; i++) {
			n = (i * 2655u + round * 77) % GAPS;
			/* Every eighth place belongs to a stable key. */
			if (n % 8)
				dense_op(&ops[nr++],
					 round % 2 ? KVTREE_OP_REMOVE : KVTREE_OP_PUT, n);
		}
		exec_batch(fd, ops, nr);
	}
	return 0;
}

static int stable_reader(int fd, struct shared *shared)
{
	static struct kvtree_op ops[STABLE];
	__u32 val[STABLE];
	int i;

	while (__atomic_load_n(&shared->working, __ATOMIC_ACQUIRE)) {
		for (i = 0; i < STABLE; i++) {
			dense_op(&ops[i], KVTREE_OP_GET, i * 8);
			ops[i].val = kvt_ptr(&val[i]);
			ops[i].val_len = 4;
			/* Looked up one by one, and together. */
			if (shared->go % 2 && i % 2)
				memset(&ops[i], 0, sizeof(ops[i]));
		}
		exec_batch(fd, ops, STABLE);
		for (i = 0; i < STABLE; i++) {
			if (ops[i].opcode == KVTREE_OP_NOP)
				continue;
			KVT_CHECK(ops[i].result == 4);
			KVT_CHECK(val[i] == (__u32)i);
		}
		shared->go++;
	}
	return 0;
}

TEST_F(many, stable_keys_are_found_beside_splits_and_removals)
{
	struct kvtree_op op;
	int reader, filler;
	__u32 i;

	for (i = 0; i < STABLE; i++) {
		dense_op(&op, KVTREE_OP_PUT, i * 8);
		op.val = kvt_ptr(&i);
		op.val_len = 4;
		ASSERT_EQ(0, kvt_exec(self->fd, &op));
	}
	self->shared->working = 1;
	reader = kvt_child();
	if (!reader)
		_exit(stable_reader(self->fd, self->shared));
	filler = kvt_child();
	if (!filler)
		_exit(gap_filler(self->fd, kvt_fewer(60, 4)));
	EXPECT_EQ(0, kvt_wait(filler));
	__atomic_store_n(&self->shared->working, 0, __ATOMIC_RELEASE);
	EXPECT_EQ(0, kvt_wait(reader));
	TH_LOG("%d batches of gets beside them", self->shared->go);
}

/* Ascending on one side, descending on the other, a reader of both ends in between. */
static int grower(int fd, bool down, struct shared *shared)
{
	unsigned char key[4];
	__u32 i;

	for (i = 0; i < 3000; i++) {
		__u32 n = down ? 0x7fffffff - i : 0x80000000 + i;

		key[0] = n >> 24;
		key[1] = n >> 16;
		key[2] = n >> 8;
		key[3] = n;
		KVT_CHECK(kvt_put(fd, kvt_bytes(key, 4), kvt_bytes(&i, 4), NULL) == 0);
		__atomic_store_n(&shared->made[down], i + 1, __ATOMIC_RELEASE);
	}
	__atomic_fetch_sub(&shared->working, 1, __ATOMIC_ACQ_REL);
	return 0;
}

TEST_F(many, scan_sees_what_was_there_when_it_began)
{
	struct kvtree_scan scan = { .flags = KVTREE_SCAN_KEYS_ONLY };
	struct kvt_list list = {};
	__u64 up, down;
	int pid[2], i, round;
	size_t j;

	self->shared->working = 2;
	for (i = 0; i < 2; i++) {
		pid[i] = kvt_child();
		if (!pid[i])
			_exit(grower(self->fd, i, self->shared));
	}
	for (round = 0; __atomic_load_n(&self->shared->working, __ATOMIC_ACQUIRE) || round < 2;
	     round++) {
		up = fetch(&self->shared->made[0]);
		down = fetch(&self->shared->made[1]);
		scan.flags = KVTREE_SCAN_KEYS_ONLY;
		if (round % 2)
			scan.flags |= KVTREE_SCAN_REVERSE | KVTREE_SCAN_LAST;
		ASSERT_EQ(0, kvt_scan_all(self->fd, STR(""), &scan, 8000, &list));
		ASSERT_LE(up + down, list.nr);
		for (j = 1; j < list.nr; j++) {
			i = kvt_cmp(list.rec[j - 1].key, list.rec[j].key);
			ASSERT_TRUE(round % 2 ? i > 0 : i < 0);
		}
		kvt_list_free(&list);
	}
	ASSERT_EQ(0, kvt_wait(pid[0]));
	ASSERT_EQ(0, kvt_wait(pid[1]));
	ASSERT_EQ(0, kvt_scan_all(self->fd, STR(""), &scan, 1 << 20, &list));
	EXPECT_EQ(6000, list.nr);
	kvt_list_free(&list);
}

TEST_HARNESS_MAIN
