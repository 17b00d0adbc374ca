/* SPDX-License-Identifier: GPL-2.0 */
/* AddressSanitizer looks for leaks. */
#ifndef SHIM_KMEMLEAK_H
#define SHIM_KMEMLEAK_H

#define kmemleak_alloc(p, size, min_count, gfp)	((void)(p))
#define kmemleak_free(p)			((void)(p))

#endif /* SHIM_KMEMLEAK_H */
