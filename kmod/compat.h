/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Differences between the kernels that the module supports: 6.12 to 7.3.
 * Every test of the kernel's version or of its headers is in this file.
 */
#ifndef KVT_COMPAT_H
#define KVT_COMPAT_H

#include <linux/version.h>

/* First of all: an older kernel lacks some of the headers below. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 12, 0)
#error "kvtree needs Linux 6.12 or later"
#endif

#include <linux/btf.h>
#include <linux/io_uring/cmd.h>
#include <linux/module.h>
#include <kunit/visibility.h>

#ifndef CONFIG_64BIT
#error "kvtree needs a 64-bit kernel"
#endif

/*
 * For the test modules under tests/, and only on a kernel with KUnit: nothing
 * else but the engines' modules may use kvtree from another module.
 */
#define KVT_EXPORT_FOR_TESTS(sym)	EXPORT_SYMBOL_IF_KUNIT(sym)

/* A variable per CPU.  As for EXPORT_PER_CPU_SYMBOL(), sparse must not see its address taken. */
#ifdef __CHECKER__
#define KVT_EXPORT_PER_CPU_FOR_TESTS(var)
#else
#define KVT_EXPORT_PER_CPU_FOR_TESTS(var)	KVT_EXPORT_FOR_TESTS(var)
#endif

/*
 * KVT_EXPORT(): for engines in modules of their own; the test modules may use these, too.
 * The namespace's name became a string in 6.13.
 */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
#define KVT_IMPORT_FOR_TESTS()	MODULE_IMPORT_NS(EXPORTED_FOR_KUNIT_TESTING)
#define KVT_IMPORT_BPF()	MODULE_IMPORT_NS(BPF_INTERNAL)
#define KVT_EXPORT(sym)		EXPORT_SYMBOL_NS_GPL(sym, KVTREE)
#define KVT_IMPORT()		MODULE_IMPORT_NS(KVTREE)
#else
#define KVT_IMPORT_FOR_TESTS()	MODULE_IMPORT_NS("EXPORTED_FOR_KUNIT_TESTING")
#define KVT_IMPORT_BPF()	MODULE_IMPORT_NS("BPF_INTERNAL")
#define KVT_EXPORT(sym)		EXPORT_SYMBOL_NS_GPL(sym, "KVTREE")
#define KVT_IMPORT()		MODULE_IMPORT_NS("KVTREE")
#endif

/* One call sets up a timer with its function from 6.13 on. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
#include <linux/hrtimer.h>

static inline void hrtimer_setup(struct hrtimer *timer,
				 enum hrtimer_restart (*fn)(struct hrtimer *timer),
				 clockid_t clock, enum hrtimer_mode mode)
{
	hrtimer_init(timer, clock, mode);
	timer->function = fn;
}
#endif

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 14, 0)
/*
 * When the first issue of a command returns -EAGAIN, its SQE is copied beside it, but
 * cmd->sqe still points into the ring, where another SQE may be by then.  If the SQE
 * was copied earlier, cmd->sqe points to the copy.  A linked command may be issued
 * by a worker first, without any copy.
 */
#define KVT_URING_COPIED	BIT(24)	/* of cmd->flags, the upper byte of which is internal */

static inline const struct io_uring_sqe *kvt_uring_sqe(const struct io_uring_cmd *cmd)
{
	return cmd->flags & KVT_URING_COPIED ? cmd_to_io_kiocb(cmd)->async_data : cmd->sqe;
}

/* A worker will issue the command again. */
static inline void kvt_uring_punted(struct io_uring_cmd *cmd)
{
	cmd->flags |= KVT_URING_COPIED;
}
#else
static inline const struct io_uring_sqe *kvt_uring_sqe(const struct io_uring_cmd *cmd)
{
	return cmd->sqe;
}

static inline void kvt_uring_punted(struct io_uring_cmd *cmd)
{
}
#endif

/* The task in which io_uring_cmd_complete_in_task() runs its function; kept by the command. */
static inline struct task_struct *kvt_uring_task(struct io_uring_cmd *cmd)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
	return cmd_to_io_kiocb(cmd)->task;
#else
	return cmd_to_io_kiocb(cmd)->tctx->task;
#endif
}

/* Complete a command; res2 is for rings with CQEs of 32 bytes (@cqe32). */
static inline void kvt_uring_done(struct io_uring_cmd *cmd, s32 res, u64 res2, bool cqe32,
				  unsigned int issue_flags)
{
#ifdef IORING_SETUP_CQE_MIXED
	if (cqe32)
		io_uring_cmd_done32(cmd, res, res2, issue_flags);
	else
		io_uring_cmd_done(cmd, res, issue_flags);
#else
	io_uring_cmd_done(cmd, res, cqe32 ? res2 : 0, issue_flags);
#endif
}

/* @len bytes at the user address @at of the command's registered buffer. */
static inline int kvt_uring_import(struct io_uring_cmd *cmd, u64 at, size_t len, int dir,
				   struct iov_iter *iter, unsigned int issue_flags)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 15, 0)
	return io_uring_cmd_import_fixed(at, len, dir, iter, cmd);
#else
	return io_uring_cmd_import_fixed(at, len, dir, iter, cmd, issue_flags);
#endif
}

/*
 * Define @name, for io_uring_cmd_complete_in_task() and the like, as a call of
 * @fn(cmd, issue_flags, dead); dead: the task is gone, and its memory with it.
 */
#ifdef IO_URING_CMD_TASK_WORK_ISSUE_FLAGS
#define KVT_URING_TASK_WORK(name, fn)						\
static void name(struct io_tw_req req, io_tw_token_t tw)			\
{										\
	fn(io_uring_cmd_from_tw(req), IO_URING_CMD_TASK_WORK_ISSUE_FLAGS,	\
	   tw.cancel);								\
}
#else
#define KVT_URING_TASK_WORK(name, fn)						\
static void name(struct io_uring_cmd *cmd, unsigned int issue_flags)		\
{										\
	fn(cmd, issue_flags, issue_flags & IO_URING_F_TASK_DEAD);		\
}
#endif

/* Multishot commands with provided buffers are of 6.18. */
#ifdef IORING_URING_CMD_MULTISHOT
#define KVT_URING_HAS_MULTISHOT	true
#else
#define KVT_URING_HAS_MULTISHOT	false
#define IORING_URING_CMD_MULTISHOT	0

struct io_br_sel {
	void __user *addr;
	ssize_t val;
};

static inline struct io_br_sel io_uring_cmd_buffer_select(struct io_uring_cmd *cmd,
							  unsigned int group, size_t *len,
							  unsigned int issue_flags)
{
	return (struct io_br_sel) {};
}

static inline bool io_uring_mshot_cmd_post_cqe(struct io_uring_cmd *cmd, struct io_br_sel *sel,
					       unsigned int issue_flags)
{
	return true;
}
#endif

/* Before 7.1 a polling ring accepts only files that can be polled. */
#define KVT_URING_HAS_IOPOLL	(LINUX_VERSION_CODE >= KERNEL_VERSION(7, 1, 0))

/* From 6.19 on, kfuncs get trusted pointers without a flag. */
#ifndef KF_TRUSTED_ARGS
#define KF_TRUSTED_ARGS	0
#endif

/*
 * Before 6.14 crc32c() may be in a module of its own, which insmod would not load;
 * so crypto_alloc_shash() asks for it. Later kernels do not use the pointer.
 */
struct crypto_shash;

extern struct crypto_shash *kvt_crc32c_shash;

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 14, 0)
#include <crypto/hash.h>
#include <linux/err.h>

static inline int kvt_crc32c_init(void)
{
	kvt_crc32c_shash = crypto_alloc_shash("crc32c", 0, 0);
	return PTR_ERR_OR_ZERO(kvt_crc32c_shash);
}

static inline void kvt_crc32c_exit(void)
{
	crypto_free_shash(kvt_crc32c_shash);
}

static inline u32 kvt_crc32c(u32 crc, const void *data, size_t len)
{
	SHASH_DESC_ON_STACK(desc, kvt_crc32c_shash);
	u32 *state = shash_desc_ctx(desc);

	desc->tfm = kvt_crc32c_shash;
	*state = crc;
	WARN_ON_ONCE(crypto_shash_update(desc, data, len));
	return *state;
}
#else
#include <linux/crc32c.h>

static inline int kvt_crc32c_init(void)
{
	return 0;
}

static inline void kvt_crc32c_exit(void)
{
}

static inline u32 kvt_crc32c(u32 crc, const void *data, size_t len)
{
	return crc32c(crc, data, len);
}
#endif

#endif /* KVT_COMPAT_H */
