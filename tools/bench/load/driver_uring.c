// SPDX-License-Identifier: GPL-2.0
/*
 * Many operations in progress on an io_uring.
 */
#include "bench_load.h"

struct state {
	struct kvtree_ring *ring;
	struct kvtree_op *op;		/* of each request */
	struct kvtree_event *event;
};

static unsigned int ring_flags(unsigned int flags)
{
	return (flags & SERIES_SQPOLL ? KVTREE_RING_SQPOLL : 0) |
	       (flags & SERIES_BY_POINTER ? KVTREE_RING_BY_POINTER : 0);
}

static void close_uring(void *driver)
{
	struct state *s = driver;

	kvtree_ring_close(s->ring);
	free(s->op);
	free(s->event);
	free(s);
}

/* The library's fallback without io_uring would be measured under a wrong name. */
static int open_uring(void **driver, struct kvtree *kv, unsigned int depth, unsigned int flags)
{
	struct kvtree_ring_opts opts = {
		.size = sizeof(opts), .depth = depth, .flags = ring_flags(flags),
	};
	struct state *s = alloc(NULL, sizeof(*s));
	int err;

	*s = (struct state){
		.op = alloc(NULL, depth * sizeof(*s->op)),
		.event = alloc(NULL, depth * sizeof(*s->event)),
	};
	err = kvtree_ring_open(kv, &opts, &s->ring);
	if (!err && !kvtree_ring_uses_uring(s->ring))
		err = -EOPNOTSUPP;
	if (err) {
		close_uring(s);
		return err;
	}
	*driver = s;
	return 0;
}

static struct kvtree_op *room(void *driver, const struct request *r)
{
	struct state *s = driver;

	return &s->op[r->slot];
}

static int queue(void *driver, struct request *r)
{
	struct state *s = driver;

	return kvtree_ring_op(s->ring, &s->op[r->slot], kvtree_as_event(r));
}

static int reap(void *driver, struct request **done, unsigned int nr)
{
	struct state *s = driver;
	int i, n;

	do {
		n = kvtree_ring_wait(s->ring, s->event, nr, 1, -1);
	} while (n == -EINTR);
	for (i = 0; i < n; i++) {
		done[i] = s->event[i].data;
		done[i]->result = s->event[i].result;
	}
	return n;
}

const struct driver driver_uring = {
	.name = "uring",
	.deep = true,
	.open = open_uring,
	.close = close_uring,
	.room = room,
	.queue = queue,
	.reap = reap,
};
