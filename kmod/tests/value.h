/* SPDX-License-Identifier: GPL-2.0 */
/* Values for tests and the benchmark. */
#ifndef KVT_TESTS_VALUE_H
#define KVT_TESTS_VALUE_H

#include <linux/gfp.h>
#include <linux/string.h>

#include "base/mem.h"
#include "base/value.h"

/* A value that is column 0 alone; NULL: there is no memory. */
static inline struct kvt_value *kt_value_of(const struct kvt_key *key, const void *data, u32 len)
{
	struct kvt_mem mem = { .gfp = GFP_KERNEL };
	struct kvt_value *v;
	u8 *to;

	v = kvt_value_alloc_whole(&mem, key, len, &to);
	if (v && len)
		memcpy(to, data, len);
	return v;
}

#endif /* KVT_TESTS_VALUE_H */
