/* SPDX-License-Identifier: GPL-2.0 */
/* Ranks with frequent low numbers, for all benchmarks. */
#ifndef BENCH_ZIPF_H
#define BENCH_ZIPF_H

#include "random.h"

#define ZIPF_YCSB	0.99	/* YCSB's theta */

struct zipf {
	uint64_t n;		/* ranks 0..n-1 */
	double theta;
	double zeta;		/* the sum of 1/i^theta, i = 1..n */
	double first_two;	/* the same for n = 2 */
	double alpha;
	double eta;
};

void zipf_init(struct zipf *zipf, uint64_t n, double theta);
void zipf_grow(struct zipf *zipf, uint64_t n);
uint64_t zipf_next(const struct zipf *zipf, struct rng *rng);

#endif /* BENCH_ZIPF_H */
