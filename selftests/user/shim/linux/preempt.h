/* SPDX-License-Identifier: GPL-2.0 */
/* A thread can be preempted anywhere, but sections where it may not sleep are tracked. */
#ifndef SHIM_PREEMPT_H
#define SHIM_PREEMPT_H

#include <linux/sched.h>

#ifdef SHIM_BENCH
static inline void preempt_disable(void)
{
	barrier();
}

static inline void preempt_enable(void)
{
	barrier();
}
#else
static inline void preempt_disable(void)
{
	if (!current->preempt_count++)
		current->turns = 0;
}

static inline void preempt_enable(void)
{
	WARN_ON(!current->preempt_count);
	if (!--current->preempt_count)
		shim_end_wmb();
}
#endif

#endif /* SHIM_PREEMPT_H */
