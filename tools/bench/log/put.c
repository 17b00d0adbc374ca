// SPDX-License-Identifier: GPL-2.0
/*
 * Puts, with a number in progress, on all systems.  A window such as 256 models a server with
 * that many clients.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bench_log.h"

#define WARM_SECONDS	0.1
#define PUT_ROUNDS	3	/* per round of the plan: they are short */

const unsigned int depths[NR_DEPTHS] = { 1, 16, 256 };

/**
 * systems_add() - add a system
 * @s: all systems
 * @template: it is copied
 */
void systems_add(struct systems *s, const struct system *template)
{
	struct system *sys = malloc(sizeof(*sys));

	if (!sys || s->nr == ARRAY_SIZE(s->all))
		die("too many systems");
	*sys = *template;
	s->all[s->nr++] = sys;
}

/**
 * systems_add_depths() - add a system for each number of puts in progress
 * @s: all systems
 * @template: without its depth; stopping the first one stops all
 */
void systems_add_depths(struct systems *s, const struct system *template)
{
	struct system sys = *template;
	unsigned int i;

	for (i = 0; i < NR_DEPTHS; i++) {
		sys.depth = depths[i];
		systems_add(s, &sys);
		sys.stop = NULL;
	}
}

/**
 * group_size() - how many puts are sent at once
 * @sys: the system
 *
 * Return: all puts in progress, or GROUP_MAX
 */
unsigned int group_size(const struct system *sys)
{
	return sys->depth < GROUP_MAX ? sys->depth : GROUP_MAX;
}

/**
 * window_run() - keep puts in progress
 * @w: how to send them
 * @sys: the system
 * @until: the end, in seconds_now()
 *
 * Puts in progress form groups, like separate clients: when a group is complete its next puts
 * are sent, while the others wait.
 *
 * Return: the number of puts
 */
uint64_t window_run(const struct window *w, struct system *sys, double until)
{
	unsigned int size = group_size(sys), ended = 0, first;
	uint64_t n = 0;

	for (first = 0; first < sys->depth; first += size, n += size)
		w->send(sys, first, sys->count + n);
	for (first = 0; ended < sys->depth; first = (first + size) % sys->depth) {
		w->await(sys, first);
		if (!ended && seconds_now() < until) {
			w->send(sys, first, sys->count + n);
			n += size;
		} else {
			ended += size;
		}
	}
	return n;
}

/**
 * pair_text() - add the pair's name to a text
 * @pair: the pair
 * @text: the text
 *
 * Return: "text, on NAME", which is never freed
 */
const char *pair_text(const struct pair *pair, const char *text)
{
	char *all;

	if (asprintf(&all, "%s, on %s", text, pair->name) < 0)
		die("out of memory");
	return all;
}

/**
 * pair_ratio() - add a ratio
 * @pair: the devices; only the first pair has bounds
 * @name: of the ratio
 * @value: the number
 * @at_least: bound, or 0
 * @at_most: bound, or 0
 */
void pair_ratio(const struct pair *pair, const char *name, double value, double at_least,
		double at_most)
{
	char text[128];

	if (pair->first) {
		ratio_add(name, value, at_least, at_most);
		return;
	}
	snprintf(text, sizeof(text), "%s_%s", pair->name, name);
	ratio_add(text, value, 0, 0);
}

static struct row *row_of(const struct plan *plan, const struct pair *pair, const char *name,
			  unsigned int depth)
{
	struct row *row;
	char *workload;

	if (asprintf(&workload, "put_%u_%s", depth, pair->name) < 0)
		die("out of memory");
	row = row_new(plan, workload, name, "puts/s");
	if (asprintf(&workload, "puts, %u at once, 16-byte keys, 100-byte values, on %s", depth,
		     pair->name) < 0)
		die("out of memory");
	row_title(row, workload);
	if (depth > 1 && !strncmp(name, "rocksdb", 7) && !strstr(name, "batch"))
		row_threads(row, depth);
	return row;
}

static struct row *find(const struct systems *s, const char *name, unsigned int depth)
{
	unsigned int i;

	for (i = 0; i < s->nr; i++)
		if (s->all[i]->depth == depth && !strcmp(s->all[i]->name, name))
			return s->all[i]->row;
	die("no system %s", name);
}

static double compare(const struct systems *s, const char *sys, const char *beside,
		      unsigned int depth)
{
	return row_ratio(find(s, sys, depth), find(s, beside, depth));
}

static double least(double a, double b)
{
	return a < b ? a : b;
}

/* Ratios with bounds have the names used in the documentation. */
static void add_ratios(const struct systems *s, const struct pair *pair)
{
	double worst = 1e9;
	unsigned int i;
	char name[64];

	for (i = 0; i < NR_DEPTHS; i++) {
		snprintf(name, sizeof(name), "async%u_vs_volatile", depths[i]);
		pair_ratio(pair, name, compare(s, "kvtree async", "kvtree volatile", depths[i]),
			   0, 0);
		worst = least(worst, compare(s, "kvtree async", "kvtree volatile", depths[i]));
	}
	pair_ratio(pair, "async_vs_volatile", worst, 0.85, 0);
	for (i = 0; i < NR_DEPTHS; i++) {
		snprintf(name, sizeof(name), "sync%u_vs_redis_aof_always", depths[i]);
		pair_ratio(pair, name, compare(s, "kvtree sync", "redis AOF always", depths[i]),
			   depths[i] == 256 ? 3 : 0, 0);
		snprintf(name, sizeof(name), "sync%u_vs_rocksdb_sync", depths[i]);
		pair_ratio(pair, name, compare(s, "kvtree sync", "rocksdb sync", depths[i]),
			   depths[i] == 256 ? 1 : 0, 0);
		snprintf(name, sizeof(name), "sync%u_vs_lmdb_sync", depths[i]);
		pair_ratio(pair, name, compare(s, "kvtree sync", "lmdb sync", depths[i]), 0, 0);
	}
	pair_ratio(pair, "sync_batch256_vs_rocksdb_sync_batch256",
		   compare(s, "kvtree sync, batch", "rocksdb sync, batch", 256), 0, 0);
}

static void run_system(const struct plan *plan, struct system *sys, unsigned int round)
{
	double seconds = round ? plan->seconds : least(plan->seconds, WARM_SECONDS);
	double start = seconds_now();
	uint64_t n;

	n = sys->run(sys, start + seconds);
	row_set(sys->row, round, (double)n / (seconds_now() - start));
	sys->count += n;
}

/* Wait: systems that have just run are still busy with acknowledged puts. */
static void settle(void)
{
	sync();
	usleep(20000);
}

/* Systems to be compared run shortly after each other. */
static void run_depth(const struct plan *plan, struct systems *s, unsigned int depth,
		      unsigned int round)
{
	unsigned int i;

	for (i = 0; i < s->nr; i++) {
		if (s->all[i]->depth != depth)
			continue;
		settle();
		run_system(plan, s->all[i], round);
	}
}

/* One table for each depth. */
static void rows_make(const struct plan *plan, const struct systems *s, const struct pair *pair)
{
	unsigned int d, i;

	for (d = 0; d < NR_DEPTHS; d++)
		for (i = 0; i < s->nr; i++)
			if (s->all[i]->depth == depths[d])
				s->all[i]->row = row_of(plan, pair, s->all[i]->name, depths[d]);
}

/**
 * put_measure() - measure puts
 * @o: options
 * @pair: the devices
 */
void put_measure(const struct options *o, const struct pair *pair)
{
	struct plan plan = o->plan;
	struct systems s = { 0 };
	unsigned int round, i;

	plan.rounds *= PUT_ROUNDS;
	note("%s: loading %u keys", pair->name, nr_keys);
	disk_mount(pair);
	kvtree_start(&s, o, pair);
	lmdb_start(&s);
	rocksdb_start(&s);
	redis_start(&s);
	rows_make(&plan, &s, pair);
	for (round = 0; round <= plan.rounds; round++) {
		progress(&plan, pair->name, round);
		for (i = 0; i < NR_DEPTHS; i++)
			run_depth(&plan, &s, depths[i], round);
	}
	progress(&plan, pair->name, round);
	for (i = 0; i < s.nr; i++)
		if (s.all[i]->stop)
			s.all[i]->stop(s.all[i]);
	kvtree_stop();
	disk_unmount();
	add_ratios(&s, pair);
}
