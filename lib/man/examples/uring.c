// SPDX-License-Identifier: LGPL-2.1-only
/*
 * Use kvtree on the program's own io_uring, whose SQEs have the usual size: they
 * point to the operations.
 *
 * Shown in: kvtree_prep_op(3), kvtree_prep_batch(3), kvtree_prep_cancel(3),
 * kvtree_op_get(3), kvtree_op_put(3), kvtree_op_del(3), kvtree_op_sync(3)
 *
 * Prints:
 *	tea is green
 *	2 executed
 *	sync: ...
 *	nothing waits
 */
#include <err.h>
#include <errno.h>
#include <liburing.h>
#include <kvtree_uring.h>
#include <stdio.h>
#include <stdlib.h>

/* Submits the SQE, and waits for it. */
static int result(struct io_uring *ring)
{
	struct io_uring_cqe *cqe;
	int res;

	if (io_uring_submit_and_wait(ring, 1) < 0 ||
	    io_uring_peek_cqe(ring, &cqe))
		errx(EXIT_FAILURE, "io_uring");
	res = cqe->res;
	io_uring_cqe_seen(ring, cqe);
	return res;
}

int main(void)
{
	struct kvtree_slice tea = kvtree_str("tea");
	struct kvtree_op op, ops[2];
	struct io_uring ring;
	struct kvtree *kv;
	char buf[100];
	int err, n;

	err = kvtree_open(NULL, 0, &kv);
	if (!err)
		err = io_uring_queue_init(8, &ring, 0);
	if (err)
		errx(EXIT_FAILURE, "%s", kvtree_strerror(err));

	kvtree_op_put(&op, tea, kvtree_str("green"), 0);
	kvtree_prep_op(io_uring_get_sqe(&ring), kvtree_fd(kv), &op);
	err = result(&ring);
	if (err)
		errx(EXIT_FAILURE, "%s", kvtree_strerror(err));

	kvtree_op_get(&ops[0], tea, buf, sizeof(buf));
	kvtree_op_del(&ops[1], tea, 0, 0);
	kvtree_prep_batch(io_uring_get_sqe(&ring), kvtree_fd(kv), ops,
			  2);
	n = result(&ring);
	if (ops[0].result >= 0)
		printf("tea is %.*s\n", (int)ops[0].result, buf);
	printf("%d executed\n", n);

	/* Fails if the store is not durable. */
	kvtree_op_sync(&op);
	kvtree_prep_op(io_uring_get_sqe(&ring), kvtree_fd(kv), &op);
	printf("sync: %s\n", kvtree_strerror(result(&ring)));

	kvtree_prep_cancel(io_uring_get_sqe(&ring), kvtree_fd(kv), 0,
			   KVTREE_CANCEL_ANY);
	if (result(&ring) == -ENOENT)
		puts("nothing waits");

	io_uring_queue_exit(&ring);
	kvtree_close(kv);
	return EXIT_SUCCESS;
}
