// SPDX-License-Identifier: GPL-2.0
/*
 * bench-log: durable stores compared with LMDB, RocksDB and Redis on devices of the same kind.
 * "make bench-log" runs it in the stock lane and in the uml lane.
 */
#include <string.h>

#include "bench_log.h"

#define PAIRS_MAX	4

static struct pair pairs[PAIRS_MAX];
static unsigned int nr_pairs;

/* NAME=STORE,FILES */
static void parse_pair(struct argp_state *state, char *arg)
{
	char *store = strchr(arg, '='), *files = store ? strchr(store, ',') : NULL;

	if (!files || nr_pairs == PAIRS_MAX)
		argp_error(state, "'%s' is not NAME=DEVICE,DEVICE, or there are more than %u", arg,
			   PAIRS_MAX);
	*store++ = 0;
	*files++ = 0;
	pairs[nr_pairs] = (struct pair) { arg, store, files, !nr_pairs };
	nr_pairs++;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &o->plan;
		return 0;
	case 'l':
		o->load = option_number(state, "--load", arg, 1, 20e6);
		return 0;
	case 'R':
		o->records = option_number(state, "--records", arg, 1000, 20e6);
		return 0;
	case 'o':
		if (strcmp(arg, "put") && strcmp(arg, "life") && strcmp(arg, "ranges"))
			argp_error(state, "--only: put, life or ranges, not '%s'", arg);
		o->only = arg;
		return 0;
	case 't':
		o->tool = arg;
		return 0;
	case ARGP_KEY_ARG:
		parse_pair(state, arg);
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_usage(state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option options[] = {
	{ .name = "load", .key = 'l', .arg = "N",
	  .doc = "Keys of the store to recover (1000000)" },
	{ .name = "records", .key = 'R', .arg = "N",
	  .doc = "Records of the store for comparing checkpoints (300000)" },
	{ .name = "only", .key = 'o', .arg = "WHAT",
	  .doc = "Measure only put, only life, or only ranges" },
	{ .name = "tool", .key = 't', .arg = "PROGRAM", .doc = "The tool, kvtree, if not in PATH" },
	{ 0 }
};

static const struct argp_child children[] = { { .argp = &plan_argp }, { 0 } };

static const struct argp argp = {
	.options = options,
	.parser = parse_option,
	.children = children,
	.args_doc = "NAME=DEVICE,DEVICE...",
	.doc = "Measure durable stores beside LMDB, RocksDB and Redis, on pairs of equal devices:\n"
	       "the first is for kvtree, the second for a file system with the files of the\n"
	       "others. The devices are overwritten.\n"
	       "\vThis needs the module, root, and redis-server in PATH, which it starts. Ratios\n"
	       "of the first pair have targets, others do not.\n\n"
	       "Exit status: 0, 1 if a ratio misses its target, 3 after an error.",
};

static bool wanted(const struct options *o, const char *what)
{
	return !*o->only || !strcmp(o->only, what);
}

int main(int argc, char **argv)
{
	struct options o = {
		.plan = {
			.rounds = 5,
			.seconds = 0.4,
			.keys = 100000,
			.keys_max = 10000000,
			.json = "bench-log.json",
		},
		.tool = "kvtree",
		.only = "",
		.load = 1000000,
		.records = 300000,
	};
	char version[128];
	unsigned int i;

	argp_parse(&argp, argc, argv, 0, NULL, &o);
	if (o.plan.quick) {
		o.load = o.plan.keys;
		o.records = o.plan.keys;
	}
	server_place = PLACE_FREE;
	servers_init();
	server_version("redis-server", version, sizeof(version));
	report_add_line(version);
	for (i = 0; i < nr_pairs; i++) {
		nr_keys = o.plan.keys;
		value_len = VALUE_LEN;
		if (wanted(&o, "put"))
			put_measure(&o, &pairs[i]);
		if (wanted(&o, "life"))
			life_measure(&o, &pairs[i]);
		/* What is written is the same on every device. */
		if (wanted(&o, "ranges") && pairs[i].first)
			ranges_measure(&o, &pairs[i]);
	}
	return report_end(&o.plan);
}
