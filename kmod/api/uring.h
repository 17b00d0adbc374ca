/* SPDX-License-Identifier: GPL-2.0 */
/* io_uring commands. */
#ifndef KVT_API_URING_H
#define KVT_API_URING_H

#include <linux/types.h>

struct io_uring_cmd;

u64 kvt_uring_features(void);
int kvt_uring_cmd(struct io_uring_cmd *cmd, unsigned int issue_flags);

#endif /* KVT_API_URING_H */
