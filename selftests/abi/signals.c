// SPDX-License-Identifier: GPL-2.0
/*
 * Signals end a batch between two operations and a scan between two records,
 * never in the middle of one: a caller that submits the rest gets every result
 * once, and a killed process leaves nothing half done.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/time.h>
#include "kselftest_harness.h"
#include "lib/kvt_test.h"

/* So often is a call to end early, whatever time that takes, within a minute of alarms or more. */
#define EARLY		10
#define ALARMS		60000

#define NR_KEYS		20000
#define NR_OPS		KVTREE_BATCH_MAX

static volatile sig_atomic_t alarms;

static void on_alarm(int sig)
{
	(void)sig;
	alarms++;
}

/* SIGALRM every millisecond, or none. */
static void storm(int flags, bool on)
{
	struct sigaction sa = { .sa_handler = on_alarm, .sa_flags = flags };
	struct itimerval it = {};

	if (on) {
		KVT_CHECK(sigaction(SIGALRM, &sa, NULL) == 0);
		it.it_interval.tv_usec = 1000;
		it.it_value.tv_usec = 1000;
	}
	KVT_CHECK(setitimer(ITIMER_REAL, &it, NULL) == 0);
}

FIXTURE(signals) {
	struct kvt_env env;
	int fd;
	struct kvtree_op *ops;
};

FIXTURE_VARIANT(signals) {
	int flags;
};

/* With SA_RESTART a call that has done nothing is restarted. */
FIXTURE_VARIANT_ADD(signals, interrupting) { .flags = 0 };
FIXTURE_VARIANT_ADD(signals, restarting) { .flags = SA_RESTART };

FIXTURE_SETUP(signals)
{
	kvt_env_init(&self->env, "signals", 0, 0);
	self->fd = self->env.fd;
	self->ops = calloc(NR_OPS, sizeof(*self->ops));
	ASSERT_NE(NULL, self->ops);
}

FIXTURE_TEARDOWN(signals)
{
	storm(0, false);
	kvt_env_exit(&self->env);
}

/*
 * Execute all operations, submitting the rest after each interruption.
 * Returns how often that was.
 */
static int submit_all(int fd, struct kvtree_op *ops, __u32 nr, int flags)
{
	__u32 at = 0, done;
	int ret, early = 0;

	while (at < nr) {
		ret = kvt_batch(fd, ops + at, nr - at, &done);
		if (ret == -EINTR) {
			/* Nothing was done, or it would be success. */
			KVT_CHECK(!(flags & SA_RESTART));
			KVT_CHECK(done == 0 || done == ~0u);
			early++;
			continue;
		}
		KVT_CHECK(ret == 0);
		KVT_CHECK(done <= nr - at);
		at += done;
		early += at < nr;
	}
	return early;
}

TEST_F(signals, batch_in_a_storm_executes_every_operation_once)
{
	__u64 next = 0, before;
	int early = 0, round, i, rounds = kvt_fewer(10, 4);

	storm(variant->flags, true);
	for (round = 0; round < rounds || (early < EARLY && alarms < ALARMS); round++) {
		for (i = 0; i < NR_OPS; i++) {
			self->ops[i] = kvt_op(KVTREE_OP_ADD, STR("counter"));
			self->ops[i].arg = 1;
			self->ops[i].result = 1234;
		}
		early += submit_all(self->fd, self->ops, NR_OPS, variant->flags);
		/* Each returns the number before: none is missing, none is double. */
		for (i = 0; i < NR_OPS; i++) {
			ASSERT_EQ(0, self->ops[i].result);
			ASSERT_EQ(next, self->ops[i].arg);
			next++;
		}
	}
	storm(0, false);
	ASSERT_EQ(0, kvt_add(self->fd, STR("counter"), 0, 0, &before));
	EXPECT_EQ(next, before);
	EXPECT_LE(EARLY, early);
	TH_LOG("%d signals, %d batches ended early", alarms, early);
}

TEST_F(signals, gets_in_a_storm_return_what_is_there)
{
	static __u64 vals[NR_OPS];
	int early = 0, round;
	__u64 i;

	for (i = 0; i < NR_OPS; i++) {
		vals[i] = i * 3;
		ASSERT_EQ(0, kvt_put(self->fd, kvt_bytes(&i, 8), kvt_bytes(&vals[i], 8), NULL));
	}
	storm(variant->flags, true);
	for (round = 0; round < 10 || (early < EARLY && alarms < ALARMS); round++) {
		for (i = 0; i < NR_OPS; i++) {
			memset(&self->ops[i], 0, sizeof(self->ops[i]));
			self->ops[i].opcode = KVTREE_OP_GET;
			self->ops[i].flags = KVTREE_F_KEY_INLINE;
			self->ops[i].key_len = 8;
			memcpy(self->ops[i].key_inline, &i, 8);
			self->ops[i].val = kvt_ptr(&vals[i]);
			self->ops[i].val_len = 8;
			vals[i] = ~0ull;
		}
		early += submit_all(self->fd, self->ops, NR_OPS, variant->flags);
		for (i = 0; i < NR_OPS; i++) {
			ASSERT_EQ(8, self->ops[i].result);
			ASSERT_EQ(i * 3, vals[i]);
		}
	}
	EXPECT_LE(EARLY, early);
	TH_LOG("%d signals, %d batches ended early", alarms, early);
}

static void put_many(int fd, struct kvtree_op *ops)
{
	__u32 i, j, key, done;

	for (i = 0; i < NR_KEYS; i += 1000) {
		for (j = 0; j < 1000; j++) {
			key = __builtin_bswap32(i + j);
			memset(&ops[j], 0, sizeof(ops[j]));
			ops[j].opcode = KVTREE_OP_PUT;
			ops[j].flags = KVTREE_F_KEY_INLINE;
			ops[j].key_len = 12;
			memcpy(ops[j].key_inline, "prefix..", 8);
			memcpy(ops[j].key_inline + 8, &key, 4);
		}
		KVT_CHECK(kvt_batch(fd, ops, 1000, &done) == 0);
		KVT_CHECK(done == 1000);
	}
}

TEST_F(signals, scan_in_a_storm_returns_every_record_once)
{
	struct kvtree_scan scan = {};
	struct kvt_list list = {};
	int round, reverse, early = 0;
	__u32 i, key;

	put_many(self->fd, self->ops);
	storm(variant->flags, true);
	for (round = 0; round < 6 || (early < EARLY && alarms < ALARMS); round++) {
		reverse = round % 2;
		scan.flags = reverse ? KVTREE_SCAN_REVERSE | KVTREE_SCAN_LAST : 0;
		/* Room for all of it: only a signal ends it early. */
		ASSERT_EQ(0, kvt_scan_all(self->fd, STR(""), &scan, 64 * NR_KEYS, &list));
		early += list.calls - 1;
		ASSERT_EQ(NR_KEYS, list.nr);
		for (i = 0; i < NR_KEYS; i++) {
			memcpy(&key, (const char *)list.rec[i].key.data + 8, 4);
			ASSERT_EQ(reverse ? NR_KEYS - 1 - i : i, __builtin_bswap32(key));
		}
		kvt_list_free(&list);
	}
	EXPECT_LE(EARLY, early);
	TH_LOG("%d signals, %d scans ended early", alarms, early);
}

TEST_F(signals, blocked_signal_does_not_end_a_batch)
{
	sigset_t set;
	__u32 done;
	int i;

	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	ASSERT_EQ(0, sigprocmask(SIG_BLOCK, &set, NULL));
	ASSERT_EQ(0, raise(SIGALRM));
	for (i = 0; i < NR_OPS; i++)
		self->ops[i] = kvt_op(KVTREE_OP_ADD, STR("counter"));
	ASSERT_EQ(0, kvt_batch(self->fd, self->ops, NR_OPS, &done));
	EXPECT_EQ(NR_OPS, done);
	ASSERT_EQ(0, sigaction(SIGALRM, &(struct sigaction){ .sa_handler = SIG_IGN }, NULL));
}

/*
 * Processes that are killed
 */
FIXTURE(kill) {
	struct kvt_env env;
	int fd;
	int *rounds;
};

FIXTURE_SETUP(kill)
{
	kvt_env_init(&self->env, "kill", 0, 0);
	self->fd = self->env.fd;
	self->rounds = kvt_map_shared(4096);
}

FIXTURE_TEARDOWN(kill)
{
	kvt_env_exit(&self->env);
}

#define PAIRS	16

/* For ever: a number in a, then in b, and in two columns of c at once. */
static __attribute__((noreturn)) void write_pairs(int fd, int *rounds)
{
	struct kvtree_col cols[2] = { { .id = 1, .len = 3000 }, { .id = 2, .len = 8 } };
	static unsigned char both[3008];
	struct kvtree_op ops[3 * PAIRS];
	char key[3][PAIRS][16];
	__u64 n[PAIRS];
	__u32 i;

	for (*rounds = 0;; ++*rounds) {
		for (i = 0; i < PAIRS; i++) {
			n[i] = *rounds * (__u64)PAIRS + i;
			sprintf(key[0][i], "a");
			sprintf(key[1][i], "b");
			sprintf(key[2][i], "c");
			ops[3 * i] = kvt_op(KVTREE_OP_PUT, kvt_bytes(key[0][i], 1));
			ops[3 * i].val = kvt_ptr(&n[i]);
			ops[3 * i].val_len = 8;
			ops[3 * i + 1] = kvt_op(KVTREE_OP_PUT, kvt_bytes(key[1][i], 1));
			ops[3 * i + 1].val = kvt_ptr(&n[i]);
			ops[3 * i + 1].val_len = 8;
			ops[3 * i + 2] = kvt_op(KVTREE_OP_PUT, kvt_bytes(key[2][i], 1));
			ops[3 * i + 2].flags = KVTREE_F_COLS;
			ops[3 * i + 2].arg = kvt_ptr(cols);
			ops[3 * i + 2].ncols = 2;
			ops[3 * i + 2].val = kvt_ptr(both);
			ops[3 * i + 2].val_len = sizeof(both);
		}
		memset(both, *rounds, sizeof(both));
		/* Being stopped and continued ends a batch early too. */
		submit_all(fd, ops, 3 * PAIRS, 0);
	}
}

TEST_F(kill, killed_process_leaves_a_prefix_of_its_operations)
{
	struct kvtree_col cols[2] = { { .id = 1 }, { .id = 2 } };
	unsigned char both[3008];
	__u64 a, b;
	int pid, i, j;

	for (i = 0; i < 30; i++) {
		*self->rounds = 0;
		pid = kvt_child();
		if (!pid)
			write_pairs(self->fd, self->rounds);
		while (__atomic_load_n(self->rounds, __ATOMIC_RELAXED) < 1 + i % 5)
			sched_yield();
		ASSERT_EQ(0, kill(pid, SIGKILL));
		ASSERT_EQ(128 + SIGKILL, kvt_wait(pid));

		ASSERT_EQ(8, kvt_get(self->fd, STR("a"), &a, 8, NULL));
		ASSERT_EQ(8, kvt_get(self->fd, STR("b"), &b, 8, NULL));
		ASSERT_TRUE(a == b || a == b + 1) {
			TH_LOG("a %llu, b %llu", a, b);
		}
		ASSERT_EQ(3008, kvt_get_cols(self->fd, STR("c"), cols, 2, both, sizeof(both)));
		for (j = 1; j < 3008; j++)
			ASSERT_EQ(both[0], both[j]);
		/* All that it held is free. */
		ASSERT_EQ(0, kvt_put(self->fd, STR("a"), kvt_bytes(&b, 8), NULL));
		ASSERT_EQ(0, kvt_remove(self->fd, STR("a")));
		ASSERT_EQ(0, kvt_remove(self->fd, STR("b")));
		ASSERT_EQ(0, kvt_remove(self->fd, STR("c")));
	}
}

/* For ever: scans of everything, forward and reverse. */
static __attribute__((noreturn)) void scan_forever(int fd, int *rounds)
{
	struct kvtree_scan scan = {};
	static unsigned char buf[1 << 20];
	struct kvtree_op op;

	for (;; ++*rounds) {
		op = kvt_op(KVTREE_OP_SCAN, STR(""));
		scan.flags = *rounds % 2 ? KVTREE_SCAN_REVERSE | KVTREE_SCAN_LAST : 0;
		op.arg = kvt_ptr(&scan);
		op.val = kvt_ptr(buf);
		op.val_len = sizeof(buf);
		KVT_CHECK(kvt_exec(fd, &op) > 0);
		KVT_CHECK(scan.count == NR_KEYS);
	}
}

TEST_F(kill, killed_scanner_leaves_no_trace)
{
	struct kvtree_op *ops = calloc(1000, sizeof(*ops));
	struct kvtree_scan scan = { .flags = KVTREE_SCAN_KEYS_ONLY };
	struct kvt_list list = {};
	__u64 stats[KVTREE_STAT_NR];
	int pid, i;

	ASSERT_NE(NULL, ops);
	put_many(self->fd, ops);
	for (i = 0; i < 15; i++) {
		*self->rounds = 0;
		pid = kvt_child();
		if (!pid)
			scan_forever(self->fd, self->rounds);
		while (__atomic_load_n(self->rounds, __ATOMIC_RELAXED) < i % 3)
			sched_yield();
		kvt_sleep_ms(i);
		ASSERT_EQ(0, kill(pid, SIGKILL));
		ASSERT_EQ(128 + SIGKILL, kvt_wait(pid));
	}
	ASSERT_EQ(0, kvt_scan_all(self->fd, STR(""), &scan, 1 << 20, &list));
	EXPECT_EQ(NR_KEYS, list.nr);
	kvt_list_free(&list);
	ASSERT_EQ(0, kvt_stats(self->fd, stats));
	EXPECT_EQ(NR_KEYS, stats[KVTREE_STAT_KEYS]);
	free(ops);
}

TEST_F(kill, stopped_process_holds_nothing)
{
	int pid, i, j;
	__u64 n;

	pid = kvt_child();
	if (!pid)
		write_pairs(self->fd, self->rounds);
	while (__atomic_load_n(self->rounds, __ATOMIC_RELAXED) < 2)
		sched_yield();
	for (i = 0; i < 20; i++) {
		ASSERT_EQ(0, kill(pid, SIGSTOP));
		/* The same keys, while it cannot run. */
		for (j = 0; j < 20; j++) {
			n = j;
			ASSERT_EQ(0, kvt_put(self->fd, STR("a"), kvt_bytes(&n, 8), NULL));
			ASSERT_EQ(0, kvt_put(self->fd, STR("b"), kvt_bytes(&n, 8), NULL));
			ASSERT_EQ(8, kvt_get(self->fd, STR("b"), &n, 8, NULL));
		}
		ASSERT_EQ(0, kill(pid, SIGCONT));
		kvt_sleep_ms(1);
	}
	ASSERT_EQ(0, kill(pid, SIGKILL));
	ASSERT_EQ(128 + SIGKILL, kvt_wait(pid));
}

/* A store can be destroyed while its users are being killed, and after that. */
TEST_F(kill, store_can_be_destroyed_after_its_users_were_killed)
{
	char name[KVTREE_NAME_MAX];
	int pid, fd, i;

	snprintf(name, sizeof(name), "kill-%d.other", getpid());
	for (i = 0; i < 10; i++) {
		*self->rounds = 0;
		ASSERT_EQ(0, kvt_create(self->env.dev, name, 0600, 0, 0));
		pid = kvt_child();
		if (!pid) {
			fd = kvt_store(self->env.dev, name, KVTREE_OPEN_READ | KVTREE_OPEN_WRITE);
			KVT_CHECK(fd >= 0);
			write_pairs(fd, self->rounds);
		}
		while (__atomic_load_n(self->rounds, __ATOMIC_RELAXED) < 1)
			sched_yield();
		ASSERT_EQ(0, kill(pid, SIGKILL));
		/* Perhaps before it is gone. */
		if (i % 2)
			ASSERT_EQ(128 + SIGKILL, kvt_wait(pid));
		ASSERT_EQ(0, kvt_destroy(self->env.dev, name));
		if (!(i % 2))
			ASSERT_EQ(128 + SIGKILL, kvt_wait(pid));
	}
}

TEST_HARNESS_MAIN
