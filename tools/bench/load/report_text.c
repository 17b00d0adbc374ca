// SPDX-License-Identifier: GPL-2.0
/*
 * Results as a table.
 */
#include <inttypes.h>

#include "bench_load.h"

const struct percentile percentiles[PERCENTILES] = {
	{ 50, "p50" }, { 90, "p90" }, { 95, "p95" }, { 99, "p99" }, { 99.9, "p99.9" },
	{ 99.99, "p99.99" },
};

/**
 * report_base() - the base of a comparison
 * @rep: the report
 * @res: the result
 *
 * Return: the first result of the same workload
 */
const struct result *report_base(const struct report *rep, const struct result *res)
{
	unsigned int i;

	for (i = 0; i < rep->nr; i++)
		if (rep->result[i].workload == res->workload && rep->result[i].runs)
			return &rep->result[i];
	return res;
}

static void print_plan(const struct report *rep)
{
	const struct plan *plan = rep->plan;
	const struct shape *shape = &plan->shape;

	printf("%" PRIu64 " records of ", shape->records);
	if (shape->fields > 1)
		printf("%u fields of %u bytes", shape->fields, shape->field_size);
	else
		printf("%u bytes", shape->field_size);
	if (rep->target->load_seconds)
		printf(", loaded in %.2f s", rep->target->load_seconds);
	printf("; %u process%s with %u thread%s", plan->processes,
	       plan->processes > 1 ? "es" : "", plan->threads, plan->threads > 1 ? "s" : "");
	if (plan->rate)
		printf("; %.0f operations/s scheduled", plan->rate);
	if (plan->runs > 1)
		printf("; %u runs, the median of their throughput, their latencies together",
		       plan->runs);
	putchar('\n');
}

static void print_throughput(const struct report *rep, const struct result *res)
{
	const struct result *base = report_base(rep, res);
	struct spread s = result_spread(res);
	char text[128];

	if (res == base)
		printf("\n%s: %s; %s\n%-22s %14s %12s %12s %8s\n", res->workload->name,
		       workload_text(res->workload, text, sizeof(text)),
		       distribution_names[res->workload->distribution], "THROUGHPUT",
		       "operations/s", "min", "max", "ratio");
	printf("  %-20s %14.0f %12.0f %12.0f %8.2f\n", res->series->name, s.median, s.min, s.max,
	       s.median / result_spread(base).median);
}

static void print_kind(const struct result *res, enum kind kind)
{
	const struct histogram *h = &res->latency[kind];
	int i;

	if (!h->count)
		return;
	printf("  %-20s %-6s %9" PRIu64 " %8.2f", res->series->name, kind_names[kind], h->count,
	       histogram_mean(h) / 1e3);
	for (i = 0; i < PERCENTILES; i++)
		printf(" %8.2f",
		       (double)histogram_percentile(h, percentiles[i].percent) / 1e3);
	printf(" %8.2f\n", (double)h->max / 1e3);
}

static void print_errors(const struct result *res)
{
	int i;

	if (!result_errors(res))
		return;
	printf("  %-20s ERRORS", res->series->name);
	for (i = VERDICT_FAILED; i < VERDICTS; i++)
		if (res->verdict[i])
			printf(" %" PRIu64 " %s", res->verdict[i], verdict_names[i]);
	if (res->error)
		printf(": %s", reason(res->error));
	putchar('\n');
}

static void print_latency(const struct report *rep, const struct result *res)
{
	int i;

	if (res == report_base(rep, res)) {
		printf("%-22s %-6s %9s %8s", "LATENCY in us", "", "count", "mean");
		for (i = 0; i < PERCENTILES; i++)
			printf(" %8s", percentiles[i].name);
		printf(" %8s\n", "max");
	}
	for (i = 0; i < KINDS; i++)
		print_kind(res, (enum kind)i);
	print_errors(res);
}

/* All results of a workload. */
static void print_workload(const struct report *rep, const struct workload *w)
{
	unsigned int i;

	for (i = 0; i < rep->nr; i++)
		if (rep->result[i].workload == w && rep->result[i].runs)
			print_throughput(rep, &rep->result[i]);
	for (i = 0; i < rep->nr; i++)
		if (rep->result[i].workload == w && rep->result[i].runs)
			print_latency(rep, &rep->result[i]);
}

/**
 * report_text() - print results for people
 * @rep: the results
 */
void report_text(const struct report *rep)
{
	unsigned int i;

	print_plan(rep);
	for (i = 0; i < rep->plan->nr_workloads; i++)
		print_workload(rep, &rep->plan->workload[i]);
}
