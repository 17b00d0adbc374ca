/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SHIM_STRING_H
#define SHIM_STRING_H

#include <string.h>
#include <linux/types.h>

/* Fills @to and ends it with a NUL. */
static inline void strscpy(char *to, const char *from, size_t size)
{
	size_t len = strnlen(from, size - 1);

	memcpy(to, from, len);
	to[len] = '\0';
}

#endif /* SHIM_STRING_H */
