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
 * A write sleeps for nothing but memory.  For memory that has to be freed first
 * (kvt_write_admit()) and for room in the log (kvt_write_wait()) its caller waits, who holds none
 * of its data meanwhile.
 *
 * If the store has a validator (hook.h), the write merges beforehand, shows the result to
 * the validator, and publishes that block if the old value is still the same.
 */
#ifndef KVT_CORE_WRITE_H
#define KVT_CORE_WRITE_H

#include <linux/bits.h>
#include <linux/types.h>

#include "index.h"

struct kvt_column;
struct kvt_op_ctx;
struct kvt_value;

enum kvt_write_kind {
	KVT_WRITE_VALUE,	/* the whole value is replaced */
	KVT_WRITE_COLS,		/* some columns are */
	KVT_WRITE_ADD,		/* a number in a column is added to */
	KVT_WRITE_REMOVE,
};

/* Conditions, all of which must hold. */
#define KVT_WHEN_THERE		BIT(0)	/* the key is there */
#define KVT_WHEN_NOT_THERE	BIT(1)
#define KVT_WHEN_VERSION	BIT(2)	/* its version is as expected; 0: not there */

struct kvt_write {
	/* In. */
	enum kvt_write_kind kind;
	unsigned int when;
	struct kvt_key key;
	u64 expect;
	struct kvt_value *value;	/* VALUE: the store's own after success */
	struct kvt_column *cols;	/* COLS: ascending; as edits of a merge */
	unsigned int ncols;
	bool whole;			/* COLS: no other columns stay */
	u16 col;			/* ADD */
	u64 addend;			/* ADD */
	/* Out. */
	u64 version;			/* made, removed, or found and refused; 0: not there */
	u64 before;			/* ADD: the number before */
	u64 epoch;			/* of a durable store: that it was made in */
};

int kvt_write_admit(const struct kvt_op_ctx *ctx);
int kvt_write(const struct kvt_op_ctx *ctx, struct kvt_write *write);
int kvt_write_wait(const struct kvt_op_ctx *ctx);

#endif /* KVT_CORE_WRITE_H */
