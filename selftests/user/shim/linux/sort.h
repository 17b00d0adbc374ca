/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SHIM_SORT_H
#define SHIM_SORT_H

#include <stdlib.h>

static inline void sort(void *base, size_t nr, size_t size,
			int (*cmp)(const void *a, const void *b), void *swap)
{
	qsort(base, nr, size, cmp);
}

#endif /* SHIM_SORT_H */
