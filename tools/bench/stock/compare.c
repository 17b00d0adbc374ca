// SPDX-License-Identifier: GPL-2.0
/*
 * Ratios between the systems.
 */
#include <stdio.h>
#include <string.h>

#include "bench_stock.h"

#define NOTHING_CALL	"kvtree ioctl that does nothing"

/*
 * The ratio of two systems' rates.  Its name begins with the workload, except for gets, which use
 * `plain`.
 */
struct comparison {
	const char *name;
	const char *plain;
	const char *sys, *beside;
	double at_least, at_most;	/* for gets; 0: none */
};

static const struct comparison comparisons[] = {
	{ "ioctl_vs_redis", NULL, "kvtree ioctl", "redis unix", 40, 0 },
	{ "batch64_vs_redis_p64", NULL, "kvtree batch 64", "redis unix, -P 64", 8, 0 },
	{ "uring64_vs_redis_p64", NULL, "kvtree io_uring 64, inline", "redis unix, -P 64", 8, 0 },
	{ "uring_batch64_vs_redis_p64", NULL, "kvtree io_uring batch 64", "redis unix, -P 64",
	  0, 0 },
	{ "uring64_vs_ioctl", "uring64_vs_ioctl", "kvtree io_uring 64, inline", "kvtree ioctl",
	  1.1, 0 },
	{ "uring64_pointer_vs_ioctl", "uring64_pointer_vs_ioctl", "kvtree io_uring 64, pointer",
	  "kvtree ioctl", 0, 0 },
	{ "uring_batch64_vs_ioctl", "uring_batch64_vs_ioctl", "kvtree io_uring batch 64",
	  "kvtree ioctl", 3, 0 },
	/* The other way round, because these are times. */
	{ "ioctl_vs_empty_ioctl", NULL, NOTHING_CALL, "kvtree ioctl", 0, 3 },
	{ "ioctl_vs_redis_tcp", NULL, "kvtree ioctl", "redis tcp", 0, 0 },
	{ "ioctl_vs_memcached", NULL, "kvtree ioctl", "memcached unix", 0, 0 },
	{ "ioctl_vs_memcached_tcp", NULL, "kvtree ioctl", "memcached tcp", 0, 0 },
	{ "batch64_vs_memcached_m64", NULL, "kvtree batch 64", "memcached unix, multi 64", 0, 0 },
	{ "uring64_vs_memcached_m64", NULL, "kvtree io_uring 64, inline",
	  "memcached unix, multi 64", 0, 0 },
};

static struct cell *find(const struct cells *cells, enum workload w, const char *sys)
{
	unsigned int i;

	if (!strcmp(sys, NOTHING_CALL))
		w = EMPTY;
	for (i = 0; i < cells->nr; i++)
		if (cells->all[i].workload == w && !strcmp(cells->all[i].sys->name, sys))
			return &cells->all[i];
	return NULL;
}

static void compare(const struct cells *cells, enum workload w, const struct comparison *c)
{
	struct cell *sys = find(cells, w, c->sys), *beside = find(cells, w, c->beside);
	bool gets = w == PLAIN_GET;
	char name[64];

	/* One of them was not measured with this workload. */
	if (!sys || !beside || (sys->workload == EMPTY && w > PLAIN_PUT))
		return;
	if (gets && c->plain)
		snprintf(name, sizeof(name), "%s", c->plain);
	else
		snprintf(name, sizeof(name), "%s_%s", workload_name(w), c->name);
	ratio_add(name, row_median(sys->row) / row_median(beside->row),
		  gets ? c->at_least : 0, gets ? c->at_most : 0);
}

/**
 * compare_all() - add the ratios to the report
 * @cells: the measurements
 */
void compare_all(const struct cells *cells)
{
	enum workload w;
	unsigned int i;

	for (w = PLAIN_GET; w < WORKLOADS; w++)
		for (i = 0; i < ARRAY_SIZE(comparisons); i++)
			compare(cells, w, &comparisons[i]);
}
