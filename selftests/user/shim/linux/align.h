/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SHIM_ALIGN_H
#define SHIM_ALIGN_H

/* @to is a power of two. */
#define ALIGN(n, to)		(((n) + (typeof(n))(to) - 1) & ~((typeof(n))(to) - 1))
#define ALIGN_DOWN(n, to)	((n) & ~((typeof(n))(to) - 1))
#define IS_ALIGNED(n, to)	(!((n) & ((typeof(n))(to) - 1)))

#endif /* SHIM_ALIGN_H */
