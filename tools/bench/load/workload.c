// SPDX-License-Identifier: GPL-2.0
/*
 * Workloads: which operations, in which proportions, on which records.
 */
#include <strings.h>

#include "bench_load.h"

const char * const kind_names[KINDS] = {
	[KIND_READ] = "read",
	[KIND_UPDATE] = "update",
	[KIND_INSERT] = "insert",
	[KIND_SCAN] = "scan",
	[KIND_RMW] = "rmw",
};

const char * const distribution_names[DISTRIBUTIONS] = {
	[DIST_UNIFORM] = "uniform",
	[DIST_ZIPFIAN] = "zipfian",
	[DIST_LATEST] = "latest",
};

/* The core workloads of YCSB. */
static const struct workload core[] = {
	{ .name = "A", .share = { [KIND_READ] = 0.5, [KIND_UPDATE] = 0.5 },
	  .distribution = DIST_ZIPFIAN },
	{ .name = "B", .share = { [KIND_READ] = 0.95, [KIND_UPDATE] = 0.05 },
	  .distribution = DIST_ZIPFIAN },
	{ .name = "C", .share = { [KIND_READ] = 1 }, .distribution = DIST_ZIPFIAN },
	{ .name = "D", .share = { [KIND_READ] = 0.95, [KIND_INSERT] = 0.05 },
	  .distribution = DIST_LATEST },
	{ .name = "E", .share = { [KIND_SCAN] = 0.95, [KIND_INSERT] = 0.05 },
	  .distribution = DIST_ZIPFIAN },
	{ .name = "F", .share = { [KIND_READ] = 0.5, [KIND_RMW] = 0.5 },
	  .distribution = DIST_ZIPFIAN },
};

/**
 * workload_find() - find a workload of YCSB
 * @name: A to F
 * @len: bytes at @name
 *
 * Return: the workload, or NULL
 */
const struct workload *workload_find(const char *name, size_t len)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(core); i++)
		if (len == strlen(core[i].name) && !strncasecmp(name, core[i].name, len))
			return &core[i];
	return NULL;
}

/**
 * workload_scale() - scale numbers to shares with the sum 1
 * @w: the workload
 *
 * Return: false if all are 0
 */
bool workload_scale(struct workload *w)
{
	double sum = 0;
	int i;

	for (i = 0; i < KINDS; i++)
		sum += w->share[i];
	if (sum <= 0)
		return false;
	for (i = 0; i < KINDS; i++)
		w->share[i] /= sum;
	return true;
}

/**
 * distribution_find() - find a distribution by its name
 * @name: the name
 *
 * Return: enum distribution, or -1
 */
int distribution_find(const char *name)
{
	int i;

	for (i = 0; i < DISTRIBUTIONS; i++)
		if (!strcmp(name, distribution_names[i]))
			return i;
	return -1;
}

/**
 * workload_text() - describe a workload
 * @w: the workload
 * @buf: room for the text
 * @size: bytes at @buf
 *
 * Return: @buf
 */
const char *workload_text(const struct workload *w, char *buf, size_t size)
{
	FILE *out = fmemopen(buf, size, "w");
	const char *comma = "";
	int i;

	if (!out)
		die("out of memory");
	for (i = 0; i < KINDS; i++) {
		if (!w->share[i])
			continue;
		fprintf(out, "%s%.4g%% %s", comma, 100 * w->share[i], kind_names[i]);
		comma = ", ";
	}
	fclose(out);
	buf[size - 1] = '\0';
	return buf;
}
