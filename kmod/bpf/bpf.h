/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The kfuncs that BPF programs call.
 *
 * Programs run anywhere: in process context, in soft and hard interrupts, in
 * NMIs, and, by kprobes, within this module, having interrupted a writer that holds
 * nodes.  Reads need RCU only, end after bounded retries (-EBUSY), and take memory
 * from pools.  Only programs that never interrupt a writer make changes, without
 * sleeping; all others post them.
 *
 * The memory that a program passes may change at any time.  Each field is read once, or
 * nothing depends on reading the same value twice.
 *
 * The kfuncs are described in kvtree.bpf.h.
 */
#ifndef KVT_BPF_BPF_H
#define KVT_BPF_BPF_H

#include <linux/compiler.h>
#include <linux/errno.h>
#include <linux/types.h>
#include <linux/kvtree.h>
#include <kvtree.bpf.h>

#include "base/index.h"
#include "core/binding.h"
#include "core/binding_table.h"
#include "core/op.h"

struct bpf_prog;
struct kvt_late_posts;
struct kvt_op_ctx;
struct kvt_stats;
struct kvt_store;
struct kvt_value;

/* A program's request, read once. */
struct kvt_bpf_ask {
	struct bpf_kvt_req *req;	/* the program's, for output */
	u8 *key;			/* in the program's memory: it may change */
	u32 key_len;
	u32 room;			/* bytes of room for a key */
	u32 flags;
	u16 col;
};

/**
 * kvt_bpf_ask() - read a program's request
 * @ask: set
 * @mem: a request of the program, with a key
 * @size: bytes there
 * @allowed: flags that it may have
 *
 * Context: any.
 *
 * Return: 0 or -EINVAL.
 */
static inline int kvt_bpf_ask(struct kvt_bpf_ask *ask, void *mem, u32 size, u32 allowed)
{
	struct bpf_kvt_req *req = mem;

	if (unlikely(size < sizeof(*req)))
		return -EINVAL;
	ask->req = req;
	ask->key = mem + sizeof(*req);
	ask->room = size - sizeof(*req);
	ask->key_len = READ_ONCE(req->key_len);
	ask->flags = READ_ONCE(req->flags);
	ask->col = READ_ONCE(req->col);
	if (unlikely(ask->key_len > ask->room || ask->flags & ~allowed ||
		     ask->col >= KVTREE_COLS_MAX || READ_ONCE(req->reserved) ||
		     READ_ONCE(req->reserved2)))
		return -EINVAL;
	return 0;
}

/**
 * kvt_bpf_find() - find the store by the pointer that a program passed
 * @addr: the pointer
 * @access: KVTREE_OPEN_* that the binding must allow
 * @store: set
 *
 * Context: under rcu_read_lock(), which keeps the store; any context.
 *
 * Return: 0, -ESTALE or -EACCES.
 */
static inline int kvt_bpf_find(const struct bpf_kvt_store *addr, unsigned int access,
			       struct kvt_store **store)
{
	const struct kvt_binding *binding = kvt_binding_table_find(addr);

	if (unlikely(!binding))
		return -ESTALE;
	if (unlikely(access & ~binding->access))
		return -EACCES;
	*store = binding->store;
	return 0;
}

#ifdef CONFIG_BPF_SYSCALL
int kvt_bpf_map_bind(struct kvt_store *store, int fd, unsigned int access);
#else
static inline int kvt_bpf_map_bind(struct kvt_store *store, int fd, unsigned int access)
{
	return -EOPNOTSUPP;
}
#endif

int kvt_bpf_measure(const struct kvt_value *v, u32 flags, u16 col, u32 *len, u16 *ncols);
void kvt_bpf_copy(const struct kvt_value *v, u32 flags, u16 col, u8 *to);

/* A change that a program asks for. */
struct kvt_bpf_write {
	struct kvtree_op op;	/* its pointers are not used */
	struct kvt_key key;	/* in memory that does not change */
	const void *val;
};

/* Flags that a change may have, depending on its opcode. */
#define KVT_BPF_WRITE_FLAGS	(BPF_KVT_COL | BPF_KVT_CREATE | BPF_KVT_REPLACE |	\
				 BPF_KVT_VERSION | BPF_KVT_SYNC)

int kvt_bpf_write_check(struct kvt_bpf_write *write, const struct kvt_bpf_ask *ask);
int kvt_bpf_write(const struct kvt_op_ctx *ctx, struct kvt_bpf_write *write);
void kvt_bpf_write_count(struct kvt_stats *stats, u8 opcode, int err);

int kvt_posts_prepare(void);
void kvt_posts_flush(void);
void kvt_posts_exit(void);
void kvt_late_posts_init(struct kvt_late_posts *late);
void kvt_late_posts_exit(struct kvt_late_posts *late);

int kvt_bpf_refuse_packets(const struct bpf_prog *prog, u32 kfunc_id);
int kvt_bpf_only_with_packets(const struct bpf_prog *prog, u32 kfunc_id);

int kvt_bpf_init(void);
bool kvt_bpf_offered(void);
int kvt_bpf_prepare(void);
extern const struct kvt_store_bpf kvt_bpf_stores;
extern unsigned int kvt_bpf_iter_max;
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
int bpf_kvt_get(const struct bpf_kvt_store *store__str, void *req, u32 req__sz,
		void *val, u32 val__sz);
int bpf_kvt_exists(const struct bpf_kvt_store *store__str, void *req, u32 req__sz);
int bpf_kvt_ceil(const struct bpf_kvt_store *store__str, void *req, u32 req__sz,
		 void *val, u32 val__sz);
int bpf_kvt_floor(const struct bpf_kvt_store *store__str, void *req, u32 req__sz,
		  void *val, u32 val__sz);
int bpf_kvt_lpm(const struct bpf_kvt_store *store__str, void *req, u32 req__sz,
		void *val, u32 val__sz);

int bpf_iter_kvt_new(struct bpf_iter_kvt *it, const struct bpf_kvt_store *store__str, void *req,
		     u32 req__sz);
const union bpf_kvt_rec *bpf_iter_kvt_next(struct bpf_iter_kvt *it);
void bpf_iter_kvt_destroy(struct bpf_iter_kvt *it);
int bpf_iter_kvt_status(struct bpf_iter_kvt *it__iter);
int bpf_kvt_iter_key(struct bpf_iter_kvt *it__iter, void *key, u32 key__sz);
int bpf_kvt_iter_val(struct bpf_iter_kvt *it__iter, void *val, u32 val__sz);

int bpf_kvt_put(const struct bpf_kvt_store *store__str, void *req, u32 req__sz,
		void *val, u32 val__sz);
int bpf_kvt_cas(const struct bpf_kvt_store *store__str, void *req, u32 req__sz,
		void *val, u32 val__sz);
int bpf_kvt_add(const struct bpf_kvt_store *store__str, void *req, u32 req__sz);
int bpf_kvt_remove(const struct bpf_kvt_store *store__str, void *req, u32 req__sz);
int bpf_kvt_post(const struct bpf_kvt_store *store__str, void *req, u32 req__sz,
		 void *val, u32 val__sz);

int bpf_kvt_record_key(const struct bpf_kvt_record *rec, u32 off, void *buf, u32 buf__sz);
int bpf_kvt_record_column(const struct bpf_kvt_record *rec, u32 col, u32 off, void *buf,
			  u32 buf__sz);
int bpf_kvt_record_column_len(const struct bpf_kvt_record *rec, u32 col);

#endif /* KVT_BPF_BPF_H */
