/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SHIM_REFCOUNT_H
#define SHIM_REFCOUNT_H

#include <linux/atomic.h>
#include <linux/bug.h>

typedef struct {
	atomic_t refs;
} refcount_t;

static inline void refcount_set(refcount_t *r, int n)
{
	atomic_set(&r->refs, n);
}

static inline void refcount_inc(refcount_t *r)
{
	WARN_ON(__atomic_fetch_add(&r->refs.counter, 1, __ATOMIC_RELAXED) <= 0);
}

static inline bool refcount_dec_and_test(refcount_t *r)
{
	int left = atomic_sub_return(1, &r->refs);

	WARN_ON(left < 0);
	return !left;
}

#endif /* SHIM_REFCOUNT_H */
