/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Included before the module's source: keeps its large buffers from one recovery to the
 * next, since allocating them would take most of the time.  They are not zeroed again:
 * nothing may depend on that.  Their bounds are still checked.
 */
#ifndef FORMAT_POOL_H
#define FORMAT_POOL_H

#include <stdlib.h>

void *fmt_pool_alloc(size_t nr, size_t size);
void fmt_pool_free(void *p);

#define calloc	fmt_pool_alloc
#define free	fmt_pool_free

#endif /* FORMAT_POOL_H */
