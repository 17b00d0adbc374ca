// SPDX-License-Identifier: GPL-2.0
/*
 * Audit: compare what a store was charged with what its values took from the allocators, when
 * it is destroyed.
 *
 * The allocators themselves tell the latter, block by block; it is not computed as the charge
 * is.  See KVT_AUDITS: each test does this.
 */
#include <linux/container_of.h>
#include <linux/err.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "audit.h"
#include "base/value.h"
#include "store.h"

/* Bytes of a vmalloc() area: up to the guard page. */
static size_t audit_area(const u8 *p)
{
	size_t bytes = 0;

	while (vmalloc_to_page(p + bytes))
		bytes += PAGE_SIZE;
	return bytes;
}

/* Bytes that the allocator gave for memory of kvt_mem_alloc(). */
static size_t audit_block(const void *p)
{
	if (is_vmalloc_addr(p))
		return audit_area(p);
	/* For an object that KFENCE guards, ksize() is the size that was requested. */
	if (PageSlab(virt_to_head_page(p)))
		return kvt_mem_size(ksize(p));
	/* Set by kvt_mem_pages(). */
	return page_private(virt_to_page(p));
}

static int audit_see(struct kvt_walk *walk, const struct kvt_value *v)
{
	struct kvt_audit *audit = container_of(walk, struct kvt_audit, walk);
	struct kvt_column col;
	unsigned int i;

	audit->keys++;
	if (!kvt_value_is_cell(v))
		audit->bytes += audit_block(v);
	for (i = 0; i < kvt_value_ncols(v); i++) {
		kvt_value_column(v, i, &col);
		if (col.blob)
			audit->bytes += audit_block(col.blob);
	}
	return 0;
}

/**
 * kvt_audit_values() - count what a store has
 * @audit: to be filled
 * @store: the store, which does not change any more
 *
 * Context: process context, sleeps.
 */
void kvt_audit_values(struct kvt_audit *audit, const struct kvt_store *store)
{
	struct kvt_index *index = store->index;

	*audit = (struct kvt_audit) { .walk.see = audit_see };
	if (!KVT_AUDITS || IS_ERR_OR_NULL(index))
		return;
	if (index->ops->stop)
		index->ops->stop(index);
	audit->done = !kvt_index_walk(index, &audit->walk);
}

/**
 * kvt_audit_check() - compare what a store had with what it is charged
 * @audit: of kvt_audit_values()
 * @store: the store; its index and garbage are freed, so only its values are still charged
 *
 * Context: any.
 */
void kvt_audit_check(const struct kvt_audit *audit, const struct kvt_store *store)
{
	u64 bytes, keys;
	s64 waiting;

	if (!audit->done)
		return;
	bytes = kvt_quota_bytes(&store->quota);
	keys = kvt_quota_keys(&store->quota);
	waiting = atomic64_read(&store->reclaim.waiting);
	WARN(bytes != audit->bytes, "kvtree: %s: %llu bytes are charged for values that took %llu\n",
	     store->name, bytes, audit->bytes);
	WARN(keys != audit->keys, "kvtree: %s: %llu keys are charged for %llu\n",
	     store->name, keys, audit->keys);
	WARN(kvt_stats_read(&store->stats, KVTREE_STAT_VALUE_BYTES) != audit->bytes,
	     "kvtree: %s: value_bytes is not %llu\n", store->name, audit->bytes);
	WARN(waiting, "kvtree: %s: %lld bytes of garbage were never freed\n", store->name,
	     waiting);
}
