/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SHIM_BUILD_BUG_H
#define SHIM_BUILD_BUG_H

#include <assert.h>

#define BUILD_BUG_ON(cond)	_Static_assert(!(cond), #cond)

/* The kernel's may do without a message, and so may C23's. */
#undef static_assert
#define static_assert(cond, ...)	_Static_assert(cond, #cond)

#endif /* SHIM_BUILD_BUG_H */
