// SPDX-License-Identifier: GPL-2.0
/*
 * Sessions with waiting commands are woken when one of these can go on, not each time that
 * a little more memory is freed.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "kselftest_harness.h"
#include "lib/kvt_test.h"
#include "lib/uring.h"

#define RW		(KVTREE_OPEN_READ | KVTREE_OPEN_WRITE)
#define BATCH		"/sys/module/kvtree/parameters/reclaim_batch"

#define SESSIONS	200
#define EACH		64		/* puts of a session, at most */
#define BOUND		"4"		/* MiB of memory that may wait to be freed */
#define LARGE		300		/* values that are more than that */
#define LEN		(16 * 1024 - 64)
#define ALL		(LARGE + SESSIONS * EACH)
#define OTHER		(~0ull)	/* user_data of other commands than puts */

FIXTURE(wake) {
	struct kvt_env env;
	char bound[16];
	char batch[16];
	struct kvt_ring ring;
	char *val;
	int fd[SESSIONS];
	__u32 puts;		/* of all sessions */
	__u32 next;		/* key: each of these puts has a different one */
	__u64 waits;		/* how counters have changed */
	__u64 wakes;
};

FIXTURE_SETUP(wake)
{
	int i;

	/* Make each freed object a separate event. */
	kvt_set_param(BATCH, "1", self->batch, sizeof(self->batch));
	kvt_set_bound(BOUND, self->bound, sizeof(self->bound));
	kvt_env_init(&self->env, "wake", 0, 0);
	kvt_set_bound(self->bound, NULL, 0);
	for (i = 0; i < SESSIONS; i++) {
		self->fd[i] = kvt_store(self->env.dev, self->env.name, RW);
		ASSERT_LE(0, self->fd[i]);
	}
	self->puts = SESSIONS * kvt_fewer(EACH, 16);
	self->next = LARGE;
	self->val = calloc(1, LEN);
	ASSERT_NE(NULL, self->val);
	kvt_ring_make(&self->ring, ALL + 1, 0);
}

FIXTURE_TEARDOWN(wake)
{
	int i;

	kvt_ring_exit(&self->ring);
	for (i = 0; i < SESSIONS; i++)
		close(self->fd[i]);
	kvt_env_exit(&self->env);
	kvt_set_param(BATCH, self->batch, NULL, 0);
	free(self->val);
}

/* The i-th of a round. */
static void start_put(struct _test_data_wake *self, int fd, __u32 i, __u32 key)
{
	static struct kvtree_op op[ALL];

	op[i] = (struct kvtree_op) {
		.opcode = KVTREE_OP_PUT,
		.flags = KVTREE_F_KEY_INLINE,
		.key_len = sizeof(key),
		.val = kvt_ptr(self->val),
		.val_len = 8,
	};
	memcpy(op[i].key_inline, &key, sizeof(key));
	kvt_sqe_op(kvt_ring_sqe(&self->ring), fd, &op[i], i);
}

/*
 * So much memory waits to be freed that each session has a waiting put.  None of these leaves
 * anything to be freed, nor do waiting puts of large values: the bound is reached only once.
 */
static void let_all_wait(struct _test_data_wake *self)
{
	struct kvt_cqe cqe;
	__u32 i;

	for (i = 0; i < LARGE; i++)
		KVT_CHECK(kvt_put(self->env.fd, kvt_bytes(&i, sizeof(i)),
				  kvt_bytes(self->val, LEN), NULL) == 0);
	self->waits = kvt_stat(self->env.fd, KVTREE_STAT_URING_WAIT);
	self->wakes = kvt_stat(self->env.fd, KVTREE_STAT_URING_WAKE);
	for (i = 0; i < LARGE; i++)
		start_put(self, self->env.fd, i, i);
	kvt_sqe_cancel(kvt_ring_sqe(&self->ring), self->env.fd, 0, KVTREE_CANCEL_ANY, OTHER);
	for (i = 0; i < self->puts; i++)
		start_put(self, self->fd[i % SESSIONS], LARGE + i, self->next++);
	kvt_ring_submit(&self->ring);
	for (i = 0; i < LARGE + 1 + self->puts; i++) {
		kvt_ring_wait(&self->ring, &cqe);
		KVT_CHECK(cqe.res == 0 || cqe.data == OTHER ||
			  (cqe.data < LARGE && cqe.res == -ECANCELED));
	}
	self->waits = kvt_stat(self->env.fd, KVTREE_STAT_URING_WAIT) - self->waits;
	self->wakes = kvt_stat(self->env.fd, KVTREE_STAT_URING_WAKE) - self->wakes;
}

/* Otherwise freeing memory for all of them would cost the square of their number. */
TEST_F(wake, session_is_woken_once_however_many_objects_are_freed)
{
	time_t end = 0;

	/* If memory is freed as fast as puts come, fewer wait, and fewer are woken. */
	do {
		let_all_wait(self);
	} while (self->waits < self->puts / 2 && kvt_try_again(&end));
	TH_LOG("%llu commands waited, sessions were woken %llu times",
	       (unsigned long long)self->waits, (unsigned long long)self->wakes);
	EXPECT_LE(self->puts / 2, self->waits);
	EXPECT_GE(4 * SESSIONS, self->wakes);
}

TEST_HARNESS_MAIN
