// SPDX-License-Identifier: GPL-2.0
/*
 * Memory for tests: an allocation of the C library for each object, of exactly
 * its size, so that the sanitizers know where it ends and when it is free.
 */
#include <stdio.h>
#include <stdlib.h>
#include <linux/atomic.h>
#include <linux/sched.h>
#include <linux/slab.h>

struct kmem_cache {
	const char *name;
	size_t size;
	size_t align;
	atomic_long_t objects;
};

static atomic_long_t objects;

/* The task's n-th allocation fails, if it asked for that. */
static bool fails(gfp_t gfp)
{
	if (gfpflags_allow_blocking(gfp))
		might_sleep();
	return !(gfp & __GFP_NOFAIL) && current->fail_nth && !--current->fail_nth;
}

static void *alloc(size_t size, size_t align, gfp_t gfp)
{
	void *p;

	if (fails(gfp))
		return NULL;
	p = align ? aligned_alloc(align, size) : malloc(size);
	BUG_ON(!p);
	atomic_long_inc(&objects);
	/* What is not cleared is to be noticed. */
	memset(p, gfp & __GFP_ZERO ? 0 : 0xa5, size);
	return p;
}

void *kmalloc(size_t size, gfp_t gfp)
{
	return alloc(size, 0, gfp);
}

void kfree(const void *p)
{
	if (!p)
		return;
	atomic_long_dec(&objects);
	free((void *)p);
}

long shim_objects(void)
{
	return atomic_long_read(&objects);
}

/* Sizes of which the kernel has caches: powers of two, and two between them. */
size_t kmalloc_size_roundup(size_t size)
{
	size_t to = 8;

	while (to < size)
		to *= 2;
	if (size <= 96 && size > 64)
		return 96;
	return size <= 192 && size > 128 ? 192 : to;
}

struct kmem_cache *kmem_cache_create(const char *name, unsigned int size, unsigned int align,
				     unsigned int flags, void (*ctor)(void *object))
{
	struct kmem_cache *cache = calloc(1, sizeof(*cache));

	if (!cache)
		return NULL;
	cache->name = name;
	cache->size = ALIGN(size, align);
	cache->align = align;
	return cache;
}

void kmem_cache_destroy(struct kmem_cache *cache)
{
	if (!cache)
		return;
	if (atomic_long_read(&cache->objects)) {
		fprintf(stderr, "%s: %ld objects are left\n", cache->name,
			atomic_long_read(&cache->objects));
		BUG();
	}
	free(cache);
}

void *kmem_cache_alloc(struct kmem_cache *cache, gfp_t gfp)
{
	void *object = alloc(cache->size, cache->align, gfp);

	if (object)
		atomic_long_inc(&cache->objects);
	return object;
}

void kmem_cache_free(struct kmem_cache *cache, void *object)
{
	atomic_long_dec(&cache->objects);
	kfree(object);
}
