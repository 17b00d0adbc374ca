// SPDX-License-Identifier: GPL-2.0
/* Raw io_uring; see uring.h. */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../../lib/kvtree_uring.h"
#include "kvt_test.h"
#include "uring.h"

/* Milliseconds after which a thread that submits goes to sleep. */
#define SQ_IDLE		10

int kvt_ring_enter(const struct kvt_ring *ring, unsigned int submit, unsigned int wait,
		   unsigned int flags)
{
	int ret = syscall(__NR_io_uring_enter, ring->fd, submit, wait, flags, NULL, 0);

	return ret < 0 ? -errno : ret;
}

int kvt_ring_register(const struct kvt_ring *ring, unsigned int opcode, const void *arg,
		      unsigned int nr)
{
	int ret = syscall(__NR_io_uring_register, ring->fd, opcode, arg, nr);

	return ret < 0 ? -errno : ret;
}

static unsigned int sqe_shift(unsigned int flags)
{
	return flags & IORING_SETUP_SQE128 ? 7 : 6;
}

static unsigned int cqe_shift(unsigned int flags)
{
	return flags & IORING_SETUP_CQE32 ? 5 : 4;
}

static int map_ring(struct kvt_ring *ring, const struct io_uring_params *p)
{
	size_t sq = p->sq_off.array + p->sq_entries * sizeof(__u32);
	size_t cq = p->cq_off.cqes + ((size_t)p->cq_entries << cqe_shift(p->flags));
	unsigned char *rings;
	unsigned int i;

	/* Both queues in one mapping, the SQEs in another: IORING_FEAT_SINGLE_MMAP. */
	ring->rings_bytes = sq > cq ? sq : cq;
	ring->sqes_bytes = (size_t)p->sq_entries << sqe_shift(p->flags);
	rings = mmap(NULL, ring->rings_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
		     ring->fd, IORING_OFF_SQ_RING);
	if (rings == MAP_FAILED)
		return -errno;
	ring->rings = rings;
	ring->sqes = mmap(NULL, ring->sqes_bytes, PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_POPULATE, ring->fd, IORING_OFF_SQES);
	if (ring->sqes == MAP_FAILED)
		return -errno;
	ring->ksq_head = (void *)(rings + p->sq_off.head);
	ring->ksq_tail = (void *)(rings + p->sq_off.tail);
	ring->ksq_flags = (void *)(rings + p->sq_off.flags);
	ring->ksq_dropped = (void *)(rings + p->sq_off.dropped);
	ring->kcq_head = (void *)(rings + p->cq_off.head);
	ring->kcq_tail = (void *)(rings + p->cq_off.tail);
	ring->kcq_overflow = (void *)(rings + p->cq_off.overflow);
	ring->cqes = rings + p->cq_off.cqes;
	/* SQEs are used in the order of their places. */
	for (i = 0; i < p->sq_entries; i++)
		((__u32 *)(rings + p->sq_off.array))[i] = i;
	return 0;
}

int kvt_ring_init_params(struct kvt_ring *ring, unsigned int entries,
			 struct io_uring_params *params)
{
	int err;

	memset(ring, 0, sizeof(*ring));
	ring->fd = syscall(__NR_io_uring_setup, entries, params);
	if (ring->fd < 0)
		return -errno;
	ring->flags = params->flags;
	ring->features = params->features;
	ring->sq_entries = params->sq_entries;
	ring->cq_entries = params->cq_entries;
	err = map_ring(ring, params);
	KVT_CHECK(err == 0);
	return 0;
}

int kvt_ring_init(struct kvt_ring *ring, unsigned int entries, unsigned int flags)
{
	struct io_uring_params params = { .flags = flags };

	if (flags & IORING_SETUP_SQPOLL)
		params.sq_thread_idle = SQ_IDLE;
	return kvt_ring_init_params(ring, entries, &params);
}

void kvt_ring_make(struct kvt_ring *ring, unsigned int entries, unsigned int flags)
{
	int err = kvt_ring_init(ring, entries, flags);

	errno = -err;
	KVT_CHECK(err == 0);
}

void kvt_ring_exit(struct kvt_ring *ring)
{
	KVT_CHECK(munmap(ring->sqes, ring->sqes_bytes) == 0);
	KVT_CHECK(munmap(ring->rings, ring->rings_bytes) == 0);
	KVT_CHECK(close(ring->fd) == 0);
	ring->fd = -1;
}

unsigned int kvt_ring_sqe_size(const struct kvt_ring *ring)
{
	return 1 << sqe_shift(ring->flags);
}

struct io_uring_sqe *kvt_ring_sqe_at(const struct kvt_ring *ring, unsigned int n)
{
	unsigned int slot = n & (ring->sq_entries - 1);

	return (void *)(ring->sqes + ((size_t)slot << sqe_shift(ring->flags)));
}

/*
 * Wait until that many places are free; false if they will not become free.
 *
 * The thread of IORING_SETUP_SQPOLL returns SQEs after the last of those that it found:
 * commands may have completed by then.  It may do so at any time, so use one read of the
 * head to decide whether there is room and whether the thread still has SQEs.
 */
static bool wait_for_room(const struct kvt_ring *ring, unsigned int nr)
{
	unsigned int head;

	for (;;) {
		/* Pairs with the kernel's release when it has read SQEs: they are ours again. */
		head = __atomic_load_n(ring->ksq_head, __ATOMIC_ACQUIRE);
		if (ring->sq_tail + nr - head <= ring->sq_entries)
			return true;
		if (!(ring->flags & IORING_SETUP_SQPOLL) || head == *ring->ksq_tail)
			return false;
		KVT_CHECK(kvt_ring_enter(ring, 0, 0,
					 IORING_ENTER_SQ_WAKEUP | IORING_ENTER_SQ_WAIT) >= 0);
		sched_yield();
	}
}

/* That many places in a row. */
static struct io_uring_sqe *take(struct kvt_ring *ring, unsigned int nr)
{
	struct io_uring_sqe *sqe;

	if (!wait_for_room(ring, nr))
		return NULL;
	sqe = kvt_ring_sqe_at(ring, ring->sq_tail);
	memset(sqe, 0, nr * kvt_ring_sqe_size(ring));
	ring->sq_tail += nr;
	return sqe;
}

struct io_uring_sqe *kvt_ring_sqe(struct kvt_ring *ring)
{
	return take(ring, 1);
}

struct io_uring_sqe *kvt_ring_sqe128(struct kvt_ring *ring)
{
	struct io_uring_sqe *sqe;

	if (!(ring->flags & IORING_SETUP_SQE_MIXED))
		return take(ring, 1);
	if (ring->sq_tail % ring->sq_entries == ring->sq_entries - 1) {
		sqe = take(ring, 1);
		if (!sqe)
			return NULL;
		sqe->opcode = IORING_OP_NOP;
		sqe->flags = IOSQE_CQE_SKIP_SUCCESS;
	}
	return take(ring, 2);
}

void kvt_ring_publish(struct kvt_ring *ring)
{
	/* Pairs with the kernel's acquire of the tail: the SQEs come before it. */
	__atomic_store_n(ring->ksq_tail, ring->sq_tail, __ATOMIC_RELEASE);
}

static unsigned int unsubmitted(const struct kvt_ring *ring)
{
	return ring->sq_tail - __atomic_load_n(ring->ksq_head, __ATOMIC_ACQUIRE);
}

static void wake(const struct kvt_ring *ring)
{
	/* Either the thread sees the tail or this sees that it sleeps. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (__atomic_load_n(ring->ksq_flags, __ATOMIC_RELAXED) & IORING_SQ_NEED_WAKEUP)
		KVT_CHECK(kvt_ring_enter(ring, 0, 0, IORING_ENTER_SQ_WAKEUP) >= 0);
}

void kvt_ring_submit(struct kvt_ring *ring)
{
	unsigned int nr;
	int ret;

	kvt_ring_publish(ring);
	if (ring->flags & IORING_SETUP_SQPOLL) {
		wake(ring);
		return;
	}
	/* One that is malformed ends a call, and is submitted nevertheless. */
	while ((nr = unsubmitted(ring)) != 0) {
		ret = kvt_ring_enter(ring, nr, 0, 0);
		errno = -ret;
		KVT_CHECK(ret > 0 || ret == -EINTR);
	}
}

bool kvt_cqe_is_long(const struct kvt_ring *ring, unsigned int cqe_flags)
{
	return ring->flags & IORING_SETUP_CQE32 ||
	       (ring->flags & IORING_SETUP_CQE_MIXED && cqe_flags & IORING_CQE_F_32);
}

static const struct io_uring_cqe *cqe_at(const struct kvt_ring *ring, unsigned int n)
{
	return (void *)(ring->cqes + ((size_t)(n & (ring->cq_entries - 1)) <<
				      cqe_shift(ring->flags)));
}

bool kvt_ring_peek(struct kvt_ring *ring, struct kvt_cqe *cqe)
{
	unsigned int head = *ring->kcq_head, places;
	const struct io_uring_cqe *from;

	do {
		/* Pairs with the kernel's release of the tail: the CQE is whole. */
		if (head == __atomic_load_n(ring->kcq_tail, __ATOMIC_ACQUIRE))
			return false;
		from = cqe_at(ring, head);
		cqe->data = from->user_data;
		cqe->res = from->res;
		cqe->flags = from->flags;
		memset(cqe->extra, 0, sizeof(cqe->extra));
		places = 1;
		if (kvt_cqe_is_long(ring, cqe->flags)) {
			memcpy(cqe->extra, from + 1, sizeof(cqe->extra));
			places = ring->flags & IORING_SETUP_CQE32 ? 1 : 2;
		}
		head += places;
		/* It was read: the kernel may write there again. */
		__atomic_store_n(ring->kcq_head, head, __ATOMIC_RELEASE);
		/* None: one of 32 bytes does not wrap around. */
	} while (ring->flags & IORING_SETUP_CQE_MIXED && cqe->flags & IORING_CQE_F_SKIP);
	return true;
}

unsigned int kvt_ring_ready(const struct kvt_ring *ring, __u32 *newest)
{
	/* Pairs with the kernel's release of the tail: the CQEs are whole. */
	unsigned int tail = __atomic_load_n(ring->kcq_tail, __ATOMIC_ACQUIRE);
	unsigned int nr = tail - *ring->kcq_head;

	*newest = nr ? cqe_at(ring, tail - 1)->flags : 0;
	return nr;
}

bool kvt_ring_reap(struct kvt_ring *ring, struct kvt_cqe *cqe)
{
	int ret;

	if (kvt_ring_peek(ring, cqe))
		return true;
	ret = kvt_ring_enter(ring, 0, 0, IORING_ENTER_GETEVENTS);
	errno = -ret;
	KVT_CHECK(ret >= 0 || ret == -EINTR);
	return kvt_ring_peek(ring, cqe);
}

void kvt_ring_wait(struct kvt_ring *ring, struct kvt_cqe *cqe)
{
	int ret;

	kvt_ring_submit(ring);
	while (!kvt_ring_peek(ring, cqe)) {
		ret = kvt_ring_enter(ring, 0, 1, IORING_ENTER_GETEVENTS);
		errno = -ret;
		KVT_CHECK(ret >= 0 || ret == -EINTR);
	}
}

bool kvt_ring_wait_ms(struct kvt_ring *ring, struct kvt_cqe *cqe, unsigned int ms)
{
	struct __kernel_timespec ts = {
		.tv_sec = ms / 1000,
		.tv_nsec = ms % 1000 * 1000000l,
	};
	struct io_uring_getevents_arg arg = {
		.sigmask_sz = _NSIG / 8,
		.ts = kvt_ptr(&ts),
	};

	kvt_ring_submit(ring);
	if (kvt_ring_peek(ring, cqe))
		return true;
	if (syscall(__NR_io_uring_enter, ring->fd, 0, 1,
		    IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG, &arg, sizeof(arg)) < 0)
		KVT_CHECK(errno == ETIME || errno == EINTR);
	return kvt_ring_peek(ring, cqe);
}

int kvt_ring_result(struct kvt_ring *ring, __u64 data)
{
	struct kvt_cqe cqe;

	kvt_ring_wait(ring, &cqe);
	KVT_CHECK(cqe.data == data);
	return cqe.res;
}

int kvt_ring_buffers(const struct kvt_ring *ring, const struct iovec *iov, unsigned int nr)
{
	return kvt_ring_register(ring, IORING_REGISTER_BUFFERS, iov, nr);
}

int kvt_ring_files(const struct kvt_ring *ring, const int *fds, unsigned int nr)
{
	return kvt_ring_register(ring, IORING_REGISTER_FILES, fds, nr);
}

void kvt_sqe_cmd(struct io_uring_sqe *sqe, int fd, __u32 cmd_op, const void *arg, size_t len,
		 __u64 data)
{
	KVT_CHECK(sqe);
	sqe->opcode = IORING_OP_URING_CMD;
	sqe->fd = fd;
	sqe->off = cmd_op;
	sqe->user_data = data;
	memcpy((char *)sqe + offsetof(struct io_uring_sqe, addr3), arg, len);
}

void kvt_sqe_op(struct io_uring_sqe *sqe, int fd, const struct kvtree_op *op, __u64 data)
{
	struct kvtree_uring_op arg = { .op = kvt_ptr(op), .op_size = sizeof(*op) };

	kvt_sqe_cmd(sqe, fd, KVTREE_URING_OP, &arg, sizeof(arg), data);
}

void kvt_sqe_inline(struct io_uring_sqe *sqe, int fd, const struct kvtree_op *op,
		    const struct kvtree_op *out, __u64 data)
{
	struct kvtree_uring_inline arg = { .op = *op, .out = kvt_ptr(out) };

	kvt_sqe_cmd(sqe, fd, KVTREE_URING_OP_INLINE, &arg, sizeof(arg), data);
}

void kvt_sqe_batch(struct io_uring_sqe *sqe, int fd, const void *ops, __u32 nr, __u64 data)
{
	struct kvtree_uring_batch arg = {
		.ops = kvt_ptr(ops),
		.nr = nr,
		.op_size = sizeof(struct kvtree_op),
	};

	kvt_sqe_cmd(sqe, fd, KVTREE_URING_BATCH, &arg, sizeof(arg), data);
}

void kvt_sqe_cancel(struct io_uring_sqe *sqe, int fd, __u64 target, __u32 flags, __u64 data)
{
	KVT_CHECK(sqe);
	kvtree_prep_cancel(sqe, fd, target, flags);
	sqe->user_data = data;
}

int kvt_bufs_init(struct kvt_bufs *bufs, const struct kvt_ring *ring, unsigned int group,
		  unsigned int entries)
{
	return kvt_bufs_init_flags(bufs, ring, group, entries, 0);
}

int kvt_bufs_init_flags(struct kvt_bufs *bufs, const struct kvt_ring *ring, unsigned int group,
			unsigned int entries, __u16 flags)
{
	struct io_uring_buf_reg reg = { .ring_entries = entries, .bgid = group };
	int err;

	/* The field that old headers call "pad". */
	memcpy((char *)&reg + offsetof(struct io_uring_buf_reg, bgid) + sizeof(reg.bgid), &flags,
	       sizeof(flags));
	bufs->bytes = entries * sizeof(struct io_uring_buf);
	bufs->entries = entries;
	bufs->group = group;
	bufs->br = mmap(NULL, bufs->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			-1, 0);
	KVT_CHECK(bufs->br != MAP_FAILED);
	reg.ring_addr = kvt_ptr(bufs->br);
	err = kvt_ring_register(ring, IORING_REGISTER_PBUF_RING, &reg, 1);
	if (err)
		munmap(bufs->br, bufs->bytes);
	return err;
}

void kvt_bufs_exit(struct kvt_bufs *bufs, const struct kvt_ring *ring)
{
	struct io_uring_buf_reg reg = { .bgid = bufs->group };

	KVT_CHECK(kvt_ring_register(ring, IORING_UNREGISTER_PBUF_RING, &reg, 1) == 0);
	KVT_CHECK(munmap(bufs->br, bufs->bytes) == 0);
}

void kvt_bufs_add(struct kvt_bufs *bufs, void *addr, __u32 len, __u16 id)
{
	unsigned short tail = bufs->br->tail;
	struct io_uring_buf *buf = &bufs->br->bufs[tail & (bufs->entries - 1)];

	buf->addr = kvt_ptr(addr);
	buf->len = len;
	buf->bid = id;
	/* Pairs with the kernel's acquire of the tail. */
	__atomic_store_n(&bufs->br->tail, tail + 1, __ATOMIC_RELEASE);
}
