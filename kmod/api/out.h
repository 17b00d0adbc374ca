/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Output: bytes and columns, gathered under RCU and copied to user space outside of it.
 *
 * Gathering copies data from a value's block into a buffer, and takes references to blobs; a GET
 * also copies short blobs.  So a copy of a megabyte does not prolong an RCU read section, and
 * the output shows one value, or one step of a scan, at one moment.  If the copy to user
 * space meets a missing page, it drops the references, and the caller gathers again.
 */
#ifndef KVT_API_OUT_H
#define KVT_API_OUT_H

#include <linux/types.h>

struct kvt_blob;
struct kvt_column;
struct kvt_op_ctx;

struct kvt_out_blob {
	struct kvt_blob *blob;
	u32 at;			/* bytes of the buffer that precede it */
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

#endif /* KVT_API_OUT_H */
