// SPDX-License-Identifier: GPL-2.0
/* Memory that limits count. */
#include <linux/gfp.h>
#include <linux/kernel.h>
#include <linux/kmemleak.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "compat.h"
#include "mem.h"

/* Sizes that kmalloc() would round up to 32, 64, 96 and 128. */
static const u8 mem_sizes[] = { 24, 40, 48, 56, 80, 112 };
static struct kmem_cache *mem_caches[ARRAY_SIZE(mem_sizes)];

/* By words of 8 bytes. */
static const u8 mem_index[] = {
	[24 / 8] = 1, [40 / 8] = 2, [48 / 8] = 3, [56 / 8] = 4,
	[72 / 8] = 5, [80 / 8] = 5, [104 / 8] = 6, [112 / 8] = 6,
};

/* The index of the cache to use, plus one; 0: kmalloc()'s. */
static unsigned int mem_cache_of(size_t size)
{
	size_t words = DIV_ROUND_UP(size, 8);

	return words < ARRAY_SIZE(mem_index) ? mem_index[words] : 0;
}

/**
 * kvt_mem_init() - create the caches of small sizes
 *
 * Their objects go to user space, and are freed with kfree().
 *
 * Return: 0 or -ENOMEM.
 */
int kvt_mem_init(void)
{
	char name[32];
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(mem_sizes); i++) {
		snprintf(name, sizeof(name), "kvt_value_%u", mem_sizes[i]);
		mem_caches[i] = kmem_cache_create_usercopy(name, mem_sizes[i], sizeof(u64),
							   SLAB_ACCOUNT | SLAB_NO_MERGE, 0,
							   mem_sizes[i], NULL);
		if (!mem_caches[i]) {
			kvt_mem_exit();
			return -ENOMEM;
		}
	}
	return 0;
}

/**
 * kvt_mem_exit() - destroy the caches, which must be empty
 */
void kvt_mem_exit(void)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(mem_sizes); i++) {
		kmem_cache_destroy(mem_caches[i]);
		mem_caches[i] = NULL;
	}
}

/**
 * kvt_mem_size() - what an allocation takes from the allocator
 * @size: bytes
 *
 * Context: any.
 *
 * Return: bytes, at least @size.
 */
size_t kvt_mem_size(size_t size)
{
	unsigned int i = mem_cache_of(size);

	if (i)
		return mem_sizes[i - 1];
	return size <= KMALLOC_MAX_CACHE_SIZE ? kmalloc_size_roundup(size) : PAGE_ALIGN(size);
}
KVT_EXPORT_FOR_TESTS(kvt_mem_size);

/**
 * kvt_mem_pages() - allocate whole pages
 * @size: bytes, more than KMALLOC_MAX_CACHE_SIZE
 * @gfp: how to allocate; adjacent pages are not worth waiting for
 *
 * Context: as @gfp says.
 *
 * Return: memory to be freed with kvt_mem_free(), or NULL.
 */
void *kvt_mem_pages(size_t size, gfp_t gfp)
{
	gfp_t easy = gfp & ~(__GFP_DIRECT_RECLAIM | __GFP_RETRY_MAYFAIL | __GFP_NOFAIL);
	void *p;

	p = alloc_pages_exact(size, easy | __GFP_NOWARN);
	if (p) {
		/* For audit.c: no allocator knows the size of such pages. */
		set_page_private(virt_to_page(p), PAGE_ALIGN(size));
		kmemleak_alloc(p, PAGE_ALIGN(size), 1, easy);
	} else if (gfpflags_allow_blocking(gfp)) {
		p = __vmalloc(size, gfp);
	}
	return p;
}
KVT_EXPORT(kvt_mem_pages);

/**
 * kvt_mem_alloc() - allocate memory that lives as long as a value
 * @mem: which cgroup is charged, and how to allocate
 * @size: bytes
 *
 * Context: as @mem->gfp says.
 *
 * Return: memory to be freed with kvt_mem_free(), not cleared, or NULL.
 */
void *kvt_mem_alloc(const struct kvt_mem *mem, size_t size)
{
	gfp_t gfp = mem->gfp | __GFP_ACCOUNT | __GFP_NOWARN;
	struct mem_cgroup *memcg = set_active_memcg(mem->memcg);
	unsigned int i = mem_cache_of(size);
	void *p;

	if (i) {
		p = kmem_cache_alloc(mem_caches[i - 1], gfp);
	} else if (size <= PAGE_SIZE) {
		p = kmalloc(size, gfp);
	} else if (size <= KMALLOC_MAX_CACHE_SIZE) {
		/* Like kvmalloc(), which would try hard for adjacent pages. */
		p = kmalloc(size, (gfp & ~__GFP_RETRY_MAYFAIL) | __GFP_NORETRY);
		if (!p && gfpflags_allow_blocking(gfp))
			p = __vmalloc(size, gfp);
	} else {
		p = kvt_mem_pages(size, gfp);
	}
	set_active_memcg(memcg);
	return p;
}
KVT_EXPORT_FOR_TESTS(kvt_mem_alloc);

/**
 * kvt_mem_free() - free memory
 * @p: of kvt_mem_alloc() or kvt_mem_pages(), or NULL
 * @size: bytes asked for, or kvt_mem_size() of them
 *
 * Context: any but NMI.
 */
void kvt_mem_free(void *p, size_t size)
{
	if (!p || size <= KMALLOC_MAX_CACHE_SIZE || is_vmalloc_addr(p)) {
		kvfree(p);
		return;
	}
	kmemleak_free(p);
	free_pages_exact(p, size);
}
KVT_EXPORT(kvt_mem_free);
