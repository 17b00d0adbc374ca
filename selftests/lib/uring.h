/* SPDX-License-Identifier: GPL-2.0 */
/*
 * io_uring by its system calls: a test may set every byte of the ring, even to values
 * that no library would use.
 *
 *	KVT_CHECK(kvt_ring_init(&ring, 8, IORING_SETUP_SQE128) == 0);
 *	kvt_sqe_inline(kvt_ring_sqe(&ring), fd, &op, NULL, 1);
 *	kvt_ring_wait(&ring, &cqe);
 *	kvt_ring_exit(&ring);
 *
 * Functions that return int return a negative errno, unless they say that they
 * end the process.
 */
#ifndef KVT_TEST_URING_H
#define KVT_TEST_URING_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>
#include <linux/io_uring.h>
#include <linux/kvtree.h>

/* Declarations that the headers of the oldest distribution lack. */
#ifndef IORING_SETUP_COOP_TASKRUN
#define IORING_SETUP_COOP_TASKRUN	(1U << 8)
#endif
#ifndef IORING_SETUP_SINGLE_ISSUER
#define IORING_SETUP_SINGLE_ISSUER	(1U << 12)
#endif
#ifndef IORING_SETUP_DEFER_TASKRUN
#define IORING_SETUP_DEFER_TASKRUN	(1U << 13)
#endif
#ifndef IORING_SETUP_CQE_MIXED
#define IORING_SETUP_CQE_MIXED		(1U << 18)
#endif
#ifndef IORING_SETUP_SQE_MIXED
#define IORING_SETUP_SQE_MIXED		(1U << 19)
#endif
#ifndef IORING_CQE_F_BUF_MORE
#define IORING_CQE_F_BUF_MORE		(1U << 4)
#endif
#ifndef IORING_CQE_F_SKIP
#define IORING_CQE_F_SKIP		(1U << 5)
#endif
#ifndef IORING_CQE_F_32
#define IORING_CQE_F_32			(1U << 15)
#endif
#ifndef IORING_URING_CMD_FIXED
#define IORING_URING_CMD_FIXED		(1U << 0)
#endif
#ifndef IORING_URING_CMD_MULTISHOT
#define IORING_URING_CMD_MULTISHOT	(1U << 1)
#endif

/* An enumerator, which no #ifdef finds: SQEs of 128 bytes on IORING_SETUP_SQE_MIXED. */
#define KVT_OP_URING_CMD128		64
/* Another one: completions use parts of buffers. */
#define KVT_PBUF_RING_INC		2

struct kvt_ring {
	int fd;
	unsigned int flags;		/* IORING_SETUP_*, as it was made */
	unsigned int features;		/* IORING_FEAT_* */
	unsigned int sq_entries;
	unsigned int cq_entries;
	unsigned int sq_tail;		/* places given out; the kernel's follows */

	unsigned int *ksq_head;
	unsigned int *ksq_tail;
	unsigned int *ksq_flags;
	unsigned int *ksq_dropped;
	unsigned int *kcq_head;
	unsigned int *kcq_tail;
	unsigned int *kcq_overflow;
	unsigned char *sqes;
	unsigned char *cqes;

	void *rings;
	size_t rings_bytes;
	size_t sqes_bytes;
};

/* A completion, whatever its size in the ring. */
struct kvt_cqe {
	__u64 data;			/* user_data */
	__s32 res;
	__u32 flags;			/* IORING_CQE_F_* */
	__u64 extra[2];			/* of a CQE of 32 bytes, else 0 */
};

/*
 * flags: IORING_SETUP_*.  A thread of IORING_SETUP_SQPOLL sleeps after 10 ms
 * without work.  -EINVAL: the kernel does not know the flags.
 */
int kvt_ring_init(struct kvt_ring *ring, unsigned int entries, unsigned int flags);
/* The same with everything as *params has it. */
int kvt_ring_init_params(struct kvt_ring *ring, unsigned int entries,
			 struct io_uring_params *params);
/* The first one, ending the process on failure. */
void kvt_ring_make(struct kvt_ring *ring, unsigned int entries, unsigned int flags);
void kvt_ring_exit(struct kvt_ring *ring);

/*
 * The next SQE, all zeros, of 64 or 128 bytes; NULL if the queue is full.  Waits for
 * the thread of IORING_SETUP_SQPOLL to return SQEs.
 */
struct io_uring_sqe *kvt_ring_sqe(struct kvt_ring *ring);
/*
 * The same, but with IORING_SETUP_SQE_MIXED 128 bytes, for KVT_OP_URING_CMD128.  That
 * takes two places, which may not wrap around; a request without a completion is put
 * in front if need be.
 */
struct io_uring_sqe *kvt_ring_sqe128(struct kvt_ring *ring);
/* The nth place that was handed out, even if its SQE is consumed. */
struct io_uring_sqe *kvt_ring_sqe_at(const struct kvt_ring *ring, unsigned int n);
/* Of a place. */
unsigned int kvt_ring_sqe_size(const struct kvt_ring *ring);
/* Publish the SQEs handed out; with IORING_SETUP_SQPOLL the kernel begins with them. */
void kvt_ring_publish(struct kvt_ring *ring);

/* io_uring_enter() as it is. */
int kvt_ring_enter(const struct kvt_ring *ring, unsigned int submit, unsigned int wait,
		   unsigned int flags);
/* Submit the SQEs handed out, and wake the thread; ends the process on failure. */
void kvt_ring_submit(struct kvt_ring *ring);

/* Whether a CQE with these flags has 32 bytes. */
bool kvt_cqe_is_long(const struct kvt_ring *ring, unsigned int cqe_flags);

/* How many are there, all of one size, and the flags of the newest. */
unsigned int kvt_ring_ready(const struct kvt_ring *ring, __u32 *newest);
/* A completion that has arrived, without asking the kernel. */
bool kvt_ring_peek(struct kvt_ring *ring, struct kvt_cqe *cqe);
/* ... also one that the kernel still has to post. */
bool kvt_ring_reap(struct kvt_ring *ring, struct kvt_cqe *cqe);
/* Submit and wait for one; ends the process on failure. */
void kvt_ring_wait(struct kvt_ring *ring, struct kvt_cqe *cqe);
/* The same; false if none comes within that time. */
bool kvt_ring_wait_ms(struct kvt_ring *ring, struct kvt_cqe *cqe, unsigned int ms);
/* Wait for the only one; its result.  Ends the process if its data is another. */
int kvt_ring_result(struct kvt_ring *ring, __u64 data);

/* io_uring_register() as it is, and of what. */
int kvt_ring_register(const struct kvt_ring *ring, unsigned int opcode, const void *arg,
		      unsigned int nr);
int kvt_ring_buffers(const struct kvt_ring *ring, const struct iovec *iov, unsigned int nr);
int kvt_ring_files(const struct kvt_ring *ring, const int *fds, unsigned int nr);

/*
 * Commands.  Other fields of the SQE (flags, buf_index, ...) are the caller's,
 * before or after; rw_flags is where all headers have uring_cmd_flags.
 */
void kvt_sqe_cmd(struct io_uring_sqe *sqe, int fd, __u32 cmd_op, const void *arg, size_t len,
		 __u64 data);
void kvt_sqe_op(struct io_uring_sqe *sqe, int fd, const struct kvtree_op *op, __u64 data);
void kvt_sqe_inline(struct io_uring_sqe *sqe, int fd, const struct kvtree_op *op,
		    const struct kvtree_op *out, __u64 data);
void kvt_sqe_batch(struct io_uring_sqe *sqe, int fd, const void *ops, __u32 nr, __u64 data);
void kvt_sqe_cancel(struct io_uring_sqe *sqe, int fd, __u64 target, __u32 flags, __u64 data);

/* A ring of provided buffers. */
struct kvt_bufs {
	struct io_uring_buf_ring *br;
	size_t bytes;
	unsigned int entries;
	unsigned int group;
};

/* entries: a power of 2. */
int kvt_bufs_init(struct kvt_bufs *bufs, const struct kvt_ring *ring, unsigned int group,
		  unsigned int entries);
/* flags: KVT_PBUF_RING_INC */
int kvt_bufs_init_flags(struct kvt_bufs *bufs, const struct kvt_ring *ring, unsigned int group,
			unsigned int entries, __u16 flags);
void kvt_bufs_exit(struct kvt_bufs *bufs, const struct kvt_ring *ring);
void kvt_bufs_add(struct kvt_bufs *bufs, void *addr, __u32 len, __u16 id);

static inline unsigned int kvt_cqe_buffer(const struct kvt_cqe *cqe)
{
	return cqe->flags >> IORING_CQE_BUFFER_SHIFT;
}

#endif /* KVT_TEST_URING_H */
