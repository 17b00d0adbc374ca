// SPDX-License-Identifier: GPL-2.0
/*
 * stat: show a store's counters.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "tool.h"

struct stat_args {
	char **names;
	bool *met;		/* for each name: the counter exists */
	int nr;
	json_t *obj;		/* NULL: print text */
};

static error_t parse_stat(int key, char *arg, struct argp_state *state)
{
	struct stat_args *args = state->input;

	(void)arg;
	if (key != ARGP_KEY_ARGS)
		return ARGP_ERR_UNKNOWN;
	args->names = state->argv + state->next;
	args->nr = state->argc - state->next;
	args->met = calloc(args->nr, sizeof(*args->met));
	if (!args->met)
		argp_failure(state, STATUS_ERROR, 0, "no memory");
	return 0;
}

static bool wanted(struct stat_args *args, const char *name)
{
	bool found = !args->nr;
	int i;

	for (i = 0; i < args->nr; i++) {
		if (strcmp(args->names[i], name))
			continue;
		args->met[i] = true;
		found = true;
	}
	return found;
}

/* Numbers that follow from others. */
static const struct {
	const char *name;
	const char *text;
	unsigned int of;
	unsigned int by;
} ratio[] = {
	/* kvtree.yaml: ratios */
	{ "write_amplification", "now: log_bytes / log_record_bytes",
	  KVTREE_STAT_LOG_BYTES, KVTREE_STAT_LOG_RECORD_BYTES },
	{ "pieces_per_range", "now: log_pieces / log_ranges",
	  KVTREE_STAT_LOG_PIECES, KVTREE_STAT_LOG_RANGES },
	/* kvtree.yaml: end */
};

static void show(struct stat_args *args, const char *name, uint64_t value, bool now,
		 const char *text)
{
	if (!wanted(args, name))
		return;
	if (args->obj)
		json_add_u64(args->obj, name, value);
	else
		printf("%-20s %12" PRIu64 "  %s%s\n", name, value, now ? "now: " : "", text);
}

static void show_ratios(struct stat_args *args, const uint64_t *values)
{
	double value;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(ratio); i++) {
		if (!wanted(args, ratio[i].name) || !values[ratio[i].by])
			continue;
		value = (double)values[ratio[i].of] / (double)values[ratio[i].by];
		if (args->obj)
			json_add(args->obj, ratio[i].name, json_real(value));
		else
			printf("%-20s %12.2f  %s\n", ratio[i].name, value, ratio[i].text);
	}
}

/* Counters of every store, and ratios.  Returns a negative errno if they cannot be read. */
static int show_common(const struct kvtree *kv, struct stat_args *args)
{
	uint64_t values[KVTREE_STAT_NR] = { 0 };
	int id, known = kvtree_stat(kv, values, KVTREE_STAT_NR);

	for (id = 0; id < KVTREE_STAT_NR && id < known; id++)
		show(args, kvtree_stat_name(id), values[id], kvtree_stat_is_gauge(id),
		     kvtree_stat_text(id));
	if (known >= 0)
		show_ratios(args, values);
	return known;
}

/* Counters of the store's engine, if any. */
static void show_engine(const struct kvtree *kv, struct stat_args *args)
{
	struct kvtree_engine_stat stat = { 0 };

	for (; !kvtree_engine_stat(kv, &stat, sizeof(stat)); stat.nr++)
		show(args, stat.name, stat.value, stat.flags & KVTREE_ENGINE_STAT_NOW, stat.text);
}

int cmd_stat(int argc, char **argv)
{
	const struct argp argp = {
		.parser = parse_stat,
		.args_doc = "[COUNTER...]",
		.doc = "Show all counters of the store, or those given as arguments.\n"
		       "\vA line for each: its name, its value, what it counts. Those marked \"now\"\n"
		       "go up and down, the others only grow. The ratios write_amplification and\n"
		       "pieces_per_range follow, unless they would divide by 0. The counters of the\n"
		       "store's index engine come last.",
		.children = common_options,
	};
	struct stat_args args = { 0 };
	int i, err, status = STATUS_OK;
	struct kvtree *kv;

	parse(&argp, argc, argv, &args);
	kv = open_store(KVTREE_OPEN_READ);
	if (tool.json)
		args.obj = json_new();
	err = show_common(kv, &args);
	if (err >= 0)
		show_engine(kv, &args);
	kvtree_close(kv);
	for (i = 0; err >= 0 && i < args.nr; i++) {
		if (args.met[i])
			continue;
		warn("stat: the store has no counter '%s': see kvtree stat", args.names[i]);
		status = STATUS_ERROR;
	}
	if (args.obj && err >= 0)
		json_print(args.obj);
	free(args.met);
	return err < 0 ? report(err, "stat", NULL) : status;
}
