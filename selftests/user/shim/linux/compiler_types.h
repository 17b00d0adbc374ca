/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SHIM_COMPILER_TYPES_H
#define SHIM_COMPILER_TYPES_H

#include <stdbool.h>
#include <stddef.h>

/* Annotations for sparse, which does not check this build. */
#define __acquire(x)	((void)0)
#define __release(x)	((void)0)
#define __acquires(x)
#define __releases(x)
#define __must_hold(x)
#define __force
#define __percpu
#define __rcu
#define __user

#ifndef __always_inline
#define __always_inline		inline __attribute__((__always_inline__))
#endif
#define __maybe_unused		__attribute__((__unused__))
#define __must_check		__attribute__((__warn_unused_result__))
#define __printf(a, b)		__attribute__((__format__(printf, a, b)))
#define __aligned(x)		__attribute__((__aligned__(x)))
#define __packed		__attribute__((__packed__))
#define noinline		__attribute__((__noinline__))
#define fallthrough		__attribute__((__fallthrough__))
/* Variables are cleared in no build of this. */
#define __uninitialized

#define _RET_IP_		((unsigned long)__builtin_return_address(0))

#endif /* SHIM_COMPILER_TYPES_H */
