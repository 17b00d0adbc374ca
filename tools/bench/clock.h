/* SPDX-License-Identifier: GPL-2.0 */
/* The time, for all benchmarks. */
#ifndef BENCH_CLOCK_H
#define BENCH_CLOCK_H

#include <stdint.h>

uint64_t now_ns(void);
uint64_t cpu_ns(void);
double seconds_now(void);
void sleep_until_ns(uint64_t when);

#endif /* BENCH_CLOCK_H */
