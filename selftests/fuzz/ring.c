// SPDX-License-Identifier: GPL-2.0
/* Calls by io_uring; each thread has a ring of its own while it needs one. */
#include <errno.h>

#include "fuzz.h"
#include "lib/uring.h"

#define ENTRIES	8

static struct {
	bool made;
	struct kvt_ring ring;
	struct kvtree_op op[ENTRIES];
	unsigned int next;
} rings[2];

static struct kvt_ring *ring_of(struct input *in, unsigned int thread)
{
	static const unsigned int flags[] = {
		IORING_SETUP_SQE128, IORING_SETUP_SQE128 | IORING_SETUP_CQE32, 0,
		IORING_SETUP_SQE128 | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN,
	};
	unsigned int kind = input_below(in, NR(flags));

	if (!rings[thread].made)
		rings[thread].made = !kvt_ring_init(&rings[thread].ring, ENTRIES, flags[kind]);
	return rings[thread].made ? &rings[thread].ring : NULL;
}

static void queue(struct input *in, unsigned int thread, struct kvt_ring *ring,
		  struct io_uring_sqe *sqe)
{
	unsigned int slot = rings[thread].next++ % ENTRIES;
	struct kvtree_op *op = &rings[thread].op[slot];
	int fd = session_take(in);

	op_fill(in, thread, op);
	switch (input_below(in, 8)) {
	case 0:
	case 1:
	case 2:
		kvt_sqe_op(sqe, fd, op, slot);
		break;
	case 3:
	case 4:
		if (ring->flags & IORING_SETUP_SQE128)
			kvt_sqe_inline(sqe, fd, op, input_below(in, 2) ? op : NULL, slot);
		else
			kvt_sqe_op(sqe, fd, (void *)arena_pointer(in, thread), slot);
		break;
	case 5:
		kvt_sqe_batch(sqe, fd, op, 1, slot);
		break;
	default:
		kvt_sqe_cancel(sqe, fd, input_below(in, ENTRIES), input_below(in, 4), 99);
	}
	if (input_below(in, 8) == 0)
		sqe->flags |= (__u8)(1u << input_below(in, 7));
	if (input_below(in, 16) == 0)
		sqe->rw_flags = (int)input_below(in, 4);
}

/* Queue a few, let the kernel have them, and take what there is. */
void call_ring(struct input *in, unsigned int thread)
{
	struct kvt_ring *ring = ring_of(in, thread);
	unsigned int nr = 1 + input_below(in, 3), done = 0;
	struct io_uring_sqe *sqe;
	struct kvt_cqe cqe;

	if (!ring)
		return;
	while (done < nr) {
		sqe = kvt_ring_sqe(ring);
		if (!sqe)
			break;
		queue(in, thread, ring, sqe);
		done++;
	}
	kvt_ring_publish(ring);
	kvt_ring_enter(ring, done, 0, IORING_ENTER_GETEVENTS);
	while (kvt_ring_peek(ring, &cqe))
		result_is_documented(cqe.res);
}

void rings_end(void)
{
	int i;

	for (i = 0; i < 2; i++) {
		if (rings[i].made)
			kvt_ring_exit(&rings[i].ring);
		rings[i].made = false;
	}
}
