// SPDX-License-Identifier: GPL-2.0
/*
 * A call that waits for the memory it points to does not hold its store: the store can
 * be destroyed meanwhile, and the call then fails because the store is gone.  The memory
 * is a file that does not answer before that.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>
#include "kselftest_harness.h"
#include "lib/kvt_test.h"
#include "lib/silent.h"
#include "lib/uring.h"

#define RW	(KVTREE_OPEN_READ | KVTREE_OPEN_WRITE)
#define LARGE	100000

/* A blocking call, made in a child.  Returns its result. */
typedef int (*block_fn)(int fd, char *silent);

static struct kvtree_op get_op(const char *key, void *val, __u32 len)
{
	struct kvtree_op op = kvt_op(KVTREE_OP_GET, kvt_bytes(key, strlen(key)));

	op.val = kvt_ptr(val);
	op.val_len = len;
	return op;
}

static int batch_array(int fd, char *silent)
{
	return kvt_batch(fd, silent, 2, NULL);
}

static int batch_of_one(int fd, char *silent)
{
	return kvt_batch(fd, silent, 1, NULL);
}

static int batch_key(int fd, char *silent)
{
	struct kvtree_op ops[2] = {
		get_op("short", NULL, 0), kvt_op(KVTREE_OP_GET, kvt_bytes(silent, 100)),
	};

	return kvt_batch(fd, ops, 2, NULL);
}

static int batch_value(int fd, char *silent)
{
	struct kvtree_op ops[3] = { get_op("short", silent, 64), get_op("large", silent, LARGE) };

	return kvt_batch(fd, ops, 3, NULL);
}

static int key(int fd, char *silent)
{
	struct kvtree_op op = kvt_op(KVTREE_OP_REMOVE, kvt_bytes(silent, 200));

	return kvt_exec(fd, &op);
}

static int value_to_put(int fd, char *silent)
{
	return kvt_put(fd, STR("k"), kvt_bytes(silent, 100), NULL);
}

static int columns_to_put(int fd, char *silent)
{
	return kvt_put_cols(fd, STR("k"), (void *)silent, 2, STR("ab"), NULL);
}

static int data_of_columns(int fd, char *silent)
{
	struct kvtree_col cols[2] = { { .id = 0, .len = 1 }, { .id = 1, .len = LARGE } };

	return kvt_put_cols(fd, STR("k"), cols, 2, kvt_bytes(silent, 1 + LARGE), NULL);
}

static int short_value(int fd, char *silent)
{
	return kvt_get(fd, STR("short"), silent, 64, NULL);
}

static int large_value(int fd, char *silent)
{
	return kvt_get(fd, STR("large"), silent, LARGE, NULL);
}

static int columns_to_get(int fd, char *silent)
{
	char val[8];

	return kvt_get_cols(fd, STR("short"), (void *)silent, 1, val, sizeof(val));
}

static int value_of_columns(int fd, char *silent)
{
	struct kvtree_col col = {};

	return kvt_get_cols(fd, STR("short"), &col, 1, silent, 64);
}

static int scan_args(int fd, char *silent)
{
	struct kvtree_op op = kvt_op(KVTREE_OP_SCAN, STR(""));
	char val[4096];

	op.arg = kvt_ptr(silent);
	op.val = kvt_ptr(val);
	op.val_len = sizeof(val);
	return kvt_exec(fd, &op);
}

/* As of a program that was compiled with a longer structure. */
static int scan_args_that_grew(int fd, char *silent)
{
	struct kvtree_op op = kvt_op(KVTREE_OP_SCAN, STR(""));

	op.arg = kvt_ptr(silent);
	op.arg_size += 8;
	return kvt_exec(fd, &op);
}

static int scan_buffer(int fd, char *silent)
{
	struct kvtree_scan scan = {};
	struct kvtree_op op = kvt_op(KVTREE_OP_SCAN, STR("short"));

	op.arg = kvt_ptr(&scan);
	op.val = kvt_ptr(silent);
	op.val_len = 4096;
	return kvt_exec(fd, &op);
}

static int scan_end(int fd, char *silent)
{
	struct kvtree_scan scan = { .end = kvt_ptr(silent), .end_len = 4 };
	struct kvtree_op op = kvt_op(KVTREE_OP_SCAN, STR(""));

	op.arg = kvt_ptr(&scan);
	return kvt_exec(fd, &op);
}

static int counters(int fd, char *silent)
{
	struct kvtree_stat_args args = { .values = kvt_ptr(silent), .nr = KVTREE_STAT_NR };

	/* They were read before. */
	return kvt_ioctl(fd, KVTREE_IOC_STAT, &args) ? 1 : -ESTALE;
}

static int debugfs(int fd, char *silent)
{
	struct kvtree_store_info info;
	char path[128], text[16];
	int file;

	KVT_CHECK(!kvt_self(fd, &info));
	snprintf(path, sizeof(path), "/sys/kernel/debug/kvtree/%s/stats", info.name);
	file = open(path, O_RDONLY | O_CLOEXEC);
	KVT_CHECK(file >= 0);
	KVT_CHECK(read(file, silent, 4096) > 0);
	/* What is made anew finds no store. */
	return pread(file, text, sizeof(text), 0) < 0 ? -errno : 0;
}

static int uring(int fd, const struct kvtree_op *op, char *silent, int flags)
{
	struct io_uring_sqe *sqe;
	struct kvt_ring ring;

	kvt_ring_make(&ring, 4, 0);
	sqe = kvt_ring_sqe(&ring);
	if (op)
		kvt_sqe_op(sqe, fd, op, 1);
	else
		kvt_sqe_batch(sqe, fd, silent, 2, 1);
	sqe->flags |= flags;
	return kvt_ring_result(&ring, 1);
}

static int uring_batch(int fd, char *silent)
{
	return uring(fd, NULL, silent, 0);
}

static int uring_batch_of_a_worker(int fd, char *silent)
{
	return uring(fd, NULL, silent, IOSQE_ASYNC);
}

static int uring_value_to_put(int fd, char *silent)
{
	struct kvtree_op op = kvt_op(KVTREE_OP_PUT, STR("k"));

	op.val = kvt_ptr(silent);
	op.val_len = LARGE;
	return uring(fd, &op, silent, 0);
}

static int uring_large_value(int fd, char *silent)
{
	struct kvtree_op op = get_op("large", silent, LARGE);

	return uring(fd, &op, silent, 0);
}

FIXTURE(blocked) {
	struct kvt_silent silent;
	char name[KVTREE_NAME_MAX];
	int dev;
	int fd;
};

FIXTURE_VARIANT(blocked) {
	block_fn run;
};

FIXTURE_VARIANT_ADD(blocked, batch_array) { .run = batch_array };
FIXTURE_VARIANT_ADD(blocked, batch_of_one) { .run = batch_of_one };
FIXTURE_VARIANT_ADD(blocked, batch_key) { .run = batch_key };
FIXTURE_VARIANT_ADD(blocked, batch_value) { .run = batch_value };
FIXTURE_VARIANT_ADD(blocked, key) { .run = key };
FIXTURE_VARIANT_ADD(blocked, value_to_put) { .run = value_to_put };
FIXTURE_VARIANT_ADD(blocked, columns_to_put) { .run = columns_to_put };
FIXTURE_VARIANT_ADD(blocked, data_of_columns) { .run = data_of_columns };
FIXTURE_VARIANT_ADD(blocked, short_value) { .run = short_value };
FIXTURE_VARIANT_ADD(blocked, large_value) { .run = large_value };
FIXTURE_VARIANT_ADD(blocked, columns_to_get) { .run = columns_to_get };
FIXTURE_VARIANT_ADD(blocked, value_of_columns) { .run = value_of_columns };
FIXTURE_VARIANT_ADD(blocked, scan_args) { .run = scan_args };
FIXTURE_VARIANT_ADD(blocked, scan_args_that_grew) { .run = scan_args_that_grew };
FIXTURE_VARIANT_ADD(blocked, scan_buffer) { .run = scan_buffer };
FIXTURE_VARIANT_ADD(blocked, scan_end) { .run = scan_end };
FIXTURE_VARIANT_ADD(blocked, counters) { .run = counters };
FIXTURE_VARIANT_ADD(blocked, debugfs) { .run = debugfs };
FIXTURE_VARIANT_ADD(blocked, uring_batch) { .run = uring_batch };
FIXTURE_VARIANT_ADD(blocked, uring_batch_of_a_worker) { .run = uring_batch_of_a_worker };
FIXTURE_VARIANT_ADD(blocked, uring_value_to_put) { .run = uring_value_to_put };
FIXTURE_VARIANT_ADD(blocked, uring_large_value) { .run = uring_large_value };

FIXTURE_SETUP(blocked)
{
	static char large[LARGE];

	if (!kvt_silent_make(&self->silent, LARGE / 4096 + 2))
		SKIP(return, "the kernel has no FUSE");
	self->dev = kvt_open();
	ASSERT_LE(0, self->dev);
	snprintf(self->name, sizeof(self->name), "blocked-%d", getpid());
	ASSERT_EQ(0, kvt_create(self->dev, self->name, 0600, 0, 0));
	self->fd = kvt_store(self->dev, self->name, RW);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, kvt_put(self->fd, STR("short"), STR("value"), NULL));
	ASSERT_EQ(0, kvt_put(self->fd, STR("large"), kvt_bytes(large, LARGE), NULL));
}

FIXTURE_TEARDOWN(blocked)
{
	kvt_silent_end(&self->silent);
	close(self->fd);
	close(self->dev);
}

/* For all cases: one has waited in vain for a minute.  The others need not. */
static bool *in_vain;

static void __attribute__((constructor)) share(void)
{
	in_vain = kvt_map_shared(sizeof(*in_vain));
}

static bool ends(struct kvt_process *p)
{
	if (*in_vain) {
		kvt_sleep_ms(1000);
		return kvt_has_ended(p);
	}
	*in_vain = !kvt_eventually(kvt_has_ended, p);
	return !*in_vain;
}

struct call {
	int fd;
	const char *name;
	block_fn run;
	char *silent;
};

static int block(void *arg)
{
	const struct call *call = arg;
	int ret = call->run(call->fd, call->silent);

	KVT_CHECK(ret == -ESTALE);
	return 0;
}

static int destroy(void *arg)
{
	const struct call *call = arg;

	KVT_CHECK(kvt_destroy(call->fd, call->name) == 0);
	return 0;
}

TEST_F(blocked, store_is_destroyed_meanwhile)
{
	struct call call = { self->fd, self->name, variant->run, self->silent.mem };
	struct kvt_process destroyer = {};
	int pid;

	pid = kvt_fork(block, &call);
	kvt_silent_wait(&self->silent, 1);
	call.fd = self->dev;
	destroyer.pid = kvt_fork(destroy, &call);
	EXPECT_TRUE(ends(&destroyer)) {
		TH_LOG("a call that waits for its memory is in the store");
	}
	EXPECT_EQ(0, destroyer.status);
	kvt_silent_answer(&self->silent);
	EXPECT_EQ(0, kvt_wait(pid));
}

/* If the store stays, the call has its usual result. */
static int get_both(void *arg)
{
	const struct call *call = arg;
	struct kvtree_op ops[2] = {
		get_op("short", call->silent, 64), get_op("large", call->silent + 64, LARGE),
	};
	__u32 done;

	KVT_CHECK(kvt_batch(call->fd, ops, 2, &done) == 0 && done == 2);
	KVT_CHECK(ops[0].result == 5 && ops[1].result == LARGE);
	KVT_CHECK(!memcmp(call->silent, "value", 5));
	return 0;
}

FIXTURE(waiting) {
	struct kvt_silent silent;
	struct kvt_env env;
};

FIXTURE_SETUP(waiting)
{
	static char large[LARGE];

	if (!kvt_silent_make(&self->silent, LARGE / 4096 + 2))
		SKIP(return, "the kernel has no FUSE");
	kvt_env_init(&self->env, "waiting", 0, 0);
	ASSERT_EQ(0, kvt_put(self->env.fd, STR("short"), STR("value"), NULL));
	ASSERT_EQ(0, kvt_put(self->env.fd, STR("large"), kvt_bytes(large, LARGE), NULL));
}

FIXTURE_TEARDOWN(waiting)
{
	kvt_silent_end(&self->silent);
	kvt_env_exit(&self->env);
}

TEST_F(waiting, call_continues_when_its_memory_is_mapped)
{
	struct call call = { .fd = self->env.fd, .silent = self->silent.mem };
	int pid = kvt_fork(get_both, &call);

	kvt_silent_wait(&self->silent, 1);
	kvt_silent_answer(&self->silent);
	EXPECT_EQ(0, kvt_wait(pid));
}

/* A user without rights to the default store of the device. */
static int block_as_nobody(void *arg)
{
	const struct call *call = arg;
	struct kvtree_op *ops = (void *)call->silent;
	int dev, ret;

	kvt_drop(65534, 65534);
	dev = kvt_open();
	KVT_CHECK(dev >= 0);
	ret = kvt_batch(dev, ops, 2, NULL);
	KVT_CHECK(ret == -ESTALE);
	return 0;
}

TEST_F(waiting, nobody_without_rights_keeps_the_default_store)
{
	struct call call = { self->env.dev, "default", NULL, self->silent.mem };
	struct kvtree_store_create create = { .name = "default" };
	struct kvt_process destroyer = {};
	struct kvtree_store_info info;
	int pid;

	ASSERT_EQ(0, kvt_find(self->env.dev, "default", &info));
	pid = kvt_fork(block_as_nobody, &call);
	kvt_silent_wait(&self->silent, 1);
	destroyer.pid = kvt_fork(destroy, &call);
	EXPECT_TRUE(ends(&destroyer));
	kvt_silent_answer(&self->silent);
	EXPECT_EQ(0, kvt_wait(pid));
	create.mode = info.mode;
	create.uid = info.uid;
	create.gid = info.gid;
	create.limit_bytes = info.limit_bytes;
	create.limit_keys = info.limit_keys;
	create.page_size = info.page_size;
	memcpy(create.engine, info.engine, sizeof(create.engine));
	EXPECT_EQ(0, kvt_ioctl(self->env.fd, KVTREE_IOC_STORE_CREATE, &create));
}

TEST_HARNESS_MAIN
