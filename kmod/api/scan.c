// SPDX-License-Identifier: GPL-2.0
/*
 * SCAN: the records of a range of keys.
 *
 * A scan runs in steps.  A step gathers a bounded number of records and bytes under RCU
 * (out.h).  Between two steps they are copied to the user's buffer, and the scan may be
 * rescheduled or stopped.  If the copy faults, the scan goes back to the first record of
 * the step.
 *
 * Every step looks up the filter (core/hook.h) again.  Records that it rejects count
 * towards the step's limit.  After many of them the scan ends early, with a mark that
 * says how far it got.
 */
#include <linux/err.h>
#include <linux/minmax.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/string.h>

#include "compat.h"
#include "core/hook.h"
#include "out.h"
#include "run.h"
#include "scan.h"
#include "scratch.h"
#include "user.h"

/* The limits of a step. */
#define KVT_SCAN_RECORDS	64
#define KVT_SCAN_BYTES		(16 * 1024)
#define KVT_SCAN_BLOBS		KVTREE_COLS_MAX

/* How many records are read at once. */
#define KVT_SCAN_RUN		16

/* How many records a filter may examine to fill a buffer. */
#define KVT_SCAN_ASKED		4096

/* The part of a record that is not blobs always fits a step. */
static_assert(sizeof(struct kvtree_rec) + KVTREE_KEY_MAX + 8 + KVT_INLINE_MAX +
	      KVTREE_COLS_MAX * (sizeof(struct kvtree_col) + KVT_INLINE_ALWAYS) <=
	      KVT_SCAN_BYTES);

/* How a scan continues after a record. */
enum scan_stop {
	SCAN_GO,		/* with the next record */
	SCAN_STEP,		/* with the next step */
	SCAN_DONE,		/* the range is exhausted */
	SCAN_LIMIT,		/* as many records as asked for */
	SCAN_FULL,		/* the buffer is full */
	SCAN_TOO_SMALL,		/* the buffer is too small for the first record */
	SCAN_NO_FILTER,		/* the filter is gone or never existed */
};

/* Scratch memory; the iterator follows. */
struct kvt_scan {
	const struct kvt_op_ctx *ctx;
	struct kvtree_scan args;
	u64 val;		/* the user's buffer */
	u32 room;		/* bytes of it */
	u32 used;
	u32 need;		/* SCAN_TOO_SMALL: bytes of the first record */
	bool ended;		/* SCAN_DONE or SCAN_LIMIT */
	const struct kvt_hook *filter;	/* in a step; NULL: none */
	u32 asked;		/* how often it was called for this buffer */
	bool passed;		/* the last record was rejected: its key is the mark */
	u32 mark_len;
	u8 mark[KVTREE_KEY_MAX];	/* the iterator may have moved on since */
	const u8 *prefix;	/* the start key's */
	struct kvt_iter *iter;
	struct kvt_out out;
	struct kvt_pair pairs[KVT_SCAN_RUN];
	u16 ids[KVTREE_COLS_MAX];
	u8 end[KVTREE_KEY_MAX];
	struct kvt_out_blob blobs[KVT_SCAN_BLOBS];
	u8 buf[KVT_SCAN_BYTES];
};

/* A record to be gathered. */
struct record {
	struct kvtree_rec head;
	u32 copied;		/* bytes outside blobs, with padding */
	u32 nblobs;
};

static int scan_check_flags(const struct kvtree_scan *args)
{
	u32 known = KVTREE_SCAN_REVERSE | KVTREE_SCAN_KEYS_ONLY | KVTREE_SCAN_AFTER |
		    KVTREE_SCAN_PREFIX | KVTREE_SCAN_END | KVTREE_SCAN_LAST |
		    KVTREE_SCAN_ALL_COLS | KVTREE_SCAN_END_INCL;
	u32 what = args->flags & (KVTREE_SCAN_KEYS_ONLY | KVTREE_SCAN_ALL_COLS);

	if (args->flags & ~known)
		return -EINVAL;
	/* At most one way to select columns. */
	if (hweight32(what) + !!(args->ncols || args->cols) > 1)
		return -EINVAL;
	if (!args->cols != !args->ncols)
		return -EINVAL;
	if (args->prefix_len && !(args->flags & KVTREE_SCAN_PREFIX))
		return -EINVAL;
	if (args->flags & KVTREE_SCAN_END_INCL && !args->end_len &&
	    !(args->flags & KVTREE_SCAN_END))
		return -EINVAL;
	if (args->flags & KVTREE_SCAN_LAST &&
	    (!(args->flags & KVTREE_SCAN_REVERSE) || args->flags & KVTREE_SCAN_AFTER))
		return -EINVAL;
	return 0;
}

static int scan_check(const struct kvtree_scan *args, const struct kvt_key *key)
{
	if (memchr_inv(args->reserved, 0, sizeof(args->reserved)) ||
	    memchr_inv(args->reserved2, 0, sizeof(args->reserved2)))
		return -EINVAL;
	if (args->end && !args->end_len && !(args->flags & KVTREE_SCAN_END))
		return -EINVAL;
	if (args->end_len > KVTREE_KEY_MAX || args->ncols > KVTREE_COLS_MAX)
		return -E2BIG;
	if (args->prefix_len > key->len)
		return -EINVAL;
	/* The prefix alone instead of a start key. */
	if (args->flags & KVTREE_SCAN_LAST && key->len != args->prefix_len)
		return -EINVAL;
	return scan_check_flags(args);
}

static int scan_copy_ids(struct kvt_scan *scan)
{
	unsigned int i;
	int err;

	err = kvt_copy_in(scan->ctx, scan->ids, scan->args.cols,
			  array_size(scan->args.ncols, sizeof(*scan->ids)));
	if (err)
		return err;
	for (i = 0; i < scan->args.ncols; i++)
		if (scan->ids[i] >= KVTREE_COLS_MAX || (i && scan->ids[i] <= scan->ids[i - 1]))
			return -EINVAL;
	return 0;
}

static void scan_set_iter(struct kvt_scan *scan, const struct kvt_key *key)
{
	struct kvt_iter *iter = scan->iter;

	iter->index = scan->ctx->store->index;
	iter->reverse = scan->args.flags & KVTREE_SCAN_REVERSE;
	if (scan->args.flags & KVTREE_SCAN_LAST)
		iter->bound = KVT_PAST;
	else if (scan->args.flags & KVTREE_SCAN_AFTER)
		iter->bound = KVT_AFTER;
	else
		iter->bound = KVT_AT;
	/* It is unknown how many a filter leaves out. */
	iter->want = scan->args.filter_id ? 0 : scan->args.limit;
	iter->len = key->len;
	memcpy(iter->key, key->data, key->len);
	iter->index->ops->iter_rest(iter);
}

/* Copy in column ids and the end of the range, which the scan keeps. */
static int scan_copy_in(struct kvt_scan *scan)
{
	int err;

	err = kvt_copy_in(scan->ctx, scan->end, scan->args.end, scan->args.end_len);
	return err ?: scan_copy_ids(scan);
}

static int scan_init(struct kvt_scan *scan, const struct kvt_op_ctx *ctx,
		     const struct kvtree_op *op, const struct kvt_key *key)
{
	int err;

	scan->ctx = ctx;
	err = kvt_copy_sized_in(ctx, &scan->args, sizeof(scan->args), op->arg, op->arg_size);
	if (!err)
		err = scan_check(&scan->args, key);
	if (!err)
		err = scan_copy_in(scan);
	if (err)
		return err;
	scan->args.count = 0;
	scan->args.out_flags = 0;
	scan->ended = false;
	scan->filter = NULL;
	scan->prefix = key->data;
	scan->iter = (struct kvt_iter *)(scan + 1);
	scan_set_iter(scan, key);
	kvt_out_init(&scan->out, scan->buf, sizeof(scan->buf), scan->blobs, KVT_SCAN_BLOBS);
	return 0;
}

/* Whether the iterator's key lies in the range. */
static bool scan_in_range(const struct kvt_scan *scan)
{
	const struct kvt_iter *iter = scan->iter;
	u32 end_len = scan->args.end_len;
	int cmp;

	if (iter->len < scan->args.prefix_len ||
	    memcmp(iter->key, scan->prefix, scan->args.prefix_len))
		return false;
	if (!end_len && !(scan->args.flags & KVTREE_SCAN_END))
		return true;
	cmp = kvt_iter_cmp(iter, scan->end, end_len);
	if (!cmp)
		return scan->args.flags & KVTREE_SCAN_END_INCL;
	return iter->reverse ? cmp > 0 : cmp < 0;
}

static bool scan_wants_cols(const struct kvt_scan *scan)
{
	return scan->args.ncols || scan->args.flags & KVTREE_SCAN_ALL_COLS;
}

/* The next wanted column that the value has; at: the position of the search. */
static bool scan_next_column(const struct kvt_scan *scan, const struct kvt_value *v,
			     unsigned int *at, struct kvt_column *col)
{
	if (scan->args.flags & KVTREE_SCAN_KEYS_ONLY)
		return false;
	if (scan->args.flags & KVTREE_SCAN_ALL_COLS) {
		if (*at >= kvt_value_ncols(v))
			return false;
		kvt_value_column(v, (*at)++, col);
		return true;
	}
	if (!scan->args.ncols)
		return !(*at)++ && kvt_value_find(v, 0, col);
	while (*at < scan->args.ncols)
		if (kvt_value_find(v, scan->ids[(*at)++], col))
			return true;
	return false;
}

static void scan_measure(const struct kvt_scan *scan, const struct kvt_value *v,
			 struct record *rec)
{
	struct kvt_column col = {};
	u32 blob_bytes = 0, ncols = 0;
	unsigned int at = 0;

	*rec = (struct record) {
		.head.hdr_len = sizeof(rec->head),
		.head.key_len = scan->iter->len,
		.head.version = v->version,
	};
	while (scan_next_column(scan, v, &at, &col)) {
		ncols++;
		rec->head.val_len += col.len;
		if (col.blob) {
			blob_bytes += col.len;
			rec->nblobs++;
		}
	}
	if (scan_wants_cols(scan)) {
		rec->head.flags = KVTREE_REC_COLS;
		rec->head.ncols = ncols;
		rec->head.val_len += ncols * sizeof(struct kvtree_col);
	}
	rec->head.rec_len = ALIGN(sizeof(rec->head) + rec->head.key_len + rec->head.val_len, 8);
	rec->copied = rec->head.rec_len - blob_bytes;
}

static void scan_gather(struct kvt_scan *scan, const struct kvt_value *v, const struct record *rec)
{
	u32 pad = rec->head.rec_len - sizeof(rec->head) - rec->head.key_len - rec->head.val_len;
	struct kvt_out *out = &scan->out;
	struct kvt_column col = {};
	struct kvtree_col desc = {};
	unsigned int at;

	memcpy(kvt_out_reserve(out, sizeof(rec->head)), &rec->head, sizeof(rec->head));
	memcpy(kvt_out_reserve(out, rec->head.key_len), scan->iter->key, rec->head.key_len);
	for (at = 0; scan_wants_cols(scan) && scan_next_column(scan, v, &at, &col);) {
		desc.id = col.id;
		desc.len = col.len;
		memcpy(kvt_out_reserve(out, sizeof(desc)), &desc, sizeof(desc));
	}
	for (at = 0; scan_next_column(scan, v, &at, &col);)
		kvt_out_column(out, &col);
	memset(kvt_out_reserve(out, pad), 0, pad);
}

/* Make the iterator return its current key again. */
static void scan_step_back(struct kvt_scan *scan)
{
	scan->iter->bound = KVT_AT;
	scan->iter->index->ops->iter_rest(scan->iter);
}

/* Ask the filter about the current record. */
static bool scan_match(struct kvt_scan *scan, const struct kvt_value *v)
{
	const struct kvt_key key = { .data = scan->iter->key, .len = scan->iter->len };

	scan->asked++;
	scan->passed = !kvt_hook_match(scan->filter, &key, v);
	if (scan->passed) {
		memcpy(scan->mark, key.data, key.len);
		scan->mark_len = key.len;
	}
	return !scan->passed;
}

/* Gather one record.  *len: bytes of the user's buffer used by this step. */
static enum scan_stop scan_take(struct kvt_scan *scan, const struct kvt_value *v, u32 *len)
{
	struct record rec;

	if (!scan_in_range(scan))
		return SCAN_DONE;
	if (unlikely(scan->filter) && !scan_match(scan, v))
		return SCAN_GO;
	scan_measure(scan, v, &rec);
	if (rec.head.rec_len > scan->room - scan->used - *len) {
		scan->need = rec.head.rec_len;
		scan_step_back(scan);
		return scan->used || *len ? SCAN_FULL : SCAN_TOO_SMALL;
	}
	if (!kvt_out_fits(&scan->out, rec.copied, rec.nblobs) ||
	    (*len && *len + rec.head.rec_len > KVT_PINNED_MAX)) {
		scan_step_back(scan);
		return SCAN_STEP;
	}
	scan_gather(scan, v, &rec);
	*len += rec.head.rec_len;
	scan->args.count++;
	return scan->args.count == scan->args.limit ? SCAN_LIMIT : SCAN_GO;
}

/* Read and gather a run of records.  *left: how many more this step may gather. */
static enum scan_stop scan_run(struct kvt_scan *scan, unsigned int *left, u32 *len)
{
	struct kvt_iter *iter = scan->iter;
	enum scan_stop stop = SCAN_GO;
	int i, nr;

	nr = iter->index->ops->iter_next(iter, scan->pairs, min(*left, KVT_SCAN_RUN));
	if (nr <= 0)
		return nr ? SCAN_STEP : SCAN_DONE;
	*left -= nr;
	/* The next step continues where this one stops. */
	for (i = 0; i < nr && stop == SCAN_GO; i++) {
		iter->len = kvt_pair_key(iter, &scan->pairs[i], iter->key);
		stop = scan_take(scan, scan->pairs[i].value, len);
	}
	return stop;
}

/* Gather records until something stops it.  *len as for scan_take(). */
static enum scan_stop scan_step(struct kvt_scan *scan, u32 *len)
{
	unsigned int left = KVT_SCAN_RECORDS;
	enum scan_stop stop = SCAN_GO;

	*len = 0;
	rcu_read_lock();
	if (unlikely(scan->args.filter_id)) {
		scan->filter = kvt_hook_filter(scan->ctx->store, scan->args.filter_id);
		if (!scan->filter)
			stop = SCAN_NO_FILTER;
	}
	while (left && stop == SCAN_GO)
		stop = scan_run(scan, &left, len);
	scan->iter->index->ops->iter_rest(scan->iter);
	rcu_read_unlock();
	return stop == SCAN_GO ? SCAN_STEP : stop;
}

/*
 * A page fault stopped the copy of the step's records: drop them, fault in the pages, and go
 * back to the first of them, which is first in the buffer.
 * @len: from the step; @count: of records before it.
 */
static int scan_fault(struct kvt_scan *scan, u32 len, u32 count, unsigned int *tries)
{
	struct kvt_iter *iter = scan->iter;
	struct kvtree_rec head;

	memcpy(&head, scan->buf, sizeof(head));
	iter->len = head.key_len;
	memcpy(iter->key, scan->buf + sizeof(head), head.key_len);
	scan_step_back(scan);
	scan->args.count = count;
	scan->passed = false;
	return kvt_val_fault_out(scan->ctx, scan->val + scan->used, len, tries);
}

/* Do one step and copy its records.  Returns 0 or an error. */
static int scan_go(struct kvt_scan *scan, enum scan_stop *stop, unsigned int *tries)
{
	u32 count = scan->args.count, len;
	int err;

	*stop = scan_step(scan, &len);
	err = kvt_out_flush(&scan->out, scan->ctx, scan->val, scan->used);
	if (unlikely(err == -EAGAIN)) {
		*stop = SCAN_STEP;
		return scan_fault(scan, len, count, tries);
	}
	if (err)
		return err;
	scan->used += len;
	*tries = 0;
	return 0;
}

/**
 * kvt_scan_rest() - reschedule, and check whether a scan has to end
 * @scan: the scan, between two kvt_scan_fill()
 *
 * Needed since users choose the size and the number of the buffers.
 *
 * Context: process context; may reschedule.
 *
 * Return: 0; -ESTALE: the store is being destroyed; -EINTR: a fatal signal came.
 */
int kvt_scan_rest(const struct kvt_scan *scan)
{
	cond_resched();
	if (kvt_store_dying(scan->ctx->store))
		return -ESTALE;
	return fatal_signal_pending(current) ? -EINTR : 0;
}

/* Between two steps: 0 to continue, 1 to end with the records so far, or an error. */
static int scan_pause(const struct kvt_scan *scan)
{
	int err = kvt_scan_rest(scan);

	if (err)
		return err;
	if (unlikely(scan->asked >= KVT_SCAN_ASKED) && (scan->used || scan->passed))
		return 1;
	if (!scan->ctx->interruptible || !signal_pending(current))
		return 0;
	return scan->used || scan->passed ? 1 : KVT_INTERRUPTED;
}

/* The scan ends early: mark the last record that was rejected. */
static int scan_mark(struct kvt_scan *scan)
{
	struct kvtree_rec head = {
		.rec_len = ALIGN(sizeof(head) + scan->mark_len, 8),
		.hdr_len = sizeof(head),
		.key_len = scan->mark_len,
		.flags = KVTREE_REC_MARK,
	};
	u32 pad = head.rec_len - sizeof(head) - head.key_len;
	struct kvt_out *out = &scan->out;
	unsigned int tries = 0;
	int err;

	if (head.rec_len > scan->room - scan->used) {
		/* The last record, if any, says where to continue. */
		scan->need = head.rec_len;
		return scan->used ? 0 : -EMSGSIZE;
	}
	do {
		memcpy(kvt_out_reserve(out, sizeof(head)), &head, sizeof(head));
		memcpy(kvt_out_reserve(out, head.key_len), scan->mark, head.key_len);
		memset(kvt_out_reserve(out, pad), 0, pad);
		err = kvt_out_flush(out, scan->ctx, scan->val, scan->used);
		if (!err)
			scan->used += head.rec_len;
		if (err != -EAGAIN)
			return err;
		err = kvt_val_fault_out(scan->ctx, scan->val + scan->used, head.rec_len, &tries);
	} while (!err);
	return err;
}

/**
 * kvt_scan_begin() - begin a scan
 * @ctx: the caller's context
 * @op: the operation, checked
 * @key: its start key, in kernel memory that stays valid until kvt_scan_end()
 *
 * Context: process context; sleeps if @ctx allows it.
 *
 * Return: the scan, for kvt_scan_end(), or an ERR_PTR(): -EFAULT, -EINVAL,
 * -E2BIG, -ENOMEM; -EAGAIN: it would have to sleep.
 */
struct kvt_scan *kvt_scan_begin(const struct kvt_op_ctx *ctx, const struct kvtree_op *op,
				const struct kvt_key *key)
{
	size_t size = sizeof(struct kvt_scan) + ctx->store->index->ops->iter_size;
	struct kvt_scan *scan;
	int err;

	scan = kvt_scratch_take(ctx->scratch, KVT_SCRATCH_SCAN, size, kvt_op_gfp_scratch(ctx));
	if (!scan)
		return ERR_PTR(-ENOMEM);
	err = scan_init(scan, ctx, op, key);
	if (!err)
		return scan;
	kvt_scratch_give(ctx->scratch, KVT_SCRATCH_SCAN, scan);
	return ERR_PTR(err);
}

/**
 * kvt_scan_fill() - fill a buffer with the next records of a scan
 * @scan: the scan
 * @val: the user's buffer
 * @room: bytes of it
 *
 * Context: process context; sleeps if the scan's context allows it.
 *
 * Return: bytes filled, 0 if there is nothing more; -EMSGSIZE: not even one
 * record fits, see kvt_scan_need(); -EFAULT; -ENXIO: there is no such filter;
 * -ESTALE: the store was destroyed meanwhile; -EINTR: a fatal signal came;
 * KVT_INTERRUPTED: a signal came before there was any record; -EAGAIN: it would
 * have to sleep.
 */
int kvt_scan_fill(struct kvt_scan *scan, u64 val, u32 room)
{
	unsigned int tries = 0;
	enum scan_stop stop;
	int err;

	scan->val = val;
	/* The result is a signed number. */
	scan->room = min_t(u32, room, round_down(INT_MAX, 8));
	scan->used = 0;
	scan->asked = 0;
	scan->passed = false;
	do {
		err = scan_go(scan, &stop, &tries);
		if (!err && stop == SCAN_STEP)
			err = scan_pause(scan);
	} while (stop == SCAN_STEP && !err);

	if (err > 0 && scan->passed)
		err = scan_mark(scan);
	if (err < 0)
		return err;
	if (stop == SCAN_TOO_SMALL)
		return -EMSGSIZE;
	if (stop == SCAN_NO_FILTER && !scan->used)
		return -ENXIO;
	if (stop == SCAN_DONE)
		scan->args.out_flags |= KVTREE_SCAN_DONE;
	scan->ended = stop == SCAN_DONE || stop == SCAN_LIMIT;
	return scan->used;
}

/**
 * kvt_scan_need() - bytes needed by the record that did not fit
 * @scan: a scan after kvt_scan_fill() returned -EMSGSIZE
 *
 * Context: any.
 *
 * Return: bytes.
 */
u32 kvt_scan_need(const struct kvt_scan *scan)
{
	return scan->need;
}

/**
 * kvt_scan_skip() - use up a buffer that is too small for the next record
 * @scan: a scan after kvt_scan_fill() of that buffer returned -EMSGSIZE
 *
 * The scan continues with the next buffer.
 *
 * Context: process context; sleeps if the scan's context allows it.
 *
 * Return: bytes of the buffer; -EMSGSIZE: it has none; -EFAULT; -ESTALE; -EAGAIN: it would
 * have to sleep.
 */
int kvt_scan_skip(struct kvt_scan *scan)
{
	const struct kvtree_rec head = {
		.rec_len = scan->room,
		.hdr_len = sizeof(head),
		.flags = KVTREE_REC_SKIP,
	};
	int err = 0;

	if (!scan->room)
		return -EMSGSIZE;
	if (scan->room >= sizeof(head))
		err = kvt_copy_out(scan->ctx, scan->val, &head, sizeof(head));
	return err ?: scan->room;
}

/**
 * kvt_scan_ended() - check whether a scan has ended
 * @scan: the scan
 *
 * Context: any.
 *
 * Return: true if the range is exhausted or the limit reached; kvt_scan_fill() must not
 * follow then.
 */
bool kvt_scan_ended(const struct kvt_scan *scan)
{
	return scan->ended;
}

/**
 * kvt_scan_report() - report the outcome of a scan to the user
 * @scan: the scan
 * @arg: the operation's `arg`, a struct kvtree_scan in user space
 *
 * Context: process context; sleeps if the scan's context allows it.
 *
 * Return: 0, -EFAULT, or -EAGAIN: it would have to sleep.
 */
int kvt_scan_report(const struct kvt_scan *scan, u64 arg)
{
	const struct kvtree_scan *args = &scan->args;
	int err;

	err = kvt_copy_out(scan->ctx, arg + offsetof(struct kvtree_scan, count),
			   &args->count, sizeof(args->count));
	if (!err)
		err = kvt_copy_out(scan->ctx, arg + offsetof(struct kvtree_scan, out_flags),
				   &args->out_flags, sizeof(args->out_flags));
	if (!err)
		kvt_stat_add(&scan->ctx->store->stats, KVTREE_STAT_SCAN_RECORDS, args->count);
	return err;
}

/**
 * kvt_scan_end() - end a scan
 * @scan: from kvt_scan_begin()
 *
 * Context: process context, may sleep.
 */
void kvt_scan_end(struct kvt_scan *scan)
{
	kvt_out_exit(&scan->out);
	kvt_scratch_give(scan->ctx->scratch, KVT_SCRATCH_SCAN, scan);
}

/**
 * kvt_scan() - execute a SCAN
 * @ctx: the caller's context
 * @op: the operation, checked
 * @key: its start key, in kernel memory
 *
 * Context: process context; sleeps if @ctx allows it.
 *
 * Return: bytes filled; -EMSGSIZE, and @op->val_len is set; or an errno of
 * kvt_scan_begin() or kvt_scan_fill().
 */
int kvt_scan(const struct kvt_op_ctx *ctx, struct kvtree_op *op, const struct kvt_key *key)
{
	struct kvt_scan *scan;
	int ret;

	scan = kvt_scan_begin(ctx, op, key);
	if (IS_ERR(scan))
		return PTR_ERR(scan);
	ret = kvt_scan_fill(scan, op->val, op->val_len);
	if (ret == -EMSGSIZE)
		op->val_len = kvt_scan_need(scan);
	else if (ret >= 0)
		ret = kvt_scan_report(scan, op->arg) ?: ret;
	kvt_scan_end(scan);
	return ret;
}
KVT_EXPORT_FOR_TESTS(kvt_scan);
