// SPDX-License-Identifier: GPL-2.0
/*
 * What was measured, as tables and as JSON, and how it compares.
 */
#ifdef __x86_64__
#include <cpuid.h>
#endif
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include <jansson.h>

#include "bench.h"

#define ROWS_MAX	64
#define RATIOS_MAX	32

struct row {
	const char *workload, *system, *unit;
	double *values;		/* by round, the first not counted */
	unsigned int runs;
	bool sorted;
};

struct ratio {
	const char *name;
	double value, at_least, at_most;
};

static struct row rows[ROWS_MAX];
static unsigned int nr_rows;
static struct ratio ratios[RATIOS_MAX];
static unsigned int nr_ratios;
static const char *lane;

/**
 * row_new() - begin a row of the report
 * @plan: for the number of rounds
 * @workload: what is done, a string that stays
 * @system: by what, too
 * @unit: what its numbers are, too
 *
 * Return: the row
 */
struct row *row_new(const struct plan *plan, const char *workload, const char *system,
		    const char *unit)
{
	struct row *row;

	if (nr_rows == ROWS_MAX)
		die("too many rows");
	row = &rows[nr_rows++];
	*row = (struct row) {
		.workload = workload,
		.system = system,
		.unit = unit,
		.values = calloc(plan->rounds + 1, sizeof(double)),
		.runs = plan->rounds,
	};
	if (!row->values)
		die("out of memory");
	return row;
}

/**
 * row_set() - what a round came to
 * @row: the row
 * @round: 0 for the one that is not counted
 * @value: the number
 */
void row_set(struct row *row, unsigned int round, double value)
{
	row->values[round] = value;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static const double *sorted(struct row *row)
{
	if (!row->sorted)
		qsort(row->values + 1, row->runs, sizeof(double), compare);
	row->sorted = true;
	return row->values + 1;
}

/**
 * row_median() - the middle of all rounds
 * @row: a row that is complete
 *
 * Return: the median
 */
double row_median(struct row *row)
{
	const double *values = sorted(row);

	return (values[(row->runs - 1) / 2] + values[row->runs / 2]) / 2;
}

/**
 * ratio_add() - add a ratio to the report
 * @name: a string that stays
 * @value: the number
 * @at_least: what is to be reached, or 0
 * @at_most: what is not to be exceeded, or 0
 */
void ratio_add(const char *name, double value, double at_least, double at_most)
{
	if (nr_ratios == RATIOS_MAX)
		die("too many ratios");
	ratios[nr_ratios++] = (struct ratio) { name, value, at_least, at_most };
}

/* The hypervisor says so itself. */
static const char *lane_name(const struct plan *plan)
{
	unsigned int id[4] = { 0 };

#ifdef __x86_64__
	unsigned int eax, ebx, ecx, edx;

	if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !(ecx & (1u << 31)))
		return "not a virtual machine";
	__cpuid(0x40000000, id[3], id[0], id[1], id[2]);
#endif
	if (!memcmp(id, "TCGTCGTCGTCG", 12))
		return plan->icount ? "emulated (QEMU TCG), 1 ns for each instruction" :
				      "emulated (QEMU TCG)";
	if (!memcmp(id, "KVMKVMKVM", 9))
		return "virtual machine (KVM)";
	return "unknown kind of machine";
}

static bool missed(const struct ratio *r)
{
	return r->value < r->at_least || (r->at_most && r->value > r->at_most);
}

static void print_ratio(const struct ratio *r, bool bounds)
{
	printf("  %-40s %9.2f", r->name, r->value);
	if (bounds && r->at_least)
		printf("   to be at least %g", r->at_least);
	if (bounds && r->at_most)
		printf("   to be at most %g", r->at_most);
	puts(bounds && missed(r) ? ": MISSED" : "");
}

/**
 * report_print() - print tables
 * @plan: what was done
 */
void report_print(const struct plan *plan)
{
	const char *workload = "";
	struct utsname uts;
	struct row *row;
	unsigned int i;

	lane = lane_name(plan);
	uname(&uts);
	printf("Linux %s, %s; %u keys, medians of %u rounds\n", uts.release, lane, plan->keys,
	       plan->rounds);
	for (i = 0; i < nr_rows; i++) {
		row = &rows[i];
		if (strcmp(workload, row->workload))
			printf("\n%s\n  %-34s %12s %12s %12s\n", row->workload, "", "median",
			       "min", "max");
		workload = row->workload;
		printf("  %-34s %12.1f %12.1f %12.1f  %s\n", row->system, row_median(row),
		       sorted(row)[0], sorted(row)[row->runs - 1], row->unit);
	}
	printf("\nratios; %s\n", lane);
	for (i = 0; i < nr_ratios; i++)
		print_ratio(&ratios[i], !plan->quick && !plan->icount);
	fflush(stdout);
}

static json_t *row_json(struct row *row)
{
	return json_pack("{s:s, s:s, s:i, s:f, s:f, s:f, s:i, s:s, s:s}",
			 "workload", row->workload,
			 "system", row->system,
			 "threads", 1,
			 "median", row_median(row),
			 "min", sorted(row)[0],
			 "max", sorted(row)[row->runs - 1],
			 "runs", row->runs,
			 "unit", row->unit,
			 "lane", lane);
}

/**
 * report_write() - write everything as JSON, after report_print()
 * @path: of the file
 */
void report_write(const char *path)
{
	json_t *all, *values = json_object(), *list = json_array();
	unsigned int i;

	for (i = 0; i < nr_ratios; i++)
		json_object_set_new(values, ratios[i].name, json_real(ratios[i].value));
	for (i = 0; i < nr_rows; i++)
		json_array_append_new(list, row_json(&rows[i]));
	all = json_pack("{s:o, s:o}", "ratios", values, "rows", list);
	if (!all)
		die("out of memory");
	if (json_dump_file(all, path, JSON_INDENT(2) | JSON_REAL_PRECISION(6)))
		die("%s: cannot be written", path);
	json_decref(all);
}

/**
 * report_bounds() - say what is not as good as it is to be
 *
 * Return: whether everything is
 */
bool report_bounds(void)
{
	const struct ratio *r;
	bool ok = true;

	for (r = ratios; r < ratios + nr_ratios; r++) {
		if (!missed(r))
			continue;
		note("%s is %.2f, and was to be at %s %g", r->name, r->value,
		     r->at_least ? "least" : "most", r->at_least ?: r->at_most);
		ok = false;
	}
	return ok;
}
