/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SHIM_GFP_TYPES_H
#define SHIM_GFP_TYPES_H

#include <linux/types.h>

#define __GFP_DIRECT_RECLAIM	1u
#define __GFP_ZERO		2u
#define __GFP_ACCOUNT		4u
#define __GFP_NOWARN		8u
#define __GFP_NORETRY		16u
#define __GFP_RETRY_MAYFAIL	32u
#define __GFP_NOFAIL		64u
#define __GFP_HIGH		128u

#define GFP_NOWAIT		__GFP_NOWARN
#define GFP_ATOMIC		__GFP_HIGH
#define GFP_KERNEL		__GFP_DIRECT_RECLAIM
#define GFP_KERNEL_ACCOUNT	(GFP_KERNEL | __GFP_ACCOUNT)

static inline bool gfpflags_allow_blocking(gfp_t gfp)
{
	return gfp & __GFP_DIRECT_RECLAIM;
}

#endif /* SHIM_GFP_TYPES_H */
