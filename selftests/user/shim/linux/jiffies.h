/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SHIM_JIFFIES_H
#define SHIM_JIFFIES_H

#include <linux/types.h>

#define HZ		1000
#define NSEC_PER_SEC	1000000000l
#define NSEC_PER_MSEC	1000000l
#define NSEC_PER_USEC	1000l

unsigned long shim_jiffies(void);
#define jiffies			shim_jiffies()

#define msecs_to_jiffies(ms)	((unsigned long)(ms) * HZ / 1000)
#define time_before(a, b)	((long)((a) - (b)) < 0)
#define time_after(a, b)	time_before(b, a)
#define time_after_eq(a, b)	(!time_before(a, b))

#endif /* SHIM_JIFFIES_H */
