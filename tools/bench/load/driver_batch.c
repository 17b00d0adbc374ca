// SPDX-License-Identifier: GPL-2.0
/*
 * Many operations in one system call.
 */
#include "bench_load.h"

struct state {
	struct kvtree *kv;
	unsigned int nr;		/* queued */
	struct kvtree_op *op;
	struct request **request;	/* of each operation */
};

static int open_batch(void **driver, struct kvtree *kv, unsigned int depth, unsigned int flags)
{
	struct state *s = alloc(NULL, sizeof(*s));

	(void)flags;
	*s = (struct state){
		.kv = kv,
		.op = alloc(NULL, depth * sizeof(*s->op)),
		.request = alloc(NULL, depth * sizeof(struct request *)),
	};
	*driver = s;
	return 0;
}

static void close_batch(void *driver)
{
	struct state *s = driver;

	free(s->op);
	free(s->request);
	free(s);
}

static struct kvtree_op *room(void *driver, const struct request *r)
{
	struct state *s = driver;

	(void)r;
	return &s->op[s->nr];
}

static int queue(void *driver, struct request *r)
{
	struct state *s = driver;

	s->request[s->nr++] = r;
	return 0;
}

static int reap(void *driver, struct request **done, unsigned int nr)
{
	struct state *s = driver;
	unsigned int i;
	int err;

	(void)nr;
	err = kvtree_submit(s->kv, s->op, s->nr, NULL);
	if (err)
		return err;
	for (i = 0; i < s->nr; i++) {
		s->request[i]->result = s->op[i].result;
		done[i] = s->request[i];
	}
	s->nr = 0;
	return (int)i;
}

const struct driver driver_batch = {
	.name = "batch",
	.deep = true,
	.open = open_batch,
	.close = close_batch,
	.room = room,
	.queue = queue,
	.reap = reap,
};
