/* SPDX-License-Identifier: GPL-2.0 */
/* Tasks are threads. */
#ifndef SHIM_SCHED_H
#define SHIM_SCHED_H

#include <pthread.h>
#include <sched.h>
#include <linux/atomic.h>
#include <linux/bug.h>
#include <linux/err.h>
#include <linux/jiffies.h>
#include <linux/kernel.h>

struct task_struct {
	pthread_t thread;
	atomic_t refs;
	int (*fn)(void *arg);
	void *arg;
	int result;
	int bind;			/* CPU, or -1 */
	int slot;			/* of its data among those of all CPUs */
	unsigned int preempt_count;
	unsigned int rcu_depth;
	unsigned int turns;		/* of a waiting loop */
	unsigned int fail_nth;		/* the allocation that fails, counted from now */
};

extern __thread struct task_struct *shim_task;

struct task_struct *shim_adopt(void);
void shim_thread_begin(void);

/* Threads that others started get a task when they ask for it. */
#define current	(likely(shim_task) ? shim_task : shim_adopt())

#ifdef SHIM_BENCH
static inline void might_sleep(void) { }
#else
#define might_sleep()	WARN_ON(current->preempt_count || current->rcu_depth)
#endif

void cond_resched(void);
void shim_sleep_ns(u64 ns);
u64 shim_now_ns(void);

static inline long schedule_timeout_uninterruptible(long timeout)
{
	shim_sleep_ns(timeout * (NSEC_PER_SEC / HZ));
	return 0;
}

struct cpumask {
	cpu_set_t set;
};

int set_cpus_allowed_ptr(struct task_struct *task, const struct cpumask *mask);

#endif /* SHIM_SCHED_H */
