// SPDX-License-Identifier: GPL-2.0
/* Threads of tests. */
#include <linux/err.h>
#include <linux/kthread.h>
#include <linux/sched/task.h>

#include "thread.h"

static int kt_thread_run(void *arg)
{
	struct kt_thread *thread = arg;
	int ret = thread->fn(thread->arg);

	complete(&thread->done);
	return ret;
}

/**
 * kt_thread_init() - make a thread that does not run yet
 * @thread: to be filled; stays until kt_thread_join()
 * @cpu: where it runs
 * @fn: what it does
 * @arg: for it
 *
 * Return: 0 or -ENOMEM.
 */
int kt_thread_init(struct kt_thread *thread, int cpu, int (*fn)(void *arg), void *arg)
{
	struct task_struct *task;

	thread->fn = fn;
	thread->arg = arg;
	init_completion(&thread->done);
	task = kthread_create(kt_thread_run, thread, "kvt_test/%d", cpu);
	if (IS_ERR(task))
		return PTR_ERR(task);
	kthread_bind(task, cpu);
	/* It may end before it is joined. */
	thread->task = get_task_struct(task);
	return 0;
}

/**
 * kt_thread_start() - let a thread run
 * @thread: of kt_thread_init()
 */
void kt_thread_start(struct kt_thread *thread)
{
	wake_up_process(thread->task);
}

/**
 * kt_thread_join() - wait for the end of a thread
 * @thread: started
 *
 * Return: what its function returned.
 */
int kt_thread_join(struct kt_thread *thread)
{
	/* A thread that is stopped before it has begun never runs. */
	wait_for_completion(&thread->done);
	return kthread_stop_put(thread->task);
}
