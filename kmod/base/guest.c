// SPDX-License-Identifier: GPL-2.0
/* Processes that wait inside a store. */
#include <linux/pid.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/string.h>

#include "event.h"
#include "guest.h"

/* Who has put an entry into a queue, under its lock.  Returns whether it is anybody. */
static bool guest_fill(struct kvt_guest *guest, struct wait_queue_entry *entry, const char *what)
{
	const struct kvt_listener *listener = kvt_listener_of(entry);
	struct pid *pid = listener ? listener->pid : NULL;
	struct task_struct *task = entry->private;

	if (!pid && !task)
		return false;
	*guest = (struct kvt_guest) { .what = what, .command = pid };
	rcu_read_lock();
	guest->pid = pid ? pid_nr(pid) : task_pid_nr(task);
	/* Another process may have the number by now. */
	if (pid)
		task = pid_task(pid, PIDTYPE_TGID);
	if (task)
		strscpy(guest->comm, task->comm);
	rcu_read_unlock();
	return true;
}

/**
 * kvt_guests_add() - add the processes that wait for an event
 * @guests: in and out
 * @event: the event
 *
 * Context: any but interrupts.
 */
void kvt_guests_add(struct kvt_guests *guests, struct kvt_event *event)
{
	struct wait_queue_entry *entry;
	struct kvt_guest guest;

	spin_lock_irq(&event->head.lock);
	list_for_each_entry(entry, &event->head.head, entry) {
		if (!guest_fill(&guest, entry, event->what))
			continue;
		if (guests->nr < KVT_GUESTS_MAX)
			guests->guest[guests->nr++] = guest;
		else
			guests->more++;
	}
	spin_unlock_irq(&event->head.lock);
}
