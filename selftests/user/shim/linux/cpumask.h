/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Two things: the CPUs that threads can be bound to, and the slots of data per
 * CPU (percpu.h), of which there are as many as there may be threads.
 */
#ifndef SHIM_CPUMASK_H
#define SHIM_CPUMASK_H

#include <linux/sched.h>

#define SHIM_SLOTS	32

#define num_possible_cpus()		SHIM_SLOTS
#define for_each_possible_cpu(cpu)	for ((cpu) = 0; (cpu) < SHIM_SLOTS; (cpu)++)

const struct cpumask *cpumask_of(int cpu);
extern struct cpumask shim_all_cpus;
#define cpu_possible_mask	(&shim_all_cpus)

/* Threads that are bound to different CPUs run side by side even on one. */
static inline bool cpu_online(int cpu)
{
	return true;
}

#endif /* SHIM_CPUMASK_H */
