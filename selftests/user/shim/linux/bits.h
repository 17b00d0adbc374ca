/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SHIM_BITS_H
#define SHIM_BITS_H

#include <linux/types.h>

#define BITS_PER_BYTE		8
#define BITS_PER_LONG		64
#define BITS_TO_LONGS(nr)	(((nr) + BITS_PER_LONG - 1) / BITS_PER_LONG)

#define BIT(nr)			(1ul << (nr))
#define BIT_ULL(nr)		(1ull << (nr))
#define GENMASK(high, low)	((~0ul >> (63 - (high))) & (~0ul << (low)))
#define GENMASK_ULL(high, low)	((~0ull >> (63 - (high))) & (~0ull << (low)))

#define lower_32_bits(n)	((u32)(n))
#define upper_32_bits(n)	((u32)((n) >> 32))

#endif /* SHIM_BITS_H */
