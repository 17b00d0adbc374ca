/* SPDX-License-Identifier: (GPL-2.0-only WITH Linux-syscall-note) OR BSD-2-Clause */
/*
 * kvtree for BPF programs: kfuncs of the module kvtree.
 *
 * Include it after vmlinux.h or <linux/bpf.h>:
 *
 *	#include "vmlinux.h"
 *	#include <bpf/bpf_helpers.h>
 *	#include <kvtree.bpf.h>
 *
 *	BPF_KVT_STORE(counts);		// the map ".rodata.counts": bind it
 *
 *	SEC("xdp")
 *	int count(struct xdp_md *ctx)
 *	{
 *		struct {
 *			struct bpf_kvt_req req;
 *			char key[4];
 *		} add = { { .arg = 1, .key_len = 3 }, "all" };
 *
 *		bpf_kvt_add(&counts, &add, sizeof(add));
 *		return XDP_PASS;
 *	}
 *
 * The prototypes are weak: a program that checks bpf_ksym_exists() also loads without
 * the module.
 *
 * Documentation/bpf.rst says which types of programs may call which kfunc, and pass
 * packet memory to it, and what each errno means.
 */
#ifndef KVTREE_BPF_H
#define KVTREE_BPF_H

#ifdef __KERNEL__
#include <linux/types.h>
#elif !defined(__VMLINUX_H__)
#include <linux/types.h>
#endif

/* Bytes in a key that a program writes, or in the end of a range or a prefix. */
#define BPF_KVT_KEY_MAX		512
/* Bytes in a value that a program writes. */
#define BPF_KVT_VALUE_MAX	65536
/* Bytes in a value that is posted. */
#define BPF_KVT_POST_MAX	4096

/* bpf_kvt_req.val_len: the value lacks the column. */
#define BPF_KVT_ABSENT		0xffffffffu

/*
 * A store, to a program: the element of a frozen, read-only array map with one element.
 * A session binds the map to its store (KVTREE_IOC_BPF_BIND), and a call works on the
 * store that the map is bound to.  The kernel uses the element's address, not its
 * content: the verifier accepts no other memory here, and gives such a pointer only to
 * programs that were loaded with the map.
 */
struct bpf_kvt_store {
	__u64 opaque;
};

/*
 * A request and its outcome.  The key follows: key_len bytes, in the room that the
 * call's req__sz leaves.  Calls ignore fields that they do not use, and write only
 * documented output fields; reserved fields must be 0.
 */
struct bpf_kvt_req {
	__u64 version;		/* out: found, made or removed; in: see CAS and REMOVE */
	__u64 arg;		/* add: what to add; out: the number before */
	__u32 flags;		/* BPF_KVT_* */
	__u16 col;		/* the column, 0..255 */
	__u16 ncols;		/* out, with BPF_KVT_ALL_COLS: columns of the value */
	__u32 key_len;		/* bytes of the key; in and out */
	__u32 val_len;		/* out: bytes of the value, even if too long, or ABSENT */
	__u32 end_len;		/* with BPF_KVT_RANGE: bytes of the end, which follows the key */
	__u32 reserved;
	__u64 reserved2;
};

/*
 * Reading.  Without a flag a value is one column, `col`.
 *
 * ALL_COLS: the value is ncols descriptors (struct bpf_kvt_col), ascending by
 * id, followed by their data.
 */
#define BPF_KVT_ALL_COLS	(1u << 0)
/* ceil, floor, iterators: start after the key (or before it), without the key itself. */
#define BPF_KVT_AFTER		(1u << 1)

/* Iterators.  They begin at the key and go up to the store's last key. */
#define BPF_KVT_REVERSE		(1u << 2)	/* down to the first key */
#define BPF_KVT_PREFIX		(1u << 3)	/* keys that begin with the key */
#define BPF_KVT_RANGE		(1u << 4)	/* up to (down to) another key, not included: */
						/* it follows the key */
#define BPF_KVT_END_INCL	(1u << 5)	/* RANGE: ... and included */
#define BPF_KVT_LAST		(1u << 6)	/* REVERSE, key_len 0: from the store's last key */

/*
 * Writing.  Without a flag the whole value becomes column 0.
 */
#define BPF_KVT_COL		(1u << 8)	/* put, cas: column `col` alone changes */
#define BPF_KVT_CREATE		(1u << 9)	/* put: only if the key does not exist */
#define BPF_KVT_REPLACE		(1u << 10)	/* put, add: only if key (add: column) exists */
#define BPF_KVT_VERSION		(1u << 11)	/* remove: only at req->version */
#define BPF_KVT_SYNC		(1u << 12)	/* never: EOPNOTSUPP */

/* The change that a post queues; default: a put. */
#define BPF_KVT_POST_ADD	(1u << 16)
#define BPF_KVT_POST_REMOVE	(1u << 17)

struct bpf_kvt_col {
	__u16 id;
	__u16 reserved;
	__u32 len;
};

/* An iterator's current record; read only. */
union bpf_kvt_rec {
	struct {
		__u64 version;
		__u32 key_len;	/* bytes; bpf_kvt_iter_key() copies them */
		__u32 val_len;	/* bytes; bpf_kvt_iter_val() copies them; or ABSENT */
	};
	__u64 words[2];
};

/* An iterator, on the program's stack. */
struct bpf_iter_kvt {
	__u64 __opaque[8];
} __attribute__((aligned(8)));

/*
 * Hooks: programs that a store calls, as struct_ops.
 *
 *	SEC("struct_ops/match")
 *	int BPF_PROG(match, struct bpf_kvt_record *rec)
 *	{
 *		return rec->val_len > 100;
 *	}
 *
 *	SEC(".struct_ops.link")
 *	struct bpf_kvt_filter large = {
 *		.match = (void *)match, .store = "default", .name = "large",
 *	};
 *
 * The hook is attached by a BPF link (bpf_map__attach_struct_ops()), with the rights of
 * the process that creates the link, and lives as long as the link.
 */

/* The record that a hook examines; read only, during the call. */
struct bpf_kvt_record {
	__u64 version;		/* 0: not stored yet */
	__u32 key_len;
	__u32 val_len;		/* bytes of column 0, or BPF_KVT_ABSENT */
	__u32 ncols;		/* columns of the value */
	__u32 reserved;
	/*
	 * NULL.  Programs cannot forge a structure that contains a pointer: the
	 * verifier accepts only the record passed to the hook.
	 */
	const void *opaque;
};

#define BPF_KVT_HOOK_NAME	32	/* bytes in a hook's name, with the NUL */
#define BPF_KVT_STORE_NAME	64	/* ... and in a store's */

/* A filter, which scans name by its id: returns not 0 to select the record. */
struct bpf_kvt_filter {
	int (*match)(struct bpf_kvt_record *rec);
	char store[BPF_KVT_STORE_NAME];	/* the caller must own it, with read access */
	char name[BPF_KVT_HOOK_NAME];	/* as a store's name, no digit first; or "" */
};

/*
 * The store's validator: returns not 0 to accept the value.  Otherwise the change fails with
 * EKEYREJECTED.
 */
struct bpf_kvt_validator {
	int (*allow)(struct bpf_kvt_record *rec);
	char store[BPF_KVT_STORE_NAME];	/* the caller must own it, with read and write access */
	char name[BPF_KVT_HOOK_NAME];
};

#ifndef __KERNEL__

#ifndef __ksym
#define __ksym __attribute__((section(".ksyms")))
#endif
#ifndef __weak
#define __weak __attribute__((weak))
#endif

/*
 * BPF_KVT_STORE() - declare a store
 * @name: the variable's name; its map is ".rodata.NAME"
 */
#define BPF_KVT_STORE(name)								\
	static const struct bpf_kvt_store name						\
	__attribute__((section(".rodata." #name), used)) = { 0 }

/*
 * Every call takes the store, the request followed by the key, and the size of both
 * (at least the size of the request); most also take a buffer for a value.
 *
 * Lookups, from every type of program and every context.
 *
 * get: copies the value of a key to val and returns its bytes.  exists: 0, and
 * req->version.
 *
 * ceil, floor, lpm find the first key that is not smaller, the last that is not
 * greater, the longest prefix.  The key found and its length replace the ones in
 * the request, and its value is copied as by get.
 *
 * Return: bytes of the value (at least 0), or
 *
 *	-ENOENT		there is no such key
 *	-EMSGSIZE	key or value do not fit: req->key_len, req->val_len, req->ncols
 *			and req->version are set, nothing is copied
 *	-EBUSY		the index is being changed, perhaps by the code that the program
 *			interrupted; or all cursors of this CPU are in use
 *	-ESTALE		the map is not bound to a store (any more)
 *	-EACCES		it is not bound for reading
 *	-EINVAL, -E2BIG	unknown flags, a reserved field not 0, a column above 255, a key
 *			longer than its room; too long
 */
extern int bpf_kvt_get(const struct bpf_kvt_store *store, void *req, __u32 req__sz,
		       void *val, __u32 val__sz) __weak __ksym;
extern int bpf_kvt_exists(const struct bpf_kvt_store *store, void *req,
			  __u32 req__sz) __weak __ksym;
extern int bpf_kvt_ceil(const struct bpf_kvt_store *store, void *req, __u32 req__sz,
			void *val, __u32 val__sz) __weak __ksym;
extern int bpf_kvt_floor(const struct bpf_kvt_store *store, void *req, __u32 req__sz,
			 void *val, __u32 val__sz) __weak __ksym;
extern int bpf_kvt_lpm(const struct bpf_kvt_store *store, void *req, __u32 req__sz,
		       void *val, __u32 val__sz) __weak __ksym;

/*
 * Iterators, with bpf_for_each(kvt, rec, store, req, req__sz) or, if the loop needs
 * the keys or values, or the status, with bpf_kvt_for_each().  A sleepable program
 * must hold bpf_rcu_read_lock() around the loop.
 *
 * next() returns NULL at the end of the range and after an error, including one
 * from new(); the status is 0 at the end, or:
 *
 *	-EBUSY		as for lookups
 *	-ELOOP		there is more, but the iterator has returned the maximum number
 *			of records (the module's parameter bpf_iter_max, 65536); another
 *			one may continue after the last key, with BPF_KVT_AFTER
 */
extern int bpf_iter_kvt_new(struct bpf_iter_kvt *it, const struct bpf_kvt_store *store,
			    void *req, __u32 req__sz) __weak __ksym;
extern const union bpf_kvt_rec *bpf_iter_kvt_next(struct bpf_iter_kvt *it) __weak __ksym;
extern void bpf_iter_kvt_destroy(struct bpf_iter_kvt *it) __weak __ksym;
extern int bpf_iter_kvt_status(struct bpf_iter_kvt *it) __weak __ksym;
/* Copy the current key or value.  Return: bytes, -EMSGSIZE, or -ENOENT if there is none. */
extern int bpf_kvt_iter_key(struct bpf_iter_kvt *it, void *key, __u32 key__sz) __weak __ksym;
extern int bpf_kvt_iter_val(struct bpf_iter_kvt *it, void *val, __u32 val__sz) __weak __ksym;

/*
 * bpf_kvt_for_each() - loop over the records of a range
 * @it: name of the iterator, which the loop declares; pass &it to
 *	bpf_kvt_iter_key() and bpf_kvt_iter_val()
 * @rec: a const union bpf_kvt_rec *, set to each record
 * @err: an int; set to the status unless break ends the loop
 */
#define bpf_kvt_for_each(it, rec, err, store, req, req__sz)				\
	for (struct bpf_iter_kvt it __attribute__((aligned(8),				\
						   cleanup(bpf_iter_kvt_destroy))),	\
	     *it##_new __attribute__((unused)) =					\
		(bpf_iter_kvt_new(&it, store, req, req__sz),				\
		 /* Tell the compiler that cleanup needs it. */	\
		 (void)bpf_iter_kvt_destroy, (void *)0);				\
	     ((rec) = bpf_iter_kvt_next(&it)) || ((err) = bpf_iter_kvt_status(&it), 0);)

/*
 * Changes, from XDP, tc and syscall programs.  They never sleep.
 *
 * cas: a put if the version is req->version (0: the key does not exist).  add:
 * adds req->arg to the 8-byte little-endian number in column `col`.
 *
 * Return: 0 and the new version (remove: that of the value removed), or
 *
 *	-ENOENT, -EEXIST	REPLACE, remove; CREATE.  req->version is 0 after ENOENT, except
 *			that a removal with BPF_KVT_VERSION leaves it alone
 *	-ECANCELED	another version, which is then in req->version (0: no key)
 *	-EAGAIN		the store has no room at the moment (memory waiting to be freed,
 *			or its log)
 *	-EBUSY		other changes interfered too often
 *	-EDQUOT, -ENOMEM, -EINVAL, -E2BIG, -ESTALE, -EACCES
 *	-EOPNOTSUPP	BPF_KVT_SYNC; an interrupt, or interrupts are off
 */
extern int bpf_kvt_put(const struct bpf_kvt_store *store, void *req, __u32 req__sz,
		       const void *val, __u32 val__sz) __weak __ksym;
extern int bpf_kvt_cas(const struct bpf_kvt_store *store, void *req, __u32 req__sz,
		       const void *val, __u32 val__sz) __weak __ksym;
extern int bpf_kvt_add(const struct bpf_kvt_store *store, void *req,
		       __u32 req__sz) __weak __ksym;
extern int bpf_kvt_remove(const struct bpf_kvt_store *store, void *req,
			  __u32 req__sz) __weak __ksym;

/*
 * Queue a change for a worker, from every type of program and every context, with a
 * map that is bound for writing.
 *
 * Return: 0: queued; -ENOSPC: dropped and counted, because the queue is full; -ESTALE,
 * -EACCES, -EINVAL, -E2BIG.
 */
extern int bpf_kvt_post(const struct bpf_kvt_store *store, void *req, __u32 req__sz,
			const void *val, __u32 val__sz) __weak __ksym;

/*
 * Only in hooks: copy the record's key, or a column, from byte `off` on, as much as
 * fits.
 *
 * Return: bytes copied, 0 after the end; -ENOENT: there is no such column;
 * -EINVAL: a column above 255.
 *
 * column_len: bytes of the column, or the same errors.
 */
extern int bpf_kvt_record_key(const struct bpf_kvt_record *rec, __u32 off,
			      void *buf, __u32 buf__sz) __weak __ksym;
extern int bpf_kvt_record_column(const struct bpf_kvt_record *rec, __u32 col, __u32 off,
				 void *buf, __u32 buf__sz) __weak __ksym;
extern int bpf_kvt_record_column_len(const struct bpf_kvt_record *rec,
				     __u32 col) __weak __ksym;

/*
 * Show the verifier which memory calls write to.
 *
 * The verifier checks that a call's memory is large enough.  But if the memory is a packet, it does
 * not check that the program may write to it, and does not note the write.  A program for tc would
 * then change the data of all clones of the packet.  So each of these calls is followed by a write
 * in the program itself, which is never executed.  The verifier cannot know that: it refuses the
 * program, or gives it a copy of the packet.
 *
 * Code that calls a kfunc in another way, such as from another language, must do the same.
 */
static __always_inline void bpf_kvt_writes(int ret, void *mem, __u32 size)
{
	volatile __u8 *byte = (volatile __u8 *)mem;

	/* No call returns INT_MIN. */
	if (__builtin_expect(ret == -2147483647 - 1, 0) && size)
		*byte = *byte;
}

/* Calls that write to the request. */
#define BPF_KVT_WRITES_REQ(call)							\
static __always_inline int call##_shown(const struct bpf_kvt_store *store, void *req,	\
					__u32 req__sz)					\
{											\
	int ret = call(store, req, req__sz);						\
											\
	bpf_kvt_writes(ret, req, req__sz);						\
	return ret;									\
}

/* ... that also read a value. */
#define BPF_KVT_READS_VAL(call)								\
static __always_inline int call##_shown(const struct bpf_kvt_store *store, void *req,	\
					__u32 req__sz, const void *val, __u32 val__sz)	\
{											\
	int ret = call(store, req, req__sz, val, val__sz);				\
											\
	bpf_kvt_writes(ret, req, req__sz);						\
	return ret;									\
}

/* ... that also write a value. */
#define BPF_KVT_WRITES_VAL(call)							\
static __always_inline int call##_shown(const struct bpf_kvt_store *store, void *req,	\
					__u32 req__sz, void *val, __u32 val__sz)	\
{											\
	int ret = call(store, req, req__sz, val, val__sz);				\
											\
	bpf_kvt_writes(ret, req, req__sz);						\
	bpf_kvt_writes(ret, val, val__sz);						\
	return ret;									\
}

BPF_KVT_WRITES_VAL(bpf_kvt_get)
BPF_KVT_WRITES_REQ(bpf_kvt_exists)
BPF_KVT_WRITES_VAL(bpf_kvt_ceil)
BPF_KVT_WRITES_VAL(bpf_kvt_floor)
BPF_KVT_WRITES_VAL(bpf_kvt_lpm)
BPF_KVT_READS_VAL(bpf_kvt_put)
BPF_KVT_READS_VAL(bpf_kvt_cas)
BPF_KVT_WRITES_REQ(bpf_kvt_add)
BPF_KVT_WRITES_REQ(bpf_kvt_remove)

static __always_inline int bpf_kvt_iter_key_shown(struct bpf_iter_kvt *it, void *key,
						  __u32 key__sz)
{
	int ret = bpf_kvt_iter_key(it, key, key__sz);

	bpf_kvt_writes(ret, key, key__sz);
	return ret;
}

static __always_inline int bpf_kvt_iter_val_shown(struct bpf_iter_kvt *it, void *val,
						  __u32 val__sz)
{
	int ret = bpf_kvt_iter_val(it, val, val__sz);

	bpf_kvt_writes(ret, val, val__sz);
	return ret;
}

static __always_inline int bpf_kvt_record_key_shown(const struct bpf_kvt_record *rec, __u32 off,
						    void *buf, __u32 buf__sz)
{
	int ret = bpf_kvt_record_key(rec, off, buf, buf__sz);

	bpf_kvt_writes(ret, buf, buf__sz);
	return ret;
}

static __always_inline int bpf_kvt_record_column_shown(const struct bpf_kvt_record *rec, __u32 col,
						       __u32 off, void *buf, __u32 buf__sz)
{
	int ret = bpf_kvt_record_column(rec, col, off, buf, buf__sz);

	bpf_kvt_writes(ret, buf, buf__sz);
	return ret;
}

#define bpf_kvt_get(...)		bpf_kvt_get_shown(__VA_ARGS__)
#define bpf_kvt_exists(...)		bpf_kvt_exists_shown(__VA_ARGS__)
#define bpf_kvt_ceil(...)		bpf_kvt_ceil_shown(__VA_ARGS__)
#define bpf_kvt_floor(...)		bpf_kvt_floor_shown(__VA_ARGS__)
#define bpf_kvt_lpm(...)		bpf_kvt_lpm_shown(__VA_ARGS__)
#define bpf_kvt_put(...)		bpf_kvt_put_shown(__VA_ARGS__)
#define bpf_kvt_cas(...)		bpf_kvt_cas_shown(__VA_ARGS__)
#define bpf_kvt_add(...)		bpf_kvt_add_shown(__VA_ARGS__)
#define bpf_kvt_remove(...)		bpf_kvt_remove_shown(__VA_ARGS__)
#define bpf_kvt_iter_key(...)		bpf_kvt_iter_key_shown(__VA_ARGS__)
#define bpf_kvt_iter_val(...)		bpf_kvt_iter_val_shown(__VA_ARGS__)
#define bpf_kvt_record_key(...)		bpf_kvt_record_key_shown(__VA_ARGS__)
#define bpf_kvt_record_column(...)	bpf_kvt_record_column_shown(__VA_ARGS__)

#endif /* !__KERNEL__ */

#endif /* KVTREE_BPF_H */
