/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A write in progress: write.c takes its steps, and prepare.c makes the value that a merge
 * publishes.
 */
#ifndef KVT_CORE_WRITER_H
#define KVT_CORE_WRITER_H

#include <linux/compiler.h>
#include <linux/errno.h>
#include <linux/types.h>
#include <linux/kvtree.h>

#include "base/index.h"
#include "base/merge.h"
#include "base/value.h"
#include "ctx.h"
#include "log/log.h"
#include "write.h"

/* What a write does next.  All but the first release the place. */
enum writer_step {
	WRITER_GO,		/* continue */
	WRITER_FAIL,		/* end with writer.err */
	WRITER_AGAIN,		/* get what is missing, and start again */
	WRITER_NO_BAG,		/* get a bag for the old value, and start again */
};

/* The validator's answer, and for which values. */
struct writer_verdict {
	u64 turn;		/* of the validator that allowed the new value; 0: there was none */
	u64 seen;		/* version of the old value that this one was merged with */
};

/* A write in progress. */
struct writer {
	const struct kvt_op_ctx *ctx;
	struct kvt_store *store;
	const struct kvt_write *write;
	const struct kvtree_op *op;	/* of the write */
	struct kvt_change change;
	struct kvt_merge merge;
	struct kvt_log_note note;	/* of a durable store */
	/* The merged value, or the block of one that cannot be a cell; not published. */
	struct kvt_value *block;
	struct kvt_cell cell;		/* where the new value is if it has no block */
	struct kvt_value *new;		/* to be published: NULL to remove */
	bool no_cell;			/* the value must have a block */
	struct kvt_bag *bag;		/* for the old value */
	unsigned int guesses;
	unsigned int tries;
	bool begun;
	int err;			/* if the step is WRITER_FAIL */
	u64 version;			/* made, removed, or found and refused; 0: not there */
	u64 before;			/* ADD: the number before */
	struct writer_verdict verdict;
	struct kvt_column sum;		/* ADD: the column as an edit */
	u8 sum_data[8];
	s64 delta;			/* charge of the new value less that of the old */
	DECLARE_BITMAP(kept, KVTREE_COLS_MAX);
};

static inline enum writer_step writer_fail(struct writer *w, int err)
{
	w->err = err;
	return WRITER_FAIL;
}

/* The step for a call's return value, 0 or an errno. */
static inline enum writer_step writer_after(struct writer *w, int err)
{
	return unlikely(err) ? writer_fail(w, err) : WRITER_GO;
}

static inline bool write_removes(const struct kvtree_op *op)
{
	return op->opcode == KVTREE_OP_REMOVE;
}

static inline bool write_adds(const struct kvtree_op *op)
{
	return op->opcode == KVTREE_OP_ADD;
}

static inline bool write_merges(const struct kvtree_op *op)
{
	return write_adds(op) || op->flags & KVTREE_F_COLS;
}

/* Conditions, all of which must hold: the key exists, or does not. */
static inline bool write_wants_key(const struct kvtree_op *op)
{
	return write_removes(op) || op->flags & KVTREE_F_REPLACE;
}

static inline bool write_wants_no_key(const struct kvtree_op *op)
{
	return op->flags & KVTREE_F_CREATE;
}

/* The key has the version op->version; 0: it does not exist. */
static inline bool write_wants_version(const struct kvtree_op *op)
{
	return op->opcode == KVTREE_OP_CAS || op->flags & KVTREE_F_VERSION;
}

static inline u64 value_version(const struct kvt_value *v)
{
	return v ? v->version : 0;
}

/* Check the write's conditions against the present value @old. */
static inline enum writer_step writer_check(struct writer *w, const struct kvt_value *old)
{
	const struct kvtree_op *op = w->op;

	w->version = value_version(old);
	if (write_wants_key(op) && !w->version)
		return writer_fail(w, -ENOENT);
	if (write_wants_no_key(op) && w->version)
		return writer_fail(w, -EEXIST);
	if (write_wants_version(op) && w->version != op->version)
		return writer_fail(w, -ECANCELED);
	return WRITER_GO;
}

/* prepare.c: for merges, and where there is a validator. */
int kvt_writer_alloc(struct writer *w);
int kvt_writer_leave_cell(struct writer *w);
enum writer_step kvt_writer_validate(struct writer *w);
enum writer_step kvt_writer_merge(struct writer *w, const struct kvt_value *old);
bool kvt_writer_wastes(const struct writer *w);
void kvt_writer_hand_over(struct writer *w);
void kvt_writer_drop(struct writer *w);

#endif /* KVT_CORE_WRITER_H */
