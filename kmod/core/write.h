/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A write: one change of one key, with all of its data in kernel memory.
 *
 * What a write needs is allocated before the key's place is held (begin() of
 * the index), and given back after.  While it is held the old value is known,
 * and only then: whether the write may take place, the new version, the charge
 * against the limits and, if columns are merged, the new value's block are made
 * there, with nothing that sleeps and at most about 12 KiB copied.  A block that
 * turns out too small makes the write let go, allocate, and begin again.
 *
 * If the store has a validator (hook.h), a merge is made before, for the validator to
 * see, and its block published if the old value is the same then.
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
	bool must_not_wait;		/* for events, although its context may */
	/* Out. */
	u64 version;			/* made, removed, or found and refused; 0: not there */
	u64 before;			/* ADD: the number before */
	u64 epoch;			/* of a durable store: that it was made in */
};

int kvt_write(const struct kvt_op_ctx *ctx, struct kvt_write *write);

#endif /* KVT_CORE_WRITE_H */
