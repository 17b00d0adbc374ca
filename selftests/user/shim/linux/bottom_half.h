/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SHIM_BOTTOM_HALF_H
#define SHIM_BOTTOM_HALF_H

#include <linux/preempt.h>

static inline void local_bh_disable(void)
{
	preempt_disable();
}

static inline void local_bh_enable(void)
{
	preempt_enable();
}

#endif /* SHIM_BOTTOM_HALF_H */
