/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SHIM_BITOPS_H
#define SHIM_BITOPS_H

#include <linux/bits.h>
#include <linux/compiler.h>
#include <linux/types.h>

static inline void set_bit(unsigned long nr, unsigned long *map)
{
	__atomic_fetch_or(&map[nr / BITS_PER_LONG], BIT(nr % BITS_PER_LONG), __ATOMIC_RELAXED);
}

static inline bool test_bit(unsigned long nr, const unsigned long *map)
{
	return READ_ONCE(map[nr / BITS_PER_LONG]) & BIT(nr % BITS_PER_LONG);
}

/* The highest bit, counted from 1; 0: there is none. */
static inline int fls(unsigned int word)
{
	return word ? 32 - __builtin_clz(word) : 0;
}

static inline unsigned long __fls(unsigned long word)
{
	return BITS_PER_LONG - 1 - __builtin_clzl(word);
}

static inline unsigned long __ffs64(unsigned long long word)
{
	return __builtin_ctzll(word);
}

#endif /* SHIM_BITOPS_H */
