/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Loading an operation's key and data: they are copied into kernel memory, so that a write does not
 * access user memory.
 */
#ifndef KVT_API_LOAD_H
#define KVT_API_LOAD_H

#include <linux/types.h>

#include "base/index.h"
#include "core/write.h"

struct kvt_op_ctx;
struct kvtree_op;

/* An operation's key in kernel memory; long keys are not on the stack. */
struct kvt_op_key {
	struct kvt_key key;
	u8 *large;
	u8 small[128];
};

int kvt_load_key_to(const struct kvt_op_ctx *ctx, const struct kvtree_op *op, u8 *to);
int kvt_load_key(const struct kvt_op_ctx *ctx, const struct kvtree_op *op,
		 struct kvt_op_key *key);
void kvt_unload_key(struct kvt_op_key *key);

int kvt_load(const struct kvt_op_ctx *ctx, struct kvtree_op *op, const struct kvt_key *key,
	     struct kvt_write *write);
void kvt_unload(struct kvt_write *write);

#endif /* KVT_API_LOAD_H */
