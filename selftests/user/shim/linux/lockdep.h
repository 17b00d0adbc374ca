/* SPDX-License-Identifier: GPL-2.0 */
/* Only what does not depend on it: CONFIG_DEBUG_LOCK_ALLOC is not set. */
#ifndef SHIM_LOCKDEP_H
#define SHIM_LOCKDEP_H

#include <linux/bug.h>

#endif /* SHIM_LOCKDEP_H */
