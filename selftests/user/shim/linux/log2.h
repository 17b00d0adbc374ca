/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SHIM_LOG2_H
#define SHIM_LOG2_H

#define ilog2(n)	(63 - __builtin_clzll(n))

#endif /* SHIM_LOG2_H */
