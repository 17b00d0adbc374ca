/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SHIM_CACHE_H
#define SHIM_CACHE_H

#include <linux/compiler_types.h>

#define SMP_CACHE_BYTES			64
#define ____cacheline_aligned		__aligned(SMP_CACHE_BYTES)
#define ____cacheline_aligned_in_smp	____cacheline_aligned

#endif /* SHIM_CACHE_H */
