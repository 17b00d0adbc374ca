/* SPDX-License-Identifier: GPL-2.0 */
/* A signal that is fatal ends the program. */
#ifndef SHIM_SCHED_SIGNAL_H
#define SHIM_SCHED_SIGNAL_H

#include <linux/sched.h>
#include <linux/types.h>

static inline bool fatal_signal_pending(struct task_struct *task)
{
	return false;
}

#endif /* SHIM_SCHED_SIGNAL_H */
