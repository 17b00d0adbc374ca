// SPDX-License-Identifier: GPL-2.0
/* Common options of bench-stock, bench-bpf and bench-log. */
#include "common.h"

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct plan *plan = state->input;

	switch (key) {
	case 'j':
		plan->json = arg;
		return 0;
	case 'r':
		plan->rounds = option_number(state, "--rounds", arg, 1, 1000);
		return 0;
	case 's':
		plan->seconds = option_number(state, "--seconds", arg, 0.001, 60);
		return 0;
	case 'n':
		plan->keys = option_number(state, "--keys", arg, 1, plan->keys_max);
		return 0;
	case 'i':
		plan->icount = true;
		return 0;
	case 'q':
		plan->quick = true;
		plan->keys = 1000;
		plan->rounds = 1;
		plan->seconds = 0.01;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option options[] = {
	{ .name = "json", .key = 'j', .arg = "FILE", .doc = "Write the results to FILE" },
	{ .name = "rounds", .key = 'r', .arg = "N",
	  .doc = "Rounds to measure; the result is the median" },
	{ .name = "seconds", .key = 's', .arg = "S",
	  .doc = "Time to measure each system in each round" },
	{ .name = "keys", .key = 'n', .arg = "N", .doc = "Number of keys" },
	{ .name = "icount", .key = 'i',
	  .doc = "The clock counts instructions: report that, and check no targets" },
	{ .name = "quick", .key = 'q',
	  .doc = "Only check the answers, in one short round, and no targets" },
	{ 0 }
};

/* The help text shows the defaults. */
static char *help_filter(int key, const char *text, void *input)
{
	const struct plan *plan = input;
	char *with = NULL;
	int n = 0;

	if (!plan)
		return (char *)text;
	if (key == 'j')
		n = asprintf(&with, "%s (%s)", text, plan->json);
	else if (key == 'r')
		n = asprintf(&with, "%s (%u)", text, plan->rounds);
	else if (key == 's')
		n = asprintf(&with, "%s (%g)", text, plan->seconds);
	else if (key == 'n')
		n = asprintf(&with, "%s (%u)", text, plan->keys);
	return n > 0 ? with : (char *)text;
}

const struct argp plan_argp = {
	.options = options,
	.parser = parse_option,
	.help_filter = help_filter,
};
