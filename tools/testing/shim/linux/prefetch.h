/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SHIM_PREFETCH_H
#define SHIM_PREFETCH_H

static inline void prefetch(const void *p)
{
#ifndef SHIM_NO_PREFETCH
	__builtin_prefetch(p, 0, 3);
#endif
}

static inline void prefetchw(const void *p)
{
#ifndef SHIM_NO_PREFETCH
	__builtin_prefetch(p, 1, 3);
#endif
}

#endif /* SHIM_PREFETCH_H */
