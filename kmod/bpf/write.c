// SPDX-License-Identifier: GPL-2.0
/* Changes that BPF programs make. */
#include <linux/btf.h>
#include <linux/err.h>
#include <linux/hardirq.h>
#include <linux/irqflags.h>
#include <linux/rcupdate.h>
#include <linux/string.h>

#include "bpf.h"
#include "compat.h"
#include "core/ctx.h"
#include "core/store.h"
#include "core/value.h"
#include "core/write.h"

static const struct {
	u32 flags;
	unsigned int access;
	enum kvtree_stat stat;
} write_rules[KVT_BPF_WRITE_KINDS] = {
	[KVT_BPF_PUT] = {
		.flags = BPF_KVT_COL | BPF_KVT_CREATE | BPF_KVT_REPLACE,
		.access = KVTREE_OPEN_WRITE,
		.stat = KVTREE_STAT_PUT,
	},
	[KVT_BPF_CAS] = {
		.flags = BPF_KVT_COL,
		.access = KVTREE_OPEN_WRITE,
		.stat = KVTREE_STAT_CAS,
	},
	[KVT_BPF_ADD] = {
		.flags = BPF_KVT_REPLACE,
		/* It returns the number before. */
		.access = KVTREE_OPEN_READ | KVTREE_OPEN_WRITE,
		.stat = KVTREE_STAT_ADD,
	},
	[KVT_BPF_REMOVE] = {
		.flags = BPF_KVT_VERSION,
		.access = KVTREE_OPEN_WRITE,
		.stat = KVTREE_STAT_REMOVE,
	},
};

/**
 * kvt_bpf_write_access() - access that a kind of write needs
 * @kind: which
 *
 * Return: KVTREE_OPEN_*.
 */
unsigned int kvt_bpf_write_access(enum kvt_bpf_write_kind kind)
{
	return write_rules[kind].access;
}

/**
 * kvt_bpf_write_flags() - flags that a kind of write may have
 * @kind: which
 *
 * Return: BPF_KVT_*.
 */
u32 kvt_bpf_write_flags(enum kvt_bpf_write_kind kind)
{
	return write_rules[kind].flags | BPF_KVT_SYNC;
}

/**
 * kvt_bpf_write_check() - check what a program asks for
 * @write: its kind and val_len are set; all but the value and the key's bytes are
 *	set here
 * @ask: what the program asks for; of its flags, those of its kind count
 *
 * Context: any.
 *
 * Return: 0, -EINVAL, -E2BIG or -EOPNOTSUPP.
 */
int kvt_bpf_write_check(struct kvt_bpf_write *write, const struct kvt_bpf_ask *ask)
{
	write->flags = ask->flags;
	write->col = ask->col;
	write->key.len = ask->key_len;
	if (write->flags & ~kvt_bpf_write_flags(write->kind))
		return -EINVAL;
	if ((write->flags & BPF_KVT_CREATE) && (write->flags & BPF_KVT_REPLACE))
		return -EINVAL;
	/* A whole value is column 0. */
	if (write->kind != KVT_BPF_ADD && write->col && !(write->flags & BPF_KVT_COL))
		return -EINVAL;
	if (write->key.len > BPF_KVT_KEY_MAX || write->val_len > BPF_KVT_VALUE_MAX)
		return -E2BIG;
	write->version = READ_ONCE(ask->req->version);
	write->arg = READ_ONCE(ask->req->arg);
	/* Programs cannot wait until a write is durable. */
	return write->flags & BPF_KVT_SYNC ? -EOPNOTSUPP : 0;
}

static unsigned int write_conditions(const struct kvt_bpf_write *write)
{
	unsigned int when = 0;

	if (write->kind == KVT_BPF_CAS || write->flags & BPF_KVT_VERSION)
		when |= KVT_WHEN_VERSION;
	if (write->flags & BPF_KVT_CREATE)
		when |= KVT_WHEN_NOT_THERE;
	if (write->flags & BPF_KVT_REPLACE || write->kind == KVT_BPF_REMOVE)
		when |= KVT_WHEN_THERE;
	return when;
}

/* A put of one column, which may be long enough for a block of its own. */
static int write_column(const struct kvt_op_ctx *ctx, const struct kvt_bpf_write *in,
			struct kvt_write *write, struct kvt_column *col)
{
	struct kvt_mem mem = kvt_op_mem(ctx);
	int err;

	*col = (struct kvt_column) { .id = in->col, .len = in->val_len, .data = in->val };
	write->kind = KVT_WRITE_COLS;
	write->cols = col;
	write->ncols = 1;
	if (col->len > KVT_BLOB_MIN && kvt_blob_move(&mem, col))
		return -ENOMEM;
	err = kvt_write(ctx, write);
	/* Free what the store has not taken over. */
	if (col->blob)
		kvt_blob_put(col->blob);
	return err;
}

static int write_value(const struct kvt_op_ctx *ctx, const struct kvt_bpf_write *in,
		       struct kvt_write *write)
{
	struct kvt_mem mem = kvt_op_mem(ctx);
	u8 *data;
	int err;

	write->kind = KVT_WRITE_VALUE;
	write->value = kvt_value_alloc_whole(&mem, &write->key, in->val_len, &data);
	if (!write->value)
		return -ENOMEM;
	memcpy(data, in->val, in->val_len);
	err = kvt_write(ctx, write);
	if (err)
		kvt_value_free(write->value);
	return err;
}

static int write_run(const struct kvt_op_ctx *ctx, const struct kvt_bpf_write *in,
		     struct kvt_write *write)
{
	struct kvt_column col;

	switch (in->kind) {
	case KVT_BPF_ADD:
		write->kind = KVT_WRITE_ADD;
		write->col = in->col;
		write->addend = in->arg;
		return kvt_write(ctx, write);
	case KVT_BPF_REMOVE:
		write->kind = KVT_WRITE_REMOVE;
		return kvt_write(ctx, write);
	default:
		if (in->flags & BPF_KVT_COL)
			return write_column(ctx, in, write, &col);
		return write_value(ctx, in, write);
	}
}

/**
 * kvt_bpf_write_count() - count a write
 * @stats: the store's
 * @kind: its kind
 * @err: from kvt_bpf_write(), if that is not called again
 *
 * Context: any.
 */
void kvt_bpf_write_count(struct kvt_stats *stats, enum kvt_bpf_write_kind kind, int err)
{
	kvt_stat_inc(stats, kvt_op_is_answer(err) ? write_rules[kind].stat :
						    KVTREE_STAT_ERROR);
	if (err == -ECANCELED && kind == KVT_BPF_CAS)
		kvt_stat_inc(stats, KVTREE_STAT_CAS_FAIL);
	else if (err == -EBUSY)
		kvt_stat_inc(stats, KVTREE_STAT_BPF_BUSY);
}

/**
 * kvt_bpf_write() - write what a program asked for
 * @ctx: on whose behalf
 * @in: what to write, checked; out: version and arg, if it found them out
 *
 * Context: as kvt_write().
 *
 * Return: as kvt_write().
 */
int kvt_bpf_write(const struct kvt_op_ctx *ctx, struct kvt_bpf_write *in)
{
	struct kvt_write write = {
		.key = in->key,
		.when = write_conditions(in),
		.expect = in->version,
	};
	int err;

	err = write_run(ctx, in, &write);
	if (kvt_op_is_answer(err))
		in->version = write.version;
	if (!err && in->kind == KVT_BPF_ADD)
		in->arg = write.before;
	return err;
}
KVT_EXPORT_FOR_TESTS(kvt_bpf_write);

/*
 * Programs that may change stores do not run in hard interrupts, but an interrupt
 * may be made to look like that: netconsole sends with interrupts off.
 */
static bool may_write_here(void)
{
	return !in_hardirq() && !in_nmi() && !irqs_disabled();
}

/* Find the store by a program's pointer, and enter it. */
static int write_enter(const struct bpf_kvt_store *addr, struct kvt_op_ctx *ctx)
{
	int err;

	rcu_read_lock();
	err = kvt_bpf_find(addr, ctx->access, &ctx->store);
	if (!err && !kvt_store_enter(ctx->store))
		err = -ESTALE;
	rcu_read_unlock();
	return err;
}

static int bpf_write(const struct bpf_kvt_store *store, enum kvt_bpf_write_kind kind, void *req,
		     u32 size, const void *val, u32 val_len)
{
	struct kvt_bpf_write write = { .kind = kind, .val = val, .val_len = val_len };
	struct kvt_op_ctx ctx = {
		.gfp = KVT_GFP_NOWAIT,
		.access = kvt_bpf_write_access(kind),
	};
	struct kvt_bpf_ask ask;
	/* The index compares and stores the key at different times, so copy it. */
	u8 copy[BPF_KVT_KEY_MAX];
	int err;

	err = kvt_bpf_ask(&ask, req, size, kvt_bpf_write_flags(kind)) ?:
	      kvt_bpf_write_check(&write, &ask);
	if (err)
		return err;
	if (!may_write_here())
		return -EOPNOTSUPP;
	err = write_enter(store, &ctx);
	if (err)
		return err;
	memcpy(copy, ask.key, ask.key_len);
	write.key.data = copy;
	err = kvt_write_admit(&ctx) ?: kvt_bpf_write(&ctx, &write);
	kvt_bpf_write_count(&ctx.store->stats, kind, err);
	kvt_stat_inc(&ctx.store->stats, KVTREE_STAT_BPF);
	kvt_store_leave(ctx.store);
	ask.req->version = write.version;
	ask.req->arg = write.arg;
	return err;
}

__bpf_kfunc_start_defs();

/**
 * bpf_kvt_put() - store a value
 * @store__str: the store
 * @req: flags and column; out: version; and the key
 * @req__sz: bytes of it
 * @val: the value
 * @val__sz: bytes of it
 *
 * Context: process context or soft interrupt; never sleeps.
 *
 * Return: 0 or an errno, see kvtree.bpf.h.
 */
__bpf_kfunc int bpf_kvt_put(const struct bpf_kvt_store *store__str, void *req, u32 req__sz,
			    void *val, u32 val__sz)
{
	return bpf_write(store__str, KVT_BPF_PUT, req, req__sz, val, val__sz);
}
KVT_EXPORT_FOR_TESTS(bpf_kvt_put);

/**
 * bpf_kvt_cas() - store a value if nobody has changed it
 * @store__str: the store
 * @req: flags, column and the version expected; out: version; and the key
 * @req__sz: bytes of it
 * @val: the value
 * @val__sz: bytes of it
 *
 * Context: process context or soft interrupt; never sleeps.
 *
 * Return: 0 or an errno, see kvtree.bpf.h.
 */
__bpf_kfunc int bpf_kvt_cas(const struct bpf_kvt_store *store__str, void *req, u32 req__sz,
			    void *val, u32 val__sz)
{
	return bpf_write(store__str, KVT_BPF_CAS, req, req__sz, val, val__sz);
}
KVT_EXPORT_FOR_TESTS(bpf_kvt_cas);

/**
 * bpf_kvt_add() - add to a number
 * @store__str: the store
 * @req: flags, column and arg; out: version, and arg as it was before; and the key
 * @req__sz: bytes of it
 *
 * Context: process context or soft interrupt; never sleeps.
 *
 * Return: 0 or an errno, see kvtree.bpf.h.
 */
__bpf_kfunc int bpf_kvt_add(const struct bpf_kvt_store *store__str, void *req, u32 req__sz)
{
	return bpf_write(store__str, KVT_BPF_ADD, req, req__sz, NULL, 0);
}
KVT_EXPORT_FOR_TESTS(bpf_kvt_add);

/**
 * bpf_kvt_remove() - remove a key
 * @store__str: the store
 * @req: flags, with BPF_KVT_VERSION the version; out: version; and the key
 * @req__sz: bytes of it
 *
 * Context: process context or soft interrupt; never sleeps.
 *
 * Return: 0 or an errno, see kvtree.bpf.h.
 */
__bpf_kfunc int bpf_kvt_remove(const struct bpf_kvt_store *store__str, void *req, u32 req__sz)
{
	return bpf_write(store__str, KVT_BPF_REMOVE, req, req__sz, NULL, 0);
}
KVT_EXPORT_FOR_TESTS(bpf_kvt_remove);

__bpf_kfunc_end_defs();
