/* SPDX-License-Identifier: GPL-2.0 */
/* Prefetching for iterators, long before they use what arrives. */
#ifndef KVT_BASE_PREFETCH_H
#define KVT_BASE_PREFETCH_H

#include "value.h"

/*
 * Prefetch into the second-level cache: a processor can have more such loads in flight than
 * into the first level, for which it has about a dozen places.
 */
static __always_inline void kvt_prefetch_far(const void *p)
{
	__builtin_prefetch(p, 0, 2);
}

/* As kvt_value_prefetch(), into the second-level cache. */
static __always_inline void kvt_value_prefetch_far(const void *v, u32 key_len)
{
	kvt_prefetch_far(v);
	kvt_prefetch_far(kvt_value_small_end(v, key_len));
}

#endif /* KVT_BASE_PREFETCH_H */
