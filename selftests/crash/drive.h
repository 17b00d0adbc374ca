/* SPDX-License-Identifier: GPL-2.0 */
/* The workload, on a store of the running kernel. */
#ifndef CRASH_DRIVE_H
#define CRASH_DRIVE_H

#include "oracle.h"
#include "recover.h"

struct crash_drive {
	int fd;				/* of a session */
	struct crash_oracle *oracle;
	uint32_t cpus;			/* that the workers run on, from the first */
	uint32_t ops;			/* of each worker */
	uint32_t checkpoint_every;	/* operations; 0: none */
	/* Called when an operation has returned, by the worker's thread. */
	void (*done)(struct crash_drive *drive, const struct crash_op *op,
		     const struct crash_result *result);
	void *arg;
};

/* Run all workers to their end. */
void crash_drive_run(struct crash_drive *drive);
/* The state that the kernel has restored, by a scan of all keys. */
void crash_drive_scan(int fd, struct crash_state *state);
/* Put a key of no importance: the version that it gets. */
uint64_t crash_drive_version(int fd);

#endif /* CRASH_DRIVE_H */
