// SPDX-License-Identifier: GPL-2.0
/*
 * Durable stores on failing devices, and without memory.  Every request to a device fails
 * once, from formatting to detaching, and so does every allocation, whoever makes it.
 * Whatever fails, the next attach finds every acknowledged change.  Of the other changes
 * it finds, in the order in which they were tried, a prefix or none.  Every caller is told.
 *
 * Uses the kernel's fault injection.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/kvtree_format.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include "kselftest_harness.h"
#include "lib/durable.h"
#include "lib/knobs.h"
#include "lib/kvt_test.h"
#include "lib/oracle.h"

#define SIZE	132		/* MiB: more than the least */
#define DISK	"kvterr"

static void disk_make(struct kvt_oracle *o, bool discard)
{
	kvt_null_make(o->disk, DISK, SIZE);
	if (discard)
		KVT_CHECK(kvt_null_try(o->disk, "discard", "1"));
	kvt_null_start(o->disk);
}

static void oracle_begin(struct kvt_oracle *o, bool discard)
{
	disk_make(o, discard);
	o->nr = 1;
	kvt_oracle_begin(o);
}

static void oracle_end(struct kvt_oracle *o)
{
	kvt_oracle_end(o);
	kvt_null_remove(o->disk);
}

/*
 * Requests to the device
 */
#define MAKE	"fail_make_request"

/* Code, by its addresses: requests that it makes. */
struct code {
	__u64 start;
	__u64 end;
};

static const struct code any = { 0, ~0ULL }, none;

static struct code code_of(const char *function)
{
	struct code code;

	KVT_CHECK(kvt_function_range(function, &code.start, &code.end));
	return code;
}

/* From now on only requests of some code count, but for those of other code. */
static void fail_only(struct code code, struct code but)
{
	kvt_knob_range(MAKE, code.start, code.end);
	kvt_knob_number(MAKE, "reject-start", but.start);
	kvt_knob_number(MAKE, "reject-end", but.end);
}

/* The kernel counts on: bring its count to a multiple of n.  No request fails so far. */
static void fail_count(struct kvt_oracle *o, unsigned int n)
{
	static char block[4096] __attribute__((aligned(4096)));
	unsigned int i;
	int fd;

	kvt_knob_number(MAKE, "interval", n);
	if (n > 1) {
		fd = open(o->disk->path, O_RDONLY | O_DIRECT | O_CLOEXEC);
		KVT_CHECK(fd >= 0);
		kvt_knob(MAKE, "times", "1");
		for (i = 0; kvt_knob_read(MAKE, "times"); i++) {
			KVT_CHECK(i <= n);
			if (pread(fd, block, sizeof(block), 0) < 0)
				KVT_CHECK(errno == EIO);
		}
		close(fd);
	}
}

static void fail_arm(struct kvt_oracle *o, unsigned int n)
{
	fail_count(o, n);
	kvt_knob(MAKE, "times", "1");
}

/* Whether it failed.  Nothing does from now on. */
static bool fail_over(void)
{
	bool over = !kvt_knob_read(MAKE, "times");

	kvt_knob(MAKE, "times", "0");
	return over;
}

static void fail_setup(const struct kvt_disk *disk)
{
	char path[128];

	kvt_knob(MAKE, "times", "0");
	kvt_knob(MAKE, "probability", "100");
	kvt_knob(MAKE, "verbose", "0");
	snprintf(path, sizeof(path), "/sys/block/%s/make-it-fail", strrchr(disk->path, '/') + 1);
	KVT_CHECK(kvt_knob_try(path, "1"));
}

static void fail_teardown(void)
{
	fail_only(any, none);
	kvt_knob(MAKE, "probability", "0");
	kvt_knob(MAKE, "interval", "1");
}

FIXTURE(requests) {
	struct kvt_oracle o;
};

FIXTURE_VARIANT(requests) {
	bool discard;
};

FIXTURE_VARIANT_ADD(requests, no_discard) { .discard = false };
FIXTURE_VARIANT_ADD(requests, discard) { .discard = true };

FIXTURE_SETUP(requests)
{
	if (access(KVT_DEBUGFS MAKE, F_OK))
		SKIP(return, "the kernel cannot make requests fail");
	oracle_begin(&self->o, variant->discard);
	fail_setup(self->o.disk);
}

FIXTURE_TEARDOWN(requests)
{
	fail_teardown();
	oracle_end(&self->o);
}

/* What an attach reads first: the superblock. */
#define COPIES	2

/* Each fails by itself; durable_faults has them all fail in a kernel without checkers. */
static unsigned int next_request(unsigned int n)
{
	return n + (n > COPIES && kvt_leave_out() ? 3 : 1);
}

/* Of the requests that failed. */
struct failures {
	unsigned int told;
	unsigned int untold;
	unsigned int first;	/* of the first two, not told */
};

/* Each request that some code makes in a run fails, one in each run; or each third. */
static struct failures requests_fail(struct __test_metadata *_metadata, struct kvt_oracle *o,
				     const char *what, struct code code, struct code but)
{
	struct failures failures = { 0 };
	struct kvt_outcome out;
	bool failed = true;
	unsigned int n, nr = 0;

	for (n = 1; failed; n = next_request(n)) {
		ASSERT_GT(1000, n);
		fail_count(o, n);
		fail_only(code, but);
		kvt_knob(MAKE, "times", "1");
		kvt_oracle_run(o, &out);
		failed = fail_over();
		nr += failed;
		fail_only(any, none);
		if (failed && kvt_outcome_told(&out)) {
			failures.told++;
		} else {
			ASSERT_TRUE(!out.attached && !out.changed && !out.detached &&
				    !out.error) {
				TH_LOG("%s %u: attach %d, change %d, detach %d, error %llu",
				       what, n, out.attached, out.changed, out.detached,
				       out.error);
			}
			failures.untold += failed;
			failures.first += failed && n <= COPIES;
		}
		kvt_oracle_judge(o);
	}
	TH_LOG("%s: %u failed, %u of them without harm", what, nr, failures.untold);
	return failures;
}

TEST_F(requests, each_that_fails_is_told_and_loses_nothing)
{
	struct code reads, discards;
	struct failures f;

	if (access(KVT_DEBUGFS MAKE "/require-start", F_OK))
		SKIP(return, "the kernel cannot select requests by their caller");
	reads = code_of("kvt_dev_read");
	discards = code_of("kvt_dev_discard");
	/* A device may refuse to discard. */
	if (variant->discard) {
		f = requests_fail(_metadata, &self->o, "discards", discards, none);
		EXPECT_EQ(0, f.told);
		EXPECT_LT(0, f.untold);
		f = requests_fail(_metadata, &self->o, "writes and discards", any, reads);
		EXPECT_LT(kvt_leave_out() ? 7 : 20, f.told);
		return;
	}
	/* One superblock is enough, and failed readahead is repeated if it is needed. */
	f = requests_fail(_metadata, &self->o, "reads", reads, none);
	EXPECT_EQ(COPIES, f.first);
	EXPECT_LT(0, f.told);
	f = requests_fail(_metadata, &self->o, "writes", any, reads);
	EXPECT_EQ(0, f.untold);
	EXPECT_LT(kvt_leave_out() ? 7 : 20, f.told);
}

/* One format with its n-th request failing.  Whether there was such a request. */
static bool format_failing(struct __test_metadata *_metadata, struct kvt_oracle *o, unsigned int n)
{
	int status, err;
	bool failed;

	kvt_null_remove(o->disk);
	disk_make(o, false);
	KVT_CHECK(kvt_knob_try("/sys/block/" DISK "/make-it-fail", "1"));
	fail_arm(o, n);
	status = kvt_format(o->disk, 1);
	failed = fail_over();
	err = kvt_oracle_attach(o);
	/* A write that the page cache tried again is none that failed. */
	EXPECT_TRUE(status ? failed : !err) {
		TH_LOG("request %u: status %d, attach %d", n, status, err);
	}
	if (!err) {
		EXPECT_EQ(0, kvt_stat(o->fd, KVTREE_STAT_KEYS));
		EXPECT_EQ(0, kvt_oracle_detach(o));
	}
	return failed;
}

/* Formatting wipes old contents in many requests, and writes superblocks at the end. */
TEST_F(requests, format_that_fails_leaves_no_store)
{
	unsigned int n, past, last = 0;

	if (variant->discard)
		SKIP(return, "it does not discard");
	for (n = 1; format_failing(_metadata, &self->o, n); n *= 4)
		ASSERT_GT(10000, n);
	EXPECT_LT(4, n);
	/* Between the last that failed and the first that did not. */
	for (past = n, n /= 4; past - n > 1; )
		if (format_failing(_metadata, &self->o, (n + past) / 2))
			n = (n + past) / 2;
		else
			past = (n + past) / 2;
	/* Not each format makes as many. */
	for (past = n; n && last < 6; n--)
		last += format_failing(_metadata, &self->o, n);
	EXPECT_EQ(6, last);
	TH_LOG("%u requests", past);
}

/*
 * Allocations
 */
FIXTURE(memory) {
	struct kvt_oracle o;
	int nth;
};

/* Write all of a disk, as it is: from here on it needs no memory. */
static void disk_fill(const struct kvt_disk *disk)
{
	static char data[1 << 20];
	int fd = open(disk->path, O_RDWR | O_CLOEXEC);
	off_t at;

	KVT_CHECK(fd >= 0);
	for (at = 0; at < (off_t)SIZE << 20; at += sizeof(data)) {
		KVT_CHECK(pread(fd, data, sizeof(data), at) == (ssize_t)sizeof(data));
		KVT_CHECK(pwrite(fd, data, sizeof(data), at) == (ssize_t)sizeof(data));
	}
	KVT_CHECK(fsync(fd) == 0 && close(fd) == 0);
}

FIXTURE_SETUP(memory)
{
	if (access(KVT_NTH, F_OK) || access(KVT_DEBUGFS "failslab", F_OK))
		SKIP(return, "the kernel cannot make allocations fail");
	kvt_knobs_of_memory();
	oracle_begin(&self->o, false);
	/* It is the module that is to find no memory. */
	disk_fill(self->o.disk);
	self->nth = kvt_nth_open();
	ASSERT_LE(0, self->nth);
}

FIXTURE_TEARDOWN(memory)
{
	close(self->nth);
	oracle_end(&self->o);
}

/* The first ones one by one; buffers are many allocations of the same kind. */
static unsigned int next_n(unsigned int n)
{
	return n + 1 + (n > 10 ? n / 5 : 0);
}

/* The range of the module's code: allocations without it on the stack are spared. */
static void module_range(__u64 *start, __u64 *end)
{
	unsigned long long at = 0;
	unsigned long size = 0;
	char line[256];
	FILE *f;

	f = fopen("/sys/module/kvtree/sections/.text", "re");
	KVT_CHECK(f && fscanf(f, "%llx", &at) == 1 && at);
	fclose(f);
	f = fopen("/proc/modules", "re");
	KVT_CHECK(f);
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "kvtree %lu", &size) == 1)
			break;
	fclose(f);
	KVT_CHECK(size);
	*start = at;
	*end = at + size;
}

static bool no_memory(int err)
{
	return err == -ENOMEM || err == -EFAULT || err == -ENFILE;
}

typedef int (*nth_call)(struct kvt_oracle *o);

/* Let a call's n-th allocation fail.  False if it has fewer; *@err is the call's result. */
static bool nth_fails(struct __test_metadata *_metadata, int nth, unsigned int n, nth_call call,
		      struct kvt_oracle *o, int *err)
{
	bool failed;

	ASSERT_GT(100000, n);
	kvt_nth_set(nth, n);
	*err = call(o);
	failed = kvt_nth_done(nth);
	ASSERT_TRUE(!*err || (failed && no_memory(*err))) {
		TH_LOG("allocation %u: %d", n, *err);
	}
	return failed;
}

static int attach_call(struct kvt_oracle *o)
{
	return kvt_attach(o->dev, o->name, o->disk, 1, 0);
}

static int detach_call(struct kvt_oracle *o)
{
	return kvt_detach(o->dev, o->name);
}

TEST_F(memory, attach_without_memory_changes_nothing)
{
	struct kvt_oracle *o = &self->o;
	struct kvtree_store_info info;
	unsigned int n, failures = 0;
	bool failed = true;
	int err;

	o->round = 1;
	o->acked = KVT_ORACLE_KEYS;
	o->tried = KVT_ORACLE_KEYS;
	for (n = 1; failed; n = next_n(n)) {
		failed = nth_fails(_metadata, self->nth, n, attach_call, o, &err);
		failures += failed;
		ASSERT_EQ(err ? -ENOENT : 0, kvt_find(o->dev, o->name, &info));
		if (!err)
			KVT_CHECK(kvt_detach(o->dev, o->name) == 0);
		else if (failures % 16 == 1)
			kvt_oracle_judge(o);
	}
	kvt_oracle_judge(o);
	EXPECT_LT(20, failures);
	TH_LOG("%u failures, the last one the %u-th", failures, n);
}

/*
 * Small allocations come from a slab, with vmalloc() as the fallback: both have to fail.
 */
TEST_F(memory, attach_without_memory_from_anywhere_changes_nothing)
{
	struct kvt_oracle *o = &self->o;
	struct kvtree_store_info info;
	unsigned int n, failures = 0;
	bool failed = true;
	__u64 start, end;
	int err;

	if (access(KVT_DEBUGFS "failslab/require-start", F_OK) ||
	    !kvt_function_range("__vmalloc_node_range_noprof", &start, &end))
		SKIP(return, "the kernel cannot select allocations by their caller");
	o->acked = KVT_ORACLE_KEYS;
	o->tried = KVT_ORACLE_KEYS;
	kvt_knob_range("fail_page_alloc", start, end);
	kvt_knob("fail_page_alloc", "times", "-1");
	for (n = 1; failed; n++) {
		ASSERT_GT(10000, n);
		kvt_knob("fail_page_alloc", "probability", "100");
		kvt_nth_set(self->nth, n);
		err = kvt_attach(o->dev, o->name, o->disk, 1, 0);
		/* From there on vmalloc() has nothing, too. */
		failed = kvt_nth_done(self->nth);
		failures += failed;
		kvt_knob("fail_page_alloc", "probability", "0");
		ASSERT_TRUE(err ? failed && no_memory(err) : true) {
			TH_LOG("allocation %u: %d", n, err);
		}
		ASSERT_EQ(err ? -ENOENT : 0, kvt_find(o->dev, o->name, &info));
		if (!err)
			ASSERT_EQ(0, kvt_detach(o->dev, o->name));
	}
	kvt_knob_range("fail_page_alloc", 0, ~0ULL);
	kvt_oracle_judge(o);
	EXPECT_LT(20, failures);
	TH_LOG("%u failures", failures);
}

/*
 * Lives: a superblock has room for 32, of which one is kept for a life that only carries an epoch.
 * An attach that finds no other one, or takes the last one, makes room.
 */
FIXTURE(lives) {
	struct kvt_oracle o;
	void *image;
	int nth;
};

FIXTURE_VARIANT(lives) {
	__u32 nr;	/* that the superblock has */
};

FIXTURE_VARIANT_ADD(lives, one_left) { .nr = KVTREE_LOG_LIVES_MAX - 2 };
FIXTURE_VARIANT_ADD(lives, none_left) { .nr = KVTREE_LOG_LIVES_MAX - 1 };

FIXTURE_SETUP(lives)
{
	struct kvt_oracle *o = &self->o;
	__u32 i;

	if (access(KVT_DEBUGFS MAKE, F_OK) || access(KVT_NTH, F_OK))
		SKIP(return, "the kernel cannot make anything fail");
	kvt_knobs_of_memory();
	o->dev = kvt_open();
	ASSERT_LE(0, o->dev);
	o->fd = -1;
	snprintf(o->name, sizeof(o->name), "lives-%d", getpid());
	o->nr = 1;
	/* No checkpoint is needed for room. */
	kvt_disk_make(o->disk, 1024, 512);
	ASSERT_EQ(0, kvt_format(o->disk, 1));
	for (i = 1; i <= variant->nr; i++) {
		ASSERT_EQ(0, kvt_oracle_attach(o));
		ASSERT_EQ(0, kvt_oracle_put(o, 0, i, 0));
		ASSERT_EQ(0, kvt_oracle_detach(o));
	}
	self->image = kvt_disk_image(o->disk);
	fail_setup(o->disk);
	self->nth = kvt_nth_open();
	ASSERT_LE(0, self->nth);
}

FIXTURE_TEARDOWN(lives)
{
	fail_teardown();
	close(self->nth);
	kvt_disk_free(self->o.disk, self->image);
	kvt_disk_remove(self->o.disk);
	close(self->o.dev);
}

/* Whatever the result of an attach, the next one succeeds and finds everything. */
static bool lives_on(struct kvt_oracle *o, __u64 value)
{
	int err = kvt_oracle_attach(o);

	if (err) {
		printf("# attach again: %d\n", err);
		return false;
	}
	KVT_CHECK(kvt_oracle_get(o, 0) == value);
	KVT_CHECK(kvt_oracle_put(o, 1, value, KVTREE_F_SYNC) == 0);
	return kvt_oracle_detach(o) == 0;
}

/* Attach with the n-th request failing.  Whether there was such a request. */
static bool attach_failing(struct __test_metadata *_metadata, struct kvt_oracle *o, unsigned int n,
			   const void *image, __u64 value)
{
	bool failed;
	int err;

	kvt_disk_restore(o->disk, image);
	fail_arm(o, n);
	err = kvt_oracle_attach(o);
	failed = fail_over();
	if (!err)
		EXPECT_EQ(0, kvt_oracle_detach(o));
	EXPECT_TRUE(lives_on(o, value)) {
		TH_LOG("request %u: %d", n, err);
	}
	return failed;
}

/*
 * All of the first ones, which read the superblocks, and of the last ones, which write; some
 * of those between, which read one life like the other.
 */
TEST_F(lives, request_that_fails_in_attach_keeps_nothing_from_attaching)
{
	const unsigned int all = 20, step = 8;
	unsigned int n, past;

	for (n = 1; attach_failing(_metadata, &self->o, n, self->image, variant->nr); )
		n += n < all ? 1 : step;
	EXPECT_LT(2 * all, n);
	for (past = n--; n > past - all - step; n--)
		attach_failing(_metadata, &self->o, n, self->image, variant->nr);
	TH_LOG("at most %u requests", past);
}

TEST_F(lives, allocation_that_fails_in_attach_keeps_nothing_from_attaching)
{
	struct kvt_oracle *o = &self->o;
	bool failed = true;
	unsigned int n;
	int err;

	for (n = 1; failed; n = next_n(n)) {
		ASSERT_GT(100000, n);
		kvt_disk_restore(o->disk, self->image);
		kvt_nth_set(self->nth, n);
		err = kvt_attach(o->dev, o->name, o->disk, 1, 0);
		failed = kvt_nth_done(self->nth);
		if (!err)
			ASSERT_EQ(0, kvt_detach(o->dev, o->name));
		ASSERT_TRUE(lives_on(o, variant->nr)) {
			TH_LOG("allocation %u: %d", n, err);
		}
	}
}

static int checkpoint_call(struct kvt_oracle *o)
{
	return kvt_checkpoint(o->fd);
}

static int put_call(struct kvt_oracle *o)
{
	return kvt_oracle_put(o, 0, o->round, 0);
}

static int put_sync_call(struct kvt_oracle *o)
{
	return kvt_oracle_put(o, 0, o->round, KVTREE_F_SYNC);
}

static int sync_call(struct kvt_oracle *o)
{
	return kvt_sync(o->fd);
}

/* A call without memory may fail; the next one succeeds. */
TEST_F(memory, call_without_memory_is_as_if_it_had_not_been)
{
	static const nth_call calls[] = { put_call, put_sync_call, sync_call };
	struct kvt_oracle *o = &self->o;
	unsigned int n;
	bool failed;
	size_t i;
	int err;

	ASSERT_EQ(0, kvt_oracle_attach(o));
	for (i = 0; i < NR(calls); i++) {
		failed = true;
		for (n = 1; failed; n = next_n(n)) {
			o->round++;
			failed = nth_fails(_metadata, self->nth, n, calls[i], o, &err);
			ASSERT_EQ(0, kvt_stat(o->fd, KVTREE_STAT_LOG_ERROR));
			ASSERT_EQ(0, calls[i](o));
			if (calls[i] == put_call || calls[i] == put_sync_call)
				ASSERT_EQ(o->round, kvt_oracle_get(o, 0));
		}
		TH_LOG("call %zu: %u failures at most", i, n - 2);
	}
	EXPECT_EQ(0, kvt_oracle_detach(o));
}

/* Change all keys: a checkpoint writes only what has changed. */
static void change_all(struct kvt_oracle *o)
{
	int i;

	for (i = 0; i < KVT_ORACLE_KEYS; i++)
		KVT_CHECK(kvt_oracle_put(o, i, o->round, 0) == 0);
	KVT_CHECK(kvt_sync(o->fd) == 0);
	o->acked = KVT_ORACLE_KEYS;
	o->tried = KVT_ORACLE_KEYS;
}

/* A checkpoint without memory fails, or contains everything; if it fails, the next one does. */
TEST_F(memory, checkpoint_without_memory_leaves_nothing_out)
{
	unsigned int n, failures = 0;
	struct kvt_oracle *o = &self->o;
	bool failed = true;
	int err;

	for (n = 1; failed; n = next_n(n)) {
		o->round++;
		ASSERT_EQ(0, kvt_oracle_attach(o));
		change_all(o);
		failed = nth_fails(_metadata, self->nth, n, checkpoint_call, o, &err);
		failures += !!err;
		ASSERT_EQ(0, kvt_stat(o->fd, KVTREE_STAT_LOG_ERROR));
		if (err)
			ASSERT_EQ(0, kvt_checkpoint(o->fd));
		ASSERT_EQ(0, kvt_oracle_detach(o));
		kvt_oracle_judge(o);
	}
	EXPECT_LT(4, failures);
	TH_LOG("%u failures, the last one before the %u-th", failures, n);
}

TEST_F(memory, detach_without_memory_loses_nothing)
{
	struct kvt_oracle *o = &self->o;
	bool failed = true;
	unsigned int n;
	int err;

	for (n = 1; failed; n = next_n(n)) {
		o->round++;
		ASSERT_EQ(0, kvt_oracle_attach(o));
		o->acked = 0;
		ASSERT_EQ(0, kvt_oracle_change(o));
		close(o->fd);
		failed = nth_fails(_metadata, self->nth, n, detach_call, o, &err);
		if (err)
			ASSERT_EQ(0, kvt_detach(o->dev, o->name));
		kvt_oracle_judge(o);
	}
	TH_LOG("%u failures", n - 2);
}

/* Puts to a few keys, in turn, by a process that is killed. */
#define FILL_KEYS	8

struct fill {
	__u64 tried;
	__u64 done;
};

static __u64 fill_value[20000];

static void fill_until_killed(int fd, struct fill *fill)
{
	__u32 key;

	for (;;) {
		fill_value[0] = fill->tried + 1;
		key = fill_value[0] % FILL_KEYS;
		__atomic_store_n(&fill->tried, fill_value[0], __ATOMIC_RELAXED);
		KVT_CHECK(kvt_put(fd, kvt_bytes(&key, sizeof(key)),
				  kvt_bytes(fill_value, sizeof(fill_value)), NULL) == 0);
		__atomic_store_n(&fill->done, fill_value[0], __ATOMIC_RELAXED);
	}
}

/* Acknowledged puts are still there; the last one may be. */
static bool fill_is_there(int fd, const struct fill *fill)
{
	__u64 value, put;
	__u32 key;

	for (put = fill->done; put && put + FILL_KEYS > fill->done; put--) {
		key = put % FILL_KEYS;
		KVT_CHECK(kvt_get(fd, kvt_bytes(&key, sizeof(key)), fill_value,
				  sizeof(fill_value), NULL) == (int)sizeof(fill_value));
		value = fill_value[0];
		if (value != put && (value != fill->tried || value % FILL_KEYS != key)) {
			printf("# key %u: %llu and not %llu\n", key, value, put);
			return false;
		}
	}
	return true;
}

static bool log_is_full(void *arg)
{
	return kvt_stat(*(int *)arg, KVTREE_STAT_LOG_FULL) > 0;
}

static bool is_detached(void *arg)
{
	const struct kvt_oracle *o = arg;
	struct kvtree_store_info info;

	return kvt_find(o->dev, o->name, &info) == -ENOENT;
}

/* Allocations that have failed; the knob counts downwards. */
#define FAILURES	1000000000

static bool failed_again(void *arg)
{
	long *times = arg;

	return kvt_knob_read("failslab", "times") < *times;
}

/*
 * The log is full: buffered changes need a checkpoint to become durable.  None begins, as one that
 * fails later takes room from the streams for a while.
 */
TEST_F(memory, detach_of_a_full_log_waits_for_memory_and_loses_nothing)
{
	static const char * const attrs[] = { "failslab", "fail_page_alloc" };
	struct kvt_oracle *o = &self->o;
	struct fill *fill;
	__u64 start, end;
	pid_t filler, pid;
	long times;
	size_t i;

	if (access(KVT_DEBUGFS "failslab/require-start", F_OK) ||
	    !kvt_function_range("checkpoint_run", &start, &end))
		SKIP(return, "the kernel cannot select allocations by their caller");
	fill = mmap(NULL, sizeof(*fill), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, fill);
	ASSERT_EQ(0, kvt_oracle_attach(o));
	for (i = 0; i < NR(attrs); i++) {
		kvt_knob_range(attrs[i], start, end);
		kvt_knob_number(attrs[i], "times", FAILURES);
		kvt_knob(attrs[i], "probability", "100");
	}
	filler = kvt_child();
	if (!filler)
		fill_until_killed(o->fd, fill);
	EXPECT_TRUE(kvt_eventually(log_is_full, &o->fd));
	kill(filler, SIGKILL);
	EXPECT_EQ(filler, waitpid(filler, NULL, 0));
	close(o->fd);
	pid = kvt_child();
	if (!pid)
		_exit(kvt_detach(o->dev, o->name) ? 1 : 0);
	EXPECT_TRUE(kvt_eventually(is_detached, o));
	times = kvt_knob_read("failslab", "times") - 3;
	EXPECT_TRUE(kvt_eventually(failed_again, &times));
	ASSERT_EQ(0, waitpid(pid, NULL, WNOHANG));
	for (i = 0; i < NR(attrs); i++) {
		kvt_knob(attrs[i], "probability", "0");
		kvt_knob_range(attrs[i], 0, ~0ULL);
	}
	EXPECT_EQ(0, kvt_wait(pid));
	ASSERT_EQ(0, kvt_oracle_attach(o));
	EXPECT_TRUE(fill_is_there(o->fd, fill));
	EXPECT_EQ(0, kvt_oracle_detach(o));
	TH_LOG("%llu puts", fill->done);
	munmap(fill, sizeof(*fill));
}

static void workers_without(struct __test_metadata *_metadata, struct kvt_oracle *o,
			    const char *attr, __u64 step)
{
	unsigned int failures = 0;
	struct kvt_outcome out;
	bool failed = true;
	__u64 space;

	kvt_knob(attr, "times", "0");
	kvt_knob(attr, "probability", "100");
	for (space = 0; failed; space += step + space / 5) {
		kvt_knob_number(attr, "space", space);
		kvt_knob(attr, "times", "1");
		kvt_oracle_run(o, &out);
		failed = !kvt_knob_read(attr, "times");
		kvt_knob(attr, "times", "0");
		ASSERT_TRUE(!out.attached || no_memory(out.attached)) {
			TH_LOG("%s %llu: attach %d", attr, space, out.attached);
		}
		ASSERT_TRUE(!out.changed || no_memory(out.changed)) {
			TH_LOG("%s %llu: change %d", attr, space, out.changed);
		}
		/* Failures of this kind do not keep changes from the device. */
		ASSERT_EQ(0, out.error);
		ASSERT_TRUE(!out.detached || no_memory(out.detached));
		if (out.detached)
			ASSERT_EQ(0, kvt_detach(o->dev, o->name));
		failures += failed;
		kvt_oracle_judge(o);
	}
	kvt_knob(attr, "probability", "0");
	EXPECT_LT(10, failures);
	TH_LOG("%s: %u failures in %llu", attr, failures, space);
}

/* Those that write, checkpoint and recover, besides the caller. */
TEST_F(memory, workers_without_memory_lose_nothing)
{
	static const char * const attrs[] = { "failslab", "fail_page_alloc" };
	__u64 start, end;
	size_t i;

	if (access(KVT_DEBUGFS "failslab/require-start", F_OK))
		SKIP(return, "the kernel cannot select allocations by their caller");
	module_range(&start, &end);
	for (i = 0; i < NR(attrs); i++) {
		kvt_knob_range(attrs[i], start, end);
		workers_without(_metadata, &self->o, attrs[i], i ? 1 : 4000);
		kvt_knob_range(attrs[i], 0, ~0ULL);
	}
}

/* Rounds count requests: commits of an idle store must not add any. */
int main(int argc, char **argv)
{
	if (access(KVT_DEBUGFS "failslab", F_OK))
		mount("debugfs", KVT_DEBUGFS, "debugfs", 0, NULL);
	if (access(KVT_NTH, F_OK)) {
		printf("TAP version 13\n1..0 # SKIP the kernel has no fault injection\n");
		return KSFT_SKIP;
	}
	kvt_never_idle();
	return test_harness_run(argc, argv);
}
