// SPDX-License-Identifier: GPL-2.0
/* Output is gathered under RCU, and copied to user space outside of it. */
#include <linux/errno.h>
#include <linux/sched.h>
#include <linux/string.h>

#include "base/value.h"
#include "out.h"
#include "user.h"

/**
 * kvt_out_init() - prepare to gather output
 * @out: the output
 * @buf: buffer for copied bytes
 * @room: its size in bytes
 * @blobs: array for references to blobs
 * @blob_room: its number of elements
 *
 * Context: any.
 */
void kvt_out_init(struct kvt_out *out, u8 *buf, u32 room, struct kvt_out_blob *blobs,
		  u32 blob_room)
{
	*out = (struct kvt_out) {
		.buf = buf,
		.room = room,
		.blobs = blobs,
		.blob_room = blob_room,
	};
}

static void out_reset(struct kvt_out *out)
{
	u32 i;

	for (i = 0; i < out->nblobs; i++)
		kvt_blob_put(out->blobs[i].blob);
	out->nblobs = 0;
	out->fill = 0;
}

/**
 * kvt_out_exit() - drop output that was not flushed
 * @out: the output
 *
 * Context: process context, may sleep.
 */
void kvt_out_exit(struct kvt_out *out)
{
	out_reset(out);
}

/**
 * kvt_out_fits() - check for room
 * @out: the output
 * @bytes: bytes to reserve or copy
 * @nblobs: blobs to refer to
 *
 * Context: any.
 *
 * Return: true if there is enough.
 */
bool kvt_out_fits(const struct kvt_out *out, u32 bytes, u32 nblobs)
{
	return bytes <= out->room - out->fill && nblobs <= out->blob_room - out->nblobs;
}

/**
 * kvt_out_reserve() - reserve bytes that the caller fills
 * @out: the output
 * @bytes: how many; the caller has checked that they fit
 *
 * Context: any.
 *
 * Return: pointer to the bytes, which are not cleared.
 */
void *kvt_out_reserve(struct kvt_out *out, u32 bytes)
{
	void *p = out->buf + out->fill;

	out->fill += bytes;
	return p;
}

/**
 * kvt_out_column() - append a column's data
 * @out: the output
 * @col: a column of a value; the caller has checked that it fits
 *
 * Context: under the rcu_read_lock() under which the value was found.
 */
void kvt_out_column(struct kvt_out *out, const struct kvt_column *col)
{
	if (col->blob) {
		kvt_blob_get(col->blob);
		out->blobs[out->nblobs++] = (struct kvt_out_blob) {
			.blob = col->blob,
			.at = out->fill,
		};
	} else {
		memcpy(kvt_out_reserve(out, col->len), col->data, col->len);
	}
}

/**
 * kvt_out_flush() - copy the output to user space, and empty it
 * @out: the output
 * @ctx: the operation's context
 * @val: the operation's `val`
 * @at: offset in @val
 *
 * Drops all references, whatever it returns.
 *
 * Context: process context, may sleep, but takes no page faults.
 *
 * Return: 0; -EFAULT; -EAGAIN after a page fault: part of it may have been copied.
 */
int kvt_out_flush(struct kvt_out *out, const struct kvt_op_ctx *ctx, u64 val, size_t at)
{
	struct kvt_blob *blob;
	u32 from = 0, until, i;
	int err = 0;

	for (i = 0; i <= out->nblobs && !err; i++) {
		until = i < out->nblobs ? out->blobs[i].at : out->fill;
		err = kvt_val_out(ctx, val, at, out->buf + from, until - from);
		at += until - from;
		from = until;
		if (err || i == out->nblobs)
			break;
		blob = out->blobs[i].blob;
		err = kvt_val_out(ctx, val, at, blob->data, blob->len);
		at += blob->len;
		cond_resched();
	}
	out_reset(out);
	return err;
}
