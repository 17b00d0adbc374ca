/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What differs between the kernels that the module supports: 6.12 to 7.3.
 * Every test of the kernel's version or of its headers stands here.
 */
#ifndef KVT_COMPAT_H
#define KVT_COMPAT_H

#include <linux/module.h>
#include <linux/version.h>
#include <kunit/visibility.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 12, 0)
#error "kvtree needs Linux 6.12 or later"
#endif

#ifndef CONFIG_64BIT
#error "kvtree needs a 64-bit kernel"
#endif

/*
 * For the test modules under tests/, and only on a kernel with KUnit: nothing
 * else may use kvtree from another module.
 */
#define KVT_EXPORT_FOR_TESTS(sym)	EXPORT_SYMBOL_IF_KUNIT(sym)

/* The namespace's name became a string in 6.13. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
#define KVT_IMPORT_FOR_TESTS()	MODULE_IMPORT_NS(EXPORTED_FOR_KUNIT_TESTING)
#else
#define KVT_IMPORT_FOR_TESTS()	MODULE_IMPORT_NS("EXPORTED_FOR_KUNIT_TESTING")
#endif

/* One call sets up a timer with its function from 6.13 on. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
#include <linux/hrtimer.h>

static inline void hrtimer_setup(struct hrtimer *timer,
				 enum hrtimer_restart (*fn)(struct hrtimer *timer),
				 clockid_t clock, enum hrtimer_mode mode)
{
	hrtimer_init(timer, clock, mode);
	timer->function = fn;
}
#endif

#endif /* KVT_COMPAT_H */
