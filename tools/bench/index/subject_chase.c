// SPDX-License-Identifier: GPL-2.0
/*
 * A pointer chase: loads that wait for each other, one per cache line, all over memory.  It
 * shows how much a second thread can gain on this machine.
 */
#include <stdlib.h>
#include <sys/mman.h>

#include "subject.h"

#define LINE	64
#define HUGE_PAGE	(2ull << 20)

struct line {
	uint64_t next;
	uint8_t rest[LINE - sizeof(uint64_t)];
};

static struct line *lines;
static uint64_t nr_lines;

/* A random permutation that is a single cycle (Sattolo). */
static void ch_init(const struct bench_config *config)
{
	struct rng rng = { 1 };
	uint64_t i, j, swap, size;

	nr_lines = config->nr_keys;
	size = (nr_lines * sizeof(*lines) + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1);
	lines = aligned_alloc(HUGE_PAGE, size);
	if (!lines)
		abort();
	madvise(lines, size, config->small_pages ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
	for (i = 0; i < nr_lines; i++)
		lines[i].next = i;
	for (i = nr_lines - 1; i; i--) {
		j = rng_below(&rng, i);
		swap = lines[i].next;
		lines[i].next = lines[j].next;
		lines[j].next = swap;
	}
}

static uint64_t ch_chase(uint64_t start, uint64_t nr)
{
	struct rng rng = { start };
	uint64_t at = rng_below(&rng, nr_lines);

	while (nr--)
		at = lines[at].next;
	return at;
}

const struct subject subject_chase = { .name = "chase", .init = ch_init, .chase = ch_chase };
