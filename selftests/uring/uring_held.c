// SPDX-License-Identifier: GPL-2.0
/*
 * Commands that wait for a disk that does not answer, any number of them and for any time.
 * Changes wait for space in the log, and executed ones wait to be durable.
 *
 * Uses the disks of kmod/tests/fault_disk.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "kselftest_harness.h"
#include "lib/faults.h"
#include "lib/kvt_test.h"
#include "lib/silent.h"
#include "lib/uring.h"

#define RW		(KVTREE_OPEN_READ | KVTREE_OPEN_WRITE)
#define MANY		16384
#define ENTRIES		4096
#define LEN		4000		/* bytes of what fills the log */
#define FILL_MAX	4096

/* user_data of other commands than changes. */
#define OTHER		(1ull << 63)

FIXTURE(held) {
	struct kvt_disk disk;
	char name[KVTREE_NAME_MAX];
	int dev;
	int fd;
	struct kvt_ring ring;
	struct kvtree_op *op;		/* shared, as the value is */
	char *val;
	__u32 nr;			/* of operations that were submitted */
	__u32 under_way;
	__u32 canceled;
	__u64 replies[2];		/* commands canceled; cancellations that found none */
	__u64 waits;			/* KVTREE_STAT_URING_WAIT before the next command */
	__u64 *took;			/* a child's best lap, which it writes here */
};

/* What maps a ring keeps it. */
static void keep_from_children(const struct kvt_ring *ring)
{
	KVT_CHECK(madvise(ring->rings, ring->rings_bytes, MADV_DONTFORK) == 0);
	KVT_CHECK(madvise(ring->sqes, ring->sqes_bytes, MADV_DONTFORK) == 0);
}

FIXTURE_SETUP(held)
{
	/*
	 * Each CPU writes to its own part of the log, and these tests fill one part.  A command
	 * that needs a page which its process lacks goes to a worker of io_uring, and that may
	 * run on any CPU.
	 */
	kvt_run_on(0);
	kvt_fault_disk(&self->disk, 0);
	self->dev = kvt_open();
	ASSERT_LE(0, self->dev);
	snprintf(self->name, sizeof(self->name), "held-%d", getpid());
	ASSERT_EQ(0, kvt_format(&self->disk, 1));
	ASSERT_EQ(0, kvt_attach(self->dev, self->name, &self->disk, 1, 0));
	self->fd = kvt_store(self->dev, self->name, RW);
	ASSERT_LE(0, self->fd);
	self->op = kvt_map_shared((MANY + FILL_MAX) * sizeof(*self->op));
	self->val = kvt_map_shared(LEN);
	self->took = kvt_map_shared(sizeof(*self->took));
	kvt_ring_make(&self->ring, ENTRIES, 0);
	/* User-Mode Linux copies the page tables of a ring wrongly. */
	keep_from_children(&self->ring);
	kvt_fault_hold(&self->disk, true);
}

FIXTURE_TEARDOWN(held)
{
	kvt_fault_hold(&self->disk, false);
	kvt_fault_mend(&self->disk);
	kvt_ring_exit(&self->ring);
	close(self->fd);
	kvt_detach(self->dev, self->name);
	close(self->dev);
}

/* In a child, to which shared memory comes when it is touched. */
static void touch_shared(const struct _test_data_held *self, struct kvtree_op *op)
{
	*(volatile __s32 *)&op->result = 77;
	(void)*(volatile char *)self->val;
}

static void take(struct _test_data_held *self, const struct kvt_cqe *cqe)
{
	if (cqe->data & OTHER) {
		KVT_CHECK(cqe->res > 0 || cqe->res == -ENOENT);
		self->replies[cqe->res < 0] += cqe->res < 0 ? 1 : cqe->res;
		return;
	}
	KVT_CHECK(cqe->data < self->nr);
	KVT_CHECK(!cqe->res || cqe->res == -ECANCELED);
	/* Canceled commands are reported by their completions only. */
	KVT_CHECK(cqe->res || !self->op[cqe->data].result);
	self->canceled += !!cqe->res;
	self->under_way--;
}

static void take_all(struct _test_data_held *self)
{
	struct kvt_cqe cqe;

	while (kvt_ring_reap(&self->ring, &cqe))
		take(self, &cqe);
}

static struct io_uring_sqe *next_sqe(struct _test_data_held *self)
{
	struct io_uring_sqe *sqe;

	while (!(sqe = kvt_ring_sqe(&self->ring))) {
		kvt_ring_submit(&self->ring);
		take_all(self);
	}
	return sqe;
}

static void start_put(struct _test_data_held *self, __u32 len, __u32 flags)
{
	struct kvtree_op *op = &self->op[self->nr];

	*op = (struct kvtree_op) {
		.opcode = KVTREE_OP_PUT,
		.flags = KVTREE_F_KEY_INLINE | flags,
		.key_len = sizeof(self->nr),
		.val = kvt_ptr(self->val),
		.val_len = len,
		.result = 77,
	};
	memcpy(op->key_inline, &self->nr, sizeof(self->nr));
	kvt_sqe_op(next_sqe(self), self->fd, op, self->nr++);
	self->under_way++;
}

/* No more room: from here on changes wait. */
static void fill_log(struct _test_data_held *self)
{
	__u64 waits = kvt_stat(self->fd, KVTREE_STAT_URING_WAIT);

	while (kvt_stat(self->fd, KVTREE_STAT_URING_WAIT) == waits) {
		KVT_CHECK(self->nr < FILL_MAX);
		start_put(self, LEN, 0);
		kvt_ring_submit(&self->ring);
		take_all(self);
	}
}

static void wait_all(struct _test_data_held *self)
{
	struct kvt_cqe cqe;

	while (self->under_way) {
		kvt_ring_wait(&self->ring, &cqe);
		take(self, &cqe);
	}
}

static void cancel(struct _test_data_held *self, __u64 data, __u32 flags)
{
	kvt_sqe_cancel(next_sqe(self), self->fd, data, flags, OTHER);
}

/*
 * Costs
 */

static __u64 now_ns(void)
{
	struct timespec ts;

	KVT_CHECK(clock_gettime(CLOCK_MONOTONIC, &ts) == 0);
	return ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

#define LAP		16
#define OPS		2048	/* that are timed */

/* The best time of LAP operations: what holds up this process does not hold up all of them. */
struct laps {
	__u64 start;
	__u64 best;
};

static void laps_begin(struct laps *l)
{
	l->best = ~0ull;
	l->start = now_ns();
}

/* After the i-th operation, from 0 on. */
static void laps_count(struct laps *l, __u32 i)
{
	__u64 now;

	if (i % LAP != LAP - 1)
		return;
	now = now_ns();
	if (now - l->start < l->best)
		l->best = now - l->start;
	l->start = now;
}

/* A walk is no longer seen there. */
static bool cost_is_hidden(void)
{
	return kvt_fewer(2, 2) == 1;
}

/*
 * Whether operations take the same time, and not four times as long, while four times as many
 * commands wait.  @round lets this many wait, and returns its best time.
 */
static bool cost_is_constant(struct __test_metadata *_metadata, struct _test_data_held *self,
			     __u64 (*round)(struct _test_data_held *self, __u32 nr))
{
	__u64 few = ~0ull, many = ~0ull, took;
	const __u32 nr = MANY;
	int tries = 0;

	do {
		took = round(self, nr / 4);
		few = took < few ? took : few;
		took = round(self, nr);
		many = took < many ? took : many;
		TH_LOG("%llu ns beside %u, %llu ns beside %u", few / LAP, nr / 4, many / LAP, nr);
	} while (++tries < 3 || (2 * many >= 3 * few && tries < 8));
	return 2 * many < 3 * few;
}

/* A full log, and this many changes that wait. */
static void start_waiting(struct _test_data_held *self, __u32 nr)
{
	fill_log(self);
	while (nr--)
		start_put(self, 8, 0);
	kvt_ring_submit(&self->ring);
	take_all(self);
}

static __u64 cancel_each(struct _test_data_held *self, __u32 nr)
{
	__u64 found = self->replies[0], missed = self->replies[1], canceled = self->canceled, took;
	struct laps laps;
	__u32 first = self->nr, i;

	start_waiting(self, nr);
	KVT_CHECK(self->under_way >= nr);
	laps_begin(&laps);
	for (i = 0; i < OPS; i++) {
		cancel(self, (1ull << 32) + i, i & 1 ? KVTREE_CANCEL_ALL : 0);
		kvt_ring_submit(&self->ring);
		take_all(self);
		laps_count(&laps, i);
	}
	took = laps.best;
	KVT_CHECK(self->replies[1] == missed + OPS);
	/* The last ones first: a search from the beginning would visit all.  Most keep waiting. */
	laps_begin(&laps);
	for (i = 0; i < OPS / 4; i++) {
		cancel(self, self->nr - 1 - i, 0);
		kvt_ring_submit(&self->ring);
		take_all(self);
		laps_count(&laps, i);
	}
	took += laps.best;
	KVT_CHECK(self->replies[0] == found + OPS / 4);
	cancel(self, 0, KVTREE_CANCEL_ANY);
	kvt_ring_submit(&self->ring);
	wait_all(self);
	KVT_CHECK(self->canceled >= canceled + nr);
	KVT_CHECK(self->canceled - canceled == self->replies[0] - found);
	self->nr = first;
	return took;
}

/* Otherwise each cancellation would look at all waiting commands, and hold up completions. */
TEST_F_TIMEOUT(held, cancellation_takes_no_longer_if_others_wait, 1800)
{
	if (cost_is_hidden())
		SKIP(return, "what the kernel checks costs more than what is measured");
	EXPECT_TRUE(cost_is_constant(_metadata, self, cancel_each));
}

static bool disk_is_asked(void *arg)
{
	return kvt_fault_held(arg);
}

/* The session is woken for the first one, and once more for the second. */
TEST_F(held, change_of_a_later_epoch_completes_when_that_is_durable)
{
	struct kvt_cqe cqe;
	int i;

	for (i = 0; i < 20; i++) {
		kvt_fault_hold(&self->disk, true);
		start_put(self, 8, KVTREE_F_SYNC);
		kvt_ring_submit(&self->ring);
		ASSERT_TRUE(kvt_eventually(disk_is_asked, &self->disk));
		start_put(self, 8, KVTREE_F_SYNC);
		kvt_ring_submit(&self->ring);
		kvt_fault_hold(&self->disk, false);
		while (self->under_way) {
			ASSERT_TRUE(kvt_ring_wait_ms(&self->ring, &cqe, 60000));
			take(self, &cqe);
		}
	}
}

/* Of these nothing is canceled any more.  Returns how many completed. */
static __u32 take_executed(struct _test_data_held *self, int cancel_says)
{
	struct kvt_cqe cqe;
	__u32 nr = 0;

	while (kvt_ring_reap(&self->ring, &cqe)) {
		KVT_CHECK(cqe.res == (cqe.data & OTHER ? cancel_says : 0));
		nr += !(cqe.data & OTHER);
	}
	return nr;
}

static bool one_waits(void *arg)
{
	const struct _test_data_held *self = arg;

	return kvt_stat(self->fd, KVTREE_STAT_URING_WAIT) > self->waits;
}

/* Commands of one user_data that were executed, and wait for the disk. */
static void start_syncs(struct _test_data_held *self, __u32 nr)
{
	struct kvtree_op *sync = &self->op[MANY];
	__u32 i;

	self->nr = 0;
	self->waits = kvt_stat(self->fd, KVTREE_STAT_URING_WAIT);
	kvt_fault_hold(&self->disk, true);
	start_put(self, 8, KVTREE_F_SYNC);
	kvt_ring_submit(&self->ring);
	KVT_CHECK(kvt_eventually(one_waits, self));
	*sync = (struct kvtree_op){ .opcode = KVTREE_OP_SYNC };
	for (i = 0; i < nr; i++)
		kvt_sqe_op(next_sqe(self), self->fd, sync, 0);
	kvt_ring_submit(&self->ring);
}

static __u64 cancel_in_vain(struct _test_data_held *self, __u32 nr)
{
	__u32 ended = 0, i;
	struct laps laps;

	start_syncs(self, nr);
	laps_begin(&laps);
	for (i = 0; i < OPS; i++) {
		kvt_sqe_cancel(kvt_ring_sqe(&self->ring), self->fd, 0,
			       i & 1 ? KVTREE_CANCEL_ALL : i & 2 ? KVTREE_CANCEL_ANY : 0, OTHER);
		kvt_ring_submit(&self->ring);
		KVT_CHECK(take_executed(self, -EALREADY) == 0);
		laps_count(&laps, i);
	}
	cancel(self, 1, KVTREE_CANCEL_ALL);
	kvt_ring_submit(&self->ring);
	KVT_CHECK(take_executed(self, -ENOENT) == 0);
	kvt_fault_hold(&self->disk, false);
	while (ended < nr + 1) {
		KVT_CHECK(kvt_ring_enter(&self->ring, 0, 1, IORING_ENTER_GETEVENTS) == 0);
		ended += take_executed(self, 0);
	}
	return laps.best;
}

/* Each cancellation would otherwise look at all of its user_data. */
TEST_F_TIMEOUT(held, cancellation_does_not_look_at_what_was_executed, 1800)
{
	if (cost_is_hidden())
		SKIP(return, "what the kernel checks costs more than what is measured");
	EXPECT_TRUE(cost_is_constant(_metadata, self, cancel_in_vain));
}

static int close_often(void *arg)
{
	const struct _test_data_held *self = arg;
	struct laps laps;
	__u32 i;

	laps_begin(&laps);
	for (i = 0; i < OPS; i++) {
		KVT_CHECK(close(dup(self->fd)) == 0);
		laps_count(&laps, i);
	}
	*self->took = laps.best;
	return 0;
}

static __u64 close_for_others(struct _test_data_held *self, __u32 nr)
{
	__u32 first = self->nr, canceled = self->canceled;

	start_waiting(self, nr);
	KVT_CHECK(self->canceled == canceled);
	KVT_CHECK(kvt_run(close_often, self) == 0);
	take_all(self);
	KVT_CHECK(self->canceled == canceled);
	/* Its own are. */
	KVT_CHECK(close(dup(self->fd)) == 0);
	wait_all(self);
	KVT_CHECK(self->canceled >= canceled + nr);
	self->nr = first;
	return *self->took;
}

/* Otherwise each close() would look at the waiting commands of all processes. */
TEST_F_TIMEOUT(held, close_does_not_look_at_what_others_submitted, 1800)
{
	if (cost_is_hidden())
		SKIP(return, "what the kernel checks costs more than what is measured");
	EXPECT_TRUE(cost_is_constant(_metadata, self, close_for_others));
}

/*
 * Names of what holds up a detach
 */

/* The process that is named first, and how many lines there are. */
static int read_waiting(const struct _test_data_held *self, unsigned int *lines)
{
	char path[128], text[1024];
	int pid = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/sys/kernel/debug/kvtree/%s/waiting", self->name);
	f = fopen(path, "re");
	KVT_CHECK(f);
	for (*lines = 0; fgets(text, sizeof(text), f); (*lines)++)
		if (!*lines)
			KVT_CHECK(sscanf(text, "%d command", &pid) == 1);
	fclose(f);
	return pid;
}

/* A command, and a call of another process. */
static bool two_wait(void *arg)
{
	unsigned int lines;

	read_waiting(arg, &lines);
	return lines == 2;
}

static int put_and_tell(void *arg)
{
	const struct _test_data_held *self = arg;

	return -kvt_put(self->fd, STR("waits"), STR("v"), NULL);
}

static int detach_and_tell(void *arg)
{
	const struct _test_data_held *self = arg;

	return -kvt_detach(self->dev, self->name);
}

static bool none_is_under_way(void *arg)
{
	struct _test_data_held *self = arg;
	struct kvt_cqe cqe;

	while (kvt_ring_reap(&self->ring, &cqe)) {
		self->canceled += cqe.res == -ESTALE;
		self->under_way--;
	}
	return !self->under_way;
}

/* The disk that would make room may never answer.  What was changed has to be written there. */
TEST_F(held, changes_that_wait_for_room_end_with_their_store)
{
	struct kvt_process put = {};
	int detach;

	fill_log(self);
	put.pid = kvt_fork(put_and_tell, self);
	ASSERT_TRUE(kvt_eventually(two_wait, self));
	detach = kvt_fork(detach_and_tell, self);
	EXPECT_TRUE(kvt_eventually(kvt_has_ended, &put));
	EXPECT_TRUE(kvt_eventually(none_is_under_way, self));
	/* All that still wait end. */
	kvt_fault_hold(&self->disk, false);
	EXPECT_TRUE(WIFEXITED(put.status));
	EXPECT_EQ(ESTALE, WEXITSTATUS(put.status));
	EXPECT_LE(1, self->canceled);
	EXPECT_EQ(0, kvt_wait(detach));
}

static int start_and_stay(void *arg)
{
	struct _test_data_held *self = arg;

	kvt_ring_make(&self->ring, ENTRIES, 0);
	/* Not the parent's. */
	self->nr = MANY;
	start_put(self, 8, KVTREE_F_SYNC);
	kvt_ring_submit(&self->ring);
	for (;;)
		pause();
	return 0;
}

struct named {
	const struct _test_data_held *self;
	int pid;
};

static bool is_named(void *arg)
{
	const struct named *n = arg;
	unsigned int lines;

	return read_waiting(n->self, &lines) == n->pid && lines == 1;
}

/* Whether this process is named once the child that was named is gone. */
static bool outlive_a_child(struct __test_metadata *_metadata, struct _test_data_held *self)
{
	struct named child = { self }, own = { self, getpid() };
	__u32 i;

	child.pid = kvt_fork(start_and_stay, self);
	EXPECT_TRUE(kvt_eventually(is_named, &child));
	for (i = 0; i < 100; i++)
		start_put(self, 8, KVTREE_F_SYNC);
	kvt_ring_submit(&self->ring);
	EXPECT_TRUE(is_named(&child));
	KVT_CHECK(kill(child.pid, SIGKILL) == 0);
	KVT_CHECK(waitpid(child.pid, NULL, 0) == child.pid);
	return kvt_eventually(is_named, &own);
}

/* More than once: a slow machine may hear only after the kill of an event before it. */
TEST_F(held, process_that_is_gone_is_not_in_the_way)
{
	bool named = true;
	int round;

	for (round = 0; round < 5 && named; round++) {
		kvt_fault_hold(&self->disk, true);
		named = outlive_a_child(_metadata, self);
		kvt_fault_hold(&self->disk, false);
		wait_all(self);
	}
	EXPECT_TRUE(named);
}

/*
 * Results of commands when their process ends, or their memory goes away
 */

/* A ring that children have, too. */
static void make_small_ring(struct _test_data_held *self)
{
	kvt_ring_exit(&self->ring);
	kvt_ring_make(&self->ring, 4, 0);
}

static int submit_and_exec(void *arg)
{
	struct _test_data_held *self = arg;

	kvt_ring_submit(&self->ring);
	KVT_CHECK(kvt_eventually(one_waits, self));
	execl("/bin/true", "true", NULL);
	return 99;
}

/* An executed change is not undone, whatever happens to the process. */
TEST_F(held, command_that_is_canceled_when_it_was_executed_reports_it)
{
	struct kvt_cqe cqe;

	make_small_ring(self);
	start_put(self, 8, KVTREE_F_SYNC);
	ASSERT_EQ(0, kvt_run(submit_and_exec, self));
	kvt_ring_wait(&self->ring, &cqe);
	EXPECT_EQ(-EINTR, cqe.res);
	EXPECT_TRUE(kvt_has(self->fd, kvt_bytes(&(__u32){ 0 }, 4), kvt_bytes(self->val, 8)));
}

struct stopped {
	struct _test_data_held *self;
	struct kvt_ring ring;
};

static int submit_and_stop(void *arg)
{
	struct stopped *s = arg;

	touch_shared(s->self, &s->self->op[MANY]);
	touch_shared(s->self, &s->self->op[MANY + 1]);
	KVT_CHECK(kvt_ring_enter(&s->ring, 2, 0, 0) == 2);
	KVT_CHECK(close(s->ring.fd) == 0);
	raise(SIGSTOP);
	return 0;
}

/* Two commands of a session that has no descriptor: a change, and what waits for the disk. */
static void prepare_commands(struct _test_data_held *self, struct kvt_ring *ring)
{
	struct kvtree_op *op = &self->op[MANY];
	int fd = kvt_store(self->dev, self->name, RW);
	struct io_uring_sqe *sqe;
	__u32 i;

	KVT_CHECK(fd >= 0);
	KVT_CHECK(kvt_ring_files(ring, &fd, 1) == 0);
	KVT_CHECK(close(fd) == 0);
	op[0] = (struct kvtree_op){ .opcode = KVTREE_OP_SYNC };
	op[1] = (struct kvtree_op){
		.opcode = KVTREE_OP_PUT,
		.flags = KVTREE_F_KEY_INLINE,
		.key_len = 4,
		.val = kvt_ptr(self->val),
		.val_len = LEN,
	};
	for (i = 0; i < 2; i++) {
		sqe = kvt_ring_sqe(ring);
		kvt_sqe_op(sqe, 0, &op[i], i);
		sqe->flags |= IOSQE_FIXED_FILE;
	}
	kvt_ring_publish(ring);
	keep_from_children(ring);
}

/* Otherwise a kernel thread retries as long as the submitter does not run. */
TEST_F(held, commands_end_with_their_ring_though_their_submitter_is_stopped)
{
	struct named own = { self, getpid() };
	int users = kvt_module_users(), pid, status;
	struct stopped stopped = { self };
	__u64 canceled;

	fill_log(self);
	canceled = kvt_stat(self->fd, KVTREE_STAT_URING_CANCEL);
	kvt_ring_make(&stopped.ring, 4, 0);
	prepare_commands(self, &stopped.ring);
	pid = kvt_fork(submit_and_stop, &stopped);
	ASSERT_EQ(pid, waitpid(pid, &status, WUNTRACED));
	ASSERT_TRUE(WIFSTOPPED(status));
	EXPECT_FALSE(is_named(&own));
	kvt_ring_exit(&stopped.ring);
	EXPECT_TRUE(kvt_eventually(is_named, &own));
	EXPECT_EQ(canceled + 1, kvt_stat(self->fd, KVTREE_STAT_URING_CANCEL));
	ASSERT_EQ(0, kill(pid, SIGCONT));
	EXPECT_EQ(0, kvt_wait(pid));
	EXPECT_TRUE(kvt_eventually(kvt_module_users_are, &users));
	kvt_fault_hold(&self->disk, false);
	wait_all(self);
}

/* A request of its own, so that io_uring cancels those of the ring before the new program. */
static int exec_beside_stopped(void *arg)
{
	struct stopped s = { arg };
	struct io_uring_sqe *sqe;
	int fds[2], status, pid;

	kvt_ring_make(&s.ring, 4, 0);
	KVT_CHECK(pipe(fds) == 0);
	sqe = kvt_ring_sqe(&s.ring);
	sqe->opcode = IORING_OP_POLL_ADD;
	sqe->fd = fds[0];
	sqe->poll32_events = POLLIN;
	kvt_ring_submit(&s.ring);
	prepare_commands(s.self, &s.ring);
	pid = kvt_fork(submit_and_stop, &s);
	KVT_CHECK(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status));
	execl("/bin/sleep", "sleep", "1000", NULL);
	return 99;
}

struct canceled {
	int fd;
	__u64 before;
};

static bool one_is_canceled(void *arg)
{
	const struct canceled *c = arg;

	return kvt_stat(c->fd, KVTREE_STAT_URING_CANCEL) > c->before;
}

/* Not by the thread of a ring that is closed, but by one that has it, too. */
TEST_F(held, commands_end_with_execve_though_their_submitter_is_stopped)
{
	struct canceled c = { self->fd, kvt_stat(self->fd, KVTREE_STAT_URING_CANCEL) };
	int pid;

	fill_log(self);
	pid = kvt_fork(exec_beside_stopped, self);
	EXPECT_TRUE(kvt_eventually(one_is_canceled, &c));
	ASSERT_EQ(0, kill(pid, SIGKILL));
	EXPECT_EQ(128 + SIGKILL, kvt_wait(pid));
	kvt_fault_hold(&self->disk, false);
	wait_all(self);
}

static int submit_and_stay(void *arg)
{
	kvt_ring_submit(arg);
	for (;;)
		pause();
	return 0;
}

/* A worker waits for the change's data when its process is killed. */
TEST_F(held, command_that_a_kill_ends_before_it_is_executed_was_canceled)
{
	__u64 canceled = kvt_stat(self->fd, KVTREE_STAT_URING_CANCEL);
	__u64 executed = kvt_stat(self->fd, KVTREE_STAT_URING);
	struct kvt_silent silent;
	struct kvt_cqe cqe;
	int pid;

	if (!kvt_silent_make(&silent, 1))
		SKIP(return, "the kernel has no FUSE");
	make_small_ring(self);
	start_put(self, 8, 0);
	self->op[0].val = kvt_ptr(silent.mem);
	self->op[0].result = 77;
	kvt_ring_sqe_at(&self->ring, 0)->flags |= IOSQE_ASYNC;
	pid = kvt_fork(submit_and_stay, &self->ring);
	kvt_silent_wait(&silent, 1);
	ASSERT_EQ(0, kill(pid, SIGKILL));
	kvt_ring_wait(&self->ring, &cqe);
	EXPECT_EQ(-ECANCELED, cqe.res);
	EXPECT_EQ(77, self->op[0].result);
	ASSERT_EQ(pid, waitpid(pid, NULL, 0));
	EXPECT_EQ(0, kvt_version(self->fd, kvt_bytes(&(__u32){ 0 }, 4)));
	EXPECT_EQ(canceled + 1, kvt_stat(self->fd, KVTREE_STAT_URING_CANCEL));
	EXPECT_EQ(executed, kvt_stat(self->fd, KVTREE_STAT_URING));
	kvt_silent_end(&silent);
}

/* Keys in a leaf that has room: a change that has to get memory first may end with that. */
#define NEAR(n)		STR("layer---" n)

/* Touches memory that does not come, and is killed there. */
struct stuck {
	struct _test_data_held *self;
	struct kvt_silent silent;
};

static int submit_and_touch(void *arg)
{
	struct stuck *s = arg;
	struct kvtree_op *op = &s->self->op[MANY];

	kvt_ring_make(&s->self->ring, 4, 0);
	/* Not the parent's. */
	s->self->nr = MANY;
	touch_shared(s->self, op);
	start_put(s->self, 8, 0);
	op->key_len = (__u16)NEAR("3").len;
	memcpy(op->key_inline, NEAR("3").data, NEAR("3").len);
	kvt_ring_submit(&s->self->ring);
	return *(volatile char *)s->silent.mem;
}

/* Its change may be made, and would be by the task, as the last thing that it does. */
TEST_F(held, killed_process_does_not_make_the_changes_that_waited)
{
	__u64 canceled = kvt_stat(self->fd, KVTREE_STAT_URING_CANCEL);
	struct stuck stuck = { self };
	int pid;

	if (!kvt_silent_make(&stuck.silent, 1))
		SKIP(return, "the kernel has no FUSE");
	ASSERT_EQ(0, kvt_put(self->fd, NEAR("1"), kvt_bytes(self->val, 8), NULL));
	ASSERT_EQ(0, kvt_put(self->fd, NEAR("2"), kvt_bytes(self->val, 8), NULL));
	fill_log(self);
	pid = kvt_fork(submit_and_touch, &stuck);
	kvt_silent_wait(&stuck.silent, 1);
	/* When this one is made, the one before it was sent to its task. */
	start_put(self, 8, 0);
	kvt_ring_submit(&self->ring);
	kvt_fault_hold(&self->disk, false);
	wait_all(self);
	ASSERT_EQ(0, self->canceled);
	ASSERT_EQ(0, kill(pid, SIGKILL));
	ASSERT_EQ(128 + SIGKILL, kvt_wait(pid));
	EXPECT_EQ(0, kvt_version(self->fd, NEAR("3")));
	EXPECT_EQ(canceled + 1, kvt_stat(self->fd, KVTREE_STAT_URING_CANCEL));
	kvt_silent_end(&stuck.silent);
}

/* The second command runs when the first one's fault has ended, by a kill. */
TEST_F(held, cancellation_by_a_process_that_was_killed_ends)
{
	__u32 nr = kvt_fewer(MANY, 8);
	struct kvt_silent silent;
	struct io_uring_sqe *sqe;
	struct kvt_ring ring;
	struct kvt_cqe cqe;
	__u32 i;
	int pid;

	if (!kvt_silent_make(&silent, 1))
		SKIP(return, "the kernel has no FUSE");
	fill_log(self);
	for (i = 0; i < nr; i++)
		start_put(self, 8, 0);
	kvt_ring_submit(&self->ring);
	take_all(self);
	kvt_ring_make(&ring, 4, IORING_SETUP_SUBMIT_ALL);
	sqe = kvt_ring_sqe(&ring);
	sqe->opcode = IORING_OP_EPOLL_CTL;
	sqe->fd = -1;
	sqe->len = 1;			/* EPOLL_CTL_ADD */
	sqe->addr = kvt_ptr(silent.mem);
	kvt_sqe_cancel(kvt_ring_sqe(&ring), self->fd, 0, KVTREE_CANCEL_ANY, OTHER);
	pid = kvt_fork(submit_and_stay, &ring);
	kvt_silent_wait(&silent, 1);
	ASSERT_EQ(0, kill(pid, SIGKILL));
	ASSERT_EQ(128 + SIGKILL, kvt_wait(pid));
	kvt_ring_wait(&ring, &cqe);
	EXPECT_EQ(-EFAULT, cqe.res);
	kvt_ring_wait(&ring, &cqe);
	EXPECT_EQ(OTHER, cqe.data);
	EXPECT_LT(0, cqe.res);
	EXPECT_GT(nr, cqe.res);
	/* The others wait yet. */
	cancel(self, 0, KVTREE_CANCEL_ANY);
	kvt_ring_submit(&self->ring);
	wait_all(self);
	EXPECT_EQ(self->canceled, self->replies[0] + cqe.res);
	kvt_ring_exit(&ring);
	kvt_silent_end(&silent);
}

/*
 * Kill a process while the last operation of its batch waits for memory, on a worker.
 * Returns the batch's result.
 */
static int killed_batch(struct _test_data_held *self, struct kvt_silent *silent,
			const struct kvtree_op *ops, __u32 nr, __u32 page)
{
	int pid;

	kvt_sqe_batch(kvt_ring_sqe(&self->ring), self->fd, ops, nr, page);
	pid = kvt_fork(submit_and_stay, &self->ring);
	kvt_silent_wait(silent, page + 1);
	KVT_CHECK(kill(pid, SIGKILL) == 0);
	KVT_CHECK(kvt_wait(pid) == 128 + SIGKILL);
	return kvt_ring_result(&self->ring, page);
}

static struct kvtree_op inline_op(__u16 opcode, const char *key, void *val)
{
	struct kvtree_op op = {
		.opcode = opcode,
		.flags = KVTREE_F_KEY_INLINE,
		.key_len = strlen(key),
		.val = kvt_ptr(val),
		.val_len = 8,
		.result = 77,
	};

	memcpy(op.key_inline, key, op.key_len);
	return op;
}

TEST_F(held, batch_that_a_kill_ends_reports_what_was_executed)
{
	__u64 canceled = kvt_stat(self->fd, KVTREE_STAT_URING_CANCEL);
	size_t page = sysconf(_SC_PAGESIZE);
	struct kvtree_op *ops = self->op;
	struct kvt_silent silent;

	if (!kvt_silent_make(&silent, 3))
		SKIP(return, "the kernel has no FUSE");
	make_small_ring(self);
	ops[0] = inline_op(KVTREE_OP_PUT, "first", silent.mem);
	EXPECT_EQ(-ECANCELED, killed_batch(self, &silent, ops, 1, 0));
	EXPECT_EQ(77, ops[0].result);
	ops[0] = inline_op(KVTREE_OP_PUT, "first", self->val);
	ops[1] = inline_op(KVTREE_OP_PUT, "second", silent.mem + page);
	EXPECT_EQ(1, killed_batch(self, &silent, ops, 2, 1));
	EXPECT_EQ(0, ops[0].result);
	EXPECT_EQ(77, ops[1].result);
	EXPECT_LT(0, kvt_version(self->fd, STR("first")));
	EXPECT_EQ(0, kvt_version(self->fd, STR("second")));
	ops[0] = inline_op(KVTREE_OP_GET, "first", silent.mem + 2 * page);
	EXPECT_EQ(-ECANCELED, killed_batch(self, &silent, ops, 1, 2));
	EXPECT_EQ(77, ops[0].result);
	EXPECT_EQ(canceled + 2, kvt_stat(self->fd, KVTREE_STAT_URING_CANCEL));
	kvt_silent_end(&silent);
}

struct late {
	int fd;
	int pid;
	const struct kvtree_op *op;	/* where nobody can write */
	__u64 waits;
};

static int submit_late(void *arg)
{
	const struct late *late = arg;
	struct kvt_ring ring;
	cpu_set_t cpus;

	kvt_ring_make(&ring, 1, 0);
	/* It goes to a worker, as its outcome needs a page. */
	KVT_CHECK(sched_getaffinity(0, sizeof(cpus), &cpus) == 0);
	KVT_CHECK(kvt_ring_register(&ring, IORING_REGISTER_IOWQ_AFF, &cpus, sizeof(cpus)) == 0);
	kvt_sqe_op(kvt_ring_sqe(&ring), late->fd, late->op, MANY);
	return -kvt_ring_result(&ring, MANY);
}

static bool late_waits(void *arg)
{
	const struct late *late = arg;

	return kvt_stat(late->fd, KVTREE_STAT_URING_WAIT) > late->waits;
}

static bool late_is_there(void *arg)
{
	return kvt_version(((const struct late *)arg)->fd, STR("late"));
}

/* Whether its thread is seen blocked, or not blocked, so often in a row. */
static bool late_stays(const struct late *late, bool blocked, int times)
{
	int i;

	for (i = 0; i < times && kvt_thread_blocks(late->pid, "") == blocked; i++)
		kvt_sleep_ms(20);
	return i == times;
}

/* Where its outcome is copied: at a lock on the way there it is not for so long. */
static bool late_is_stuck(void *arg)
{
	return late_stays(arg, true, 5);
}

/* A change that has waited, and was made: its outcome cannot be copied yet. */
static int start_late(struct _test_data_held *self, struct late *late, struct kvt_silent *silent)
{
	struct kvtree_op op = inline_op(KVTREE_OP_PUT, "late", self->val);

	op.flags |= KVTREE_F_SYNC;
	late->fd = self->fd;
	late->op = (const void *)kvt_silent_write(silent, &op, sizeof(op));
	fill_log(self);
	late->waits = kvt_stat(self->fd, KVTREE_STAT_URING_WAIT);
	late->pid = kvt_fork(submit_late, late);
	KVT_CHECK(kvt_eventually(late_waits, late));
	kvt_fault_hold(&self->disk, false);
	KVT_CHECK(kvt_eventually(late_is_there, late));
	wait_all(self);
	KVT_CHECK(kvt_eventually(late_is_stuck, late));
	return late->pid;
}

static int cancel_late(struct _test_data_held *self)
{
	kvt_sqe_cancel(kvt_ring_sqe(&self->ring), self->fd, MANY, 0, OTHER);
	return kvt_ring_result(&self->ring, OTHER);
}

/* It does not wait to be durable before that, and is found until then. */
TEST_F(held, command_whose_outcome_is_copied_cannot_be_canceled)
{
	struct kvt_silent silent;
	struct late late;
	int pid;

	if (!kvt_silent_make(&silent, 1))
		SKIP(return, "the kernel has no FUSE");
	pid = start_late(self, &late, &silent);
	EXPECT_EQ(-EALREADY, cancel_late(self));
	kvt_silent_answer(&silent);
	EXPECT_EQ(0, kvt_wait(pid));
	kvt_silent_end(&silent);
}

static bool is_gone(void *arg)
{
	__u64 stats[KVTREE_STAT_NR];

	return kvt_stats(*(int *)arg, stats) == -ESTALE;
}

/*
 * Have its store detached, which waits for the disk, before its outcome is copied.  Returns the
 * process that detaches.
 */
static int detach_from_late(struct __test_metadata *_metadata, struct _test_data_held *self,
			    struct kvt_silent *silent)
{
	int detacher;

	kvt_fault_hold(&self->disk, true);
	detacher = kvt_fork(detach_and_tell, self);
	ASSERT_TRUE(kvt_eventually(is_gone, &self->fd));
	kvt_silent_answer(silent);
	return detacher;
}

/* The detach tells it whether it became durable. */
TEST_F(held, command_whose_store_is_detached_cannot_be_canceled)
{
	struct kvt_silent silent;
	int pid, detacher, i;
	struct late late;

	if (!kvt_silent_make(&silent, 1))
		SKIP(return, "the kernel has no FUSE");
	pid = start_late(self, &late, &silent);
	detacher = detach_from_late(_metadata, self, &silent);
	for (i = 0; i < 10; i++) {
		kvt_sleep_ms(10);
		EXPECT_EQ(-EALREADY, cancel_late(self));
	}
	kvt_fault_hold(&self->disk, false);
	EXPECT_EQ(0, kvt_wait(detacher));
	EXPECT_EQ(0, kvt_wait(pid));
	kvt_silent_end(&silent);
}

/* Not only on its way from one wait to the next. */
static bool late_goes_on(void *arg)
{
	return late_stays(arg, false, 50);
}

/* It may hold its ring's lock, and the disk may never answer. */
TEST_F(held, command_whose_store_is_detached_waits_without_a_thread)
{
	struct kvt_silent silent;
	struct late late;
	int pid, detacher;

	if (!kvt_silent_make(&silent, 1))
		SKIP(return, "the kernel has no FUSE");
	pid = start_late(self, &late, &silent);
	detacher = detach_from_late(_metadata, self, &silent);
	EXPECT_TRUE(kvt_eventually(late_goes_on, &late));
	/* Not because it has ended. */
	EXPECT_EQ(0, waitpid(pid, NULL, WNOHANG));
	kvt_fault_hold(&self->disk, false);
	EXPECT_EQ(0, kvt_wait(detacher));
	EXPECT_EQ(0, kvt_wait(pid));
	kvt_silent_end(&silent);
}

TEST_F(held, command_whose_store_is_detached_ends_with_its_process)
{
	struct kvt_process late_one = {};
	struct kvt_silent silent;
	struct late late;
	int detacher;

	if (!kvt_silent_make(&silent, 1))
		SKIP(return, "the kernel has no FUSE");
	late_one.pid = start_late(self, &late, &silent);
	detacher = detach_from_late(_metadata, self, &silent);
	EXPECT_TRUE(kvt_eventually(late_goes_on, &late));
	KVT_CHECK(kill(late.pid, SIGKILL) == 0);
	EXPECT_TRUE(kvt_eventually(kvt_has_ended, &late_one));
	EXPECT_TRUE(WIFSIGNALED(late_one.status));
	kvt_fault_hold(&self->disk, false);
	EXPECT_EQ(0, kvt_wait(detacher));
	kvt_silent_end(&silent);
}

/* Its outcome has no place: that can be seen; that the change is not durable cannot. */
TEST_F(held, fault_of_a_command_does_not_hide_that_it_is_not_durable)
{
	struct kvt_cqe cqe;

	start_put(self, 8, KVTREE_F_SYNC);
	ASSERT_EQ(0, mprotect(self->op, sysconf(_SC_PAGESIZE), PROT_READ));
	kvt_ring_submit(&self->ring);
	kvt_fault_hold(&self->disk, false);
	kvt_ring_wait(&self->ring, &cqe);
	EXPECT_EQ(-EFAULT, cqe.res);
	kvt_fault_fail(&self->disk, "medium", "wf", 1, 1000000);
	kvt_sqe_op(kvt_ring_sqe(&self->ring), self->fd, self->op, 0);
	kvt_ring_submit(&self->ring);
	kvt_ring_wait(&self->ring, &cqe);
	EXPECT_EQ(-EIO, cqe.res);
}

/* A request that fails is to be that of a command. */
int main(int argc, char **argv)
{
	if (!kvt_faults_load()) {
		printf("TAP version 13\n1..0 # SKIP the lane has no disks that fail\n");
		return KSFT_SKIP;
	}
	kvt_never_idle();
	return test_harness_run(argc, argv);
}
