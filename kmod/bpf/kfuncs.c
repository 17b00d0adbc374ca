// SPDX-License-Identifier: GPL-2.0
/* Lookups by BPF programs, and the registration of all kfuncs. */
#include <linux/bpf.h>
#include <linux/btf.h>
#include <linux/btf_ids.h>
#include <linux/err.h>
#include <linux/filter.h>
#include <linux/minmax.h>
#include <linux/module.h>
#include <linux/rcupdate.h>
#include <linux/string.h>

#include "base/value.h"
#include "bpf.h"
#include "compat.h"
#include "core/binding.h"
#include "core/store.h"
#include "core/stores.h"
#include "cursor.h"

static_assert(sizeof(struct bpf_kvt_req) == 48);
static_assert(sizeof(struct bpf_kvt_col) == sizeof(struct kvtree_col));
static_assert(BPF_KVT_ABSENT == KVTREE_COL_ABSENT);

static bool bpf_offered __ro_after_init;

/**
 * kvt_bpf_measure() - tell how many bytes of a value a call copies
 * @v: the value
 * @flags: BPF_KVT_ALL_COLS
 * @col: without it, which column
 * @len: set to the bytes, or BPF_KVT_ABSENT
 * @ncols: set to the number of columns, if all are wanted
 *
 * Context: any; as long as @v is valid.
 *
 * Return: bytes to copy.
 */
int kvt_bpf_measure(const struct kvt_value *v, u32 flags, u16 col, u32 *len, u16 *ncols)
{
	struct kvt_column column;
	unsigned int i, n;

	if (!(flags & BPF_KVT_ALL_COLS)) {
		*len = kvt_value_find(v, col, &column) ? column.len : BPF_KVT_ABSENT;
		return *len == BPF_KVT_ABSENT ? 0 : *len;
	}
	n = kvt_value_ncols(v);
	*ncols = n;
	*len = n * sizeof(struct bpf_kvt_col);
	for (i = 0; i < n; i++) {
		kvt_value_column(v, i, &column);
		*len += column.len;
	}
	return *len;
}

/**
 * kvt_bpf_copy() - copy what kvt_bpf_measure() measured
 * @v: the value
 * @flags: BPF_KVT_ALL_COLS
 * @col: without it, which column
 * @to: room for it
 *
 * Context: any; as long as @v is valid.
 */
void kvt_bpf_copy(const struct kvt_value *v, u32 flags, u16 col, u8 *to)
{
	struct kvt_column column;
	struct bpf_kvt_col desc;
	unsigned int i, n;
	u8 *data;

	if (!(flags & BPF_KVT_ALL_COLS)) {
		if (kvt_value_find(v, col, &column))
			memcpy(to, column.data, column.len);
		return;
	}
	n = kvt_value_ncols(v);
	data = to + n * sizeof(desc);
	for (i = 0; i < n; i++) {
		kvt_value_column(v, i, &column);
		desc = (struct bpf_kvt_col) { .id = column.id, .len = column.len };
		memcpy(to + i * sizeof(desc), &desc, sizeof(desc));
		memcpy(data, column.data, column.len);
		data += column.len;
	}
}

/* A lookup in progress. */
struct lookup {
	struct kvt_bpf_ask ask;
	struct kvt_store *store;
	void *val;
	u32 room;
};

static __always_inline int lookup_begin(struct lookup *l, const struct bpf_kvt_store *store,
					void *req, u32 size, u32 allowed)
{
	int err;

	err = kvt_bpf_ask(&l->ask, req, size, allowed);
	if (likely(!err))
		err = kvt_bpf_find(store, KVTREE_OPEN_READ, &l->store);
	return err;
}

/* The key was found: set its version and sizes.  Returns the bytes to copy, or -EMSGSIZE. */
static int lookup_measure(struct lookup *l, const struct kvt_value *v)
{
	struct bpf_kvt_req *req = l->ask.req;
	u32 len, bytes;
	u16 ncols;

	bytes = kvt_bpf_measure(v, l->ask.flags, l->ask.col, &len, &ncols);
	req->version = v->version;
	req->val_len = len;
	if (l->ask.flags & BPF_KVT_ALL_COLS)
		req->ncols = ncols;
	return bytes > l->room ? -EMSGSIZE : bytes;
}

static __always_inline int lookup_count(const struct lookup *l, int ret)
{
	struct kvt_stats *stats = &l->store->stats;

	kvt_stat_inc(stats, KVTREE_STAT_BPF);
	kvt_stat_get(stats, ret);
	if (ret == -EBUSY)
		kvt_stat_inc(stats, KVTREE_STAT_BPF_BUSY);
	return ret;
}

static noinline int lookup_take_cols(struct lookup *l, const struct kvt_value *v)
{
	int ret = lookup_measure(l, v);

	if (ret > 0)
		kvt_bpf_copy(v, l->ask.flags, l->ask.col, l->val);
	return ret;
}

/* Fast path: the value is one column, and the call asks for it. */
static __always_inline int lookup_take(struct lookup *l, const struct kvt_value *v)
{
	const u8 *data;
	u32 len;

	if (unlikely(!kvt_value_plain(v) || l->ask.flags || l->ask.col))
		return lookup_take_cols(l, v);
	data = kvt_value_plain_data(v, &len);
	l->ask.req->version = v->version;
	l->ask.req->val_len = len;
	if (unlikely(len > l->room))
		return -EMSGSIZE;
	memcpy(l->val, data, len);
	return len;
}

static __always_inline int lookup_get(struct lookup *l)
{
	const struct kvt_key key = { .data = l->ask.key, .len = l->ask.key_len };
	struct kvt_cell cell;
	struct kvt_value *v;

	if (unlikely(key.len > KVTREE_KEY_MAX))
		return -E2BIG;
	v = kvt_index_get(l->store->index, &key, &cell);
	if (IS_ERR_OR_NULL(v))
		return v ? PTR_ERR(v) : -ENOENT;
	return lookup_take(l, v);
}

/* Find a key's version. */
static int lookup_exists(struct lookup *l)
{
	const struct kvt_key key = { .data = l->ask.key, .len = l->ask.key_len };
	struct kvt_cell cell;
	struct kvt_value *v;

	if (key.len > KVTREE_KEY_MAX)
		return -E2BIG;
	v = kvt_index_get(l->store->index, &key, &cell);
	if (IS_ERR_OR_NULL(v))
		return v ? PTR_ERR(v) : -ENOENT;
	l->ask.req->version = v->version;
	return 0;
}

/*
 * Replace the key asked for by the one found, and copy its value.  If either does not fit,
 * copy nothing.
 */
static int lookup_answer(struct lookup *l, const struct kvt_cursor *cursor,
			 const struct kvt_value *v)
{
	const struct kvt_iter *iter = &cursor->iter;
	int ret;

	ret = lookup_measure(l, v);
	l->ask.req->key_len = iter->len;
	if (ret < 0 || iter->len > l->ask.room)
		return -EMSGSIZE;
	memcpy(l->ask.key, iter->key, iter->len);
	kvt_bpf_copy(v, l->ask.flags, l->ask.col, l->val);
	return ret;
}

/* The first key that is not smaller, or the last that is not greater. */
static int lookup_nearest(struct lookup *l, struct kvt_cursor *cursor, bool reverse)
{
	enum kvt_bound bound = l->ask.flags & BPF_KVT_AFTER ? KVT_AFTER : KVT_AT;
	struct kvt_value *v;

	kvt_cursor_seek(cursor, l->store->index, l->ask.key, l->ask.key_len, bound, reverse);
	v = kvt_cursor_next(cursor);
	if (IS_ERR_OR_NULL(v))
		return v ? PTR_ERR(v) : -ENOENT;
	return lookup_answer(l, cursor, v);
}

static int lookup_near(struct lookup *l, bool reverse)
{
	struct kvt_cursor *cursor;
	int ret;

	if (l->ask.key_len > KVTREE_KEY_MAX)
		return -E2BIG;
	cursor = kvt_cursor_get(l->store);
	if (!cursor)
		return -EBUSY;
	ret = lookup_nearest(l, cursor, reverse);
	kvt_cursor_put(cursor);
	return ret;
}

static int bpf_near(struct lookup *l, const struct bpf_kvt_store *store, void *req, u32 size,
		    bool reverse)
{
	int ret;

	rcu_read_lock();
	ret = lookup_begin(l, store, req, size, BPF_KVT_ALL_COLS | BPF_KVT_AFTER);
	if (!ret)
		ret = lookup_count(l, lookup_near(l, reverse));
	rcu_read_unlock();
	return ret;
}

/* The key found is a prefix of the one asked for, so only the length changes. */
static int lookup_longest(struct lookup *l)
{
	const struct kvt_key key = { .data = l->ask.key, .len = l->ask.key_len };
	struct kvt_cell cell;
	struct kvt_value *v;

	if (key.len > BPF_KVT_KEY_MAX)
		return -E2BIG;
	v = kvt_index_get_prefix(l->store->index, &key, &cell);
	if (IS_ERR_OR_NULL(v))
		return v ? PTR_ERR(v) : -ENOENT;
	l->ask.req->key_len = v->key_len;
	return lookup_take(l, v);
}

__bpf_kfunc_start_defs();

/**
 * bpf_kvt_get() - look a key up
 * @store__str: the store
 * @req: the column; out: version, val_len, ncols; and the key
 * @req__sz: bytes of it
 * @val: where the value goes
 * @val__sz: room there
 *
 * Context: any, including NMI.
 *
 * Return: bytes of the value or an errno, see kvtree.bpf.h.
 */
__bpf_kfunc int bpf_kvt_get(const struct bpf_kvt_store *store__str, void *req, u32 req__sz,
			    void *val, u32 val__sz)
{
	struct lookup l = { .val = val, .room = val__sz };
	int ret;

	rcu_read_lock();
	ret = lookup_begin(&l, store__str, req, req__sz, BPF_KVT_ALL_COLS);
	if (!ret)
		ret = lookup_count(&l, lookup_get(&l));
	rcu_read_unlock();
	return ret;
}
KVT_EXPORT_FOR_TESTS(bpf_kvt_get);

/**
 * bpf_kvt_exists() - whether a key exists
 * @store__str: the store
 * @req: out: version; and the key
 * @req__sz: bytes of it
 *
 * Context: any, including NMI.
 *
 * Return: 0 or an errno, see kvtree.bpf.h.
 */
__bpf_kfunc int bpf_kvt_exists(const struct bpf_kvt_store *store__str, void *req, u32 req__sz)
{
	struct lookup l = {};
	int ret;

	rcu_read_lock();
	ret = lookup_begin(&l, store__str, req, req__sz, 0);
	if (!ret)
		ret = lookup_count(&l, lookup_exists(&l));
	rcu_read_unlock();
	return ret;
}
KVT_EXPORT_FOR_TESTS(bpf_kvt_exists);

/**
 * bpf_kvt_ceil() - the first key that is not smaller than a key
 * @store__str: the store
 * @req: the column; out: version, key_len, val_len, ncols; and the key, which is
 *	replaced by the key found
 * @req__sz: bytes of it, with room for a key
 * @val: where the value goes
 * @val__sz: room there
 *
 * Context: any, including NMI.
 *
 * Return: bytes of the value or an errno, see kvtree.bpf.h.
 */
__bpf_kfunc int bpf_kvt_ceil(const struct bpf_kvt_store *store__str, void *req, u32 req__sz,
			     void *val, u32 val__sz)
{
	struct lookup l = { .val = val, .room = val__sz };

	return bpf_near(&l, store__str, req, req__sz, false);
}
KVT_EXPORT_FOR_TESTS(bpf_kvt_ceil);

/**
 * bpf_kvt_floor() - the last key that is not greater than a key
 * @store__str: the store
 * @req: as for bpf_kvt_ceil()
 * @req__sz: bytes of it, with room for a key
 * @val: where the value goes
 * @val__sz: room there
 *
 * Context: any, including NMI.
 *
 * Return: bytes of the value or an errno, see kvtree.bpf.h.
 */
__bpf_kfunc int bpf_kvt_floor(const struct bpf_kvt_store *store__str, void *req, u32 req__sz,
			      void *val, u32 val__sz)
{
	struct lookup l = { .val = val, .room = val__sz };

	return bpf_near(&l, store__str, req, req__sz, true);
}
KVT_EXPORT_FOR_TESTS(bpf_kvt_floor);

/**
 * bpf_kvt_lpm() - the longest key that a key begins with
 * @store__str: the store
 * @req: as for bpf_kvt_ceil(); at most BPF_KVT_KEY_MAX bytes of key
 * @req__sz: bytes of it
 * @val: where the value goes
 * @val__sz: room there
 *
 * Context: any, including NMI.
 *
 * Return: bytes of the value or an errno, see kvtree.bpf.h.
 */
__bpf_kfunc int bpf_kvt_lpm(const struct bpf_kvt_store *store__str, void *req, u32 req__sz,
			    void *val, u32 val__sz)
{
	struct lookup l = { .val = val, .room = val__sz };
	int ret;

	rcu_read_lock();
	ret = lookup_begin(&l, store__str, req, req__sz, BPF_KVT_ALL_COLS);
	if (!ret)
		ret = lookup_count(&l, lookup_longest(&l));
	rcu_read_unlock();
	return ret;
}
KVT_EXPORT_FOR_TESTS(bpf_kvt_lpm);

__bpf_kfunc_end_defs();

/* For every type of program. */
BTF_KFUNCS_START(bpf_kfuncs_any)
#define KVT_KFUNCS_LOOKUP
#define KVT_KFUNCS_ITER
#define KVT_KFUNCS_POST
#include "kfunc_list.h"
BTF_KFUNCS_END(bpf_kfuncs_any)

/* For program types that may write. */
BTF_KFUNCS_START(bpf_kfuncs_write)
#define KVT_KFUNCS_LOOKUP
#define KVT_KFUNCS_ITER
#define KVT_KFUNCS_POST
#define KVT_KFUNCS_WRITE
#include "kfunc_list.h"
BTF_KFUNCS_END(bpf_kfuncs_write)

/* Kfuncs that write nothing to the program's memory, also for programs with packets of others. */
BTF_KFUNCS_START(bpf_kfuncs_packet)
#define KVT_KFUNCS_POST
#include "kfunc_list.h"
BTF_KFUNCS_END(bpf_kfuncs_packet)

static const struct btf_kfunc_id_set bpf_set_any = {
	.owner = THIS_MODULE,
	.set = &bpf_kfuncs_any,
};

static const struct btf_kfunc_id_set bpf_set_cgroup = {
	.owner = THIS_MODULE,
	.set = &bpf_kfuncs_any,
	.filter = kvt_bpf_refuse_packets,
};

static const struct btf_kfunc_id_set bpf_set_packet = {
	.owner = THIS_MODULE,
	.set = &bpf_kfuncs_packet,
	.filter = kvt_bpf_only_with_packets,
};

static const struct btf_kfunc_id_set bpf_set_write = {
	.owner = THIS_MODULE,
	.set = &bpf_kfuncs_write,
};

/*
 * Program types that get kfuncs.  The kernel lets other types share their sets:
 * TRACEPOINT, PERF_EVENT and LSM share that of TRACING, all cgroup types that of
 * CGROUP_SKB, from 6.15 on with SOCK_OPS.  Registering a set twice is an error.  UNSPEC is
 * for all types, which a filter narrows down.
 */
static const struct {
	enum bpf_prog_type type;
	const struct btf_kfunc_id_set *set;
} bpf_types[] = {
	{ BPF_PROG_TYPE_XDP, &bpf_set_write },
	{ BPF_PROG_TYPE_SCHED_CLS, &bpf_set_write },
	{ BPF_PROG_TYPE_SCHED_ACT, &bpf_set_write },
	{ BPF_PROG_TYPE_SYSCALL, &bpf_set_write },
	{ BPF_PROG_TYPE_TRACING, &bpf_set_any },
	{ BPF_PROG_TYPE_KPROBE, &bpf_set_any },
	{ BPF_PROG_TYPE_CGROUP_SKB, &bpf_set_cgroup },
	{ BPF_PROG_TYPE_UNSPEC, &bpf_set_packet },
};

/* Kfuncs need BTF, and a JIT: the interpreter does not call them. */
static bool bpf_possible(void)
{
#ifdef CONFIG_DEBUG_INFO_BTF_MODULES
	if (!THIS_MODULE->btf_data_size) {
		pr_info("kvtree: the module has no BTF: BPF programs cannot use stores\n");
		return false;
	}
#endif
	return IS_ENABLED(CONFIG_BPF_JIT) && IS_ENABLED(CONFIG_DEBUG_INFO_BTF_MODULES);
}

/**
 * kvt_bpf_init() - register the kfuncs and hooks, if the kernel supports them
 *
 * Context: module init.
 *
 * Return: 0 or an errno.
 */
int __init kvt_bpf_init(void)
{
	unsigned int i;
	int err;

	if (!bpf_possible())
		return 0;
	for (i = 0; i < ARRAY_SIZE(bpf_types); i++) {
		err = register_btf_kfunc_id_set(bpf_types[i].type, bpf_types[i].set);
		if (err)
			return err;
	}
	err = kvt_bpf_hook_init();
	if (err)
		return err;
	bpf_offered = true;
	return 0;
}

/**
 * kvt_bpf_offered() - whether BPF programs can use stores
 *
 * Context: any.
 *
 * Return: true if the running kernel supports it.
 */
bool kvt_bpf_offered(void)
{
	return bpf_offered;
}

/**
 * kvt_bpf_prepare() - allocate the memory that programs need
 *
 * The first store that programs may use triggers this; the memory stays until module exit.
 *
 * Context: process context, sleeps.
 *
 * Return: 0 or -ENOMEM.
 */
int kvt_bpf_prepare(void)
{
	return kvt_cursors_prepare() ?: kvt_posts_prepare();
}
KVT_EXPORT_FOR_TESTS(kvt_bpf_prepare);

const struct kvt_store_bpf kvt_bpf_stores = {
	.offered = kvt_bpf_offered,
	.prepare = kvt_bpf_prepare,
	.late_init = kvt_late_posts_init,
	.late_exit = kvt_late_posts_exit,
};

/**
 * kvt_bpf_exit() - free the memory that kvt_bpf_prepare() allocated
 *
 * Context: module exit: no program is left.  Before the stores are destroyed.
 */
void kvt_bpf_exit(void)
{
	kvt_posts_exit();
	kvt_cursors_exit();
}
