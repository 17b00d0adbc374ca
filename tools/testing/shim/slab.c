// SPDX-License-Identifier: GPL-2.0
/*
 * Memory for tests: an allocation of the C library for each object, of exactly
 * its size, so that the sanitizers know where it ends and when it is free.  What
 * stands before an object tells kfree() whose it is.
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <linux/atomic.h>
#include <linux/cache.h>
#include <linux/sched.h>
#include <linux/slab.h>

struct kmem_cache {
	const char *name;
	size_t size;
	size_t align;
	atomic_long_t objects;
};

struct head {
	void *mem;			/* what the C library gave */
	struct kmem_cache *cache;	/* NULL: of kmalloc() */
};

static atomic_long_t objects;

/* From AddressSanitizer, if there is one: nobody may look there. */
#ifdef SHIM_ASAN
#include <sanitizer/asan_interface.h>
#define shim_hide(p, len)	ASAN_POISON_MEMORY_REGION(p, len)
#define shim_show(p, len)	ASAN_UNPOISON_MEMORY_REGION(p, len)
#else
#define shim_hide(p, len)	((void)(p), (void)(len))
#define shim_show(p, len)	((void)(p), (void)(len))
#endif

/* The task's n-th allocation fails, if it asked for that. */
static bool fails(gfp_t gfp)
{
	if (gfpflags_allow_blocking(gfp))
		might_sleep();
	return !(gfp & __GFP_NOFAIL) && current->fail_nth && !--current->fail_nth;
}

static void *alloc(struct kmem_cache *cache, size_t size, size_t align, gfp_t gfp)
{
	size_t before = align > sizeof(struct head) ? align : sizeof(struct head);
	struct head head = { .cache = cache };
	u8 *p;

	if (fails(gfp))
		return NULL;
	BUG_ON(posix_memalign(&head.mem, before, before + size));
	p = (u8 *)head.mem + before;
	memcpy(p - sizeof(head), &head, sizeof(head));
	shim_hide(head.mem, before);
	atomic_long_inc(&objects);
	if (cache)
		atomic_long_inc(&cache->objects);
	/* What is not cleared is to be noticed. */
	memset(p, gfp & __GFP_ZERO ? 0 : 0xa5, size);
	return p;
}

void *kmalloc(size_t size, gfp_t gfp)
{
	/* Large ones begin on a cache line. */
	return alloc(NULL, size, size < SMP_CACHE_BYTES ? 0 : SMP_CACHE_BYTES, gfp);
}

void kfree(const void *p)
{
	const size_t len = sizeof(struct head);
	struct head head;

	if (!p)
		return;
	shim_show((u8 *)p - len, len);
	memcpy(&head, (u8 *)p - len, len);
	shim_show(head.mem, (u8 *)p - (u8 *)head.mem);
	atomic_long_dec(&objects);
	if (head.cache)
		atomic_long_dec(&head.cache->objects);
	free(head.mem);
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
	return alloc(cache, cache->size, cache->align, gfp);
}

void kmem_cache_free(struct kmem_cache *cache, void *object)
{
	kfree(object);
}
