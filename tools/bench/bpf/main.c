// SPDX-License-Identifier: GPL-2.0
/*
 * bench-bpf: the cost of lookups by BPF programs in kvtree, compared with the kernel's own
 * maps; and a cache in XDP in front of a server.  "make bench-bpf" runs it in the stock
 * lane.
 */
#include <string.h>

#include "bench_bpf.h"

struct options {
	struct plan plan;
	const char *cache, *only;
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &o->plan;
		return 0;
	case 'c':
		o->cache = arg;
		return 0;
	case 'o':
		if (strcmp(arg, "lookup") && strcmp(arg, "cache"))
			argp_error(state, "--only: lookup or cache, not '%s'", arg);
		o->only = arg;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option options[] = {
	{ .name = "cache", .key = 'c', .arg = "PROGRAM",
	  .doc = "The cache for memcached: tools/examples/memcached/kvtree-memcached" },
	{ .name = "only", .key = 'o', .arg = "WHAT", .doc = "Measure only lookup, or only cache" },
	{ 0 }
};

static const struct argp_child children[] = { { .argp = &plan_argp }, { 0 } };

static const struct argp argp = {
	.options = options,
	.parser = parse_option,
	.children = children,
	.doc = "Measure lookups by BPF programs in kvtree and in the kernel's maps, and a cache\n"
	       "in XDP beside memcached.\n"
	       "\vThis needs the module, root, and memcached in PATH, which it starts. Every\n"
	       "answer is checked.\n\n"
	       "Exit status: 0, 1 if a ratio misses its target, 3 after an error.",
};

int main(int argc, char **argv)
{
	struct options o = {
		.plan = {
			.rounds = 15,
			.seconds = 0.1,
			.keys = 100000,
			.keys_max = 131072,
			.json = "bench-bpf.json",
		},
		.cache = "kvtree-memcached",
		.only = "",
	};

	argp_parse(&argp, argc, argv, 0, NULL, &o);
	if (strcmp(o.only, "cache"))
		lookup_measure(&o.plan);
	if (strcmp(o.only, "lookup"))
		cache_measure(&o.plan, o.cache);
	return report_end(&o.plan);
}
