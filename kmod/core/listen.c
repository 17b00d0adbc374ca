// SPDX-License-Identifier: GPL-2.0
/* Functions that wait in a wait queue, in place of tasks. */
#include <linux/list.h>
#include <linux/sched.h>
#include <linux/spinlock.h>

#include "compat.h"
#include "listen.h"

/* So many are called with interrupts off. */
#define PORTION		128

/**
 * kvt_listen() - have a function called when others are woken
 * @head: the queue; every waker of it uses kvt_wake_all()
 * @entry: of init_waitqueue_func_entry(), its list initialized; or one that listens already
 *
 * A caller that then issues a barrier and checks the condition does not miss its event.
 *
 * Context: process context.
 */
void kvt_listen(wait_queue_head_t *head, struct wait_queue_entry *entry)
{
	spin_lock_irq(&head->lock);
	if (list_empty(&entry->entry))
		__add_wait_queue_entry_tail_exclusive(head, entry);
	spin_unlock_irq(&head->lock);
}
KVT_EXPORT_FOR_TESTS(kvt_listen);

/**
 * kvt_unlisten() - remove a listener
 * @head: the queue
 * @entry: of kvt_listen(), on the queue or not
 *
 * Context: process context.
 */
void kvt_unlisten(wait_queue_head_t *head, struct wait_queue_entry *entry)
{
	spin_lock_irq(&head->lock);
	list_del_init(&entry->entry);
	spin_unlock_irq(&head->lock);
}
KVT_EXPORT_FOR_TESTS(kvt_unlisten);

/**
 * kvt_listen_instead() - have another function called
 * @head: the queue
 * @entry: of init_waitqueue_func_entry(); it takes the place of
 * @old: which listens, or was called
 *
 * Either is called whenever @old would have been.
 *
 * Context: process context.
 */
void kvt_listen_instead(wait_queue_head_t *head, struct wait_queue_entry *entry,
			struct wait_queue_entry *old)
{
	spin_lock_irq(&head->lock);
	if (!list_empty(&old->entry)) {
		entry->flags |= WQ_FLAG_EXCLUSIVE;
		list_replace_init(&old->entry, &entry->entry);
	}
	spin_unlock_irq(&head->lock);
}
KVT_EXPORT_FOR_TESTS(kvt_listen_instead);

/* The end of the queue at the time it was added. */
struct mark {
	struct wait_queue_entry entry;	/* its private is NULL: no process */
	bool reached;
};

static int mark_reach(struct wait_queue_entry *entry, unsigned int mode, int flags, void *key)
{
	struct mark *mark = container_of(entry, struct mark, entry);

	list_del_init(&entry->entry);
	/* It may be gone with this. */
	smp_store_release(&mark->reached, true);
	return 1;
}

/**
 * kvt_wake_all() - wake the tasks of a queue, and call its listeners
 * @head: the queue
 *
 * Listeners added meanwhile may not be called.
 *
 * Context: process context, may sleep.
 */
void kvt_wake_all(wait_queue_head_t *head)
{
	struct mark mark = {};

	if (__wake_up(head, TASK_NORMAL, PORTION, NULL) < PORTION)
		return;
	init_waitqueue_func_entry(&mark.entry, mark_reach);
	INIT_LIST_HEAD(&mark.entry.entry);
	kvt_listen(head, &mark.entry);
	/* Pairs with the release in mark_reach(), which does not use the mark afterwards. */
	while (!smp_load_acquire(&mark.reached)) {
		cond_resched();
		__wake_up(head, TASK_NORMAL, PORTION, NULL);
	}
}
KVT_EXPORT_FOR_TESTS(kvt_wake_all);
