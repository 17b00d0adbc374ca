// SPDX-License-Identifier: GPL-2.0
/* Events: see event.h. */
#include <linux/list.h>
#include <linux/sched.h>
#include <linux/spinlock.h>

#include "compat.h"
#include "event.h"

/* Entries woken in one go, with interrupts off. */
#define PORTION		128

/**
 * kvt_event_init() - initialize an event
 * @event: the event
 * @what: its name, to follow "waits for"
 */
void kvt_event_init(struct kvt_event *event, const char *what)
{
	init_waitqueue_head(&event->head);
	event->what = what;
	event->ended = false;
}
KVT_EXPORT_FOR_TESTS(kvt_event_init);

static int listener_hear(struct wait_queue_entry *entry, unsigned int mode, int flags, void *key)
{
	struct kvt_listener *listener = container_of(entry, struct kvt_listener, entry);

	list_del_init(&entry->entry);
	listener->hear(listener);
	return 1;
}

/**
 * kvt_listener_init() - initialize a listener, which does not listen yet
 * @listener: the listener
 * @hear: called with the queue's lock held and interrupts off; may listen again by
 *	__add_wait_queue_entry_tail_exclusive()
 */
void kvt_listener_init(struct kvt_listener *listener, void (*hear)(struct kvt_listener *))
{
	init_waitqueue_func_entry(&listener->entry, listener_hear);
	INIT_LIST_HEAD(&listener->entry.entry);
	listener->hear = hear;
	listener->pid = NULL;
}
KVT_EXPORT_FOR_TESTS(kvt_listener_init);

/**
 * kvt_listener_of() - the listener of an entry in an event's queue
 * @entry: the entry
 *
 * Context: under the queue's lock.
 *
 * Return: the listener; NULL: a task's entry.
 */
struct kvt_listener *kvt_listener_of(struct wait_queue_entry *entry)
{
	if (entry->func != listener_hear)
		return NULL;
	return container_of(entry, struct kvt_listener, entry);
}

/**
 * kvt_event_listen() - have a function called when the event's waiters are woken
 * @event: the event
 * @listener: the listener, which may listen already
 *
 * A caller that then issues a barrier and checks the condition does not miss the event.
 *
 * Context: process context.
 */
void kvt_event_listen(struct kvt_event *event, struct kvt_listener *listener)
{
	spin_lock_irq(&event->head.lock);
	if (list_empty(&listener->entry.entry))
		__add_wait_queue_entry_tail_exclusive(&event->head, &listener->entry);
	spin_unlock_irq(&event->head.lock);
}
KVT_EXPORT_FOR_TESTS(kvt_event_listen);

/**
 * kvt_event_unlisten() - end of kvt_event_listen()
 * @event: the event
 * @listener: the listener, which may have heard
 *
 * Context: process context.
 */
void kvt_event_unlisten(struct kvt_event *event, struct kvt_listener *listener)
{
	spin_lock_irq(&event->head.lock);
	list_del_init(&listener->entry.entry);
	spin_unlock_irq(&event->head.lock);
}
KVT_EXPORT_FOR_TESTS(kvt_event_unlisten);

/**
 * kvt_event_name() - record the process that a listener waits for
 * @event: the event
 * @listener: the listener, whether it listens or has heard
 * @pid: the process, kept until the next call
 *
 * Context: process context.
 *
 * Return: the previous process, which the caller puts; NULL: there was none.
 */
struct pid *kvt_event_name(struct kvt_event *event, struct kvt_listener *listener, struct pid *pid)
{
	struct pid *was;

	spin_lock_irq(&event->head.lock);
	was = listener->pid;
	listener->pid = pid;
	spin_unlock_irq(&event->head.lock);
	return was;
}

/* The end of the queue at the time it was added. */
struct mark {
	struct kvt_listener listener;
	bool reached;
};

static void mark_reach(struct kvt_listener *listener)
{
	struct mark *mark = container_of(listener, struct mark, listener);

	/* The mark may be gone after this. */
	smp_store_release(&mark->reached, true);
}

/**
 * kvt_event_wake_for() - wake the tasks that wait for one of several things
 * @event: the event of all of them
 * @what: the key of the wake-up: an entry's function may ignore others; NULL: for all
 *
 * All listeners are called, whatever @what is.  One that is added meanwhile may be missed.
 *
 * Context: process context, may sleep.
 */
void kvt_event_wake_for(struct kvt_event *event, void *what)
{
	struct mark mark = {};

	if (__wake_up(&event->head, TASK_NORMAL, PORTION, what) < PORTION)
		return;
	kvt_listener_init(&mark.listener, mark_reach);
	kvt_event_listen(event, &mark.listener);
	/* Pairs with the release in mark_reach(), the last use of the mark there. */
	while (!smp_load_acquire(&mark.reached)) {
		cond_resched();
		__wake_up(&event->head, TASK_NORMAL, PORTION, what);
	}
}
KVT_EXPORT_FOR_TESTS(kvt_event_wake_for);

/**
 * kvt_event_end() - end all waiting for an event
 * @event: the event
 *
 * Wakes tasks and listeners as if the event had come.
 *
 * Context: process context, may sleep.
 */
void kvt_event_end(struct kvt_event *event)
{
	/* A task that is about to wait tests this again after it has joined the queue. */
	WRITE_ONCE(event->ended, true);
	kvt_event_wake(event);
}
