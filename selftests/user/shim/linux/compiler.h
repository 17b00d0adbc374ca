/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Marked accesses and barriers.
 *
 * Compiled for ThreadSanitizer, marked accesses are atomic and the others are
 * not: it reports any other two that meet.  It knows nothing of fences nor of
 * dependencies, so these become part of the accesses next to them:
 *
 * - READ_ONCE() of a pointer acquires, because what is read through the pointer
 *   depends on it; of anything else it is relaxed.
 * - smp_wmb() makes every WRITE_ONCE() after it a release, until the thread
 *   ends its section with preemption off.  Without one WRITE_ONCE() is relaxed.
 * - smp_rmb() and smp_mb() order nothing for it: accesses after one must be
 *   marked, or be ordered by other means.
 *
 * data_race() hides accesses from it, as it does from KCSAN.
 */
#ifndef SHIM_COMPILER_H
#define SHIM_COMPILER_H

#include <linux/compiler_types.h>

#define likely(x)	__builtin_expect(!!(x), 1)
#define unlikely(x)	__builtin_expect(!!(x), 0)
#define barrier()	asm volatile("" : : : "memory")

#ifdef SHIM_TSAN

void AnnotateIgnoreWritesBegin(const char *file, int line);
void AnnotateIgnoreWritesEnd(const char *file, int line);

#define data_race(expr)					\
({							\
	AnnotateIgnoreWritesBegin(__FILE__, __LINE__);	\
	typeof(expr) racy_ = (expr);			\
	AnnotateIgnoreWritesEnd(__FILE__, __LINE__);	\
	racy_;						\
})

extern __thread bool shim_wmb;	/* since smp_wmb() */

/* 5: a pointer. */
#define READ_ONCE(x)							\
	__atomic_load_n(&(x), __builtin_classify_type(x) == 5 ?		\
			__ATOMIC_ACQUIRE : __ATOMIC_RELAXED)
#define WRITE_ONCE(x, val)						\
do {									\
	if (shim_wmb)							\
		__atomic_store_n(&(x), (val), __ATOMIC_RELEASE);	\
	else								\
		__atomic_store_n(&(x), (val), __ATOMIC_RELAXED);	\
} while (0)

static inline void smp_wmb(void)
{
	barrier();
	shim_wmb = true;
}

static inline void shim_end_wmb(void)
{
	shim_wmb = false;
}

#else

#define data_race(expr)		(expr)

#define READ_ONCE(x)		(*(const volatile typeof(x) *)&(x))
#define WRITE_ONCE(x, val)	(*(volatile typeof(x) *)&(x) = (val))

static inline void smp_wmb(void)
{
	__atomic_thread_fence(__ATOMIC_RELEASE);
}

static inline void shim_end_wmb(void) { }

#endif /* SHIM_TSAN */

static inline void smp_rmb(void)
{
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
}

static inline void smp_mb(void)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

#define smp_load_acquire(p)	__atomic_load_n(p, __ATOMIC_ACQUIRE)
#define smp_store_release(p, v)	__atomic_store_n(p, v, __ATOMIC_RELEASE)

#endif /* SHIM_COMPILER_H */
