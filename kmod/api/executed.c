// SPDX-License-Identifier: GPL-2.0
/* Executed commands that wait to be durable (wait.h). */
#include <linux/blkdev.h>
#include <linux/errno.h>
#include <linux/minmax.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "log/log.h"
#include "wait_internal.h"

/* Spare memory that a session keeps for executed commands. */
#define NR_SPARE	256

/* An executed command. */
struct executed {
	struct kvt_wait wait;
	u64 epoch;				/* to be durable */
	u64 version;
	int res;
	bool failed;				/* res says why it is not durable */
};

static struct executed *executed_of(const struct kvt_wait *wait)
{
	return container_of(wait, struct executed, wait);
}

static struct kvt_log *wait_log(const struct kvt_wait *wait)
{
	return kvt_wait_store(wait)->log;
}

/* Under the lock: memory that an earlier command has left, or NULL. */
static struct executed *executed_take_spare(struct kvt_waits *waits)
{
	struct kvt_wait *wait = list_first_entry_or_null(&waits->spare, struct kvt_wait, list);

	if (!wait)
		return NULL;
	list_del(&wait->list);
	waits->nr_spare--;
	return executed_of(wait);
}

static struct executed *executed_alloc(struct kvt_waits *waits, gfp_t gfp)
{
	struct executed *executed;

	spin_lock(&waits->lock);
	executed = executed_take_spare(waits);
	spin_unlock(&waits->lock);
	return executed ?: kmalloc(sizeof(*executed), gfp);
}

/* Until this is done, the command may be canceled once more. */
static void executed_free(struct executed *executed)
{
	struct kvt_waits *waits = kvt_wait_waits(&executed->wait);

	spin_lock(&waits->lock);
	kvt_wait_hide(&executed->wait);
	if (waits->nr_spare < NR_SPARE) {
		list_add(&executed->wait.list, &waits->spare);
		waits->nr_spare++;
		executed = NULL;
	}
	spin_unlock(&waits->lock);
	kfree(executed);
}

/* The command may hold the last reference to its file, and so to the session. */
static void executed_done(struct executed *executed, unsigned int issue_flags, bool dead)
{
	struct kvtree_op __user *out = u64_to_user_ptr(executed->wait.out);
	struct io_uring_cmd *cmd = executed->wait.cmd;
	bool cqe32 = executed->wait.cqe32;
	u64 version = executed->version;
	int res = executed->res;

	/* What was copied there says that it has succeeded. */
	if (executed->failed && out && !dead)
		(void)put_user(res, &out->result);
	executed_free(executed);
	kvt_uring_done(cmd, res, version, cqe32, issue_flags);
}

/* Commands that were submitted together and want one commit for all. */
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
 * Request a commit, immediately or, if io_uring has plugged the task, when it has submitted
 * everything that it submits together.  Otherwise, on a device as fast as the submitter, each
 * command would get its own commit.
 */
static void executed_want(const struct executed *executed)
{
	struct kvt_store *store = kvt_wait_store(&executed->wait);
	struct blk_plug_cb *cb;
	struct sync_plug *plug;

	kvt_stat_inc(&store->stats, KVTREE_STAT_LOG_SYNC);
	cb = blk_check_plugged(sync_unplug, store, sizeof(*plug));
	plug = container_of(cb, struct sync_plug, cb);
	if (cb && !plug->store && kvt_store_enter(store))
		plug->store = store;
	if (cb && plug->store)
		plug->epoch = max(plug->epoch, executed->epoch);
	else
		kvt_log_want(store->log, executed->epoch);
}

static bool executed_is_durable(const struct kvt_wait *wait)
{
	return kvt_log_synced(wait_log(wait), executed_of(wait)->epoch) != -EAGAIN;
}

/* Under the lock: wait until its epoch is durable. */
static void executed_start(struct executed *executed)
{
	struct kvt_wait_queue *queue = kvt_wait_start(&executed->wait, KVT_WAIT_DURABLE);

	if (executed_is_durable(&executed->wait))
		kvt_wait_queue_wake(queue);
	else
		executed_want(executed);
}

static void executed_fail(struct executed *executed, int err)
{
	executed->res = err;
	executed->failed = true;
}

/* It no longer waits: learn what became of its epoch. */
static void executed_end(struct kvt_wait *wait)
{
	struct executed *executed = executed_of(wait);
	int err = kvt_log_synced(wait_log(wait), executed->epoch);

	/* It was canceled: it may become durable yet. */
	if (err == -EAGAIN)
		err = -EINTR;
	if (err)
		executed_fail(executed, err);
}

/**
 * kvt_executed_wait() - make an executed command wait until it is durable
 * @session: the command's
 * @ctx: of the operation; its sync is the epoch to wait for; the store stays entered
 *	until the command is durable
 * @version: of the operation's outcome
 * @res: the result of the command, if it does become durable
 * @args: the command, whose outcome was copied
 * @pending: what it was while the update had to wait, which is freed; or NULL
 *
 * Context: where the command is issued or its task work runs; sleeps if that may sleep;
 * leaves the store meanwhile.
 *
 * Return: -EIOCBQUEUED; -ENOMEM: it does not wait, and @pending stays.
 */
int kvt_executed_wait(struct kvt_session *session, const struct kvt_op_ctx *ctx, u64 version,
		      int res, const struct kvt_wait_args *args, struct kvt_pending *pending)
{
	struct executed *executed = executed_alloc(&session->waits, kvt_op_gfp_scratch(ctx));
	bool canceled;
	int err;

	if (!executed)
		return -ENOMEM;
	kvt_wait_init(&executed->wait, session, KVT_WAIT_DURABLE, args);
	executed->epoch = *ctx->sync;
	executed->version = version;
	executed->res = res;
	executed->failed = false;
	kvt_wait_publish(&executed->wait, pending ? &pending->wait : NULL);
	kfree(pending);
	if (unlikely(kvt_wait_mark(&executed->wait, ctx, args->issue_flags))) {
		err = kvt_op_wait_durable(ctx);
		if (err)
			executed_fail(executed, err);
		executed_done(executed, args->issue_flags, false);
		return -EIOCBQUEUED;
	}
	spin_lock(&session->waits.lock);
	canceled = executed->wait.canceled;
	if (!canceled)
		executed_start(executed);
	spin_unlock(&session->waits.lock);
	/* Its ring is going away, and tries until it has completed. */
	if (canceled) {
		executed_end(&executed->wait);
		kvt_op_leave(ctx);
		executed_done(executed, args->issue_flags, true);
	}
	return -EIOCBQUEUED;
}

/* Executed commands cannot be canceled: it is found to tell that. */
static void executed_list(struct kvt_wait *wait)
{
	kvt_wait_tree_add(&kvt_wait_waits(wait)->executed, wait);
}

static void executed_unlist(struct kvt_wait *wait)
{
	kvt_wait_tree_del(&kvt_wait_waits(wait)->executed, &wait->node);
}

static void executed_run(struct kvt_wait *wait, unsigned int issue_flags, bool dead)
{
	executed_done(executed_of(wait), issue_flags, dead);
}

static void executed_abort(struct kvt_wait *wait, unsigned int issue_flags)
{
	executed_done(executed_of(wait), issue_flags, true);
}

const struct kvt_wait_ops kvt_executed_ops = {
	.list = executed_list,
	.unlist = executed_unlist,
	.came = executed_is_durable,
	.leave = executed_end,
	.run = executed_run,
	.abort = executed_abort,
};

/**
 * kvt_executed_free_spares() - free the memory kept for executed commands
 * @waits: a session's; no command waits
 *
 * Context: process context.
 */
void kvt_executed_free_spares(struct kvt_waits *waits)
{
	struct executed *executed;

	while ((executed = executed_take_spare(waits)))
		kfree(executed);
}
