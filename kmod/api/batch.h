/* SPDX-License-Identifier: GPL-2.0 */
#ifndef KVT_API_BATCH_H
#define KVT_API_BATCH_H

#include <linux/kvtree.h>

struct kvt_op_ctx;

int kvt_batch_run(const struct kvt_op_ctx *ctx, struct kvtree_batch *batch);

#endif /* KVT_API_BATCH_H */
