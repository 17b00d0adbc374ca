// SPDX-License-Identifier: GPL-2.0
/* See report.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../results.h"
#include "../spread.h"
#include "report.h"

#define OWN	"kvtree"
#define ARRAY_SIZE(array)	(sizeof(array) / sizeof((array)[0]))

/*
 * Rates use CPU time, which excludes other processes and time taken by the hypervisor.  The
 * time of helper threads is included, in equal parts for each thread.
 */
void report_add(struct row *row, const struct answer *a)
{
	unsigned int i;

	row->rate[row->nr] = a->ops * 1e9 * row->threads / a->cpu_ns;
	row->wall[row->nr++] = a->ops * 1e9 / a->wall_ns;
	if (row->step->phase == PHASE_INSERT)
		row->memory = a->memory;
	row->ops += a->ops;
	row->counts.cycles += a->counts.cycles;
	row->counts.instructions += a->counts.instructions;
	for (i = 0; i < SWAPS; i++) {
		row->swaps.made[i] += a->swaps.made[i];
		row->swaps.lost[i] += a->swaps.lost[i];
	}
}

/* The percentage of exchanges of a kind that were lost. */
static double lost(const struct row *row, enum bench_swap kind)
{
	uint64_t all = row->swaps.made[kind] + row->swaps.lost[kind];

	return all ? 100.0 * row->swaps.lost[kind] / all : 0;
}

static double median(const struct row *row)
{
	return spread_of(row->rate, row->nr).median;
}

static double per_key(const struct row *row, uint64_t bytes)
{
	return (double)bytes / row->nr_keys;
}

/* The same row with the other page size. */
static const struct row *other_pages(const struct row *rows, unsigned int nr, const struct row *of)
{
	const struct row *r;

	for (r = rows; r < rows + nr; r++)
		if (r->step == of->step && r->threads == of->threads && r != of &&
		    !strcmp(r->subject, of->subject))
			return r;
	return NULL;
}

static void print_memory(const struct row *r)
{
	printf("   %.1f %.1f %.1f %.1f", per_key(r, r->memory.nodes),
	       per_key(r, r->memory.values), per_key(r, r->memory.slack),
	       per_key(r, r->memory.all));
}

static void print_row(const struct row *r, const struct row *small)
{
	struct spread s = spread_of(r->rate, r->nr);

	printf("%-20s %-9s %2u %9.3f %8.3f %8.3f", r->step->name, r->subject, r->threads,
	       s.median / 1e6, s.min / 1e6, s.max / 1e6);
	if (small)
		printf(" %9.3f", median(small) / 1e6);
	else
		printf(" %9s", "");
	if (r->step->phase == PHASE_INSERT)
		print_memory(r);
	putchar('\n');
}

static const char *const swap_names[SWAPS] = {
	[SWAP_UPDATE] = "updates",
	[SWAP_CONSOLIDATE] = "consolidations",
	[SWAP_SPLIT] = "splits",
	[SWAP_POST] = "posts",
};

static void print_lost(const struct row *rows, unsigned int nr)
{
	const struct row *r;
	unsigned int i;

	for (r = rows; r < rows + nr; r++) {
		if (!r->swaps.made[SWAP_UPDATE] || r->threads == 1)
			continue;
		printf("%-20s %-9s %2u lost:", r->step->name, r->subject, r->threads);
		for (i = 0; i < SWAPS; i++)
			printf(" %s %.4f %%", swap_names[i], lost(r, i));
		putchar('\n');
	}
}

static double cycles(const struct row *r)
{
	return (double)r->counts.cycles / r->ops;
}

static double instructions(const struct row *r)
{
	return (double)r->counts.instructions / r->ops;
}

static void print_counts(const struct row *r)
{
	if (r->counts.cycles)
		printf("%-20s %-9s %2u each: %.0f cycles, %.0f instructions\n", r->step->name,
		       r->subject, r->threads, cycles(r), instructions(r));
}

void report_table(const struct row *rows, unsigned int nr)
{
	const struct row *r, *other;

	printf("%-20s %-9s %2s %9s %8s %8s %9s   %s\n", "workload", "system", "", "median",
	       "min", "max", "4K pages", "bytes per key: nodes, values, slack, all");
	for (r = rows; r < rows + nr; r++) {
		other = other_pages(rows, nr, r);
		if (other && r->small_pages)
			continue;
		print_row(r, other);
	}
	print_lost(rows, nr);
	for (r = rows; r < rows + nr; r++)
		print_counts(r);
	printf("Millions of operations (scans: of pairs) per second of CPU time, times threads.\n");
}

/* Find a row, with huge pages if possible. */
static const struct row *find(const struct row *rows, unsigned int nr, const char *subject,
			      const char *step, unsigned int threads)
{
	const struct row *r, *found = NULL;

	for (r = rows; r < rows + nr; r++)
		if (!strcmp(r->subject, subject) && !strcmp(r->step->name, step) &&
		    r->threads == threads && (!found || found->small_pages))
			found = r;
	return found;
}

static void add_ratio(json_t *results, const char *name, const struct row *of,
		      const struct row *to)
{
	if (of && to)
		results_add_ratio(results, name, median(of) / median(to));
}

/* The speedup by the second thread. */
static double second(const struct row *one, const struct row *two)
{
	return median(two) / median(one) - 1;
}

static void add_scale(json_t *results, const char *name, const struct row *rows, unsigned int nr,
		      const char *step)
{
	const struct row *one = find(rows, nr, OWN, step, 1), *two = find(rows, nr, OWN, step, 2);
	const struct row *chase_one = find(rows, nr, "chase", "chase", 1);
	const struct row *chase_two = find(rows, nr, "chase", "chase", 2);

	if (one && two && chase_one && chase_two)
		results_add_ratio(results, name, second(one, two) / second(chase_one, chase_two));
}

/* Ratios of kvtree to every other subject in every step, with one thread and huge pages. */
static void add_peers(json_t *results, const struct row *rows, unsigned int nr)
{
	const struct row *r;
	char name[64];

	for (r = rows; r < rows + nr; r++) {
		if (r->threads != 1 || !strcmp(r->subject, OWN) ||
		    find(rows, nr, r->subject, r->step->name, 1) != r)
			continue;
		snprintf(name, sizeof(name), "%s_vs_%s", r->step->name, r->subject);
		add_ratio(results, name, find(rows, nr, OWN, r->step->name, 1), r);
	}
}

/* What batches bring to an engine: beside the same operations, one after the other. */
static void add_gain(json_t *results, const struct row *rows, unsigned int nr,
		     const char *subject, const char *prefix, const char *work, const char *keys)
{
	char batch[32], alone[32], name[96];

	snprintf(batch, sizeof(batch), "batch32_%s_%s", work, keys);
	snprintf(alone, sizeof(alone), "%s_%s", work, keys);
	snprintf(name, sizeof(name), "%s%s_vs_%s", prefix, batch, alone);
	add_ratio(results, name, find(rows, nr, subject, batch, 1),
		  find(rows, nr, subject, alone, 1));
}

static void add_gains(json_t *results, const struct row *rows, unsigned int nr, const char *keys)
{
	add_gain(results, rows, nr, OWN, "", "get", keys);
	add_gain(results, rows, nr, OWN, "", "put", keys);
	add_gain(results, rows, nr, "bwtree", "bwtree_", "get", keys);
	add_gain(results, rows, nr, "bwtree", "bwtree_", "put", keys);
}

/* Batches are compared with the gets of the others, which have no batches. */
static void add_batches(json_t *results, const struct row *rows, unsigned int nr)
{
	const char *const keys[] = { "W1", "W2", "W3", NULL };
	char batch[32], get[32], name[96];
	const struct row *r;
	unsigned int i;

	for (i = 0; keys[i]; i++) {
		snprintf(batch, sizeof(batch), "batch32_get_%s", keys[i]);
		snprintf(get, sizeof(get), "get_%s", keys[i]);
		add_gains(results, rows, nr, keys[i]);
		for (r = rows; r < rows + nr; r++) {
			if (find(rows, nr, r->subject, get, 1) != r || !strcmp(r->subject, OWN))
				continue;
			snprintf(name, sizeof(name), "%s_vs_%s", batch, r->subject);
			add_ratio(results, name, find(rows, nr, OWN, batch, 1), r);
		}
	}
}

/* The Bw-tree's targets. */
static void add_bwtree(json_t *results, const struct row *rows, unsigned int nr)
{
	static const struct {
		const char *name, *step, *to;
	} bars[] = {
		{ "bwtree_get_W1_vs_masstree", "get_W1", OWN },
		{ "bwtree_scan100_vs_masstree", "scan100_W1", OWN },
		{ "bwtree_mix_vs_skiplist", "synthetic_W9", "skiplist" },
	};
	const struct row *two = find(rows, nr, "bwtree", "synthetic_W9", 2);
	unsigned int i;

	if (two)
		results_add_ratio(results, "bwtree_mix_failed_updates_percent",
				  lost(two, SWAP_UPDATE));
	for (i = 0; i < ARRAY_SIZE(bars); i++)
		add_ratio(results, bars[i].name, find(rows, nr, "bwtree", bars[i].step, 1),
			  find(rows, nr, bars[i].to, bars[i].step, 1));
}

static void add_ratios(json_t *results, const struct row *rows, unsigned int nr)
{
	add_peers(results, rows, nr);
	add_batches(results, rows, nr);
	add_bwtree(results, rows, nr);
	add_ratio(results, "scan100_vs_lmdb", find(rows, nr, OWN, "scan100_W1", 1),
		  find(rows, nr, "lmdb", "scan100_W1", 1));
	add_scale(results, "scale2_get", rows, nr, "get_W1");
	add_scale(results, "scale2_put", rows, nr, "insert_W1");
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

static json_t *make_swaps(const struct row *r)
{
	json_t *swaps = json_object(), *swap;
	unsigned int i;

	for (i = 0; i < SWAPS; i++) {
		swap = json_object();
		json_object_set_new(swap, "made", json_integer(r->swaps.made[i]));
		json_object_set_new(swap, "lost", json_integer(r->swaps.lost[i]));
		json_object_set_new(swap, "lost_percent", json_real(lost(r, i)));
		json_object_set_new(swaps, swap_names[i], swap);
	}
	return swaps;
}

static const char *unit(enum phase phase)
{
	return phase == PHASE_SCAN || phase == PHASE_SCAN_100 ? "pairs/s" : "operations/s";
}

static void add_row(json_t *results, const struct row *r)
{
	json_t *row = results_add_row(results, &(struct results_row){
		.workload = r->step->name,
		.system = r->subject,
		.unit = unit(r->step->phase),
		.threads = r->threads,
		.values = r->rate,
		.runs = r->nr,
	});

	json_object_set_new(row, "pages", json_string(r->small_pages ? "4k" : "huge"));
	json_object_set_new(row, "keys", json_integer(r->nr_keys));
	add_number(row, "wall_median", spread_of(r->wall, r->nr).median);
	if (r->step->phase == PHASE_INSERT) {
		json_object_set_new(row, "bytes_per_key", make_memory(r));
		add_number(row, "huge_page_share", r->memory.huge);
	}
	if (r->counts.cycles) {
		add_number(row, "cycles", cycles(r));
		add_number(row, "instructions", instructions(r));
	}
	if (r->swaps.made[SWAP_UPDATE])
		json_object_set_new(row, "exchanges", make_swaps(r));
}

int report_json(const struct row *rows, unsigned int nr, const char *path)
{
	json_t *results = results_new();
	unsigned int i;

	add_ratios(results, rows, nr);
	for (i = 0; i < nr; i++)
		add_row(results, &rows[i]);
	return results_write(results, path);
}
