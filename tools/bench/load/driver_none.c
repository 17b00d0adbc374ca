// SPDX-License-Identifier: GPL-2.0
/*
 * No operation at all: measures the benchmark itself.
 */
#include "bench_load.h"

struct state {
	struct kvtree_op op;
	struct request *queued;
};

static int open_none(void **driver, struct kvtree *kv, unsigned int depth, unsigned int flags)
{
	(void)kv;
	(void)depth;
	(void)flags;
	*driver = alloc(NULL, sizeof(struct state));
	return 0;
}

static void close_none(void *driver)
{
	free(driver);
}

static struct kvtree_op *room(void *driver, const struct request *r)
{
	struct state *s = driver;

	(void)r;
	return &s->op;
}

static int queue(void *driver, struct request *r)
{
	struct state *s = driver;

	s->queued = r;
	return 0;
}

static int reap(void *driver, struct request **done, unsigned int nr)
{
	struct state *s = driver;

	(void)nr;
	s->queued->result = 0;
	done[0] = s->queued;
	return 1;
}

const struct driver driver_none = {
	.name = "none",
	.dry = true,
	.open = open_none,
	.close = close_none,
	.room = room,
	.queue = queue,
	.reap = reap,
};
