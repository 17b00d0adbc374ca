// SPDX-License-Identifier: GPL-2.0
/*
 * io_uring commands.
 *
 * A command is executed where it is issued, with an operation context that does not
 * sleep.  If it would have to sleep for memory or for a user page (-EAGAIN), io_uring
 * issues it again on one of its workers, where it may.  An update that would have to
 * wait for an event waits without a thread, and is executed again in the task that
 * submitted it (wait.h).
 *
 * The SQE is read once, into kernel memory, since user space can change it.
 */
#include <linux/errno.h>
#include <linux/minmax.h>
#include <linux/uaccess.h>

#include "batch.h"
#include "compat.h"
#include "core/write.h"
#include "load.h"
#include "log/log.h"
#include "run.h"
#include "scan.h"
#include "session.h"
#include "uring.h"
#include "user.h"
#include "wait.h"

/* A command in execution. */
struct call {
	struct io_uring_cmd *cmd;
	unsigned int issue_flags;
	struct kvt_session *session;
	struct kvt_op_ctx ctx;
	u64 out;		/* user address for the outcome of op, or 0 */
	u64 sync;		/* the epoch that must be durable before it completes */
	bool inside;		/* the store; for ctx */
	struct kvt_wait *wait;	/* if it has waited, or may have to; or NULL */
	struct kvtree_batch *batch;	/* to be executed instead of op, which is empty; or NULL */
	struct kvtree_op op;
	struct kvt_fixed fixed;
};

/**
 * kvt_uring_features() - tell which features the running kernel allows
 *
 * Context: any.
 *
 * Return: KVTREE_FEAT_URING*.
 */
u64 kvt_uring_features(void)
{
	u64 features = KVTREE_FEAT_URING | KVTREE_FEAT_URING_FIXED;

	if (!IS_ENABLED(CONFIG_IO_URING))
		return 0;
	if (KVT_URING_HAS_MULTISHOT)
		features |= KVTREE_FEAT_URING_MULTISHOT;
	if (KVT_URING_HAS_IOPOLL)
		features |= KVTREE_FEAT_URING_IOPOLL;
	return features;
}

/* Initialize everything but the operation. */
static void call_init(struct call *call, struct io_uring_cmd *cmd, unsigned int issue_flags)
{
	call->cmd = cmd;
	call->issue_flags = issue_flags;
	call->session = cmd->file->private_data;
	call->out = 0;
	call->sync = 0;
	call->wait = NULL;
	call->batch = NULL;
}

static bool call_may_sleep(const struct call *call)
{
	return !(call->issue_flags & IO_URING_F_NONBLOCK);
}

/* Initialize what all but quick commands need. */
static void call_init_ctx(struct call *call)
{
	call->ctx = kvt_session_ctx(call->session);
	call->ctx.interruptible = false;
	call->ctx.waits = false;
	call->ctx.inside = &call->inside;
	call->ctx.sync = &call->sync;
	if (!call_may_sleep(call))
		call->ctx.gfp = KVT_GFP_NOWAIT;
}

static bool call_enter(struct call *call)
{
	call->inside = kvt_session_enter(call->session);
	return call->inside;
}

static void call_count(const struct call *call, enum kvtree_stat stat)
{
	kvt_stat_inc(&call->session->store->stats, stat);
}

/* Have io_uring issue the command again where it may sleep. */
static int call_punt(const struct call *call)
{
	call_count(call, KVTREE_STAT_URING_PUNT);
	return -EAGAIN;
}

static int call_done(const struct call *call, int res, u64 res2)
{
	if (!(call->issue_flags & IO_URING_F_CQE32))
		return res;
	kvt_uring_done(call->cmd, res, res2, true, call->issue_flags);
	return -EIOCBQUEUED;
}

/*
 * Find the registered buffer, if any, that contains `val`.  A worker takes the ring's lock
 * for that, so it must be outside the store: the lock's holder may be waiting for the store.
 */
static int call_import(struct call *call)
{
	const struct kvtree_op *op = &call->op;
	int dir, err;

	if (!(call->cmd->flags & IORING_URING_CMD_FIXED))
		return 0;
	if (!call->session->store)
		return -ESTALE;
	err = kvt_op_check(&call->ctx, op);
	if (!err && !kvt_op_uses_val(op))
		err = -EINVAL;
	if (err)
		return err;
	dir = kvt_op_is_update(op) ? ITER_SOURCE : ITER_DEST;
	err = kvt_uring_import(call->cmd, op->val, op->val_len, dir,
			       &call->fixed.all, call->issue_flags);
	if (err)
		return err;
	call->fixed.at = 0;
	call->ctx.fixed = &call->fixed;
	return 0;
}

static struct kvt_wait_args call_wait_args(const struct call *call)
{
	return (struct kvt_wait_args) {
		.cmd = call->cmd,
		.issue_flags = call->issue_flags,
		.out = call->out,
	};
}

static void call_again(struct kvt_wait *wait, const struct kvtree_op *op,
		       const struct kvt_wait_args *args);

/* Allocate what the command needs to wait.  Returns 0 or -ENOMEM. */
static int call_prepare_wait(struct call *call)
{
	const struct kvt_wait_args args = call_wait_args(call);

	if (!call->wait)
		call->wait = kvt_wait_new(call->session, &call->ctx, call_again, &args);
	return call->wait ? 0 : -ENOMEM;
}

/* Whether the command has to be durable before it completes. */
static bool call_syncs(const struct call *call)
{
	const struct kvt_store *store = call->session->store;

	if (!store->log)
		return false;
	if (kvt_op_is_update(&call->op))
		return call->op.flags & KVTREE_F_SYNC || store->log_sync;
	return call->op.opcode == KVTREE_OP_SYNC;
}

/* The command was executed.  Returns -EIOCBQUEUED if it completes when it is durable. */
static int call_durable(struct call *call, int res)
{
	struct kvt_store *store = call->session->store;
	struct kvt_wait *wait = call->wait;
	int err;

	if (!call->sync)
		return res;
	err = call->inside ? kvt_log_synced(store->log, call->sync) : kvt_store_gone(store);
	if (err != -EAGAIN)
		return err ?: res;
	call->wait = NULL;
	return kvt_executed_wait(wait, &call->ctx, &call->op, res, call->issue_flags);
}

/*
 * If the outcome could not be copied, the update would go unreported.  So check in advance
 * that both ends of the outcome's place can be written.  The bytes written have no meaning
 * or are 0 already.
 */
static int call_probe_out(const struct call *call)
{
	const struct kvtree_op none = {};
	u64 out = call->out;
	int err;

	if (!out || call_may_sleep(call))
		return 0;
	err = kvt_copy_out(&call->ctx, out + offsetof(struct kvtree_op, result),
			   &none.result, sizeof(none.result));
	return err ?: kvt_copy_out(&call->ctx, out + offsetof(struct kvtree_op, reserved),
				   &none.reserved, sizeof(none.reserved));
}

/* The update cannot be made now: wait, keeping only its operation. */
static int call_wait(struct call *call)
{
	struct kvt_wait *wait;
	int err;

	err = call_prepare_wait(call);
	if (err)
		return err;
	wait = call->wait;
	call->wait = NULL;
	return kvt_pending_wait(wait, &call->ctx, &call->op, call->issue_flags);
}

/* Free what the command needed to wait, if anything, and leave the store. */
static void call_leave(struct call *call)
{
	if (call->wait)
		kvt_wait_free(call->wait);
	call->wait = NULL;
	kvt_op_leave(&call->ctx);
}

static noinline int call_update(struct call *call)
{
	struct kvt_op_key key __uninitialized;
	struct kvt_write write = {};
	bool waits = false;
	int err;

	if (unlikely(kvt_write_admit(&call->ctx)))
		return call_wait(call);
	err = kvt_load_key(&call->ctx, &call->op, &key);
	if (!err)
		err = call_probe_out(call);
	if (!err)
		err = kvt_load(&call->ctx, &call->op, &key.key, &write);
	if (!err) {
		err = kvt_write(&call->ctx, &write);
		waits = err == -EAGAIN;
	}
	kvt_unload(&write);
	kvt_unload_key(&key);
	return waits ? call_wait(call) : err;
}

/* Copy the outcome of an operation that was executed. */
static int call_copy_out(struct call *call, int result)
{
	if (!call->out)
		return 0;
	call->op.result = result;
	if (kvt_op_is_update(&call->op) || kvt_op_may_sleep(&call->ctx))
		return kvt_copy_outcome(&call->ctx, call->out, &call->op);
	return kvt_copy_out(&call->ctx, call->out, &call->op, sizeof(call->op));
}

/*
 * Fill one provided buffer.  *skipped: the previous one was too small for the next record.
 * Returns the bytes of the buffer that are used, 0 at the end, or an error.
 */
static int shot_fill(struct call *call, struct kvt_scan *scan, unsigned int group,
		     bool *skipped)
{
	struct io_br_sel sel;
	bool skip;
	size_t len = 0;
	int ret;

	sel = io_uring_cmd_buffer_select(call->cmd, group, &len, call->issue_flags);
	if (!sel.addr)
		return -ENOBUFS;
	/* An error pointer is not a user address, not even one with a tag. */
	if (IS_ERR((__force const void *)sel.addr))
		return PTR_ERR((__force const void *)sel.addr);
	ret = kvt_scan_fill(scan, (uintptr_t)sel.addr, min_t(size_t, len, U32_MAX));
	/* Skip a remainder that is too small: an incremental buffer would offer it for ever. */
	skip = ret == -EMSGSIZE && !*skipped;
	*skipped = skip;
	if (skip)
		ret = kvt_scan_skip(scan);
	sel.val = ret;
	/* A buffer is posted only if it was filled; otherwise it goes back. */
	if (io_uring_mshot_cmd_post_cqe(call->cmd, &sel, call->issue_flags) && ret > 0)
		return -EOVERFLOW;
	return ret;
}

static int shots(struct call *call, const struct kvt_key *key, unsigned int group)
{
	struct kvt_scan *scan;
	bool skipped = false;
	int ret;

	scan = kvt_scan_begin(&call->ctx, &call->op, key);
	if (IS_ERR(scan))
		return PTR_ERR(scan);
	do {
		ret = kvt_scan_rest(scan) ?: shot_fill(call, scan, group, &skipped);
	} while (ret > 0 && !kvt_scan_ended(scan));
	if (ret >= 0)
		ret = kvt_scan_report(scan, call->op.arg);
	kvt_scan_end(scan);
	return ret;
}

/* A multishot scan takes page faults where it is issued, never on a worker. */
static noinline int call_multishot(struct call *call)
{
	const struct io_uring_sqe *sqe = kvt_uring_sqe(call->cmd);
	unsigned int group = READ_ONCE(sqe->buf_index);
	struct kvt_op_key key __uninitialized;
	int ret;

	if (call->issue_flags & IO_URING_F_IOWQ)
		return -EOPNOTSUPP;
	if (call->op.opcode != KVTREE_OP_SCAN || call->op.val || call->op.val_len)
		return -EINVAL;
	call->ctx.gfp = KVT_GFP_PROCESS;
	ret = kvt_op_check(&call->ctx, &call->op);
	if (ret)
		return ret;
	ret = kvt_load_key(&call->ctx, &call->op, &key);
	if (!ret)
		ret = shots(call, &key.key, group);
	kvt_unload_key(&key);
	return ret;
}

static int call_batch(struct call *call)
{
	struct kvtree_batch *batch = call->batch;
	int err;

	/* A batch waits on a worker of io_uring; their number is bounded. */
	call->ctx.waits = call_may_sleep(call);
	err = call->session->store->log ? call_prepare_wait(call) : 0;
	err = err ?: kvt_batch_run(&call->ctx, batch);
	return batch->done ?: err;
}

/* Execute the command, inside the store. */
static int call_run(struct call *call)
{
	int err;

	if (call->batch)
		return call_batch(call);
	if (call->cmd->flags & IORING_URING_CMD_MULTISHOT)
		return call_multishot(call);
	err = kvt_op_check(&call->ctx, &call->op);
	/* This can fail, so do it before anything is changed. */
	if (!err && call_syncs(call))
		err = call_prepare_wait(call);
	if (err)
		return err;
	if (kvt_op_is_update(&call->op))
		return call_update(call);
	return kvt_op_execute(&call->ctx, &call->op);
}

/* Copy the outcome without page faults. */
static bool call_answer(const struct call *call)
{
	bool copied;

	if (!call->out)
		return true;
	pagefault_disable();
	copied = kvt_copy_op_out(call->out, &call->op);
	pagefault_enable();
	return copied;
}

/* Try to execute a common GET.  Returns false if this is another operation, or needs more. */
static bool call_quick(struct call *call)
{
	struct kvt_session *session = call->session;
	u32 room = call->op.val_len;
	bool done;

	if (call->cmd->flags & (IORING_URING_CMD_FIXED | IORING_URING_CMD_MULTISHOT) ||
	    !kvt_op_is_quick_get(session->access, &call->op) || !kvt_session_enter_rcu(session))
		return false;
	done = kvt_get_quick(session->store, &call->op) && call_answer(call);
	if (likely(done)) {
		call_count(call, KVTREE_STAT_URING);
		kvt_stat_get(&session->store->stats, call->op.result);
	}
	kvt_session_leave_rcu(session);
	if (unlikely(!done))
		call->op.val_len = room;
	return done;
}

/*
 * EINTR means that the command was executed (kvt_executed_wait()).  A command that a fatal
 * signal ended earlier counts as canceled, and only its completion says so.
 */
static int call_result(int ret)
{
	return ret == -EINTR ? -ECANCELED : ret;
}

/* Copy the outcome.  Returns -EAGAIN if the command has to be issued again where it may sleep. */
static int call_tell(struct call *call, int ret)
{
	if (kvt_op_blocked(&call->ctx, ret))
		return -EAGAIN;
	return call_result(ret) == ret ? call_copy_out(call, ret) : 0;
}

/* Execute any command but a common GET. */
static noinline int call_slow(struct call *call)
{
	int ret, result, told, err;

	call_init_ctx(call);
	ret = call_import(call);
	if (!call_enter(call)) {
		call_leave(call);
		return call_done(call, -ESTALE, 0);
	}
	if (!ret)
		ret = call_run(call);
	if (ret == -EIOCBQUEUED)
		return ret;
	result = call_result(ret);
	told = call_tell(call, ret) ?: result;
	if (told == -EAGAIN) {
		call_leave(call);
		return call_punt(call);
	}
	call_count(call, result == ret ? KVTREE_STAT_URING : KVTREE_STAT_URING_CANCEL);
	if (!call->batch)
		kvt_op_report(&call->ctx, &call->op, ret);
	/* User space can see that the outcome is missing, but not that it is not durable. */
	err = call_durable(call, told);
	if (err == -EIOCBQUEUED)
		return err;
	if (err != told)
		call_copy_out(call, err);
	/* Until here it could be found, though not canceled, since copies may take long. */
	call_leave(call);
	if (!(call->cmd->flags & IORING_URING_CMD_MULTISHOT))
		return call_done(call, err, call->op.version);
	kvt_uring_done(call->cmd, result, 0, call->issue_flags & IO_URING_F_CQE32,
		       call->issue_flags);
	return -EIOCBQUEUED;
}

static void call_again(struct kvt_wait *wait, const struct kvtree_op *op,
		       const struct kvt_wait_args *args)
{
	struct call call __uninitialized;
	int ret;

	call_init(&call, args->cmd, args->issue_flags);
	call.op = *op;
	call.out = args->out;
	call.wait = wait;
	ret = call_slow(&call);
	if (ret != -EIOCBQUEUED)
		kvt_uring_done(args->cmd, ret, 0, false, args->issue_flags);
}

static int call_op(struct call *call)
{
	if (likely(call_quick(call)))
		return call_done(call, call->op.result, call->op.version);
	return call_slow(call);
}

static int cmd_op(struct io_uring_cmd *cmd, unsigned int issue_flags)
{
	const struct io_uring_sqe *sqe = kvt_uring_sqe(cmd);
	struct kvtree_uring_op arg = *(const struct kvtree_uring_op *)sqe->cmd;
	struct call call __uninitialized;
	int err;

	barrier();
	if (arg.flags)
		return -EINVAL;
	err = kvt_struct_size_check(arg.op_size, KVTREE_OP_SIZE_VER0);
	if (err)
		return err;
	call_init(&call, cmd, issue_flags);
	call.out = arg.op;
	if (arg.op_size == sizeof(call.op))
		err = kvt_copy_ops_in(call_may_sleep(&call), &call.op, arg.op, 1);
	else
		err = kvt_copy_struct_in(call_may_sleep(&call), &call.op, sizeof(call.op),
					 arg.op, arg.op_size);
	if (err == -EAGAIN && call.session->store)
		return call_punt(&call);
	return err ?: call_op(&call);
}

static int cmd_op_inline(struct io_uring_cmd *cmd, unsigned int issue_flags)
{
	const struct io_uring_sqe *sqe = kvt_uring_sqe(cmd);
	const struct kvtree_uring_inline *arg = (const void *)sqe->cmd;
	struct call call __uninitialized;
	u64 reserved;

	if (!(issue_flags & IO_URING_F_SQE128))
		return -EINVAL;
	call_init(&call, cmd, issue_flags);
	call.op = arg->op;
	call.out = READ_ONCE(arg->out);
	reserved = READ_ONCE(arg->reserved);
	/* The compiler must not read the SQE again. */
	barrier();
	return reserved ? -EINVAL : call_op(&call);
}

static int cmd_batch(struct io_uring_cmd *cmd, unsigned int issue_flags)
{
	const struct io_uring_sqe *sqe = kvt_uring_sqe(cmd);
	struct kvtree_uring_batch arg = *(const struct kvtree_uring_batch *)sqe->cmd;
	struct kvtree_batch batch;
	struct call call;

	barrier();
	if (arg.flags || cmd->flags & (IORING_URING_CMD_FIXED | IORING_URING_CMD_MULTISHOT))
		return -EINVAL;
	batch = (struct kvtree_batch) { .ops = arg.ops, .nr = arg.nr, .op_size = arg.op_size };
	call_init(&call, cmd, issue_flags);
	call.op = (struct kvtree_op) {};
	call.batch = &batch;
	return call_slow(&call);
}

static int cmd_cancel(struct io_uring_cmd *cmd, unsigned int issue_flags)
{
	const struct io_uring_sqe *sqe = kvt_uring_sqe(cmd);
	struct kvtree_uring_cancel arg = *(const struct kvtree_uring_cancel *)sqe->cmd;
	struct call call;

	barrier();
	if (arg.flags & ~(KVTREE_CANCEL_ALL | KVTREE_CANCEL_ANY) || arg.reserved ||
	    cmd->flags & (IORING_URING_CMD_FIXED | IORING_URING_CMD_MULTISHOT))
		return -EINVAL;
	call_init(&call, cmd, issue_flags);
	return call_done(&call, kvt_wait_cancel(call.session, &arg), 0);
}

/* Unused fields of the SQE must be 0, since they may get a meaning later. */
static bool sqe_valid(const struct io_uring_cmd *cmd)
{
	const struct io_uring_sqe *sqe = kvt_uring_sqe(cmd);

	if (READ_ONCE(sqe->addr) || READ_ONCE(sqe->len) || READ_ONCE(sqe->file_index))
		return false;
	return cmd->flags & (IORING_URING_CMD_FIXED | IORING_URING_CMD_MULTISHOT) ||
	       !READ_ONCE(sqe->buf_index);
}

static int cmd_run(struct io_uring_cmd *cmd, unsigned int issue_flags)
{
	if (!sqe_valid(cmd))
		return -EINVAL;
	switch (cmd->cmd_op) {
	case KVTREE_URING_OP:
		return cmd_op(cmd, issue_flags);
	case KVTREE_URING_OP_INLINE:
		return cmd_op_inline(cmd, issue_flags);
	case KVTREE_URING_BATCH:
		return cmd_batch(cmd, issue_flags);
	case KVTREE_URING_CANCEL:
		return cmd_cancel(cmd, issue_flags);
	default:
		return -EOPNOTSUPP;
	}
}

/**
 * kvt_uring_cmd() - execute or cancel a command
 * @cmd: the command
 * @issue_flags: of io_uring
 *
 * Context: as io_uring calls it: in the submitter's task, its SQPOLL thread or a
 * worker, with the ring locked or not.
 *
 * Return: the result; -EIOCBQUEUED: it has completed or will complete; -EAGAIN: issue it
 * again where it may sleep.
 */
int kvt_uring_cmd(struct io_uring_cmd *cmd, unsigned int issue_flags)
{
	int ret;

	if (unlikely(issue_flags & IO_URING_F_CANCEL)) {
		kvt_wait_cancel_cmd(cmd->file->private_data, cmd, issue_flags);
		return 0;
	}
	ret = cmd_run(cmd, issue_flags);
	if (ret == -EAGAIN)
		kvt_uring_punted(cmd);
	return ret;
}
