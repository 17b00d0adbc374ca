/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SHIM_OVERFLOW_H
#define SHIM_OVERFLOW_H

#include <linux/types.h>

/* Bytes of a structure that ends with an array of @nr members. */
#define struct_size(p, member, nr) \
	(sizeof(*(p)) + sizeof(*(p)->member) * (size_t)(nr))

#endif /* SHIM_OVERFLOW_H */
