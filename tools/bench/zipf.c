// SPDX-License-Identifier: GPL-2.0
/*
 * Zipf's distribution as YCSB draws it: rank i of n comes with a probability in
 * proportion to 1/(i+1)^theta, by the approximation of Gray et al. ("Quickly
 * generating billion-record synthetic databases", SIGMOD 1994).  It is exact for
 * the ranks 0 and 1; the first of the other ranks are somewhat too frequent.
 */
#include <math.h>

#include "zipf.h"

#define SUMMED	100	/* terms of zeta that are added up one by one */

static double term(double i, double theta)
{
	return pow(i, -theta);
}

/*
 * The sum of 1/i^theta for i = 1..n.  After the first terms it uses the formula of Euler and
 * Maclaurin; its error is then below the precision of a double.
 */
static double zeta(uint64_t n, double theta)
{
	uint64_t i, m = n < SUMMED ? n : SUMMED;
	double a = (double)m, b = (double)n;
	double sum = 0;

	for (i = 1; i <= m; i++)
		sum += term((double)i, theta);
	if (n == m)
		return sum;
	sum += (pow(b, 1 - theta) - pow(a, 1 - theta)) / (1 - theta);
	sum += (term(b, theta) - term(a, theta)) / 2;
	sum -= theta * (term(b, theta + 1) - term(a, theta + 1)) / 12;
	sum += theta * (theta + 1) * (theta + 2) *
	       (term(b, theta + 3) - term(a, theta + 3)) / 720;
	return sum;
}

static void derive(struct zipf *z)
{
	z->eta = (1 - pow(2.0 / (double)z->n, 1 - z->theta)) / (1 - z->first_two / z->zeta);
}

/**
 * zipf_init() - prepare to draw
 * @z: set up
 * @n: number of ranks, above 0
 * @theta: above 0 and below 1
 */
void zipf_init(struct zipf *z, uint64_t n, double theta)
{
	z->n = n;
	z->theta = theta;
	z->alpha = 1 / (1 - theta);
	z->first_two = zeta(2, theta);
	z->zeta = zeta(n, theta);
	derive(z);
}

/**
 * zipf_grow() - increase the number of ranks
 * @z: the distribution
 * @n: number of ranks; does not decrease it
 */
void zipf_grow(struct zipf *z, uint64_t n)
{
	if (n <= z->n)
		return;
	if (n - z->n > SUMMED)
		z->zeta = zeta(n, z->theta);
	else
		for (uint64_t i = z->n + 1; i <= n; i++)
			z->zeta += term((double)i, z->theta);
	z->n = n;
	derive(z);
}

/**
 * zipf_next() - draw a rank
 * @z: the distribution
 * @rng: the random numbers
 *
 * Return: 0..n-1
 */
uint64_t zipf_next(const struct zipf *z, struct rng *rng)
{
	double u = rng_unit(rng);
	double uz = u * z->zeta;
	uint64_t rank;

	if (uz < 1 || z->n == 1)
		return 0;
	if (uz < z->first_two || z->n == 2)
		return 1;
	rank = (uint64_t)((double)z->n * pow(z->eta * (u - 1) + 1, z->alpha));
	return rank < z->n ? rank : z->n - 1;
}
