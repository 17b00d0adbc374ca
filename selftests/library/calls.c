// SPDX-License-Identifier: GPL-2.0
/*
 * Calls of libkvtree for a single key: they use KVTREE_IOC_OP, not a batch.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include "kselftest_harness.h"
#include "../../lib/kvtree.h"
#include "lib/kvt_test.h"

FIXTURE(calls) {
	struct kvt_env env;
	struct kvtree *kv;
};

/* Batches fail for this process from here on; each test has a process of its own. */
static void forbid_batches(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_ioctl, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, KVTREE_IOC_BATCH, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOTTY),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { .len = NR(filter), .filter = filter };

	KVT_CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	KVT_CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) == 0);
}

FIXTURE_SETUP(calls)
{
	int fd;

	kvt_env_init(&self->env, "calls", 0, 0);
	fd = kvt_store(self->env.dev, self->env.name, KVTREE_OPEN_READ | KVTREE_OPEN_WRITE);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, kvtree_from_fd(fd, &self->kv));
	forbid_batches();
}

FIXTURE_TEARDOWN(calls)
{
	kvtree_close(self->kv);
	kvt_env_exit(&self->env);
}

TEST_F(calls, values_are_stored_found_and_removed)
{
	static char big[KVTREE_VALUE_MAX], buf[KVTREE_VALUE_MAX];
	uint64_t version, found;
	size_t len;
	void *val;
	int i;

	EXPECT_EQ(-ENOENT, kvtree_get(self->kv, kvtree_str("key"), &val, &len, NULL));
	ASSERT_EQ(0, kvtree_put(self->kv, kvtree_str("key"), kvtree_str("value"), KVTREE_F_CREATE,
				&version));
	EXPECT_EQ(-EEXIST, kvtree_put(self->kv, kvtree_str("key"), kvtree_str("value"),
				      KVTREE_F_CREATE, NULL));
	ASSERT_EQ(0, kvtree_get(self->kv, kvtree_str("key"), &val, &len, &found));
	EXPECT_EQ(5, len);
	EXPECT_STREQ("value", val);
	EXPECT_EQ(version, found);
	free(val);
	EXPECT_EQ(-EMSGSIZE, kvtree_get_into(self->kv, kvtree_str("key"), buf, 4, &len, NULL));
	EXPECT_EQ(5, len);

	for (i = 0; i < sizeof(big); i++)
		big[i] = i * 13 + i / 509;
	ASSERT_EQ(0, kvtree_put(self->kv, kvtree_slice(big, KVTREE_KEY_MAX),
				kvtree_slice(big, sizeof(big)), 0, NULL));
	ASSERT_EQ(0, kvtree_get_into(self->kv, kvtree_slice(big, KVTREE_KEY_MAX), buf, sizeof(buf),
				     &len, NULL));
	EXPECT_EQ(sizeof(big), len);
	EXPECT_EQ(0, memcmp(big, buf, sizeof(big)));
	ASSERT_EQ(0, kvtree_get(self->kv, kvtree_slice(big, KVTREE_KEY_MAX), &val, &len, NULL));
	EXPECT_EQ(sizeof(big), len);
	EXPECT_EQ(0, memcmp(big, val, sizeof(big)));
	free(val);

	found = version + 1;
	EXPECT_EQ(-ECANCELED, kvtree_cas(self->kv, kvtree_str("key"), kvtree_str("other"), 0,
					 &found));
	EXPECT_EQ(version, found);
	EXPECT_EQ(0, kvtree_cas(self->kv, kvtree_str("key"), kvtree_str("other"), 0, &found));
	EXPECT_LT(version, found);
	EXPECT_EQ(-ECANCELED, kvtree_del(self->kv, kvtree_str("key"), KVTREE_F_VERSION, &version));
	EXPECT_EQ(found, version);
	EXPECT_EQ(0, kvtree_del(self->kv, kvtree_str("key"), KVTREE_F_VERSION, &version));
	EXPECT_EQ(-ENOENT, kvtree_del(self->kv, kvtree_str("key"), 0, NULL));
}

TEST_F(calls, numbers_and_columns_are_changed)
{
	struct kvtree_column put[2] = {
		{ .id = 1, .len = 3, .data = "one" }, { .id = 9, .len = 4, .data = "nine" },
	};
	struct kvtree_columns *cols;
	uint64_t version = 0;
	struct kvtree_sum sum;

	ASSERT_EQ(0, kvtree_add(self->kv, kvtree_str("number"), 0, 5, 0, &sum));
	EXPECT_EQ(5, sum.sum);
	ASSERT_EQ(0, kvtree_add(self->kv, kvtree_str("number"), 0, -7, 0, &sum));
	EXPECT_EQ(-2, sum.sum);
	ASSERT_EQ(0, kvtree_put_cols(self->kv, kvtree_str("key"), put, 2, 0, NULL));
	EXPECT_EQ(-ECANCELED, kvtree_cas_cols(self->kv, kvtree_str("key"), put, 1, KVTREE_F_WHOLE,
					      &version));
	EXPECT_EQ(0, kvtree_cas_cols(self->kv, kvtree_str("key"), put, 1, KVTREE_F_WHOLE,
				     &version));
	ASSERT_EQ(0, kvtree_get_cols(self->kv, kvtree_str("key"), NULL, 0, &cols));
	EXPECT_EQ(1, cols->nr);
	EXPECT_EQ(version, cols->version);
	EXPECT_EQ(0, memcmp(cols->col[0].data, "one", 3));
	free(cols);
	EXPECT_EQ(-EINVAL, kvtree_add(self->kv, kvtree_str("key"), 1, 1, 0, &sum));
	EXPECT_EQ(-EOPNOTSUPP, kvtree_sync(self->kv));
}

TEST_F(calls, cursor_reads_records)
{
	struct kvtree_cursor *c;
	int i, nr = 0;

	for (i = 0; i < 1000; i++)
		ASSERT_EQ(0, kvtree_put(self->kv, kvtree_slice(&i, 4), kvtree_str("value"), 0,
					NULL));
	ASSERT_EQ(0, kvtree_cursor_open(self->kv, NULL, &c));
	while (!kvtree_cursor_next(c))
		nr++;
	EXPECT_EQ(1000, nr);
	kvtree_cursor_close(c);
}

/* An open that fails clears the handle, so closing it unconditionally is safe. */
TEST_F(calls, what_could_not_be_opened_can_be_closed)
{
	struct kvtree_cursor_opts cursor_opts = { .size = 1 };
	struct kvtree_ring_opts ring_opts = { .size = 1 };
	void *const garbage = (void *)-1L;
	struct kvtree_cursor *cursor = garbage;
	struct kvtree_ring *ring = garbage;
	struct kvtree *kv = garbage;

	EXPECT_EQ(-EINVAL, kvtree_cursor_open(self->kv, &cursor_opts, &cursor));
	ASSERT_EQ(NULL, cursor);
	kvtree_cursor_close(cursor);
	EXPECT_EQ(-EINVAL, kvtree_ring_open(self->kv, &ring_opts, &ring));
	ASSERT_EQ(NULL, ring);
	kvtree_ring_close(ring);
	EXPECT_EQ(-ENOENT, kvtree_open("there-is-none", 0, &kv));
	ASSERT_EQ(NULL, kv);
	kv = garbage;
	EXPECT_EQ(-EBADF, kvtree_from_fd(-1, &kv));
	ASSERT_EQ(NULL, kv);
	kvtree_close(kv);
}

static void on_alarm(int sig)
{
	(void)sig;
}

/* A handler as often as the timer can: each addition takes place once. */
TEST_F(calls, call_that_a_signal_interrupts_is_continued)
{
	struct sigaction sa = { .sa_handler = on_alarm };
	struct itimerval it = { { 0, 100 }, { 0, 100 } }, none = {};
	static char val[KVTREE_VALUE_MAX];
	struct kvtree_sum sum;
	size_t len;
	int i;

	ASSERT_EQ(0, sigaction(SIGALRM, &sa, NULL));
	ASSERT_EQ(0, setitimer(ITIMER_REAL, &it, NULL));
	for (i = 0; i < 3000; i++) {
		ASSERT_EQ(0, kvtree_add(self->kv, kvtree_str("number"), 0, 1, 0, &sum));
		ASSERT_EQ(i + 1, sum.sum);
		if (i % 100)
			continue;
		ASSERT_EQ(0, kvtree_put(self->kv, kvtree_str("big"), kvtree_slice(val, sizeof(val)),
					0, NULL));
		ASSERT_EQ(0, kvtree_get_into(self->kv, kvtree_str("big"), val, sizeof(val), &len,
					     NULL));
	}
	ASSERT_EQ(0, setitimer(ITIMER_REAL, &none, NULL));
}

static void *add_many(void *arg)
{
	struct kvtree *kv = arg;
	int i;

	for (i = 0; i < 2000; i++)
		KVT_CHECK(kvtree_add(kv, kvtree_str("number"), 0, 1, 0, NULL) == 0);
	return NULL;
}

TEST_F(calls, threads_share_a_session)
{
	pthread_t thread[4];
	struct kvtree_sum sum;
	int i;

	for (i = 0; i < NR(thread); i++)
		ASSERT_EQ(0, pthread_create(&thread[i], NULL, add_many, self->kv));
	for (i = 0; i < NR(thread); i++)
		ASSERT_EQ(0, pthread_join(thread[i], NULL));
	ASSERT_EQ(0, kvtree_add(self->kv, kvtree_str("number"), 0, 0, 0, &sum));
	EXPECT_EQ(2000 * NR(thread), sum.sum);
}

TEST_HARNESS_MAIN
