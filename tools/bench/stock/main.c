// SPDX-License-Identifier: GPL-2.0
/*
 * bench-stock: kvtree compared with redis-server and memcached, with one client for each.
 * "make bench-stock" runs it in the stock lane.
 */
#include <string.h>

#include "bench_stock.h"

struct options {
	struct plan plan;
	bool kvtree_only;
};

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
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &o->plan;
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
	{ .name = "servers", .key = 'c', .arg = "WHERE",
	  .doc = "CPUs of the servers: other than the client's, the same, or free (other)" },
	{ .name = "kvtree-only", .key = 'k', .doc = "Leave the servers out" },
	{ 0 }
};

static const struct argp_child children[] = { { .argp = &plan_argp }, { 0 } };

static const struct argp argp = {
	.options = options,
	.parser = parse_option,
	.children = children,
	.doc = "Measure kvtree beside redis-server and memcached, with one client.\n"
	       "\vThis needs the module, root, and both servers in PATH, which it starts. Every\n"
	       "answer is compared with what was stored.\n\n"
	       "Exit status: 0, 1 if a ratio misses its target, 3 after an error.",
};

static void add_version(const char *program)
{
	char version[128];

	server_version(program, version, sizeof(version));
	report_add_line(version);
}

int main(int argc, char **argv)
{
	struct options o = {
		.plan = {
			.rounds = 7,
			.seconds = 0.3,
			.keys = 100000,
			.keys_max = 10000000,
			.json = "bench-stock.json",
		},
	};
	struct systems systems = { 0 };
	struct cells cells = { 0 };

	argp_parse(&argp, argc, argv, 0, NULL, &o);
	note("loading %u keys, twice into each", o.plan.keys);
	data_init(o.plan.keys);
	servers_init();
	pin_client();
	add_version("redis-server");
	add_version("memcached");
	kvtree_start(&systems);
	if (!o.kvtree_only) {
		redis_start(&systems);
		memcached_start(&systems);
	}
	measure(&o.plan, &systems, &cells);
	check_all(&systems);
	compare_all(&cells);
	return report_end(&o.plan);
}
