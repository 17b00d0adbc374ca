/* SPDX-License-Identifier: LGPL-2.1-only */
/*
 * libkvtree - C interface to kvtree, the ordered key-value index that lives in
 * the kernel and is shared by processes and BPF programs.
 *
 *	struct kvtree *kv;
 *	size_t len;
 *	void *val;
 *	int err;
 *
 *	err = kvtree_open(NULL, 0, &kv);
 *	if (!err)
 *		err = kvtree_put(kv, kvtree_str("hello"), kvtree_str("world"), 0, NULL);
 *	if (!err)
 *		err = kvtree_get(kv, kvtree_str("hello"), &val, &len, NULL);
 *	if (err)
 *		errx(1, "%s", kvtree_strerror(err));
 *	printf("%.*s\n", (int)len, (char *)val);
 *	free(val);
 *	kvtree_close(kv);
 *
 * Compile and link with `pkg-config --cflags --libs kvtree`.
 *
 * Rules for every call
 * -------------------------
 *
 * Keys and values are byte strings: any bytes, zeros included.  Lengths are in
 * bytes.  A key has 0..KVTREE_KEY_MAX bytes, a value 0..KVTREE_VALUE_MAX bytes
 * in all of its columns.  Keys are ordered as memcmp() orders them, a key that
 * is a prefix of another one first.  A pointer may be NULL where its length
 * is 0.  Keys, and values to be stored, are passed as slices: kvtree_slice(data, len),
 * or kvtree_str("text").
 *
 * Errors: a call returns 0 (or a count, where it says so), or a negative errno
 * value; errno itself is not part of the interface.  kvtree_strerror() says
 * what each one means here and what to do about it.  Any call may return
 *	-ESTALE		the store was destroyed
 *	-EACCES		the session may not do this (it was opened for reading,
 *			or the store's mode does not allow it)
 *	-EINVAL		an argument is out of its range
 *	-E2BIG		a key, a value or an array of columns is too long
 *	-ENOMEM		no memory, in the kernel or here
 *	-EFAULT		a pointer points to memory that is not mapped
 * and the errors that it lists itself.  A call that failed leaves its output
 * arguments alone, except as said, and has changed nothing in the store; but after
 * -EIO a change took effect and is not durable, kvtree_ops_run() and kvtree_submit()
 * tell how many operations they executed, and kvtree_store_detach() has detached.
 *
 * Output arguments may be NULL if the caller does not need them, except handles,
 * structures and arrays passed with their size, and the version of a
 * compare-and-swap.
 *
 * Threads: a session (struct kvtree) may be used by any number of threads at
 * the same time.  An operation list (struct kvtree_ops) and a cursor (struct
 * kvtree_cursor) belong to one thread at a time, a ring (struct kvtree_ring) to
 * the thread that opened it.  The library has no global state, starts no
 * threads, installs no handlers and prints nothing.
 *
 * Signals: a call that a signal handler interrupts continues; no call
 * returns -EINTR but kvtree_ring_wait().
 *
 * Processes: a session survives fork(), both processes may use it; it does not
 * survive exec (close-on-exec).  Its descriptor may be passed over a Unix
 * socket and be wrapped again with kvtree_from_fd(); rights go with it.
 *
 * Versions: every value has a version, a number above 0.  Each change of a key
 * gives it a greater one, also when the key is removed and stored again, so
 * that "the version is still 17" means "nobody has changed it".
 */
#ifndef _KVTREE_H
#define _KVTREE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <linux/kvtree.h>

#ifdef __cplusplus
extern "C" {
#endif

struct kvtree;		/* a session: an open store */
struct kvtree_ops;	/* a list of operations that are executed together */
struct kvtree_cursor;	/* a place in a store, and records read ahead from there */
struct iovec;

/*
 * Slices
 * ======
 *
 * Keys, and values to be stored, are passed as slices.  The bytes stay the caller's.
 * A call reads them before it returns; but those that queue an operation on a ring,
 * and kvtree_op_*(), copy only a key of up to KVTREE_KEY_INLINE bytes: the rest must
 * stay until the operation has completed.
 */

/**
 * struct kvtree_slice - bytes in memory
 * @data: the bytes; need not be aligned
 * @len: their number
 *
 * kvtree_slice() and kvtree_str() make one.
 */
struct kvtree_slice {
	const void *data;
	size_t len;
};

/**
 * kvtree_slice() - make a slice of any bytes
 * @data: the bytes; may be NULL if @len is 0
 * @len: their number
 *
 * Return: the slice
 */
static inline struct kvtree_slice kvtree_slice(const void *data, size_t len)
{
	struct kvtree_slice slice;

	slice.data = data;
	slice.len = len;
	return slice;
}

/**
 * kvtree_str() - make a slice of a C string
 * @string: the string; its zero byte does not belong to the slice
 *
 * Return: the slice
 */
static inline struct kvtree_slice kvtree_str(const char *string)
{
	return kvtree_slice(string, strlen(string));
}

/*
 * Sessions
 * ========
 */

/**
 * kvtree_open() - open a store
 * @name: the store's name; NULL for the store "default"
 * @flags: KVTREE_OPEN_READ, KVTREE_OPEN_WRITE or both; 0 means both
 * @kv: the new session; NULL after an error
 *
 * What the session may do is fixed here, from the caller's uid and gids and the
 * store's owner and mode, as for a file.  Every user can open the store "default"
 * for calls that need no data (list, info); the first operation fails if the
 * caller may not read or write it.
 *
 * Return: 0, or
 *	-ENODEV		there is no /dev/kvtree: the module is not loaded
 *	-ENOENT		no store has this name
 *	-EACCES		the store's mode does not allow what @flags asks for
 *	-ENAMETOOLONG	the name has KVTREE_NAME_MAX bytes or more
 *	-EMFILE, -ENFILE  too many open files
 */
int kvtree_open(const char *name, unsigned int flags, struct kvtree **kv);

/**
 * kvtree_from_fd() - make a session of a descriptor
 * @fd: a descriptor of /dev/kvtree, or one received from another process
 * @kv: the new session; NULL after an error
 *
 * On success the descriptor belongs to the session.
 *
 * Return: 0, or
 *	-ENOTTY		the descriptor is not a kvtree session
 *	-EBADF		it is not open
 */
int kvtree_from_fd(int fd, struct kvtree **kv);

/**
 * kvtree_close() - end a session
 * @kv: the session; NULL does nothing
 *
 * Close its cursors first.  No other thread may be using the session.
 */
void kvtree_close(struct kvtree *kv);

/**
 * kvtree_fd() - the session's file descriptor
 * @kv: the session
 *
 * For fd passing and for programs that call ioctl() themselves.  It stays the
 * session's: do not close it.
 *
 * Return: the descriptor
 */
int kvtree_fd(const struct kvtree *kv);

/**
 * kvtree_info() - describe the running module
 * @kv: any session
 * @info: filled in
 * @size: sizeof(*@info)
 *
 * @size allows the structure to grow: fields that the kernel does not know
 * are set to zero.
 *
 * Return: 0 or a negative errno
 */
int kvtree_info(const struct kvtree *kv, struct kvtree_info *info, size_t size);

/**
 * kvtree_version() - the library's version
 *
 * Return: a string such as "0.1.0"
 */
const char *kvtree_version(void);

/**
 * kvtree_strerror() - what an error means in kvtree, and what to do
 * @err: what a call returned; the sign does not matter
 *
 * Return: a string in English without a newline, which is never freed
 */
const char *kvtree_strerror(int err);

/*
 * Stores
 * ======
 *
 * Calls about other stores than the session's own take any session, such as
 * kvtree_open(NULL, KVTREE_OPEN_READ, &kv) gives.  The structures are those of
 * the kernel interface, and `size` is the sizeof of the structure passed, as for
 * kvtree_info().
 */

/**
 * kvtree_store_create() - create a store
 * @kv: any session
 * @args: name, engine, owner, mode, limits and page size; the rest zero
 * @size: sizeof(*@args)
 *
 * Return: 0, or
 *	-EPERM		the caller lacks CAP_SYS_ADMIN
 *	-EEXIST		a store has this name
 *	-EINVAL		a bad name, an unknown engine, a bad mode, an invalid page size
 *	-ENOPKG		the engine is a module that cannot be loaded
 */
int kvtree_store_create(const struct kvtree *kv,
			const struct kvtree_store_create *args, size_t size);

/**
 * kvtree_store_destroy() - destroy a store and everything in it
 * @kv: any session
 * @name: the store's name
 *
 * Sessions on the store get -ESTALE from then on.
 *
 * Return: 0, or
 *	-EPERM		the caller lacks CAP_SYS_ADMIN
 *	-ENOENT		no store has this name
 *	-EBUSY		the store is durable, or is being attached: see kvtree_store_detach()
 *	-ENAMETOOLONG	the name has KVTREE_NAME_MAX bytes or more
 */
int kvtree_store_destroy(const struct kvtree *kv, const char *name);

/**
 * kvtree_store_set() - change settings of a store
 * @kv: any session
 * @args: the store's name, KVTREE_SET_* in `set`, and the fields that these name; the rest zero
 * @size: sizeof(*@args)
 *
 * A mode or owner is for sessions that are opened later.  A store may hold more than its
 * new limits: what grows is refused until enough is removed.
 *
 * Return: 0, or
 *	-EPERM		the caller lacks CAP_SYS_ADMIN; the mode alone may be changed by the
 *			store's owner as well
 *	-ENOENT		no store has this name
 *	-EINVAL		nothing to set, a bad name, mode, user or group
 *	-ESTALE		the store was destroyed
 */
int kvtree_store_set(const struct kvtree *kv, const struct kvtree_store_set *args,
		     size_t size);

/**
 * kvtree_store_next() - go through the stores
 * @kv: any session
 * @info: all zero at first; then what the call before left there
 * @size: sizeof(*@info)
 *
 *	struct kvtree_store_info si = { 0 };
 *
 *	while (!(err = kvtree_store_next(kv, &si, sizeof(si))))
 *		puts(si.name);
 *	if (err != -ENOENT)
 *		...
 *
 * A store that is created or destroyed meanwhile may or may not be seen;
 * every other one is seen once.
 *
 * Return: 0, or
 *	-ENOENT		there are no more
 */
int kvtree_store_next(const struct kvtree *kv, struct kvtree_store_info *info,
		      size_t size);

/**
 * kvtree_store_self() - describe the session's own store
 * @kv: the session
 * @info: filled in
 * @size: sizeof(*@info)
 *
 * Return: 0 or a negative errno
 */
int kvtree_store_self(const struct kvtree *kv, struct kvtree_store_info *info,
		      size_t size);

/**
 * kvtree_bpf_allow() - let BPF programs use the session's store, or not
 * @kv: the session
 * @allow: 1, or 0, which ends all bindings
 *
 * Return: 0, or
 *	-EPERM		the caller is not the store's owner and lacks CAP_SYS_ADMIN
 *	-EOPNOTSUPP	the kernel has nothing for programs to call
 *	-ESTALE		the store was destroyed
 *	-ENOMEM		no memory
 */
int kvtree_bpf_allow(const struct kvtree *kv, int allow);

/**
 * kvtree_bpf_bind() - let the BPF programs that have a map use the store
 * @kv: the session
 * @map_fd: the map: an array with one element, of 8 to KVTREE_BPF_MAP_MAX bytes, and
 *	BPF_F_RDONLY_PROG
 * @access: KVTREE_OPEN_READ, KVTREE_OPEN_WRITE or both: what they may do
 *
 * A program names the store by the map.  The binding ends with the store, when its owner
 * forbids programs to use it, and once nothing else holds the map; it outlives the session.
 *
 * Return: 0, or
 *	-EACCES		the session lacks this access, or @map_fd is for reading only
 *	-EPERM		programs may not use the store
 *	-EBUSY		the map is bound, to this store or another one
 *	-EBADF		@map_fd is not a map's descriptor
 *	-EINVAL		it is another kind of map; or @access is invalid
 *	-ENOSPC		KVTREE_BPF_BINDINGS_MAX maps are bound to the store; or the
 *			caller does not own it, and would have more bindings than are left
 *	-ESTALE		the store was destroyed
 *	-ENOMEM		no memory
 */
int kvtree_bpf_bind(const struct kvtree *kv, int map_fd, unsigned int access);

/**
 * kvtree_bpf_unbind() - stop programs from using the store by a map
 * @kv: the session
 * @map_fd: the map
 *
 * Calls in progress run to their end, and queued posts are made.
 *
 * Return: 0, or
 *	-EACCES		the session may neither read nor write, or @map_fd is for
 *			reading only
 *	-ENOENT		the map is not bound to this store
 *	-EBADF, -EINVAL	@map_fd is not a map's descriptor
 *	-ESTALE		the store was destroyed
 */
int kvtree_bpf_unbind(const struct kvtree *kv, int map_fd);

/**
 * kvtree_bpf_unbind_id() - end the binding of a map by the map's id
 * @kv: the session
 * @map_id: the map's id, as kvtree_bpf_binding_next() tells it
 *
 * For the store's owner; needs no descriptor of the map.
 *
 * Return: 0, or
 *	-EPERM		the caller is not the store's owner and lacks CAP_SYS_ADMIN
 *	-ENOENT		no map with this id is bound to this store
 *	-ESTALE		the store was destroyed
 */
int kvtree_bpf_unbind_id(const struct kvtree *kv, __u32 map_id);

/**
 * kvtree_bpf_binding_next() - go through the maps that are bound to the store
 * @kv: the session
 * @binding: all zero at first; then what the call before left there
 * @size: sizeof(*@binding)
 *
 * As kvtree_bpf_hook_next().
 *
 * Return: 0, or
 *	-EACCES		the session may neither read nor write
 *	-ENOENT		there are no more
 *	-ESTALE		the store was destroyed
 */
int kvtree_bpf_binding_next(const struct kvtree *kv, struct kvtree_bpf_binding *binding,
			    size_t size);

/**
 * kvtree_bpf_hook_next() - go through the BPF programs attached to the store
 * @kv: the session
 * @hook: all zero at first; then what the call before left there
 * @size: sizeof(*@hook)
 *
 *	struct kvtree_bpf_hook hook = { 0 };
 *
 *	while (!(err = kvtree_bpf_hook_next(kv, &hook, sizeof(hook))))
 *		puts(hook.name);
 *	if (err != -ENOENT)
 *		...
 *
 * A filter's id is for struct kvtree_cursor_opts.
 *
 * Return: 0, or
 *	-EACCES		the session may neither read nor write
 *	-ENOENT		there are no more
 *	-ESTALE		the store was destroyed
 */
int kvtree_bpf_hook_next(const struct kvtree *kv, struct kvtree_bpf_hook *hook,
			 size_t size);

/**
 * kvtree_stat() - read the counters of the session's store
 * @kv: the session
 * @values: filled in, indexed by enum kvtree_stat
 * @nr: elements at @values, usually KVTREE_STAT_NR
 *
 * Counters that the kernel does not know read 0.
 *
 * Return: the number of counters that the kernel knows, which may be less or
 * more than @nr, or a negative errno
 */
int kvtree_stat(const struct kvtree *kv, uint64_t *values, unsigned int nr);

/**
 * kvtree_stat_name() - the name of a counter
 * @id: enum kvtree_stat
 *
 * Return: a string such as "get_miss", or NULL if the library does not know
 * the counter
 */
const char *kvtree_stat_name(unsigned int id);

/**
 * kvtree_stat_text() - what a counter counts
 * @id: enum kvtree_stat
 *
 * Return: a line of English, or NULL if the library does not know the counter
 */
const char *kvtree_stat_text(unsigned int id);

/**
 * kvtree_stat_is_gauge() - tell levels from counts
 * @id: enum kvtree_stat
 *
 * Return: 1 if the counter goes up and down (such as the number of keys), 0 if
 * it only grows or is not known
 */
int kvtree_stat_is_gauge(unsigned int id);

/**
 * kvtree_engine_stat() - read a counter of the engine of the session's store
 * @kv: the session
 * @stat: its nr says which, from 0 on; filled in
 * @size: sizeof(*@stat)
 *
 * Which counters there are depends on the engine and on the version of the
 * module; each comes with its name and a text.
 *
 * Return: 0, or
 *	-ENOENT		the engine has no more
 *	-EACCES		the session may neither read nor write the store
 *	-ESTALE		the store was destroyed
 *	-ENOTTY		the module has none of them
 */
int kvtree_engine_stat(const struct kvtree *kv, struct kvtree_engine_stat *stat,
		       size_t size);

/*
 * One key at a time
 * =================
 *
 * Without columns a value is one byte string.  (Of a value with columns, these
 * calls use column 0: a get returns it, and a put replaces the whole value, other
 * columns included.)
 *
 * Errors that every change may return, in addition to the general ones:
 *	-EDQUOT		the store's limit is reached
 *	-EROFS		the store became read-only after a write error, or was attached so
 *	-ENOSPC		the store's device is full
 */

/**
 * kvtree_get() - look a key up
 * @kv: the session
 * @key: the key
 * @val: the value, in memory of its own: free() it.  A zero byte follows it, so
 *	that text can be used as a string
 * @len: bytes at @val, without that zero byte
 * @version: the value's version
 *
 * Return: 0, or
 *	-ENOENT		the key does not exist
 */
int kvtree_get(const struct kvtree *kv, struct kvtree_slice key, void **val,
	       size_t *len, uint64_t *version);

/**
 * kvtree_get_into() - look a key up, into the caller's memory
 * @kv: the session
 * @key: the key
 * @buf: the value is copied here
 * @size: room at @buf, in bytes
 * @len: bytes copied; after -EMSGSIZE the bytes that are needed
 * @version: the value's version
 *
 * Allocates nothing.  One system call.
 *
 * Return: 0, or
 *	-ENOENT		the key does not exist
 *	-EMSGSIZE	the value does not fit
 */
int kvtree_get_into(const struct kvtree *kv, struct kvtree_slice key, void *buf,
		    size_t size, size_t *len, uint64_t *version);

/**
 * kvtree_put() - store a value
 * @kv: the session
 * @key: the key
 * @val: the value
 * @flags: KVTREE_F_CREATE (only if the key does not exist), KVTREE_F_REPLACE
 *	(only if it does), KVTREE_F_SYNC (return when it is durable), or 0
 * @version: the version that the value got
 *
 * Return: 0, or
 *	-EEXIST		KVTREE_F_CREATE, and the key exists
 *	-ENOENT		KVTREE_F_REPLACE, and the key does not exist
 */
int kvtree_put(const struct kvtree *kv, struct kvtree_slice key,
	       struct kvtree_slice val, unsigned int flags, uint64_t *version);

/**
 * kvtree_cas() - store a value if nobody has changed it
 * @kv: the session
 * @key: the key
 * @val: the value
 * @flags: KVTREE_F_SYNC or 0
 * @version: in: the version that the key must have, 0 for a key that must not
 *	be there; out: the version that the value got, or, after -ECANCELED,
 *	the version found (0 if the key does not exist)
 *
 * Return: 0, or
 *	-ECANCELED	the key has another version
 */
int kvtree_cas(const struct kvtree *kv, struct kvtree_slice key,
	       struct kvtree_slice val, unsigned int flags, uint64_t *version);

/**
 * kvtree_del() - remove a key
 * @kv: the session
 * @key: the key
 * @flags: KVTREE_F_VERSION (only at *@version), KVTREE_F_SYNC, or 0
 * @version: in, with KVTREE_F_VERSION: the version that the key must have;
 *	out: the version removed, or, after -ECANCELED, the version found
 *
 * Return: 0, or
 *	-ENOENT		the key does not exist
 *	-ECANCELED	KVTREE_F_VERSION, and the key has another version
 */
int kvtree_del(const struct kvtree *kv, struct kvtree_slice key,
	       unsigned int flags, uint64_t *version);

/**
 * struct kvtree_sum - what came of an addition
 * @sum: the number after it
 * @version: the version that the value got
 */
struct kvtree_sum {
	int64_t sum;
	uint64_t version;
};

/**
 * kvtree_add() - add to a number
 * @kv: the session
 * @key: the key
 * @col: the column that holds the number, 0..255; 0 for a value without columns
 * @delta: what to add; the sum wraps around at 64 bits
 * @flags: KVTREE_F_REPLACE (only if the key and the column exist),
 *	KVTREE_F_SYNC, or 0
 * @sum: what came of it
 *
 * The number is stored as 8 bytes, little-endian.  A key or column that does
 * not exist counts as 0 and is created.  The session must be open for reading
 * and writing.
 *
 * Return: 0, or
 *	-EINVAL		the column is not 8 bytes long
 *	-ENOENT		KVTREE_F_REPLACE, and the key or the column does not exist
 */
int kvtree_add(const struct kvtree *kv, struct kvtree_slice key,
	       unsigned int col, int64_t delta, unsigned int flags,
	       struct kvtree_sum *sum);

/**
 * kvtree_sync() - wait until all earlier changes of the store are durable
 * @kv: the session
 *
 * Return: 0, or
 *	-EACCES		the session may not write
 *	-EOPNOTSUPP	this kernel or this store has no durability
 *	-EIO		some changes are lost
 */
int kvtree_sync(const struct kvtree *kv);

/*
 * Durable stores
 * ==============
 *
 * A durable store has one to eight block devices, prepared by "kvtree store format", from
 * which it can be recovered after a crash or kvtree_store_detach().
 */

/**
 * kvtree_store_attach() - recover a durable store from its devices
 * @kv: any session
 * @args: in store and store_size, what kvtree_store_create() takes, which says the name,
 *	mode, uid, gid, limits and engine; the devices' paths, in any order; KVTREE_ATTACH_SYNC;
 *	KVTREE_ATTACH_READ_ONLY, with which nothing is written to them, and an epoch, to see
 *	the store as it was then
 * @size: sizeof(*@args)
 *
 * The devices belong to the store if their superblocks say so.  Unlike the tool, which asks
 * libblkid, this call does not look for data of others on them.
 *
 * Needs CAP_SYS_ADMIN.  Returns when everything is recovered.  Until then kvtree_store_next()
 * describes the store with KVTREE_STORE_ATTACHING and the number of keys recovered so far.
 *
 * Return: 0, or
 *	-EPERM		the caller lacks CAP_SYS_ADMIN
 *	-EEXIST		there is a store of this name
 *	-EINVAL		a device is not formatted, or not any more; or the name, the engine or mode
 *			is invalid
 *	-EBUSY		a device is in use
 *	-ENOTBLK	something is not a block device
 *	-ENODEV		devices of the store are missing, or the module is not loaded
 *	-EXDEV		the devices are of different stores, or one is given twice
 *	-EBADMSG	something on the devices is damaged
 *	-EOPNOTSUPP	the format is newer than the module, or a device's blocks are unsuitable
 *	-ERANGE		that epoch does not exist, or can no longer be restored
 *	-EIO		a device cannot be read or written
 *	-ENOPKG		the engine is a module that cannot be loaded
 *	-EDQUOT, -ENOMEM
 */
int kvtree_store_attach(const struct kvtree *kv, const struct kvtree_store_attach *args,
			size_t size);

/**
 * kvtree_store_detach() - make everything durable, and release a store's devices
 * @kv: any session
 * @name: the store's name
 *
 * Needs CAP_SYS_ADMIN.  All sessions on the store get -ESTALE from then on.
 *
 * Return: 0, or
 *	-EPERM		the caller lacks CAP_SYS_ADMIN
 *	-ENOENT		no store has this name
 *	-ENAMETOOLONG	the name has KVTREE_NAME_MAX bytes or more
 *	-EOPNOTSUPP	it has no devices
 *	-EBUSY		it is being attached
 *	-EIO		it is detached, and its last changes are lost
 */
int kvtree_store_detach(const struct kvtree *kv, const char *name);

/**
 * kvtree_checkpoint() - write what has changed, so that recovery takes less time
 * @kv: the session
 *
 * Needs CAP_SYS_ADMIN.  The store can be used meanwhile.  The module does so by itself
 * before the log is full.
 *
 * Return: 0, or
 *	-EPERM		the caller lacks CAP_SYS_ADMIN
 *	-EOPNOTSUPP	the store has no devices
 *	-ENOSPC		there is no room for it
 *	-EIO		a device has failed
 *	-ENOMEM
 */
int kvtree_checkpoint(const struct kvtree *kv);

/* The store is attached, or was when the machine stopped. */
#define KVTREE_DEVICE_OPEN	(1u << 0)
/* One of the two copies of its superblock is damaged, or cannot be read. */
#define KVTREE_DEVICE_DAMAGED	(1u << 1)
/* The first superblock is missing: a crash or an unknown program may have overwritten it. */
#define KVTREE_DEVICE_DOUBTFUL	(1u << 2)

/* What a device's superblock says about the device and its store. */
struct kvtree_device {
	uint8_t  uuid[16];		/* of the store */
	char	 label[KVTREE_NAME_MAX];/* the name that it was attached by the last time */
	uint32_t version;		/* of the format */
	uint32_t index;			/* which of the store's devices it is, from 0 */
	uint32_t nr_devices;		/* how many the store has */
	uint32_t flags;			/* KVTREE_DEVICE_* */
	uint64_t bytes;			/* of the device that are used */
	uint64_t segment_bytes;
	uint64_t formatted;		/* seconds since 1970 */
	uint64_t checkpoint_records;	/* of the last checkpoint, on this device */
};

/**
 * kvtree_probe() - tell whether a device belongs to a durable store, and to which
 * @path: of a block device, or a file with the content of one
 * @device: filled in
 * @size: sizeof(*@device)
 *
 * Needs no module, and reads nothing but the superblocks: "kvtree store check" reads it all.
 *
 * Return: 0, or
 *	-ENODATA	it has no store, or something else was written over its beginning
 *	-EBADMSG	its superblocks are damaged
 *	-EOPNOTSUPP	the format is newer than this library
 *	-ENOENT, -EACCES, -EIO	it cannot be opened or read
 */
int kvtree_probe(const char *path, struct kvtree_device *device, size_t size);

/*
 * Columns
 * =======
 *
 * A value may be divided into columns with ids 0..255.  A put that names some
 * columns changes these atomically, and leaves the others or, with KVTREE_F_WHOLE,
 * removes them.
 */

/**
 * struct kvtree_column - one column of a value
 * @id: 0..255
 * @len: bytes at @data; KVTREE_COL_ABSENT for a column that does not exist (get)
 *	or should be removed (put)
 * @data: the column; need not be aligned
 */
struct kvtree_column {
	uint32_t id;
	uint32_t len;
	const void *data;
};

/**
 * struct kvtree_columns - what kvtree_get_cols() found
 * @version: the value's version
 * @nr: number of columns at @col
 * @col: the columns, in ascending order of id
 */
struct kvtree_columns {
	uint64_t version;
	size_t nr;
	struct kvtree_column *col;
};

/**
 * kvtree_get_cols() - read columns of a value
 * @kv: the session
 * @key: the key
 * @ids: the columns wanted, in strictly ascending order; NULL for all there are
 * @nr: elements at @ids
 * @cols: what was found, one block of memory with all data in it: free() it.
 *	With @ids there is one element for each id, with a len of
 *	KVTREE_COL_ABSENT for a column that the value lacks
 *
 * All columns are of the same version.
 *
 * Return: 0, or
 *	-ENOENT		the key does not exist
 */
int kvtree_get_cols(const struct kvtree *kv, struct kvtree_slice key,
		    const uint16_t *ids, size_t nr, struct kvtree_columns **cols);

/**
 * kvtree_put_cols() - change columns of a value
 * @kv: the session
 * @key: the key
 * @cols: the columns, in strictly ascending order of id
 * @nr: elements at @cols, which may be 0
 * @flags: as for kvtree_put(), and KVTREE_F_WHOLE: the value then consists of
 *	@cols; other columns are removed
 * @version: the version that the value got
 *
 * Return: as kvtree_put()
 */
int kvtree_put_cols(const struct kvtree *kv, struct kvtree_slice key,
		    const struct kvtree_column *cols, size_t nr,
		    unsigned int flags, uint64_t *version);

/**
 * kvtree_cas_cols() - change columns of a value if nobody has changed it
 * @kv: the session
 * @key: the key
 * @cols: the columns, in strictly ascending order of id
 * @nr: elements at @cols
 * @flags: as for kvtree_cas(), and KVTREE_F_WHOLE as for kvtree_put_cols()
 * @version: as for kvtree_cas()
 *
 * Return: as kvtree_cas()
 */
int kvtree_cas_cols(const struct kvtree *kv, struct kvtree_slice key,
		    const struct kvtree_column *cols, size_t nr,
		    unsigned int flags, uint64_t *version);

/*
 * Operation lists
 * ===============
 *
 * Many operations in one system call: collect them, run them, look at what
 * became of each.
 *
 *	kvtree_ops_new(&ops);
 *	for (i = 0; i < n; i++)
 *		kvtree_ops_put(ops, key[i], val[i], 0);
 *	err = kvtree_ops_run(ops, kv);
 *	for (i = 0; i < kvtree_ops_done(ops); i++)
 *		if (kvtree_ops_result(ops, i) < 0)
 *			...
 *	kvtree_ops_clear(ops);
 *
 * The operations are executed in order, independently: one that fails does
 * not stop the next, and other processes may see the state in between.  A list
 * has any length; the library splits it at the kernel's limit.
 * Adjacent gets are looked up together, which is the
 * fastest way to look up many keys.
 *
 * Keys and values are copied when an operation is added.  The calls that add
 * one return its number in the list (0, 1, ...) or a negative errno, in which
 * case the list is unchanged; if the kernel refuses an operation, its result
 * has the error.  The number counts up to INT_MAX.
 */

/**
 * kvtree_ops_new() - make an empty list
 * @ops: the list
 *
 * Return: 0 or -ENOMEM
 */
int kvtree_ops_new(struct kvtree_ops **ops);

/**
 * kvtree_ops_free() - free a list and all results in it
 * @ops: the list; NULL does nothing
 */
void kvtree_ops_free(struct kvtree_ops *ops);

/**
 * kvtree_ops_clear() - empty a list and keep its memory for the next
 * @ops: the list
 */
void kvtree_ops_clear(struct kvtree_ops *ops);

/**
 * kvtree_ops_get() - add a get
 * @ops: the list
 * @key: the key
 * @buf: where the value goes, valid until the list has run; NULL for memory of
 *	the list's own, which lives until kvtree_ops_clear()
 * @size: room for the value, in bytes
 *
 * Its result is the value's length, -ENOENT, or -EMSGSIZE if the value does
 * not fit; kvtree_ops_value() then tells the size needed.
 *
 * Return: the operation's number or a negative errno
 */
int kvtree_ops_get(struct kvtree_ops *ops, struct kvtree_slice key, void *buf,
		   size_t size);

/**
 * kvtree_ops_get_cols() - add a get of columns
 * @ops: the list
 * @key: the key
 * @ids: the columns wanted, in strictly ascending order; NULL for all there are
 * @nr: elements at @ids
 * @size: room for the data of all of these columns, in bytes
 *
 * kvtree_ops_columns() returns what was found.
 *
 * Return: the operation's number or a negative errno
 */
int kvtree_ops_get_cols(struct kvtree_ops *ops, struct kvtree_slice key,
			const uint16_t *ids, size_t nr, size_t size);

/**
 * kvtree_ops_put() - add a put; see kvtree_put()
 * @ops: the list
 * @key: the key
 * @val: the value
 * @flags: as for kvtree_put()
 *
 * Return: the operation's number or a negative errno
 */
int kvtree_ops_put(struct kvtree_ops *ops, struct kvtree_slice key,
		   struct kvtree_slice val, unsigned int flags);

/**
 * kvtree_ops_put_cols() - add a put of columns; see kvtree_put_cols()
 * @ops: the list
 * @key: the key
 * @cols: the columns, in strictly ascending order of id
 * @nr: elements at @cols
 * @flags: as for kvtree_put_cols()
 *
 * Return: the operation's number or a negative errno
 */
int kvtree_ops_put_cols(struct kvtree_ops *ops, struct kvtree_slice key,
			const struct kvtree_column *cols, size_t nr,
			unsigned int flags);

/**
 * kvtree_ops_cas() - add a compare-and-swap; see kvtree_cas()
 * @ops: the list
 * @key: the key
 * @val: the value
 * @flags: as for kvtree_cas()
 * @version: the version that the key must have, 0 for a key that does not exist
 *
 * Return: the operation's number or a negative errno
 */
int kvtree_ops_cas(struct kvtree_ops *ops, struct kvtree_slice key,
		   struct kvtree_slice val, unsigned int flags, uint64_t version);

/**
 * kvtree_ops_del() - add a removal; see kvtree_del()
 * @ops: the list
 * @key: the key
 * @flags: as for kvtree_del()
 * @version: with KVTREE_F_VERSION: the version that the key must have, else 0
 *
 * Return: the operation's number or a negative errno
 */
int kvtree_ops_del(struct kvtree_ops *ops, struct kvtree_slice key,
		   unsigned int flags, uint64_t version);

/**
 * kvtree_ops_add() - add an addition; see kvtree_add()
 * @ops: the list
 * @key: the key
 * @col: the column that holds the number
 * @delta: what to add
 * @flags: as for kvtree_add()
 *
 * Return: the operation's number or a negative errno
 */
int kvtree_ops_add(struct kvtree_ops *ops, struct kvtree_slice key,
		   unsigned int col, int64_t delta, unsigned int flags);

/**
 * kvtree_ops_run() - execute the operations that have not been executed
 * @ops: the list
 * @kv: the session
 *
 * Operations may be added after a run; the next run executes these.
 *
 * Return: 0 when all operations have been executed, whatever their results; or
 * a negative errno: the first kvtree_ops_done() operations have taken effect
 * and have their results, the others have not.  Another call executes the
 * rest.
 */
int kvtree_ops_run(struct kvtree_ops *ops, const struct kvtree *kv);

/**
 * kvtree_ops_count() - how many operations a list has
 * @ops: the list
 *
 * Return: their number
 */
size_t kvtree_ops_count(const struct kvtree_ops *ops);

/**
 * kvtree_ops_done() - how many operations have been executed
 * @ops: the list
 *
 * Return: their number; it is those with the lowest numbers
 */
size_t kvtree_ops_done(const struct kvtree_ops *ops);

/**
 * kvtree_ops_result() - what became of an operation
 * @ops: the list
 * @n: its number
 *
 * Return: at least 0 for success (for a get, the value's length), or the
 * negative errno that the call for a single key would return; -EINPROGRESS for
 * one that has not been executed or is not in the list
 */
int kvtree_ops_result(const struct kvtree_ops *ops, size_t n);

/**
 * kvtree_ops_value() - the value that a get found
 * @ops: the list
 * @n: its number
 * @len: the value's length in bytes, also after -EMSGSIZE
 *
 * Return: the value, in the caller's buffer, or in the list's memory and then valid
 * until kvtree_ops_clear() or kvtree_ops_free(); NULL if the operation is not a get
 * that succeeded
 */
const void *kvtree_ops_value(const struct kvtree_ops *ops, size_t n, size_t *len);

/**
 * kvtree_ops_columns() - the columns that a get of columns found
 * @ops: the list
 * @n: its number
 *
 * Return: the columns, valid until kvtree_ops_clear() or kvtree_ops_free(); NULL if
 * the operation is not a get of columns that succeeded
 */
const struct kvtree_columns *kvtree_ops_columns(const struct kvtree_ops *ops,
						size_t n);

/**
 * kvtree_ops_version() - the version that an operation found or made
 * @ops: the list
 * @n: its number
 *
 * Return: the version, as the call for a single key would return it; 0 if
 * there is none
 */
uint64_t kvtree_ops_version(const struct kvtree_ops *ops, size_t n);

/**
 * kvtree_ops_sum() - the number after an addition
 * @ops: the list
 * @n: its number
 *
 * Return: the sum; 0 if the operation is not an addition that succeeded
 */
int64_t kvtree_ops_sum(const struct kvtree_ops *ops, size_t n);

/**
 * kvtree_submit() - execute operations that the caller laid out
 * @kv: the session
 * @op: the operations, as <linux/kvtree.h> describes them
 * @nr: their number, not limited by KVTREE_BATCH_MAX
 * @done: how many were executed, also on failure
 *
 * The layer below all other calls: it divides long arrays, goes on after
 * signals, and does nothing else.  Not for KVTREE_F_* that need a longer
 * struct kvtree_op than the library was compiled with.
 *
 * Return: 0 when all were executed, whatever their results; or a negative errno
 */
int kvtree_submit(const struct kvtree *kv, struct kvtree_op *op, size_t nr,
		  size_t *done);

/*
 * Cursors
 * =======
 *
 * A cursor goes through the records of a range of keys, in both directions.
 *
 *	struct kvtree_cursor_opts opts = {
 *		.size = sizeof(opts), .prefix = "user:", .prefix_len = 5,
 *	};
 *
 *	err = kvtree_cursor_open(kv, &opts, &c);
 *	while (!err && !(err = kvtree_cursor_next(c))) {
 *		key = kvtree_cursor_key(c, &key_len);
 *		val = kvtree_cursor_value(c, &len);
 *		...
 *	}
 *	if (err != -ENOENT)
 *		...
 *	kvtree_cursor_close(c);
 *
 * A cursor is at a record, before the first or after the last one.  A new cursor
 * is before the first.  "First", "next" and "last" follow the cursor's order, which
 * KVTREE_CURSOR_REVERSE reverses.
 *
 * A cursor reads many records ahead in one system call, so each shows the value
 * at the time of reading; kvtree_cursor_seek() reads afresh.  A scan is not a
 * snapshot: keys that are stored or removed during the scan may or may not be
 * returned.  Any other key of the range is returned exactly once, and keys come
 * strictly in order.
 */

/* Flags of a cursor. */
#define KVTREE_CURSOR_REVERSE	(1u << 0)	/* from the greatest key down */
#define KVTREE_CURSOR_KEYS_ONLY	(1u << 1)	/* read no values */
#define KVTREE_CURSOR_ALL_COLS	(1u << 2)	/* read every column */
#define KVTREE_CURSOR_END	(1u << 3)	/* there is an end, also if it is the empty key */

/**
 * struct kvtree_cursor_opts - what a cursor goes through
 * @size: sizeof(struct kvtree_cursor_opts)
 * @flags: KVTREE_CURSOR_*
 * @max_records: records to read ahead at the most; 0: as many as fit
 * @start: the range begins with this key (it belongs to the range)
 * @start_len: bytes at @start; 0: the range has no beginning
 * @end: the range ends before this key (it does not belong to the range)
 * @end_len: bytes at @end; 0: the range has no end, unless KVTREE_CURSOR_END is set: no key is
 *	below the empty one
 * @prefix: only keys that begin with this
 * @prefix_len: bytes at @prefix
 * @cols: ids of the columns to read, in strictly ascending order; NULL: the
 *	value is read as one byte string
 * @ncols: elements at @cols
 * @buffer: bytes to read ahead at the most, 0 for 64 KiB.  The first read
 *	is of 4 KiB or less, then it doubles.  A record that is longer is read
 *	nevertheless
 * @filter: id of the store's filter that chooses the records, see
 *	kvtree_bpf_hook_next(); 0: all of the range
 * @reserved: 0
 *
 * The range is a set of keys and does not depend on the order: with
 * KVTREE_CURSOR_REVERSE the cursor begins at the range's greatest key, below
 * @end, and goes down to @start.  Range and prefix apply both if both are
 * given.  Fields that are not used are zero.
 */
struct kvtree_cursor_opts {
	size_t size;
	unsigned int flags;
	unsigned int max_records;
	const void *start;
	size_t start_len;
	const void *end;
	size_t end_len;
	const void *prefix;
	size_t prefix_len;
	const uint16_t *cols;
	size_t ncols;
	size_t buffer;
	unsigned int filter;
	unsigned int reserved;
};

/**
 * kvtree_cursor_open() - make a cursor
 * @kv: the session; it must stay open as long as the cursor
 * @opts: what to go through, copied; NULL for all records, ascending
 * @cursor: the cursor; NULL after an error, which kvtree_cursor_close() takes, too
 *
 * Makes no system call.
 *
 * Return: 0, or
 *	-EINVAL		an unknown flag, or more than one way to select columns
 *	-E2BIG		a key is too long, there are too many columns, or @opts
 *			uses fields that this library does not know
 *	-ENOMEM		no memory
 */
int kvtree_cursor_open(const struct kvtree *kv,
		       const struct kvtree_cursor_opts *opts,
		       struct kvtree_cursor **cursor);

/**
 * kvtree_cursor_close() - free a cursor
 * @cursor: the cursor; NULL does nothing
 */
void kvtree_cursor_close(struct kvtree_cursor *cursor);

/**
 * kvtree_cursor_next() - go to the next record
 * @cursor: the cursor
 *
 * After any error but -ENOENT the cursor has not moved, and the call can be
 * repeated.
 *
 * Return: 0, or
 *	-ENOENT		there is no next one; the cursor is after the last
 *	-ENXIO		the store has no filter of that id (any more)
 */
int kvtree_cursor_next(struct kvtree_cursor *cursor);

/**
 * kvtree_cursor_prev() - go to the previous record
 * @cursor: the cursor
 *
 * From after the last record it goes to the last one.
 *
 * Return: 0, or
 *	-ENOENT		there is none; the cursor is before the first
 */
int kvtree_cursor_prev(struct kvtree_cursor *cursor);

/**
 * kvtree_cursor_first() - go to the first record
 * @cursor: the cursor
 *
 * Return: 0, or
 *	-ENOENT		there is none; the cursor is after the last
 */
int kvtree_cursor_first(struct kvtree_cursor *cursor);

/**
 * kvtree_cursor_last() - go to the last record
 * @cursor: the cursor
 *
 * Return: 0, or
 *	-ENOENT		there is none; the cursor is before the first
 */
int kvtree_cursor_last(struct kvtree_cursor *cursor);

/**
 * kvtree_cursor_seek() - go to a key
 * @cursor: the cursor
 * @key: the key
 *
 * Goes to the record with this key or, if it does not exist, to the next one in
 * the cursor's order: the least key above it, or with KVTREE_CURSOR_REVERSE
 * the greatest one below it.  The key may be outside the range.
 *
 * Return: 0, or
 *	-ENOENT		there is none; the cursor is after the last
 */
int kvtree_cursor_seek(struct kvtree_cursor *cursor, struct kvtree_slice key);

/**
 * kvtree_cursor_key() - the key of the record
 * @cursor: the cursor
 * @len: bytes in the key
 *
 * Return: the key, valid until the cursor moves; NULL if the cursor is not at a
 * record
 */
const void *kvtree_cursor_key(const struct kvtree_cursor *cursor, size_t *len);

/**
 * kvtree_cursor_value() - the value of the record
 * @cursor: the cursor
 * @len: bytes in the value
 *
 * Return: the value, valid until the cursor moves; NULL if the cursor is not at a
 * record, or reads only keys, or reads columns
 */
const void *kvtree_cursor_value(const struct kvtree_cursor *cursor, size_t *len);

/**
 * kvtree_cursor_columns() - the columns of the record
 * @cursor: a cursor with columns or KVTREE_CURSOR_ALL_COLS
 *
 * Columns that the value lacks are left out.
 *
 * Return: the columns, valid until the cursor moves; NULL if the cursor is not at
 * a record, or does not read columns
 */
const struct kvtree_columns *
kvtree_cursor_columns(const struct kvtree_cursor *cursor);

/**
 * kvtree_cursor_version() - the version of the record
 * @cursor: the cursor
 *
 * Return: the version; 0 if the cursor is not at a record
 */
uint64_t kvtree_cursor_version(const struct kvtree_cursor *cursor);

/*
 * Rings
 * =====
 *
 * A ring keeps many operations in progress at once: queue them, submit them, and
 * reap completions.  It is an io_uring if the kernel offers that, and uses batches
 * of system calls otherwise.
 *
 *	struct kvtree_event ev[64];
 *
 *	err = kvtree_ring_open(kv, NULL, &ring);
 *	for (i = 0; i < 64; i++)
 *		kvtree_ring_get(ring, key[i], buf[i], sizeof(buf[i]),
 *				kvtree_as_event(&request[i]));
 *	for (done = 0; done < 64; done += n) {
 *		n = kvtree_ring_wait(ring, ev, 64, 1, -1);
 *		for (i = 0; i < n; i++)
 *			finish(ev[i].data, ev[i].result, ev[i].version);
 *	}
 *	kvtree_ring_close(ring);
 *
 * Operations of a ring complete in any order.  Queue one that depends on another
 * only when that has completed.  A key of up to KVTREE_KEY_INLINE bytes is copied
 * when the operation is queued.  Do not modify a longer key, or anything else that
 * the operation points to, until the operation has completed.
 *
 * A ring belongs to the thread that opened it; with KVTREE_RING_SQPOLL it may be
 * passed on.  A session may have any number of rings.  A ring does not survive
 * fork().
 */

struct kvtree_ring;	/* operations in progress */

#define KVTREE_RING_SQPOLL	(1u << 0)	/* a kernel thread submits */
#define KVTREE_RING_BY_POINTER	(1u << 1)	/* SQEs of 64 bytes: saves memory */
#define KVTREE_RING_NO_URING	(1u << 2)	/* never use io_uring */

/**
 * struct kvtree_ring_opts - options of a ring
 * @size: sizeof(struct kvtree_ring_opts)
 * @depth: maximum number of pending operations, 0 for 256
 * @flags: KVTREE_RING_*
 * @idle_ms: KVTREE_RING_SQPOLL: when the thread goes to sleep, 0 for 1000
 * @buffers: memory for gets, puts and scans to register with the kernel, which
 *	makes large values cheaper, and which must stay until the ring is closed; NULL
 *	for none.  The array may go after kvtree_ring_open()
 * @nr_buffers: elements at @buffers
 *
 * Fields that are not used are zero.
 */
struct kvtree_ring_opts {
	size_t size;
	unsigned int depth;
	unsigned int flags;
	unsigned int idle_ms;
	unsigned int nr_buffers;
	const struct iovec *buffers;
};

/**
 * struct kvtree_event - what became of an operation
 * @data: as given when it was queued
 * @result: at least 0 for success (for a get the value's length, for a scan the
 *	bytes of records, for a list 0), or the negative errno that the call for
 *	a single key would return; -ECANCELED also for one that was canceled
 * @len: after a get with -EMSGSIZE: the bytes needed
 * @version: the version found or made; 0 if there is none
 * @sum: after an addition: the number
 * @op: kvtree_ring_op(): the operation, with what the kernel gave back; NULL
 *	for the others
 */
struct kvtree_event {
	void *data;
	int result;
	uint32_t len;
	uint64_t version;
	int64_t sum;
	struct kvtree_op *op;
};

/**
 * typedef kvtree_ring_fn - called when an operation has completed
 * @ring: the ring
 * @event: what became of the operation, valid during the call
 *
 * Called by kvtree_ring_wait() and kvtree_ring_close().  It may queue
 * operations; it must not wait for or close the ring.
 */
typedef void (*kvtree_ring_fn)(struct kvtree_ring *ring, const struct kvtree_event *event);

/**
 * struct kvtree_callback - what follows when an operation has completed
 * @fn: called with the event; NULL: kvtree_ring_wait() returns the event
 * @data: for the event
 *
 * kvtree_callback() and kvtree_as_event() make one.
 */
struct kvtree_callback {
	kvtree_ring_fn fn;
	void *data;
};

/**
 * kvtree_callback() - have a function called when an operation has completed
 * @fn: the function
 * @data: for the event, and to name the operation to kvtree_ring_cancel()
 *
 * Return: an argument for the calls that queue operations
 */
static inline struct kvtree_callback kvtree_callback(kvtree_ring_fn fn, void *data)
{
	struct kvtree_callback then;

	then.fn = fn;
	then.data = data;
	return then;
}

/**
 * kvtree_as_event() - have kvtree_ring_wait() return an operation's event
 * @data: for the event, and to name the operation to kvtree_ring_cancel()
 *
 * Return: an argument for the calls that queue operations
 */
static inline struct kvtree_callback kvtree_as_event(void *data)
{
	return kvtree_callback(NULL, data);
}

/**
 * kvtree_ring_open() - make a ring
 * @kv: the session; it must stay open as long as the ring
 * @opts: how; NULL for a depth of 256 and nothing special
 * @ring: the ring; NULL after an error
 *
 * A kernel that has no io_uring for kvtree, or does not allow the process to use
 * one, gives a ring that does system calls.
 *
 * Return: 0, or
 *	-E2BIG		@opts uses fields that this library does not know, or
 *			@depth is more than 32768
 *	-ENOMEM		no memory, or RLIMIT_MEMLOCK is too low
 *	-EFAULT		a buffer that cannot be registered
 */
int kvtree_ring_open(const struct kvtree *kv, const struct kvtree_ring_opts *opts,
		     struct kvtree_ring **ring);

/**
 * kvtree_ring_close() - end a ring
 * @ring: the ring; NULL does nothing
 *
 * Operations that were queued and not submitted are dropped (-ECANCELED).  Those
 * that wait are canceled; for the others it waits.  Callbacks are called; what
 * they queue is refused with -ECANCELED.  Events are dropped.
 *
 * A ring with nothing pending may be ended by any thread.  In a child made by
 * fork() the call frees the child's memory and does nothing else.
 */
void kvtree_ring_close(struct kvtree_ring *ring);

/**
 * kvtree_ring_uses_uring() - whether it is an io_uring
 * @ring: the ring
 *
 * Return: 1, or 0 if it does system calls
 */
int kvtree_ring_uses_uring(const struct kvtree_ring *ring);

/**
 * kvtree_ring_pending() - operations queued, in progress, or not yet reaped
 * @ring: the ring
 *
 * Return: their number
 */
unsigned int kvtree_ring_pending(const struct kvtree_ring *ring);

/**
 * kvtree_ring_get() - queue a get
 * @ring: the ring
 * @key: the key
 * @buf: where the value goes
 * @size: room at @buf, in bytes
 * @then: what follows when it has completed: kvtree_as_event() or kvtree_callback()
 *
 * Return: 0, or
 *	-EAGAIN		as many operations as the ring's depth are pending
 */
int kvtree_ring_get(struct kvtree_ring *ring, struct kvtree_slice key, void *buf,
		    size_t size, struct kvtree_callback then);

/**
 * kvtree_ring_put() - queue a put; see kvtree_put()
 * @ring: the ring
 * @key: the key
 * @val: the value
 * @flags: as for kvtree_put()
 * @then: as for kvtree_ring_get()
 *
 * Return: 0 or -EAGAIN
 */
int kvtree_ring_put(struct kvtree_ring *ring, struct kvtree_slice key,
		    struct kvtree_slice val, unsigned int flags,
		    struct kvtree_callback then);

/**
 * kvtree_ring_cas() - queue a compare-and-swap; see kvtree_cas()
 * @ring: the ring
 * @key: the key
 * @val: the value
 * @flags: as for kvtree_cas()
 * @version: the version that the key must have, 0 for a key that does not exist
 * @then: as for kvtree_ring_get()
 *
 * Return: 0 or -EAGAIN
 */
int kvtree_ring_cas(struct kvtree_ring *ring, struct kvtree_slice key,
		    struct kvtree_slice val, unsigned int flags,
		    uint64_t version, struct kvtree_callback then);

/**
 * kvtree_ring_del() - queue a removal; see kvtree_del()
 * @ring: the ring
 * @key: the key
 * @flags: as for kvtree_del()
 * @version: with KVTREE_F_VERSION: the version that the key must have, else 0
 * @then: as for kvtree_ring_get()
 *
 * Return: 0 or -EAGAIN
 */
int kvtree_ring_del(struct kvtree_ring *ring, struct kvtree_slice key,
		    unsigned int flags, uint64_t version,
		    struct kvtree_callback then);

/**
 * kvtree_ring_add() - queue an addition; see kvtree_add()
 * @ring: the ring
 * @key: the key
 * @col: the column that holds the number
 * @delta: what to add
 * @flags: as for kvtree_add()
 * @then: as for kvtree_ring_get()
 *
 * Return: 0 or -EAGAIN
 */
int kvtree_ring_add(struct kvtree_ring *ring, struct kvtree_slice key,
		    unsigned int col, int64_t delta, unsigned int flags,
		    struct kvtree_callback then);

/**
 * kvtree_ring_sync() - queue a sync; see kvtree_sync()
 * @ring: the ring
 * @then: as for kvtree_ring_get()
 *
 * Covers what had completed when it was submitted.
 *
 * Return: 0 or -EAGAIN
 */
int kvtree_ring_sync(struct kvtree_ring *ring, struct kvtree_callback then);

/**
 * kvtree_ring_op() - queue any operation
 * @ring: the ring
 * @op: the operation, as <linux/kvtree.h> describes it; it is the event's @op,
 *	must stay until then, and is what the kernel gave back after that
 * @then: as for kvtree_ring_get()
 *
 * For columns and scans, and for programs that lay operations out themselves.
 *
 * Return: 0 or -EAGAIN
 */
int kvtree_ring_op(struct kvtree_ring *ring, struct kvtree_op *op,
		   struct kvtree_callback then);

/**
 * kvtree_ring_ops() - queue an operation list
 * @ring: the ring
 * @ops: the list; no one else may use it until it has completed
 * @then: as for kvtree_ring_get()
 *
 * The operations of the list that have not been executed are, in order, as
 * kvtree_ops_run() does it; the list then tells what became of each.
 *
 * Return: 0 or -EAGAIN
 */
int kvtree_ring_ops(struct kvtree_ring *ring, struct kvtree_ops *ops,
		    struct kvtree_callback then);

/**
 * kvtree_ring_submit() - begin what was queued
 * @ring: the ring
 *
 * kvtree_ring_wait() does it, too.  Operations that could not be submitted are
 * still queued, whatever it returns: the next call submits them, and
 * kvtree_ring_cancel() cancels them.
 *
 * With KVTREE_RING_SQPOLL the kernel's thread takes them later.
 * -EAGAIN says that it sleeps and could not be woken: the next call wakes it, and
 * until then it may begin them at any time.
 *
 * Return: the number of operations submitted, or
 *	-EAGAIN		the kernel has no memory for them now
 *	-EEXIST		another thread made the ring
 */
int kvtree_ring_submit(struct kvtree_ring *ring);

/**
 * kvtree_ring_wait() - submit what was queued, and reap what has completed
 * @ring: the ring
 * @events: filled in, for operations without a callback; may be NULL if there
 *	are none
 * @nr: room at @events
 * @min: wait until this many operations have completed, including those with a
 *	callback, or none is pending, or there is no room at @events for an event
 *	that has come; 0: do not wait
 * @timeout_ms: the maximum time to wait; -1: no limit
 *
 * Submits what callbacks have queued before it returns.
 *
 * Return: the number of events at @events, which may be less than @min if time
 * or a signal ended the wait; or
 *	-EINTR		a signal handler ran, before anything completed
 *	-ETIME		the time is over, and nothing has completed
 *	-EAGAIN		as kvtree_ring_submit(), and nothing has completed
 */
int kvtree_ring_wait(struct kvtree_ring *ring, struct kvtree_event *events,
		     unsigned int nr, unsigned int min, int timeout_ms);

/**
 * kvtree_ring_cancel() - cancel operations that wait
 * @ring: the ring
 * @data: those that were queued with this; NULL: all
 *
 * They complete with -ECANCELED.  An operation that is being executed is not
 * stopped.
 *
 * Return: the number of operations canceled, also of those that were only queued; or a
 * negative errno
 */
int kvtree_ring_cancel(struct kvtree_ring *ring, const void *data);

/**
 * kvtree_ring_eventfd() - a descriptor for event loops
 * @ring: the ring
 *
 * It is readable (poll(), epoll) when there is something to reap; read 8 bytes
 * of it before kvtree_ring_wait() with @min 0.  It stays the ring's: do not
 * close it.
 *
 * Return: the descriptor or a negative errno
 */
int kvtree_ring_eventfd(struct kvtree_ring *ring);

#ifdef __cplusplus
}
#endif

#endif /* _KVTREE_H */
