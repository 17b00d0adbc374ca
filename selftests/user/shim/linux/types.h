/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SHIM_TYPES_H
#define SHIM_TYPES_H

#include_next <linux/types.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <linux/compiler_types.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s8 s8;
typedef __s16 s16;
typedef __s32 s32;
typedef __s64 s64;

typedef unsigned int gfp_t;

typedef struct {
	int counter;
} atomic_t;

typedef struct {
	s64 counter;
} atomic64_t;

typedef struct {
	long counter;
} atomic_long_t;

struct callback_head {
	struct callback_head *next;
	void (*fn)(struct callback_head *head);
};

#define rcu_head callback_head

#define U8_MAX		UINT8_MAX
#define U16_MAX		UINT16_MAX
#define U32_MAX		UINT32_MAX
#define S32_MAX		INT32_MAX
#define S64_MAX		((s64)LLONG_MAX)
#define U64_MAX		((u64)ULLONG_MAX)

#define offsetofend(type, member) \
	(offsetof(type, member) + sizeof(((type *)0)->member))

#endif /* SHIM_TYPES_H */
