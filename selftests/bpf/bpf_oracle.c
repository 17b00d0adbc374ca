// SPDX-License-Identifier: GPL-2.0
/*
 * A million lookups by a program, while leaves split and are emptied around them; a fortieth
 * of that with KVT_SHORT=1 in the environment.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "lib.h"
#include "oracle.h"
#include "bpf_oracle.skel.h"

/* An emulated machine takes minutes for a million, and one that is busy ten times that. */
#undef TEST_TIMEOUT_DEFAULT
#define TEST_TIMEOUT_DEFAULT	1500

#define LOOKUPS	1000000
#define SPLITS	4000
#define PORTION	50	/* runs of the program, each some lookups */
#define WRITERS	2

struct key {
	char prefix[4];
	__u32 number;
};

static struct {
	int fd;
	bool stop;
} writers;

static int put(int fd, __u32 n)
{
	struct key key = { "key", htonl(n) };

	return kvt_put(fd, kvt_bytes(&key, sizeof(key)), kvt_bytes(&n, sizeof(n)), NULL);
}

static int del(int fd, __u32 n)
{
	struct key key = { "key", htonl(n) };

	return kvt_remove(fd, kvt_bytes(&key, sizeof(key)));
}

/* Fill the gaps of a stretch, and empty them again: leaves split, leaves go. */
static void *write_around(void *arg)
{
	unsigned int me = (uintptr_t)arg;
	struct kvt_rand rand;
	__u32 from, n, nr;

	kvt_rand_init(&rand, me);
	while (!__atomic_load_n(&writers.stop, __ATOMIC_RELAXED)) {
		from = kvt_rand_below(&rand, KEYS - 8) * STEP;
		nr = 8 * STEP;
		/* Each writer has numbers of its own. */
		for (n = from; n < from + nr; n++)
			if (n % STEP && n % WRITERS == me)
				KVT_CHECK(put(writers.fd, n) == 0);
		for (n = from; n < from + nr; n++)
			if (n % STEP && n % WRITERS == me)
				KVT_CHECK(del(writers.fd, n) == 0);
	}
	return NULL;
}

/* Portions of lookups, and those in which any gave up. */
struct portions {
	unsigned int nr;
	unsigned int busy;
};

static void look_on(int prog, const struct oracle *oracle, struct portions *portions)
{
	__u64 busy = oracle->busy;

	KVT_CHECK(kvt_bpf_run(prog, PORTION) == 0);
	/* A line now and then: it is not silent because it hangs. */
	if (++portions->nr % 500 == 0)
		fprintf(stderr, "# %u portions of lookups\n", portions->nr);
	portions->busy += oracle->busy != busy;
}

static unsigned int part(void)
{
	const char *text = getenv("KVT_SHORT");

	return text && !strcmp(text, "1") ? 40 : 1;
}

TEST(a_million_lookups_beside_splits_and_removals_are_right)
{
	struct portions portions = { 0 };
	pthread_t thread[WRITERS];
	struct kvt_bpf_env env;
	struct bpf_oracle *skel;
	const struct oracle *oracle;
	unsigned int i;

	kvt_bpf_env_init(&env, "bpf-oracle", 0);
	skel = bpf_oracle__open();
	ASSERT_NE(NULL, skel);
	ASSERT_EQ(0, bpf_oracle__load(skel)) {
		TH_LOG("%s", kvt_bpf_log());
	}
	kvt_bpf_env_bind(&env, skel->maps.rodata_store, KVTREE_OPEN_READ);
	oracle = &skel->bss->oracle;
	writers.fd = env.env.fd;
	for (i = 0; i < KEYS; i++)
		ASSERT_EQ(0, put(env.env.fd, i * STEP));
	for (i = 0; i < WRITERS; i++)
		ASSERT_EQ(0, pthread_create(&thread[i], NULL, write_around, (void *)(uintptr_t)i));
	/* Writers get less done, the less of the CPUs is theirs. */
	while (oracle->lookups - oracle->busy < LOOKUPS / part() ||
	       kvt_stat(env.env.fd, KVTREE_STAT_SPLIT_LEAF) <= SPLITS / part() ||
	       !kvt_stat(env.env.fd, KVTREE_STAT_NODE_UNLINK))
		look_on(bpf_program__fd(skel->progs.look), oracle, &portions);
	__atomic_store_n(&writers.stop, true, __ATOMIC_RELAXED);
	for (i = 0; i < WRITERS; i++)
		pthread_join(thread[i], NULL);
	TH_LOG("%llu lookups, %llu gave up, in %u of %u portions", oracle->lookups, oracle->busy,
	       portions.busy, portions.nr);
	TH_LOG("%llu leaves split, %llu nodes unlinked",
	       kvt_stat(env.env.fd, KVTREE_STAT_SPLIT_LEAF),
	       kvt_stat(env.env.fd, KVTREE_STAT_NODE_UNLINK));
	EXPECT_EQ(0, oracle->wrong);
	/*
	 * A program waits for another CPU as long as any other reader does, but not for ever: a
	 * CPU that the hypervisor has stopped may hold a node, and then others give up.
	 */
	EXPECT_LT(portions.busy, portions.nr / 2);
	EXPECT_LT(oracle->busy, oracle->lookups / 20);
	EXPECT_EQ(KEYS, kvt_stat(env.env.fd, KVTREE_STAT_KEYS));
	bpf_oracle__destroy(skel);
	kvt_bpf_env_exit(&env);
}

TEST_HARNESS_MAIN
