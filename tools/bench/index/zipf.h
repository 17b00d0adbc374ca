/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Zipf's distribution as YCSB draws it (Gray et al., "Quickly generating
 * billion-record synthetic databases", SIGMOD 1994).
 */
#ifndef KVT_BENCH_ZIPF_H
#define KVT_BENCH_ZIPF_H

#include <stdint.h>

#define ZIPF_THETA	0.99

struct zipf {
	uint64_t n;
	double zeta, second, alpha, eta;
};

void zipf_init(struct zipf *z, uint64_t n);
/* A rank, 0..n - 1, low ones often.  The keys of neighbours are anywhere. */
uint64_t zipf_draw(const struct zipf *z, uint64_t *state);

#endif /* KVT_BENCH_ZIPF_H */
