/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What BPF programs call.
 *
 * Programs run anywhere: in process context, in soft and hard interrupts, in
 * NMIs, and, by kprobes, within this module, on top of a writer that holds nodes.
 * Reading needs RCU only, comes to an end by itself (-EBUSY), and takes what it
 * may need from pools.  Changes are made by programs that never run on top of a
 * writer, and do not sleep; all others post theirs.
 *
 * What a program passes is memory that others may change meanwhile: it is read
 * once, or nothing depends on reading the same again.
 *
 * The kfuncs are described in kvtree.bpf.h.
 */
#ifndef KVT_BPF_H
#define KVT_BPF_H

#include <linux/compiler.h>
#include <linux/errno.h>
#include <linux/types.h>
#include <kvtree.bpf.h>

#include "handle.h"
#include "index.h"

struct kvt_late_posts;
struct kvt_stats;
struct kvt_store;
struct kvt_value;

/**
 * kvt_bpf_ref_check() - read what a program asks for
 * @ref: the program's
 * @allowed: flags that it may have
 * @flags: set
 * @col: set
 *
 * Context: any.
 *
 * Return: 0 or -EINVAL.
 */
static inline int kvt_bpf_ref_check(const struct bpf_kvt_ref *ref, u32 allowed, u32 *flags,
				    u16 *col)
{
	*flags = READ_ONCE(ref->flags);
	*col = READ_ONCE(ref->col);
	if (unlikely(*flags & ~allowed || *col >= KVTREE_COLS_MAX || READ_ONCE(ref->reserved)))
		return -EINVAL;
	return 0;
}

/**
 * kvt_bpf_find() - the store that a program names
 * @id: the handle
 * @access: KVTREE_OPEN_*, what it must allow
 * @store: set
 *
 * Context: under rcu_read_lock(), until whose end the store stays; any context.
 *
 * Return: 0, -ESTALE or -EACCES.
 */
static inline int kvt_bpf_find(u64 id, unsigned int access, struct kvt_store **store)
{
	const struct kvt_handle *handle = kvt_handle_find(id);

	if (unlikely(!handle))
		return -ESTALE;
	if (unlikely(access & ~handle->access))
		return -EACCES;
	*store = handle->store;
	return 0;
}

int kvt_bpf_enter(u64 id, unsigned int access, struct kvt_store **store);
int kvt_bpf_measure(const struct kvt_value *v, u32 flags, u16 col, u32 *len, u16 *ncols);
void kvt_bpf_copy(const struct kvt_value *v, u32 flags, u16 col, u8 *to);

/* The change that a program wants. */
enum kvt_bpf_change {
	KVT_BPF_PUT,
	KVT_BPF_CAS,
	KVT_BPF_ADD,
	KVT_BPF_REMOVE,
	KVT_BPF_CHANGES
};

struct kvt_bpf_write {
	enum kvt_bpf_change change;
	struct kvt_key key;	/* in memory that does not change */
	const void *val;
	u32 val_len;
	u32 flags;		/* checked */
	u16 col;
	u64 version;		/* in and out */
	u64 arg;		/* in and out */
};

struct kvt_op_ctx;

int kvt_bpf_write_check(struct kvt_bpf_write *write, const struct bpf_kvt_ref *ref);
int kvt_bpf_write(const struct kvt_op_ctx *ctx, struct kvt_bpf_write *write);
void kvt_bpf_write_count(struct kvt_stats *stats, enum kvt_bpf_change change, int err);
unsigned int kvt_bpf_write_access(enum kvt_bpf_change change);

int kvt_posts_prepare(void);
void kvt_posts_flush(void);
void kvt_posts_exit(void);
void kvt_late_posts_init(struct kvt_late_posts *late);
void kvt_late_posts_exit(struct kvt_late_posts *late);

int kvt_bpf_init(void);
bool kvt_bpf_offered(void);
int kvt_bpf_prepare(void);
void kvt_bpf_exit(void);

#ifdef CONFIG_BPF_JIT
int kvt_bpf_hook_init(void);
#else
static inline int kvt_bpf_hook_init(void)
{
	return -EOPNOTSUPP;
}
#endif

/* The kfuncs. */
int bpf_kvt_get(struct bpf_kvt_ref *ref, void *key, u32 key__sz, void *val, u32 val__sz);
int bpf_kvt_exists(struct bpf_kvt_ref *ref, void *key, u32 key__sz);
int bpf_kvt_ceil(struct bpf_kvt_ref *ref, void *key, u32 key__sz, void *val, u32 val__sz);
int bpf_kvt_floor(struct bpf_kvt_ref *ref, void *key, u32 key__sz, void *val, u32 val__sz);
int bpf_kvt_lpm(struct bpf_kvt_ref *ref, void *key, u32 key__sz, void *val, u32 val__sz);

int bpf_iter_kvt_new(struct bpf_iter_kvt *it, struct bpf_kvt_ref *ref, void *key, u32 key__sz);
const union bpf_kvt_rec *bpf_iter_kvt_next(struct bpf_iter_kvt *it);
void bpf_iter_kvt_destroy(struct bpf_iter_kvt *it);
int bpf_iter_kvt_status(struct bpf_iter_kvt *it__iter);
int bpf_kvt_iter_key(struct bpf_iter_kvt *it__iter, void *key, u32 key__sz);
int bpf_kvt_iter_val(struct bpf_iter_kvt *it__iter, void *val, u32 val__sz);

int bpf_kvt_put(struct bpf_kvt_ref *ref, void *key, u32 key__sz, void *val, u32 val__sz);
int bpf_kvt_cas(struct bpf_kvt_ref *ref, void *key, u32 key__sz, void *val, u32 val__sz);
int bpf_kvt_add(struct bpf_kvt_ref *ref, void *key, u32 key__sz);
int bpf_kvt_remove(struct bpf_kvt_ref *ref, void *key, u32 key__sz);
int bpf_kvt_post(struct bpf_kvt_ref *ref, void *key, u32 key__sz, void *val, u32 val__sz);

int bpf_kvt_record_key(const struct bpf_kvt_record *rec, u32 off, void *buf, u32 buf__sz);
int bpf_kvt_record_column(const struct bpf_kvt_record *rec, u32 col, u32 off, void *buf,
			  u32 buf__sz);
int bpf_kvt_record_column_len(const struct bpf_kvt_record *rec, u32 col);

#endif /* KVT_BPF_H */
