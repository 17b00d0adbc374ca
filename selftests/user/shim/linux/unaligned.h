/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SHIM_UNALIGNED_H
#define SHIM_UNALIGNED_H

#include <linux/types.h>

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define cpu_to_be64(n)	((__be64)__builtin_bswap64(n))
#else
#define cpu_to_be64(n)	((__be64)(n))
#endif
#define be64_to_cpu(n)	((u64)cpu_to_be64(n))

#define shim_unaligned(p)	((struct { typeof(*(p)) it; } __packed *)(p))
#define get_unaligned(p)	(shim_unaligned(p)->it)
#define put_unaligned(val, p)	((void)(shim_unaligned(p)->it = (val)))

static inline u64 get_unaligned_be64(const void *p)
{
	return be64_to_cpu(get_unaligned((const __be64 *)p));
}

static inline void put_unaligned_be64(u64 n, void *p)
{
	put_unaligned(cpu_to_be64(n), (__be64 *)p);
}

#endif /* SHIM_UNALIGNED_H */
