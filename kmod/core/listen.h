/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Listeners: functions in a wait queue, beside the tasks that wait there.  The waker calls
 * each once, with the queue's lock held and interrupts off; the function removes its entry
 * from the queue and returns 1.
 *
 * There may be a million of them: kvt_wake_all() calls a limited number at a time.
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
