/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SHIM_PREFETCH_H
#define SHIM_PREFETCH_H

static inline void prefetch(const void *p)
{
	__builtin_prefetch(p, 0, 3);
}

static inline void prefetchw(const void *p)
{
	__builtin_prefetch(p, 1, 3);
}

#endif /* SHIM_PREFETCH_H */
