// SPDX-License-Identifier: GPL-2.0
/*
 * Thousands of waiting commands, and everything that can end their wait: memory
 * is freed, they are canceled, or their ring, session, task or store goes away.
 * Whatever happens first, a command completes once, and has changed its key if
 * and only if its result says so.
 *
 * The commands are puts to a store that is over its bound of memory to be freed
 * after a grace period: each replaces a large value by a small one, and the bound
 * is the smallest possible.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include "kselftest_harness.h"
#include "lib/kvt_test.h"
#include "lib/silent.h"
#include "lib/uring.h"

#define RW		(KVTREE_OPEN_READ | KVTREE_OPEN_WRITE)

#define KEYS		2048
#define KEY_LEN		8
#define MANY		1000		/* commands that wait, at least */
#define SPAN		65536		/* values that differ */

/* Bytes of a large value; with its header exactly one size class of the allocator. */
#define LEN		(16 * 1024 - 64)
#define SMALL		8

/* user_data of other commands than puts. */
#define OTHER		(1ull << 63)

/* A ring's puts, each key under one of them at most, and how they came out. */
struct storm {
	int fd;				/* session of the commands */
	int look;			/* another, to look at the store */
	unsigned int ring_flags;
	unsigned int sqe_flags;
	__s32 also;			/* a result that is right as well as 0: */
	__u32 odd;			/* that many */
	struct kvt_ring ring;
	struct kvt_rand rand;
	__u32 tag;			/* of the last put: what it writes */
	struct kvtree_op op[KEYS];
	__u64 version[KEYS];		/* of each key before the puts */
	__u32 before[KEYS];		/* the tag in it */
	__u32 after[KEYS];		/* the tag that its put writes */
	bool small[KEYS];		/* it has one of the puts' values */
	bool fixed;			/* the ring holds the session */

	/* By user_data, which the puts of a group share. */
	__u32 group;
	__u32 expected[KEYS];
	__u32 seen[KEYS];		/* completions */
	__u32 ok[KEYS];
	__u32 canceled[KEYS];
	bool targeted[KEYS];		/* to be canceled, all of them */
	__u32 under_way;

	__u64 won, lost;		/* of the targeted: canceled, and not */
	__u64 replies;			/* commands canceled, as the cancelers were told */
	__u64 missed, running;		/* cancellations that found none, or one at work */
	__u32 others;			/* cancellations on the puts' own ring */
	bool stop;
};

/* Words, none twice: a value is the words from its tag on. */
static __u64 *words;

static void make_words(void)
{
	__u32 i, nr = SPAN + LEN / 8;

	words = kvt_map_shared(nr * sizeof(*words));
	for (i = 0; i < nr; i++)
		words[i] = i;
}

static const void *value(__u32 tag)
{
	return words + tag % SPAN;
}

/* As kvt_env_init(), with the smallest bound. */
static void env_init(struct kvt_env *env, const char *name)
{
	char old[16];

	kvt_set_bound("1", old, sizeof(old));
	kvt_env_init(env, name, 0, 0);
	kvt_set_bound(old, NULL, 0);
}

static bool no_more_users(void *arg)
{
	/* Fewer, if one before us has ended badly. */
	return kvt_module_users() <= *(int *)arg;
}

static struct kvtree_op put_op(__u32 key, __u32 tag, __u32 len)
{
	struct kvtree_op op = {
		.opcode = KVTREE_OP_PUT,
		.flags = KVTREE_F_KEY_INLINE,
		.key_len = KEY_LEN,
		.val = kvt_ptr(value(tag)),
		.val_len = len,
	};

	memcpy(op.key_inline, &(__u64){ htobe64(key) }, KEY_LEN);
	return op;
}

/* By calls: a large value wherever there is none. */
static void put_large(struct storm *s)
{
	__u32 key, nr = 0, i;

	for (key = 0; key < KEYS; key++) {
		if (s->version[key] && !s->small[key])
			continue;
		s->before[key] = ++s->tag;
		s->op[nr++] = put_op(key, s->tag, LEN);
	}
	KVT_CHECK(kvt_batch_all(s->look, s->op, nr) == 0);
	for (key = 0, i = 0; i < nr; key++) {
		if (s->version[key] && !s->small[key])
			continue;
		KVT_CHECK(s->op[i].result == 0);
		s->version[key] = s->op[i++].version;
		s->small[key] = false;
	}
}

static void storm_init(struct storm *s, const struct kvt_env *env, unsigned int ring_flags)
{
	s->look = env->fd;
	s->ring_flags = ring_flags;
	s->group = 1;
	kvt_rand_init(&s->rand, ring_flags);
	s->fd = kvt_store(env->dev, env->name, RW);
	KVT_CHECK(s->fd >= 0);
}

static void ring_init(struct storm *s)
{
	KVT_CHECK(kvt_ring_init(&s->ring, KEYS, s->ring_flags) == 0);
	/*
	 * Children do not need it; and User-Mode Linux, up to 7.3 at least, copies
	 * page tables incorrectly where pages are mapped by the dozen.
	 */
	KVT_CHECK(madvise(s->ring.rings, s->ring.rings_bytes, MADV_DONTFORK) == 0);
	KVT_CHECK(madvise(s->ring.sqes, s->ring.sqes_bytes, MADV_DONTFORK) == 0);
}

/*
 * Puts
 */

static struct io_uring_sqe *next_sqe(struct kvt_ring *ring)
{
	struct io_uring_sqe *sqe;

	while (!(sqe = kvt_ring_sqe(ring))) {
		kvt_ring_submit(ring);
		sched_yield();
	}
	return sqe;
}

static void start_put(struct storm *s, __u32 key, __u64 data)
{
	struct io_uring_sqe *sqe = next_sqe(&s->ring);

	s->after[key] = ++s->tag;
	s->op[key] = put_op(key, s->tag, SMALL);
	s->expected[data]++;
	s->under_way++;
	if (s->ring.flags & IORING_SETUP_SQE128)
		kvt_sqe_inline(sqe, s->fd, &s->op[key], &s->op[key], data);
	else
		kvt_sqe_op(sqe, s->fd, &s->op[key], data);
	sqe->flags |= s->sqe_flags;
	if (s->fixed) {
		sqe->flags |= IOSQE_FIXED_FILE;
		sqe->fd = 0;
	}
}

static void forget(struct storm *s)
{
	KVT_CHECK(!s->under_way);
	memset(s->expected, 0, sizeof(s->expected));
	memset(s->seen, 0, sizeof(s->seen));
	memset(s->ok, 0, sizeof(s->ok));
	memset(s->canceled, 0, sizeof(s->canceled));
	memset(s->targeted, 0, sizeof(s->targeted));
}

/* One put for each key from first up to, not including, end. */
static void start_puts(struct storm *s, __u32 first, __u32 end)
{
	__u32 key;

	forget(s);
	put_large(s);
	for (key = first; key < end; key++)
		start_put(s, key, key / s->group);
	kvt_ring_submit(&s->ring);
}

/* With IORING_SETUP_SQPOLL they are as soon as the thread comes to it. */
static void wait_submitted(const struct storm *s)
{
	while (__atomic_load_n(s->ring.ksq_head, __ATOMIC_ACQUIRE) != s->ring.sq_tail)
		sched_yield();
}

static bool is_complete(const struct storm *s, __u32 data)
{
	return __atomic_load_n(&s->seen[data], __ATOMIC_ACQUIRE) == s->expected[data];
}

/* The result of a cancellation. */
static void take_reply(struct storm *s, __s32 res)
{
	KVT_CHECK(res > 0 || res == -ENOENT || res == -EALREADY);
	if (res > 0)
		s->replies += res;
	else if (res == -ENOENT)
		s->missed++;
	else
		s->running++;
}

static void complete(struct storm *s, const struct kvt_cqe *cqe)
{
	__u64 data = cqe->data;

	if (data & OTHER) {
		take_reply(s, cqe->res);
		s->others--;
		return;
	}
	KVT_CHECK(data < KEYS);
	KVT_CHECK(s->seen[data] < s->expected[data]);
	if (cqe->res == -ECANCELED)
		s->canceled[data]++;
	else if (!cqe->res)
		s->ok[data]++;
	else
		KVT_CHECK(cqe->res == s->also && ++s->odd);
	if (__atomic_load_n(&s->targeted[data], __ATOMIC_ACQUIRE)) {
		s->won += cqe->res == -ECANCELED;
		s->lost += !cqe->res;
	}
	__atomic_fetch_add(&s->seen[data], 1, __ATOMIC_RELEASE);
	s->under_way--;
}

static void take_all(struct storm *s)
{
	struct kvt_cqe cqe;

	while (kvt_ring_reap(&s->ring, &cqe))
		complete(s, &cqe);
}

static void wait_all(struct storm *s)
{
	struct kvt_cqe cqe;

	while (s->under_way || s->others) {
		kvt_ring_wait(&s->ring, &cqe);
		complete(s, &cqe);
	}
	/* No completion comes twice, or without a command. */
	KVT_CHECK(!kvt_ring_wait_ms(&s->ring, &cqe, 5));
}

/* Cancel all that wait, from a separate ring. */
static void cancel_rest(struct storm *s)
{
	struct kvt_ring ring;

	KVT_CHECK(kvt_ring_init(&ring, 1, 0) == 0);
	kvt_sqe_cancel(kvt_ring_sqe(&ring), s->fd, 0, KVTREE_CANCEL_ANY, 1);
	take_reply(s, kvt_ring_result(&ring, 1));
	kvt_ring_exit(&ring);
}

static __u32 sum(const __u32 *nr)
{
	__u32 i, n = 0;

	for (i = 0; i < KEYS; i++)
		n += nr[i];
	return n;
}

/*
 * Contents of the store
 */

static bool holds(const struct storm *s, __u32 key)
{
	__u32 tag = s->before[key], len = s->small[key] ? SMALL : LEN;
	struct kvtree_op op = put_op(key, tag, len);

	return kvt_has(s->look, kvt_bytes(op.key_inline, KEY_LEN), kvt_bytes(value(tag), len));
}

/* The key was found with another version than before the puts. */
static void enter_change(struct storm *s, __u32 key, __u64 version)
{
	KVT_CHECK(version > s->version[key]);
	s->version[key] = version;
	s->before[key] = s->after[key];
	s->small[key] = true;
}

static void get_versions(int fd, __u64 *version)
{
	struct kvtree_scan scan = { .flags = KVTREE_SCAN_KEYS_ONLY };
	struct kvt_list list = {};
	__u32 key;

	KVT_CHECK(kvt_scan_all(fd, STR(""), &scan, 1 << 17, &list) == 0);
	KVT_CHECK(list.nr == KEYS);
	for (key = 0; key < KEYS; key++)
		version[key] = list.rec[key].version;
	kvt_list_free(&list);
}

static bool came_out_as(const struct kvtree_op *op, __u32 key, __u64 version)
{
	if (op->version == version && !op->result)
		return true;
	fprintf(stderr, "# key %u has version %llu, its put result %d and version %llu\n", key,
		(unsigned long long)version, op->result, (unsigned long long)op->version);
	return false;
}

/*
 * Called when nothing is under way.  A key has changed if its put has run, to the
 * version that the put returned, and is unchanged otherwise.  Returns the number of
 * changed keys.
 */
static __u32 check_keys(struct storm *s)
{
	static __u64 version[KEYS];
	static __u32 changed[KEYS];
	__u32 key, nr = 0;

	memset(changed, 0, sizeof(changed));
	get_versions(s->look, version);
	for (key = 0; key < KEYS; key++) {
		if (version[key] != s->version[key]) {
			KVT_CHECK(came_out_as(&s->op[key], key, version[key]));
			changed[key / s->group]++;
			enter_change(s, key, version[key]);
			nr++;
		}
		if (!kvt_rand_below(&s->rand, 32))
			KVT_CHECK(holds(s, key));
	}
	for (key = 0; key < KEYS; key++)
		KVT_CHECK(changed[key] == s->ok[key]);
	return nr;
}

/* The same without the completions of the puts: each may have run or not. */
static __u32 check_old_or_new(struct storm *s)
{
	static __u64 version[KEYS];
	__u32 key, nr = 0;

	get_versions(s->look, version);
	for (key = 0; key < KEYS; key++) {
		if (version[key] != s->version[key]) {
			enter_change(s, key, version[key]);
			nr++;
		}
		if (!kvt_rand_below(&s->rand, 32))
			KVT_CHECK(holds(s, key));
	}
	return nr;
}

/*
 * Cancellation storms
 */

enum where {
	SAME_RING,
	OTHER_THREAD,		/* with a ring of its own */
	OTHER_PROCESS,
};

FIXTURE(storm) {
	struct kvt_env env;
	struct storm *s;
	int users;
};

FIXTURE_VARIANT(storm) {
	unsigned int ring_flags;
	enum where where;
};

FIXTURE_VARIANT_ADD(storm, same_ring) {
	.ring_flags = IORING_SETUP_SQE128 | IORING_SETUP_CQE32,
	.where = SAME_RING,
};

FIXTURE_VARIANT_ADD(storm, other_thread) {
	.where = OTHER_THREAD,
};

FIXTURE_VARIANT_ADD(storm, other_process) {
	.ring_flags = IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_SINGLE_ISSUER,
	.where = OTHER_PROCESS,
};

FIXTURE_VARIANT_ADD(storm, sqpoll) {
	.ring_flags = IORING_SETUP_SQPOLL,
	.where = OTHER_THREAD,
};

FIXTURE_SETUP(storm)
{
	self->users = kvt_module_users();
	make_words();
	env_init(&self->env, "storm");
	self->s = kvt_map_shared(sizeof(*self->s));
	storm_init(self->s, &self->env, variant->ring_flags);
	put_large(self->s);
	ring_init(self->s);
}

FIXTURE_TEARDOWN(storm)
{
	kvt_ring_exit(&self->s->ring);
	close(self->s->fd);
	kvt_env_exit(&self->env);
	/* Nothing is left that keeps the module. */
	KVT_CHECK(kvt_eventually(no_more_users, &self->users));
}

#define AT_ONCE	128		/* cancellations */
#define SOME	192		/* commands */

/* Wait, but not for ever, until a command completes: then others are running, too. */
static void wait_for_one(struct storm *s, const struct kvt_ring *ring)
{
	__u32 under_way = __atomic_load_n(&s->under_way, __ATOMIC_RELAXED);
	struct kvt_cqe cqe;
	int i;

	if (ring == &s->ring) {
		if (kvt_ring_wait_ms(&s->ring, &cqe, 1000))
			complete(s, &cqe);
		return;
	}
	for (i = 0; i < 10000; i++) {
		if (__atomic_load_n(&s->under_way, __ATOMIC_RELAXED) != under_way)
			return;
		usleep(100);
	}
}

/*
 * Try to cancel some commands.  While most are canceled, let some run between
 * the decision and the cancellation.
 */
static __u32 cancel_some(struct storm *s, struct kvt_ring *ring, struct kvt_rand *rand)
{
	__u32 target[AT_ONCE], nr = 0, first = kvt_rand(rand), i, data;
	bool all[AT_ONCE];

	for (i = 0; i < KEYS / s->group && nr < AT_ONCE; i++) {
		data = (first + i) % (KEYS / s->group);
		if (is_complete(s, data))
			continue;
		target[nr] = data;
		all[nr] = kvt_rand_below(rand, 2);
		/* One of a group is not the one that was meant. */
		if (all[nr] || s->group == 1)
			__atomic_store_n(&s->targeted[data], true, __ATOMIC_RELEASE);
		nr++;
	}
	if (nr && s->won > s->lost)
		wait_for_one(s, ring);
	for (i = 0; i < nr; i++)
		kvt_sqe_cancel(next_sqe(ring), s->fd, target[i],
			       all[i] ? KVTREE_CANCEL_ALL : 0, OTHER | target[i]);
	kvt_ring_submit(ring);
	return nr;
}

static __u32 cancel_any(struct storm *s, struct kvt_ring *ring)
{
	__u32 i;

	for (i = 0; i < KEYS / s->group; i++)
		if (!is_complete(s, i))
			__atomic_store_n(&s->targeted[i], true, __ATOMIC_RELEASE);
	kvt_sqe_cancel(next_sqe(ring), s->fd, 0, KVTREE_CANCEL_ANY, OTHER);
	kvt_ring_submit(ring);
	return 1;
}

/* One step of a storm.  Returns how many replies will come. */
static __u32 cancel(struct storm *s, struct kvt_ring *ring, struct kvt_rand *rand, __u32 step)
{
	if (step % 4 == 3 && __atomic_load_n(&s->under_way, __ATOMIC_RELAXED) > KEYS / 2)
		return cancel_any(s, ring);
	return cancel_some(s, ring, rand);
}

static void storm_here(struct storm *s)
{
	__u32 round;

	for (round = 0; s->under_way || s->others; round++) {
		take_all(s);
		s->others += cancel(s, &s->ring, &s->rand, round);
	}
}

/* From a separate ring, as long as there is something to cancel. */
static void *cancel_until_stopped(void *arg)
{
	struct storm *s = arg;
	struct kvt_rand rand = { .state = s->tag };
	struct kvt_ring ring;
	struct kvt_cqe cqe;
	__u32 round, nr;

	KVT_CHECK(kvt_ring_init(&ring, AT_ONCE, 0) == 0);
	for (round = 0; !__atomic_load_n(&s->stop, __ATOMIC_ACQUIRE); round++) {
		for (nr = cancel(s, &ring, &rand, round); nr; nr--) {
			kvt_ring_wait(&ring, &cqe);
			take_reply(s, cqe.res);
		}
	}
	kvt_ring_exit(&ring);
	return NULL;
}

static int cancel_from_process(void *arg)
{
	cancel_until_stopped(arg);
	return 0;
}

static void storm_elsewhere(struct storm *s, enum where where)
{
	pthread_t thread;
	int pid = 0;

	s->stop = false;
	if (where == OTHER_PROCESS)
		pid = kvt_fork(cancel_from_process, s);
	else
		KVT_CHECK(pthread_create(&thread, NULL, cancel_until_stopped, s) == 0);
	wait_all(s);
	__atomic_store_n(&s->stop, true, __ATOMIC_RELEASE);
	if (where == OTHER_PROCESS)
		KVT_CHECK(kvt_wait(pid) == 0);
	else
		KVT_CHECK(pthread_join(thread, NULL) == 0);
}

TEST_F(storm, both_sides_win_a_thousand_times_and_each_command_completes_once)
{
	static const __u32 groups[] = { 1, 8, 1 };
	struct storm *s = self->s;
	/* With checkers, all variants together make MANY. */
	__u64 canceled = 0, waited, counted, wins = kvt_fewer(MANY, 4);
	__u32 round = 0, nr;
	time_t end = 0;

	waited = kvt_stat(s->look, KVTREE_STAT_URING_WAIT);
	counted = kvt_stat(s->look, KVTREE_STAT_URING_CANCEL);
	do {
		s->group = groups[round % NR(groups)];
		/* Of thousands, most can be canceled; of a few, most run at once. */
		nr = round >= NR(groups) && s->won > s->lost ? SOME : KEYS;
		start_puts(s, 0, nr);
		if (variant->where == SAME_RING)
			storm_here(s);
		else
			storm_elsewhere(s, variant->where);
		wait_all(s);
		ASSERT_EQ(nr, sum(s->seen));
		ASSERT_EQ(sum(s->ok), check_keys(s));
		canceled += sum(s->canceled);
	} while (++round < NR(groups) ||
		 ((s->won < wins || s->lost < wins ||
		   kvt_stat(s->look, KVTREE_STAT_URING_WAIT) < waited + MANY) &&
		  kvt_try_again(&end)));
	TH_LOG("%llu cancellations won, %llu lost, %u rounds; %llu times none found, %llu at work",
	       s->won, s->lost, round, s->missed, s->running);
	EXPECT_LE(wins, s->won);
	EXPECT_LE(wins, s->lost);
	/* The cancelers were told of all that were canceled, and of no others. */
	EXPECT_EQ(canceled, s->replies);
	EXPECT_EQ(counted + canceled, kvt_stat(s->look, KVTREE_STAT_URING_CANCEL));
	EXPECT_LE(waited + MANY, kvt_stat(s->look, KVTREE_STAT_URING_WAIT));
}

/*
 * Waiting commands, and other events
 */

FIXTURE(waiting) {
	struct kvt_env env;
	struct storm *s;
	__u64 waited;		/* counters when the test began */
	__u64 canceled;
	int users;
};

FIXTURE_SETUP(waiting)
{
	self->users = kvt_module_users();
	make_words();
	env_init(&self->env, "waiting");
	self->s = kvt_map_shared(sizeof(*self->s));
	storm_init(self->s, &self->env, 0);
	put_large(self->s);
	self->waited = kvt_stat(self->s->look, KVTREE_STAT_URING_WAIT);
	self->canceled = kvt_stat(self->s->look, KVTREE_STAT_URING_CANCEL);
}

FIXTURE_TEARDOWN(waiting)
{
	if (self->s->ring.fd > 0)
		kvt_ring_exit(&self->s->ring);
	if (self->s->fd >= 0)
		close(self->s->fd);
	kvt_env_exit(&self->env);
	KVT_CHECK(kvt_eventually(no_more_users, &self->users));
}

/*
 * Let so many puts wait that some wait for long.  This may take several tries if memory is freed
 * as fast as they come, or this process does not run for long.  Nor do they wait for ever, so a
 * test that needs waiting puts is repeated until it has seen some.
 */
static void let_wait(struct storm *s)
{
	time_t end = 0;
	__u64 waited;

	do {
		waited = kvt_stat(s->look, KVTREE_STAT_URING_WAIT);
		start_puts(s, 0, KEYS);
		wait_submitted(s);
		if (kvt_stat(s->look, KVTREE_STAT_URING_WAIT) >= waited + MANY)
			return;
		wait_all(s);
		check_keys(s);
	} while (kvt_try_again(&end));
	KVT_CHECK(!"puts have to wait");
}

static void start_large(struct storm *s)
{
	__u32 key;

	forget(s);
	for (key = 0; key < KEYS; key++) {
		s->op[key] = put_op(key, ++s->tag, LEN);
		s->expected[key]++;
		s->under_way++;
		kvt_sqe_op(next_sqe(&s->ring), s->fd, &s->op[key], key);
	}
	kvt_ring_submit(&s->ring);
}

/* What waits with a worker is not found. */
TEST_F(waiting, changes_can_be_canceled_however_much_they_write)
{
	struct storm *s = self->s;
	int tries = 0;
	__u64 most = 0;
	time_t end = 0;

	ring_init(s);
	/* On a fast machine they may have been executed by then. */
	do {
		s->replies = 0;
		start_large(s);
		cancel_rest(s);
		wait_all(s);
		ASSERT_EQ(KEYS, sum(s->ok) + sum(s->canceled));
		ASSERT_EQ(s->replies, sum(s->canceled));
		most = s->replies > most ? s->replies : most;
		tries++;
	} while (most < MANY && kvt_try_again(&end));
	TH_LOG("at most %llu canceled at once, %d times", most, tries);
	EXPECT_LE(MANY, most);
}

TEST_F(waiting, full_completion_queue_loses_no_cancellation)
{
	struct io_uring_params params = { .flags = IORING_SETUP_CQSIZE, .cq_entries = 64 };
	struct storm *s = self->s;
	time_t end = 0;
	__u64 canceled;

	ASSERT_EQ(0, kvt_ring_init_params(&s->ring, 64, &params));
	ASSERT_EQ(64, s->ring.cq_entries);
	ASSERT_TRUE(s->ring.features & IORING_FEAT_NODROP);
	do {
		let_wait(s);
		s->replies = 0;
		cancel_rest(s);
		canceled = s->replies;
		wait_all(s);
		EXPECT_EQ(KEYS, sum(s->seen));
		EXPECT_EQ(canceled, sum(s->canceled));
		EXPECT_EQ(sum(s->ok), check_keys(s));
	} while (canceled <= 4 * s->ring.cq_entries && kvt_try_again(&end));
	TH_LOG("%llu canceled at once, %u places for their completions", canceled,
	       s->ring.cq_entries);
	EXPECT_LT(4 * s->ring.cq_entries, canceled);
	EXPECT_EQ(0, *s->ring.kcq_overflow);
}

#define CANCELS		8

/* As long as there are some: the first of those that are left, which may be at work. */
static void *cancel_first(void *arg)
{
	struct storm *s = arg;
	struct kvt_ring ring;
	__u32 i;

	KVT_CHECK(kvt_ring_init(&ring, CANCELS, 0) == 0);
	while (__atomic_load_n(&s->under_way, __ATOMIC_RELAXED)) {
		for (i = 0; i < CANCELS; i++)
			kvt_sqe_cancel(kvt_ring_sqe(&ring), s->fd, 0, 0, OTHER);
		kvt_ring_submit(&ring);
		for (i = 0; i < CANCELS; i++)
			take_reply(s, kvt_ring_result(&ring, OTHER));
		/* Most are to be executed meanwhile. */
		usleep(100);
	}
	kvt_ring_exit(&ring);
	return NULL;
}

/* All have the same user_data.  The next one is canceled in its stead. */
TEST_F(waiting, command_at_work_is_not_counted_as_canceled)
{
	__u64 canceled = 0, ok = 0, wins = kvt_fewer(MANY, 4);
	struct storm *s = self->s;
	pthread_t thread;
	int tries = 0;
	time_t end = 0;

	ring_init(s);
	s->group = KEYS;
	do {
		start_puts(s, 0, KEYS);
		KVT_CHECK(pthread_create(&thread, NULL, cancel_first, s) == 0);
		wait_all(s);
		KVT_CHECK(pthread_join(thread, NULL) == 0);
		ASSERT_EQ(KEYS, s->seen[0]);
		ASSERT_EQ(s->ok[0], check_keys(s));
		canceled += s->canceled[0];
		ok += s->ok[0];
		tries++;
	} while ((ok < 8 * wins || canceled < wins) && kvt_try_again(&end));
	TH_LOG("%llu executed, %llu canceled, %d times", ok, canceled, tries);
	EXPECT_LT(0, ok);
	EXPECT_LT(0, canceled);
	EXPECT_EQ(canceled, s->replies);
}

/* Odd numbers of the upper half: others with the same low bits come before them. */
TEST_F(waiting, cancel_meets_the_command_of_that_user_data_alone)
{
	struct storm *s = self->s;
	time_t end = 0;
	__u32 key;

	ring_init(s);
	do {
		let_wait(s);
		for (key = KEYS - 1; key > KEYS / 2; key -= 2) {
			kvt_sqe_cancel(next_sqe(&s->ring), s->fd, key, 0, OTHER);
			s->others++;
		}
		wait_all(s);
		check_keys(s);
	} while (!s->replies && kvt_try_again(&end));
	TH_LOG("%llu canceled", s->replies);
	for (key = 0; key < KEYS; key++)
		if (key % 2 == 0 || key <= KEYS / 2)
			ASSERT_EQ(0, s->canceled[key]);
	EXPECT_EQ(s->replies, sum(s->canceled));
	EXPECT_LT(0, s->replies);
}

/* Chains of two puts: the first one waits, and the second one for the first. */
static void start_chains(struct storm *s)
{
	__u32 key;

	forget(s);
	put_large(s);
	for (key = 0; key < KEYS; key++) {
		/* Before 6.14 only a worker has its own copy of an SQE that waits its turn. */
		s->sqe_flags = key % 2 ? IOSQE_ASYNC : IOSQE_IO_LINK;
		start_put(s, key, key);
	}
	kvt_ring_submit(&s->ring);
}

TEST_F(waiting, chain_behind_a_canceled_command_does_not_run)
{
	struct storm *s = self->s;
	__u32 key, alone;
	time_t end = 0;

	ring_init(s);
	do {
		start_chains(s);
		s->replies = 0;
		for (key = KEYS - 2; key > KEYS / 2; key -= 2) {
			kvt_sqe_cancel(next_sqe(&s->ring), s->fd, key, 0, OTHER);
			s->others++;
		}
		wait_all(s);
		check_keys(s);
		for (key = 0, alone = 0; key < KEYS; key += 2) {
			if (s->canceled[key])
				ASSERT_EQ(0, s->ok[key + 1]);
			alone += s->canceled[key];
		}
		EXPECT_EQ(s->replies, alone);
	} while (!alone && kvt_try_again(&end));
	TH_LOG("%u chains broken", alone);
	EXPECT_LT(0, alone);
}

/*
 * IORING_OP_ASYNC_CANCEL: kernels so far reach what their workers have, and
 * nothing that waits without one.  In either case each command completes once,
 * as it says.
 */
static void async_cancel(struct storm *s, __u32 data)
{
	struct io_uring_sqe *sqe = next_sqe(&s->ring);

	sqe->opcode = IORING_OP_ASYNC_CANCEL;
	sqe->fd = -1;
	sqe->addr = data;
	sqe->user_data = OTHER | data;
}

/* Count the answers of async_cancel() in by errno; a put's go to complete(). */
static void wait_async(struct storm *s, __u32 cancels, __u32 *by_errno)
{
	struct kvt_cqe cqe;

	while (cancels) {
		kvt_ring_wait(&s->ring, &cqe);
		if (!(cqe.data & OTHER)) {
			complete(s, &cqe);
			continue;
		}
		KVT_CHECK(cqe.res == 0 || cqe.res == -ENOENT || cqe.res == -EALREADY);
		by_errno[-cqe.res]++;
		cancels--;
	}
}

TEST_F(waiting, async_cancel_has_each_command_complete_once_as_it_reports)
{
	__u32 key, by_errno[EALREADY + 1] = {};
	struct storm *s = self->s;

	ring_init(s);
	let_wait(s);
	for (key = 1; key < KEYS; key += 2)
		async_cancel(s, key);
	wait_async(s, KEYS / 2, by_errno);
	cancel_rest(s);
	wait_all(s);
	TH_LOG("waiting: %u canceled, %u not found, %u at work", by_errno[0],
	       by_errno[ENOENT], by_errno[EALREADY]);
	EXPECT_EQ(KEYS, sum(s->seen));
	EXPECT_EQ(by_errno[0] + s->replies, sum(s->canceled));
	EXPECT_EQ(sum(s->ok), check_keys(s));
}

/*
 * A command on a separate ring waits for its key and keeps the task's only worker
 * busy until the file answers.
 */
static void block_worker(struct storm *s, struct kvt_silent *silent, struct kvt_ring *ring)
{
	static struct kvtree_op op;
	__u32 one[2] = { 1, 1 };
	struct io_uring_sqe *sqe;

	op = kvt_op(KVTREE_OP_REMOVE, kvt_bytes(silent->mem, KEY_LEN + 1));
	KVT_CHECK(kvt_ring_init(ring, 1, 0) == 0);
	KVT_CHECK(kvt_ring_register(ring, IORING_REGISTER_IOWQ_MAX_WORKERS, one, 2) == 0);
	sqe = kvt_ring_sqe(ring);
	kvt_sqe_op(sqe, s->fd, &op, 1);
	sqe->flags |= IOSQE_ASYNC;
	kvt_ring_submit(ring);
	kvt_silent_wait(silent, 1);
}

TEST_F(waiting, async_cancel_reaches_what_the_workers_have_not_begun)
{
	__u32 key, by_errno[EALREADY + 1] = {};
	struct kvt_silent silent;
	struct storm *s = self->s;
	struct kvt_ring blocked;

	if (!kvt_silent_make(&silent, 1))
		SKIP(return, "the kernel has no FUSE");
	ring_init(s);
	block_worker(s, &silent, &blocked);
	s->sqe_flags = IOSQE_ASYNC;
	start_puts(s, 0, KEYS);
	for (key = KEYS; key-- > KEYS / 2;)
		async_cancel(s, key);
	wait_async(s, KEYS / 2, by_errno);
	EXPECT_EQ(KEYS / 2, by_errno[0]);
	EXPECT_EQ(0, sum(s->ok));
	kvt_silent_answer(&silent);
	EXPECT_EQ(-ENOENT, kvt_ring_result(&blocked, 1));
	wait_all(s);
	for (key = 0; key < KEYS; key++)
		EXPECT_EQ(key >= KEYS / 2, s->canceled[key]);
	EXPECT_EQ(KEYS / 2, check_keys(s));
	kvt_ring_exit(&blocked);
	kvt_silent_end(&silent);
}

/*
 * The end of rings, tasks, sessions and stores
 */

struct counters {
	int fd;
	__u64 executed;
	__u64 canceled;
	__u64 punted;
	__u32 wanted;
};

/* All are, but for those that io_uring's workers had and did not begin. */
static bool all_accounted_for(void *arg)
{
	const struct counters *c = arg;
	__u64 stats[KVTREE_STAT_NR], nr;

	KVT_CHECK(kvt_stats(c->fd, stats) == 0);
	nr = stats[KVTREE_STAT_URING] - c->executed + stats[KVTREE_STAT_URING_CANCEL] -
	     c->canceled;
	return nr <= c->wanted && nr + stats[KVTREE_STAT_URING_PUNT] - c->punted >= c->wanted;
}

static struct counters count_from(int fd, __u32 wanted)
{
	return (struct counters){
		.fd = fd,
		.executed = kvt_stat(fd, KVTREE_STAT_URING),
		.canceled = kvt_stat(fd, KVTREE_STAT_URING_CANCEL),
		.punted = kvt_stat(fd, KVTREE_STAT_URING_PUNT),
		.wanted = wanted,
	};
}

/* Give up all commands under way: their results will never be seen. */
static void abandon(struct storm *s)
{
	s->under_way = 0;
	s->others = 0;
}

TEST_F(waiting, ring_that_is_closed_cancels_what_waits)
{
	static const unsigned int flags[] = {
		0, IORING_SETUP_SQE128 | IORING_SETUP_CQE32,
		IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_SINGLE_ISSUER, IORING_SETUP_SQPOLL,
	};
	struct storm *s = self->s;
	int users = kvt_module_users() - 1;
	struct counters c;
	struct kvt_cqe cqe;
	__u32 changed = 0, i = 0, rings = kvt_fewer(48, 2);
	__u64 waited, canceled;
	time_t end = 0;

	do {
		s->ring_flags = flags[i % NR(flags)];
		ring_init(s);
		/* A thread of the kernel's must not find another session by that number. */
		s->fixed = s->ring_flags & IORING_SETUP_SQPOLL;
		if (s->fixed)
			ASSERT_EQ(0, kvt_ring_files(&s->ring, &s->fd, 1));
		c = count_from(s->look, KEYS);
		start_puts(s, 0, KEYS);
		/* A thread of the kernel's may be anywhere in them. */
		if (i & 4)
			wait_submitted(s);
		if (i % 3)
			kvt_sleep_ms(kvt_rand_below(&s->rand, 10));
		if (i % 5 == 4)
			kvt_ring_reap(&s->ring, &cqe);
		if ((s->ring_flags & IORING_SETUP_SQPOLL) && !(i & 4))
			c.wanted = 0;
		kvt_ring_exit(&s->ring);
		abandon(s);
		/* The session is still open: it is not its end that does it. */
		if (c.wanted)
			ASSERT_TRUE(kvt_eventually(all_accounted_for, &c));
		close(s->fd);
		s->fd = -1;
		ASSERT_TRUE(kvt_eventually(no_more_users, &users));
		s->fd = kvt_store(self->env.dev, self->env.name, RW);
		ASSERT_LE(0, s->fd);
		changed += check_old_or_new(s);
		waited = kvt_stat(s->look, KVTREE_STAT_URING_WAIT) - self->waited;
		canceled = kvt_stat(s->look, KVTREE_STAT_URING_CANCEL) - self->canceled;
	} while (++i < rings || ((waited < rings * MANY / 2 || canceled < rings) &&
				 kvt_try_again(&end)));
	TH_LOG("%u rings, %u of %u puts took place", i, changed, i * KEYS);
	EXPECT_LE(rings * MANY / 2, waited);
	EXPECT_LE(rings, canceled);
}

static void *own_a_ring(void *arg)
{
	struct storm *s = arg;

	ring_init(s);
	let_wait(s);
	return NULL;
}

TEST_F(waiting, commands_outlive_the_thread_that_submitted_them)
{
	__u32 i = 0, late = 0, canceled = 0, odd = 0;
	struct storm *s = self->s;
	struct kvt_cqe cqe;
	pthread_t thread;
	time_t end = 0;

	/* When it has run, there may be no task left to copy the operation out. */
	s->also = -EFAULT;
	do {
		s->odd = 0;
		ASSERT_EQ(0, pthread_create(&thread, NULL, own_a_ring, s));
		ASSERT_EQ(0, pthread_join(thread, NULL));
		/* The ring still exists, and gets all completions. */
		take_all(s);
		if (s->under_way) {
			kvt_ring_wait(&s->ring, &cqe);
			complete(s, &cqe);
			late++;
		}
		cancel_rest(s);
		wait_all(s);
		ASSERT_EQ(KEYS, sum(s->seen));
		ASSERT_EQ(sum(s->ok) + s->odd, check_old_or_new(s));
		canceled += sum(s->canceled);
		odd += s->odd;
		kvt_ring_exit(&s->ring);
	} while (++i < 4 || (!late && kvt_try_again(&end)));
	s->ring.fd = -1;
	TH_LOG("%u of %u canceled, %u ran and could not say so, %u of %u rounds were late",
	       canceled, i * KEYS, odd, late, i);
	/* Some came when the thread was gone. */
	EXPECT_LT(0, late);
}

static int wait_and_exec(void *arg)
{
	struct storm *s = arg;

	ring_init(s);
	/* The program that comes has session and ring, or it has them not. */
	if (s->tag / KEYS % 2) {
		KVT_CHECK(fcntl(s->fd, F_SETFD, 0) == 0);
		KVT_CHECK(fcntl(s->ring.fd, F_SETFD, 0) == 0);
	}
	let_wait(s);
	execl("/bin/true", "true", NULL);
	return 99;
}

TEST_F(waiting, exec_leaves_no_command_behind)
{
	struct storm *s = self->s;
	int users = kvt_module_users(), ret;
	__u32 i = 0, changed = 0;
	time_t end = 0;

	do {
		ret = kvt_run(wait_and_exec, s);
		/* The child's. */
		s->ring.fd = -1;
		ASSERT_EQ(0, ret);
		abandon(s);
		ASSERT_TRUE(kvt_eventually(no_more_users, &users));
		changed += check_old_or_new(s);
	} while (++i < 4 || (changed == i * KEYS && kvt_try_again(&end)));
	TH_LOG("%u of %u puts took place", changed, i * KEYS);
	EXPECT_GT(i * KEYS, changed);
}

TEST_F(waiting, close_of_the_session_cancels_what_its_process_submitted)
{
	__u32 i = 0, canceled = 0;
	struct storm *s = self->s;
	time_t end = 0;

	do {
		s->ring_flags = i & 1 ? IORING_SETUP_SQPOLL : 0;
		ring_init(s);
		/* Also where the ring itself still holds the session. */
		s->fixed = i & 2;
		if (s->fixed)
			ASSERT_EQ(0, kvt_ring_files(&s->ring, &s->fd, 1));
		let_wait(s);
		ASSERT_EQ(0, close(s->fd));
		s->fd = -1;
		wait_all(s);
		ASSERT_EQ(KEYS, sum(s->seen));
		ASSERT_EQ(sum(s->ok), check_keys(s));
		canceled += sum(s->canceled);
		kvt_ring_exit(&s->ring);
		s->fd = kvt_store(self->env.dev, self->env.name, RW);
		ASSERT_LE(0, s->fd);
	} while (++i < 8 || (!canceled && kvt_try_again(&end)));
	s->ring.fd = -1;
	TH_LOG("%u of %u canceled", canceled, i * KEYS);
	EXPECT_LT(0, canceled);
}

static int close_inherited(void *arg)
{
	struct storm *s = arg;

	return close(s->fd);
}

TEST_F(waiting, close_by_another_process_cancels_nothing)
{
	struct storm *s = self->s;
	__u32 under_way;
	time_t end = 0;

	ring_init(s);
	do {
		/* All are to run, some per grace period: not too many. */
		start_puts(s, 0, KEYS / 4);
		/* Inherited, and closed by hand and by exit. */
		EXPECT_EQ(0, kvt_run(close_inherited, s));
		take_all(s);
		under_way = s->under_way;
		wait_all(s);
		EXPECT_EQ(KEYS / 4, sum(s->ok));
		EXPECT_EQ(KEYS / 4, check_keys(s));
	} while (!under_way && kvt_try_again(&end));
	TH_LOG("%u were under way when the child was gone", under_way);
	EXPECT_LT(0, under_way);
	EXPECT_EQ(self->canceled, kvt_stat(s->look, KVTREE_STAT_URING_CANCEL));
}

struct receiver {
	struct storm *s;	/* the sender's */
	struct storm *own;
	int sock[2];
};

/* Receives the session, and lets commands of its own wait on it. */
static int receive_and_wait(void *arg)
{
	struct receiver *r = arg;
	struct storm *own = r->own;
	char go = 'g';

	close(r->s->fd);
	own->fd = kvt_receive_fd(r->sock[1]);
	ring_init(own);
	start_puts(own, KEYS / 2, KEYS);
	KVT_CHECK(write(r->sock[1], &go, 1) == 1);
	wait_all(own);
	KVT_CHECK(sum(own->ok) == KEYS / 2);
	return 0;
}

/* Puts of both wait in the same session when the sender closes it.  Returns the receiver. */
static int send_and_close(struct receiver *r)
{
	struct storm *s = r->s;
	char go;
	int pid;

	put_large(s);
	*r->own = *s;
	r->own->tag += KEYS;
	KVT_CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, r->sock));
	pid = kvt_fork(receive_and_wait, r);
	kvt_send_fd(r->sock[0], s->fd);
	ring_init(s);
	start_puts(s, 0, KEYS / 2);
	KVT_CHECK(read(r->sock[0], &go, 1) == 1);
	KVT_CHECK(!close(s->fd));
	s->fd = -1;
	return pid;
}

TEST_F(waiting, close_by_the_sender_of_a_session_spares_the_receiver)
{
	struct storm *s = self->s;
	struct receiver r = { .s = s, .own = kvt_map_shared(sizeof(*s)) };
	time_t end = 0;
	__u32 canceled;

	do {
		if (s->fd < 0)
			s->fd = kvt_store(self->env.dev, self->env.name, RW);
		ASSERT_LE(0, s->fd);
		ASSERT_EQ(0, kvt_wait(send_and_close(&r)));
		wait_all(s);
		EXPECT_EQ(KEYS / 2, sum(s->seen));
		canceled = sum(s->canceled);
		memcpy(s->after + KEYS / 2, r.own->after + KEYS / 2,
		       KEYS / 2 * sizeof(*s->after));
		EXPECT_EQ(KEYS / 2 + sum(s->ok), check_old_or_new(s));
		s->tag = r.own->tag;
		kvt_ring_exit(&s->ring);
		s->ring.fd = -1;
		close(r.sock[0]);
		close(r.sock[1]);
	} while (!canceled && kvt_try_again(&end));
	TH_LOG("%u of %u were canceled", canceled, KEYS / 2);
	EXPECT_LT(0, canceled);
}

struct destroyer {
	const struct kvt_env *env;
	const char *name;
};

static int destroy_store(void *arg)
{
	const struct destroyer *d = arg;

	return kvt_destroy(d->env->dev, d->name) ? 1 : 0;
}

TEST_F(waiting, destroyed_store_lets_nothing_wait)
{
	char name[KVTREE_NAME_MAX], old[16];
	struct storm *s = self->s;
	struct destroyer d = { .env = &self->env, .name = name };
	__u32 i = 0, ran = 0;
	time_t end = 0;
	int pid;

	snprintf(name, sizeof(name), "waiting-%d.other", getpid());
	ring_init(s);
	s->also = -ESTALE;
	do {
		kvt_set_bound("1", old, sizeof(old));
		ASSERT_EQ(0, kvt_create(self->env.dev, name, 0600, 0, 0));
		kvt_set_bound(old, NULL, 0);
		close(s->fd);
		s->fd = kvt_store(self->env.dev, name, RW);
		ASSERT_LE(0, s->fd);
		s->look = s->fd;
		memset(s->version, 0, sizeof(s->version));
		let_wait(s);
		if (i % 2) {
			pid = kvt_fork(destroy_store, &d);
			wait_all(s);
			ASSERT_EQ(0, kvt_wait(pid));
		} else {
			/* By the task that has submitted them. */
			ASSERT_EQ(0, kvt_destroy(self->env.dev, name));
			wait_all(s);
		}
		ASSERT_EQ(KEYS, sum(s->seen));
		ASSERT_EQ(0, sum(s->canceled));
		ran += sum(s->ok);
	} while (++i < 6 || (ran == i * KEYS && kvt_try_again(&end)));
	TH_LOG("%u of %u puts came in time", ran, i * KEYS);
	EXPECT_GT(i * KEYS, ran);
}

/*
 * Killed processes
 */

#define FEW		64		/* keys, each under many commands at once */
#define RUSH_LEN	(16 * 1024 - 64)

/* Messages between parent and child. */
struct victim {
	const struct kvt_env *env;
	char name[KVTREE_NAME_MAX];
	int mode;
	__u32 submitted;
};

/* Tags with a rest of `key` are this key's. */
static __u32 tag_of(__u32 key, __u32 nr)
{
	return nr * FEW + key;
}

struct rush {
	struct victim *v;
	unsigned int ring_flags;
	unsigned int sqe_flags;
	int fd;
};

/* For ever, with two thousand under way. */
static void *rush(void *arg)
{
	struct rush *r = arg;
	struct kvtree_op *op = calloc(KEYS, sizeof(*op));
	struct io_uring_sqe *sqe;
	struct kvt_ring ring;
	struct kvt_cqe cqe;
	__u32 nr = 0, i;

	KVT_CHECK(op);
	KVT_CHECK(kvt_ring_init(&ring, KEYS, r->ring_flags) == 0);
	for (i = 0; ; nr++) {
		sqe = next_sqe(&ring);
		op[i] = put_op(i % FEW, tag_of(i % FEW, nr), RUSH_LEN);
		if (ring.flags & IORING_SETUP_SQE128)
			kvt_sqe_inline(sqe, r->fd, &op[i], NULL, i);
		else
			kvt_sqe_op(sqe, r->fd, &op[i], i);
		sqe->flags |= r->sqe_flags;
		if (nr < KEYS - 1) {
			i++;
			continue;
		}
		kvt_ring_submit(&ring);
		__atomic_store_n(&r->v->submitted, nr, __ATOMIC_RELAXED);
		kvt_ring_wait(&ring, &cqe);
		KVT_CHECK(cqe.res == 0 || cqe.res == -ESTALE);
		i = cqe.data;
	}
	return NULL;
}

static int be_killed(void *arg)
{
	static const struct rush modes[] = {
		{ .ring_flags = 0 },
		{ .ring_flags = 0, .sqe_flags = IOSQE_ASYNC },
		{ .ring_flags = IORING_SETUP_SQPOLL },
		{ .ring_flags = IORING_SETUP_SQE128 | IORING_SETUP_CQE32 },
		{ .ring_flags = IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_SINGLE_ISSUER },
	};
	struct victim *v = arg;
	struct rush r = modes[v->mode % NR(modes)];
	pthread_t thread;

	r.v = v;
	r.fd = kvt_store(v->env->dev, v->name, RW);
	KVT_CHECK(r.fd >= 0);
	/* Sometimes two rings of two threads. */
	if (v->mode % 3 == 2)
		KVT_CHECK(pthread_create(&thread, NULL, rush, &r) == 0);
	rush(&r);
	return 99;
}

/* Each key has a value that was put there, whole. */
static void check_few(int fd)
{
	static __u64 val[RUSH_LEN / 8];
	__u64 version;
	__u32 key;

	for (key = 0; key < FEW; key++) {
		struct kvtree_op op = put_op(key, 0, 0);

		KVT_CHECK(kvt_get(fd, kvt_bytes(op.key_inline, KEY_LEN), val, RUSH_LEN,
				  &version) == RUSH_LEN);
		KVT_CHECK(val[0] % FEW == key && val[0] < SPAN);
		KVT_CHECK(!memcmp(val, value(val[0]), RUSH_LEN));
	}
}

static bool make_store(struct victim *v)
{
	char old[16];
	int err;

	kvt_set_bound("1", old, sizeof(old));
	err = kvt_create(v->env->dev, v->name, 0600, 0, 0);
	kvt_set_bound(old, NULL, 0);
	return !err;
}

static int fill_store(const struct victim *v)
{
	int fd = kvt_store(v->env->dev, v->name, RW);
	struct kvtree_op op;
	__u32 key;

	KVT_CHECK(fd >= 0);
	for (key = 0; key < FEW; key++) {
		op = put_op(key, tag_of(key, 1), RUSH_LEN);
		KVT_CHECK(kvt_exec(fd, &op) == 0);
	}
	return fd;
}

static bool many_submitted(void *arg)
{
	struct victim *v = arg;

	return __atomic_load_n(&v->submitted, __ATOMIC_RELAXED) >= KEYS - 1;
}

TEST_F_TIMEOUT(waiting, killed_process_leaves_whole_values_and_nothing_else, 600)
{
	struct kvt_rand rand = { .state = 1 };
	struct victim *v = kvt_map_shared(sizeof(*v));
	int users = kvt_module_users(), fd, i, with_session, times = kvt_fewer(48, 2);
	struct kvt_process child;

	v->env = &self->env;
	snprintf(v->name, sizeof(v->name), "waiting-%d.kill", getpid());
	for (i = 0; i < times; i++) {
		v->mode = i;
		v->submitted = 0;
		ASSERT_TRUE(make_store(v));
		fd = fill_store(v);
		with_session = users + 1;
		child.pid = kvt_fork(be_killed, v);
		/* Sometimes before it is at its work. */
		if (i % 7 != 6)
			ASSERT_TRUE(kvt_eventually(many_submitted, v));
		usleep(kvt_rand_below(&rand, 10000));
		ASSERT_EQ(0, kill(child.pid, SIGKILL));
		/* Sometimes the store goes first. */
		if (i % 5 == 4)
			ASSERT_EQ(0, kvt_destroy(self->env.dev, v->name));
		ASSERT_TRUE(kvt_eventually(kvt_has_ended, &child));
		ASSERT_TRUE(WIFSIGNALED(child.status) && WTERMSIG(child.status) == SIGKILL);
		/* The commands that it had submitted are gone, too. */
		ASSERT_TRUE(kvt_eventually(no_more_users, &with_session));
		if (i % 5 != 4) {
			check_few(fd);
			ASSERT_EQ(0, kvt_destroy(self->env.dev, v->name));
		}
		close(fd);
		/* A lane takes a program that says nothing for long for one that hangs. */
		if (i % 8 == 7)
			TH_LOG("%d of %d killed", i + 1, times);
	}
}

TEST_HARNESS_MAIN
