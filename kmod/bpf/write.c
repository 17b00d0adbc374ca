// SPDX-License-Identifier: GPL-2.0
/* Changes made by BPF programs. */
#include <linux/btf.h>
#include <linux/err.h>
#include <linux/hardirq.h>
#include <linux/irqflags.h>
#include <linux/rcupdate.h>
#include <linux/string.h>

#include "base/value.h"
#include "bpf.h"
#include "compat.h"
#include "core/ctx.h"
#include "core/store.h"
#include "core/write.h"

/* Translate to the flags of operations. */
static u16 write_flags(u32 asked)
{
	u16 flags = 0;

	if (asked & BPF_KVT_COL)
		flags |= KVTREE_F_COLS;
	if (asked & BPF_KVT_CREATE)
		flags |= KVTREE_F_CREATE;
	if (asked & BPF_KVT_REPLACE)
		flags |= KVTREE_F_REPLACE;
	if (asked & BPF_KVT_VERSION)
		flags |= KVTREE_F_VERSION;
	if (asked & BPF_KVT_SYNC)
		flags |= KVTREE_F_SYNC;
	return flags;
}

/**
 * kvt_bpf_write_check() - check a program's request for a change
 * @write: the opcode and val_len are set; all but the value and the key's bytes are set here
 * @ask: the request, with flags of KVT_BPF_WRITE_FLAGS
 *
 * Context: any.
 *
 * Return: 0, -EINVAL, -E2BIG or -EOPNOTSUPP.
 */
int kvt_bpf_write_check(struct kvt_bpf_write *write, const struct kvt_bpf_ask *ask)
{
	/* The binding gives the rights.  Programs cannot wait until a change is durable. */
	static const struct kvt_op_ctx program = {
		.access = KVTREE_OPEN_READ | KVTREE_OPEN_WRITE,
	};
	struct kvtree_op *op = &write->op;
	int err;

	if (ask->key_len > BPF_KVT_KEY_MAX || op->val_len > BPF_KVT_VALUE_MAX)
		return -E2BIG;
	op->flags = write_flags(ask->flags);
	op->key_len = ask->key_len;
	op->version = READ_ONCE(ask->req->version);
	if (op->opcode == KVTREE_OP_ADD)
		op->arg = READ_ONCE(ask->req->arg);
	/* A whole value is column 0. */
	if (!(op->flags & KVTREE_F_COLS))
		op->col = ask->col;
	else
		op->ncols = 1;
	err = kvt_op_check(&program, op);
	op->col = ask->col;
	write->key.len = op->key_len;
	return err;
}

/* Load one column, which may be long enough for a blob. */
static int write_load_column(const struct kvt_op_ctx *ctx, const struct kvt_bpf_write *in,
			     struct kvt_write *write)
{
	struct kvt_mem mem = kvt_op_mem(ctx);
	struct kvt_column *col = write->cols;

	*col = (struct kvt_column) {
		.id = in->op.col, .len = in->op.val_len, .data = in->val,
	};
	write->ncols = 1;
	return col->len > KVT_BLOB_MIN && kvt_blob_move(&mem, col) ? -ENOMEM : 0;
}

static int write_load_value(const struct kvt_op_ctx *ctx, const struct kvt_bpf_write *in,
			    struct kvt_write *write)
{
	struct kvt_mem mem = kvt_op_mem(ctx);
	u8 *data;

	write->value = kvt_value_make_whole(&mem, &write->key, in->op.val_len, &data,
					    kvt_write_cell(ctx, write));
	if (!write->value)
		return -ENOMEM;
	memcpy(data, in->val, in->op.val_len);
	return 0;
}

static int write_load(const struct kvt_op_ctx *ctx, const struct kvt_bpf_write *in,
		      struct kvt_write *write)
{
	switch (in->op.opcode) {
	case KVTREE_OP_ADD:
	case KVTREE_OP_REMOVE:
		return 0;
	default:
		if (in->op.flags & KVTREE_F_COLS)
			return write_load_column(ctx, in, write);
		return write_load_value(ctx, in, write);
	}
}

/**
 * kvt_bpf_write_count() - count a change
 * @stats: the store's
 * @opcode: the change's
 * @err: from kvt_bpf_write(), if that is not called again
 *
 * Context: any.
 */
void kvt_bpf_write_count(struct kvt_stats *stats, u8 opcode, int err)
{
	kvt_op_count(stats, opcode, err);
	if (err == -EBUSY)
		kvt_stat_inc(stats, KVTREE_STAT_BPF_BUSY);
}

/**
 * kvt_bpf_write() - make a program's change
 * @ctx: the caller's context
 * @in: what to write, checked; its operation gets its outcome
 *
 * Context: as kvt_write().
 *
 * Return: as kvt_write().
 */
int kvt_bpf_write(const struct kvt_op_ctx *ctx, struct kvt_bpf_write *in)
{
	struct kvt_column col = {};
	struct kvt_write write = { .op = &in->op, .key = in->key, .cols = &col };
	int err;

	err = write_load(ctx, in, &write) ?: kvt_write(ctx, &write);
	/* Free what the store has not taken over. */
	if (write.value)
		kvt_value_free(write.value);
	if (col.blob)
		kvt_blob_put(col.blob);
	return err;
}
KVT_EXPORT_FOR_TESTS(kvt_bpf_write);

/*
 * Programs that may change stores do not run in hard interrupts, but they may run with
 * interrupts off: netconsole sends like that.
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

static int bpf_write(const struct bpf_kvt_store *store, enum kvtree_opcode opcode, void *req,
		     u32 size, const void *val, u32 val_len)
{
	struct kvt_bpf_write write = {
		.op = { .opcode = opcode, .val_len = val_len },
		.val = val,
	};
	struct kvt_op_ctx ctx = { .gfp = KVT_GFP_NOWAIT, .access = kvt_op_access(opcode) };
	struct kvt_bpf_ask ask;
	/* The index compares and stores the key at different times, so copy it. */
	u8 copy[BPF_KVT_KEY_MAX];
	int err;

	err = kvt_bpf_ask(&ask, req, size, KVT_BPF_WRITE_FLAGS) ?:
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
	err = kvt_bpf_write(&ctx, &write);
	kvt_bpf_write_count(&ctx.store->stats, opcode, err);
	kvt_stat_inc(&ctx.store->stats, KVTREE_STAT_BPF);
	kvt_store_leave(ctx.store);
	ask.req->version = write.op.version;
	if (opcode == KVTREE_OP_ADD)
		ask.req->arg = write.op.arg;
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
	return bpf_write(store__str, KVTREE_OP_PUT, req, req__sz, val, val__sz);
}
KVT_EXPORT_FOR_TESTS(bpf_kvt_put);

/**
 * bpf_kvt_cas() - store a value if the key has an expected version
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
	return bpf_write(store__str, KVTREE_OP_CAS, req, req__sz, val, val__sz);
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
	return bpf_write(store__str, KVTREE_OP_ADD, req, req__sz, NULL, 0);
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
	return bpf_write(store__str, KVTREE_OP_REMOVE, req, req__sz, NULL, 0);
}
KVT_EXPORT_FOR_TESTS(bpf_kvt_remove);

__bpf_kfunc_end_defs();
