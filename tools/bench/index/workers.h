/* SPDX-License-Identifier: GPL-2.0 */
/* Threads that wait for jobs. */
#ifndef KVT_BENCH_WORKERS_H
#define KVT_BENCH_WORKERS_H

/* Each thread first calls @enter, unless it is NULL. */
void workers_start(unsigned int nr, void (*enter)(void));
/* Let the first @nr call @fn with their numbers, and wait until all have returned. */
void workers_run(unsigned int nr, void (*fn)(unsigned int worker));

#endif /* KVT_BENCH_WORKERS_H */
