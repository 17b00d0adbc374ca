/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Memory that limits count: what an allocation takes follows from its size.
 *
 *	bytes				come from			take
 *	up to KMALLOC_MAX_CACHE_SIZE	our caches or kmalloc()'s	an object
 *	more				adjacent pages or vmalloc()	whole pages
 *
 * kmalloc() itself would take a power of two for the large ones, up to twice what
 * was asked for.
 */
#ifndef KVT_BASE_MEM_H
#define KVT_BASE_MEM_H

#include <linux/gfp.h>
#include <linux/types.h>

struct mem_cgroup;

/* Whether a store's counters are compared with its contents when it is destroyed: see Kbuild. */
#ifdef KVT_TESTS
#define KVT_AUDITS	KVT_TESTS
#else
#define KVT_AUDITS	0
#endif

/*
 * How operations in process context allocate what a store keeps.  It is charged
 * to the store's creator, which must not be killed because of other writers: allocations
 * do not invoke the OOM killer, and the writer gets ENOMEM.
 */
#define KVT_GFP_PROCESS	(GFP_KERNEL | __GFP_RETRY_MAYFAIL)

/* ... and what an operation needs while it runs, charged to the caller. */
#define KVT_GFP_SCRATCH	(GFP_KERNEL_ACCOUNT | __GFP_NOWARN)

/* ... if it may not sleep: it fails with -EAGAIN, and is run again where it may. */
#define KVT_GFP_NOWAIT	(GFP_NOWAIT | __GFP_NOWARN)

/* Where memory comes from. */
struct kvt_mem {
	struct mem_cgroup *memcg;	/* charged for it; NULL: the caller's */
	gfp_t gfp;
};

int kvt_mem_init(void);
void kvt_mem_exit(void);

size_t kvt_mem_size(size_t size);
void *kvt_mem_alloc(const struct kvt_mem *mem, size_t size);
void *kvt_mem_pages(size_t size, gfp_t gfp);
void kvt_mem_free(void *p, size_t size);

#endif /* KVT_BASE_MEM_H */
