// SPDX-License-Identifier: GPL-2.0
/*
 * Memory accounting: which memory cgroup is charged and how much, compared with the
 * charge that a store reports.
 */
#include "kselftest_harness.h"
#include "lib/group.h"
#include "lib/kvt_test.h"

#define RW		(KVTREE_OPEN_READ | KVTREE_OPEN_WRITE)

FIXTURE(memory) {
	struct kvt_group creator;
	struct kvt_group writer;
	char name[KVTREE_NAME_MAX];
	int dev;
	int fd;
	long before[2];		/* bytes of the groups, when the store was empty */
};

static int create(void *arg)
{
	struct _test_data_memory *self = arg;

	kvt_group_enter(&self->creator);
	return kvt_create(self->dev, self->name, 0600, 0, 0);
}

FIXTURE_SETUP(memory)
{
	self->dev = kvt_open();
	ASSERT_LE(0, self->dev);
	if (!kvt_group_make(&self->creator, "creator") || !kvt_group_make(&self->writer, "writer"))
		SKIP(return, "the kernel has no memory cgroups here");
	snprintf(self->name, sizeof(self->name), "test-memory-%d", getpid());
	ASSERT_EQ(0, kvt_run(create, self));
	self->fd = kvt_store(self->dev, self->name, RW);
	ASSERT_LE(0, self->fd);
	self->before[0] = kvt_group_bytes(&self->creator);
	self->before[1] = kvt_group_bytes(&self->writer);
}

FIXTURE_TEARDOWN(memory)
{
	if (self->fd > 0) {
		close(self->fd);
		EXPECT_EQ(0, kvt_destroy(self->dev, self->name));
	}
	close(self->dev);
	kvt_group_end(&self->creator);
	kvt_group_end(&self->writer);
}

struct load {
	struct _test_data_memory *self;
	const struct kvt_group *group;
	__u32 nr;
	__u32 len;
	bool columns;
};

/* Puts `nr` values of `len` bytes, each of them in four columns if it is to have such. */
static int put_load(void *arg)
{
	struct load *l = arg;
	struct kvtree_col cols[4];
	char *val = calloc(1, l->len);
	__u32 i;
	int err;

	KVT_CHECK(val);
	kvt_group_enter(l->group);
	for (i = 0; i < NR(cols); i++)
		cols[i] = (struct kvtree_col){ .id = i, .len = l->len / NR(cols) };
	for (i = 0; i < l->nr; i++) {
		if (l->columns)
			err = kvt_put_cols(l->self->fd, kvt_bytes(&i, 4), cols, NR(cols),
					   kvt_bytes(val, l->len), NULL);
		else
			err = kvt_put(l->self->fd, kvt_bytes(&i, 4), kvt_bytes(val, l->len), NULL);
		KVT_CHECK(err == 0);
	}
	free(val);
	return 0;
}

/* What its processes had is given back a little after their end. */
static bool writer_pays_little(void *arg)
{
	struct _test_data_memory *self = arg;

	return kvt_group_bytes(&self->writer) - self->before[1] < KVT_GROUP_SLACK;
}

TEST_F(memory, is_paid_for_by_the_creators_group_whoever_writes)
{
	struct load load = { .self = self, .group = &self->writer, .nr = 3000, .len = 4000 };
	long bytes;

	ASSERT_EQ(0, kvt_run(put_load, &load));
	load.columns = true;
	ASSERT_EQ(0, kvt_run(put_load, &load));
	bytes = kvt_stat(self->fd, KVTREE_STAT_BYTES);
	ASSERT_LT(3 * KVT_GROUP_SLACK, bytes);
	EXPECT_LT(bytes - KVT_GROUP_SLACK, kvt_group_bytes(&self->creator) - self->before[0]);
	EXPECT_TRUE(kvt_eventually(writer_pays_little, self));
}

static int create_bwtree(void *arg)
{
	struct _test_data_memory *self = arg;
	struct kvtree_store_create create = { .engine = "bwtree", .mode = 0600 };

	kvt_group_enter(&self->creator);
	snprintf(create.name, sizeof(create.name), "%s", self->name);
	return kvt_ioctl(self->dev, KVTREE_IOC_STORE_CREATE, &create);
}

/* Keys in no order, so that every page gets some of each round's. */
static int put_long_keys(void *arg)
{
	struct load *l = arg;
	char key[200] = "";
	__u32 i;

	kvt_group_enter(l->group);
	for (i = 0; i < l->nr; i++) {
		snprintf(key, sizeof(key), "%08x", i * 0x9e3779b1u);
		KVT_CHECK(kvt_put(l->self->fd, kvt_bytes(key, sizeof(key)), kvt_bytes(&i, 4),
				  NULL) == 0);
	}
	return 0;
}

/* Every second of them is removed: so many that pages are written anew. */
#define STRIDE	2

static int remove_long_keys(void *arg)
{
	struct load *l = arg;
	char key[200] = "";
	__u32 i;

	kvt_group_enter(l->group);
	for (i = 0; i < l->nr; i += STRIDE) {
		snprintf(key, sizeof(key), "%08x", i * 0x9e3779b1u);
		KVT_CHECK(kvt_remove(l->self->fd, kvt_bytes(key, sizeof(key))) == 0);
	}
	return 0;
}

/* The engine's worker merges all records into their pages.  A long wait is reported. */
static void wait_for_worker(struct __test_metadata *_metadata, struct _test_data_memory *self)
{
	long records, waiting, tries = 0;

	for (;;) {
		records = kvt_engine_stat(self->fd, "bw_chain_records");
		waiting = kvt_stat(self->fd, KVTREE_STAT_WAITING_BYTES);
		if (!records && !waiting)
			return;
		if (++tries % 3000 == 0)
			TH_LOG("waits for the worker: %ld records, %ld bytes", records, waiting);
		kvt_sleep_ms(10);
	}
}

static void fill_bwtree(struct __test_metadata *_metadata, struct _test_data_memory *self,
			struct load *load)
{
	close(self->fd);
	ASSERT_EQ(0, kvt_destroy(self->dev, self->name));
	ASSERT_EQ(0, kvt_run(create_bwtree, self));
	self->fd = kvt_store(self->dev, self->name, RW);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, kvt_run(put_long_keys, load));
	ASSERT_LT(3 * KVT_GROUP_SLACK, kvt_stat(self->fd, KVTREE_STAT_LEAF_BYTES));
	wait_for_worker(_metadata, self);
}

TEST_F(memory, pages_rewritten_by_a_worker_stay_charged_as_before)
{
	struct load load = { .self = self, .group = &self->writer, .nr = 60000 };
	long bytes;

	fill_bwtree(_metadata, self, &load);
	bytes = kvt_stat(self->fd, KVTREE_STAT_BYTES);
	EXPECT_LT(bytes - KVT_GROUP_SLACK, kvt_group_bytes(&self->creator) - self->before[0]);
	EXPECT_TRUE(kvt_eventually(writer_pays_little, self));
}

/*
 * How often its group was over its limit while the worker made a round; 0: it has ended.  If this
 * is late, it is while the worker made several.
 */
static long over_in_round(struct _test_data_memory *self)
{
	const long before = kvt_group_over(&self->creator);
	long over, last = before;

	do {
		over = last;
		kvt_sleep_ms(100);
		last = kvt_group_over(&self->creator);
	} while (last != over ||
		 (last == before && kvt_engine_stat(self->fd, "bw_chain_records")));
	return last - before;
}

/* Rounds, of which most tell: between them the worker waits for seconds. */
#define ROUNDS_MOST	4

/* Whether that is seldom in most rounds. */
static bool gives_up_soon(struct _test_data_memory *self)
{
	int soon = 0, late = 0;
	long over;

	while (soon < ROUNDS_MOST && late < ROUNDS_MOST) {
		over = over_in_round(self);
		if (over < 10) {
			soon++;
		} else {
			late++;
			fprintf(stderr, "# over %ld times\n", over);
		}
	}
	return soon == ROUNDS_MOST;
}

/*
 * Nothing of the group can be given up: looking for that takes long, and finds nothing.  A
 * try that may fail looks more than a dozen times.
 */
TEST_F(memory, of_a_group_at_its_limit_is_not_looked_for_again_and_again)
{
	struct load load = { .self = self, .group = &self->writer, .nr = 60000 };
	long over, bytes;

	fill_bwtree(_metadata, self, &load);
	/* What removals give back, sooner or later, leaves the worker nothing. */
	kvt_group_limit(&self->creator, kvt_group_bytes(&self->creator) / 2);

	/* Removals succeed, and their memory is charged all the same. */
	over = kvt_group_over(&self->creator);
	ASSERT_EQ(0, kvt_run(remove_long_keys, &load));
	EXPECT_GT(load.nr / STRIDE / 4, kvt_group_over(&self->creator) - over);
	bytes = kvt_stat(self->fd, KVTREE_STAT_BYTES);
	EXPECT_LT(bytes - KVT_GROUP_SLACK, kvt_group_bytes(&self->creator) - self->before[0]);

	/* The worker tries again, and gives up soon. */
	kvt_group_limit(&self->creator, kvt_group_bytes(&self->creator) / 2);
	EXPECT_TRUE(gives_up_soon(self));
	EXPECT_NE(0, kvt_engine_stat(self->fd, "bw_chain_records"));

	/* With memory it does the rest. */
	kvt_group_limit(&self->creator, -1);
	wait_for_worker(_metadata, self);
}

static bool nothing_waits(void *arg)
{
	return !kvt_stat(*(int *)arg, KVTREE_STAT_WAITING_BYTES);
}

/* Freed memory is uncharged from the group a little later. */
static bool pays_for_no_more(void *arg)
{
	struct _test_data_memory *self = arg;
	long taken = kvt_group_bytes(&self->creator) - self->before[0];

	return taken < (long)kvt_stat(self->fd, KVTREE_STAT_BYTES) + KVT_GROUP_SLACK;
}

/* Sizes above those of which the slab allocator has objects. */
TEST_F(memory, of_large_values_is_what_they_are_charged)
{
	static const __u32 lens[] = { 9000, 20 << 10, 64 << 10, (1 << 20) - 100, 1 << 20 };
	struct load load = { .self = self, .group = &self->creator };
	long bytes;
	int i;

	for (i = 0; i < NR(lens); i++) {
		load.len = lens[i];
		load.nr = (32 << 20) / lens[i];
		ASSERT_EQ(0, kvt_run(put_load, &load));
		bytes = kvt_stat(self->fd, KVTREE_STAT_BYTES);
		/* Replaced values wait to be freed. */
		EXPECT_TRUE(kvt_eventually(nothing_waits, &self->fd));
		EXPECT_LT(bytes - KVT_GROUP_SLACK,
			  kvt_group_bytes(&self->creator) - self->before[0]);
		EXPECT_TRUE(kvt_eventually(pays_for_no_more, self)) {
			TH_LOG("values of %u bytes", lens[i]);
		}
	}
}

/* Columns that are copied to the caller's own memory first, half a megabyte in all. */
#define SLOW_PUTS	8
#define SLOW_COLS	256
#define SLOW_LEN	2048

/* Its group has far more memory than it should: each put waits for what it copies to. */
static int put_slowly(void *arg)
{
	static struct kvtree_col cols[SLOW_COLS];
	struct _test_data_memory *self = arg;
	struct kvtree_op ops[SLOW_PUTS];
	__u32 keys[SLOW_PUTS], i, done;
	const size_t len = 32 << 20;
	char *mem = malloc(len);
	int err;

	KVT_CHECK(mem);
	kvt_group_enter(&self->writer);
	memset(mem, 1, len);
	for (i = 0; i < SLOW_COLS; i++)
		cols[i] = (struct kvtree_col) { .id = i, .len = SLOW_LEN };
	for (i = 0; i < SLOW_PUTS; i++) {
		keys[i] = i;
		ops[i] = kvt_op(KVTREE_OP_PUT, kvt_bytes(&keys[i], 4));
		ops[i].flags |= KVTREE_F_COLS;
		ops[i].arg = kvt_ptr(cols);
		ops[i].ncols = SLOW_COLS;
		ops[i].val = kvt_ptr(mem);
		ops[i].val_len = SLOW_COLS * SLOW_LEN;
	}
	kvt_group_throttle(&self->writer, 1 << 20);
	err = kvt_batch(self->fd, ops, SLOW_PUTS, &done);
	fprintf(stderr, "# result %d, %u operations done\n", err, done);
	free(mem);
	return !(err == -ESTALE && done && done < SLOW_PUTS);
}

static bool one_is_there(void *arg)
{
	return kvt_stat(*(int *)arg, KVTREE_STAT_KEYS);
}

/* The store waits for one operation, and not for all. */
TEST_F(memory, store_is_destroyed_between_operations_of_a_batch_that_is_throttled)
{
	int pid = kvt_fork(put_slowly, self);

	EXPECT_TRUE(kvt_eventually(one_is_there, &self->fd));
	EXPECT_EQ(0, kvt_destroy(self->dev, self->name));
	EXPECT_EQ(0, kvt_wait(pid));
	ASSERT_EQ(0, kvt_run(create, self));
}

TEST_HARNESS_MAIN
