/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SHIM_MUTEX_H
#define SHIM_MUTEX_H

#include <pthread.h>
#include <linux/types.h>

struct mutex {
	pthread_mutex_t lock;
};

static inline void mutex_init(struct mutex *m)
{
	pthread_mutex_init(&m->lock, NULL);
}

static inline void mutex_lock(struct mutex *m)
{
	pthread_mutex_lock(&m->lock);
}

static inline bool mutex_trylock(struct mutex *m)
{
	return !pthread_mutex_trylock(&m->lock);
}

static inline void mutex_unlock(struct mutex *m)
{
	pthread_mutex_unlock(&m->lock);
}

#endif /* SHIM_MUTEX_H */
