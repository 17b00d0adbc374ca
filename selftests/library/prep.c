// SPDX-License-Identifier: GPL-2.0
/*
 * kvtree_prep_*(): a program's own io_uring executes what the library's rings do,
 * whatever the size of its SQEs.
 */
#include <errno.h>
#include <liburing.h>
#include "kselftest_harness.h"
#include "../../lib/kvtree_uring.h"
#include "lib/kvt_test.h"

#define BUF	4096

FIXTURE(prep) {
	struct kvt_env env;
	struct io_uring io;
	bool inside;		/* SQEs contain operations */
	struct kvtree_op copied;
	int fd;
};

FIXTURE_VARIANT(prep) {
	unsigned int setup;
};

FIXTURE_VARIANT_ADD(prep, by_pointer) { .setup = 0 };
FIXTURE_VARIANT_ADD(prep, inside) { .setup = IORING_SETUP_SQE128 };

FIXTURE_SETUP(prep)
{
	kvt_env_init(&self->env, "prep", 0, 0);
	self->fd = kvt_store(self->env.dev, self->env.name, KVTREE_OPEN_READ | KVTREE_OPEN_WRITE);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, io_uring_queue_init(8, &self->io, variant->setup));
	self->inside = variant->setup & IORING_SETUP_SQE128;
}

FIXTURE_TEARDOWN(prep)
{
	io_uring_queue_exit(&self->io);
	close(self->fd);
	kvt_env_exit(&self->env);
}

static struct io_uring_sqe *get_sqe(struct io_uring *io)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(io);

	KVT_CHECK(sqe);
	/* The SQE is used again: whatever is left there must not matter. */
	memset(sqe, 0xa5, io->flags & IORING_SETUP_SQE128 ? 128 : 64);
	return sqe;
}

static struct io_uring_sqe *prep(struct _test_data_prep *self, struct kvtree_op *op)
{
	struct io_uring_sqe *sqe = get_sqe(&self->io);

	/* The SQE has a copy of its own. */
	if (self->inside) {
		self->copied = *op;
		kvtree_prep_op_inline(sqe, self->fd, &self->copied, op);
		memset(&self->copied, 0xa5, sizeof(self->copied));
	} else {
		kvtree_prep_op(sqe, self->fd, op);
	}
	return sqe;
}

static int run(struct _test_data_prep *self)
{
	struct io_uring_cqe *cqe;
	int res;

	KVT_CHECK(io_uring_submit_and_wait(&self->io, 1) == 1);
	KVT_CHECK(io_uring_peek_cqe(&self->io, &cqe) == 0);
	res = cqe->res;
	io_uring_cqe_seen(&self->io, cqe);
	return res;
}

static int run_op(struct _test_data_prep *self, struct kvtree_op *op)
{
	prep(self, op);
	return run(self);
}

TEST_F(prep, each_operation_does_what_its_call_does)
{
	struct kvtree_slice key = kvtree_str("a key of more than sixteen bytes");
	struct kvtree_slice number = kvtree_str("number");
	struct kvtree_scan scan = { .limit = 1 };
	struct kvtree_rec *rec;
	struct kvtree_op op;
	char buf[256];
	__u64 version;

	ASSERT_EQ(0, kvtree_op_put(&op, key, kvtree_str("value"), KVTREE_F_CREATE));
	ASSERT_EQ(0, run_op(self, &op));
	version = op.version;
	EXPECT_EQ(-EEXIST, run_op(self, &op));

	ASSERT_EQ(0, kvtree_op_get(&op, key, buf, sizeof(buf)));
	ASSERT_EQ(5, run_op(self, &op));
	EXPECT_EQ(0, memcmp(buf, "value", 5));
	EXPECT_EQ(version, op.version);

	ASSERT_EQ(0, kvtree_op_cas(&op, key, kvtree_str("other"), 0, version + 1));
	EXPECT_EQ(-ECANCELED, run_op(self, &op));
	EXPECT_EQ(version, op.version);
	ASSERT_EQ(0, kvtree_op_cas(&op, key, kvtree_str("other"), 0, version));
	EXPECT_EQ(0, run_op(self, &op));

	ASSERT_EQ(0, kvtree_op_add(&op, number, 0, -7, 0));
	ASSERT_EQ(0, run_op(self, &op));
	ASSERT_EQ(0, kvtree_op_add(&op, number, 0, 9, 0));
	ASSERT_EQ(0, run_op(self, &op));
	EXPECT_EQ(-7, (int64_t)op.arg);

	ASSERT_EQ(0, kvtree_op_scan(&op, kvtree_str("n"), &scan, buf, sizeof(buf)));
	ASSERT_LE((int)sizeof(*rec), run_op(self, &op));
	rec = (struct kvtree_rec *)buf;
	EXPECT_EQ(1, scan.count);
	EXPECT_EQ(0, memcmp(buf + rec->hdr_len, "number", 6));

	ASSERT_EQ(0, kvtree_op_del(&op, key, KVTREE_F_VERSION, version));
	EXPECT_EQ(-ECANCELED, run_op(self, &op));
	ASSERT_EQ(0, kvtree_op_del(&op, key, 0, 0));
	EXPECT_EQ(0, run_op(self, &op));
	EXPECT_EQ(-ENOENT, run_op(self, &op));
	kvtree_op_sync(&op);
	EXPECT_EQ(-EOPNOTSUPP, run_op(self, &op));
}

TEST_F(prep, what_no_field_holds_is_refused)
{
	static char big[UINT16_MAX + 1];
	struct kvtree_slice key = kvtree_str("key");
	struct kvtree_op op;

	EXPECT_EQ(-E2BIG, kvtree_op_get(&op, kvtree_slice(big, sizeof(big)), NULL, 0));
	EXPECT_EQ(-EINVAL, kvtree_op_put(&op, key, key, KVTREE_F_KEY_INLINE));
	EXPECT_EQ(-EINVAL, kvtree_op_put(&op, key, key, 1u << 16));
	EXPECT_EQ(-EINVAL, kvtree_op_add(&op, key, KVTREE_COLS_MAX, 1, 0));
	/* The kernel refuses what a field holds. */
	ASSERT_EQ(0, kvtree_op_get(&op, kvtree_slice(big, KVTREE_KEY_MAX + 1), NULL, 0));
	EXPECT_EQ(-E2BIG, run_op(self, &op));
}

TEST_F(prep, batch_executes_all)
{
	struct kvtree_op ops[3];
	char buf[8];

	ASSERT_EQ(0, kvtree_op_put(&ops[0], kvtree_str("a"), kvtree_str("1"), 0));
	ASSERT_EQ(0, kvtree_op_get(&ops[1], kvtree_str("a"), buf, sizeof(buf)));
	ASSERT_EQ(0, kvtree_op_del(&ops[2], kvtree_str("b"), 0, 0));
	kvtree_prep_batch(get_sqe(&self->io), self->fd, ops, NR(ops));
	ASSERT_EQ(NR(ops), run(self));
	EXPECT_EQ(0, ops[0].result);
	EXPECT_EQ(1, ops[1].result);
	EXPECT_EQ(-ENOENT, ops[2].result);
}

TEST_F(prep, value_is_written_to_a_registered_buffer)
{
	static char mem[2][BUF];
	struct iovec iov[2] = {
		{ .iov_base = mem[0], .iov_len = BUF }, { .iov_base = mem[1], .iov_len = BUF },
	};
	struct kvtree_op op;

	ASSERT_EQ(0, io_uring_register_buffers(&self->io, iov, 2));
	ASSERT_EQ(0, kvtree_op_put(&op, kvtree_str("k"), kvtree_str("value"), 0));
	ASSERT_EQ(0, run_op(self, &op));
	ASSERT_EQ(0, kvtree_op_get(&op, kvtree_str("k"), mem[1], BUF));
	kvtree_prep_fixed(prep(self, &op), 1);
	ASSERT_EQ(5, run(self));
	EXPECT_EQ(0, memcmp(mem[1], "value", 5));
	/* It is in the other one. */
	kvtree_prep_fixed(prep(self, &op), 0);
	EXPECT_EQ(-EFAULT, run(self));
}

TEST_F(prep, cancel_finds_nothing_where_nothing_waits)
{
	kvtree_prep_cancel(get_sqe(&self->io), self->fd, 7, 0);
	EXPECT_EQ(-ENOENT, run(self));
	kvtree_prep_cancel(get_sqe(&self->io), self->fd, 0, KVTREE_CANCEL_ANY);
	EXPECT_EQ(-ENOENT, run(self));
}

TEST_HARNESS_MAIN
