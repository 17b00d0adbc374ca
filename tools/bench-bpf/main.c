// SPDX-License-Identifier: GPL-2.0
/*
 * bench-bpf: what BPF programs pay for lookups in kvtree, beside the kernel's own
 * maps; and a cache in XDP beside the server that it stands before.  "make
 * bench-bpf" runs it in the stock lane.
 */
#include <argp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"

struct options {
	struct plan plan;
	const char *json, *only;
};

static void say(const char *fmt, va_list args)
{
	fputs("bench-bpf: ", stderr);
	vfprintf(stderr, fmt, args);
	fputc('\n', stderr);
}

/**
 * note() - say something to whoever runs it
 * @fmt: as for printf()
 */
void note(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	say(fmt, args);
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
	say(fmt, args);
	va_end(args);
	exit(3);
}

/**
 * progress() - show how far it is
 * @plan: how many rounds there are
 * @what: what is being measured
 * @round: which of them begins; one more than there are: done
 */
void progress(const struct plan *plan, const char *what, unsigned int round)
{
	if (!isatty(STDERR_FILENO)) {
		if (round <= plan->rounds && !(round % 5))
			note("%s: round %u of %u", what, round, plan->rounds);
		return;
	}
	fprintf(stderr, "\r\033[K");
	if (round <= plan->rounds)
		fprintf(stderr, "%s: round %u of %u", what, round, plan->rounds);
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
		o->plan.keys = number(state, "--keys", arg, 131072);
		return 0;
	case 'c':
		o->plan.cache = arg;
		return 0;
	case 'i':
		o->plan.icount = true;
		return 0;
	case 'o':
		if (strcmp(arg, "lookup") && strcmp(arg, "cache"))
			argp_error(state, "--only: lookup or cache, not '%s'", arg);
		o->only = arg;
		return 0;
	case 'q':
		o->plan.quick = true;
		o->plan.keys = 1000;
		o->plan.rounds = 1;
		o->plan.seconds = 0.01;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option options[] = {
	{ .name = "json", .key = 'j', .arg = "FILE",
	  .doc = "Write the results to FILE (bench-bpf.json)" },
	{ .name = "rounds", .key = 'r', .arg = "N",
	  .doc = "Rounds whose median counts (15)" },
	{ .name = "seconds", .key = 's', .arg = "S",
	  .doc = "How long each system is measured in each round (0.1)" },
	{ .name = "keys", .key = 'n', .arg = "N", .doc = "How many keys there are (100000)" },
	{ .name = "cache", .key = 'c', .arg = "PROGRAM",
	  .doc = "The cache for memcached: tools/examples/memcached/kvtree-memcached" },
	{ .name = "only", .key = 'o', .arg = "WHAT", .doc = "Measure only lookup, or only cache" },
	{ .name = "icount", .key = 'i',
	  .doc = "The clock counts instructions: say so, and expect no ratio" },
	{ .name = "quick", .key = 'q',
	  .doc = "Only see whether all answers are right; no ratio has to be reached" },
	{ 0 }
};

static const struct argp argp = {
	.options = options,
	.parser = parse_option,
	.doc = "Measure lookups by BPF programs in kvtree and in the kernel's maps, and a cache\n"
	       "in XDP beside memcached.\n"
	       "\vIt needs the module, to be root, and memcached in PATH, which is started for\n"
	       "this. Every answer is checked.\n\n"
	       "Exit status: 0, 1 if a ratio was not reached, 3 if something failed.",
};

int main(int argc, char **argv)
{
	struct options o = {
		.plan = {
			.rounds = 15,
			.seconds = 0.1,
			.keys = 100000,
			.cache = "kvtree-memcached",
		},
		.json = "bench-bpf.json",
		.only = "",
	};

	argp_parse(&argp, argc, argv, 0, NULL, &o);
	if (strcmp(o.only, "cache"))
		lookup_measure(&o.plan);
	if (strcmp(o.only, "lookup"))
		cache_measure(&o.plan);
	report_print(&o.plan);
	report_write(o.json);
	return o.plan.quick || o.plan.icount || report_bounds() ? 0 : 1;
}
