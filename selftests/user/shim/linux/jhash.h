/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SHIM_JHASH_H
#define SHIM_JHASH_H

#include <linux/hash.h>
#include <linux/string.h>
#include <linux/unaligned.h>

static inline u32 jhash(const void *data, u32 len, u32 seed)
{
	const u8 *p = data;
	u64 hash = ((u64)seed << 32) + len;
	u64 last = 0;

	for (; len >= 8; len -= 8, p += 8)
		hash = hash_64(hash ^ get_unaligned((const u64 *)p), 64);
	if (len)
		memcpy(&last, p, len);
	return hash_64(hash ^ last, 32);
}

#endif /* SHIM_JHASH_H */
