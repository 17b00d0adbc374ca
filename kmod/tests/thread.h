/* SPDX-License-Identifier: GPL-2.0 */
/* Threads of tests, each bound to a CPU. */
#ifndef KVT_TESTS_THREAD_H
#define KVT_TESTS_THREAD_H

#include <linux/completion.h>

struct task_struct;

struct kt_thread {
	struct task_struct *task;
	struct completion done;
	int (*fn)(void *arg);
	void *arg;
};

int kt_thread_init(struct kt_thread *thread, int cpu, int (*fn)(void *arg), void *arg);
void kt_thread_start(struct kt_thread *thread);
int kt_thread_join(struct kt_thread *thread);

#endif /* KVT_TESTS_THREAD_H */
