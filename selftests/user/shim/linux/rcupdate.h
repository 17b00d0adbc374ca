/* SPDX-License-Identifier: GPL-2.0 */
/*
 * RCU on liburcu.  Tests use the flavour with marked read sections.  The
 * benchmark uses the one in which threads report quiescent states: as in a
 * kernel without preemption, read sections then cost nothing.
 */
#ifndef SHIM_RCUPDATE_H
#define SHIM_RCUPDATE_H

#include <linux/bug.h>
#include <linux/sched.h>
#include <linux/types.h>

#ifdef SHIM_BENCH
static inline void rcu_read_lock(void)
{
	barrier();
}

static inline void rcu_read_unlock(void)
{
	barrier();
}

#define RCU_LOCKDEP_WARN(cond, text)	((void)0)
#else
void rcu_read_lock(void);
void rcu_read_unlock(void);

static inline bool rcu_read_lock_held(void)
{
	return current->rcu_depth;
}

#define RCU_LOCKDEP_WARN(cond, text)	WARN_ON(cond)
#endif

void synchronize_rcu(void);
#define synchronize_rcu_expedited()	synchronize_rcu()
void rcu_barrier(void);
void call_rcu(struct rcu_head *head, void (*fn)(struct rcu_head *head));

/* A thread that may read from now on, and one that will not any more. */
void shim_rcu_register(void);
void shim_rcu_unregister(void);
/* Around waiting: the thread is in no read section. */
void shim_rcu_offline(void);
void shim_rcu_online(void);
void shim_rcu_quiescent(void);

#endif /* SHIM_RCUPDATE_H */
