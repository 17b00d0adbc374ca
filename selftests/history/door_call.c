// SPDX-License-Identifier: GPL-2.0
/* Operations by ioctl: single ones, or batches of several. */
#include "history.h"

#define ALL_OPS	((1u << HISTORY_OPS) - 1)

static int session;
static struct room room[DOOR_DEPTH];

static void call_open(int fd)
{
	session = fd;
}

static void one_run(struct event *event, unsigned int nr)
{
	struct kvtree_op op;
	unsigned int i;

	for (i = 0; i < nr; i++) {
		op = event_op(&event[i], room);
		event[i].call = history_tick();
		op.result = kvt_exec(session, &op);
		event[i].ret = history_tick();
		event_done(&event[i], &op, room);
	}
}

static void batch_run(struct event *event, unsigned int nr)
{
	struct kvtree_op op[DOOR_DEPTH];
	unsigned int i;

	for (i = 0; i < nr; i++) {
		op[i] = event_op(&event[i], &room[i]);
		event[i].call = history_tick();
	}
	KVT_CHECK(kvt_batch_all(session, op, nr) == 0);
	for (i = 0; i < nr; i++) {
		event[i].ret = history_tick();
		event_done(&event[i], &op[i], &room[i]);
	}
}

const struct door door_ioctl = {
	.name = "ioctl",
	.ops = ALL_OPS,
	.depth = 1,
	.classes = VALUE_CLASSES,
	.open = call_open,
	.run = one_run,
};

const struct door door_batch = {
	.name = "batch",
	.ops = ALL_OPS,
	.depth = DOOR_DEPTH,
	.classes = VALUE_CLASSES,
	.open = call_open,
	.run = batch_run,
};
