// SPDX-License-Identifier: GPL-2.0
/* RCU on liburcu; ThreadSanitizer has to be told of its synchronisation. */
#include <linux/kthread.h>
#include <linux/rcupdate.h>

#include "urcu.h"

#ifdef SHIM_TSAN
#include <sanitizer/tsan_interface.h>

/* Read sections that ended come before the ends of grace periods. */
static char sections;

static void tsan_section_ends(void)
{
	__tsan_release(&sections);
}

static void tsan_grace_period_ends(void)
{
	__tsan_acquire(&sections);
}
#else
static inline void tsan_section_ends(void) { }
static inline void tsan_grace_period_ends(void) { }
#endif

#ifndef SHIM_BENCH
void rcu_read_lock(void)
{
	current->rcu_depth++;
	shim_urcu_read_lock();
}

void rcu_read_unlock(void)
{
	WARN_ON(!current->rcu_depth);
	if (!--current->rcu_depth)
		tsan_section_ends();
	shim_urcu_read_unlock();
}
#endif

void synchronize_rcu(void)
{
	might_sleep();
	shim_urcu_synchronize();
	tsan_grace_period_ends();
}

/*
 * Callbacks have their own thread and list: ThreadSanitizer does not see the
 * synchronisation inside liburcu, so its call_rcu() cannot be used.
 */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct rcu_head *callbacks;
static struct rcu_head **last = &callbacks;
static struct task_struct *thread;
static unsigned long queued, done;	/* callbacks */

static void wait_for_change(void)
{
	shim_rcu_offline();
	pthread_cond_wait(&changed, &lock);
	shim_rcu_online();
}

static struct rcu_head *take_callbacks(void)
{
	struct rcu_head *list;

	pthread_mutex_lock(&lock);
	while (!callbacks)
		wait_for_change();
	list = callbacks;
	callbacks = NULL;
	last = &callbacks;
	pthread_mutex_unlock(&lock);
	return list;
}

static void callback_done(void)
{
	pthread_mutex_lock(&lock);
	done++;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

static int callback_thread(void *unused)
{
	struct rcu_head *head, *next;

	for (;;) {
		head = take_callbacks();
		synchronize_rcu();
		for (; head; head = next) {
			next = head->next;
			head->fn(head);
			callback_done();
		}
	}
	return 0;
}

void call_rcu(struct rcu_head *head, void (*fn)(struct rcu_head *head))
{
	head->fn = fn;
	head->next = NULL;
	pthread_mutex_lock(&lock);
	if (!thread) {
		thread = kthread_create(callback_thread, NULL, "rcu");
		wake_up_process(thread);
	}
	*last = head;
	last = &head->next;
	queued++;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

void rcu_barrier(void)
{
	unsigned long until;

	might_sleep();
	pthread_mutex_lock(&lock);
	until = queued;
	while ((long)(done - until) < 0)
		wait_for_change();
	pthread_mutex_unlock(&lock);
}

void shim_rcu_register(void)
{
	shim_urcu_register();
}

void shim_rcu_unregister(void)
{
	shim_urcu_unregister();
}

void shim_rcu_offline(void)
{
	shim_urcu_offline();
}

void shim_rcu_online(void)
{
	shim_urcu_online();
}

void shim_rcu_quiescent(void)
{
	shim_urcu_quiescent();
}
