/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Results as JSON, in the same format for all benchmarks:
 *
 *   { "ratios": { NAME: NUMBER, ... }, "rows": [ ROW, ... ] }
 *
 * Documentation/bench.rst has the members of a row.
 */
#ifndef BENCH_RESULTS_H
#define BENCH_RESULTS_H

#include <jansson.h>

struct results_row {
	const char *workload, *system, *unit;
	unsigned int threads;
	const double *values;	/* one for each run */
	unsigned int runs;
};

json_t *results_new(void);
void results_add_ratio(json_t *results, const char *name, double value);
json_t *results_add_row(json_t *results, const struct results_row *row);
int results_write(json_t *results, const char *path);

#endif /* BENCH_RESULTS_H */
