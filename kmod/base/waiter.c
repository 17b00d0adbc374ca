// SPDX-License-Identifier: GPL-2.0
/* Processes that wait inside a store. */
#include <linux/pid.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/string.h>

#include "event.h"
#include "waiter.h"

/*
 * Describe the process that has put an entry into a queue, under the queue's lock.  Returns false
 * if there is none.
 */
static bool waiter_fill(struct kvt_waiter *waiter, struct wait_queue_entry *entry, const char *what)
{
	const struct kvt_listener *listener = kvt_listener_of(entry);
	struct pid *pid = listener ? listener->pid : NULL;
	struct task_struct *task = entry->private;

	if (!pid && !task)
		return false;
	*waiter = (struct kvt_waiter) { .what = what, .command = pid };
	rcu_read_lock();
	waiter->pid = pid ? pid_nr(pid) : task_pid_nr(task);
	/* Another process may have the number by now. */
	if (pid)
		task = pid_task(pid, PIDTYPE_TGID);
	if (task)
		strscpy(waiter->comm, task->comm);
	rcu_read_unlock();
	return true;
}

/**
 * kvt_waiters_add() - add the processes that wait for an event
 * @waiters: in and out
 * @event: the event
 *
 * Context: any but interrupts.
 */
void kvt_waiters_add(struct kvt_waiters *waiters, struct kvt_event *event)
{
	struct wait_queue_entry *entry;
	struct kvt_waiter waiter;

	spin_lock_irq(&event->head.lock);
	list_for_each_entry(entry, &event->head.head, entry) {
		if (!waiter_fill(&waiter, entry, event->what))
			continue;
		if (waiters->nr < KVT_WAITERS_MAX)
			waiters->waiter[waiters->nr++] = waiter;
		else
			waiters->more++;
	}
	spin_unlock_irq(&event->head.lock);
}
