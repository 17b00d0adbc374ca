// SPDX-License-Identifier: GPL-2.0
/*
 * kvtree: a single put is an ioctl; several are io_uring commands, or one batch.
 */
#include <string.h>

#include <kvtree.h>
#include <liburing.h>

#include "bench_log.h"

struct client {
	struct store *store;
	bool sync;
	struct io_uring ring;
	struct kvtree_op ops[DEPTH_MAX];
	char values[DEPTH_MAX][VALUE_LEN];
	unsigned int pending[DEPTH_MAX / GROUP_MAX];
};

static uint64_t run_single(struct system *sys, double until)
{
	struct client *c = sys->client;
	uint64_t n = 0;

	do {
		op_make(&c->ops[0], c->values[0], draw_key(&sys->draw), sys->count + n, c->sync);
		op_run(c->store, &c->ops[0]);
		n++;
	} while ((n % 16 && !c->sync) || seconds_now() < until);
	return n;
}

static uint64_t run_batch(struct system *sys, double until)
{
	struct client *c = sys->client;
	unsigned int i;
	uint64_t n = 0;

	do {
		for (i = 0; i < sys->depth; i++)
			op_make(&c->ops[i], c->values[i], draw_key(&sys->draw),
				sys->count + n + i, c->sync);
		ops_run(c->store, c->ops, sys->depth);
		n += sys->depth;
	} while (seconds_now() < until);
	return n;
}

static void send_put(struct system *sys, unsigned int slot, uint64_t count)
{
	struct client *c = sys->client;
	struct io_uring_sqe *sqe = io_uring_get_sqe(&c->ring);
	struct kvtree_uring_inline *cmd;

	if (!sqe)
		die("io_uring: more commands than SQEs");
	memset(sqe, 0, offsetof(struct io_uring_sqe, cmd) + sizeof(*cmd));
	sqe->opcode = IORING_OP_URING_CMD;
	sqe->flags = IOSQE_FIXED_FILE;
	sqe->cmd_op = KVTREE_URING_OP_INLINE;
	sqe->user_data = slot;
	cmd = (void *)sqe->cmd;
	op_make(&cmd->op, c->values[slot], draw_key(&sys->draw), count, c->sync);
}

/* Submit commands, and wait for this many completions. */
static void ring_enter(struct client *c, unsigned int submit, unsigned int wait)
{
	int ret = io_uring_submit_and_wait(&c->ring, wait);

	if (ret != (int)submit)
		die("io_uring: %s", ret < 0 ? strerror(-ret) : "not all was submitted");
}

static void ring_reap(struct client *c)
{
	struct io_uring_cqe *cqe;
	unsigned int head, nr = 0;

	io_uring_for_each_cqe(&c->ring, head, cqe) {
		if (cqe->res < 0)
			die("kvtree: a put failed: %s", kvtree_strerror(cqe->res));
		c->pending[cqe->user_data / GROUP_MAX]--;
		nr++;
	}
	io_uring_cq_advance(&c->ring, nr);
}

static void ring_send(struct system *sys, unsigned int first, uint64_t count)
{
	unsigned int i, nr = group_size(sys);
	struct client *c = sys->client;

	for (i = 0; i < nr; i++)
		send_put(sys, first + i, count + i);
	c->pending[first / GROUP_MAX] = nr;
	ring_enter(c, nr, 0);
}

static void ring_await(struct system *sys, unsigned int first)
{
	struct client *c = sys->client;
	unsigned int *pending = &c->pending[first / GROUP_MAX];

	for (ring_reap(c); *pending; ring_reap(c))
		ring_enter(c, 0, *pending);
}

static const struct window ring_window = { .send = ring_send, .await = ring_await };

static uint64_t run_ring(struct system *sys, double until)
{
	return window_run(&ring_window, sys, until);
}

static void ring_init(struct client *c)
{
	int err = io_uring_queue_init(DEPTH_MAX, &c->ring, IORING_SETUP_SQE128 |
				      IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN);

	/* Servers do not need its memory, and UML miscounts it when it forks. */
	if (!err)
		err = io_uring_ring_dontfork(&c->ring);
	if (!err)
		err = io_uring_register_files(&c->ring, &c->store->fd, 1);
	if (err)
		die("io_uring: %s", strerror(-err));
}

static void stop(struct system *sys)
{
	struct client *c = sys->client;

	if (sys->run == run_ring)
		io_uring_queue_exit(&c->ring);
	free(c);
}

static void add(struct systems *s, struct store *store, const char *name, unsigned int depth,
		bool sync, bool batch)
{
	struct client *c = calloc(1, sizeof(*c));
	struct system sys = { .name = name, .depth = depth, .stop = stop, .client = c };

	if (!c)
		die("out of memory");
	c->store = store;
	c->sync = sync;
	sys.run = depth == 1 ? run_single : batch ? run_batch : run_ring;
	if (sys.run == run_ring)
		ring_init(c);
	systems_add(s, &sys);
}

static struct store in_memory, durable;

/**
 * kvtree_start() - create two stores with all keys, and their systems
 * @s: gets the systems
 * @o: options
 * @pair: the durable store is on its first device
 */
void kvtree_start(struct systems *s, const struct options *o, const struct pair *pair)
{
	unsigned int i;

	store_create(&in_memory, "bench-log-memory");
	store_format(o, pair->store);
	store_attach(&durable, "bench-log", "", pair->store);
	store_load(&in_memory, 0, nr_keys, 0);
	store_load(&durable, 0, nr_keys, 0);
	for (i = 0; i < NR_DEPTHS; i++) {
		add(s, &in_memory, "kvtree volatile", depths[i], false, false);
		add(s, &durable, "kvtree async", depths[i], false, false);
		add(s, &durable, "kvtree sync", depths[i], true, false);
		if (depths[i] > 1)
			add(s, &durable, "kvtree sync, batch", depths[i], true, true);
	}
}

/**
 * kvtree_stop() - check what is durable, and remove the stores
 *
 * Called after all systems have stopped.
 */
void kvtree_stop(void)
{
	store_sync(&durable);
	store_check(&durable, nr_keys);
	store_detach(&durable);
	store_destroy(&in_memory);
}
