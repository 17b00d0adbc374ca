// SPDX-License-Identifier: LGPL-2.1-only
/*
 * Put operations into the SQEs of the program's own io_uring, which have 128
 * bytes for that. A scan writes to a registered buffer, and then, where the kernel
 * can do that, to a provided one.
 *
 * Shown in: kvtree_prep_op_inline(3), kvtree_prep_fixed(3),
 * kvtree_prep_multishot(3), kvtree_op_init(3), kvtree_op_cas(3),
 * kvtree_op_add(3), kvtree_op_scan(3)
 *
 * Prints:
 *	42 drops
 *	1 record
 *	multishot: ...
 */
#include <err.h>
#include <liburing.h>
#include <kvtree_uring.h>
#include <stdio.h>
#include <stdlib.h>

#define GROUP	1

static struct io_uring ring;
static char buf[2][4096];

/* Submits the SQE, and waits for its last completion. */
static int result(void)
{
	struct io_uring_cqe *cqe;
	unsigned int more;
	int res;

	if (io_uring_submit(&ring) < 0)
		errx(EXIT_FAILURE, "cannot submit");
	do {
		if (io_uring_wait_cqe(&ring, &cqe))
			errx(EXIT_FAILURE, "cannot wait");
		res = cqe->res;
		more = cqe->flags & IORING_CQE_F_MORE;
		io_uring_cqe_seen(&ring, cqe);
	} while (more);
	return res;
}

static struct io_uring_sqe *prepare(struct kvtree *kv,
				    struct kvtree_op *op)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);

	kvtree_prep_op_inline(sqe, kvtree_fd(kv), op, op);
	return sqe;
}

static void must(int ret)
{
	if (ret < 0)
		errx(EXIT_FAILURE, "%s", kvtree_strerror(ret));
}

int main(void)
{
	struct iovec iov = {
		.iov_base = buf[0],
		.iov_len = sizeof(buf[0]),
	};
	struct kvtree_scan scan = {
		.flags = KVTREE_SCAN_PREFIX,
		.prefix_len = 5,
	};
	struct kvtree_slice key = kvtree_str("drops");
	uint64_t zero = 0;
	struct kvtree_op op;
	struct kvtree *kv;

	must(kvtree_open(NULL, 0, &kv));
	must(io_uring_queue_init(8, &ring, IORING_SETUP_SQE128));
	must(io_uring_register_buffers(&ring, &iov, 1));

	kvtree_op_cas(&op, key, kvtree_slice(&zero, sizeof(zero)), 0, 0);
	prepare(kv, &op);
	must(result());
	kvtree_op_add(&op, key, 0, 42, 0);
	prepare(kv, &op);
	must(result());
	printf("%lld drops\n", (long long)op.arg + 42);

	kvtree_op_scan(&op, key, &scan, buf[0], sizeof(buf[0]));
	kvtree_prep_fixed(prepare(kv, &op), 0);
	must(result());
	printf("%u record\n", scan.count);

	io_uring_prep_provide_buffers(io_uring_get_sqe(&ring), buf[1],
				      sizeof(buf[1]), 1, GROUP, 0);
	must(result());
	kvtree_op_scan(&op, key, &scan, NULL, 0);
	kvtree_prep_multishot(prepare(kv, &op), GROUP);
	printf("multishot: %s\n", kvtree_strerror(result()));

	kvtree_op_init(&op, KVTREE_OP_REMOVE, key, 0);
	prepare(kv, &op);
	must(result());
	io_uring_queue_exit(&ring);
	kvtree_close(kv);
	return EXIT_SUCCESS;
}
