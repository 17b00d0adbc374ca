/* SPDX-License-Identifier: GPL-2.0 */
/* Audit: compare what a store was charged with what its values took, when it is destroyed. */
#ifndef KVT_CORE_AUDIT_H
#define KVT_CORE_AUDIT_H

#include <linux/types.h>

#include "base/index.h"
#include "base/mem.h"

struct kvt_store;

struct kvt_audit {
	struct kvt_walk walk;
	bool done;	/* there was memory to count */
	u64 keys;
	u64 bytes;	/* that the allocators gave for the values */
};

void kvt_audit_values(struct kvt_audit *audit, const struct kvt_store *store);
void kvt_audit_check(const struct kvt_audit *audit, const struct kvt_store *store);

#endif /* KVT_CORE_AUDIT_H */
