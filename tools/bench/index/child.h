/* SPDX-License-Identifier: GPL-2.0 */
/* A process per subject: its memory and caches are its own while it runs. */
#ifndef KVT_BENCH_CHILD_H
#define KVT_BENCH_CHILD_H

#include <sys/types.h>

#include "phase.h"

struct child {
	const struct subject *subject;
	struct bench_config config;
	pid_t pid;
	int to, from;
};

/* @c has its subject and its configuration set. */
int child_start(struct child *c, unsigned int threads);
/* Returns false if the process has exited. */
bool child_ask(const struct child *c, const struct request *r, struct answer *a);
void child_stop(struct child *c);

#endif /* KVT_BENCH_CHILD_H */
