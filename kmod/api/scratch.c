// SPDX-License-Identifier: GPL-2.0
/* Scratch memory, kept by the session. */
#include <linux/atomic.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "compat.h"
#include "scratch.h"

/**
 * kvt_scratch_take() - get a piece of scratch memory
 * @scratch: the session's, initially zero
 * @kind: which kind
 * @size: bytes; always the same for a kind and a session
 * @gfp: how to allocate
 *
 * Context: process context; as @gfp says.
 *
 * Return: memory for kvt_scratch_give(), charged to the caller, or NULL.
 */
void *kvt_scratch_take(struct kvt_scratch *scratch, enum kvt_scratch_kind kind, size_t size,
		       gfp_t gfp)
{
	void *p = xchg(&scratch->spare[kind], NULL);

	return p ?: kvmalloc(size, gfp);
}

/**
 * kvt_scratch_give() - give a piece of scratch memory back
 * @scratch: the session's
 * @kind: which
 * @p: from kvt_scratch_take()
 *
 * Context: process context, may sleep.
 */
void kvt_scratch_give(struct kvt_scratch *scratch, enum kvt_scratch_kind kind, void *p)
{
	kvfree(xchg(&scratch->spare[kind], p));
}

/**
 * kvt_scratch_exit() - free a session's scratch memory
 * @scratch: the session's, after all its operations
 *
 * Context: process context, may sleep.
 */
void kvt_scratch_exit(struct kvt_scratch *scratch)
{
	unsigned int kind;

	for (kind = 0; kind < KVT_SCRATCH_NR; kind++)
		kvfree(scratch->spare[kind]);
}
KVT_EXPORT_FOR_TESTS(kvt_scratch_exit);
