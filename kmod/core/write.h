/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A write: one change of one key, with all of its data in kernel memory.
 *
 * A write allocates what it needs before it holds the key's place (begin() of the
 * index), and gives back the rest afterwards.  The old value is known only while the
 * place is held.  There the write checks its conditions, chooses the new version, charges
 * the limits and merges columns, without sleeping, and copies about 12 KiB at most.  If a
 * block turns out too small, the write releases the place, allocates, and starts over.
 *
 * A write sleeps only to allocate memory.  Its caller waits for memory to be freed
 * (kvt_write_admit()) and for room in the log (kvt_write_wait()), and holds none of the write's
 * data meanwhile.
 *
 * If the store has a validator (hook.h), the write merges beforehand, shows the result to
 * the validator, and publishes that block if the old value is still the same.
 */
#ifndef KVT_CORE_WRITE_H
#define KVT_CORE_WRITE_H

#include <linux/types.h>

#include "base/index.h"

struct kvt_column;
struct kvt_op_ctx;
struct kvt_value;
struct kvtree_op;

struct kvt_write {
	struct kvtree_op *op;		/* PUT, CAS, REMOVE or ADD, checked; its pointers are not
					 * used here.  Its outcome is set if it has one
					 */
	struct kvt_key key;
	struct kvt_value *value;	/* to put; NULL after success: the store owns it */
	struct kvt_cell cell;		/* where it is if it has no block: a write is not copied */
	struct kvt_column *cols;	/* with KVTREE_F_COLS: ascending; as edits of a merge */
	unsigned int ncols;
	void *data;			/* the caller's, of columns outside blobs */
};

struct kvt_cell *kvt_write_cell(const struct kvt_op_ctx *ctx, struct kvt_write *write);
int kvt_write_admit(const struct kvt_op_ctx *ctx);
int kvt_write(const struct kvt_op_ctx *ctx, struct kvt_write *write);
int kvt_write_wait(const struct kvt_op_ctx *ctx);

#endif /* KVT_CORE_WRITE_H */
