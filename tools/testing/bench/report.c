// SPDX-License-Identifier: GPL-2.0
/* See report.h. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"

static int cmp_rates(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

void report_sort(struct row *row)
{
	qsort(row->rate, row->nr, sizeof(row->rate[0]), cmp_rates);
}

double report_median(const struct row *row)
{
	return row->rate[row->nr / 2];
}

static double per_key(const struct row *row, uint64_t bytes)
{
	return (double)bytes / row->nr_keys;
}

void report_table(const struct row *rows, unsigned int nr)
{
	const struct row *r;

	printf("%-3s %-10s %-8s %10s %8s %8s %8s   %s\n", "", "subject", "", "keys", "median",
	       "min", "max", "bytes per key: nodes, values, slack, all");
	for (r = rows; r < rows + nr; r++) {
		printf("%-3s %-10s %-8s %10llu %8.3f %8.3f %8.3f", bench_keys_names[r->keys],
		       r->subject, phase_names[r->phase], (unsigned long long)r->nr_keys,
		       report_median(r) / 1e6, r->rate[0] / 1e6, r->rate[r->nr - 1] / 1e6);
		if (r->phase == PHASE_INSERT)
			printf("   %.1f %.1f %.1f %.1f", per_key(r, r->memory.nodes),
			       per_key(r, r->memory.values), per_key(r, r->memory.slack),
			       per_key(r, r->memory.all));
		putchar('\n');
	}
	printf("Rates are millions per second of CPU time.\n");
}

static const struct row *find(const struct row *rows, unsigned int nr, const char *subject,
			      enum bench_keys keys, enum phase phase)
{
	const struct row *r;

	for (r = rows; r < rows + nr; r++)
		if (!strcmp(r->subject, subject) && r->keys == keys && r->phase == phase)
			return r;
	return NULL;
}

static void add_ratio(json_t *ratios, const char *name, const struct row *of, const struct row *to)
{
	if (of && to)
		json_object_set_new(ratios, name, json_real(report_median(of) / report_median(to)));
}

/* kvtree to every other subject, and its batches to its single gets. */
static json_t *make_ratios(const struct row *rows, unsigned int nr)
{
	json_t *ratios = json_object();
	const struct row *r, *own;
	char name[64];

	for (r = rows; r < rows + nr; r++) {
		const char *phase = phase_names[r->phase], *keys = bench_keys_names[r->keys];

		own = find(rows, nr, "kvtree", r->keys, r->phase);
		snprintf(name, sizeof(name), "%s_%s_vs_%s", phase, keys, r->subject);
		if (own != r)
			add_ratio(ratios, name, own, r);
		if (own != r || r->phase != PHASE_BATCH)
			continue;
		snprintf(name, sizeof(name), "batch32_get_%s_vs_get_%s", keys, keys);
		add_ratio(ratios, name, r, find(rows, nr, "kvtree", r->keys, PHASE_GET));
	}
	return ratios;
}

static void add_number(json_t *to, const char *name, double n)
{
	json_object_set_new(to, name, json_real(n));
}

static json_t *make_memory(const struct row *r)
{
	json_t *memory = json_object();

	add_number(memory, "nodes", per_key(r, r->memory.nodes));
	add_number(memory, "values", per_key(r, r->memory.values));
	add_number(memory, "slack", per_key(r, r->memory.slack));
	add_number(memory, "all", per_key(r, r->memory.all));
	return memory;
}

static json_t *make_row(const struct row *r)
{
	json_t *row = json_object(), *rounds = json_array();
	unsigned int i;

	for (i = 0; i < r->nr; i++)
		json_array_append_new(rounds, json_real(r->rate[i]));
	json_object_set_new(row, "workload", json_string(bench_keys_names[r->keys]));
	json_object_set_new(row, "subject", json_string(r->subject));
	json_object_set_new(row, "phase", json_string(phase_names[r->phase]));
	json_object_set_new(row, "keys", json_integer(r->nr_keys));
	add_number(row, "median", report_median(r));
	json_object_set_new(row, "rounds", rounds);
	if (r->phase == PHASE_INSERT)
		json_object_set_new(row, "bytes_per_key", make_memory(r));
	return row;
}

int report_json(const struct row *rows, unsigned int nr, const char *path)
{
	json_t *all = json_object(), *list = json_array();
	unsigned int i;
	int err;

	for (i = 0; i < nr; i++)
		json_array_append_new(list, make_row(&rows[i]));
	json_object_set_new(all, "ratios", make_ratios(rows, nr));
	json_object_set_new(all, "rows", list);
	err = json_dump_file(all, path, JSON_INDENT(1) | JSON_REAL_PRECISION(6)) ? errno : 0;
	json_decref(all);
	return err;
}
