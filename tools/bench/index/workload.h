/* SPDX-License-Identifier: GPL-2.0 */
/* Workloads: keys, and phases that use them. */
#ifndef KVT_BENCH_WORKLOAD_H
#define KVT_BENCH_WORKLOAD_H

#include "phase.h"

/* A phase with keys of a kind, with its names in results. */
struct step {
	const char *name;	/* of the rows, "get_W1" */
	const char *workload;	/* for --workload */
	enum phase phase;
};

/*
 * first step inserts; a step that changes the set of keys is the last.
 */
struct group {
	enum bench_keys keys;
	bool wide;
	uint32_t value_len;		/* bytes of a value; 0: a number, or columns */
	const struct step *steps;	/* terminated by one without a name */
};

/* Terminated by one without steps. */
extern const struct group groups[];

#endif /* KVT_BENCH_WORKLOAD_H */
