/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Scratch memory that an operation needs while it runs, kept by the session for
 * the next one.  A scan needs 32 KiB, which would otherwise be allocated, and on
 * many kernels cleared, for each scan of ten records.
 *
 * A session keeps one piece of each kind.  If another thread of the session has
 * taken it, an operation allocates another.  The memory is not cleared.
 */
#ifndef KVT_API_SCRATCH_H
#define KVT_API_SCRATCH_H

#include <linux/types.h>

enum kvt_scratch_kind {
	KVT_SCRATCH_BATCH,
	KVT_SCRATCH_SCAN,
	KVT_SCRATCH_NR
};

struct kvt_scratch {
	void *spare[KVT_SCRATCH_NR];
};

void *kvt_scratch_take(struct kvt_scratch *scratch, enum kvt_scratch_kind kind, size_t size,
		       gfp_t gfp);
void kvt_scratch_give(struct kvt_scratch *scratch, enum kvt_scratch_kind kind, void *p);
void kvt_scratch_exit(struct kvt_scratch *scratch);

#endif /* KVT_API_SCRATCH_H */
