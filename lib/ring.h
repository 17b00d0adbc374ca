/* SPDX-License-Identifier: LGPL-2.1-only */
/*
 * Declarations shared by the files of a ring.
 *
 * ring.c implements the API: it lays operations out in slots, queues them, and
 * makes events of those that have completed.  struct kvt_ring_way passes them to
 * the kernel: ring_uring.c or ring_sync.c.
 *
 * A slot is in one place at a time:
 *
 *	free -> queue -> started -> done -> free
 *
 * Started slots belong to the kernel and are on no list.  Slots that the kernel
 * did not take on submission stay in the queue.  Canceling an operation before
 * it is submitted moves it from the queue to the done list; a list of operations
 * that has more to do goes from started back to the queue.
 */
#ifndef KVTREE_RING_H
#define KVTREE_RING_H

#include <sys/types.h>

#include "internal.h"

enum kvt_slot_kind {
	KVT_SLOT_OP,		/* an operation of the library's */
	KVT_SLOT_USER,		/* one that the caller laid out */
	KVT_SLOT_LIST,		/* a list of operations */
};

struct kvt_slot {
	struct kvtree_op op;	/* KVT_SLOT_OP */
	struct kvt_slot *next;
	struct kvtree_callback then;
	union {
		struct kvtree_op *user;		/* KVT_SLOT_USER */
		struct kvtree_ops *list;	/* KVT_SLOT_LIST */
	};
	__u64 delta;		/* of an addition */
	__u64 version;		/* when it has completed */
	__s32 result;		/* the same */
	__u8 kind;		/* enum kvt_slot_kind */
	bool started;
} __attribute__((aligned(64)));

struct kvt_slots {
	struct kvt_slot *head;
	struct kvt_slot *tail;
	unsigned int nr;
};

/**
 * struct kvt_ring_way - how the operations of a ring are executed
 * @submit: begins those in the queue; returns the number of those begun, or a
 *	negative errno if that is none; the others stay in the queue
 * @reap: takes one that has completed; returns it with its result and version,
 *	or NULL
 * @ready: whether @reap would return one
 * @wait: waits until that many of the started ones have completed, or for that
 *	many nanoseconds, -1 for no limit; returns 0 or a negative errno
 * @cancel: cancels the started ones that wait; returns their number
 *	or a negative errno
 * @watch: writes to an eventfd whenever an operation completes from now on
 * @close: frees what the others need; called in the process that made the ring, or
 *	in a child of it
 *
 * A way that executes everything in @submit has only @submit and @close.
 */
struct kvt_ring_way {
	int (*submit)(struct kvtree_ring *ring);
	struct kvt_slot *(*reap)(struct kvtree_ring *ring);
	bool (*ready)(struct kvtree_ring *ring);
	int (*wait)(struct kvtree_ring *ring, unsigned int nr, int64_t ns);
	int (*cancel)(struct kvtree_ring *ring, const void *data);
	int (*watch)(struct kvtree_ring *ring, int fd);
	void (*close)(struct kvtree_ring *ring, bool forked);
};

struct kvtree_ring {
	const struct kvtree *kv;
	const struct kvt_ring_way *way;
	void *priv;		/* of the way */
	struct kvt_slot *slot;
	unsigned int depth;	/* slots */
	unsigned int pending;	/* slots that are not free */
	struct kvt_slots free;
	struct kvt_slots queue;
	struct kvt_slots done;
	int eventfd;		/* -1: there is none */
	bool closing;
	pid_t pid;		/* of the process that made the ring */
};

static inline void kvt_slots_add(struct kvt_slots *slots, struct kvt_slot *slot)
{
	slot->next = NULL;
	if (slots->head)
		slots->tail->next = slot;
	else
		slots->head = slot;
	slots->tail = slot;
	slots->nr++;
}

static inline void kvt_slots_put_back(struct kvt_slots *slots, struct kvt_slot *slot)
{
	if (!slots->head)
		slots->tail = slot;
	slot->next = slots->head;
	slots->head = slot;
	slots->nr++;
}

/* kvt_slots_join() - append all of another list, which must not be used after that */
static inline void kvt_slots_join(struct kvt_slots *slots, const struct kvt_slots *more)
{
	if (!more->head)
		return;
	if (slots->head)
		slots->tail->next = more->head;
	else
		slots->head = more->head;
	slots->tail = more->tail;
	slots->nr += more->nr;
}

static inline struct kvt_slot *kvt_slots_take(struct kvt_slots *slots)
{
	struct kvt_slot *slot = slots->head;

	if (slot) {
		slots->head = slot->next;
		slots->nr--;
	}
	return slot;
}

/*
 * kvt_slot_op() - the operation of a slot that is not a list
 * @slot: the slot
 */
static inline struct kvtree_op *kvt_slot_op(struct kvt_slot *slot)
{
	return slot->kind == KVT_SLOT_USER ? slot->user : &slot->op;
}

void kvt_ring_done(struct kvtree_ring *ring, struct kvt_slot *slot);

int kvt_ring_uring(struct kvtree_ring *ring, const struct kvtree_ring_opts *opts);
int kvt_ring_sync(struct kvtree_ring *ring);

#endif /* KVTREE_RING_H */
