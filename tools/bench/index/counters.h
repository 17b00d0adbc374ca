/* SPDX-License-Identifier: GPL-2.0 */
/* The processor's counters, where it has any that a program may use. */
#ifndef KVT_BENCH_COUNTERS_H
#define KVT_BENCH_COUNTERS_H

#include <stdint.h>

/* Of the program itself, without the kernel.  0: there are none. */
struct bench_counts {
	uint64_t cycles;
	uint64_t instructions;
};

/* Of the calling thread, from here ... */
void counters_begin(void);
/* ... to here. */
struct bench_counts counters_end(void);

#endif /* KVT_BENCH_COUNTERS_H */
