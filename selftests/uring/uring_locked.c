// SPDX-License-Identifier: GPL-2.0
/*
 * Rings that are locked for any time: the submitting thread holds its ring's lock while
 * it waits for its own memory, a file that does not answer.  Other stores are not held
 * up, and the store of its commands can be destroyed.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include "kselftest_harness.h"
#include "lib/durable.h"
#include "lib/kvt_test.h"
#include "lib/silent.h"
#include "lib/uring.h"

#define RW		(KVTREE_OPEN_READ | KVTREE_OPEN_WRITE)
#define SIZE		132	/* MiB: more than the least */

/* user_data of the command that locks the ring. */
#define LOCKER		(~0ull)

struct locked {
	struct kvt_ring ring;
	struct kvt_silent silent;
	pthread_t submitter;
};

/* False: the kernel has no FUSE. */
static bool locked_make(struct locked *l, unsigned int entries)
{
	if (!kvt_silent_make(&l->silent, 1))
		return false;
	kvt_ring_make(&l->ring, entries, IORING_SETUP_SQE128);
	/* No child's; and User-Mode Linux copies page tables of such wrong. */
	KVT_CHECK(madvise(l->ring.rings, l->ring.rings_bytes, MADV_DONTFORK) == 0);
	KVT_CHECK(madvise(l->ring.sqes, l->ring.sqes_bytes, MADV_DONTFORK) == 0);
	return true;
}

static void *submit(void *arg)
{
	kvt_ring_submit(arg);
	return NULL;
}

/* Submit what was queued, and stay with the ring's lock. */
static void lock(struct locked *l)
{
	struct io_uring_sqe *sqe = kvt_ring_sqe(&l->ring);

	/* What is to be watched is copied before anything else is looked at. */
	sqe->opcode = IORING_OP_EPOLL_CTL;
	sqe->fd = -1;
	sqe->len = 1;			/* EPOLL_CTL_ADD */
	sqe->addr = kvt_ptr(l->silent.mem);
	sqe->user_data = LOCKER;
	KVT_CHECK(pthread_create(&l->submitter, NULL, submit, &l->ring) == 0);
	kvt_silent_wait(&l->silent, 1);
}

static void unlock(struct locked *l)
{
	kvt_silent_break(&l->silent);
	KVT_CHECK(pthread_join(l->submitter, NULL) == 0);
}

static void locked_end(struct locked *l)
{
	/* A test that failed has it locked yet. */
	kvt_silent_break(&l->silent);
	kvt_ring_exit(&l->ring);
	kvt_silent_end(&l->silent);
}

/* The next completion of a command of kvtree. */
static void next_cqe(struct locked *l, struct kvt_cqe *cqe)
{
	do {
		kvt_ring_wait(&l->ring, cqe);
	} while (cqe->data == LOCKER);
}

/* A worker of io_uring waits for a lock. */
static bool worker_waits(void)
{
	return kvt_thread_blocks(getpid(), "iou-wrk-");
}

static struct kvtree_op put_op(__u32 key, const void *val, __u32 len)
{
	struct kvtree_op op = {
		.opcode = KVTREE_OP_PUT,
		.flags = KVTREE_F_KEY_INLINE,
		.key_len = sizeof(key),
		.val = kvt_ptr(val),
		.val_len = len,
	};

	memcpy(op.key_inline, &key, sizeof(key));
	return op;
}

/* Whether somebody ends while the ring is locked. */
static bool ends(int (*fn)(void *arg), void *arg)
{
	struct kvt_process p = { .pid = kvt_fork(fn, arg) };
	bool ended = kvt_eventually(kvt_has_ended, &p);

	return ended && !p.status;
}

/*
 * Volatile stores
 */
#define KEYS	512
#define LEN	64000

FIXTURE(locked) {
	struct kvt_env env;
	struct locked l;
	char *val;
};

FIXTURE_SETUP(locked)
{
	char old[16];

	if (!locked_make(&self->l, 2 * KEYS))
		SKIP(return, "the kernel has no FUSE");
	kvt_set_bound("1", old, sizeof(old));
	kvt_env_init(&self->env, "locked", 0, 0);
	kvt_set_bound(old, NULL, 0);
	self->val = calloc(1, LEN);
	ASSERT_NE(NULL, self->val);
}

FIXTURE_TEARDOWN(locked)
{
	if (!self->val)
		return;
	locked_end(&self->l);
	close(self->env.fd);
	close(self->env.dev);
	free(self->val);
}

static int destroy(void *arg)
{
	const struct kvt_env *env = arg;

	return kvt_destroy(env->dev, env->name) != 0;
}

/* Where buffers are found without the lock, there is nothing to wait for. */
static bool worker_waits_or_has_executed(void *arg)
{
	return worker_waits() || kvt_stat(*(int *)arg, KVTREE_STAT_URING);
}

/* To find the buffer, the worker takes the ring's lock. */
TEST_F(locked, store_is_destroyed_while_a_buffer_is_looked_for)
{
	struct iovec iov = { self->val, LEN };
	struct io_uring_sqe *sqe;
	struct kvtree_op op;
	struct kvt_cqe cqe;

	if (!(kvt_features(self->env.fd) & KVTREE_FEAT_URING_FIXED))
		SKIP(return, "no registered buffers");
	ASSERT_EQ(0, kvt_ring_buffers(&self->l.ring, &iov, 1));
	op = put_op(1, self->val, LEN);
	sqe = kvt_ring_sqe(&self->l.ring);
	kvt_sqe_inline(sqe, self->env.fd, &op, NULL, 1);
	sqe->rw_flags = IORING_URING_CMD_FIXED;
	sqe->flags |= IOSQE_ASYNC;
	lock(&self->l);
	ASSERT_TRUE(kvt_eventually(worker_waits_or_has_executed, &self->env.fd));
	EXPECT_TRUE(ends(destroy, &self->env));
	unlock(&self->l);
	next_cqe(&self->l, &cqe);
	EXPECT_EQ(1, cqe.data);
	EXPECT_TRUE(cqe.res == -ESTALE || cqe.res == 0);
}

static bool some_wait(void *arg)
{
	return kvt_stat(*(int *)arg, KVTREE_STAT_URING_WAIT);
}

static bool workers_wait(void *arg)
{
	return some_wait(arg) && worker_waits();
}

/* Changes of which some wait for memory to be freed, from the store's bound on. */
static void queue_changes(struct _test_data_locked *self, unsigned int sqe_flags)
{
	struct kvtree_op op;
	__u32 i;

	for (i = 0; i < KEYS; i++)
		KVT_CHECK(kvt_put(self->env.fd, kvt_bytes(&i, 4), kvt_bytes(self->val, LEN),
				  NULL) == 0);
	for (i = 0; i < KEYS; i++) {
		op = put_op(i, self->val, LEN);
		kvt_sqe_inline(kvt_ring_sqe(&self->l.ring), self->env.fd, &op, NULL, i);
		kvt_ring_sqe_at(&self->l.ring, i)->flags |= sqe_flags;
	}
}

/* Each was made, or not any more.  Returns how many were not. */
static __u32 reap_changes(struct _test_data_locked *self)
{
	struct kvt_cqe cqe;
	__u32 i, late = 0;

	for (i = 0; i < KEYS; i++) {
		next_cqe(&self->l, &cqe);
		KVT_CHECK(cqe.res == -ESTALE || cqe.res == 0);
		late += !!cqe.res;
	}
	return late;
}

/* To be canceled with the ring, they lock it. */
TEST_F(locked, store_is_destroyed_while_changes_wait_in_workers)
{
	queue_changes(self, IOSQE_ASYNC);
	lock(&self->l);
	ASSERT_TRUE(kvt_eventually(workers_wait, &self->env.fd));
	EXPECT_TRUE(ends(destroy, &self->env));
	unlock(&self->l);
	EXPECT_LT(0, reap_changes(self));
}

/* They wait for their task, when they wait for memory no more. */
TEST_F(locked, store_is_destroyed_while_changes_wait_for_their_task)
{
	queue_changes(self, 0);
	lock(&self->l);
	ASSERT_TRUE(kvt_eventually(some_wait, &self->env.fd));
	EXPECT_TRUE(ends(destroy, &self->env));
	unlock(&self->l);
	EXPECT_LT(0, reap_changes(self));
}

/*
 * Durable stores
 */
FIXTURE(durable) {
	struct kvt_disk disk;
	struct locked l;
	struct kvt_silent outcome;
	bool has_outcome;
	char name[KVTREE_NAME_MAX];
	int dev;
	int fd;
};

FIXTURE_SETUP(durable)
{
	if (!locked_make(&self->l, 2048))
		SKIP(return, "the kernel has no FUSE");
	self->dev = kvt_open();
	ASSERT_LE(0, self->dev);
	snprintf(self->name, sizeof(self->name), "locked-%d", getpid());
	kvt_disk_make(&self->disk, SIZE, 512);
	ASSERT_EQ(0, kvt_format(&self->disk, 1));
	ASSERT_EQ(0, kvt_attach(self->dev, self->name, &self->disk, 1, 0));
	self->fd = kvt_store(self->dev, self->name, RW);
	ASSERT_LE(0, self->fd);
}

FIXTURE_TEARDOWN(durable)
{
	if (self->fd <= 0)
		return;
	/* A worker that waits for the page holds the ring's lock, and this process's mmap lock. */
	if (self->has_outcome)
		kvt_silent_break(&self->outcome);
	locked_end(&self->l);
	if (self->has_outcome)
		kvt_silent_end(&self->outcome);
	close(self->fd);
	kvt_detach(self->dev, self->name);
	kvt_disk_remove(&self->disk);
	close(self->dev);
}

static int detach(void *arg)
{
	const struct _test_data_durable *self = arg;

	return kvt_detach(self->dev, self->name) != 0;
}

/* Nor does a worker wait for a change that has become durable before it looks. */
static bool worker_waits_or_is_done(void *arg)
{
	struct _test_data_durable *self = arg;
	__u32 newest;

	return workers_wait(&self->fd) || kvt_ring_ready(&self->l.ring, &newest);
}

/* A change that is made by a worker, and to be durable. */
TEST_F(durable, store_is_detached_while_a_worker_has_a_change_wait)
{
	struct kvtree_op op = put_op(1, "value", 5);
	struct io_uring_sqe *sqe;
	struct kvt_cqe cqe;

	op.flags |= KVTREE_F_SYNC;
	sqe = kvt_ring_sqe(&self->l.ring);
	kvt_sqe_inline(sqe, self->fd, &op, NULL, 1);
	sqe->flags |= IOSQE_ASYNC;
	lock(&self->l);
	ASSERT_TRUE(kvt_eventually(worker_waits_or_is_done, self));
	EXPECT_TRUE(ends(detach, self));
	unlock(&self->l);
	next_cqe(&self->l, &cqe);
	EXPECT_EQ(1, cqe.data);
	EXPECT_EQ(0, cqe.res);
	close(self->fd);
	ASSERT_EQ(0, kvt_attach(self->dev, self->name, &self->disk, 1, 0));
	self->fd = kvt_store(self->dev, self->name, RW);
	EXPECT_TRUE(kvt_has(self->fd, kvt_bytes(op.key_inline, 4), STR("value")));
}

/* What wants a commit for all of them is not in its store while the submitter waits. */
TEST_F(durable, store_is_detached_while_the_submitter_of_changes_waits)
{
	struct kvtree_op op = put_op(1, "value", 5);
	struct kvt_cqe cqe;
	int i;

	op.flags |= KVTREE_F_SYNC;
	for (i = 0; i < 4; i++)
		kvt_sqe_inline(kvt_ring_sqe(&self->l.ring), self->fd, &op, NULL, i);
	lock(&self->l);
	ASSERT_TRUE(kvt_eventually(some_wait, &self->fd));
	EXPECT_TRUE(ends(detach, self));
	unlock(&self->l);
	for (i = 0; i < 4; i++) {
		next_cqe(&self->l, &cqe);
		EXPECT_EQ(0, cqe.res);
	}
}

static bool is_there(void *arg)
{
	return kvt_version(*(int *)arg, kvt_bytes(&(__u32){ 2 }, 4));
}

static bool is_gone(void *arg)
{
	struct kvtree_op op = { .opcode = KVTREE_OP_NOP };

	return kvt_exec(*(int *)arg, &op) == -ESTALE;
}

struct detacher {
	struct _test_data_durable *self;
	int begin;
};

static int detach_later(void *arg)
{
	struct detacher *d = arg;

	while (!__atomic_load_n(&d->begin, __ATOMIC_ACQUIRE))
		kvt_sleep_ms(1);
	return detach(d->self);
}

/* The submitter learns what became of a batch from the detach, with its ring locked. */
TEST_F(durable, store_is_detached_while_an_outcome_is_copied)
{
	struct kvtree_op ops[2] = { put_op(1, "value", 5), put_op(2, "other", 5) };
	struct detacher *d = kvt_map_shared(sizeof(*d));
	struct kvt_process detacher = {};
	struct io_uring_sqe *sqe;
	struct kvt_cqe cqe;
	char *outcome;
	int i;

	self->has_outcome = kvt_silent_make(&self->outcome, 1);
	ASSERT_TRUE(self->has_outcome);
	ops[0].flags |= KVTREE_F_SYNC;
	ops[1].flags |= KVTREE_F_SYNC;
	outcome = kvt_silent_write(&self->outcome, &ops[1], sizeof(ops[1]));
	/* This process cannot fork while a thread waits for the outcome's page. */
	d->self = self;
	detacher.pid = kvt_fork(detach_later, d);
	sqe = kvt_ring_sqe(&self->l.ring);
	kvt_sqe_inline(sqe, self->fd, &ops[0], NULL, 0);
	sqe->flags |= IOSQE_ASYNC;
	kvt_sqe_batch(kvt_ring_sqe(&self->l.ring), self->fd, outcome, 1, 1);
	KVT_CHECK(pthread_create(&self->l.submitter, NULL, submit, &self->l.ring) == 0);
	ASSERT_TRUE(kvt_eventually(is_there, &self->fd));
	ASSERT_TRUE(kvt_eventually(worker_waits_or_is_done, self));
	__atomic_store_n(&d->begin, 1, __ATOMIC_RELEASE);
	ASSERT_TRUE(kvt_eventually(is_gone, &self->fd));
	kvt_silent_answer(&self->outcome);
	ASSERT_TRUE(kvt_eventually(kvt_has_ended, &detacher));
	EXPECT_EQ(0, detacher.status);
	ASSERT_EQ(0, pthread_join(self->l.submitter, NULL));
	for (i = 0; i < 2; i++) {
		kvt_ring_wait(&self->l.ring, &cqe);
		EXPECT_EQ(cqe.data, cqe.res);
	}
	EXPECT_EQ(0, ((struct kvtree_op *)outcome)->result);
}

/*
 * The workers that the kernel has at once for all stores, and more sessions: a change that is
 * durable before its command is to wait does not.
 */
#define WORKERS		1024
#define SESSIONS	1200

static bool nothing_waits(void *arg)
{
	return !kvt_stat(*(int *)arg, KVTREE_STAT_WAITING_BYTES);
}

static bool all_are_made_and_most_wait(void *arg)
{
	return kvt_stat(*(int *)arg, KVTREE_STAT_URING) == SESSIONS &&
	       kvt_stat(*(int *)arg, KVTREE_STAT_URING_WAIT) > WORKERS;
}

/* A change that is made durable, by a session and a ring that others have nothing to do with. */
static bool own_change_completes(int fd)
{
	struct kvtree_op op = put_op(2, "value", 5);
	struct kvt_ring ring;
	struct kvt_cqe cqe;
	bool completes;

	op.flags |= KVTREE_F_SYNC;
	kvt_ring_make(&ring, 1, IORING_SETUP_SQE128);
	kvt_sqe_inline(kvt_ring_sqe(&ring), fd, &op, NULL, 2);
	kvt_ring_submit(&ring);
	completes = kvt_ring_wait_ms(&ring, &cqe, 60000);
	kvt_ring_exit(&ring);
	return completes && !cqe.res;
}

/* Each session has a change that is durable, and cannot complete. */
TEST_F(durable, others_go_on_while_sessions_cannot_complete)
{
	struct rlimit files = { SESSIONS + 100, SESSIONS + 100 };
	struct kvtree_op op = put_op(1, "value", 5);
	static int fds[SESSIONS];
	struct kvt_env other;
	struct kvt_cqe cqe;
	int i;

	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &files));
	kvt_env_init(&other, "others", 0, 0);
	op.flags |= KVTREE_F_SYNC;
	for (i = 0; i < SESSIONS; i++) {
		fds[i] = kvt_store(self->dev, self->name, RW);
		ASSERT_LE(0, fds[i]);
		kvt_sqe_inline(kvt_ring_sqe(&self->l.ring), fds[i], &op, NULL, i);
	}
	lock(&self->l);
	ASSERT_TRUE(kvt_eventually(all_are_made_and_most_wait, &self->fd));
	ASSERT_EQ(0, kvt_sync(self->fd));
	ASSERT_EQ(0, kvt_put(other.fd, STR("k"), STR("a value to be replaced"), NULL));
	ASSERT_EQ(0, kvt_put(other.fd, STR("k"), STR("the value that replaces it"), NULL));
	EXPECT_TRUE(kvt_eventually(nothing_waits, &other.fd));
	EXPECT_TRUE(own_change_completes(self->fd));
	unlock(&self->l);
	for (i = 0; i < SESSIONS; i++) {
		next_cqe(&self->l, &cqe);
		ASSERT_EQ(0, cqe.res);
	}
	for (i = 0; i < SESSIONS; i++)
		close(fds[i]);
	kvt_env_exit(&other);
}

TEST_HARNESS_MAIN
