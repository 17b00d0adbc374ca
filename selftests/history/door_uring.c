// SPDX-License-Identifier: GPL-2.0
/* Operations by io_uring: several commands at a time, which complete in any order. */
#include "history.h"
#include "lib/uring.h"

static struct {
	int session;
	struct kvt_ring ring;
	struct room room[DOOR_DEPTH];
} uring;

static void uring_open(int fd)
{
	uring.session = fd;
	kvt_ring_make(&uring.ring, DOOR_DEPTH, 0);
}

static void uring_run(struct event *event, unsigned int nr)
{
	struct kvtree_op op[DOOR_DEPTH];
	struct io_uring_sqe *sqe;
	struct kvt_cqe cqe;
	unsigned int i;

	for (i = 0; i < nr; i++) {
		op[i] = event_op(&event[i], &uring.room[i]);
		sqe = kvt_ring_sqe(&uring.ring);
		KVT_CHECK(sqe);
		kvt_sqe_op(sqe, uring.session, &op[i], i);
		event[i].call = history_tick();
	}
	kvt_ring_submit(&uring.ring);
	while (nr--) {
		kvt_ring_wait(&uring.ring, &cqe);
		i = (unsigned int)cqe.data;
		event[i].ret = history_tick();
		/* A command that was not executed left the operation as it was. */
		op[i].result = cqe.res;
		event_done(&event[i], &op[i], &uring.room[i]);
	}
}

const struct door door_uring = {
	.name = "uring",
	.ops = (1u << HISTORY_OPS) - 1,
	.depth = DOOR_DEPTH,
	.classes = VALUE_CLASSES,
	.open = uring_open,
	.run = uring_run,
};
