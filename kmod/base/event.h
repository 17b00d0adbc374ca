/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Events of a store: tasks sleep for them, and commands of io_uring wait for them without a task.
 *
 * A listener is a function in the event's queue, beside the tasks that sleep there.  The waker
 * calls each once, with the queue's lock held and interrupts off.  There may be a million of
 * them, so kvt_event_wake() calls a limited number at a time.
 */
#ifndef KVT_BASE_EVENT_H
#define KVT_BASE_EVENT_H

#include <linux/types.h>
#include <linux/wait.h>

struct pid;

struct kvt_event {
	wait_queue_head_t head;
	const char *what;		/* its name in messages */
	bool ended;			/* the store ends: do not wait for it any more */
};

struct kvt_listener {
	struct wait_queue_entry entry;
	void (*hear)(struct kvt_listener *listener);	/* the event has come; it listens no more */
	struct pid *pid;		/* the process that has commands waiting, or NULL; under the
					 * queue's lock while it listens
					 */
};

/**
 * kvt_event_has_sleeper() - whether a task or a listener waits, after a barrier
 * @event: the event; the caller has made its condition true before
 *
 * Context: any.
 *
 * Return: true or false; pairs with the barrier after kvt_event_listen(), and with that of
 * tasks that sleep.
 */
static inline bool kvt_event_has_sleeper(struct kvt_event *event)
{
	return wq_has_sleeper(&event->head);
}

/**
 * kvt_event_ended() - whether waiting for an event has ended
 * @event: the event
 *
 * Context: any.
 *
 * Return: whether kvt_event_end() was called.
 */
static inline bool kvt_event_ended(const struct kvt_event *event)
{
	return READ_ONCE(event->ended);
}

void kvt_event_init(struct kvt_event *event, const char *what);
void kvt_event_wake_for(struct kvt_event *event, void *what);
void kvt_event_end(struct kvt_event *event);

void kvt_listener_init(struct kvt_listener *listener, void (*hear)(struct kvt_listener *));
struct kvt_listener *kvt_listener_of(struct wait_queue_entry *entry);
void kvt_event_listen(struct kvt_event *event, struct kvt_listener *listener);
void kvt_event_unlisten(struct kvt_event *event, struct kvt_listener *listener);
struct pid *kvt_event_name(struct kvt_event *event, struct kvt_listener *listener,
			   struct pid *pid);

/**
 * kvt_event_wake() - wake the tasks that wait for an event, and call its listeners
 * @event: the event
 *
 * See kvt_event_wake_for().
 *
 * Context: process context, may sleep.
 */
static inline void kvt_event_wake(struct kvt_event *event)
{
	kvt_event_wake_for(event, NULL);
}

#endif /* KVT_BASE_EVENT_H */
