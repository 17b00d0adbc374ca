/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SHIM_DELAY_H
#define SHIM_DELAY_H

#include <linux/ktime.h>
#include <linux/processor.h>

/* Does not sleep. */
static inline void udelay(unsigned long us)
{
	u64 until = shim_now_ns() + us * NSEC_PER_USEC;

	while (shim_now_ns() < until)
		cpu_relax();
}

static inline void mdelay(unsigned long ms)
{
	udelay(1000 * ms);
}

static inline void usleep_range(unsigned long min, unsigned long max)
{
	shim_sleep_ns(min * NSEC_PER_USEC);
}

#endif /* SHIM_DELAY_H */
