// SPDX-License-Identifier: GPL-2.0
/*
 * Store a value and look it up by io_uring, with liburing (link with -luring).
 * The SQEs contain the operations, and the CQEs also have the version.
 *
 * Shown in: kvtree(4)
 *
 * Prints:
 *	stored
 *	got "world", of the same version
 */
#include <err.h>
#include <fcntl.h>
#include <liburing.h>
#include <linux/kvtree.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int execute(struct io_uring *ring, int fd,
		   const struct kvtree_op *op, uint64_t *version)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);
	struct kvtree_uring_inline *cmd;
	struct io_uring_cqe *cqe;
	int result;

	if (!sqe)
		errx(EXIT_FAILURE, "io_uring: the queue is full");
	memset(sqe, 0, 2 * sizeof(*sqe));
	sqe->opcode = IORING_OP_URING_CMD;
	sqe->fd = fd;
	sqe->cmd_op = KVTREE_URING_OP_INLINE;
	cmd = (struct kvtree_uring_inline *)sqe->cmd;
	cmd->op = *op;
	if (io_uring_submit_and_wait(ring, 1) != 1 ||
	    io_uring_peek_cqe(ring, &cqe))
		errx(EXIT_FAILURE, "io_uring");
	result = cqe->res;
	*version = cqe->big_cqe[0];
	io_uring_cqe_seen(ring, cqe);
	if (result < 0)
		errx(EXIT_FAILURE, "%s", strerror(-result));
	return result;
}

int main(void)
{
	char key[] = "hello", val[] = "world", buf[64];
	struct kvtree_op put = {
		.opcode = KVTREE_OP_PUT,
		.key = (uintptr_t)key, .key_len = 5,
		.val = (uintptr_t)val, .val_len = 5,
	}, get = {
		.opcode = KVTREE_OP_GET,
		.key = (uintptr_t)key, .key_len = 5,
		.val = (uintptr_t)buf, .val_len = sizeof(buf),
	}, del = {
		.opcode = KVTREE_OP_REMOVE,
		.key = (uintptr_t)key, .key_len = 5,
	};
	int fd = open("/dev/kvtree", O_RDWR | O_CLOEXEC);
	uint64_t stored, found;
	struct io_uring ring;
	int len;

	if (fd < 0)
		err(EXIT_FAILURE, "/dev/kvtree");
	if (io_uring_queue_init(8, &ring, IORING_SETUP_SQE128 |
					  IORING_SETUP_CQE32))
		errx(EXIT_FAILURE, "io_uring");
	execute(&ring, fd, &put, &stored);
	puts("stored");
	len = execute(&ring, fd, &get, &found);
	printf("got \"%.*s\", of %s version\n", len, buf,
	       found == stored ? "the same" : "another");
	execute(&ring, fd, &del, &found);
	io_uring_queue_exit(&ring);
	return EXIT_SUCCESS;
}
