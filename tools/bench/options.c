// SPDX-License-Identifier: GPL-2.0
/* See options.h. */
#include <stdlib.h>

#include "options.h"

/**
 * option_number() - the number given as an option's argument
 * @state: argp's
 * @what: the option's name
 * @arg: its argument, such as "100" or "1e6"
 * @least: the minimum
 * @most: the maximum
 *
 * Return: the number; ends the program if it is missing or out of range
 */
double option_number(struct argp_state *state, const char *what, const char *arg, double least,
		     double most)
{
	char *end;
	double n = strtod(arg, &end);

	if (end == arg || *end || !(n >= least && n <= most))
		argp_error(state, "%s '%s' is not a number from %g to %g", what, arg, least, most);
	return n;
}
