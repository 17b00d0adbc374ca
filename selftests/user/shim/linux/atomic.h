/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Atomics on the compiler's: ordered as in the kernel, where what returns a
 * value is fully ordered and what does not is not ordered at all.
 */
#ifndef SHIM_ATOMIC_H
#define SHIM_ATOMIC_H

#include <linux/compiler.h>
#include <linux/types.h>

#define xchg(ptr, val)		({ __atomic_exchange_n(ptr, val, __ATOMIC_SEQ_CST); })

#ifdef SHIM_TSAN
/*
 * ThreadSanitizer checks for races before it acquires, and takes a failing
 * exchange for a write.  So acquire first if the expected value is there, and
 * do not exchange if it is not.
 */
#define shim_try_cmpxchg(ptr, old, val, order)				\
({									\
	typeof(*(old)) there_ = __atomic_load_n(ptr, (order) == __ATOMIC_RELEASE ? \
						__ATOMIC_RELAXED : __ATOMIC_ACQUIRE); \
	bool same_ = there_ == *(old);					\
									\
	if (!same_)							\
		*(old) = there_;					\
	same_ && __atomic_compare_exchange_n(ptr, old, val, false, order, \
					     __ATOMIC_RELAXED);		\
})
#else
#define shim_try_cmpxchg(ptr, old, val, order) \
	__atomic_compare_exchange_n(ptr, old, val, false, order, __ATOMIC_RELAXED)
#endif
#define try_cmpxchg(ptr, old, val)	shim_try_cmpxchg(ptr, old, val, __ATOMIC_SEQ_CST)
#define cmpxchg(ptr, old, val)						\
({									\
	typeof(*(ptr)) was_ = (old);					\
									\
	try_cmpxchg(ptr, &was_, val);					\
	was_;								\
})
#define try_cmpxchg_acquire(ptr, old, val) \
	shim_try_cmpxchg(ptr, old, val, __ATOMIC_ACQUIRE)
#define try_cmpxchg_release(ptr, old, val) \
	shim_try_cmpxchg(ptr, old, val, __ATOMIC_RELEASE)

#define ATOMIC_INIT(i)		{ (i) }
#define ATOMIC64_INIT(i)	{ (i) }
#define ATOMIC_LONG_INIT(i)	{ (i) }

#define SHIM_ATOMIC(name, type)						\
static inline type name##_read(const name##_t *v)			\
{									\
	return __atomic_load_n(&v->counter, __ATOMIC_RELAXED);		\
}									\
static inline type name##_read_acquire(const name##_t *v)		\
{									\
	return __atomic_load_n(&v->counter, __ATOMIC_ACQUIRE);		\
}									\
static inline void name##_set(name##_t *v, type i)			\
{									\
	__atomic_store_n(&v->counter, i, __ATOMIC_RELAXED);		\
}									\
static inline void name##_set_release(name##_t *v, type i)		\
{									\
	__atomic_store_n(&v->counter, i, __ATOMIC_RELEASE);		\
}									\
static inline void name##_add(type i, name##_t *v)			\
{									\
	__atomic_fetch_add(&v->counter, i, __ATOMIC_RELAXED);		\
}									\
static inline void name##_sub(type i, name##_t *v)			\
{									\
	__atomic_fetch_sub(&v->counter, i, __ATOMIC_RELAXED);		\
}									\
static inline void name##_inc(name##_t *v)				\
{									\
	name##_add(1, v);						\
}									\
static inline void name##_dec(name##_t *v)				\
{									\
	name##_sub(1, v);						\
}									\
static inline type name##_add_return(type i, name##_t *v)		\
{									\
	return __atomic_add_fetch(&v->counter, i, __ATOMIC_SEQ_CST);	\
}									\
static inline type name##_sub_return(type i, name##_t *v)		\
{									\
	return __atomic_sub_fetch(&v->counter, i, __ATOMIC_SEQ_CST);	\
}									\
static inline type name##_inc_return(name##_t *v)			\
{									\
	return name##_add_return(1, v);					\
}									\
static inline bool name##_dec_and_test(name##_t *v)			\
{									\
	return !name##_sub_return(1, v);				\
}									\
static inline type name##_xchg(name##_t *v, type i)			\
{									\
	return xchg(&v->counter, i);					\
}									\
static inline bool name##_try_cmpxchg(name##_t *v, type *old, type i)	\
{									\
	return try_cmpxchg(&v->counter, old, i);			\
}									\
static inline type name##_cmpxchg(name##_t *v, type old, type i)	\
{									\
	try_cmpxchg(&v->counter, &old, i);				\
	return old;							\
}

SHIM_ATOMIC(atomic, int)
SHIM_ATOMIC(atomic64, s64)
SHIM_ATOMIC(atomic_long, long)

#endif /* SHIM_ATOMIC_H */
