/* SPDX-License-Identifier: GPL-2.0 */
/* Workloads: keys, and what is done with them. */
#ifndef KVT_BENCH_WORKLOAD_H
#define KVT_BENCH_WORKLOAD_H

#include "phase.h"

/* A phase with keys of a kind, as results are named. */
struct step {
	const char *name;	/* of the rows, "get_W1" */
	const char *workload;	/* as --workload has it */
	enum phase phase;
};

/*
 * Steps with the same keys, which are inserted once for all of them.  The first
 * step inserts; one that changes the set of keys is the last.
 */
struct group {
	enum bench_keys keys;
	bool wide;
	uint32_t value_len;		/* bytes of a value; 0: a number, or columns */
	const struct step *steps;	/* up to one without a name */
};

/* Up to one without steps. */
extern const struct group groups[];

#endif /* KVT_BENCH_WORKLOAD_H */
