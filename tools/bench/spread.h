/* SPDX-License-Identifier: GPL-2.0 */
/* The minimum, the median and the maximum of several rounds. */
#ifndef BENCH_SPREAD_H
#define BENCH_SPREAD_H

struct spread {
	double min, median, max;
};

struct spread spread_of(const double *values, unsigned int nr);

#endif /* BENCH_SPREAD_H */
