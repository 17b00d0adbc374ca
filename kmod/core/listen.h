/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Listeners: functions that stand in a wait queue beside the tasks that wait there.  Each is
 * called once, by who wakes them, with the queue's lock held and interrupts off; it takes its
 * entry off the queue and returns 1.
 *
 * There may be a million of them: kvt_wake_all() calls a portion at a time.
 */
#ifndef KVT_CORE_LISTEN_H
#define KVT_CORE_LISTEN_H

#include <linux/wait.h>

void kvt_listen(wait_queue_head_t *head, struct wait_queue_entry *entry);
void kvt_listen_instead(wait_queue_head_t *head, struct wait_queue_entry *entry,
			struct wait_queue_entry *old);
void kvt_unlisten(wait_queue_head_t *head, struct wait_queue_entry *entry);
void kvt_wake_all(wait_queue_head_t *head);

#endif /* KVT_CORE_LISTEN_H */
