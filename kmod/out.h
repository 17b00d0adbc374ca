/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Output: bytes and columns, gathered under RCU and copied to user space
 * outside of it.
 *
 * What stands in a value's block is copied, into a buffer that was there
 * before; blobs are kept by reference.  So no megabyte keeps an RCU read section
 * open, and what was gathered is one value, or one run of a scan, as it was at
 * one moment.  A page of the user's that is not there makes the copy fail: the
 * references are gone then, and it is to be gathered again.
 */
#ifndef KVT_OUT_H
#define KVT_OUT_H

#include <linux/types.h>

struct kvt_blob;
struct kvt_column;
struct kvt_op_ctx;

struct kvt_out_blob {
	struct kvt_blob *blob;
	u32 at;			/* bytes of the buffer that stand before it */
};

struct kvt_out {
	u8 *buf;
	struct kvt_out_blob *blobs;
	u32 room;		/* bytes of buf */
	u32 fill;
	u32 blob_room;
	u32 nblobs;
};

void kvt_out_init(struct kvt_out *out, u8 *buf, u32 room, struct kvt_out_blob *blobs,
		  u32 blob_room);
void kvt_out_exit(struct kvt_out *out);
bool kvt_out_fits(const struct kvt_out *out, u32 bytes, u32 nblobs);
void *kvt_out_reserve(struct kvt_out *out, u32 bytes);
void kvt_out_column(struct kvt_out *out, const struct kvt_column *col);
int kvt_out_flush(struct kvt_out *out, const struct kvt_op_ctx *ctx, u64 val, size_t at);

#endif /* KVT_OUT_H */
