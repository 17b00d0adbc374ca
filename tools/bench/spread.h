/* SPDX-License-Identifier: GPL-2.0 */
/* The least, the median and the most of what several rounds came to. */
#ifndef BENCH_SPREAD_H
#define BENCH_SPREAD_H

struct spread {
	double min, median, max;
};

struct spread spread_of(const double *values, unsigned int nr);

#endif /* BENCH_SPREAD_H */
