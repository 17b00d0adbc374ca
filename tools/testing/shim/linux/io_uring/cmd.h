/* SPDX-License-Identifier: GPL-2.0 */
/* For compat.h, which is about the whole module: there are no commands here. */
#ifndef SHIM_IO_URING_CMD_H
#define SHIM_IO_URING_CMD_H

#include <errno.h>
#include <linux/types.h>

struct io_uring_sqe;

struct io_uring_cmd {
	const struct io_uring_sqe *sqe;
};

struct iov_iter;

#define io_uring_cmd_done(cmd, ...)		((void)0)
#define io_uring_cmd_import_fixed(from, ...)	(-EOPNOTSUPP)

#endif /* SHIM_IO_URING_CMD_H */
