/* SPDX-License-Identifier: GPL-2.0 */
/* Other hashes than the kernel's, of the same form. */
#ifndef SHIM_HASH_H
#define SHIM_HASH_H

#include <linux/types.h>

static inline u64 hash_64(u64 n, unsigned int bits)
{
	n ^= n >> 32;
	n *= 0xd6e8feb86659fd93ull;
	n ^= n >> 32;
	return n * 0xd6e8feb86659fd93ull >> (64 - bits);
}

#endif /* SHIM_HASH_H */
