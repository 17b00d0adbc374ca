/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SHIM_PROCESSOR_H
#define SHIM_PROCESSOR_H

#include <linux/sched.h>

/*
 * In the kernel what is waited for is under way on another CPU.  Here that
 * thread may have been preempted: so this one gives up the CPU in the end.
 */
void cpu_relax(void);

#endif /* SHIM_PROCESSOR_H */
