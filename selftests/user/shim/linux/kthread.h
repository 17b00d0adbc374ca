/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SHIM_KTHREAD_H
#define SHIM_KTHREAD_H

#include <linux/sched.h>

/* The thread begins with wake_up_process().  The name is for a debugger. */
struct task_struct *kthread_create(int (*fn)(void *arg), void *arg, const char *name, ...)
	__printf(3, 4);
void kthread_bind(struct task_struct *task, int cpu);
int wake_up_process(struct task_struct *task);
int kthread_stop_put(struct task_struct *task);

#endif /* SHIM_KTHREAD_H */
