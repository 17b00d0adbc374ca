/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SHIM_BITMAP_H
#define SHIM_BITMAP_H

#include <linux/bitops.h>
#include <linux/string.h>

#define BITMAP_LONGS(bits)		(((bits) + BITS_PER_LONG - 1) / BITS_PER_LONG)
#define DECLARE_BITMAP(name, bits)	unsigned long name[BITMAP_LONGS(bits)]

static inline void bitmap_zero(unsigned long *map, unsigned int bits)
{
	memset(map, 0, BITMAP_LONGS(bits) * sizeof(long));
}

static inline void __set_bit(unsigned long nr, unsigned long *map)
{
	map[nr / BITS_PER_LONG] |= BIT(nr % BITS_PER_LONG);
}

static inline void __clear_bit(unsigned long nr, unsigned long *map)
{
	map[nr / BITS_PER_LONG] &= ~BIT(nr % BITS_PER_LONG);
}

static inline void __assign_bit(unsigned long nr, unsigned long *map, bool value)
{
	if (value)
		__set_bit(nr, map);
	else
		__clear_bit(nr, map);
}

static inline void __change_bit(unsigned long nr, unsigned long *map)
{
	map[nr / BITS_PER_LONG] ^= BIT(nr % BITS_PER_LONG);
}

/* The first set bit from @from on; @size if there is none. */
static inline unsigned long find_next_bit(const unsigned long *map, unsigned long size,
					  unsigned long from)
{
	unsigned long word;

	while (from < size) {
		word = map[from / BITS_PER_LONG] >> from % BITS_PER_LONG;
		if (word) {
			from += __builtin_ctzl(word);
			return from < size ? from : size;
		}
		from += BITS_PER_LONG - from % BITS_PER_LONG;
	}
	return size;
}

static inline unsigned long find_first_bit(const unsigned long *map, unsigned long size)
{
	return find_next_bit(map, size, 0);
}

static inline unsigned long find_next_bit_wrap(const unsigned long *map, unsigned long size,
					       unsigned long from)
{
	unsigned long bit = find_next_bit(map, size, from);

	if (bit < size)
		return bit;
	bit = find_first_bit(map, from);
	return bit < from ? bit : size;
}

static inline unsigned long find_last_bit(const unsigned long *map, unsigned long size)
{
	unsigned long bit = size;

	while (bit-- > 0)
		if (test_bit(bit, map))
			return bit;
	return size;
}

static inline bool bitmap_empty(const unsigned long *map, unsigned long size)
{
	return find_first_bit(map, size) == size;
}

static inline unsigned int bitmap_weight(const unsigned long *map, unsigned long size)
{
	unsigned int bit, nr = 0;

	for (bit = 0; bit < size; bit++)
		nr += test_bit(bit, map);
	return nr;
}

#define for_each_set_bit(bit, map, size)				\
	for ((bit) = find_first_bit(map, size); (bit) < (size);	\
	     (bit) = find_next_bit(map, size, (bit) + 1))

#endif /* SHIM_BITMAP_H */
