/* SPDX-License-Identifier: GPL-2.0 */
/* Results of all rounds, as a table and as JSON. */
#ifndef KVT_BENCH_REPORT_H
#define KVT_BENCH_REPORT_H

#include "workload.h"

#define ROUNDS_MAX	31

/* A subject's results in a step. */
struct row {
	const struct step *step;
	const char *subject;
	bool small_pages;
	unsigned int threads;
	uint64_t nr_keys;
	unsigned int nr;		/* rounds */
	double rate[ROUNDS_MAX];	/* of all threads, per second */
	double wall[ROUNDS_MAX];
	struct bench_memory memory;
	/* Of all rounds. */
	struct bench_swaps swaps;
	struct bench_counts counts;
	uint64_t ops;
};

void report_add(struct row *row, const struct answer *a);
void report_table(const struct row *rows, unsigned int nr);
/* Returns 0 or an error of the C library. */
int report_json(const struct row *rows, unsigned int nr, const char *path);

#endif /* KVT_BENCH_REPORT_H */
