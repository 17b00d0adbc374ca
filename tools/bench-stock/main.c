// SPDX-License-Identifier: GPL-2.0
/*
 * bench-stock: kvtree beside redis-server and memcached, each as one client
 * reaches it.  "make bench-stock" runs it in the stock lane.
 */
#include <argp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "bench.h"

struct options {
	struct plan plan;
	unsigned int keys;
	const char *json;
	bool no_bounds;
	bool kvtree_only;
};

/**
 * note() - say something to whoever runs it
 * @fmt: as for printf()
 */
void note(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	fputs("bench-stock: ", stderr);
	vfprintf(stderr, fmt, args);
	fputc('\n', stderr);
	va_end(args);
}

/**
 * die() - say why it cannot go on, and exit
 * @fmt: as for printf()
 */
void die(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	fputs("bench-stock: ", stderr);
	vfprintf(stderr, fmt, args);
	fputc('\n', stderr);
	va_end(args);
	exit(3);
}

static double number(struct argp_state *state, const char *what, const char *arg, double max)
{
	char *end;
	double n = strtod(arg, &end);

	if (end == arg || *end || !(n > 0 && n <= max))
		argp_error(state, "%s: a number above 0 and up to %g is wanted, not '%s'", what,
			   max, arg);
	return n;
}

static enum place parse_place(struct argp_state *state, const char *arg)
{
	if (!strcmp(arg, "other"))
		return PLACE_OTHER;
	if (!strcmp(arg, "same"))
		return PLACE_SAME;
	if (strcmp(arg, "free"))
		argp_error(state, "--servers: other, same or free, not '%s'", arg);
	return PLACE_FREE;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;

	switch (key) {
	case 'j':
		o->json = arg;
		return 0;
	case 'r':
		o->plan.rounds = number(state, "--rounds", arg, 1000);
		return 0;
	case 's':
		o->plan.seconds = number(state, "--seconds", arg, 60);
		return 0;
	case 'n':
		o->keys = number(state, "--keys", arg, 10e6);
		return 0;
	case 'q':
		o->no_bounds = true;
		o->keys = 1000;
		o->plan = (struct plan) { .seconds = 0, .rounds = 1 };
		return 0;
	case 'i':
		o->no_bounds = true;
		lane_icount = true;
		return 0;
	case 'k':
		o->kvtree_only = true;
		return 0;
	case 'c':
		server_place = parse_place(state, arg);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option options[] = {
	{ .name = "json", .key = 'j', .arg = "FILE",
	  .doc = "Write the results to FILE (bench-stock.json)" },
	{ .name = "rounds", .key = 'r', .arg = "N",
	  .doc = "Rounds whose median counts (7)" },
	{ .name = "seconds", .key = 's', .arg = "S",
	  .doc = "How long each system is measured in each round (0.3)" },
	{ .name = "keys", .key = 'n', .arg = "N", .doc = "How many keys there are (100000)" },
	{ .name = "servers", .key = 'c', .arg = "WHERE",
	  .doc = "CPUs of the servers: other than the client's, the same, or free (other)" },
	{ .name = "icount", .key = 'i',
	  .doc = "The clock counts instructions: say so, and expect no ratio" },
	{ .name = "kvtree-only", .key = 'k', .doc = "Leave the servers out" },
	{ .name = "quick", .key = 'q',
	  .doc = "Only see whether all answers are right; no ratio has to be reached" },
	{ 0 }
};

static const struct argp argp = {
	.options = options,
	.parser = parse_option,
	.doc = "Measure kvtree beside redis-server and memcached, with one client.\n"
	       "\vIt needs the module, to be root, and both servers in PATH, which are started\n"
	       "for this. Every answer is compared with what was stored.\n\n"
	       "Exit status: 0, 1 if a ratio was not reached, 3 if something failed.",
};

int main(int argc, char **argv)
{
	struct options o = {
		.plan = { .seconds = 0.3, .rounds = 7 },
		.keys = 100000,
		.json = "bench-stock.json",
	};
	struct systems systems = { 0 };
	struct cells cells = { 0 };

	argp_parse(&argp, argc, argv, 0, NULL, &o);
	note("loading %u keys, twice into each", o.keys);
	data_init(o.keys);
	servers_init();
	pin_client();
	kvtree_start(&systems);
	if (!o.kvtree_only) {
		redis_start(&systems);
		memcached_start(&systems);
	}
	measure(&o.plan, &systems, &cells);
	check_all(&systems);
	report_print(&cells, !o.no_bounds);
	report_write(&cells, o.json);
	return o.no_bounds || report_bounds(&cells) ? 0 : 1;
}
