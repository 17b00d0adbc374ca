/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SHIM_COMPLETION_H
#define SHIM_COMPLETION_H

#include <pthread.h>
#include <linux/types.h>

struct completion {
	pthread_mutex_t lock;
	pthread_cond_t cond;
	bool done;
};

void init_completion(struct completion *c);
void complete(struct completion *c);
void wait_for_completion(struct completion *c);

#endif /* SHIM_COMPLETION_H */
