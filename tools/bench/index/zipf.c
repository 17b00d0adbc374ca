// SPDX-License-Identifier: GPL-2.0
/* See zipf.h. */
#include <math.h>

#include "keygen.h"
#include "zipf.h"

void zipf_init(struct zipf *z, uint64_t n)
{
	uint64_t i;

	*z = (struct zipf) { .n = n, .alpha = 1 / (1 - ZIPF_THETA) };
	for (i = 1; i <= n; i++)
		z->zeta += pow(i, -ZIPF_THETA);
	z->second = 1 + pow(2, -ZIPF_THETA);
	z->eta = (1 - pow(2.0 / n, 1 - ZIPF_THETA)) / (1 - z->second / z->zeta);
}

uint64_t zipf_draw(const struct zipf *z, uint64_t *state)
{
	double u = (bench_random(state) >> 11) * 0x1p-53;
	uint64_t rank;

	if (u * z->zeta < 1 || z->n == 1)
		return 0;
	if (u * z->zeta < z->second || z->n == 2)
		return 1;
	rank = z->n * pow(z->eta * (u - 1) + 1, z->alpha);
	return rank < z->n ? rank : z->n - 1;
}
