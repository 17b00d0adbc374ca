// SPDX-License-Identifier: GPL-2.0
/* Commands that wait without a thread. */
#include <linux/blkdev.h>
#include <linux/errno.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "compat.h"
#include "guest.h"
#include "log/log.h"
#include "session.h"
#include "update.h"
#include "wait.h"

/* What a session keeps for those that will wait until they are durable. */
#define NR_SPARE	256

/* What the writes of a session that wait may keep, unless it is a single one. */
#define WRITES_KEEP	(4u << 20)

enum wait_state {
	WAIT_NEW,		/* it can be canceled, and nobody else knows it */
	WAIT_WAITS,		/* for an event, or for the worker */
	WAIT_RUNS,		/* the worker has it */
	WAIT_CANCELED,		/* the worker is to complete it, and no more */
};

/* There is one for each of many commands: it is small. */
struct wait {
	union {
		struct list_head list;		/* lock: of writes, or of syncs */
		struct wait *next;		/* spare (lock), or completed with this */
	};
	enum wait_state state;			/* lock */
	int res;				/* what it came to */
	bool cqe32;
	pid_t pid;				/* of who submitted it */
	u64 epoch;				/* to be durable; 0: it is not executed */
	u64 version;
	u64 out;
	u64 user_data;
	const struct kvtree_op *op;		/* for out; NULL: that has it, but for errors */
	const void *owner;			/* the files of who submitted it */
	struct kvt_session *session;		/* kept by the command's file */
	struct io_uring_cmd *cmd;
};

enum write_wait_for {
	WAIT_RECLAIM,		/* the garbage bound */
	WAIT_LOG,		/* room in the log */
};

struct write_wait {
	struct wait wait;			/* first: it is freed for both */
	enum write_wait_for what;		/* lock */
	struct wait_queue_entry entry;		/* in the queue of what it waits for */
	struct work_struct work;
	size_t bytes;				/* that it keeps */
	struct kvtree_op op;
	struct kvt_update update;
	u8 key[];
};

/* The command's own memory leads to what waits for it: lock; NULL: nothing any more. */
static struct wait **wait_of(struct io_uring_cmd *cmd)
{
	return io_uring_cmd_to_pdu(cmd, struct wait *);
}

static struct kvt_store *wait_store(const struct wait *wait)
{
	return wait->session->store;
}

static struct kvt_log *wait_log(const struct wait *wait)
{
	return wait_store(wait)->log;
}

/* Say what it came to where the command asked for it. */
static bool wait_tell(const struct wait *wait)
{
	struct kvtree_op __user *out = u64_to_user_ptr(wait->out);

	if (wait->op && copy_to_user(out, wait->op, sizeof(*wait->op)))
		return false;
	/* It may have succeeded, and not become durable. */
	return wait->res >= 0 || !put_user(wait->res, &out->result);
}

static struct wait *wait_alloc(struct kvt_waits *waits, gfp_t gfp)
{
	struct wait *wait;

	spin_lock(&waits->lock);
	wait = waits->spare;
	if (wait) {
		waits->spare = wait->next;
		waits->nr_spare--;
	}
	spin_unlock(&waits->lock);
	return wait ?: kmalloc(sizeof(*wait), gfp);
}

/* Until it is done, the command may be canceled once more. */
static void wait_free(struct wait *wait)
{
	struct kvt_waits *waits = &wait->session->waits;

	spin_lock(&waits->lock);
	*wait_of(wait->cmd) = NULL;
	if (!wait->op && waits->nr_spare < NR_SPARE) {
		wait->next = waits->spare;
		waits->spare = wait;
		waits->nr_spare++;
		wait = NULL;
	}
	spin_unlock(&waits->lock);
	kfree(wait);
}

/* With the command its file may go, and the session. */
static void wait_done(struct wait *wait, int res, unsigned int issue_flags)
{
	struct io_uring_cmd *cmd = wait->cmd;
	u64 version = wait->version;
	bool cqe32 = wait->cqe32;

	wait_free(wait);
	kvt_uring_done(cmd, res, version, cqe32, issue_flags);
}

static void wait_tell_done(struct wait *wait, unsigned int issue_flags, bool dead)
{
	int res = wait->res;

	if (wait->out && (dead || !wait_tell(wait)))
		res = -EFAULT;
	wait_done(wait, res, issue_flags);
}

/* Runs in the submitter's task, which has its memory, or in one that has none. */
static void wait_complete_in_task(struct io_uring_cmd *cmd, unsigned int issue_flags, bool dead)
{
	struct wait *wait = *wait_of(cmd), *next;

	for (; wait; wait = next) {
		next = wait->next;
		wait_tell_done(wait, issue_flags, dead);
	}
}

KVT_URING_TASK_WORK(wait_task_work, wait_complete_in_task)

static struct io_ring_ctx *wait_ring(const struct wait *wait)
{
	return cmd_to_io_kiocb(wait->cmd)->ctx;
}

/* Whether the ring's completions wait for its task in any case. */
static bool wait_is_deferred(const struct wait *wait)
{
	return wait_ring(wait)->flags & IORING_SETUP_DEFER_TASKRUN;
}

/*
 * With those that follow it.  A completion takes the ring's lock, which the submitter may
 * hold for as long as it likes: its task waits for that, and no worker.
 */
static void wait_send(struct wait *wait)
{
	/* A task that waits for many is woken when there are as many. */
	if (wait->next)
		io_uring_cmd_complete_in_task(wait->cmd, wait_task_work);
	else
		io_uring_cmd_do_in_task_lazy(wait->cmd, wait_task_work);
}

/* Nothing of the store is needed any more.  wait_send() follows. */
static void wait_end(struct wait *wait, int res)
{
	wait->res = res;
	kvt_store_leave(wait_store(wait));
}

static void wait_end_canceled(struct wait *wait)
{
	kvt_stat_inc(&wait_store(wait)->stats, KVTREE_STAT_URING_CANCEL);
	wait->version = 0;
	wait->out = 0;
	wait_end(wait, -ECANCELED);
}

static void syncs_queue_work(struct kvt_waits *waits)
{
	struct kvt_session *session = container_of(waits, struct kvt_session, waits);

	queue_work(session->store->reclaim.wq, &waits->work);
}

static int syncs_wake(struct wait_queue_entry *entry, unsigned int mode, int flags, void *key)
{
	syncs_queue_work(container_of(entry, struct kvt_waits, listener));
	return 1;
}

/* Commands that were submitted at once, and want a commit for all of them. */
struct sync_plug {
	struct blk_plug_cb cb;
	struct kvt_store *store;	/* entered */
	u64 epoch;
};

static void sync_unplug(struct blk_plug_cb *cb, bool from_schedule)
{
	struct sync_plug *plug = container_of(cb, struct sync_plug, cb);

	if (plug->store) {
		kvt_log_want(plug->store->log, plug->epoch);
		kvt_store_leave(plug->store);
	}
	kfree(plug);
}

/*
 * Have a commit made: as soon as the task has submitted all that it submits at once,
 * for which io_uring plugs the task, or immediately.  Each command would have one of
 * its own if it took a commit no longer than the task to get to the next command.
 */
static void sync_want(const struct wait *wait)
{
	struct kvt_store *store = wait_store(wait);
	struct blk_plug_cb *cb;
	struct sync_plug *plug;

	kvt_stat_inc(&store->stats, KVTREE_STAT_LOG_SYNC);
	cb = blk_check_plugged(sync_unplug, store, sizeof(*plug));
	plug = container_of(cb, struct sync_plug, cb);
	if (cb && !plug->store && kvt_store_enter(store))
		plug->store = store;
	if (cb && plug->store)
		plug->epoch = max(plug->epoch, wait->epoch);
	else
		kvt_log_want(store->log, wait->epoch);
}

/* Under the lock: it waits until its epoch is durable. */
static void sync_start(struct wait *wait)
{
	struct kvt_waits *waits = &wait->session->waits;
	bool first = list_empty(&waits->syncs);

	list_move_tail(&wait->list, &waits->syncs);
	/* One stands there for all of them. */
	if (first)
		waits->listener.private = kvt_guest_private(wait->pid);
	if (first)
		kvt_log_listen(wait_log(wait), &waits->listener);
	if (wait->state == WAIT_CANCELED) {
		syncs_queue_work(waits);
		return;
	}
	wait->state = WAIT_WAITS;
	/* If it becomes durable from here on that is heard of. */
	if (kvt_log_synced(wait_log(wait), wait->epoch) == -EAGAIN)
		sync_want(wait);
	else
		syncs_queue_work(waits);
}

/* Under the lock: take what waits no longer. */
static void syncs_take(struct kvt_waits *waits, struct list_head *done)
{
	struct kvt_log *log = NULL;
	struct wait *wait, *next;

	list_for_each_entry_safe(wait, next, &waits->syncs, list) {
		log = wait_log(wait);
		if (wait->state == WAIT_CANCELED) {
			list_move_tail(&wait->list, done);
		} else if (kvt_log_synced(log, wait->epoch) != -EAGAIN) {
			wait->state = WAIT_RUNS;
			list_move_tail(&wait->list, done);
		}
	}
	/* With the last one the store is left, and its log may go. */
	if (log && list_empty(&waits->syncs))
		kvt_log_unlisten(log, &waits->listener);
}

static void sync_end(struct wait *wait)
{
	int err;

	if (wait->state == WAIT_CANCELED) {
		wait_end_canceled(wait);
		return;
	}
	err = kvt_log_synced(wait_log(wait), wait->epoch);
	/* Nothing is left to be told. */
	if (!err && !wait->op)
		wait->out = 0;
	wait_end(wait, err ?: wait->res);
}

/*
 * Hundreds end at once when an epoch is durable: those of a ring whose completions wait
 * for its task are one work for the task.
 */
static void syncs_send(struct list_head *done)
{
	struct wait *wait, *next, *first = NULL, *last = NULL;

	list_for_each_entry_safe(wait, next, done, list) {
		sync_end(wait);
		wait->next = NULL;
		if (last && wait_is_deferred(last) && wait_ring(last) == wait_ring(wait)) {
			last->next = wait;
		} else {
			if (first)
				wait_send(first);
			first = wait;
		}
		last = wait;
	}
	if (first)
		wait_send(first);
}

static void syncs_work(struct work_struct *work)
{
	struct kvt_waits *waits = container_of(work, struct kvt_waits, work);
	LIST_HEAD(done);

	spin_lock(&waits->lock);
	syncs_take(waits, &done);
	spin_unlock(&waits->lock);
	syncs_send(&done);
}

static void write_queue_work(struct write_wait *w)
{
	queue_work(wait_store(&w->wait)->reclaim.wq, &w->work);
}

static int write_wake(struct wait_queue_entry *entry, unsigned int mode, int flags, void *key)
{
	struct write_wait *w = container_of(entry, struct write_wait, entry);

	list_del_init(&entry->entry);
	write_queue_work(w);
	return 1;
}

static bool write_enqueue(struct write_wait *w, enum write_wait_for what)
{
	struct kvt_log *log = wait_log(&w->wait);

	w->what = what;
	if (what == WAIT_RECLAIM)
		return kvt_reclaim_wait(&wait_store(&w->wait)->reclaim, &w->entry);
	return log && kvt_log_wait(log, &w->entry);
}

/* Wait no more.  Returns whether it waited, and was not woken. */
static bool write_dequeue(struct write_wait *w)
{
	struct kvt_log *log = wait_log(&w->wait);

	if (w->what == WAIT_RECLAIM)
		return kvt_reclaim_unwait(&wait_store(&w->wait)->reclaim, &w->entry);
	return log && kvt_log_unwait(log, &w->entry);
}

/* Under the lock, so that the worker does not complete it meanwhile. */
static void write_start(struct write_wait *w)
{
	w->wait.state = WAIT_WAITS;
	if (!write_enqueue(w, WAIT_RECLAIM) && !write_enqueue(w, WAIT_LOG))
		write_queue_work(w);
}

/* The worker takes it, unless it was canceled. */
static bool write_take(struct write_wait *w)
{
	struct kvt_waits *waits = &w->wait.session->waits;
	bool taken;

	spin_lock(&waits->lock);
	taken = w->wait.state == WAIT_WAITS;
	if (taken)
		w->wait.state = WAIT_RUNS;
	spin_unlock(&waits->lock);
	return taken;
}

/* -EAGAIN: it waits again. */
static int write_execute(struct write_wait *w)
{
	struct kvt_op_ctx ctx = kvt_session_ctx(w->wait.session);
	int res;

	ctx.waits = false;
	ctx.interruptible = false;
	ctx.sync = &w->wait.epoch;
	res = kvt_store_dying(ctx.store) ? -ESTALE : kvt_update_write(&ctx, &w->update);
	if (res == -EAGAIN)
		return res;
	kvt_stat_inc(&ctx.store->stats, KVTREE_STAT_URING);
	kvt_update_report(&w->update, &w->op, res);
	kvt_op_report(&ctx, &w->op, res);
	w->wait.version = w->op.version;
	w->wait.res = res;
	return res;
}

/* Returns whether it waits again, or is to be durable: it may be completed then. */
static bool write_waits(struct write_wait *w, int res)
{
	struct kvt_waits *waits = &w->wait.session->waits;
	bool again = true;

	spin_lock(&waits->lock);
	if (res == -EAGAIN) {
		write_start(w);
	} else if (w->wait.epoch) {
		sync_start(&w->wait);
	} else {
		list_del(&w->wait.list);
		again = false;
	}
	spin_unlock(&waits->lock);
	return again;
}

static bool writes_keep(struct kvt_session *session, size_t bytes)
{
	struct kvt_waits *waits = &session->waits;
	bool ok;

	spin_lock(&waits->lock);
	ok = !waits->write_bytes || waits->write_bytes + bytes <= WRITES_KEEP;
	if (ok)
		waits->write_bytes += bytes;
	spin_unlock(&waits->lock);
	if (ok)
		kvt_stat_add(&session->store->stats, KVTREE_STAT_URING_WAIT_BYTES, bytes);
	return ok;
}

static void writes_unkeep(struct kvt_session *session, size_t bytes)
{
	struct kvt_waits *waits = &session->waits;

	spin_lock(&waits->lock);
	waits->write_bytes -= bytes;
	spin_unlock(&waits->lock);
	kvt_stat_add(&session->store->stats, KVTREE_STAT_URING_WAIT_BYTES, -(s64)bytes);
}

/* It is written, or never will be. */
static void write_free_update(struct write_wait *w)
{
	kvt_update_free(&w->update);
	writes_unkeep(w->wait.session, w->bytes);
}

static void write_work(struct work_struct *work)
{
	struct write_wait *w = container_of(work, struct write_wait, work);
	bool taken = write_take(w);
	int res = taken ? write_execute(w) : -ECANCELED;

	if (res != -EAGAIN)
		write_free_update(w);
	if (write_waits(w, res))
		return;
	if (taken)
		wait_end(&w->wait, res);
	else
		wait_end_canceled(&w->wait);
	w->wait.next = NULL;
	wait_send(&w->wait);
}

/* Before it begins. */
static void wait_init(struct wait *wait, struct kvt_session *session,
		      const struct kvt_wait_args *args)
{
	*wait = (struct wait) {
		.state = WAIT_NEW,
		.cqe32 = args->issue_flags & IO_URING_F_CQE32,
		.user_data = args->user_data,
		.out = args->out,
		.owner = current->files,
		.pid = task_tgid_nr(current),
		.session = session,
		.cmd = args->cmd,
	};
	INIT_LIST_HEAD(&wait->list);
	*wait_of(args->cmd) = wait;
	kvt_stat_inc(&session->store->stats, KVTREE_STAT_URING_WAIT);
}

/*
 * Let the ring cancel it from here on.  A worker of io_uring takes the ring's lock for
 * that, outside of the store: whoever has the lock may keep it, or wait for the store to
 * be gone.
 *
 * Returns 0, or -ESTALE: the store is left for good.
 */
static int wait_mark(struct wait *wait, const struct kvt_op_ctx *ctx, unsigned int issue_flags)
{
	bool was_inside;

	if (!(issue_flags & IO_URING_F_UNLOCKED)) {
		io_uring_cmd_mark_cancelable(wait->cmd, issue_flags);
		return 0;
	}
	was_inside = kvt_op_step_out(ctx);
	io_uring_cmd_mark_cancelable(wait->cmd, issue_flags);
	return kvt_op_step_in(ctx, was_inside);
}

/* The store was left before it began to wait: complete it where it was issued. */
static int wait_end_stale(struct wait *wait, int res, unsigned int issue_flags)
{
	wait->res = res;
	wait_tell_done(wait, issue_flags, false);
	return -EIOCBQUEUED;
}

/**
 * kvt_wait() - let a command wait for what its update could not be written without
 * @session: the command's
 * @ctx: of the operation; the store stays entered until the command completes
 * @op: the operation
 * @update: its update; taken over if the command waits
 * @args: the command
 *
 * Context: where the command was issued; leaves the store meanwhile.
 *
 * Return: -EIOCBQUEUED; otherwise the update is still the caller's: -ENOMEM; -EAGAIN:
 * what the session's waiting writes keep is as much as it may be.
 */
int kvt_wait(struct kvt_session *session, const struct kvt_op_ctx *ctx,
	     const struct kvtree_op *op, struct kvt_update *update,
	     const struct kvt_wait_args *args)
{
	u32 len = update->write.key.len;
	struct write_wait *w;
	size_t bytes = struct_size(w, key, len);
	int err;

	bytes += kvt_update_bytes(update);
	if (!writes_keep(session, bytes))
		return -EAGAIN;
	w = kmalloc(struct_size(w, key, len), kvt_op_gfp_scratch(ctx));
	if (!w) {
		writes_unkeep(session, bytes);
		return -ENOMEM;
	}
	w->bytes = bytes;
	w->what = WAIT_RECLAIM;
	init_waitqueue_func_entry(&w->entry, write_wake);
	w->entry.private = kvt_guest_private(task_tgid_nr(current));
	INIT_LIST_HEAD(&w->entry.entry);
	INIT_WORK(&w->work, write_work);
	w->op = *op;
	w->update = *update;
	memcpy(w->key, update->write.key.data, len);
	w->update.write.key.data = w->key;
	wait_init(&w->wait, session, args);
	w->wait.op = &w->op;
	err = wait_mark(&w->wait, ctx, args->issue_flags);
	if (unlikely(err)) {
		write_free_update(w);
		kvt_op_report(ctx, &w->op, err);
		return wait_end_stale(&w->wait, err, args->issue_flags);
	}

	spin_lock(&session->waits.lock);
	list_add_tail(&w->wait.list, &session->waits.writes);
	if (w->wait.state == WAIT_CANCELED)
		write_queue_work(w);
	else
		write_start(w);
	spin_unlock(&session->waits.lock);
	return -EIOCBQUEUED;
}

/**
 * kvt_wait_durable() - let a command that was executed wait until it is durable
 * @session: the command's
 * @ctx: of what was executed; its sync says how long to wait; the store stays entered
 *	until the command completes
 * @version: of the operation's outcome
 * @res: the result of the command, if it does become durable
 * @args: the command, whose outcome was copied
 *
 * Context: where the command was issued; leaves the store meanwhile.
 *
 * Return: -EIOCBQUEUED; -ENOMEM: it does not wait.
 */
int kvt_wait_durable(struct kvt_session *session, const struct kvt_op_ctx *ctx,
		     u64 version, int res, const struct kvt_wait_args *args)
{
	u64 epoch = *ctx->sync;
	struct wait *wait;
	int err;

	wait = wait_alloc(&session->waits, kvt_op_gfp_scratch(ctx));
	if (!wait)
		return -ENOMEM;
	wait_init(wait, session, args);
	wait->version = version;
	if (unlikely(wait_mark(wait, ctx, args->issue_flags))) {
		err = kvt_op_synced(ctx);
		if (!err)
			wait->out = 0;
		return wait_end_stale(wait, err ?: res, args->issue_flags);
	}

	spin_lock(&session->waits.lock);
	wait->epoch = epoch;
	wait->res = res;
	sync_start(wait);
	spin_unlock(&session->waits.lock);
	return -EIOCBQUEUED;
}

/*
 * Under the lock.  Returns whether it waited.  If it did not wait for the event
 * any more the work is queued, or about to look at the state.
 */
static bool wait_cancel(struct wait *wait)
{
	enum wait_state was = wait->state;
	struct write_wait *w = container_of(wait, struct write_wait, wait);

	if (was != WAIT_WAITS && was != WAIT_NEW)
		return false;
	wait->state = WAIT_CANCELED;
	if (was == WAIT_NEW)
		return true;
	if (wait->epoch)
		syncs_queue_work(&wait->session->waits);
	else if (write_dequeue(w))
		write_queue_work(w);
	return true;
}

/**
 * kvt_wait_cancel_cmd() - the ring, or who submitted a command, goes away
 * @session: the command's
 * @cmd: a command that waits and that has not completed
 *
 * Context: as io_uring calls with IO_URING_F_CANCEL.
 */
void kvt_wait_cancel_cmd(struct kvt_session *session, struct io_uring_cmd *cmd)
{
	struct wait *wait;

	spin_lock(&session->waits.lock);
	wait = *wait_of(cmd);
	if (wait)
		wait_cancel(wait);
	spin_unlock(&session->waits.lock);
}

static bool wait_is_meant(const struct wait *wait, const struct kvtree_uring_cancel *args)
{
	return args->flags & KVTREE_CANCEL_ANY || wait->user_data == args->user_data;
}

/**
 * kvt_wait_cancel() - cancel commands by their user_data
 * @session: theirs
 * @args: which
 *
 * Context: process context.
 *
 * Return: how many were canceled; -ENOENT; -EALREADY: it is being executed.
 */
int kvt_wait_cancel(struct kvt_session *session, const struct kvtree_uring_cancel *args)
{
	bool many = args->flags & (KVTREE_CANCEL_ALL | KVTREE_CANCEL_ANY);
	int canceled = 0, ret = -ENOENT;
	struct wait *wait;

	spin_lock(&session->waits.lock);
	list_for_each_entry(wait, &session->waits.writes, list) {
		if (!wait_is_meant(wait, args))
			continue;
		if (wait_cancel(wait))
			canceled++;
		else if (wait->state == WAIT_RUNS)
			ret = -EALREADY;
		if (canceled && !many)
			break;
	}
	/* What was executed can only wait for its end. */
	list_for_each_entry(wait, &session->waits.syncs, list)
		if (wait_is_meant(wait, args))
			ret = -EALREADY;
	spin_unlock(&session->waits.lock);
	return canceled ?: ret;
}

/**
 * kvt_wait_cancel_owner() - cancel what a process submitted
 * @session: the session
 * @owner: the process's files
 *
 * Context: process context.
 */
void kvt_wait_cancel_owner(struct kvt_session *session, const void *owner)
{
	struct wait *wait;

	spin_lock(&session->waits.lock);
	list_for_each_entry(wait, &session->waits.writes, list)
		if (wait->owner == owner)
			wait_cancel(wait);
	spin_unlock(&session->waits.lock);
}

/**
 * kvt_waits_init() - begin without commands that wait
 * @waits: a session's
 */
void kvt_waits_init(struct kvt_waits *waits)
{
	spin_lock_init(&waits->lock);
	INIT_LIST_HEAD(&waits->writes);
	waits->write_bytes = 0;
	INIT_LIST_HEAD(&waits->syncs);
	waits->spare = NULL;
	waits->nr_spare = 0;
	init_waitqueue_func_entry(&waits->listener, syncs_wake);
	INIT_LIST_HEAD(&waits->listener.entry);
	INIT_WORK(&waits->work, syncs_work);
}

/**
 * kvt_waits_exit() - end
 * @waits: of kvt_waits_init(); no command waits
 *
 * Context: process context, sleeps.
 */
void kvt_waits_exit(struct kvt_waits *waits)
{
	struct wait *wait;

	/* It may have completed the last one only just now. */
	cancel_work_sync(&waits->work);
	while ((wait = waits->spare)) {
		waits->spare = wait->next;
		kfree(wait);
	}
}
