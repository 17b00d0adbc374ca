// SPDX-License-Identifier: GPL-2.0
/*
 * stat: show a store's counters.
 */
#include <inttypes.h>

#include "tool.h"

struct stat_args {
	char **names;
	int nr;
};

static error_t parse_stat(int key, char *arg, struct argp_state *state)
{
	struct stat_args *args = state->input;
	unsigned int id;
	int i;

	(void)arg;
	if (key != ARGP_KEY_ARGS)
		return ARGP_ERR_UNKNOWN;
	args->names = state->argv + state->next;
	args->nr = state->argc - state->next;
	for (i = 0; i < args->nr; i++) {
		for (id = 0; id < KVTREE_STAT_NR; id++)
			if (!strcmp(kvtree_stat_name(id), args->names[i]))
				break;
		if (id == KVTREE_STAT_NR)
			argp_error(state, "there is no counter '%s': see kvtree stat",
				   args->names[i]);
	}
	return 0;
}

static bool wanted(const struct stat_args *args, const char *name)
{
	int i;

	for (i = 0; i < args->nr; i++)
		if (!strcmp(args->names[i], name))
			return true;
	return !args->nr;
}

int cmd_stat(int argc, char **argv)
{
	const struct argp argp = {
		.parser = parse_stat,
		.args_doc = "[COUNTER...]",
		.doc = "Show the counters of the store, or those that are named.\n"
		       "\vA line for each: its name, its value, what it counts. Those marked \"now\"\n"
		       "go up and down, the others only grow.",
		.children = common_options,
	};
	uint64_t values[KVTREE_STAT_NR];
	struct stat_args args = { 0 };
	json_t *obj = NULL;
	struct kvtree *kv;
	unsigned int id;
	int known;

	parse(&argp, argc, argv, &args);
	kv = open_store(KVTREE_OPEN_READ);
	known = kvtree_stat(kv, values, KVTREE_STAT_NR);
	kvtree_close(kv);
	if (known < 0)
		return report(known, "stat", NULL);
	if (tool.json)
		obj = json_new();
	for (id = 0; id < KVTREE_STAT_NR && id < (unsigned int)known; id++) {
		const char *name = kvtree_stat_name(id);

		if (!wanted(&args, name))
			continue;
		if (tool.json)
			json_add_u64(obj, name, values[id]);
		else
			printf("%-16s %12" PRIu64 "  %s%s\n", name, values[id],
			       kvtree_stat_is_gauge(id) ? "now: " : "", kvtree_stat_text(id));
	}
	if (tool.json)
		json_print(obj);
	return STATUS_OK;
}
