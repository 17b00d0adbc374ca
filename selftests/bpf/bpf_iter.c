// SPDX-License-Identifier: GPL-2.0
/* Loops of programs end, however much their range grows meanwhile. */
#include <errno.h>
#include <arpa/inet.h>
#include <pthread.h>
#include <string.h>

#include "kselftest_harness.h"
#include "lib.h"
#include "iter.h"
#include "bpf_iter.skel.h"

#define ITER_MAX	"/sys/module/kvtree/parameters/bpf_iter_max"
#define MOST		1000
#define MOST_TEXT	"1000"

static struct bpf_iter *skel;

FIXTURE(iter) {
	struct kvt_bpf_env env;
	struct loop *loop;
	char was[16];
};

static int put(int fd, __u32 n)
{
	__be32 key = htonl(n);

	return kvt_put(fd, kvt_bytes(&key, sizeof(key)), kvt_bytes(&n, sizeof(n)), NULL);
}

FIXTURE_SETUP(iter)
{
	kvt_bpf_env_init(&self->env, "bpf-iter", 0);
	kvt_bpf_env_bind(&self->env, skel->maps.rodata_store, KVT_RW);
	kvt_set_param(ITER_MAX, MOST_TEXT, self->was, sizeof(self->was));
	self->loop = &skel->bss->loop;
	/* Key 0 is left out: the loops go on after the last one. */
	*self->loop = (struct loop){ .stop = 3 * MOST };
	ASSERT_EQ(0, put(self->env.env.fd, 1));
}

FIXTURE_TEARDOWN(iter)
{
	kvt_set_param(ITER_MAX, self->was, NULL, 0);
	kvt_bpf_env_exit(&self->env);
}

static int run(const struct bpf_program *prog)
{
	return kvt_bpf_run(bpf_program__fd(prog), 1);
}

TEST_F(iter, a_loop_that_extends_its_range_ends)
{
	self->loop->keys = ~0u;
	ASSERT_EQ(0, run(skel->progs.extend));
	EXPECT_EQ(-ELOOP, self->loop->err);
	EXPECT_EQ(MOST, self->loop->seen);
	EXPECT_EQ(MOST, self->loop->last);
	/* The rest is left for the next one. */
	ASSERT_EQ(0, run(skel->progs.extend));
	EXPECT_EQ(-ELOOP, self->loop->err);
	EXPECT_EQ(MOST, self->loop->seen);
	EXPECT_EQ(2 * MOST, self->loop->last);
}

TEST_F(iter, a_range_of_as_many_as_an_iterator_returns_is_whole)
{
	self->loop->keys = MOST + 1;
	ASSERT_EQ(0, run(skel->progs.extend));
	EXPECT_EQ(0, self->loop->err);
	EXPECT_EQ(MOST, self->loop->seen);
	ASSERT_EQ(0, put(self->env.env.fd, MOST + 1));
	self->loop->last = 0;
	ASSERT_EQ(0, run(skel->progs.extend));
	EXPECT_EQ(-ELOOP, self->loop->err);
	EXPECT_EQ(MOST, self->loop->seen);
}

static struct {
	int fd;
	bool stop;
} appender;

static void *append(void *arg)
{
	__u32 n;

	for (n = 2; n < 1u << 20 && !__atomic_load_n(&appender.stop, __ATOMIC_RELAXED); n++)
		KVT_CHECK(put(appender.fd, n) == 0);
	return NULL;
}

TEST_F(iter, a_loop_ends_though_a_thread_stays_ahead_of_it)
{
	pthread_t thread;
	time_t end = 0;

	appender.fd = self->env.env.fd;
	appender.stop = false;
	self->loop->keys = ~0u;
	ASSERT_EQ(0, pthread_create(&thread, NULL, append, NULL));
	/* A program does not yield to a thread that has no CPU, and may meet too much of it. */
	do {
		EXPECT_EQ(0, run(skel->progs.follow));
		EXPECT_GE(MOST, self->loop->seen);
	} while (self->loop->err != -ELOOP && kvt_try_again(&end));
	__atomic_store_n(&appender.stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	EXPECT_EQ(-ELOOP, self->loop->err);
	EXPECT_EQ(MOST, self->loop->seen);
}

/* Reading the kernel's types takes long: the programs are loaded once, for all tests. */
int main(int argc, char **argv)
{
	kvt_bpf_quiet();
	skel = bpf_iter__open_and_load();
	if (!skel)
		fprintf(stderr, "%s", kvt_bpf_log());
	KVT_CHECK(skel);
	return test_harness_run(argc, argv);
}
