// SPDX-License-Identifier: LGPL-2.1-only
/*
 * Rings without io_uring: submitting executes the operations at once, with as
 * few system calls as possible.
 */
#include <stdlib.h>
#include <sys/eventfd.h>

#include "ring.h"

/* A contiguous array of operations for the kernel. */
struct sync_batch {
	unsigned int room;
	unsigned int nr;
	struct kvt_slots slots;
	struct kvtree_op op[];
};

static void run_batch(struct kvtree_ring *ring, struct sync_batch *b)
{
	struct kvt_slot *slot;
	unsigned int i;
	size_t done;
	int err;

	err = kvtree_submit(ring->kv, b->op, b->nr, &done);
	for (i = 0; i < b->nr; i++) {
		slot = kvt_slots_take(&b->slots);
		if (i < done) {
			*kvt_slot_op(slot) = b->op[i];
			slot->result = b->op[i].result;
			slot->version = b->op[i].version;
		} else {
			slot->result = err;
			slot->version = 0;
		}
		kvt_ring_done(ring, slot);
	}
	b->nr = 0;
}

static void run_list(struct kvtree_ring *ring, struct kvt_slot *slot)
{
	slot->result = kvtree_ops_run(slot->list, ring->kv);
	kvt_ring_done(ring, slot);
}

static int sync_submit(struct kvtree_ring *ring)
{
	struct sync_batch *b = ring->priv;
	struct kvt_slot *slot;
	int nr = 0;

	if (!ring->queue.nr)
		return 0;
	while ((slot = kvt_slots_take(&ring->queue))) {
		if (slot->kind == KVT_SLOT_LIST) {
			run_batch(ring, b);
			run_list(ring, slot);
		} else {
			b->op[b->nr++] = *kvt_slot_op(slot);
			kvt_slots_add(&b->slots, slot);
			if (b->nr == b->room)
				run_batch(ring, b);
		}
		nr++;
	}
	run_batch(ring, b);
	if (ring->eventfd >= 0)
		eventfd_write(ring->eventfd, 1);
	return nr;
}

static void sync_close(struct kvtree_ring *ring, bool forked)
{
	(void)forked;
	free(ring->priv);
}

static const struct kvt_ring_way sync_way = {
	.submit = sync_submit,
	.close = sync_close,
};

/**
 * kvt_ring_sync() - have a ring's operations executed by system calls
 * @ring: the ring
 *
 * Return: 0 or -ENOMEM
 */
int kvt_ring_sync(struct kvtree_ring *ring)
{
	unsigned int room = ring->depth < KVTREE_BATCH_MAX ? ring->depth : KVTREE_BATCH_MAX;
	struct sync_batch *b = calloc(1, sizeof(*b) + room * sizeof(b->op[0]));

	if (!b)
		return -ENOMEM;
	b->room = room;
	ring->priv = b;
	ring->way = &sync_way;
	return 0;
}
