/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SHIM_BITOPS_H
#define SHIM_BITOPS_H

#include <linux/bits.h>

static inline unsigned long __ffs64(unsigned long long word)
{
	return __builtin_ctzll(word);
}

#endif /* SHIM_BITOPS_H */
