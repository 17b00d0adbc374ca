/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SHIM_WAIT_H
#define SHIM_WAIT_H

#include <linux/atomic.h>
#include <linux/list.h>
#include <linux/spinlock.h>

#define TASK_NORMAL		3
#define WQ_FLAG_EXCLUSIVE	1

struct wait_queue_entry;

typedef int (*wait_queue_func_t)(struct wait_queue_entry *entry, unsigned int mode, int flags,
				 void *key);

/* A function that is called in place of a thread that is woken up. */
struct wait_queue_entry {
	unsigned int flags;
	wait_queue_func_t func;
	struct list_head entry;
};

typedef struct {
	spinlock_t lock;
	pthread_cond_t cond;
	struct list_head head;		/* of entries */
	atomic_t sleepers;		/* threads */
} wait_queue_head_t;

void init_waitqueue_head(wait_queue_head_t *wq);
int __wake_up(wait_queue_head_t *wq, unsigned int mode, int nr, void *key);
void shim_wait_begin(wait_queue_head_t *wq);
void shim_wait(wait_queue_head_t *wq);
void shim_wait_end(wait_queue_head_t *wq);

/* Pairs with the full barrier between shim_wait_begin() and the condition. */
static inline bool wq_has_sleeper(wait_queue_head_t *wq)
{
	smp_mb();
	return atomic_read(&wq->sleepers) || READ_ONCE(wq->head.next) != &wq->head;
}

static inline void init_waitqueue_func_entry(struct wait_queue_entry *entry,
					     wait_queue_func_t func)
{
	entry->func = func;
}

/* The lock is held. */
static inline void __add_wait_queue_entry_tail_exclusive(wait_queue_head_t *wq,
							 struct wait_queue_entry *entry)
{
	entry->flags |= WQ_FLAG_EXCLUSIVE;
	list_add_tail(&entry->entry, &wq->head);
}

/* Nobody is killed. */
#define wait_event_killable(wq, cond)		\
({						\
	shim_wait_begin(&(wq));			\
	while (!(cond))				\
		shim_wait(&(wq));		\
	shim_wait_end(&(wq));			\
	0;					\
})

#endif /* SHIM_WAIT_H */
