/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The options of the kernel's configuration, included before everything
 * else.
 */
#ifndef SHIM_KCONFIG_H
#define SHIM_KCONFIG_H

#ifndef __has_feature
#define __has_feature(x) 0
#endif

#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
#define SHIM_TSAN 1
#endif

#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#define SHIM_ASAN 1
#endif

#define CONFIG_64BIT 1
#define CONFIG_SMP 1

/*
 * SHIM_BENCH: as fast as the kernel would be.  Otherwise everything that can
 * be checked is, and allocations can be made to fail.
 */
#ifndef SHIM_BENCH
#define CONFIG_KUNIT 1
#define KVT_TESTS 1
#define CONFIG_FAILSLAB 1
#endif

/* Tests then do less. */
#if defined(SHIM_ASAN) || defined(SHIM_TSAN)
#define CONFIG_KASAN 1
#endif

/* For #if only. */
#define IS_ENABLED(option) (option)

#endif /* SHIM_KCONFIG_H */
