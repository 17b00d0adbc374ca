// SPDX-License-Identifier: GPL-2.0
/*
 * Results as JSON: rows, their ratios, and the configuration that they depend on.
 */
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "../results.h"
#include "bench_load.h"

#define CLOCK_READS	1000

/* Like CURVE_STEP of plots.py. */
#define CURVE_STEP	0.02
#define CURVE_MAX	6.0

static void add_real(json_t *obj, const char *name, double x)
{
	json_add(obj, name, json_real(x));
}

static void add_text(json_t *obj, const char *name, const char *text)
{
	json_add(obj, name, json_string(text));
}

static json_t *latency(const struct histogram *h)
{
	json_t *obj = json_new();
	int i;

	json_add_u64(obj, "min", h->min);
	add_real(obj, "mean", histogram_mean(h));
	for (i = 0; i < PERCENTILES; i++)
		json_add_u64(obj, percentiles[i].name,
			     histogram_percentile(h, percentiles[i].percent));
	json_add_u64(obj, "max", h->max);
	return obj;
}

/*
 * The minimum duration of the slowest share of all operations, for shares below 1 in steps of a
 * power of ten.  It ends below one operation.
 */
static json_t *curve(const struct histogram *h)
{
	double end = h->count ? fmin(log10((double)h->count), CURVE_MAX) : -1;
	json_t *array = json_array();
	unsigned int i;

	for (i = 0; i * CURVE_STEP <= end; i++)
		json_add_u64(array, NULL,
			     histogram_percentile(h, 100 - pow(10, 2 - i * CURVE_STEP)));
	return array;
}

static json_t *kinds(const struct result *res)
{
	json_t *obj = json_new(), *one;
	int i;

	for (i = 0; i < KINDS; i++) {
		if (!res->latency[i].count)
			continue;
		one = json_new();
		json_add_u64(one, "operations", res->latency[i].count);
		if (i == KIND_SCAN)
			json_add_u64(one, "records", res->records);
		json_add(one, "latency_ns", latency(&res->latency[i]));
		json_add(obj, kind_names[i], one);
	}
	return obj;
}

static json_t *mix(const struct workload *w)
{
	json_t *obj = json_new();
	int i;

	for (i = 0; i < KINDS; i++)
		if (w->share[i])
			add_real(obj, kind_names[i], w->share[i]);
	return obj;
}

static json_t *counters(const struct result *res)
{
	json_t *obj = json_new();
	unsigned int i;

	for (i = 0; i < KVTREE_STAT_NR; i++)
		if (res->counter[i])
			json_add_u64(obj, kvtree_stat_name(i), res->counter[i]);
	return obj;
}

static json_t *errors(const struct result *res)
{
	json_t *obj = json_new();
	int i;

	for (i = VERDICT_FAILED; i < VERDICTS; i++)
		json_add_u64(obj, verdict_names[i], res->verdict[i]);
	if (res->error)
		add_text(obj, "first", reason(res->error));
	return obj;
}

static json_t *add_row(json_t *results, const struct report *rep, const struct result *res)
{
	char system[64];
	json_t *obj;

	snprintf(system, sizeof(system), "kvtree %s", res->series->name);
	obj = results_add_row(results, &(struct results_row){
		.workload = res->workload->name,
		.system = system,
		.unit = "operations/s",
		.threads = plan_clients(rep->plan),
		.values = res->throughput,
		.runs = res->runs,
	});
	add_text(obj, "via", res->series->driver->name);
	json_add_u64(obj, "depth", res->series->depth);
	json_add(obj, "sqpoll", json_boolean(res->series->flags & SERIES_SQPOLL));
	json_add(obj, "by_pointer", json_boolean(res->series->flags & SERIES_BY_POINTER));
	json_add(obj, "mix", mix(res->workload));
	add_text(obj, "distribution", distribution_names[res->workload->distribution]);
	add_real(obj, "seconds", res->seconds);
	json_add_u64(obj, "operations", res->operations);
	json_add(obj, "errors", errors(res));
	json_add(obj, "latency_ns", latency(res->all));
	json_add(obj, "kinds", kinds(res));
	json_add_u64(obj, "uring_commands", res->counter[KVTREE_STAT_URING]);
	json_add(obj, "counters", counters(res));
	return obj;
}

/* "A_uring64_vs_ioctl" */
static void ratio_name(const struct result *res, const struct result *base, char *name, size_t size)
{
	char *in = name, *out = name;

	snprintf(name, size, "%s_%s_vs_%s", res->workload->name, res->series->name,
		 base->series->name);
	for (; *in; in++)
		if (!isspace((unsigned char)*in))
			*out++ = *in;
	*out = '\0';
}

static void add_ratios(json_t *results, const struct report *rep)
{
	char name[128];
	unsigned int i;

	for (i = 0; i < rep->nr; i++) {
		const struct result *res = &rep->result[i];
		const struct result *base = report_base(rep, res);

		if (res == base || !res->runs || !result_spread(base).median)
			continue;
		ratio_name(res, base, name, sizeof(name));
		results_add_ratio(results, name,
				  result_spread(res).median / result_spread(base).median);
	}
}

/* The cost of reading the clock, which happens twice per operation. */
static double clock_cost(void)
{
	uint64_t begin = now_ns();
	int i;

	for (i = 0; i < CLOCK_READS; i++)
		now_ns();
	return (double)(now_ns() - begin) / (CLOCK_READS + 1);
}

static json_t *environment(const struct report *rep)
{
	struct kvtree_info info = { 0 };
	json_t *obj = json_new();
	struct utsname uts;
	int err;

	uname(&uts);
	add_text(obj, "kernel", uts.release);
	add_text(obj, "machine", uts.machine);
	json_add_u64(obj, "cpus", (uint64_t)sysconf(_SC_NPROCESSORS_ONLN));
	add_text(obj, "library", kvtree_version());
	add_real(obj, "clock_ns", clock_cost());
	if (!rep->target->kv)
		return obj;
	err = kvtree_info(rep->target->kv, &info, sizeof(info));
	if (err)
		die("cannot query the module: %s", reason(err));
	add_text(obj, "module", info.version);
	json_add_u64(obj, "abi", info.abi_version);
	json_add(obj, "uring", json_boolean(info.features & KVTREE_FEAT_URING));
	return obj;
}

static json_t *settings(const struct plan *plan)
{
	json_t *obj = json_new();

	json_add_u64(obj, "records", plan->shape.records);
	json_add_u64(obj, "fields", plan->shape.fields);
	json_add_u64(obj, "field_size", plan->shape.field_size);
	json_add_u64(obj, "key_size", plan->shape.key_size);
	json_add(obj, "ordered", json_boolean(plan->shape.ordered));
	json_add_u64(obj, "operations", plan->operations);
	json_add_u64(obj, "warmup", plan->warmup);
	add_real(obj, "time", plan->seconds);
	add_real(obj, "rate", plan->rate);
	json_add_u64(obj, "threads", plan->threads);
	json_add_u64(obj, "processes", plan->processes);
	json_add_u64(obj, "runs", plan->runs);
	json_add_u64(obj, "scan_max", plan->scan_max);
	add_real(obj, "theta", plan->theta);
	json_add_u64(obj, "seed", plan->seed);
	json_add(obj, "check", json_boolean(plan->check));
	return obj;
}

/**
 * report_results() - build results for programs
 * @rep: the results
 * @curves: add the curve of each row's latencies
 *
 * Return: an object that the caller frees
 */
json_t *report_results(const struct report *rep, bool curves)
{
	json_t *results = results_new(), *row;
	unsigned int i;

	add_ratios(results, rep);
	for (i = 0; i < rep->nr; i++) {
		if (!rep->result[i].runs)
			continue;
		row = add_row(results, rep, &rep->result[i]);
		if (curves)
			json_add(row, "curve_ns", curve(rep->result[i].all));
	}
	json_add(results, "settings", settings(rep->plan));
	json_add(results, "environment", environment(rep));
	if (rep->target->load_seconds)
		add_real(results, "load_seconds", rep->target->load_seconds);
	return results;
}

/**
 * report_json() - print results for programs
 * @rep: the results
 */
void report_json(const struct report *rep)
{
	json_print(report_results(rep, false));
}
