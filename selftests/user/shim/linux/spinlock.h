/* SPDX-License-Identifier: GPL-2.0 */
/* Sleeping locks: there are no interrupts. */
#ifndef SHIM_SPINLOCK_H
#define SHIM_SPINLOCK_H

#include <pthread.h>

typedef struct {
	pthread_mutex_t mutex;
} spinlock_t;

static inline void spin_lock_init(spinlock_t *lock)
{
	pthread_mutex_init(&lock->mutex, NULL);
}

static inline void spin_lock(spinlock_t *lock)
{
	pthread_mutex_lock(&lock->mutex);
}

static inline int spin_trylock(spinlock_t *lock)
{
	return !pthread_mutex_trylock(&lock->mutex);
}

static inline void spin_unlock(spinlock_t *lock)
{
	pthread_mutex_unlock(&lock->mutex);
}

static inline void spin_lock_irq(spinlock_t *lock)
{
	pthread_mutex_lock(&lock->mutex);
}

static inline void spin_unlock_irq(spinlock_t *lock)
{
	pthread_mutex_unlock(&lock->mutex);
}

#define spin_lock_bh	spin_lock
#define spin_unlock_bh	spin_unlock

typedef spinlock_t raw_spinlock_t;

#define raw_spin_lock_init	spin_lock_init
#define raw_spin_lock		spin_lock
#define raw_spin_unlock		spin_unlock

#define spin_lock_irqsave(lock, flags)		\
do {						\
	(flags) = 0;				\
	spin_lock_irq(lock);			\
} while (0)

#define spin_unlock_irqrestore(lock, flags)	\
do {						\
	(void)(flags);				\
	spin_unlock_irq(lock);			\
} while (0)

#endif /* SHIM_SPINLOCK_H */
