/* SPDX-License-Identifier: GPL-2.0 */
/* The processor's counters, if programs may use them. */
#ifndef KVT_BENCH_COUNTERS_H
#define KVT_BENCH_COUNTERS_H

#include <stdint.h>

/* Counts of the program itself, without the kernel.  0: not available. */
struct bench_counts {
	uint64_t cycles;
	uint64_t instructions;
};

/* Count for the calling thread from here ... */
void counters_begin(void);
/* ... to here. */
struct bench_counts counters_end(void);

#endif /* KVT_BENCH_COUNTERS_H */
