/* SPDX-License-Identifier: GPL-2.0 */
/* Names: of stores and hooks. */
#ifndef KVT_NAME_H
#define KVT_NAME_H

#include <linux/ctype.h>
#include <linux/string.h>

/**
 * kvt_name_allowed() - whether a name has only characters that names may have
 * @name: the name, which may be empty
 *
 * Context: any.
 *
 * Return: true if they are ASCII letters, digits, and "._-".
 */
static inline bool kvt_name_allowed(const char *name)
{
	for (; *name; name++)
		if (!isascii(*name) || (!isalnum(*name) && !strchr("._-", *name)))
			return false;
	return true;
}

#endif
