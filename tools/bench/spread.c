// SPDX-License-Identifier: GPL-2.0
/* See spread.h. */
#include <stdlib.h>
#include <string.h>

#include "spread.h"

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/**
 * spread_of() - the least, the median and the most of some numbers
 * @values: the numbers, in any order
 * @nr: how many
 *
 * For an even number of values the median is the mean of the two in the middle.
 *
 * Return: zeros if there are none
 */
struct spread spread_of(const double *values, unsigned int nr)
{
	struct spread s = { 0 };
	double *sorted;

	if (!nr)
		return s;
	sorted = malloc(nr * sizeof(*sorted));
	if (!sorted)
		abort();
	memcpy(sorted, values, nr * sizeof(*sorted));
	qsort(sorted, nr, sizeof(*sorted), compare);
	s.min = sorted[0];
	s.median = (sorted[(nr - 1) / 2] + sorted[nr / 2]) / 2;
	s.max = sorted[nr - 1];
	free(sorted);
	return s;
}
