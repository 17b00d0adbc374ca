// SPDX-License-Identifier: GPL-2.0
/* Options that all of them have. */
#include "common.h"

/**
 * option_number() - the number that an option has
 * @state: argp's
 * @what: the option
 * @arg: its argument
 * @max: the largest that is allowed
 *
 * Return: a number above 0; others end the program
 */
double option_number(struct argp_state *state, const char *what, const char *arg, double max)
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
	struct plan *plan = state->input;

	switch (key) {
	case 'j':
		plan->json = arg;
		return 0;
	case 'r':
		plan->rounds = option_number(state, "--rounds", arg, 1000);
		return 0;
	case 's':
		plan->seconds = option_number(state, "--seconds", arg, 60);
		return 0;
	case 'n':
		plan->keys = option_number(state, "--keys", arg, plan->keys_max);
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
	{ .name = "rounds", .key = 'r', .arg = "N", .doc = "Rounds whose median counts" },
	{ .name = "seconds", .key = 's', .arg = "S",
	  .doc = "How long each system is measured in each round" },
	{ .name = "keys", .key = 'n', .arg = "N", .doc = "How many keys there are" },
	{ .name = "icount", .key = 'i',
	  .doc = "The clock counts instructions: say so, and expect no ratio" },
	{ .name = "quick", .key = 'q',
	  .doc = "Only see whether all answers are right; no ratio has to be reached" },
	{ 0 }
};

/* It says what is usual. */
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
