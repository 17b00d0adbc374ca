// SPDX-License-Identifier: GPL-2.0
/*
 * One operation, one system call.
 */
#include <sys/ioctl.h>

#include "bench_load.h"

struct state {
	struct kvtree *kv;
	struct kvtree_op op;
	struct request *queued;
};

static int open_ioctl(void **driver, struct kvtree *kv, unsigned int depth, unsigned int flags)
{
	struct state *s = alloc(NULL, sizeof(*s));

	(void)depth;
	(void)flags;
	*s = (struct state){ .kv = kv };
	*driver = s;
	return 0;
}

static void close_ioctl(void *driver)
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

/* The same as the library's calls for a single key. */
static int execute(struct state *s)
{
	while (ioctl(kvtree_fd(s->kv), KVTREE_IOC_OP, &s->op) < 0)
		if (errno != EINTR)
			return -errno;
	return 0;
}

static int reap(void *driver, struct request **done, unsigned int nr)
{
	struct state *s = driver;
	int err;

	(void)nr;
	err = execute(s);
	if (err)
		return err;
	s->queued->result = s->op.result;
	done[0] = s->queued;
	return 1;
}

const struct driver driver_ioctl = {
	.name = "ioctl",
	.open = open_ioctl,
	.close = close_ioctl,
	.room = room,
	.queue = queue,
	.reap = reap,
};
