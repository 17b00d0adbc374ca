// SPDX-License-Identifier: LGPL-2.1-only
/*
 * Rings: queue operations, and return an event for each.
 */
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "ring.h"

#define DEPTH_DEFAULT	256u
#define DEPTH_MAX	32768u

/* How long closing waits before it cancels again. */
#define DRAIN_NS	(50 * 1000000ll)

/* The program may have been compiled with a smaller or larger structure than the library. */
static int read_opts(struct kvtree_ring_opts *o, const struct kvtree_ring_opts *user)
{
	const unsigned int known = KVTREE_RING_SQPOLL | KVTREE_RING_BY_POINTER |
				   KVTREE_RING_NO_URING;
	size_t i;

	memset(o, 0, sizeof(*o));
	if (user) {
		if (user->size < offsetof(struct kvtree_ring_opts, buffers) +
				 sizeof(user->buffers) || user->size > 4096)
			return -EINVAL;
		for (i = sizeof(*o); i < user->size; i++)
			if (((const char *)user)[i])
				return -E2BIG;
		memcpy(o, user, sizeof(*o));
	}
	if (!o->depth)
		o->depth = DEPTH_DEFAULT;
	if (o->depth > DEPTH_MAX)
		return -E2BIG;
	if (o->flags & ~known || (o->nr_buffers && !o->buffers))
		return -EINVAL;
	return 0;
}

static int open_way(struct kvtree_ring *ring, const struct kvtree_ring_opts *o)
{
	int err = -EOPNOTSUPP;

	if (!(o->flags & KVTREE_RING_NO_URING))
		err = kvt_ring_uring(ring, o);
	return err == -EOPNOTSUPP ? kvt_ring_sync(ring) : err;
}

KVTREE_API int kvtree_ring_open(const struct kvtree *kv,
				const struct kvtree_ring_opts *opts,
				struct kvtree_ring **ring)
{
	struct kvtree_ring_opts o;
	struct kvtree_ring *r;
	unsigned int i;
	int err;

	*ring = NULL;
	err = read_opts(&o, opts);
	if (err)
		return err;
	r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	r->kv = kv;
	r->depth = o.depth;
	r->eventfd = -1;
	r->pid = getpid();
	r->slot = aligned_alloc(_Alignof(struct kvt_slot), r->depth * sizeof(*r->slot));
	err = r->slot ? open_way(r, &o) : -ENOMEM;
	if (err) {
		free(r->slot);
		free(r);
		return err;
	}
	memset(r->slot, 0, r->depth * sizeof(*r->slot));
	for (i = 0; i < r->depth; i++)
		kvt_slots_add(&r->free, &r->slot[i]);
	*ring = r;
	return 0;
}

KVTREE_API int kvtree_ring_uses_uring(const struct kvtree_ring *ring)
{
	return !!ring->way->reap;
}

KVTREE_API unsigned int kvtree_ring_pending(const struct kvtree_ring *ring)
{
	return ring->pending;
}

static unsigned int nr_started(const struct kvtree_ring *ring)
{
	return ring->pending - ring->queue.nr - ring->done.nr;
}

/*
 * Queueing
 */

static int take_slot(struct kvtree_ring *ring, struct kvtree_callback then,
		     struct kvt_slot **slot)
{
	if (ring->closing)
		return -ECANCELED;
	if (!ring->free.head)
		return -EAGAIN;
	*slot = ring->free.head;
	(*slot)->then = then;
	return 0;
}

/* Commit the slot that take_slot() returned: a failure before that leaves it free. */
static int queue_slot(struct kvtree_ring *ring, enum kvt_slot_kind kind)
{
	struct kvt_slot *slot = kvt_slots_take(&ring->free);

	slot->kind = (__u8)kind;
	if (kind != KVT_SLOT_LIST) {
		struct kvtree_op *op = kvt_slot_op(slot);

		/* The kernel never returns it: tells whether it has written the operation back. */
		op->result = -EINPROGRESS;
		/* The kernel overwrites the operand of an addition with the old number. */
		slot->delta = op->arg;
	}
	kvt_slots_add(&ring->queue, slot);
	ring->pending++;
	return 0;
}

KVTREE_API int kvtree_ring_get(struct kvtree_ring *ring, struct kvtree_slice key,
			       void *buf, size_t size, struct kvtree_callback then)
{
	struct kvt_slot *slot;
	int err;

	err = take_slot(ring, then, &slot);
	if (!err)
		err = kvtree_op_get(&slot->op, key, buf, size);
	return err ? err : queue_slot(ring, KVT_SLOT_OP);
}

KVTREE_API int kvtree_ring_put(struct kvtree_ring *ring, struct kvtree_slice key,
			       struct kvtree_slice val, unsigned int flags,
			       struct kvtree_callback then)
{
	struct kvt_slot *slot;
	int err;

	err = take_slot(ring, then, &slot);
	if (!err)
		err = kvtree_op_put(&slot->op, key, val, flags);
	return err ? err : queue_slot(ring, KVT_SLOT_OP);
}

KVTREE_API int kvtree_ring_cas(struct kvtree_ring *ring, struct kvtree_slice key,
			       struct kvtree_slice val, unsigned int flags,
			       uint64_t version, struct kvtree_callback then)
{
	struct kvt_slot *slot;
	int err;

	err = take_slot(ring, then, &slot);
	if (!err)
		err = kvtree_op_cas(&slot->op, key, val, flags, version);
	return err ? err : queue_slot(ring, KVT_SLOT_OP);
}

KVTREE_API int kvtree_ring_del(struct kvtree_ring *ring, struct kvtree_slice key,
			       unsigned int flags, uint64_t version,
			       struct kvtree_callback then)
{
	struct kvt_slot *slot;
	int err;

	err = take_slot(ring, then, &slot);
	if (!err)
		err = kvtree_op_del(&slot->op, key, flags, version);
	return err ? err : queue_slot(ring, KVT_SLOT_OP);
}

KVTREE_API int kvtree_ring_add(struct kvtree_ring *ring, struct kvtree_slice key,
			       unsigned int col, int64_t delta, unsigned int flags,
			       struct kvtree_callback then)
{
	struct kvt_slot *slot;
	int err;

	err = take_slot(ring, then, &slot);
	if (!err)
		err = kvtree_op_add(&slot->op, key, col, delta, flags);
	return err ? err : queue_slot(ring, KVT_SLOT_OP);
}

KVTREE_API int kvtree_ring_sync(struct kvtree_ring *ring, struct kvtree_callback then)
{
	struct kvt_slot *slot;
	int err;

	err = take_slot(ring, then, &slot);
	if (err)
		return err;
	kvtree_op_sync(&slot->op);
	return queue_slot(ring, KVT_SLOT_OP);
}

KVTREE_API int kvtree_ring_op(struct kvtree_ring *ring, struct kvtree_op *op,
			      struct kvtree_callback then)
{
	struct kvt_slot *slot;
	int err;

	err = take_slot(ring, then, &slot);
	if (err)
		return err;
	slot->user = op;
	return queue_slot(ring, KVT_SLOT_USER);
}

KVTREE_API int kvtree_ring_ops(struct kvtree_ring *ring, struct kvtree_ops *ops,
			       struct kvtree_callback then)
{
	struct kvt_slot *slot;
	int err;

	err = take_slot(ring, then, &slot);
	if (err)
		return err;
	slot->list = ops;
	return queue_slot(ring, KVT_SLOT_LIST);
}

KVTREE_API int kvtree_ring_submit(struct kvtree_ring *ring)
{
	return ring->way->submit(ring);
}

/*
 * Completing
 */

/*
 * Make the eventfd readable for completions that the kernel does not signal.
 * The write fails only if the counter is at its maximum, and then it is readable.
 */
static void notify(struct kvtree_ring *ring)
{
	if (ring->eventfd >= 0)
		eventfd_write(ring->eventfd, 1);
}

/*
 * Queue a list again if operations are left; it has completed if none is, or
 * after an error.
 */
static bool list_continues(struct kvtree_ring *ring, struct kvt_slot *slot)
{
	if (slot->result < 0)
		return slot->result == -EINTR && !ring->closing;
	kvt_ops_advance(slot->list, (size_t)slot->result);
	slot->result = 0;
	if (!kvt_ops_rest(slot->list, NULL))
		return false;
	if (ring->closing)
		slot->result = -ECANCELED;
	return !ring->closing;
}

/**
 * kvt_ring_done() - file a slot that the kernel has finished
 * @ring: the ring
 * @slot: a slot that was started, with the result and the version
 */
void kvt_ring_done(struct kvtree_ring *ring, struct kvt_slot *slot)
{
	if (slot->kind == KVT_SLOT_LIST && list_continues(ring, slot))
		kvt_slots_add(&ring->queue, slot);
	else
		kvt_slots_add(&ring->done, slot);
}

/* Take a completed slot, from the list or directly from the kernel; NULL if there is none. */
static struct kvt_slot *take_done(struct kvtree_ring *ring)
{
	struct kvt_slot *slot;

	while (!ring->done.head && ring->way->reap) {
		slot = ring->way->reap(ring);
		if (!slot || slot->kind != KVT_SLOT_LIST)
			return slot;
		kvt_ring_done(ring, slot);
	}
	return kvt_slots_take(&ring->done);
}

/*
 * The version that an operation found or made.  After other errors the field is
 * not a version.
 */
static uint64_t found_version(const struct kvt_slot *slot)
{
	switch (slot->result) {
	case -ECANCELED:
	case -EEXIST:
	case -EMSGSIZE:
		return slot->version;
	}
	return slot->result < 0 ? 0 : slot->version;
}

/*
 * The kernel copied this get from the SQE and does not write it back, so the
 * required length is not known.  Execute the get again by a system call, and
 * use its result.  Only values that do not fit pay for it.
 */
static void ask_length(struct kvtree_ring *ring, struct kvt_slot *slot)
{
	struct kvtree_op *op = kvt_slot_op(slot);

	slot->result = kvt_run_one(ring->kv, op);
	slot->version = op->version;
}

static void make_event(struct kvtree_ring *ring, struct kvt_slot *slot,
		       struct kvtree_event *event)
{
	struct kvtree_op *op = kvt_slot_op(slot);

	memset(event, 0, sizeof(*event));
	event->data = slot->then.data;
	if (slot->kind == KVT_SLOT_LIST) {
		event->result = slot->result;
		return;
	}
	if (slot->result == -EMSGSIZE && op->result != -EMSGSIZE)
		ask_length(ring, slot);
	event->result = slot->result;
	event->version = found_version(slot);
	if (slot->result == -EMSGSIZE)
		event->len = op->val_len;
	if (op->opcode == KVTREE_OP_ADD && slot->result >= 0)
		event->sum = (int64_t)(op->arg + slot->delta);
	if (slot->kind == KVT_SLOT_USER) {
		/* Set it also for an operation that was never executed. */
		op->result = slot->result;
		event->op = op;
	}
}

/*
 * reap() - turn completed slots into events and callbacks
 *
 * Handles at most the slots pending at the start: a callback may submit, and
 * what that completes at once is left for the next call.
 *
 * Return: the number of operations, of which *filled have their events at events
 */
static unsigned int reap(struct kvtree_ring *ring, struct kvtree_event *events,
			 unsigned int nr, unsigned int *filled)
{
	unsigned int most = ring->pending, completed;
	struct kvtree_event event;
	struct kvt_slot *slot;
	kvtree_ring_fn fn;

	for (completed = 0; completed < most; completed++) {
		slot = take_done(ring);
		if (!slot)
			break;
		fn = slot->then.fn;
		if (!fn && *filled == nr) {
			kvt_slots_put_back(&ring->done, slot);
			break;
		}
		make_event(ring, slot, fn ? &event : &events[(*filled)++]);
		/* Free the slot before the callback, which may queue the next operation. */
		kvt_slots_add(&ring->free, slot);
		ring->pending--;
		if (fn)
			fn(ring, &event);
	}
	return completed;
}

static int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ll + ts.tv_nsec;
}

/* Wait for completions until the time `end`, or without limit if that is -1. */
static int wait_started(struct kvtree_ring *ring, unsigned int nr, int64_t end)
{
	int64_t left = -1;

	if (nr > nr_started(ring))
		nr = nr_started(ring);
	if (!nr)
		return 0;
	if (end >= 0) {
		left = end - now_ns();
		if (left < 0)
			left = 0;
	}
	return ring->way->wait(ring, nr, left);
}

/* Limit the completions to wait for to the room for events, if there is any. */
static unsigned int worth_waiting(unsigned int wanted, unsigned int room)
{
	return room && room < wanted ? room : wanted;
}

static bool something_to_reap(struct kvtree_ring *ring)
{
	return ring->done.nr || (ring->way->ready && ring->way->ready(ring));
}

KVTREE_API int kvtree_ring_wait(struct kvtree_ring *ring, struct kvtree_event *events,
				unsigned int nr, unsigned int min, int timeout_ms)
{
	int64_t end = timeout_ms < 0 ? -1 : 0;
	unsigned int completed = 0, filled = 0;
	int err;

	if (timeout_ms > 0 && min)
		end = now_ns() + timeout_ms * 1000000ll;
	for (;;) {
		err = kvtree_ring_submit(ring);
		completed += reap(ring, events, nr, &filled);
		if (err < 0 || completed >= min || !ring->pending)
			break;
		/* No room for the event of a completed slot, or for any later one. */
		if (ring->done.nr || (nr && filled == nr))
			break;
		/* Submit first: the rest of a list, or what a callback queued. */
		if (ring->queue.nr)
			continue;
		err = wait_started(ring, worth_waiting(min - completed, nr - filled), end);
		if (err) {
			completed += reap(ring, events, nr, &filled);
			break;
		}
	}
	if (err >= 0 && ring->queue.nr)
		err = kvtree_ring_submit(ring);
	if (ring->eventfd >= 0 && something_to_reap(ring))
		notify(ring);
	return err < 0 && !completed ? err : (int)filled;
}

/*
 * Canceling and closing
 */

KVTREE_API int kvtree_ring_cancel(struct kvtree_ring *ring, const void *data)
{
	struct kvt_slots queue = ring->queue;
	struct kvt_slot *slot;
	int canceled = 0, ret = 0;

	memset(&ring->queue, 0, sizeof(ring->queue));
	while ((slot = kvt_slots_take(&queue))) {
		if (data && slot->then.data != data) {
			kvt_slots_add(&ring->queue, slot);
			continue;
		}
		slot->result = -ECANCELED;
		slot->version = 0;
		kvt_slots_add(&ring->done, slot);
		canceled++;
	}
	if (nr_started(ring))
		ret = ring->way->cancel(ring, data);
	if (something_to_reap(ring))
		notify(ring);
	return ret < 0 && !canceled ? ret : canceled + (ret > 0 ? ret : 0);
}

/*
 * Cancel repeatedly: an operation that is being executed may begin to wait
 * after the first cancel.
 */
static void drain(struct kvtree_ring *ring)
{
	struct kvtree_event event;
	unsigned int filled;
	int err;

	do {
		kvtree_ring_cancel(ring, NULL);
		do {
			filled = 0;
		} while (reap(ring, &event, 1, &filled));
		err = wait_started(ring, 1, now_ns() + DRAIN_NS);
	} while (ring->pending && (!err || err == -EINTR || err == -ETIME));
}

KVTREE_API void kvtree_ring_close(struct kvtree_ring *ring)
{
	bool forked;

	if (!ring)
		return;
	forked = ring->pid != getpid();
	ring->closing = true;
	if (!forked)
		drain(ring);
	ring->way->close(ring, forked);
	if (ring->eventfd >= 0)
		close(ring->eventfd);
	/* If it could not be drained the kernel may still write to the slots. */
	if (forked || !ring->pending)
		free(ring->slot);
	free(ring);
}

KVTREE_API int kvtree_ring_eventfd(struct kvtree_ring *ring)
{
	int fd, err = 0;

	if (ring->eventfd >= 0)
		return ring->eventfd;
	/* What is pending may complete before the eventfd is registered. */
	fd = eventfd(ring->pending ? 1 : 0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (fd < 0)
		return -errno;
	if (ring->way->watch)
		err = ring->way->watch(ring, fd);
	if (err) {
		close(fd);
		return err;
	}
	ring->eventfd = fd;
	return fd;
}
