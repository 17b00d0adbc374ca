/* SPDX-License-Identifier: GPL-2.0 */
/* Declarations shared by the files of bench-bpf. */
#ifndef BENCH_BPF_H
#define BENCH_BPF_H

#include "../common.h"

/* lookup.c and cache.c: measure, and add to the report. */
void lookup_measure(const struct plan *plan);
void cache_measure(const struct plan *plan, const char *cache);

#endif /* BENCH_BPF_H */
