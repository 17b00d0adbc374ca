// SPDX-License-Identifier: GPL-2.0
/*
 * kvtree by io_uring: one command per request, in the SQE or by pointer, and one command for all of
 * them.
 */
#include <string.h>

#include <kvtree.h>
#include <liburing.h>

#include "bench_stock.h"

struct uring {
	struct kvtree_client *c;
	struct io_uring ring;
	struct kvtree_op ops[DEPTH_MAX];
};

/* Set up a ring for a program that submits and waits in one thread. */
static void ring_init(struct uring *u, unsigned int flags)
{
	int err;

	flags |= IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN;
	err = io_uring_queue_init(DEPTH_MAX, &u->ring, flags);
	if (!err)
		err = io_uring_register_files(&u->ring, kvtree_client_fds(u->c), 2);
	if (!err && io_uring_register_ring_fd(&u->ring) != 1)
		err = -EINVAL;
	if (err)
		die("io_uring: %s", strerror(-err));
}

/* The next SQE, for a command on a registered file. */
static void *command(struct uring *u, int file, unsigned int cmd, size_t size, unsigned int id)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&u->ring);

	if (!sqe)
		die("io_uring: more commands than SQEs");
	memset(sqe, 0, offsetof(struct io_uring_sqe, cmd) + size);
	sqe->opcode = IORING_OP_URING_CMD;
	sqe->flags = IOSQE_FIXED_FILE;
	sqe->fd = file;
	sqe->cmd_op = cmd;
	sqe->user_data = id;
	return sqe->cmd;
}

static void submit(struct uring *u, struct system *sys, unsigned int n)
{
	int ret = io_uring_submit_and_wait(&u->ring, n);

	if (ret != (int)n)
		die("io_uring: %s", ret < 0 ? strerror(-ret) : "not all was submitted");
	sys->commands += n;
}

/* Reap the answers to requests with a command each. */
static void reap(struct uring *u, const struct request *reqs, unsigned int n)
{
	struct io_uring_cqe *cqe;
	unsigned int head, nr = 0;

	io_uring_for_each_cqe(&u->ring, head, cqe) {
		kvtree_check(u->c, cqe->user_data, &reqs[cqe->user_data], cqe->res, n);
		nr++;
	}
	if (nr != n)
		die("io_uring: %u completions for %u commands", nr, n);
	io_uring_cq_advance(&u->ring, nr);
}

static void run_inline(struct system *sys, const struct request *reqs, unsigned int n)
{
	struct kvtree_uring_inline *cmd;
	struct uring *u = sys->client;
	int file = is_cols(reqs);
	unsigned int at, i;

	for (at = 0; at < n; at += sys->depth) {
		for (i = 0; i < sys->depth; i++) {
			cmd = command(u, file, KVTREE_URING_OP_INLINE, sizeof(*cmd), i);
			kvtree_fill(u->c, i, &reqs[at + i], &cmd->op);
		}
		submit(u, sys, sys->depth);
		reap(u, &reqs[at], sys->depth);
	}
}

static void run_pointer(struct system *sys, const struct request *reqs, unsigned int n)
{
	struct kvtree_uring_op *cmd;
	struct uring *u = sys->client;
	int file = is_cols(reqs);
	unsigned int at, i;

	for (at = 0; at < n; at += sys->depth) {
		for (i = 0; i < sys->depth; i++) {
			kvtree_fill(u->c, i, &reqs[at + i], &u->ops[i]);
			cmd = command(u, file, KVTREE_URING_OP, sizeof(*cmd), i);
			cmd->op = (uintptr_t)&u->ops[i];
			cmd->op_size = sizeof(u->ops[i]);
		}
		submit(u, sys, sys->depth);
		reap(u, &reqs[at], sys->depth);
	}
}

static void reap_batch(struct uring *u, const struct request *reqs, unsigned int n)
{
	struct io_uring_cqe *cqe;
	unsigned int i;

	if (io_uring_peek_cqe(&u->ring, &cqe))
		die("io_uring: no completion");
	if (cqe->res != (int)n)
		die("io_uring: a batch of %u ended with %d", n, cqe->res);
	io_uring_cqe_seen(&u->ring, cqe);
	for (i = 0; i < n; i++)
		kvtree_check(u->c, i, &reqs[i], u->ops[i].result, n);
}

static void run_batch(struct system *sys, const struct request *reqs, unsigned int n)
{
	struct kvtree_uring_batch *cmd;
	struct uring *u = sys->client;
	int file = is_cols(reqs);
	unsigned int at, i;

	for (at = 0; at < n; at += sys->depth) {
		for (i = 0; i < sys->depth; i++)
			kvtree_fill(u->c, i, &reqs[at + i], &u->ops[i]);
		cmd = command(u, file, KVTREE_URING_BATCH, sizeof(*cmd), 0);
		cmd->ops = (uintptr_t)u->ops;
		cmd->nr = sys->depth;
		cmd->op_size = sizeof(u->ops[0]);
		submit(u, sys, 1);
		reap_batch(u, &reqs[at], sys->depth);
	}
}

/**
 * uring_start() - add the systems that use io_uring
 * @s: gets the systems
 * @c: the client with the session and contents
 */
void uring_start(struct systems *s, struct kvtree_client *c)
{
	static const struct system systems[] = {
		{ "kvtree io_uring 64, inline", 64, ON_PLAIN | ON_MYCSB, 2048, run_inline },
		{ "kvtree io_uring 64, pointer", 64, ON_PLAIN | ON_MYCSB, 2048, run_pointer },
		{ "kvtree io_uring batch 64", 64, ON_PLAIN | ON_MYCSB, 2048, run_batch },
	};
	struct system sys;
	struct uring *u;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(systems); i++) {
		u = calloc(1, sizeof(*u));
		if (!u)
			die("out of memory");
		u->c = c;
		ring_init(u, systems[i].run == run_inline ? IORING_SETUP_SQE128 : 0);
		sys = systems[i];
		sys.client = u;
		systems_add(s, &sys);
	}
}
