/* SPDX-License-Identifier: GPL-2.0 */
/* Calls of kfuncs as a program makes them, with the request and the key in one place. */
#ifndef KVT_TESTS_BPF_CALL_H
#define KVT_TESTS_BPF_CALL_H

#include <linux/atomic.h>
#include <linux/bpf.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "bpf/bpf.h"
#include "core/binding.h"

/* A map, as far as bindings use it.  It is never freed: the tests hold a reference. */
struct call_map {
	struct bpf_map map;
	struct bpf_kvt_store value;
};

/* Bind a map to a store. */
static inline int call_bind(struct call_map *m, struct kvt_store *store, unsigned int access)
{
	atomic64_set(&m->map.refcnt, 2);
	return kvt_bind(store, &m->map, &m->value, access);
}

/* A request without its key, and its store. */
struct call {
	struct bpf_kvt_store *store;
	u64 version;
	u64 arg;
	u32 flags;
	u16 col;
	u16 ncols;
	u32 key_len;
	u32 val_len;
	u32 end_len;
	u32 reserved;
	u64 reserved2;
};

#define CALL_KEY	640	/* bytes of key on the stack */

struct call_req {
	struct bpf_kvt_req req;
	u8 key[CALL_KEY];
};

/* Prepare a request with room for @room bytes of key, the first @len of them from @key. */
static inline struct call_req *call_begin(struct call_req *small, const struct call *c,
					  const void *key, u32 len, u32 room)
{
	struct call_req *r = small;

	if (room > CALL_KEY)
		r = kmalloc(sizeof(r->req) + room, GFP_ATOMIC);
	if (!r)
		return NULL;
	r->req = (struct bpf_kvt_req) {
		.version = c->version,
		.arg = c->arg,
		.flags = c->flags,
		.col = c->col,
		.key_len = len,
		.end_len = c->end_len,
		.reserved = c->reserved,
		.reserved2 = c->reserved2,
	};
	memcpy(r->key, key, room);
	return r;
}

static inline int call_end(struct call_req *small, struct call *c, struct call_req *r, int ret)
{
	c->version = r->req.version;
	c->arg = r->req.arg;
	c->val_len = r->req.val_len;
	c->ncols = r->req.ncols;
	if (r != small)
		kfree(r);
	return ret;
}

/* A call with a value, or without one. */
#define CALL(name)									\
static inline int call_##name(struct call *c, const void *key, u32 len,	\
			      void *val, u32 val_len)				\
{										\
	struct call_req small, *r = call_begin(&small, c, key, len, len);	\
										\
	if (!r)									\
		return -ENOMEM;							\
	return call_end(&small, c, r, bpf_kvt_##name(c->store, r,		\
						     sizeof(r->req) + len,	\
						     val, val_len));		\
}

#define CALL_PLAIN(name)							\
static inline int call_##name(struct call *c, const void *key, u32 len)	\
{										\
	struct call_req small, *r = call_begin(&small, c, key, len, len);	\
										\
	if (!r)									\
		return -ENOMEM;							\
	return call_end(&small, c, r, bpf_kvt_##name(c->store, r,		\
						     sizeof(r->req) + len));	\
}

/* A call that finds another key, and stores it in place of the given one. */
#define CALL_NEAR(name)								\
static inline int call_##name(struct call *c, void *key, u32 room,		\
			      void *val, u32 val_len)				\
{										\
	struct call_req small, *r = call_begin(&small, c, key, c->key_len, room);	\
	int ret;								\
										\
	if (!r)									\
		return -ENOMEM;							\
	ret = bpf_kvt_##name(c->store, r, sizeof(r->req) + room, val, val_len);	\
	c->key_len = r->req.key_len;						\
	memcpy(key, r->key, room);						\
	return call_end(&small, c, r, ret);					\
}

CALL(get)
CALL(put)
CALL(cas)
CALL(post)
CALL_PLAIN(exists)
CALL_PLAIN(add)
CALL_PLAIN(remove)
CALL_NEAR(ceil)
CALL_NEAR(floor)
CALL_NEAR(lpm)

/* An iterator; with BPF_KVT_RANGE the end follows, of what key_len leaves of the key. */
static inline int call_iter(struct bpf_iter_kvt *it, struct call *c, const void *key, u32 len)
{
	u32 key_len = c->flags & BPF_KVT_RANGE ? c->key_len : len;
	struct call_req small, *r;

	c->end_len = len - key_len;
	r = call_begin(&small, c, key, key_len, len);
	if (!r)
		return -ENOMEM;
	return call_end(&small, c, r, bpf_iter_kvt_new(it, c->store, r, sizeof(r->req) + len));
}

#endif /* KVT_TESTS_BPF_CALL_H */
