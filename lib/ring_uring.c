// SPDX-License-Identifier: LGPL-2.1-only
/*
 * Rings on io_uring.
 *
 * An operation is one SQE.  On a ring with SQEs of 128 bytes the SQE contains it
 * and the CQE returns its version; the kernel writes the operation back only if
 * the caller needs more than that.  On a ring with SQEs of 64 bytes the SQE
 * points to the operation, which the kernel always writes back.
 *
 * The ring has room for an SQE of every slot, so CQEs cannot overflow either.
 */
#include <liburing.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "ring.h"

/*
 * user_data: the upper bits hold a number of this ring, so that canceling does
 * not hit commands of another ring of the same session; the lower bits hold the
 * slot, or this value for a cancel command.
 */
#define UD_SLOT		0xffffull
#define UD_CANCEL	0xffffull

#define IDLE_MS_DEFAULT	1000

struct fixed_buf {
	__u64 start;
	__u64 end;
	__u16 index;
};

struct uring {
	struct io_uring io;
	__u64 tag;		/* the upper bits of user_data */
	int fd;			/* the session: registered, or its descriptor */
	__u8 sqe_flags;
	bool by_pointer;
	unsigned int canceling;	/* cancel commands in progress */
	int canceled;		/* operations canceled by them */
	unsigned int nr_bufs;
	struct fixed_buf *buf;	/* registered buffers, by their address */
};

/*
 * Submission
 */

/* Whether a kernel thread submits. */
static bool by_thread(const struct uring *u)
{
	return u->io.flags & IORING_SETUP_SQPOLL;
}

static struct io_uring_sqe *get_sqe(struct uring *u)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&u->io);

	/* The kernel's thread may not have taken earlier SQEs yet. */
	if (!sqe) {
		if (io_uring_submit(&u->io) < 0)
			return NULL;
		io_uring_sqring_wait(&u->io);
		sqe = io_uring_get_sqe(&u->io);
	}
	return sqe;
}

/* Complete an SQE that kvtree_prep_*() filled in. */
static void tag_sqe(const struct uring *u, struct io_uring_sqe *sqe, __u64 id)
{
	sqe->flags |= u->sqe_flags;
	sqe->user_data = u->tag | id;
}

/* The last registered buffer that begins at or below an address, or -1. */
static int find_buf(const struct uring *u, __u64 addr)
{
	unsigned int low = 0, high = u->nr_bufs, mid;

	while (low < high) {
		mid = low + (high - low) / 2;
		if (u->buf[mid].start <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	return (int)low - 1;
}

static void use_fixed_buf(const struct uring *u, struct io_uring_sqe *sqe,
			  const struct kvtree_op *op)
{
	int n;

	if (!u->nr_bufs || !op->val_len)
		return;
	n = find_buf(u, op->val);
	if (n < 0 || op->val >= u->buf[n].end || op->val_len > u->buf[n].end - op->val)
		return;
	kvtree_prep_fixed(sqe, u->buf[n].index);
}

/* Where the kernel writes the operation back, or NULL. */
static struct kvtree_op *written_back(struct kvt_slot *slot)
{
	struct kvtree_op *op = kvt_slot_op(slot);

	if (slot->kind == KVT_SLOT_USER || op->opcode == KVTREE_OP_ADD)
		return op;
	return NULL;
}

static bool fill_op(struct uring *u, struct kvt_slot *slot, __u64 id)
{
	struct io_uring_sqe *sqe = get_sqe(u);
	struct kvtree_op *op = kvt_slot_op(slot);

	if (!sqe)
		return false;
	if (u->by_pointer)
		kvtree_prep_op(sqe, u->fd, op);
	else
		kvtree_prep_op_inline(sqe, u->fd, op, written_back(slot));
	use_fixed_buf(u, sqe, op);
	tag_sqe(u, sqe, id);
	return true;
}

static bool fill_batch(struct uring *u, struct kvt_slot *slot, __u64 id)
{
	struct io_uring_sqe *sqe = get_sqe(u);
	struct kvtree_op *op;
	size_t rest;

	if (!sqe)
		return false;
	rest = kvt_ops_rest(slot->list, &op);
	kvtree_prep_batch(sqe, u->fd, op,
			  rest < KVTREE_BATCH_MAX ? (unsigned int)rest : KVTREE_BATCH_MAX);
	tag_sqe(u, sqe, id);
	return true;
}

/*
 * Take back the SQEs that the kernel has not taken.  Otherwise the next call
 * would submit them, even if they are canceled before.
 */
static unsigned int take_back(struct uring *u)
{
	struct io_uring_sq *sq = &u->io.sq;
	unsigned int nr = io_uring_sq_ready(&u->io);

	sq->sqe_tail -= nr;
	sq->sqe_head = sq->sqe_tail;
	/* Pairs with nothing: only our own system calls make the kernel read it. */
	io_uring_smp_store_release(sq->ktail, sq->sqe_tail);
	return nr;
}

/*
 * Submit until the kernel has taken every SQE or refuses more; *back is the
 * number of SQEs not taken, the last ones.
 */
static int submit_sqes(struct uring *u, unsigned int *back)
{
	int ret;

	*back = 0;
	do {
		ret = io_uring_submit(&u->io);
	} while (ret == -EINTR || (ret > 0 && !by_thread(u) && io_uring_sq_ready(&u->io)));
	/* SQEs cannot be taken back from a kernel thread, which takes them at any time. */
	if (by_thread(u))
		return ret < 0 ? ret : 0;
	*back = take_back(u);
	if (ret < 0)
		return ret;
	return *back ? -EAGAIN : 0;
}

static int uring_submit(struct kvtree_ring *ring)
{
	struct kvt_slots filled = { .nr = 0 };
	struct uring *u = ring->priv;
	unsigned int back, nr = 0;
	struct kvt_slot *slot;
	int err;

	/* The thread may still sleep, if an earlier wakeup failed. */
	if (!ring->queue.nr && !by_thread(u))
		return 0;
	while ((slot = ring->queue.head)) {
		__u64 id = (__u64)(slot - ring->slot);

		if (slot->kind == KVT_SLOT_LIST ? !fill_batch(u, slot, id) :
						  !fill_op(u, slot, id))
			break;
		kvt_slots_add(&filled, kvt_slots_take(&ring->queue));
	}
	err = submit_sqes(u, &back);
	while (filled.nr > back) {
		kvt_slots_take(&filled)->started = true;
		nr++;
	}
	kvt_slots_join(&filled, &ring->queue);
	ring->queue = filled;
	if (err && (!nr || by_thread(u)))
		return err;
	return (int)nr;
}

/*
 * Completion
 */

/*
 * The version in memory.  If the operation was not written back, as after a
 * cancel, the field still holds what the caller queued.
 */
static __u64 version_in_op(struct kvt_slot *slot)
{
	const struct kvtree_op *op = kvt_slot_op(slot);

	return op->result == slot->result ? op->version : 0;
}

static struct kvt_slot *uring_reap(struct kvtree_ring *ring)
{
	struct uring *u = ring->priv;
	struct kvt_slot *slot = NULL;
	struct io_uring_cqe *cqe;
	__u64 id;

	while (!slot && !io_uring_peek_cqe(&u->io, &cqe)) {
		id = cqe->user_data & UD_SLOT;
		if (id == UD_CANCEL) {
			u->canceling--;
			if (cqe->res > 0)
				u->canceled += cqe->res;
		} else {
			slot = &ring->slot[id];
			slot->started = false;
			slot->result = cqe->res;
			if (slot->kind == KVT_SLOT_LIST)
				slot->version = 0;
			else if (u->by_pointer)
				slot->version = version_in_op(slot);
			else
				slot->version = cqe->big_cqe[0];
		}
		io_uring_cqe_seen(&u->io, cqe);
	}
	return slot;
}

static bool uring_ready(struct kvtree_ring *ring)
{
	struct uring *u = ring->priv;

	return io_uring_cq_ready(&u->io);
}

static int uring_wait(struct kvtree_ring *ring, unsigned int nr, int64_t ns)
{
	struct __kernel_timespec ts = {
		.tv_sec = ns / 1000000000,
		.tv_nsec = ns % 1000000000,
	};
	struct uring *u = ring->priv;
	struct io_uring_cqe *cqe;

	if (ns < 0)
		return io_uring_wait_cqe_nr(&u->io, &cqe, nr);
	return io_uring_wait_cqes(&u->io, &cqe, nr, &ts, NULL);
}

/*
 * Canceling
 */

static int send_cancels(struct kvtree_ring *ring, const void *data)
{
	struct uring *u = ring->priv;
	struct io_uring_sqe *sqe;
	unsigned int i, back;
	int err;

	for (i = 0; i < ring->depth; i++) {
		if (!ring->slot[i].started || (data && ring->slot[i].then.data != data))
			continue;
		sqe = get_sqe(u);
		if (!sqe)
			break;
		kvtree_prep_cancel(sqe, u->fd, u->tag | i, 0);
		tag_sqe(u, sqe, UD_CANCEL);
		u->canceling++;
	}
	err = submit_sqes(u, &back);
	u->canceling -= back;
	return err;
}

static int uring_cancel(struct kvtree_ring *ring, const void *data)
{
	struct uring *u = ring->priv;
	struct kvt_slot *slot;
	int err;

	u->canceled = 0;
	err = send_cancels(ring, data);
	while (!err || err == -EINTR) {
		while ((slot = uring_reap(ring)))
			kvt_ring_done(ring, slot);
		if (!u->canceling)
			break;
		err = uring_wait(ring, 1, -1);
	}
	return err < 0 && err != -EINTR && !u->canceled ? err : u->canceled;
}

/*
 * Opening and closing
 */

static int uring_watch(struct kvtree_ring *ring, int fd)
{
	struct uring *u = ring->priv;

	return io_uring_register_eventfd(&u->io, fd);
}

static void uring_close(struct kvtree_ring *ring, bool forked)
{
	struct uring *u = ring->priv;

	/* The ring is not mapped in a child: only close the descriptor. */
	if (forked)
		close(u->io.ring_fd);
	else
		io_uring_queue_exit(&u->io);
	free(u->buf);
	free(u);
}

static const struct kvt_ring_way uring_way = {
	.submit = uring_submit,
	.reap = uring_reap,
	.ready = uring_ready,
	.wait = uring_wait,
	.cancel = uring_cancel,
	.watch = uring_watch,
	.close = uring_close,
};

/*
 * Optional flags that make the ring cheaper, in the order in which setup() drops
 * them: run completions only when the owner waits; one submitting thread; do not
 * interrupt the owner for completions; do not stop at an SQE that fails.
 */
static const unsigned int improvement[] = {
	IORING_SETUP_DEFER_TASKRUN,
	IORING_SETUP_SINGLE_ISSUER,
	IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG,
	IORING_SETUP_SUBMIT_ALL,
};

static int setup(struct uring *u, const struct kvtree_ring_opts *o, unsigned int flags)
{
	struct io_uring_params p;
	size_t i, n;
	int err;

	/* All but the last are only for rings without a submitting kernel thread. */
	i = o->flags & KVTREE_RING_SQPOLL ? ARRAY_SIZE(improvement) - 1 : 0;
	for (n = i; n < ARRAY_SIZE(improvement); n++)
		flags |= improvement[n];
	for (;; flags &= ~improvement[i++]) {
		memset(&p, 0, sizeof(p));
		p.flags = flags;
		p.sq_thread_idle = o->idle_ms ? o->idle_ms : IDLE_MS_DEFAULT;
		err = io_uring_queue_init_params(o->depth, &u->io, &p);
		if (err != -EINVAL || i == ARRAY_SIZE(improvement))
			return err;
	}
}

/*
 * Treat an io_uring that is missing, too old, or forbidden to this process as
 * absent.  A temporary shortage is an error.
 */
static bool not_there(int err)
{
	return err && err != -ENOMEM && err != -EMFILE && err != -ENFILE;
}

static int make_ring(struct uring *u, const struct kvtree_ring_opts *o)
{
	unsigned int flags = 0;
	int err = -EPERM;

	u->by_pointer = o->flags & KVTREE_RING_BY_POINTER;
	if (!u->by_pointer)
		flags = IORING_SETUP_SQE128 | IORING_SETUP_CQE32;
	if (o->flags & KVTREE_RING_SQPOLL)
		err = setup(u, o, flags | IORING_SETUP_SQPOLL);
	if (not_there(err))
		err = setup(u, o, flags);
	return not_there(err) ? -EOPNOTSUPP : err;
}

static int compare_bufs(const void *a, const void *b)
{
	const struct fixed_buf *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

static int register_bufs(struct uring *u, const struct kvtree_ring_opts *o)
{
	unsigned int i;

	u->buf = calloc(o->nr_buffers, sizeof(*u->buf));
	if (!u->buf)
		return -ENOMEM;
	for (i = 0; i < o->nr_buffers; i++) {
		u->buf[i].start = kvt_ptr(o->buffers[i].iov_base);
		u->buf[i].end = u->buf[i].start + o->buffers[i].iov_len;
		u->buf[i].index = (__u16)i;
	}
	qsort(u->buf, o->nr_buffers, sizeof(*u->buf), compare_bufs);
	u->nr_bufs = o->nr_buffers;
	return io_uring_register_buffers(&u->io, o->buffers, o->nr_buffers);
}

/*
 * Optional: saves a lookup for each command.  The ring's own descriptor is not
 * registered: the registration would belong to this thread, and another thread
 * that closed the ring would remove its own registration instead.
 */
static void register_session(struct uring *u, const struct kvtree *kv)
{
	u->fd = kv->fd;
	if (!io_uring_register_files(&u->io, &kv->fd, 1)) {
		u->fd = 0;
		u->sqe_flags = IOSQE_FIXED_FILE;
	}
}

static int set_up(struct kvtree_ring *ring, struct uring *u,
		  const struct kvtree_ring_opts *o, __u64 features)
{
	int err;

	err = make_ring(u, o);
	if (err)
		return err;
	if (o->nr_buffers && features & KVTREE_FEAT_URING_FIXED)
		err = register_bufs(u, o);
	/* A child that used the ring would submit for the parent. */
	if (!err)
		err = io_uring_ring_dontfork(&u->io);
	if (err) {
		io_uring_queue_exit(&u->io);
		return err;
	}
	register_session(u, ring->kv);
	return 0;
}

/**
 * kvt_ring_uring() - have a ring's operations executed on an io_uring
 * @ring: the ring
 * @opts: how the caller wants it
 *
 * Return: 0; -EOPNOTSUPP if the kernel has none for kvtree or forbids it;
 * or another negative errno
 */
int kvt_ring_uring(struct kvtree_ring *ring, const struct kvtree_ring_opts *opts)
{
	struct kvtree_info info;
	struct uring *u;
	int err;

	err = kvtree_info(ring->kv, &info, sizeof(info));
	if (err)
		return err;
	if (!(info.features & KVTREE_FEAT_URING))
		return -EOPNOTSUPP;
	u = calloc(1, sizeof(*u));
	if (!u)
		return -ENOMEM;
	if (getrandom(&u->tag, sizeof(u->tag), GRND_NONBLOCK) != sizeof(u->tag))
		u->tag = kvt_ptr(u) << 16;
	u->tag &= ~UD_SLOT;
	err = set_up(ring, u, opts, info.features);
	if (err) {
		free(u->buf);
		free(u);
		return err;
	}
	ring->priv = u;
	ring->way = &uring_way;
	return 0;
}
