/* SPDX-License-Identifier: GPL-2.0 */
/* For compat.h, which is about the whole module: there are no commands here. */
#ifndef SHIM_IO_URING_CMD_H
#define SHIM_IO_URING_CMD_H

#include <errno.h>
#include <linux/types.h>

struct io_uring_sqe;
struct task_struct;

struct io_uring_cmd {
	const struct io_uring_sqe *sqe;
};

struct io_uring_task {
	struct task_struct *task;
};

struct io_kiocb {
	struct io_uring_task *tctx;
};

static inline struct io_kiocb *cmd_to_io_kiocb(void *cmd)
{
	return cmd;
}

struct iov_iter;

#define io_uring_cmd_done(cmd, ...)		((void)0)
#define io_uring_cmd_import_fixed(from, ...)	(-EOPNOTSUPP)

#endif /* SHIM_IO_URING_CMD_H */
