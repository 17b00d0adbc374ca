/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Memory: for tests one allocation of the C library for each (slab.c), for the
 * benchmark slabs in huge pages (arena.c).
 */
#ifndef SHIM_SLAB_H
#define SHIM_SLAB_H

#include <linux/align.h>
#include <linux/gfp_types.h>
#include <linux/overflow.h>
#include <linux/string.h>

#define PAGE_SIZE		4096ul
#define PAGE_ALIGN(n)		ALIGN(n, PAGE_SIZE)
#define KMALLOC_MAX_CACHE_SIZE	(2 * PAGE_SIZE)

struct kmem_cache;

#define SLAB_HWCACHE_ALIGN	1u
#define SLAB_NO_MERGE		2u
#define SLAB_ACCOUNT		4u

struct kmem_cache *kmem_cache_create(const char *name, unsigned int size, unsigned int align,
				     unsigned int flags, void (*ctor)(void *object));
#define kmem_cache_create_usercopy(name, size, align, flags, at, len, ctor)	\
	kmem_cache_create(name, size, align, flags, ctor)
/* All objects must have been freed. */
void kmem_cache_destroy(struct kmem_cache *cache);
void *kmem_cache_alloc(struct kmem_cache *cache, gfp_t gfp);
void kmem_cache_free(struct kmem_cache *cache, void *object);

static inline void *kmem_cache_zalloc(struct kmem_cache *cache, gfp_t gfp)
{
	return kmem_cache_alloc(cache, gfp | __GFP_ZERO);
}

void *kmalloc(size_t size, gfp_t gfp);
/* Also for objects of a cache. */
void kfree(const void *p);

/* The bytes that the kernel allocates for @size, at most KMALLOC_MAX_CACHE_SIZE. */
size_t kmalloc_size_roundup(size_t size);

static inline void *kzalloc(size_t size, gfp_t gfp)
{
	return kmalloc(size, gfp | __GFP_ZERO);
}

/* Whole pages, freed each by its own function; or by kvfree(), which knows vmalloc(). */
void *alloc_pages_exact(size_t size, gfp_t gfp);
void free_pages_exact(void *p, size_t size);
void *__vmalloc(size_t size, gfp_t gfp);
bool is_vmalloc_addr(const void *p);
void kvfree(const void *p);

static inline void *kvmalloc(size_t size, gfp_t gfp)
{
	return kmalloc(size, gfp);
}

static inline void *kvzalloc(size_t size, gfp_t gfp)
{
	return kzalloc(size, gfp);
}

static inline void *kvcalloc(size_t nr, size_t size, gfp_t gfp)
{
	return kzalloc(nr * size, gfp);
}

static inline void *kmemdup(const void *from, size_t len, gfp_t gfp)
{
	void *p = kmalloc(len, gfp);

	if (p && len)
		memcpy(p, from, len);
	return p;
}

/* How many objects are allocated, of all kinds. */
long shim_objects(void);
/* Bytes that the kernel's allocators would use for the accounted allocations. */
long shim_accounted(void);

#endif /* SHIM_SLAB_H */
