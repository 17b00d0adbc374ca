/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SHIM_KTIME_H
#define SHIM_KTIME_H

#include <linux/sched.h>

static inline u64 ktime_get_mono_fast_ns(void)
{
	return shim_now_ns();
}

#endif /* SHIM_KTIME_H */
