/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SHIM_SCHED_TASK_H
#define SHIM_SCHED_TASK_H

#include <linux/sched.h>

struct task_struct *get_task_struct(struct task_struct *task);
void put_task_struct(struct task_struct *task);

#endif /* SHIM_SCHED_TASK_H */
