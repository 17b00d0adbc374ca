// SPDX-License-Identifier: GPL-2.0
/* See workers.h. */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#include "workers.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static void (*job)(unsigned int worker);
static void (*on_start)(void);
static unsigned int turn;	/* jobs started */
static unsigned int wanted;	/* workers that take part in this job */
static unsigned int busy;

static void *work(void *arg)
{
	unsigned int worker = (uintptr_t)arg, seen = 0;
	void (*fn)(unsigned int worker);

	if (on_start)
		on_start();
	pthread_mutex_lock(&lock);
	for (;;) {
		while (turn == seen || worker >= wanted) {
			seen = turn;
			pthread_cond_wait(&changed, &lock);
		}
		seen = turn;
		fn = job;
		pthread_mutex_unlock(&lock);
		fn(worker);
		pthread_mutex_lock(&lock);
		if (!--busy)
			pthread_cond_broadcast(&changed);
	}
	return NULL;
}

void workers_start(unsigned int nr, void (*enter)(void))
{
	pthread_t thread;
	uintptr_t i;

	on_start = enter;
	for (i = 0; i < nr; i++)
		if (pthread_create(&thread, NULL, work, (void *)i))
			abort();
}

void workers_run(unsigned int nr, void (*fn)(unsigned int worker))
{
	pthread_mutex_lock(&lock);
	job = fn;
	wanted = nr;
	busy = nr;
	turn++;
	pthread_cond_broadcast(&changed);
	while (busy)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
}
