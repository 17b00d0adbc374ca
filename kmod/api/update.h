/* SPDX-License-Identifier: GPL-2.0 */
/*
 * An update: an operation that changes a key, all of its data copied into
 * kernel memory, so that nothing of the caller's memory is needed while it is written.
 */
#ifndef KVT_API_UPDATE_H
#define KVT_API_UPDATE_H

#include "core/write.h"

struct kvt_update {
	struct kvt_write write;		/* its key is in the caller's memory */
	u8 *data;			/* of the columns outside blobs */
	u32 data_len;
	bool sync;			/* must be durable before it is reported */
};

int kvt_update_load(const struct kvt_op_ctx *ctx, const struct kvtree_op *op,
		    const struct kvt_key *key, struct kvt_update *update);
int kvt_update_write(const struct kvt_op_ctx *ctx, struct kvt_update *update);
void kvt_update_report(const struct kvt_update *update, struct kvtree_op *op, int result);
void kvt_update_free(struct kvt_update *update);

int kvt_update(const struct kvt_op_ctx *ctx, struct kvtree_op *op, const struct kvt_key *key);

#endif /* KVT_API_UPDATE_H */
