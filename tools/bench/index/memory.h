/* SPDX-License-Identifier: GPL-2.0 */
/* Memory of subjects that take it from malloc(), which is jemalloc's. */
#ifndef KVT_BENCH_MEMORY_H
#define KVT_BENCH_MEMORY_H

#include "subject.h"

/* Before the subject takes any: small pages only, or huge ones where they fit. */
void memory_pages(bool small);
/* What is in use is all taken for nodes. */
void memory_of_malloc(struct bench_memory *memory);
/* How much of the process's memory is in huge pages. */
double memory_huge(void);

#endif /* KVT_BENCH_MEMORY_H */
