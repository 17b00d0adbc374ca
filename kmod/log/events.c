// SPDX-License-Identifier: GPL-2.0
/* Events of a log: an epoch is durable, there is room, or the log has failed. */
#include "base/stats.h"
#include "base/waiter.h"
#include "stream.h"

/* The maximum bounds how much a crash can lose. */
static unsigned int log_epoch_ms = 10;
KVT_LOG_PARAM(log_epoch_ms, log_epoch_ms, 0, 200);
MODULE_PARM_DESC(log_epoch_ms, "ms for which asynchronous changes are collected before they are made durable, at most 200");

/**
 * kvt_log_commit_later() - schedule a commit after log_epoch_ms
 * @log: the log
 *
 * Context: any but NMI.
 */
void kvt_log_commit_later(struct kvt_log *log)
{
	queue_delayed_work(log->state.wq, &log->state.commit,
			   msecs_to_jiffies(READ_ONCE(log_epoch_ms)));
}

/**
 * kvt_log_want() - ask for an epoch to be made durable at once
 * @log: the log
 * @epoch: which; the open epoch is closed early
 *
 * Context: any but NMI.
 */
void kvt_log_want(struct kvt_log *log, u64 epoch)
{
	u64 wanted = READ_ONCE(log->state.wanted);

	while (wanted < epoch)
		if (try_cmpxchg(&log->state.wanted, &wanted, epoch))
			break;
	if (READ_ONCE(log->state.durable) < epoch)
		mod_delayed_work(log->state.wq, &log->state.commit, 0);
}

/**
 * kvt_log_dirty_epoch() - the last epoch that has any records
 * @log: the log
 *
 * Context: any.
 *
 * Return: an epoch; all changes made before the call are in it or in earlier ones.
 */
u64 kvt_log_dirty_epoch(const struct kvt_log *log)
{
	if (test_bit(KVT_LOG_DIRTY, &log->state.flags))
		return READ_ONCE(log->state.epoch);
	/* Pairs with commit_close(): no earlier record is in an epoch after @closed. */
	smp_rmb();
	return READ_ONCE(log->state.closed);
}

/**
 * kvt_log_synced() - whether an epoch is durable
 * @log: the log
 * @epoch: which
 *
 * Context: any.
 *
 * Return: 0: it is durable; -EIO: it never will be; -EAGAIN: not yet.
 */
int kvt_log_synced(const struct kvt_log *log, u64 epoch)
{
	/* Pairs with commit_done(). */
	if (smp_load_acquire(&log->state.durable) >= epoch)
		return 0;
	return READ_ONCE(log->state.error) ? -EIO : -EAGAIN;
}
KVT_EXPORT_FOR_TESTS(kvt_log_synced);

/**
 * kvt_log_sync() - wait until an epoch is durable
 * @log: the log
 * @epoch: which; the open epoch is closed early
 *
 * Context: process context, sleeps.
 *
 * Return: 0; -EIO: it cannot be written; -EINTR: a fatal signal came.
 */
int kvt_log_sync(struct kvt_log *log, u64 epoch)
{
	int err = kvt_log_synced(log, epoch);

	if (err != -EAGAIN)
		return err;
	kvt_stat_inc(log->state.env.stats, KVTREE_STAT_LOG_SYNC);
	kvt_log_want(log, epoch);
	if (kvt_log_wait_event(log->state.durable_event.head,
			       kvt_log_synced(log, epoch) != -EAGAIN))
		return -EINTR;
	return kvt_log_synced(log, epoch);
}

static bool stream_has_space(const struct kvt_stream *s)
{
	const struct kvt_log *log = s->log;

	if (READ_ONCE(log->state.error) || kvt_event_ended(&log->state.space_event))
		return true;
	return READ_ONCE(s->nr_sealed) < KVT_LOG_BUFS &&
	       READ_ONCE(s->sealed) < KVT_LOG_SEALED_BYTES &&
	       !test_bit(KVT_LOG_FULL, &log->state.flags) && kvt_log_lease_lasts(&log->state);
}

/**
 * kvt_log_has_space() - whether a change may be logged on this CPU
 * @log: the log
 *
 * Context: any.
 *
 * Return: true if a writer should try; this includes a log that has failed and a store that ends.
 */
bool kvt_log_has_space(const struct kvt_log *log)
{
	return stream_has_space(kvt_log_stream(log));
}
KVT_EXPORT_FOR_TESTS(kvt_log_has_space);

/* A task that waits for room.  It is not woken because another stream has some. */
struct space_wait {
	struct wait_queue_entry entry;
	const struct kvt_stream *stream;
};

static int space_wake(struct wait_queue_entry *entry, unsigned int mode, int flags, void *key)
{
	const struct space_wait *wait = container_of(entry, struct space_wait, entry);

	/* After the room was made: pairs with log_wait_room(). */
	if (key && key != READ_ONCE(wait->stream))
		return 0;
	return autoremove_wake_function(entry, mode, flags, key);
}

static int log_wait_room(struct kvt_log *log)
{
	struct wait_queue_head *head = &log->state.space_event.head;
	struct space_wait wait = {};
	const struct kvt_stream *s;
	long signal;
	bool room;

	init_wait_entry(&wait.entry, 0);
	wait.entry.func = space_wake;
	for (;;) {
		/* The process may be killed or frozen, so it must hold no locks. */
		signal = prepare_to_wait_event(head, &wait.entry, TASK_KILLABLE | TASK_FREEZABLE);
		s = kvt_log_stream(log);
		WRITE_ONCE(wait.stream, s);
		/* The waker sees the stream, or we its room: pairs with kvt_event_has_sleeper(). */
		smp_mb();
		room = stream_has_space(s);
		if (room || signal)
			break;
		schedule();
	}
	finish_wait(head, &wait.entry);
	return room ? 0 : -EINTR;
}

/**
 * kvt_log_wait_space() - wait until a change can be logged
 * @log: the log, after kvt_log_reserve() returned -EAGAIN
 *
 * Context: process context, sleeps.
 *
 * Return: 0: try again; -EINTR: a fatal signal came; -ESTALE: the store ends.
 */
int kvt_log_wait_space(struct kvt_log *log)
{
	int err;

	might_sleep();
	if (!kvt_log_has_space(log)) {
		kvt_stat_inc(log->state.env.stats, KVTREE_STAT_LOG_STALL);
		err = log_wait_room(log);
		if (err)
			return err;
	}
	return kvt_event_ended(&log->state.space_event) ? -ESTALE : 0;
}
KVT_EXPORT_FOR_TESTS(kvt_log_wait_space);

/**
 * kvt_log_space_event() - the event to wait for while there is no room for changes
 * @log: the log
 *
 * It is raised when kvt_log_has_space() becomes true, also because the log fails or its store ends.
 *
 * Context: any.
 *
 * Return: the event.
 */
struct kvt_event *kvt_log_space_event(struct kvt_log *log)
{
	return &log->state.space_event;
}

/**
 * kvt_log_durable_event() - the event to wait for until an epoch is durable
 * @log: the log
 *
 * It is raised when kvt_log_synced() may return something other than -EAGAIN.
 *
 * Context: any.
 *
 * Return: the event.
 */
struct kvt_event *kvt_log_durable_event(struct kvt_log *log)
{
	return &log->state.durable_event;
}

/**
 * kvt_log_waiters() - list the processes that wait for the log
 * @log: the log
 * @waiters: they are added to this list
 *
 * Context: any but interrupts.
 */
void kvt_log_waiters(struct kvt_log *log, struct kvt_waiters *waiters)
{
	kvt_waiters_add(waiters, &log->state.durable_event);
	kvt_waiters_add(waiters, &log->state.space_event);
	kvt_waiters_add(waiters, &log->state.checkpoint_event);
}
