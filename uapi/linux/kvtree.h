/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * kvtree - the interface between the kernel module and user space.
 *
 * A session is an open file descriptor.  Opening /dev/kvtree gives a session
 * on the store named "default", with as much of the access that the file was
 * opened for as the opener may have (perhaps none: EACCES from operations);
 * KVTREE_IOC_STORE_OPEN gives a new descriptor on another store.  What a session
 * may do is fixed when it is opened, from the credentials of the opener and the
 * store's uid, gid and mode: owner, group or others as for a file, with
 * CAP_DAC_OVERRIDE above all and CAP_DAC_READ_SEARCH for reading.
 *
 * Rules for every structure below:
 *
 * - The layout is the same for 32-bit and 64-bit callers; pointers are __u64.
 * - Reserved fields, unused fields and unknown flags must be zero, or the call
 *   fails with EINVAL.
 * - Structures only grow, at the end.  The size in the ioctl number, or
 *   the one passed along with a pointer, is the one that the caller was compiled
 *   with.  A kernel with a longer structure reads the missing tail as zeros; one
 *   with a shorter structure accepts a longer one only if the unknown part is zero
 *   (E2BIG otherwise).
 * - A call that fails has changed nothing, except as described at KVTREE_IOC_BATCH.
 *
 * Documentation/abi.rst lists every operation, flag, limit and errno.
 */
#ifndef _UAPI_LINUX_KVTREE_H
#define _UAPI_LINUX_KVTREE_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define KVTREE_ABI_VERSION	1

/* Limits. */
/* kvtree.yaml: limits */
#define KVTREE_KEY_MAX		4096u		/* bytes in a key */
#define KVTREE_VALUE_MAX	(1u << 20)	/* bytes in all columns of a value */
#define KVTREE_COLS_MAX		256u		/* columns in a value, ids 0 to 255 */
#define KVTREE_BATCH_MAX	4096u		/* operations in one batch */
#define KVTREE_KEY_INLINE	16u		/* bytes of a key kept in its operation */
#define KVTREE_NAME_MAX		64u		/* bytes in a store's name, with the NUL */
#define KVTREE_ENGINE_MAX	16u		/* bytes in an engine's name, with the NUL */
/* kvtree.yaml: end */

/*
 * Operations
 * ==========
 *
 * A value is a version and up to 256 columns, each an uninterpreted byte
 * string.  An operation without KVTREE_F_COLS sees a value as one byte string,
 * column 0: a put replaces the whole value by column 0, a get returns column 0.
 *
 * An operation with KVTREE_F_COLS names a subset of columns: `arg` points to
 * `ncols` descriptors (struct kvtree_col) in strictly ascending order of id.
 * Their data are in the buffer `val`, one after the other in that order,
 * without padding.  A value may have no columns at all.
 *
 * Each operation has its own result, at least 0 or one of these:
 *
 *	EINVAL		malformed: an unknown opcode or flag, flags that exclude
 *			each other, a field not in use that is not zero, column ids
 *			out of order or range, lengths that do not add up
 *	E2BIG		larger than a limit above
 *	EACCES		the session may not do this: GET and SCAN need
 *			KVTREE_OPEN_READ, ADD both, the other changes and
 *			SYNC KVTREE_OPEN_WRITE
 *	EFAULT		key, val, arg or what it points to is not accessible
 *	ENOENT		the key does not exist
 *	EEXIST		the key exists
 *	ECANCELED	the version is another one
 *	EMSGSIZE	the buffer is too small
 *	EDQUOT		the store's limit of bytes or keys
 *	EKEYREJECTED	the store's validator refused the new value
 *	ENXIO		SCAN: the store has no filter of that id
 *	EOPNOTSUPP	the store is not durable (SYNC, KVTREE_F_SYNC)
 *	ENOMEM		no memory
 *	ESTALE		the store was destroyed
 *	EINTR		a fatal signal came
 *
 * An operation that fails has changed nothing in the store and none of its input
 * fields, except `val_len` and `ncols` after EMSGSIZE and `version`
 * after ECANCELED.  Fields that are only output (`result`; `version`, except for CAS
 * and for REMOVE with KVTREE_F_VERSION) are not read, and are undefined after a
 * failure, except `version`: it is 0 after ENOENT, and that of the value found after
 * EEXIST and EMSGSIZE.
 */
enum kvtree_opcode {
	KVTREE_OP_NOP		= 0,	/* does nothing, result 0 */
	/*
	 * Copy a value, or the named columns, to val[0..val_len).  result: the
	 * bytes copied; the rest of the buffer may be overwritten if the value
	 * changes meanwhile.  If the value does not fit: EMSGSIZE, val_len is set
	 * to the bytes needed, and nothing is copied.  A value without column 0 reads
	 * as empty.  With KVTREE_F_COLS the descriptors come back with their
	 * lengths, KVTREE_COL_ABSENT for a column that the value lacks.
	 * With KVTREE_F_ALL_COLS `ncols` is the room in descriptors: the
	 * columns that exist are described, ncols becomes their number, and
	 * EMSGSIZE means that there are more (ncols is then the number needed;
	 * `arg` is undefined).
	 */
	KVTREE_OP_GET		= 1,
	/*
	 * Store val[0..val_len) under the key.  With KVTREE_F_COLS only the
	 * named columns change, all at once; a descriptor with the len
	 * KVTREE_COL_ABSENT removes its column.  With KVTREE_F_WHOLE as well,
	 * all columns that are not named are removed.
	 * KVTREE_F_CREATE: EEXIST if the key exists.  KVTREE_F_REPLACE:
	 * ENOENT if it does not.
	 */
	KVTREE_OP_PUT		= 2,
	/*
	 * A put that succeeds only if the value's version is `version`;
	 * version 0 means that the key does not exist.  Otherwise ECANCELED, and
	 * `version` becomes the version found (0 if there is none).
	 */
	KVTREE_OP_CAS		= 3,
	/*
	 * Remove the key; ENOENT if it does not exist.  With KVTREE_F_VERSION
	 * only if its version is `version` (ECANCELED as for CAS).  `version`
	 * becomes that of the value removed.
	 */
	KVTREE_OP_REMOVE	= 4,
	/*
	 * Add `arg` (two's complement, wraps) to the 8-byte little-endian
	 * number in column `col`; a key or column that does not exist counts as
	 * 0 and is created, unless KVTREE_F_REPLACE (ENOENT).  `arg` becomes the
	 * number before the addition.  EINVAL if the column is not 8 bytes long.
	 */
	KVTREE_OP_ADD		= 5,
	/*
	 * Copy the records of a range of keys, in order, to val[0..val_len):
	 * see struct kvtree_scan, to which `arg` points.  `arg_size` is its size
	 * (E2BIG: longer than 4096 bytes, or a part unknown to the kernel is not
	 * zero).  The key is where the scan starts.  result: the bytes
	 * filled.
	 */
	KVTREE_OP_SCAN		= 6,
	/* Wait until all earlier changes, by any process, are durable. */
	KVTREE_OP_SYNC		= 7,

	KVTREE_OP_NR
};

/* Flags of an operation. */
/* kvtree.yaml: op_flags */
#define KVTREE_F_KEY_INLINE	(1u << 0)	/* all with a key: the key is in `key_inline` */
#define KVTREE_F_COLS		(1u << 1)	/* GET, PUT, CAS: `arg` points to descriptors */
#define KVTREE_F_ALL_COLS	(1u << 2)	/* GET with COLS: all columns of the value */
#define KVTREE_F_CREATE		(1u << 3)	/* PUT: only if the key does not exist */
#define KVTREE_F_REPLACE	(1u << 4)	/* PUT, ADD: only if key (ADD: column) exists */
#define KVTREE_F_VERSION	(1u << 5)	/* REMOVE: only at this version */
#define KVTREE_F_SYNC		(1u << 6)	/* PUT, CAS, REMOVE, ADD: complete when durable */
#define KVTREE_F_WHOLE		(1u << 7)	/* PUT, CAS with COLS: remove all other columns */
/* kvtree.yaml: end */

/* A column of a value; see KVTREE_F_COLS. */
struct kvtree_col {
	__u16 id;		/* 0..255 */
	__u16 reserved;
	__u32 len;		/* bytes, or KVTREE_COL_ABSENT */
};

#define KVTREE_COL_ABSENT	0xffffffffu

/* One operation. */
struct kvtree_op {
	__u8  opcode;		/* enum kvtree_opcode */
	__u8  col;		/* ADD: the column */
	__u16 flags;		/* KVTREE_F_* */
	__u16 key_len;		/* bytes */
	union {
		__u16 ncols;	/* descriptors at `arg`; in and out */
		__u16 arg_size;	/* SCAN: bytes of struct kvtree_scan at `arg` */
	};
	__u32 val_len;		/* bytes at `val`; in and out */
	__s32 result;		/* out: at least 0, or a negative errno */
	union {
		struct {
			__u64 key;		/* pointer */
			__u64 key_reserved;
		};
		__u8 key_inline[KVTREE_KEY_INLINE];
	};
	__u64 val;		/* pointer */
	__u64 version;		/* in: CAS, REMOVE; out: found, made or removed, 0: no key */
	__u64 arg;		/* pointer to columns or scan, or ADD's operand; in and out */
	__u64 reserved;
};

/*
 * A scan.  Records are returned in ascending order of their keys, from the
 * start key on (or descending from the start key with KVTREE_SCAN_REVERSE),
 * until `limit` records, the end of the buffer, or a key outside of the range.
 *
 * The range ends at `end`, in the direction of the scan, if end_len is not 0 or
 * KVTREE_SCAN_END is set; `end` itself is in it only with KVTREE_SCAN_END_INCL.
 * It also ends at the last key that begins with the first prefix_len bytes of
 * the start key if KVTREE_SCAN_PREFIX is set.  With KVTREE_SCAN_LAST in place of
 * a start key (key_len 0), a reverse scan starts at the end of the range: at the
 * last key of the store, or, with KVTREE_SCAN_PREFIX and the prefix as the key,
 * at the last key that begins with it.
 *
 * To resume, pass the last key that was returned as start key together with
 * KVTREE_SCAN_AFTER.  For a prefix scan, keep prefix_len.
 *
 * If not even the first record fits: EMSGSIZE, and val_len is set to the bytes
 * needed.
 *
 * With filter_id the scan returns only records that this filter of the store accepts
 * (see KVTREE_IOC_BPF_HOOK).  After many rejected records the scan ends early, with a
 * mark after the records returned: it has the flag KVTREE_REC_MARK, no value, and the key of
 * the last rejected record, from which the scan can be resumed.  `count` and `limit`
 * do not include marks.
 */
struct kvtree_scan {
	__u64 end;		/* pointer to the key where the range ends */
	__u16 end_len;		/* bytes */
	__u16 prefix_len;	/* bytes of the start key */
	__u32 flags;		/* KVTREE_SCAN_* */
	__u32 limit;		/* maximum number of records, 0: no limit */
	__u32 count;		/* out: records returned */
	__u32 filter_id;	/* 0: no filter */
	__u32 out_flags;	/* out: KVTREE_SCAN_DONE */
	__u64 cols;		/* pointer to ids (__u16), ascending; 0: column 0 alone */
	__u16 ncols;		/* ids at cols */
	__u16 reserved[3];
	__u64 reserved2[2];
};

/* kvtree.yaml: scan_flags */
#define KVTREE_SCAN_REVERSE	(1u << 0)	/* in descending order */
#define KVTREE_SCAN_KEYS_ONLY	(1u << 1)	/* records without values */
#define KVTREE_SCAN_AFTER	(1u << 2)	/* the start key itself is not returned */
#define KVTREE_SCAN_PREFIX	(1u << 3)	/* only keys that begin with the prefix */
#define KVTREE_SCAN_END		(1u << 4)	/* the range ends at `end`, even if empty */
#define KVTREE_SCAN_LAST	(1u << 5)	/* REVERSE: from the end of the range */
#define KVTREE_SCAN_ALL_COLS	(1u << 6)	/* records with every column */
#define KVTREE_SCAN_END_INCL	(1u << 7)	/* `end` itself is in the range */
/* kvtree.yaml: end */

/* out_flags */
#define KVTREE_SCAN_DONE	(1u << 0)	/* the range is exhausted */

/*
 * A record in the buffer of a scan.  Records begin at multiples of 8 bytes from
 * where the scan's bytes begin; the next one starts rec_len bytes after the start
 * of this one.  The key starts hdr_len bytes after the start of the record, and
 * the value follows the key.
 *
 * The value is column 0, val_len bytes.  With KVTREE_REC_COLS (a scan with
 * columns) it is ncols struct kvtree_col, unaligned, then their data; columns
 * that the value lacks are left out, so ncols may be 0.
 */
struct kvtree_rec {
	__u32 rec_len;
	__u16 hdr_len;
	__u16 key_len;
	__u32 val_len;
	__u16 ncols;
	__u16 flags;		/* KVTREE_REC_* */
	__u64 version;
};

#define KVTREE_REC_COLS		(1u << 0)	/* the value begins with descriptors */
#define KVTREE_REC_MARK		(1u << 1)	/* not a record: how far a filtered scan got */
#define KVTREE_REC_SKIP		(1u << 2)	/* not a record: the rest of a buffer, unused */

/*
 * KVTREE_IOC_BATCH
 * ================
 *
 * Executes nr operations in order.  The call itself returns 0 if every
 * operation was executed, whatever their results; `done` is their number.
 * It fails with EFAULT if an operation or its outcome could not be copied, with
 * ESTALE if the store was destroyed, and is interrupted by a fatal signal
 * (EINTR).  In these cases `done` operations took effect, and their results are in
 * the array.  (If an outcome could not be copied, the operation after those took
 * effect as well.)  After a signal that is not fatal the call returns success with
 * done < nr, and the caller submits the rest again.  If the signal comes before any
 * operation has an outcome, the call is restarted or returns EINTR, as other
 * interrupted calls do (SA_RESTART).  EIO, which takes precedence over
 * all other errors, means that changes took effect and could not be made durable as
 * requested.  Malformed batches: EINVAL, E2BIG; no memory at the beginning: ENOMEM; nothing
 * was executed then.
 *
 * Operations are copied in and out whole.  They are read ahead, and consecutive GETs
 * are executed together.  So an operation must not point into the array, and its key
 * and descriptors must not be in a buffer to which an earlier GET of the batch copies
 * its value.
 */
struct kvtree_batch {
	__u64 ops;		/* pointer to the operations */
	__u32 nr;		/* 0..KVTREE_BATCH_MAX */
	__u32 op_size;		/* bytes from one operation to the next, at least 64 */
	__u32 done;		/* out */
	__u32 flags;		/* 0 */
	__u64 reserved[2];
};

/*
 * KVTREE_IOC_OP
 * =============
 *
 * Executes one operation like a batch of one, at less cost: the argument is the
 * operation itself.  Returns 0 if it was executed, whatever its `result`.
 */

/*
 * io_uring
 * ========
 *
 * IORING_OP_URING_CMD on a session executes operations as well.  sqe->cmd_op is
 * one of KVTREE_URING_*, sqe->cmd its argument.  cqe->res is the operation's
 * result; on a ring with CQEs of 32 bytes (IORING_SETUP_CQE32) big_cqe[0] is
 * its `version`, and big_cqe[1] is 0.
 *
 * A command that need not sleep runs during its submission.  One that meets a page
 * that is not present, or memory that cannot be allocated without sleeping, is
 * handed to io_uring's workers (except multishot scans).  So is a batch that has to
 * wait for an event before its first operation.  Any other change that has to wait
 * for an event (the store's garbage bound; room in the log) waits without a thread.
 * It holds no data meanwhile: after the event, the thread that submitted it executes
 * it again from the beginning.  A command that has to be durable waits
 * without a thread as well.  Do not modify anything that a command points to until the
 * command completes.
 *
 * Errors in addition to those of operations:
 *
 *	EINVAL		malformed: an unknown argument or flag, an SQE that is too
 *			short or has an addr, len, file_index or (without buffers)
 *			buf_index other than 0, registered or provided buffers where
 *			there is no `val` or for a batch
 *	EOPNOTSUPP	an unknown command; no KVTREE_FEAT_URING_MULTISHOT; a ring
 *			that polls, without KVTREE_FEAT_URING_IOPOLL; a multishot
 *			scan with IOSQE_ASYNC
 *	EFAULT		the operation or its outcome cannot be copied.  In the
 *			second case a change may have taken effect.  (The outcome
 *			is also lost if the submitting thread has exited.)
 *	ECANCELED	canceled before it was executed: nothing has changed.  (Also
 *			the result of a CAS that found another version.)
 *	EINTR		executed, and canceled while it waited to be durable: it may
 *			or may not become durable
 *
 * Registered buffers: with IORING_URING_CMD_FIXED in sqe->uring_cmd_flags,
 * val[0..val_len) is part of the buffer sqe->buf_index.
 *
 * Multishot (KVTREE_FEAT_URING_MULTISHOT): a SCAN with IORING_URING_CMD_MULTISHOT
 * in sqe->uring_cmd_flags, IOSQE_BUFFER_SELECT in sqe->flags and the group in
 * sqe->buf_group; `val` and `val_len` are 0.  Each completion with
 * IORING_CQE_F_MORE describes one provided buffer with cqe->res bytes of records.
 * The last completion is without IORING_CQE_F_MORE and has no buffer: 0 if the scan
 * has ended as any other scan ends (`count` and `out_flags` of struct
 * kvtree_scan are for all of it), ENOBUFS if the buffers ran out, EMSGSIZE if
 * the next record fitted into neither of two buffers, EOVERFLOW if the completion
 * queue was full (one provided buffer was then consumed without a completion), or
 * another error.  To resume, pass the last key that was returned as start key with
 * KVTREE_SCAN_AFTER.
 *
 * The first of those two buffers is consumed, and the second is not: the first may
 * be the rest of an incremental one (IOU_PBUF_RING_INC), which would never be used
 * up.  (Or it is too small for the next mark of a filter, which is then lost.)  Its
 * completion has no records: cqe->res, all of its bytes, is less than
 * sizeof(struct kvtree_rec), or it holds one with KVTREE_REC_SKIP, without a key and
 * with the rec_len cqe->res.
 *
 * A change that waits for an event is canceled by KVTREE_URING_CANCEL, by closing
 * the ring, by the exit of the thread or the exit or execve() of the process that
 * submitted it, and by close() of the session's descriptor in that process.  (As
 * with the locks of fcntl(), a process is the set of threads that share a descriptor
 * table.)  A command that was executed and waits to be durable is canceled only by
 * closing the ring and by execve().  Only the completion has the outcome then, not
 * the operation in memory.  IORING_OP_ASYNC_CANCEL finds commands that run on
 * io_uring's workers; no kernel so far passes it on to commands that wait without a
 * worker.
 */

/* One operation in user memory, in and out; for SQEs of any size. */
#define KVTREE_URING_OP		_IOWR('K', 0x60, struct kvtree_uring_op)

struct kvtree_uring_op {
	__u64 op;		/* pointer */
	__u32 op_size;		/* bytes, at least 64; as for a batch */
	__u32 flags;		/* 0 */
};

/* One operation in the SQE itself (IORING_SETUP_SQE128). */
#define KVTREE_URING_OP_INLINE	_IOWR('K', 0x61, struct kvtree_uring_inline)

struct kvtree_uring_inline {
	struct kvtree_op op;
	/*
	 * Pointer: the operation is copied to it when it has been executed;
	 * 0: nowhere.
	 */
	__u64 out;
	__u64 reserved;
};

/*
 * A batch, as KVTREE_IOC_BATCH executes it.  cqe->res is the number of operations
 * executed, which is less than nr if the next one would have had to sleep or after a
 * fatal signal, or the errno of a batch in which none was executed (ECANCELED after a
 * fatal signal): submit the rest again.  With SQEs of any size.
 */
#define KVTREE_URING_BATCH	_IOWR('K', 0x62, struct kvtree_uring_batch)

struct kvtree_uring_batch {
	__u64 ops;		/* pointer to the operations */
	__u32 nr;		/* 0..KVTREE_BATCH_MAX */
	__u16 op_size;		/* bytes from one operation to the next, at least 64 */
	__u16 flags;		/* 0 */
};

/*
 * Cancel changes of the same session that wait for an event, by their
 * sqe->user_data.  cqe->res: the number canceled (each completes with
 * ECANCELED), fewer than all if a fatal signal came; ENOENT: no such command waits;
 * EALREADY: it is being executed, and may then wait again, or it was executed and waits
 * to be durable.
 */
#define KVTREE_URING_CANCEL	_IOW('K', 0x63, struct kvtree_uring_cancel)

struct kvtree_uring_cancel {
	__u64 user_data;
	__u32 flags;		/* KVTREE_CANCEL_* */
	__u32 reserved;
};

#define KVTREE_CANCEL_ALL	(1u << 0)	/* all with that user_data, not the first */
#define KVTREE_CANCEL_ANY	(1u << 1)	/* all, whatever their user_data */

/* KVTREE_IOC_INFO */
struct kvtree_info {
	__u32 abi_version;
	__u32 key_max;
	__u32 value_max;
	__u32 cols_max;
	__u32 batch_max;
	__u32 key_inline;
	__u64 features;		/* KVTREE_FEAT_* */
	__u64 ops;		/* bit n: operation n is supported */
	char  version[32];	/* the module's version */
	__u64 reserved[4];
};

#define KVTREE_FEAT_COMPAT	(1ull << 0)	/* 32-bit callers */
#define KVTREE_FEAT_OP		(1ull << 1)	/* KVTREE_IOC_OP */
/* Features of io_uring with the running kernel. */
#define KVTREE_FEAT_URING	(1ull << 2)	/* the commands above */
#define KVTREE_FEAT_URING_FIXED	(1ull << 3)	/* registered buffers */
#define KVTREE_FEAT_URING_MULTISHOT (1ull << 4)	/* scans into provided buffers */
#define KVTREE_FEAT_URING_IOPOLL (1ull << 5)	/* rings with IORING_SETUP_IOPOLL */
#define KVTREE_FEAT_BPF		(1ull << 8)	/* BPF programs can use stores */
#define KVTREE_FEAT_DURABLE	(1ull << 9)	/* KVTREE_IOC_STORE_ATTACH */

/*
 * Stores
 * ======
 */

/* KVTREE_IOC_STORE_CREATE: needs CAP_SYS_ADMIN.  ENOPKG: the engine's module cannot be loaded. */
struct kvtree_store_create {
	char  name[KVTREE_NAME_MAX];	/* [A-Za-z0-9._-], not "." or ".." */
	char  engine[KVTREE_ENGINE_MAX];/* "masstree", "bwtree"; "": the default */
	__u32 flags;			/* KVTREE_STORE_* */
	__u32 mode;			/* 0..0666; read and write bits only */
	__u32 uid;
	__u32 gid;
	__u64 limit_bytes;		/* 0: none */
	__u64 limit_keys;		/* 0: none */
	__u32 page_size;		/* bytes, of engines with pages; 0: the engine's choice */
	__u32 reserved2;
	__u64 reserved[3];
};

/*
 * Flags of a store.  BPF: programs may use it, as after KVTREE_IOC_BPF_ACCESS;
 * EOPNOTSUPP without KVTREE_FEAT_BPF.
 */
#define KVTREE_STORE_BPF	(1u << 8)

/*
 * KVTREE_IOC_STORE_OPEN: returns a new file descriptor (O_CLOEXEC).  EACCES if
 * the store's mode does not allow the access asked for.
 */
struct kvtree_store_open {
	char  name[KVTREE_NAME_MAX];
	__u32 flags;			/* KVTREE_OPEN_* */
	__u32 reserved[3];
};

#define KVTREE_OPEN_READ	(1u << 0)
#define KVTREE_OPEN_WRITE	(1u << 1)

/*
 * KVTREE_IOC_STORE_DESTROY: needs CAP_SYS_ADMIN.  Its sessions get ESTALE.  The
 * call waits until the memory is free; a fatal signal ends only the wait.
 */
struct kvtree_store_destroy {
	char  name[KVTREE_NAME_MAX];
	__u32 flags;			/* 0 */
	__u32 reserved[3];
};

/*
 * KVTREE_IOC_STORE_SET: changes settings of a store, all or none.  `set` names the fields to
 * change; the others are not read.  The store's owner may change the mode; everything else needs
 * CAP_SYS_ADMIN (EPERM).  A mode or owner applies to sessions opened later; open sessions keep
 * their access.  A store may hold more than its new limits: changes that need more space get
 * EDQUOT until enough is removed.  The settings of a durable store are not on its devices: they
 * are lost when the store is detached.
 */
struct kvtree_store_set {
	char  name[KVTREE_NAME_MAX];
	__u32 set;			/* KVTREE_SET_*, not 0 */
	__u32 mode;			/* as of struct kvtree_store_create */
	__u32 uid;
	__u32 gid;
	__u64 limit_bytes;
	__u64 limit_keys;
	__u64 reserved[2];
};

#define KVTREE_SET_MODE		(1u << 0)
#define KVTREE_SET_UID		(1u << 1)
#define KVTREE_SET_GID		(1u << 2)
#define KVTREE_SET_LIMIT_BYTES	(1u << 3)
#define KVTREE_SET_LIMIT_KEYS	(1u << 4)

/*
 * KVTREE_IOC_STORE_LIST: describes the store with the smallest id above
 * `after`; ENOENT if there is none.  Start with after = 0 and pass the id of each result.
 *
 * KVTREE_IOC_STORE_SELF: the same for the session's own store.
 *
 * `after` is input, and reserved fields are 0; all other fields are output.  Every user may
 * list stores: names, owners and sizes are public, as for files in a directory.
 */
#define KVTREE_STORE_DURABLE	(1u << 0)	/* it has devices */
#define KVTREE_STORE_SYNC	(1u << 1)	/* attached with KVTREE_ATTACH_SYNC */
#define KVTREE_STORE_ATTACHING	(1u << 2)	/* keys and bytes: recovered so far */
#define KVTREE_STORE_READ_ONLY	(1u << 3)	/* attached with KVTREE_ATTACH_READ_ONLY */
#define KVTREE_STORE_CHECKPOINTING	(1u << 4)	/* a checkpoint is being written */

struct kvtree_store_info {
	__u64 after;			/* in */
	__u64 id;			/* never reused, never 0 */
	char  name[KVTREE_NAME_MAX];
	char  engine[KVTREE_ENGINE_MAX];
	__u32 flags;			/* KVTREE_STORE_* */
	__u32 mode;
	__u32 uid;
	__u32 gid;
	__u64 limit_bytes;
	__u64 limit_keys;
	__u64 keys;
	__u64 bytes;			/* charged against limit_bytes */
	__u32 page_size;		/* 0: its engine has no pages */
	__u32 progress;			/* of a checkpoint of everything, in percent; otherwise 0 */
	__u8  uuid[16];			/* of its devices; 0 if it has none, or is attaching */
	__u64 reserved;
};

/*
 * Durable stores
 * ==============
 *
 * A durable store has 1 to KVTREE_DEVICES_MAX block devices, each prepared by
 * "kvtree store format".  Changes are in memory at once and on the devices a little later.
 * All changes of an epoch (some milliseconds) become durable together: after a crash the
 * store is as it was at the end of one epoch.  A change with KVTREE_F_SYNC, or any change in
 * a store attached with KVTREE_ATTACH_SYNC, completes when its epoch is durable;
 * KVTREE_OP_SYNC and fsync() of a session wait until all earlier changes are durable, and
 * need write access (EACCES).  The operations of a batch wait together, at its end.
 *
 * Errors of operations in addition to those above:
 *
 *	EIO		the change took effect, but is not durable and never will
 *			be
 *	ENOSPC		the devices are full
 *	EROFS		the store is read-only: an earlier write failed, or it was
 *			attached read-only
 */
#define KVTREE_DEVICES_MAX	8u

/*
 * KVTREE_IOC_STORE_ATTACH: recovers a store from its devices.  Needs CAP_SYS_ADMIN.
 * Returns when everything is recovered; until then the store is listed with
 * KVTREE_STORE_ATTACHING, and cannot be opened.  Errors in addition to those of
 * KVTREE_IOC_STORE_CREATE:
 *
 *	EBUSY		a device is in use
 *	ENOTBLK		something is not a block device
 *	EXDEV		the devices are of different stores, or one is given twice
 *	ENODEV		devices of the store are missing
 *	EBADMSG		something on the devices is damaged
 *	EOPNOTSUPP	a format that is newer than the module, blocks that are too large
 *	EIO		a device cannot be read or written
 *	ERANGE		the epoch `until` does not exist, or cannot be restored any more
 *
 * EINVAL also means that a device is not formatted, or that something else was written over its
 * beginning.  The kernel's log describes the error.
 */
struct kvtree_store_attach {
	__u64 store;			/* pointer to struct kvtree_store_create */
	__u32 store_size;		/* its size; it grows as for KVTREE_IOC_STORE_CREATE */
	__u32 flags;			/* KVTREE_ATTACH_* */
	__u64 devices;			/* pointer to nr_devices pointers to paths */
	__u32 nr_devices;		/* in any order */
	__u32 reserved2;
	__u64 until;			/* with KVTREE_ATTACH_READ_ONLY: an epoch, or 0 */
	__u64 reserved[3];
};

#define KVTREE_ATTACH_SYNC	(1u << 0)	/* implies KVTREE_F_SYNC for every change */
/*
 * Nothing is written to the devices, which may be read-only; changes get EROFS.  With
 * `until` the store is as it was at the end of that epoch; later records are not read, so
 * they may be damaged.
 */
#define KVTREE_ATTACH_READ_ONLY	(1u << 1)

/*
 * KVTREE_IOC_STORE_DETACH: makes everything durable, removes the store and releases
 * its devices.  Needs CAP_SYS_ADMIN.  Its sessions get ESTALE.  A fatal signal ends
 * only the wait.  EIO: the last changes are not durable; EOPNOTSUPP: the store has no devices;
 * EBUSY: it is being attached.
 *
 * KVTREE_IOC_STORE_DESTROY refuses durable stores (EBUSY).
 */
struct kvtree_store_detach {
	char  name[KVTREE_NAME_MAX];
	__u32 flags;			/* 0 */
	__u32 reserved[3];
};

/*
 * KVTREE_IOC_CHECKPOINT: writes what has changed in the session's store since its last
 * checkpoint, or everything if need be, so that recovery no longer needs the earlier log.  Needs
 * CAP_SYS_ADMIN.  EOPNOTSUPP: the store is not durable.
 */
struct kvtree_checkpoint {
	__u32 flags;			/* 0 */
	__u32 reserved[3];
};

/*
 * KVTREE_IOC_STAT: fills `nr` counters of the session's store at `values`,
 * indexed by enum kvtree_stat; nr becomes the number that the kernel knows.
 * EACCES if the session may neither read nor write the store.
 */
struct kvtree_stat_args {
	__u64 values;			/* pointer to __u64 */
	__u32 nr;
	__u32 flags;			/* 0 */
	__u64 reserved[2];
};

/*
 * KVTREE_IOC_ENGINE_STAT: the counter `nr`, from 0 on, of the engine of the session's
 * store; ENOENT if it has no more.  An engine's counters describe its internals: another
 * version of the module may have others.  EACCES as for KVTREE_IOC_STAT.
 */
#define KVTREE_ENGINE_STAT_NAME_MAX	32u	/* bytes, with the NUL */
#define KVTREE_ENGINE_STAT_TEXT_MAX	80u

struct kvtree_engine_stat {
	__u32 nr;			/* in */
	__u32 flags;			/* KVTREE_ENGINE_STAT_* */
	__u64 value;
	char  name[KVTREE_ENGINE_STAT_NAME_MAX];	/* unique */
	char  text[KVTREE_ENGINE_STAT_TEXT_MAX];	/* what it counts, in English */
};

#define KVTREE_ENGINE_STAT_NOW	(1u << 0)	/* it goes up and down */

/* Counters; those marked "now" go up and down, the others only grow. */
enum kvtree_stat {
	/* kvtree.yaml: counters_enum */
	KVTREE_STAT_KEYS,		/* now: keys in the store */
	KVTREE_STAT_BYTES,		/* now: bytes charged to limit_bytes: values and nodes */
	KVTREE_STAT_GET,		/* gets */
	KVTREE_STAT_GET_MISS,		/* gets of a key that did not exist */
	KVTREE_STAT_PUT,		/* puts */
	KVTREE_STAT_CAS,		/* compare-and-swaps */
	KVTREE_STAT_CAS_FAIL,		/* compare-and-swaps that met another version */
	KVTREE_STAT_REMOVE,		/* removals */
	KVTREE_STAT_ADD,		/* additions */
	KVTREE_STAT_SCAN,		/* scans */
	KVTREE_STAT_SCAN_RECORDS,	/* records that scans returned */
	KVTREE_STAT_ERROR,		/* operations refused or failed */
	KVTREE_STAT_BATCH,		/* batches of more than one operation */
	KVTREE_STAT_GET_INTERLEAVED,	/* gets looked up together with others */
	KVTREE_STAT_READ_RETRY,		/* lookups that met a change of a node and read it again */
	KVTREE_STAT_READ_RESTART,	/* lookups that restarted from the root */
	KVTREE_STAT_READ_BUSY,		/* lookups that gave up after a bounded number of retries */
	KVTREE_STAT_LOCK_CONTENDED,	/* writers that found a node locked */
	KVTREE_STAT_SPLIT_LEAF,		/* leaf nodes split */
	KVTREE_STAT_SPLIT_INNER,	/* inner nodes split */
	KVTREE_STAT_ROOT_GROW,		/* roots that got a new node above them */
	KVTREE_STAT_LAYER_CREATE,	/* layers created */
	KVTREE_STAT_LAYER_COLLECT,	/* layers removed with their last key */
	KVTREE_STAT_LAYER_COLLAPSE,	/* one-key layers folded into the layer above */
	KVTREE_STAT_NODE_UNLINK,	/* empty leaf nodes removed */
	KVTREE_STAT_ROOT_SHRINK,	/* roots replaced by their only child */
	KVTREE_STAT_LAYERS,		/* now: layers below the first */
	KVTREE_STAT_LEAF_NODES,		/* now: leaf nodes */
	KVTREE_STAT_LEAF_BYTES,		/* now: bytes of leaf nodes */
	KVTREE_STAT_INNER_NODES,	/* now: inner nodes */
	KVTREE_STAT_INNER_BYTES,	/* now: bytes of inner nodes */
	KVTREE_STAT_VALUES,		/* now: values, one for each key */
	KVTREE_STAT_VALUE_BYTES,	/* now: bytes that values are charged */
	KVTREE_STAT_WAITING_BYTES,	/* now: bytes waiting to be freed */
	KVTREE_STAT_WAITING_MAX,	/* the most bytes that ever waited to be freed */
	KVTREE_STAT_WAITING_STALL,	/* writers that waited for memory to be freed */
	KVTREE_STAT_RECLAIM_BATCHES,	/* batches of memory freed */
	KVTREE_STAT_URING,		/* commands by io_uring that were executed */
	KVTREE_STAT_URING_PUNT,		/* commands handed to io_uring's workers */
	KVTREE_STAT_URING_WAIT,		/* commands that waited for an event, without a thread */
	KVTREE_STAT_URING_CANCEL,	/* commands canceled before they were executed */
	KVTREE_STAT_BPF,		/* calls by BPF programs */
	KVTREE_STAT_BPF_BUSY,		/* calls by BPF programs that gave up with EBUSY */
	KVTREE_STAT_BPF_POST,		/* changes that BPF programs queued */
	KVTREE_STAT_BPF_POST_DROP,	/* changes of BPF programs dropped: queue full */
	KVTREE_STAT_BPF_POST_FAIL,	/* queued changes of BPF programs that failed */
	KVTREE_STAT_LOG_EPOCH,		/* now: the epoch that changes are made in */
	KVTREE_STAT_LOG_DURABLE,	/* now: the last epoch that is durable */
	KVTREE_STAT_LOG_EPOCHS,		/* epochs made durable */
	KVTREE_STAT_LOG_BYTES,		/* bytes written to the devices */
	KVTREE_STAT_LOG_FLUSHES,	/* flushes of the devices' caches */
	KVTREE_STAT_LOG_SYNC,		/* waits for an epoch to be durable */
	KVTREE_STAT_LOG_STALL,		/* writers that waited for room in the log */
	KVTREE_STAT_LOG_FULL,		/* times that the log was full */
	KVTREE_STAT_LOG_CHECKPOINTS,	/* checkpoints */
	KVTREE_STAT_LOG_LIVE_BYTES,	/* now: bytes that a checkpoint of everything writes */
	KVTREE_STAT_LOG_CAPACITY,	/* now: bytes of the devices for log and checkpoints */
	KVTREE_STAT_LOG_FREE_BYTES,	/* now: bytes of log_capacity that are free */
	KVTREE_STAT_LOG_ERROR,		/* now: the errno since which it is read-only, or 0 */
	KVTREE_STAT_URING_WAKE,		/* times that a session with waiting commands was woken */
	KVTREE_STAT_LOG_LIVE_MAX,	/* now: live bytes that fit the devices on this machine */
	KVTREE_STAT_LOG_RECORD_BYTES,	/* bytes of records logged */
	KVTREE_STAT_LOG_CHECKPOINT_BYTES,	/* bytes of checkpoints' chunks and tables */
	KVTREE_STAT_LOG_CHECKPOINTS_FULL,	/* checkpoints that wrote everything */
	KVTREE_STAT_LOG_IMAGE_BYTES,	/* now: bytes of the segments that checkpoints take */
	KVTREE_STAT_LOG_RANGES,		/* now: ranges of the last checkpoint that have pieces */
	KVTREE_STAT_LOG_PIECES,		/* now: pieces that these ranges consist of */
	/* kvtree.yaml: end */
	KVTREE_STAT_NR
};

/*
 * BPF
 * ===
 *
 * A BPF program names a store by a map: an array of one element, which a session
 * binds to its store to read, to write, or both.  A program can use the store if it
 * was loaded with the map, so the map grants access to the store.  The kfuncs are
 * in kvtree.bpf.h.
 *
 * KVTREE_IOC_BPF_ACCESS: allow programs to use the session's store, or forbid it
 * again, which ends all bindings (programs get ESTALE).  Only for the store's owner and
 * CAP_SYS_ADMIN (EPERM).  EOPNOTSUPP without KVTREE_FEAT_BPF.
 */
struct kvtree_bpf_access {
	__u32 allow;			/* 0 or 1 */
	__u32 flags;			/* 0 */
	__u64 reserved[3];
};

/*
 * KVTREE_IOC_BPF_BIND: binds a map to the session's store, or with access 0 ends the binding.
 * The map is of type BPF_MAP_TYPE_ARRAY, has one element of 8 to KVTREE_BPF_MAP_MAX
 * bytes and the flag BPF_F_RDONLY_PROG.  Programs that use it load only once it is frozen.
 *
 * The binding ends with the store, when the owner forbids programs to use it, and once
 * nothing else (no file, program or other map) has the map.
 *
 * EACCES if the session lacks the access, or the map's file is not open for writing;
 * EPERM if programs may not use the store; EBUSY if the map is bound already; EBADF or
 * EINVAL if it is not such a map; ENOSPC if KVTREE_BPF_BINDINGS_MAX maps are bound to the
 * store, or if a user other than its owner would then have more bindings than are left.
 * To end it: ENOENT if the map is not bound to this store.
 */
#define KVTREE_BPF_MAP_MAX	4096u	/* bytes in the element of a map that is bound */
#define KVTREE_BPF_BINDINGS_MAX	1024u	/* maps that are bound to a store */

struct kvtree_bpf_bind {
	__s32 map_fd;
	__u32 access;			/* KVTREE_OPEN_READ and KVTREE_OPEN_WRITE */
	__u64 reserved[3];
};

/*
 * KVTREE_IOC_BPF_UNBIND: ends any binding of the store, without the map itself.  Only
 * for the store's owner and CAP_SYS_ADMIN (EPERM).  ENOENT if no map with
 * this id is bound to the session's store.
 */
struct kvtree_bpf_unbind {
	__u32 map_id;			/* from KVTREE_IOC_BPF_BINDING */
	__u32 flags;			/* 0 */
	__u64 reserved[3];
};

/*
 * KVTREE_IOC_BPF_BINDING: describes the map with the smallest id above `after` that is
 * bound to the session's store; ENOENT if there is none.  Start with after = 0 and pass
 * the id of each result; input is as for KVTREE_IOC_STORE_LIST.  EACCES as for KVTREE_IOC_STAT.
 */
#define KVTREE_BPF_MAP_NAME_MAX	16u	/* bytes in a map's name, with the NUL */

struct kvtree_bpf_binding {
	__u32 after;			/* in */
	__u32 map_id;			/* the kernel's id of the map; never 0 */
	__u32 access;			/* KVTREE_OPEN_READ and KVTREE_OPEN_WRITE */
	__u32 flags;			/* 0 */
	char  name[KVTREE_BPF_MAP_NAME_MAX];	/* may be "" */
	__u64 reserved[2];
};

/*
 * Hooks
 * =====
 *
 * A hook is a BPF program (struct_ops) that is attached to a store: a filter, which a
 * scan may name, or the store's validator, which checks every new value.  See
 * kvtree.bpf.h; bpf(2) attaches them.
 *
 * KVTREE_IOC_BPF_HOOK: describes the hook of the session's store with the smallest id
 * above `after`; ENOENT if there is none.  Start with after = 0 and pass the id of each
 * result; input is as for KVTREE_IOC_STORE_LIST.  EACCES as for KVTREE_IOC_STAT.
 */
#define KVTREE_HOOK_NAME_MAX	32u	/* bytes in a hook's name, with the NUL */

#define KVTREE_HOOK_FILTER	1u
#define KVTREE_HOOK_VALIDATOR	2u

struct kvtree_bpf_hook {
	__u32 after;			/* in */
	__u32 id;			/* never 0; for kvtree_scan.filter_id */
	__u32 kind;			/* KVTREE_HOOK_* */
	__u32 link_id;			/* of the BPF link that holds it */
	char  name[KVTREE_HOOK_NAME_MAX];	/* may be "" */
	__u64 calls;			/* records or values examined */
	__u64 refused;			/* ... and rejected */
	__u64 reserved[2];
};

/* kvtree.yaml: ioctls */
#define KVTREE_IOC_INFO			_IOR('K', 0x40, struct kvtree_info)
#define KVTREE_IOC_BATCH		_IOWR('K', 0x41, struct kvtree_batch)
#define KVTREE_IOC_STORE_CREATE		_IOW('K', 0x42, struct kvtree_store_create)
#define KVTREE_IOC_STORE_OPEN		_IOW('K', 0x43, struct kvtree_store_open)
#define KVTREE_IOC_STORE_DESTROY	_IOW('K', 0x44, struct kvtree_store_destroy)
#define KVTREE_IOC_STORE_LIST		_IOWR('K', 0x45, struct kvtree_store_info)
#define KVTREE_IOC_STORE_SELF		_IOWR('K', 0x46, struct kvtree_store_info)
#define KVTREE_IOC_STAT			_IOWR('K', 0x47, struct kvtree_stat_args)
#define KVTREE_IOC_OP			_IOWR('K', 0x48, struct kvtree_op)
#define KVTREE_IOC_ENGINE_STAT		_IOWR('K', 0x49, struct kvtree_engine_stat)
#define KVTREE_IOC_STORE_SET		_IOW('K', 0x4a, struct kvtree_store_set)
#define KVTREE_IOC_BPF_ACCESS		_IOW('K', 0x50, struct kvtree_bpf_access)
#define KVTREE_IOC_BPF_BIND		_IOW('K', 0x51, struct kvtree_bpf_bind)
#define KVTREE_IOC_BPF_HOOK		_IOWR('K', 0x52, struct kvtree_bpf_hook)
#define KVTREE_IOC_BPF_BINDING		_IOWR('K', 0x53, struct kvtree_bpf_binding)
#define KVTREE_IOC_BPF_UNBIND		_IOW('K', 0x54, struct kvtree_bpf_unbind)
#define KVTREE_IOC_STORE_ATTACH		_IOW('K', 0x60, struct kvtree_store_attach)
#define KVTREE_IOC_STORE_DETACH		_IOW('K', 0x61, struct kvtree_store_detach)
#define KVTREE_IOC_CHECKPOINT		_IOW('K', 0x62, struct kvtree_checkpoint)
/* kvtree.yaml: end */

/*
 * Sizes of the structures' first versions: no call accepts less.
 */
#define KVTREE_SCAN_SIZE_VER0		64u
/* kvtree.yaml: sizes */
#define KVTREE_INFO_SIZE_VER0		104u
#define KVTREE_BATCH_SIZE_VER0		40u
#define KVTREE_STORE_CREATE_SIZE_VER0	144u
#define KVTREE_STORE_OPEN_SIZE_VER0	80u
#define KVTREE_STORE_DESTROY_SIZE_VER0	80u
#define KVTREE_STORE_INFO_SIZE_VER0	176u
#define KVTREE_STAT_ARGS_SIZE_VER0	32u
#define KVTREE_OP_SIZE_VER0		64u
#define KVTREE_ENGINE_STAT_SIZE_VER0	128u
#define KVTREE_STORE_SET_SIZE_VER0	112u
#define KVTREE_BPF_ACCESS_SIZE_VER0	32u
#define KVTREE_BPF_BIND_SIZE_VER0	32u
#define KVTREE_BPF_HOOK_SIZE_VER0	80u
#define KVTREE_BPF_BINDING_SIZE_VER0	48u
#define KVTREE_BPF_UNBIND_SIZE_VER0	32u
#define KVTREE_STORE_ATTACH_SIZE_VER0	64u
#define KVTREE_STORE_DETACH_SIZE_VER0	80u
#define KVTREE_CHECKPOINT_SIZE_VER0	16u
/* kvtree.yaml: end */

#if !defined(__cplusplus) && defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
_Static_assert(sizeof(struct kvtree_op) == 64, "struct kvtree_op");
_Static_assert(sizeof(struct kvtree_col) == 8, "struct kvtree_col");
_Static_assert(sizeof(struct kvtree_scan) == 64, "struct kvtree_scan");
_Static_assert(sizeof(struct kvtree_rec) == 24, "struct kvtree_rec");
_Static_assert(sizeof(struct kvtree_batch) == 40, "struct kvtree_batch");
_Static_assert(sizeof(struct kvtree_uring_op) == 16, "struct kvtree_uring_op");
_Static_assert(sizeof(struct kvtree_uring_inline) == 80, "struct kvtree_uring_inline");
_Static_assert(sizeof(struct kvtree_uring_batch) == 16, "struct kvtree_uring_batch");
_Static_assert(sizeof(struct kvtree_uring_cancel) == 16, "struct kvtree_uring_cancel");
_Static_assert(sizeof(struct kvtree_info) == 104, "struct kvtree_info");
_Static_assert(sizeof(struct kvtree_store_create) == 144, "struct kvtree_store_create");
_Static_assert(sizeof(struct kvtree_store_open) == 80, "struct kvtree_store_open");
_Static_assert(sizeof(struct kvtree_store_destroy) == 80, "struct kvtree_store_destroy");
_Static_assert(sizeof(struct kvtree_store_set) == 112, "struct kvtree_store_set");
_Static_assert(sizeof(struct kvtree_store_info) == 176, "struct kvtree_store_info");
_Static_assert(sizeof(struct kvtree_stat_args) == 32, "struct kvtree_stat_args");
_Static_assert(sizeof(struct kvtree_engine_stat) == 128, "struct kvtree_engine_stat");
_Static_assert(sizeof(struct kvtree_bpf_access) == 32, "struct kvtree_bpf_access");
_Static_assert(sizeof(struct kvtree_bpf_bind) == 32, "struct kvtree_bpf_bind");
_Static_assert(sizeof(struct kvtree_bpf_hook) == 80, "struct kvtree_bpf_hook");
_Static_assert(sizeof(struct kvtree_bpf_binding) == 48, "struct kvtree_bpf_binding");
_Static_assert(sizeof(struct kvtree_bpf_unbind) == 32, "struct kvtree_bpf_unbind");
_Static_assert(sizeof(struct kvtree_store_attach) == 64, "struct kvtree_store_attach");
_Static_assert(sizeof(struct kvtree_store_detach) == 80, "struct kvtree_store_detach");
_Static_assert(sizeof(struct kvtree_checkpoint) == 16, "struct kvtree_checkpoint");
#endif

#endif /* _UAPI_LINUX_KVTREE_H */
