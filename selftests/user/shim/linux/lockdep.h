/* SPDX-License-Identifier: GPL-2.0 */
/* Only what works without CONFIG_DEBUG_LOCK_ALLOC. */
#ifndef SHIM_LOCKDEP_H
#define SHIM_LOCKDEP_H

#include <linux/bug.h>

#endif /* SHIM_LOCKDEP_H */
