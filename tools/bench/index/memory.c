// SPDX-License-Identifier: GPL-2.0
/* See memory.h. */
#include <jemalloc/jemalloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "memory.h"

/*
 * Huge pages by madvise().  Like the arena, give nothing back, so that only the first round
 * takes page faults.
 */
const char *malloc_conf = "thp:always,metadata_thp:always,dirty_decay_ms:-1,muzzy_decay_ms:-1";

void memory_pages(bool small)
{
	if (small && prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)) {
		perror("kvt-bench: prctl");
		abort();
	}
}

static size_t statistic(const char *name)
{
	size_t n = 0, len = sizeof(n);

	mallctl(name, &n, &len, NULL, 0);
	return n;
}

void memory_of_malloc(struct bench_memory *memory)
{
	uint64_t epoch = 1;
	size_t len = sizeof(epoch);

	mallctl("epoch", &epoch, &len, &epoch, len);
	memory->nodes = statistic("stats.allocated");
	memory->all = statistic("stats.active");
	memory->slack = memory->all - memory->nodes;
}

double memory_huge(void)
{
	FILE *f = fopen("/proc/self/smaps_rollup", "r");
	unsigned long long kb, all = 0, huge = 0;
	char line[128];

	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "Rss: %llu", &kb) == 1)
			all = kb;
		else if (sscanf(line, "AnonHugePages: %llu", &kb) == 1 ||
			 sscanf(line, "ShmemPmdMapped: %llu", &kb) == 1)
			huge += kb;
	}
	if (f)
		fclose(f);
	return all ? (double)huge / all : 0;
}
