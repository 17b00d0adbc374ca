/* SPDX-License-Identifier: GPL-2.0 */
/* Each workqueue has one thread. */
#ifndef SHIM_WORKQUEUE_H
#define SHIM_WORKQUEUE_H

#include <linux/atomic.h>
#include <linux/container_of.h>
#include <linux/jiffies.h>
#include <linux/rcupdate.h>

struct workqueue_struct;
struct work_struct;

typedef void (*work_func_t)(struct work_struct *work);

struct work_struct {
	work_func_t fn;
	bool pending;			/* queued, or about to be */
	bool listed;			/* with its workqueue */
	unsigned int disabled;
	struct workqueue_struct *wq;	/* where it was queued last */
	struct work_struct *next;
	u64 due;			/* ns */
};

struct delayed_work {
	struct work_struct work;
};

struct rcu_work {
	struct work_struct work;
	struct rcu_head rcu;
	struct workqueue_struct *wq;
};

#define INIT_WORK(w, func)		(*(w) = (struct work_struct) { .fn = (func) })
#define INIT_DELAYED_WORK(w, func)	INIT_WORK(&(w)->work, func)
#define INIT_RCU_WORK(w, func)		INIT_WORK(&(w)->work, func)

static inline struct delayed_work *to_delayed_work(struct work_struct *work)
{
	return container_of(work, struct delayed_work, work);
}

static inline struct rcu_work *to_rcu_work(struct work_struct *work)
{
	return container_of(work, struct rcu_work, work);
}

#define WQ_UNBOUND	1u
#define WQ_MEM_RECLAIM	2u

struct workqueue_struct *alloc_workqueue(const char *name, unsigned int flags, int max);
void destroy_workqueue(struct workqueue_struct *wq);

bool queue_work(struct workqueue_struct *wq, struct work_struct *work);
bool flush_work(struct work_struct *work);

bool queue_delayed_work(struct workqueue_struct *wq, struct delayed_work *work,
			unsigned long delay);
bool mod_delayed_work(struct workqueue_struct *wq, struct delayed_work *work,
		      unsigned long delay);
bool flush_delayed_work(struct delayed_work *work);
bool cancel_delayed_work_sync(struct delayed_work *work);
bool disable_delayed_work_sync(struct delayed_work *work);
bool enable_delayed_work(struct delayed_work *work);

bool queue_rcu_work(struct workqueue_struct *wq, struct rcu_work *work);
bool flush_rcu_work(struct rcu_work *work);

#endif /* SHIM_WORKQUEUE_H */
