/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Waiters: threads that wait inside a store, for memory to be freed or for its log, and processes
 * with commands that do.  They are found in the queues of events, without registration.
 */
#ifndef KVT_BASE_WAITER_H
#define KVT_BASE_WAITER_H

#include <linux/sched.h>
#include <linux/types.h>

struct kvt_event;

struct kvt_waiter {
	pid_t pid;
	char comm[TASK_COMM_LEN];	/* "" if the process has ended */
	const char *what;		/* the event's name */
	bool command;			/* commands of io_uring wait, without a task */
};

/* Enough for a message. */
#define KVT_WAITERS_MAX	8

struct kvt_waiters {
	unsigned int nr;
	unsigned int more;		/* waiters that are not listed */
	struct kvt_waiter waiter[KVT_WAITERS_MAX];
};

void kvt_waiters_add(struct kvt_waiters *waiters, struct kvt_event *event);

#endif /* KVT_BASE_WAITER_H */
