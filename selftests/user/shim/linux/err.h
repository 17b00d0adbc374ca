/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SHIM_ERR_H
#define SHIM_ERR_H

#include <errno.h>
#include <linux/compiler.h>
#include <linux/types.h>

#define SHIM_MAX_ERRNO	4095ul

static inline void *ERR_PTR(long err)
{
	return (void *)err;
}

static inline long PTR_ERR(const void *ptr)
{
	return (long)ptr;
}

static inline bool IS_ERR(const void *ptr)
{
	return unlikely((unsigned long)ptr >= -SHIM_MAX_ERRNO);
}

static inline bool IS_ERR_OR_NULL(const void *ptr)
{
	return unlikely(!ptr) || IS_ERR(ptr);
}

static inline void *ERR_CAST(const void *ptr)
{
	return (void *)ptr;
}

#endif /* SHIM_ERR_H */
