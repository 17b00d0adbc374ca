// SPDX-License-Identifier: GPL-2.0
/*
 * Memory for tests: an allocation of the C library for each object, of exactly
 * its size, so that the sanitizers know where it ends and when it is free.  A
 * header before each object tells kfree() which allocator it came from.
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
	unsigned int flags;
	atomic_long_t objects;
};

enum kind {
	SLAB,				/* of a cache, or of kmalloc() */
	PAGES,
	VMALLOC,
};

struct head {
	void *mem;			/* the C library's allocation */
	struct kmem_cache *cache;	/* NULL: of kmalloc() */
	u32 takes;			/* bytes of the kernel's */
	u16 kind;
	bool accounted;
};

static atomic_long_t objects;
static atomic_long_t accounted;

/* Hide memory by AddressSanitizer, if there is one. */
#ifdef SHIM_ASAN
#include <sanitizer/asan_interface.h>
#define shim_hide(p, len)	ASAN_POISON_MEMORY_REGION(p, len)
#define shim_show(p, len)	ASAN_UNPOISON_MEMORY_REGION(p, len)
#else
#define shim_hide(p, len)	((void)(p), (void)(len))
#define shim_show(p, len)	((void)(p), (void)(len))
#endif

/*
 * A thread with preemption off may hold a node, or a place in a log, for which others
 * wait; and on PREEMPT_RT the slab's locks sleep.
 */
static void check_context(void)
{
	WARN_ON(current->preempt_count);
}

/* The task's n-th allocation fails, if it asked for that. */
static bool fails(gfp_t gfp)
{
	check_context();
	if (gfpflags_allow_blocking(gfp))
		might_sleep();
	/* The page allocator obeys one of them. */
	BUG_ON(gfp & __GFP_NOFAIL && gfp & (__GFP_RETRY_MAYFAIL | __GFP_NORETRY));
	return !(gfp & __GFP_NOFAIL) && current->fail_nth && !--current->fail_nth;
}

static void *alloc(struct head head, size_t size, size_t align, gfp_t gfp)
{
	/* As much as a head, and a multiple of the alignment. */
	size_t before = ALIGN(sizeof(struct head), align > 16 ? align : 16);
	struct kmem_cache *cache = head.cache;
	u8 *p;

	if (fails(gfp))
		return NULL;
	head.accounted = gfp & __GFP_ACCOUNT || (cache && cache->flags & SLAB_ACCOUNT);
	BUG_ON(posix_memalign(&head.mem, align > 16 ? align : 16, before + size));
	p = (u8 *)head.mem + before;
	memcpy(p - sizeof(head), &head, sizeof(head));
	shim_hide(head.mem, before);
	atomic_long_inc(&objects);
	if (cache)
		atomic_long_inc(&cache->objects);
	if (head.accounted)
		atomic_long_add(head.takes, &accounted);
	/* Make uses of uninitialised memory visible. */
	memset(p, gfp & __GFP_ZERO ? 0 : 0xa5, size);
	return p;
}

static struct head head_of(const void *p)
{
	const size_t len = sizeof(struct head);
	struct head head;

	shim_show((u8 *)p - len, len);
	memcpy(&head, (u8 *)p - len, len);
	shim_hide((u8 *)p - len, len);
	return head;
}

static void release(const void *p, struct head head)
{
	check_context();
	shim_show(head.mem, (u8 *)p - (u8 *)head.mem);
	atomic_long_dec(&objects);
	if (head.cache)
		atomic_long_dec(&head.cache->objects);
	if (head.accounted)
		atomic_long_sub(head.takes, &accounted);
	free(head.mem);
}

void *kmalloc(size_t size, gfp_t gfp)
{
	/* A power of two, where there is no cache.  Large ones begin on a cache line. */
	return alloc((struct head){ .takes = kmalloc_size_roundup(size) }, size,
		     size < SMP_CACHE_BYTES ? 0 : SMP_CACHE_BYTES, gfp);
}

void kfree(const void *p)
{
	struct head head;

	if (!p)
		return;
	head = head_of(p);
	BUG_ON(head.kind != SLAB);
	release(p, head);
}

void *alloc_pages_exact(size_t size, gfp_t gfp)
{
	return alloc((struct head){ .takes = PAGE_ALIGN(size), .kind = PAGES }, size,
		     SMP_CACHE_BYTES, gfp);
}

void free_pages_exact(void *p, size_t size)
{
	struct head head = head_of(p);

	BUG_ON(head.kind != PAGES || head.takes != PAGE_ALIGN(size));
	release(p, head);
}

void *__vmalloc(size_t size, gfp_t gfp)
{
	return alloc((struct head){ .takes = PAGE_ALIGN(size), .kind = VMALLOC }, size,
		     SMP_CACHE_BYTES, gfp);
}

bool is_vmalloc_addr(const void *p)
{
	return head_of(p).kind == VMALLOC;
}

void kvfree(const void *p)
{
	struct head head;

	if (!p)
		return;
	head = head_of(p);
	BUG_ON(head.kind == PAGES);
	release(p, head);
}

long shim_objects(void)
{
	return atomic_long_read(&objects);
}

long shim_accounted(void)
{
	return atomic_long_read(&accounted);
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
	cache->flags = flags;
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
	return alloc((struct head){ .cache = cache, .takes = cache->size }, cache->size,
		     cache->align, gfp);
}

void kmem_cache_free(struct kmem_cache *cache, void *object)
{
	kfree(object);
}
