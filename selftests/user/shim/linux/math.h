/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SHIM_MATH_H
#define SHIM_MATH_H

#define DIV_ROUND_UP(n, by)	(((n) + (by) - 1) / (by))

#endif /* SHIM_MATH_H */
