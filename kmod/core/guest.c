// SPDX-License-Identifier: GPL-2.0
/* Processes that wait inside a store. */
#include <linux/pid.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <linux/wait.h>

#include "guest.h"

static void guest_fill(struct kvt_guest *guest, const struct wait_queue_entry *entry,
		       const char *what)
{
	unsigned long private = (unsigned long)entry->private;
	struct task_struct *task = entry->private;

	*guest = (struct kvt_guest) { .what = what, .command = private & 1 };
	rcu_read_lock();
	if (guest->command) {
		guest->pid = pid_nr(kvt_guest_pid(entry->private));
		/* Another process may have the number by now. */
		task = pid_task(kvt_guest_pid(entry->private), PIDTYPE_TGID);
	} else if (task) {
		guest->pid = task_pid_nr(task);
	}
	if (task)
		strscpy(guest->comm, task->comm);
	rcu_read_unlock();
}

/**
 * kvt_guests_add() - add the processes that wait in a queue
 * @guests: in and out
 * @head: the queue
 * @what: what they wait for there
 *
 * Context: any but interrupts.
 */
void kvt_guests_add(struct kvt_guests *guests, struct wait_queue_head *head, const char *what)
{
	struct wait_queue_entry *entry;

	spin_lock_irq(&head->lock);
	list_for_each_entry(entry, &head->head, entry) {
		/* What no task waits with, nor a command. */
		if (!entry->private)
			continue;
		if (guests->nr < KVT_GUESTS_MAX)
			guest_fill(&guests->guest[guests->nr++], entry, what);
		else
			guests->more++;
	}
	spin_unlock_irq(&head->lock);
}
