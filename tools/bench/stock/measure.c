// SPDX-License-Identifier: GPL-2.0
/*
 * Rounds.  Each round runs every workload on every system in turn, so that other load on the
 * machine affects all of them; the result is the median of the rounds.  A short round before the
 * first one is not counted.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bench_stock.h"

#define POOL		16384u	/* requests made in advance; every span divides it */
#define WARM_SECONDS	0.05

static struct request pool[POOL];

static const char * const titles[] = {
	[EMPTY] = "a call that does nothing",
	[PLAIN_GET] = "gets, 16-byte keys, 64-byte values, uniform",
	[PLAIN_PUT] = "puts, 16-byte keys, 64-byte values, uniform",
	[MYCSB_A] = "MYCSB A: half gets of 10 columns, half puts of one, Zipf",
	[MYCSB_B] = "MYCSB B: 95 % gets of 10 columns, 5 % puts of one, Zipf",
	[MYCSB_C] = "MYCSB C: gets of 10 columns, Zipf",
};

/**
 * systems_add() - add a system
 * @s: all systems
 * @template: the system, which is copied
 */
void systems_add(struct systems *s, const struct system *template)
{
	struct system *sys = malloc(sizeof(*sys));

	s->all = realloc(s->all, (s->nr + 1) * sizeof(s->all[0]));
	if (!sys || !s->all)
		die("out of memory");
	*sys = *template;
	s->all[s->nr++] = sys;
}

/* Ends the program if commands were not served by io_uring. */
static uint64_t uring_served(struct system *sys, uint64_t before)
{
	uint64_t counted = kvtree_uring_commands() - before;

	if (counted != sys->commands)
		die("%s: sent %llu commands by io_uring, and the kernel counted %llu", sys->name,
		    (unsigned long long)sys->commands, (unsigned long long)counted);
	sys->commands = 0;
	return counted;
}

static double run_cell(struct cell *cell, double seconds)
{
	uint64_t uring = kvtree_uring_commands(), n = 0;
	struct system *sys = cell->sys;
	double start = seconds_now(), took;

	do {
		sys->run(sys, pool + n % POOL, sys->span);
		n += sys->span;
		took = seconds_now() - start;
	} while (took < seconds);
	row_count(cell->row, "uring_commands", uring_served(sys, uring));
	return (double)n / took;
}

static void show_progress(const struct plan *plan, unsigned int round, const struct cell *cell)
{
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "\r\033[Kround %u of %u: %s, %s", round, plan->rounds,
			workload_name(cell->workload), cell->sys->name);
	else if (cell->workload == EMPTY)
		note("round %u of %u", round, plan->rounds);
}

/* Cells are sorted by workload. */
static void run_round(const struct plan *plan, struct cells *cells, unsigned int round)
{
	double seconds = plan->seconds;
	enum workload filled = WORKLOADS;
	struct cell *cell;
	unsigned int i;

	if (!round && seconds > WARM_SECONDS)
		seconds = WARM_SECONDS;
	for (i = 0; i < cells->nr; i++) {
		cell = &cells->all[i];
		show_progress(plan, round, cell);
		if (cell->workload != filled)
			workload_fill(cell->workload, round, pool, POOL);
		filled = cell->workload;
		row_set(cell->row, round, run_cell(cell, seconds));
	}
}

static void cell_add(const struct plan *plan, struct cells *cells, enum workload w,
		     struct system *sys)
{
	struct row *row = row_new(plan, workload_name(w), sys->name, "operations/s");

	row_title(row, titles[w]);
	cells->all[cells->nr++] = (struct cell) { w, sys, row };
}

static void cells_make(const struct plan *plan, const struct systems *s, struct cells *cells)
{
	enum workload w;
	unsigned int i;

	cells->all = calloc(s->nr * WORKLOADS, sizeof(cells->all[0]));
	if (!cells->all)
		die("out of memory");
	for (w = 0; w < WORKLOADS; w++) {
		for (i = 0; i < s->nr; i++) {
			if (s->all[i]->workloads & ON(w))
				cell_add(plan, cells, w, s->all[i]);
		}
	}
}

/**
 * measure() - run all rounds
 * @plan: the number and length of the rounds
 * @s: the systems
 * @cells: filled in
 */
void measure(const struct plan *plan, const struct systems *s, struct cells *cells)
{
	unsigned int round;

	cells_make(plan, s, cells);
	for (round = 0; round <= plan->rounds; round++)
		run_round(plan, cells, round);
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "\r\033[K");
}

static void check_keys(struct system *sys, enum kind kind)
{
	uint32_t first, i;

	for (first = 0; first < nr_keys; first += sys->depth) {
		for (i = 0; i < sys->depth; i++)
			pool[i] = (struct request) { (first + i) % nr_keys, kind, 0 };
		sys->run(sys, pool, sys->depth);
	}
}

/**
 * check_all() - read every key with every system that can read many at once
 * @s: the systems
 *
 * Ends the program if a value is not the last one stored.
 */
void check_all(const struct systems *s)
{
	struct system *sys;
	unsigned int i;

	for (i = 0; i < s->nr; i++) {
		sys = s->all[i];
		if (sys->depth == 1)
			continue;
		check_keys(sys, GET);
		if (sys->workloads & ON(MYCSB_C))
			check_keys(sys, GET_COLS);
	}
}
