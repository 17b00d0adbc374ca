/* SPDX-License-Identifier: GPL-2.0 */
/* Numbers given as options. */
#ifndef BENCH_OPTIONS_H
#define BENCH_OPTIONS_H

#include <argp.h>

double option_number(struct argp_state *state, const char *what, const char *arg, double least,
		     double most);

#endif /* BENCH_OPTIONS_H */
