// SPDX-License-Identifier: GPL-2.0
/*
 * Results as tables and as JSON, and their ratios.
 */
#ifdef __x86_64__
#include <cpuid.h>
#endif
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "common.h"
#include "results.h"
#include "spread.h"

#define ROWS_MAX	128
#define RATIOS_MAX	96

struct row {
	const char *workload, *title, *system, *unit;
	unsigned int threads;
	double *values;		/* by round; the first does not count */
	unsigned int runs;
	const char *count_name;
	uint64_t count;
};

struct ratio {
	char name[64];
	double value, at_least, at_most;
};

static struct row rows[ROWS_MAX];
static unsigned int nr_rows;
static struct ratio ratios[RATIOS_MAX];
static unsigned int nr_ratios;
static const char *lane;

static double *doubles(unsigned int nr)
{
	double *all = calloc(nr, sizeof(*all));

	if (!all)
		die("out of memory");
	return all;
}

/**
 * row_new() - begin a row of the report
 * @plan: for the number of rounds
 * @workload: the workload; this and the other strings are not copied
 * @system: the system
 * @unit: the unit of its numbers
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
		.title = workload,
		.system = system,
		.unit = unit,
		.threads = 1,
		.values = doubles(plan->rounds + 1),
		.runs = plan->rounds,
	};
	return row;
}

/**
 * row_title() - set a title for the workload's table
 * @row: the row
 * @title: the title; not copied
 */
void row_title(struct row *row, const char *title)
{
	row->title = title;
}

/**
 * row_threads() - set the number of threads, which is 1 by default
 * @row: the row
 * @threads: the number
 */
void row_threads(struct row *row, unsigned int threads)
{
	row->threads = threads;
}

/**
 * row_set() - set the result of a round
 * @row: the row
 * @round: the round; 0 does not count
 * @value: the result
 */
void row_set(struct row *row, unsigned int round, double value)
{
	row->values[round] = value;
}

/**
 * row_count() - add to a counter over all rounds
 * @row: the row
 * @name: the counter's name in the results
 * @value: the number to add
 */
void row_count(struct row *row, const char *name, uint64_t value)
{
	row->count_name = name;
	row->count += value;
}

static struct spread row_spread(const struct row *row)
{
	return spread_of(row->values + 1, row->runs);
}

/**
 * row_median() - the median of all rounds
 * @row: a complete row
 *
 * Return: the median
 */
double row_median(struct row *row)
{
	return row_spread(row).median;
}

/**
 * row_ratio() - the ratio of two rows
 * @row: a complete row
 * @beside: another one, with as many rounds
 *
 * Rounds are compared one by one, since the machine's other load varies between them.
 *
 * Return: the median of the rounds' ratios
 */
double row_ratio(struct row *row, struct row *beside)
{
	double *all = doubles(row->runs), median;
	unsigned int i;

	for (i = 0; i < row->runs; i++)
		all[i] = row->values[i + 1] / beside->values[i + 1];
	median = spread_of(all, row->runs).median;
	free(all);
	return median;
}

/**
 * ratio_add() - add a ratio to the report
 * @name: its name, which is copied
 * @value: the ratio
 * @at_least: the minimum, or 0
 * @at_most: the maximum, or 0
 */
void ratio_add(const char *name, double value, double at_least, double at_most)
{
	struct ratio *r;

	if (nr_ratios == RATIOS_MAX)
		die("too many ratios");
	r = &ratios[nr_ratios++];
	*r = (struct ratio) { .value = value, .at_least = at_least, .at_most = at_most };
	if (snprintf(r->name, sizeof(r->name), "%s", name) >= (int)sizeof(r->name))
		die("%s: the name of a ratio is too long", name);
}

static bool is_uml(void)
{
	FILE *f = fopen("/proc/cpuinfo", "r");
	bool found = false;
	char line[128];

	while (f && !found && fgets(line, sizeof(line), f))
		found = strstr(line, "User Mode Linux");
	if (f)
		fclose(f);
	return found;
}

/* cpuid returns the hypervisor's name. */
static const char *lane_name(const struct plan *plan)
{
	unsigned int id[4] = { 0 };

	if (is_uml())
		return "User-Mode Linux";
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

/* Small ones would be zero. */
static int ratio_digits(const struct ratio *r)
{
	return r->value < 0.1 ? 4 : 2;
}

static void print_ratio(const struct ratio *r, bool bounds)
{
	printf("  %-51s %9.*f", r->name, ratio_digits(r), r->value);
	if (bounds && r->at_least)
		printf("   to be at least %g", r->at_least);
	if (bounds && r->at_most)
		printf("   to be at most %g", r->at_most);
	puts(bounds && missed(r) ? ": MISSED" : "");
}

static char *lines[8];
static unsigned int nr_lines;

/**
 * report_add_line() - add a line above the tables
 * @line: the line, which is copied
 */
void report_add_line(const char *line)
{
	if (nr_lines == ARRAY_SIZE(lines))
		die("too many lines");
	lines[nr_lines++] = strdup(line);
}

static void print_row(struct row *row, const char *title)
{
	struct spread s = row_spread(row);

	if (strcmp(title, row->title))
		printf("\n%s\n  %2u %-37s %12s %12s %12s\n", row->title, row->runs, "rounds",
		       "median", "min", "max");
	if (s.median < 10)
		printf("  %-40s %12.3f %12.3f %12.3f  %s", row->system, s.median, s.min,
		       s.max, row->unit);
	else
		printf("  %-40s %12.1f %12.1f %12.1f  %s", row->system, s.median, s.min,
		       s.max, row->unit);
	if (strstr(row->unit, "s/s"))
		printf("  (%.2f us each)", 1e6 / s.median);
	putchar('\n');
}

static void report_print(const struct plan *plan)
{
	const char *title = "";
	struct utsname uts;
	unsigned int i;

	lane = lane_name(plan);
	uname(&uts);
	printf("Linux %s, %s; %u keys\n", uts.release, lane, plan->keys);
	for (i = 0; i < nr_lines; i++)
		puts(lines[i]);
	for (i = 0; i < nr_rows; i++) {
		print_row(&rows[i], title);
		title = rows[i].title;
	}
	printf("\nratios; %s\n", lane);
	for (i = 0; i < nr_ratios; i++)
		print_ratio(&ratios[i], !plan->quick && !plan->icount);
	fflush(stdout);
}

static void add_row(json_t *results, const struct row *row)
{
	json_t *obj = results_add_row(results, &(struct results_row){
		.workload = row->workload,
		.system = row->system,
		.unit = row->unit,
		.threads = row->threads,
		.values = row->values + 1,
		.runs = row->runs,
	});

	json_object_set_new(obj, "lane", json_string(lane));
	if (row->count)
		json_object_set_new(obj, row->count_name, json_integer(row->count));
}

static void report_write(const char *path)
{
	json_t *results = results_new();
	unsigned int i;
	int err;

	for (i = 0; i < nr_ratios; i++)
		results_add_ratio(results, ratios[i].name, ratios[i].value);
	for (i = 0; i < nr_rows; i++)
		add_row(results, &rows[i]);
	err = results_write(results, path);
	if (err)
		die("%s: %s", path, strerror(err));
}

/* Name the ratios that miss their targets. */
static bool report_bounds(void)
{
	const struct ratio *r;
	bool ok = true;

	for (r = ratios; r < ratios + nr_ratios; r++) {
		if (!missed(r))
			continue;
		note("%s is %.*f, but should be at %s %g", r->name, ratio_digits(r), r->value,
		     r->at_least ? "least" : "most", r->at_least ?: r->at_most);
		ok = false;
	}
	return ok;
}

/**
 * report_end() - print tables and write all results as JSON
 * @plan: the plan
 *
 * Return: the program's exit status, 1 if a ratio misses its target
 */
int report_end(const struct plan *plan)
{
	report_print(plan);
	report_write(plan->json);
	return plan->quick || plan->icount || report_bounds() ? 0 : 1;
}
