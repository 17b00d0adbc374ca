/* SPDX-License-Identifier: GPL-2.0 */
/* Memory of subjects that use malloc(), which is jemalloc's. */
#ifndef KVT_BENCH_MEMORY_H
#define KVT_BENCH_MEMORY_H

#include "subject.h"

/* Call it before the subject allocates: only small pages, or huge ones if they fit. */
void memory_pages(bool small);
/* Counts all used memory as nodes. */
void memory_of_malloc(struct bench_memory *memory);
/* The share of the process's memory in huge pages. */
double memory_huge(void);

#endif /* KVT_BENCH_MEMORY_H */
