/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SHIM_PROCESSOR_H
#define SHIM_PROCESSOR_H

#include <linux/sched.h>

/*
 * In the kernel, a spinning thread waits for one that runs on another CPU.  Here
 * that thread may have been preempted, so the waiting one finally yields the CPU.
 */
void cpu_relax(void);

#endif /* SHIM_PROCESSOR_H */
