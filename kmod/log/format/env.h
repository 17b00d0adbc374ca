/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The environment of the code that reads devices.  That code is compiled into the module, and
 * unchanged into programs: the tool, and tests that replay a crash at thousands of points.
 */
#ifndef KVT_LOG_FORMAT_ENV_H
#define KVT_LOG_FORMAT_ENV_H

#ifdef __KERNEL__

#include <linux/align.h>
#include <linux/array_size.h>
#include <linux/bits.h>
#include <linux/build_bug.h>
#include <linux/errno.h>
#include <linux/math.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/sort.h>
#include <linux/sprintf.h>
#include <linux/string.h>
#include <linux/types.h>

#include "compat.h"

static inline void *kvt_env_alloc(size_t size)
{
	return kvzalloc(size, GFP_KERNEL);
}

/* Memory with any content, to read into. */
static inline void *kvt_env_alloc_raw(size_t size)
{
	return kvmalloc(size, GFP_KERNEL);
}

static inline void kvt_env_free(void *p)
{
	kvfree(p);
}

static inline void kvt_env_rest(void)
{
	cond_resched();
}

/* Whether the calling process has been killed. */
static inline bool kvt_env_killed(void)
{
	return fatal_signal_pending(current);
}

static inline void kvt_env_sort(void *base, size_t nr, size_t size,
				int (*cmp)(const void *a, const void *b))
{
	sort(base, nr, size, cmp, NULL);
}

#else

#include <endian.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/types.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;

#define le16_to_cpu(x)	le16toh(x)
#define le32_to_cpu(x)	le32toh(x)
#define le64_to_cpu(x)	le64toh(x)
#define be64_to_cpu(x)	be64toh(x)
#define cpu_to_le16(x)	htole16(x)
#define cpu_to_le32(x)	htole32(x)
#define cpu_to_le64(x)	htole64(x)

#ifndef ARRAY_SIZE
#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))
#endif

#define ALIGN(x, to)			\
({					\
	typeof(x) to_ = (to);		\
	((x) + to_ - 1) / to_ * to_;	\
})

#define DIV_ROUND_UP(x, by)		\
({					\
	typeof(x) by_ = (by);		\
	((x) + by_ - 1) / by_;		\
})

#define min(a, b)			\
({					\
	typeof(a) a_ = (a);		\
	typeof(b) b_ = (b);		\
	a_ < b_ ? a_ : b_;		\
})

#define max(a, b)			\
({					\
	typeof(a) a_ = (a);		\
	typeof(b) b_ = (b);		\
	a_ > b_ ? a_ : b_;		\
})

#define KVT_EXPORT_FOR_TESTS(sym)

u32 kvt_crc32c(u32 crc, const void *data, size_t len);

static inline void *kvt_env_alloc(size_t size)
{
	return calloc(1, size);
}

static inline void *kvt_env_alloc_raw(size_t size)
{
	return malloc(size);
}

static inline void kvt_env_free(void *p)
{
	free(p);
}

static inline void kvt_env_rest(void)
{
}

static inline bool kvt_env_killed(void)
{
	return false;
}

static inline void kvt_env_sort(void *base, size_t nr, size_t size,
				int (*cmp)(const void *a, const void *b))
{
	qsort(base, nr, size, cmp);
}

#endif

#include <linux/kvtree.h>
#include <linux/kvtree_format.h>

#endif /* KVT_LOG_FORMAT_ENV_H */
