// SPDX-License-Identifier: GPL-2.0
/*
 * Threads that wait for their own memory keep no memory of a store.  Their buffer is a
 * file that does not answer, and the memory cgroup of the store's creator shows what is
 * still allocated.
 */
#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>
#include "kselftest_harness.h"
#include "lib/group.h"
#include "lib/kvt_test.h"
#include "lib/silent.h"
#include "lib/uring.h"

#define RW		(KVTREE_OPEN_READ | KVTREE_OPEN_WRITE)
#define THREADS		16
#define KEYS		32
#define LEN		(1u << 20)

static void *touch(void *arg)
{
	return (void *)(long)*(volatile char *)arg;
}

TEST(a_silent_file_holds_threads_until_it_answers)
{
	struct kvt_silent s;
	pthread_t threads[3];
	void *byte;
	int i;

	if (!kvt_silent_make(&s, NR(threads)))
		SKIP(return, "the kernel has no FUSE");
	for (i = 0; i < NR(threads); i++)
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, touch,
					    s.mem + i * (s.len / NR(threads))));
	kvt_silent_wait(&s, NR(threads));
	for (i = 0; i < NR(threads); i++)
		EXPECT_EQ(EBUSY, pthread_tryjoin_np(threads[i], &byte));
	kvt_silent_answer(&s);
	for (i = 0; i < NR(threads); i++) {
		ASSERT_EQ(0, pthread_join(threads[i], &byte));
		EXPECT_EQ(NULL, byte);
	}
	kvt_silent_end(&s);
}

/* What the three do, one after the other: shared with the last one, which is a process. */
struct row {
	char *shared;		/* the first writes to it, and blocks with its memory's lock */
	char *anonymous;	/* the second unmaps it, and waits for the first, or need not */
	char *mem;		/* the third reads it */
	int pid;
	int tid[2];
	int begin;		/* how many may */
	bool is_unmapped;
};

static void begin(struct row *row, int nr)
{
	row->tid[nr] = gettid();
	while (__atomic_load_n(&row->begin, __ATOMIC_ACQUIRE) <= nr)
		kvt_sleep_ms(1);
}

static void *write_shared(void *arg)
{
	struct row *row = arg;

	begin(row, 0);
	*(volatile char *)row->shared = 1;
	return NULL;
}

static void *unmap(void *arg)
{
	struct row *row = arg;

	begin(row, 1);
	KVT_CHECK(munmap(row->anonymous, 4096) == 0);
	__atomic_store_n(&row->is_unmapped, true, __ATOMIC_RELEASE);
	return NULL;
}

static bool is_blocked(const struct row *row, int nr)
{
	char path[64], state;
	FILE *file;
	int got;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", row->pid, row->tid[nr]);
	file = fopen(path, "re");
	if (!file)
		return false;
	got = fscanf(file, "%*d %*s %c", &state);
	fclose(file);
	return got == 1 && state == 'D';
}

static bool writer_waits(void *arg)
{
	return is_blocked(arg, 0);
}

static bool unmapper_waits_or_need_not(void *arg)
{
	struct row *row = arg;

	return is_blocked(row, 1) || __atomic_load_n(&row->is_unmapped, __ATOMIC_ACQUIRE);
}

static int read_last(void *arg)
{
	struct row *row = arg;

	__atomic_store_n(&row->begin, 1, __ATOMIC_RELEASE);
	KVT_CHECK(kvt_eventually(writer_waits, row));
	__atomic_store_n(&row->begin, 2, __ATOMIC_RELEASE);
	KVT_CHECK(kvt_eventually(unmapper_waits_or_need_not, row));
	return *(volatile char *)row->mem;
}

/* A process, since a thread would share the memory of the three and may need its lock. */
static int answer_both(void *arg)
{
	kvt_silent_wait(arg, 2);
	kvt_silent_answer(arg);
	return 0;
}

/* Its server takes requests while a thread waits for the lock of the test's memory. */
TEST(a_silent_file_may_need_a_lock_of_its_readers)
{
	struct row *row = kvt_map_shared(sizeof(*row));
	void *(*const fn[])(void *arg) = { write_shared, unmap };
	pthread_t threads[NR(fn)];
	struct kvt_silent s;
	int i, answerer, reader;

	if (!kvt_silent_make(&s, 2))
		SKIP(return, "the kernel has no FUSE");
	row->pid = getpid();
	row->mem = s.mem + s.len / 2;
	row->anonymous = kvt_map_shared(4096);
	row->shared = kvt_silent_write(&s, "", 1);
	for (i = 0; i < NR(fn); i++)
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, fn[i], row));
	answerer = kvt_fork(answer_both, &s);
	reader = kvt_fork(read_last, row);
	for (i = 0; i < NR(fn); i++)
		ASSERT_EQ(0, pthread_join(threads[i], NULL));
	EXPECT_EQ(0, kvt_wait(answerer));
	EXPECT_EQ(0, kvt_wait(reader));
	kvt_silent_end(&s);
}

FIXTURE(pinned) {
	struct kvt_group creator;
	struct kvt_silent silent;
	char name[KVTREE_NAME_MAX];
	int dev;
	int fd;
	char *val;
	long empty;		/* bytes of the group, when the store was empty */
};

static int create(void *arg)
{
	struct _test_data_pinned *self = arg;

	kvt_group_enter(&self->creator);
	return kvt_create(self->dev, self->name, 0600, 0, 0);
}

FIXTURE_SETUP(pinned)
{
	char bound[16];

	self->dev = kvt_open();
	ASSERT_LE(0, self->dev);
	if (!kvt_group_make(&self->creator, "pinned"))
		SKIP(return, "the kernel has no memory cgroups here");
	/* A megabyte from any of the threads' pages on. */
	if (!kvt_silent_make(&self->silent, LEN / 4096 + THREADS + 1))
		SKIP(return, "the kernel has no FUSE");
	snprintf(self->name, sizeof(self->name), "test-pinned-%d", getpid());
	kvt_set_bound("1", bound, sizeof(bound));
	ASSERT_EQ(0, kvt_run(create, self));
	kvt_set_bound(bound, NULL, 0);
	self->fd = kvt_store(self->dev, self->name, RW);
	ASSERT_LE(0, self->fd);
	self->val = malloc(LEN);
	ASSERT_NE(NULL, self->val);
	self->empty = kvt_group_bytes(&self->creator);
}

FIXTURE_TEARDOWN(pinned)
{
	if (self->fd > 0) {
		kvt_silent_end(&self->silent);
		close(self->fd);
		EXPECT_EQ(0, kvt_destroy(self->dev, self->name));
		free(self->val);
	}
	close(self->dev);
	kvt_group_end(&self->creator);
}

enum kind {
	GET,
	GET_COLUMNS,
	GETS,			/* in a batch, which begins with short ones */
	SCAN,
	PUT,
	PUT_COLUMNS,
	KINDS
};

struct waiter {
	struct _test_data_pinned *self;
	pthread_t thread;
	enum kind kind;
	__u32 nr;
	__u64 val;		/* its own page of silence, and what follows */
	__u64 version;		/* of the operation, afterwards */
	int result;
};

static void put_all(struct _test_data_pinned *self, char byte)
{
	__u32 i;

	memset(self->val, byte, LEN);
	for (i = 0; i < KEYS; i++)
		KVT_CHECK(kvt_put(self->fd, kvt_bytes(&i, 4), kvt_bytes(self->val, LEN), NULL)
			  == 0);
}

static void remove_all(struct _test_data_pinned *self)
{
	__u32 i;

	for (i = 0; i < KEYS; i++)
		KVT_CHECK(kvt_remove(self->fd, kvt_bytes(&i, 4)) == 0);
}

static bool nothing_waits(void *arg)
{
	return !kvt_stat(*(int *)arg, KVTREE_STAT_WAITING_BYTES);
}

/* Freed memory is uncharged from the group a little later. */
static bool little_is_left(void *arg)
{
	struct _test_data_pinned *self = arg;

	return kvt_group_bytes(&self->creator) - self->empty < KVT_GROUP_SLACK;
}

static int gets(struct waiter *w)
{
	struct kvtree_op ops[16];
	__u32 keys[NR(ops)], done;
	int i;

	for (i = 0; i < NR(ops); i++) {
		keys[i] = (w->nr + i) % KEYS;
		ops[i] = kvt_op(KVTREE_OP_GET, kvt_bytes(&keys[i], 4));
		ops[i].val = w->val;
		ops[i].val_len = LEN;
	}
	KVT_CHECK(kvt_batch(w->self->fd, ops, NR(ops), &done) == 0);
	for (i = 1; i < NR(ops); i++)
		KVT_CHECK(ops[i].result == ops[0].result || ops[i].result == -ENOENT);
	return ops[0].result;
}

static void *wait_thread(void *arg)
{
	struct kvtree_col col = { .id = 0, .len = LEN };
	struct kvtree_scan scan = { .limit = 1 };
	struct waiter *w = arg;
	struct kvtree_op op;

	op = kvt_op(w->kind == SCAN ? KVTREE_OP_SCAN : w->kind < PUT ? KVTREE_OP_GET :
		    KVTREE_OP_PUT, kvt_bytes(&w->nr, 4));
	op.val = w->val;
	op.val_len = LEN;
	if (w->kind == GET_COLUMNS || w->kind == PUT_COLUMNS) {
		op.flags |= KVTREE_F_COLS;
		op.arg = kvt_ptr(&col);
		op.ncols = 1;
	} else if (w->kind == SCAN) {
		op.arg = kvt_ptr(&scan);
		op.val_len += 64;
	}
	w->result = w->kind == GETS ? gets(w) : kvt_exec(w->self->fd, &op);
	w->version = op.version;
	return NULL;
}

static void start(struct _test_data_pinned *self, struct waiter *w, enum kind what, __u32 nr)
{
	*w = (struct waiter) {
		.self = self, .kind = what, .nr = nr,
		.val = kvt_ptr(self->silent.mem + nr * 4096),
	};
	KVT_CHECK(pthread_create(&w->thread, NULL, wait_thread, w) == 0);
}

/* The value was longer when a page was found missing. */
TEST_F(pinned, a_get_writes_nothing_behind_its_value)
{
	static const enum kind kinds[] = { GET, GET_COLUMNS };
	struct waiter w[NR(kinds)];
	size_t at, changed = 0;
	char *mem[NR(kinds)];
	__u32 i;

	memset(self->val, 'a', LEN);
	for (i = 0; i < NR(kinds); i++) {
		ASSERT_EQ(0, kvt_put(self->fd, kvt_bytes(&i, 4), kvt_bytes(self->val, LEN), NULL));
		/* The first page is silent, and those that follow are there. */
		mem[i] = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			      0);
		ASSERT_NE(MAP_FAILED, mem[i]);
		memset(mem[i], 'p', LEN);
		ASSERT_EQ(mem[i], mmap(mem[i], 4096, PROT_READ | PROT_WRITE,
				       MAP_PRIVATE | MAP_FIXED, self->silent.file,
				       (off_t)i * 4096));
		w[i] = (struct waiter) {
			.self = self, .kind = kinds[i], .nr = i, .val = kvt_ptr(mem[i]),
		};
		ASSERT_EQ(0, pthread_create(&w[i].thread, NULL, wait_thread, &w[i]));
	}
	kvt_silent_wait(&self->silent, NR(kinds));
	for (i = 0; i < NR(kinds); i++)
		ASSERT_EQ(0, kvt_put(self->fd, kvt_bytes(&i, 4), STR("short"), NULL));
	kvt_silent_answer(&self->silent);
	for (i = 0; i < NR(kinds); i++) {
		ASSERT_EQ(0, pthread_join(w[i].thread, NULL));
		EXPECT_EQ(5, w[i].result);
		EXPECT_EQ(0, memcmp(mem[i], "short", 5));
		for (at = 4096; at < LEN; at++)
			changed += mem[i][at] != 'p';
		munmap(mem[i], LEN);
	}
	EXPECT_EQ(0, changed);
}

TEST_F(pinned, readers_keep_nothing_of_a_store)
{
	struct waiter w[THREADS];
	int i;

	put_all(self, 'a');
	for (i = 0; i < THREADS; i++)
		start(self, &w[i], i % PUT, i);
	kvt_silent_wait(&self->silent, THREADS);
	remove_all(self);
	EXPECT_TRUE(kvt_eventually(nothing_waits, &self->fd));
	EXPECT_TRUE(kvt_eventually(little_is_left, self));
	kvt_silent_break(&self->silent);
	for (i = 0; i < THREADS; i++) {
		ASSERT_EQ(0, pthread_join(w[i].thread, NULL));
		EXPECT_EQ(-EFAULT, w[i].result);
	}
}

/* The page comes, and the value is another one by then: it is read whole. */
TEST_F(pinned, what_is_read_after_a_fault_is_one_version)
{
	struct waiter w[PUT];
	size_t at, j;
	int i;

	put_all(self, 'a');
	for (i = 0; i < PUT; i++) {
		/* Each has a megabyte of its own, if it has to: one after the other. */
		start(self, &w[i], i, i);
		kvt_silent_wait(&self->silent, 1);
		put_all(self, 'b' + i);
		kvt_silent_answer(&self->silent);
		ASSERT_EQ(0, pthread_join(w[i].thread, NULL));
		at = i == SCAN ? sizeof(struct kvtree_rec) + 4 : 0;
		EXPECT_LE((int)LEN, w[i].result);
		if (i == SCAN)
			EXPECT_EQ(0, memcmp((char *)w[i].val + at - 4, &w[i].nr, 4));
		for (j = 0; j < LEN; j++)
			if (((char *)w[i].val)[at + j] != 'b' + i)
				break;
		EXPECT_EQ(LEN, j);
		kvt_silent_end(&self->silent);
		ASSERT_TRUE(kvt_silent_make(&self->silent, LEN / 4096 + THREADS + 1));
	}
}

/* The key is gone when the page arrives: nothing found before may be left. */
TEST_F(pinned, what_is_gone_after_a_fault_has_no_version)
{
	static const enum kind kinds[] = { GET, GET_COLUMNS };
	struct waiter w;
	size_t i;

	for (i = 0; i < NR(kinds); i++) {
		put_all(self, 'a');
		start(self, &w, kinds[i], 0);
		kvt_silent_wait(&self->silent, 1);
		remove_all(self);
		kvt_silent_answer(&self->silent);
		ASSERT_EQ(0, pthread_join(w.thread, NULL));
		EXPECT_EQ(-ENOENT, w.result);
		EXPECT_EQ(0, w.version);
		kvt_silent_end(&self->silent);
		ASSERT_TRUE(kvt_silent_make(&self->silent, LEN / 4096 + THREADS + 1));
	}
}

TEST_F(pinned, writers_keep_nothing_of_a_store)
{
	struct waiter w[THREADS];
	int i;

	for (i = 0; i < THREADS; i++)
		start(self, &w[i], PUT + i % (KINDS - PUT), i);
	kvt_silent_wait(&self->silent, THREADS);
	EXPECT_TRUE(kvt_eventually(little_is_left, self));
	EXPECT_EQ(0, kvt_stat(self->fd, KVTREE_STAT_KEYS));
	kvt_silent_answer(&self->silent);
	for (i = 0; i < THREADS; i++) {
		ASSERT_EQ(0, pthread_join(w[i].thread, NULL));
		EXPECT_EQ(0, w[i].result);
	}
	EXPECT_EQ(THREADS, kvt_stat(self->fd, KVTREE_STAT_KEYS));
	memset(self->val, 0, LEN);
	for (i = 0; i < THREADS; i++)
		EXPECT_TRUE(kvt_has(self->fd, kvt_bytes(&i, 4), kvt_bytes(self->val, LEN)));
}

#define SESSIONS	16
#define CHANGES		(8 * SESSIONS)

/* The store's bound, and what a task is about to retire or to write. */
#define ONES_OWN	(1 + 4 * LEN)

static bool reap(struct kvt_ring *ring, unsigned int *under_way)
{
	struct kvt_cqe cqe;

	if (!kvt_ring_reap(ring, &cqe))
		return false;
	KVT_CHECK(cqe.res == 0);
	--*under_way;
	return true;
}

/* Commands of many sessions, each for a megabyte, wait until memory is freed. */
TEST_F(pinned, changes_that_wait_keep_nothing_of_a_store)
{
	unsigned int i, under_way = CHANGES;
	struct kvtree_op op[CHANGES];
	long full, most = 0, now;
	int fds[SESSIONS];
	struct kvt_ring ring;
	__u32 key[CHANGES];

	put_all(self, 'a');
	EXPECT_TRUE(kvt_eventually(nothing_waits, &self->fd));
	full = kvt_group_bytes(&self->creator);
	kvt_ring_make(&ring, CHANGES, 0);
	for (i = 0; i < SESSIONS; i++) {
		fds[i] = kvt_store(self->dev, self->name, RW);
		ASSERT_LE(0, fds[i]);
	}
	for (i = 0; i < CHANGES; i++) {
		key[i] = i % KEYS;
		op[i] = kvt_op(KVTREE_OP_PUT, kvt_bytes(&key[i], 4));
		op[i].val = kvt_ptr(self->val);
		op[i].val_len = LEN;
		kvt_sqe_op(kvt_ring_sqe(&ring), fds[i % SESSIONS], &op[i], i);
	}
	kvt_ring_submit(&ring);
	while (under_way) {
		now = kvt_group_bytes(&self->creator) - full;
		most = now > most ? now : most;
		while (reap(&ring, &under_way))
			;
	}
	TH_LOG("at most %ld bytes", most);
	EXPECT_LT(0, kvt_stat(self->fd, KVTREE_STAT_URING_WAIT));
	EXPECT_GT(ONES_OWN + KVT_GROUP_SLACK, most);
	for (i = 0; i < SESSIONS; i++)
		close(fds[i]);
	kvt_ring_exit(&ring);
}

TEST_HARNESS_MAIN
