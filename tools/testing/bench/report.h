/* SPDX-License-Identifier: GPL-2.0 */
/* Results of all rounds, as a table and as JSON. */
#ifndef KVT_BENCH_REPORT_H
#define KVT_BENCH_REPORT_H

#include "phase.h"

#define ROUNDS_MAX	31

/* A subject's results in a phase of a workload. */
struct row {
	const char *subject;
	enum bench_keys keys;
	enum phase phase;
	uint64_t nr_keys;
	unsigned int nr;		/* rounds */
	double rate[ROUNDS_MAX];	/* operations per second of CPU time; sorted */
	struct bench_memory memory;
};

void report_sort(struct row *row);
double report_median(const struct row *row);
void report_table(const struct row *rows, unsigned int nr);
/* Returns 0 or an error of the C library. */
int report_json(const struct row *rows, unsigned int nr, const char *path);

#endif /* KVT_BENCH_REPORT_H */
