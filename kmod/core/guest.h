/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Guests: threads that wait inside a store, for memory to be freed or for its log.  They
 * are found in the wait queues; nobody registers for this.
 */
#ifndef KVT_CORE_GUEST_H
#define KVT_CORE_GUEST_H

#include <linux/sched.h>
#include <linux/types.h>

struct pid;
struct wait_queue_head;

struct kvt_guest {
	pid_t pid;
	char comm[TASK_COMM_LEN];	/* "" if the process has ended */
	const char *what;		/* it waits for */
	bool command;			/* commands of io_uring, which no task waits with */
};

/* As many as anybody wants to read about. */
#define KVT_GUESTS_MAX	8

struct kvt_guests {
	unsigned int nr;
	unsigned int more;		/* there are */
	struct kvt_guest guest[KVT_GUESTS_MAX];
};

/**
 * kvt_guest_private() - what an entry of a wait queue holds in place of a task
 * @pid: of the process whose commands wait; kept while the entry is in the queue
 *
 * Return: a value for the entry's private.
 */
static inline void *kvt_guest_private(struct pid *pid)
{
	return (void *)((unsigned long)pid | 1);
}

/**
 * kvt_guest_pid() - the process
 * @private: of kvt_guest_private()
 *
 * Return: its @pid.
 */
static inline struct pid *kvt_guest_pid(const void *private)
{
	return (struct pid *)((unsigned long)private & ~1ul);
}

void kvt_guests_add(struct kvt_guests *guests, struct wait_queue_head *head, const char *what);

#endif /* KVT_CORE_GUEST_H */
