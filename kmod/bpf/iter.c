// SPDX-License-Identifier: GPL-2.0
/*
 * Iterators of BPF programs.
 *
 * The program's stack has a pointer to a cursor and the record that next() returns.
 * The verifier ensures that RCU is held from new() to the last call of next(), so that
 * everything the cursor has read stays valid, and that destroy() is called whatever
 * new() returned.
 */
#include <linux/btf.h>
#include <linux/err.h>
#include <linux/minmax.h>
#include <linux/module.h>
#include <linux/rcupdate.h>
#include <linux/string.h>

#include "base/value.h"
#include "bpf.h"
#include "compat.h"
#include "core/store.h"
#include "cursor.h"

/*
 * The verifier trusts an iterator to end the loop.  Each next() is bounded, but a range is not: a
 * writer may extend it faster than a program goes through it.
 *
 * A soft lockup is reported after 20 seconds, an RCU stall after 21.  XDP and tc run for up to 64
 * packets (NAPI_POLL_WEIGHT) before anything else gets the CPU.  That leaves each of 2^16 records
 * of each packet 4.8 us, for next() and the loop's body; bpf_loop()'s 2^23 would leave 37 ns.  All
 * other programs run once, but hold RCU for the whole loop even if they may sleep, and memory that
 * writers retire meanwhile waits for its end.  So they have the same limit, and need another loop
 * to continue.
 */
unsigned int kvt_bpf_iter_max = 1U << 16;
module_param_named(bpf_iter_max, kvt_bpf_iter_max, uint, 0644);
MODULE_PARM_DESC(bpf_iter_max, "maximum records that a BPF iterator returns, at least 1");
KVT_EXPORT_FOR_TESTS(kvt_bpf_iter_max);

/* The content of the program's struct bpf_iter_kvt. */
struct bpf_iter {
	struct kvt_cursor *cursor;	/* NULL: there is none, or none any more */
	union bpf_kvt_rec rec;
	int status;
	u32 left;			/* records that it may still return */
	u64 reserved2[4];
};

static_assert(sizeof(struct bpf_iter) == sizeof(struct bpf_iter_kvt));

static struct bpf_iter *bpf_iter(struct bpf_iter_kvt *it)
{
	return (struct bpf_iter *)it;
}

#define ITER_FLAGS	(BPF_KVT_ALL_COLS | BPF_KVT_AFTER | BPF_KVT_REVERSE |	\
			 BPF_KVT_PREFIX | BPF_KVT_RANGE | BPF_KVT_END_INCL |	\
			 BPF_KVT_LAST)

/* The bounds of a range. */
struct iter_range {
	const u8 *key;
	u32 key_len;
	const u8 *end;
	u32 end_len;
	enum kvt_bound bound;
	bool reverse;
};

static int iter_check_flags(u32 flags)
{
	if ((flags & BPF_KVT_PREFIX) && (flags & (BPF_KVT_RANGE | BPF_KVT_LAST)))
		return -EINVAL;
	if ((flags & BPF_KVT_END_INCL) && !(flags & BPF_KVT_RANGE))
		return -EINVAL;
	/* In reverse, a prefix names no first key to skip. */
	if ((flags & BPF_KVT_AFTER) && (flags & BPF_KVT_PREFIX) && (flags & BPF_KVT_REVERSE))
		return -EINVAL;
	if ((flags & BPF_KVT_LAST) && (!(flags & BPF_KVT_REVERSE) || flags & BPF_KVT_AFTER))
		return -EINVAL;
	return 0;
}

static int iter_range(struct iter_range *range, const struct kvt_bpf_ask *ask)
{
	u32 flags = ask->flags;
	int err = iter_check_flags(flags);

	if (err)
		return err;
	*range = (struct iter_range) {
		.key = ask->key,
		.key_len = ask->key_len,
		.reverse = flags & BPF_KVT_REVERSE,
		.bound = flags & BPF_KVT_AFTER ? KVT_AFTER : KVT_AT,
	};
	if (flags & BPF_KVT_RANGE) {
		range->end = ask->key + ask->key_len;
		range->end_len = READ_ONCE(ask->req->end_len);
		if (range->end_len > ask->room - ask->key_len)
			return -EINVAL;
	} else if (flags & BPF_KVT_PREFIX) {
		range->end = ask->key;
		range->end_len = ask->key_len;
		if (range->reverse)
			range->bound = KVT_PAST;
	}
	if (flags & BPF_KVT_LAST) {
		if (range->key_len)
			return -EINVAL;
		range->bound = KVT_PAST;
	}
	if (range->key_len > KVTREE_KEY_MAX || range->end_len > BPF_KVT_KEY_MAX)
		return -E2BIG;
	return 0;
}

/* Whether the cursor's key is in the range. */
static bool iter_in_range(const struct kvt_cursor *cursor)
{
	const struct kvt_iter *iter = &cursor->iter;
	u32 end_len = cursor->end_len;
	int cmp;

	if (!(cursor->flags & (BPF_KVT_PREFIX | BPF_KVT_RANGE)))
		return true;
	if (cursor->flags & BPF_KVT_PREFIX)
		return iter->len >= end_len && !memcmp(iter->key, cursor->end, end_len);
	cmp = kvt_iter_cmp(iter, cursor->end, end_len);
	if (!cmp)
		return cursor->flags & BPF_KVT_END_INCL;
	return iter->reverse ? cmp > 0 : cmp < 0;
}

static int iter_open(struct bpf_iter *s, const struct bpf_kvt_store *addr, void *req, u32 size)
{
	struct kvt_cursor *cursor;
	struct kvt_bpf_ask ask;
	struct iter_range range;
	struct kvt_store *store;
	int err;

	err = kvt_bpf_ask(&ask, req, size, ITER_FLAGS);
	if (!err)
		err = kvt_bpf_find(addr, KVTREE_OPEN_READ, &store);
	if (err)
		return err;
	kvt_stat_inc(&store->stats, KVTREE_STAT_BPF);
	kvt_stat_inc(&store->stats, KVTREE_STAT_SCAN);
	err = iter_range(&range, &ask);
	if (err)
		return err;
	cursor = kvt_cursor_get(store);
	if (!cursor) {
		kvt_stat_inc(&store->stats, KVTREE_STAT_BPF_BUSY);
		return -EBUSY;
	}
	cursor->store = store;
	cursor->value = NULL;
	cursor->flags = ask.flags;
	cursor->col = ask.col;
	cursor->end_len = range.end_len;
	memcpy(cursor->end, range.end, range.end_len);
	kvt_cursor_seek(cursor, store->index, range.key, range.key_len, range.bound,
			range.reverse);
	s->cursor = cursor;
	s->left = max(READ_ONCE(kvt_bpf_iter_max), 1U);
	return 0;
}

/* Returns 1 if the cursor has a record to return; otherwise the status to end with. */
static int iter_judge(struct bpf_iter *s, const struct kvt_value *v)
{
	if (IS_ERR_OR_NULL(v))
		return PTR_ERR_OR_ZERO(v);
	if (!iter_in_range(s->cursor))
		return 0;
	if (!s->left)
		return -ELOOP;
	s->left--;
	return 1;
}

/* End the iteration, because of @status or at the end of the range. */
static const union bpf_kvt_rec *iter_end(struct bpf_iter *s, int status)
{
	struct kvt_cursor *cursor = s->cursor;

	if (status == -EBUSY)
		kvt_stat_inc(&cursor->store->stats, KVTREE_STAT_BPF_BUSY);
	s->status = status;
	s->cursor = NULL;
	kvt_cursor_put(cursor);
	return NULL;
}

__bpf_kfunc_start_defs();

/**
 * bpf_iter_kvt_new() - begin to iterate over a range
 * @it: the iterator
 * @store__str: the store
 * @req: flags and column, and the first key, or the prefix; with BPF_KVT_RANGE followed
 *	by the end
 * @req__sz: bytes of it
 *
 * Context: any, including NMI; under RCU.
 *
 * Return: 0 or an errno, see kvtree.bpf.h.
 */
__bpf_kfunc int bpf_iter_kvt_new(struct bpf_iter_kvt *it,
				 const struct bpf_kvt_store *store__str, void *req, u32 req__sz)
{
	struct bpf_iter *s = bpf_iter(it);

	memset(s, 0, sizeof(*s));
	rcu_read_lock();
	s->status = iter_open(s, store__str, req, req__sz);
	rcu_read_unlock();
	return s->status;
}
KVT_EXPORT_FOR_TESTS(bpf_iter_kvt_new);

/**
 * bpf_iter_kvt_next() - the next record
 * @it: the iterator
 *
 * Does a bounded amount of work, and succeeds a bounded number of times: with more than
 * bpf_iter_max records in the range the iteration ends with -ELOOP.
 *
 * Context: any, including NMI; under the RCU of bpf_iter_kvt_new().
 *
 * Return: the record, or NULL: see bpf_iter_kvt_status().
 */
__bpf_kfunc const union bpf_kvt_rec *bpf_iter_kvt_next(struct bpf_iter_kvt *it)
{
	struct bpf_iter *s = bpf_iter(it);
	struct kvt_cursor *cursor = s->cursor;
	struct kvt_value *v;
	u16 ncols;
	int ret;

	if (!cursor)
		return NULL;
	/* For lockdep, which does not know every program's kind of RCU. */
	rcu_read_lock();
	v = kvt_cursor_next(cursor);
	ret = iter_judge(s, v);
	if (ret <= 0) {
		iter_end(s, ret);
		rcu_read_unlock();
		return NULL;
	}
	cursor->value = v;
	s->rec.version = v->version;
	s->rec.key_len = cursor->iter.len;
	kvt_bpf_measure(v, cursor->flags, cursor->col, &s->rec.val_len, &ncols);
	kvt_stat_inc(&cursor->store->stats, KVTREE_STAT_SCAN_RECORDS);
	rcu_read_unlock();
	return &s->rec;
}
KVT_EXPORT_FOR_TESTS(bpf_iter_kvt_next);

/**
 * bpf_iter_kvt_destroy() - end an iterator
 * @it: from bpf_iter_kvt_new(), whatever that returned
 *
 * Context: any, including NMI.
 */
__bpf_kfunc void bpf_iter_kvt_destroy(struct bpf_iter_kvt *it)
{
	struct bpf_iter *s = bpf_iter(it);

	if (s->cursor)
		kvt_cursor_put(s->cursor);
	s->cursor = NULL;
}
KVT_EXPORT_FOR_TESTS(bpf_iter_kvt_destroy);

/**
 * bpf_iter_kvt_status() - why there is nothing more
 * @it__iter: the iterator
 *
 * Context: any, including NMI.
 *
 * Return: 0: the range has ended, or the iteration has not; an errno of
 * bpf_iter_kvt_new(); -EBUSY; -ELOOP: there is more, but the iterator has returned the
 * maximum number of records.
 */
__bpf_kfunc int bpf_iter_kvt_status(struct bpf_iter_kvt *it__iter)
{
	return bpf_iter(it__iter)->status;
}
KVT_EXPORT_FOR_TESTS(bpf_iter_kvt_status);

/**
 * bpf_kvt_iter_key() - copy the key of an iterator's current record
 * @it__iter: the iterator
 * @key: where it goes
 * @key__sz: room there
 *
 * Context: any, including NMI.
 *
 * Return: bytes, -EMSGSIZE, or -ENOENT: there is no current record.
 */
__bpf_kfunc int bpf_kvt_iter_key(struct bpf_iter_kvt *it__iter, void *key, u32 key__sz)
{
	struct kvt_cursor *cursor = bpf_iter(it__iter)->cursor;

	if (!cursor || !cursor->value)
		return -ENOENT;
	if (cursor->iter.len > key__sz)
		return -EMSGSIZE;
	memcpy(key, cursor->iter.key, cursor->iter.len);
	return cursor->iter.len;
}
KVT_EXPORT_FOR_TESTS(bpf_kvt_iter_key);

/**
 * bpf_kvt_iter_val() - copy the value of an iterator's current record
 * @it__iter: the iterator
 * @val: where it goes
 * @val__sz: room there
 *
 * Context: any, including NMI; under the RCU of bpf_iter_kvt_new().
 *
 * Return: bytes, -EMSGSIZE, or -ENOENT: there is no current record.
 */
__bpf_kfunc int bpf_kvt_iter_val(struct bpf_iter_kvt *it__iter, void *val, u32 val__sz)
{
	struct kvt_cursor *cursor = bpf_iter(it__iter)->cursor;
	u32 len, bytes;
	u16 ncols;

	if (!cursor || !cursor->value)
		return -ENOENT;
	bytes = kvt_bpf_measure(cursor->value, cursor->flags, cursor->col, &len, &ncols);
	if (bytes > val__sz)
		return -EMSGSIZE;
	kvt_bpf_copy(cursor->value, cursor->flags, cursor->col, val);
	return bytes;
}
KVT_EXPORT_FOR_TESTS(bpf_kvt_iter_val);

__bpf_kfunc_end_defs();
