// SPDX-License-Identifier: GPL-2.0
/*
 * Memory for the benchmark: slabs like the kernel's, in one piece of address space that
 * consists of huge or of small pages.
 *
 * A slab holds objects of one cache; its metadata is in a table outside of the arena.  Each
 * thread has a list of free objects per cache, and returns some to their slabs when the list
 * grows long.  It takes all free objects of a slab at once, and an empty slab can be reused by
 * any cache, so that objects allocated in sequence are adjacent, whatever was freed before in
 * which order.
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <linux/bug.h>
#include <linux/kernel.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include "arena.h"

/* Bytes of address space; a debugger may have less. */
#define ARENA_MAX	(64ull << 30)
#define SLAB_SIZE	(64ull << 10)
#define NR_SLABS	(ARENA_MAX / SLAB_SIZE)
#define HUGE_SIZE	(2ull << 20)
#define MAX_CACHES	24
/* Free objects that a thread keeps, and that it returns at once. */
#define KEEP		256
#define GIVE		128

struct object {
	struct object *next;
};

struct slab {
	struct kmem_cache *cache;
	struct object *free;
	unsigned int nr_free;
	/* On the cache's list of slabs with free objects, or on the list of empty slabs. */
	struct slab *next, **link;
};

struct kmem_cache {
	const char *name;
	size_t size;
	unsigned int nr;
	unsigned int per_slab;
	pthread_mutex_t lock;
	struct slab *partial;
};

/* A thread's objects of a cache. */
struct stock {
	struct object *free;
	unsigned int nr;
	long live;		/* objects allocated minus objects freed, by this thread */
	/* The rest of a slab: objects that were freed or never used. */
	struct object *rest;
	char *fresh;
	char *fresh_end;
};

static struct kmem_cache caches[MAX_CACHES];
static unsigned int nr_caches;
static __thread struct stock stocks[MAX_CACHES];

static char *arena;
static u64 arena_size = ARENA_MAX;
static struct slab slabs[NR_SLABS];
static pthread_mutex_t slabs_lock = PTHREAD_MUTEX_INITIALIZER;
static struct slab *empty;
static unsigned long slabs_taken;	/* from the arena; some may be empty */
static unsigned long slabs_used;
/* What is larger than any slab's objects. */
static unsigned long large_bytes;

/* The size classes of kmalloc(). */
static const u16 sizes[] = { 8, 16, 32, 64, 96, 128, 192, 256, 512, 1024, 2048, 4096, 8192 };
static struct kmem_cache *kmalloc_caches[ARRAY_SIZE(sizes)];
static u8 size_index[KMALLOC_MAX_CACHE_SIZE / 8 + 1];

void arena_init(bool huge)
{
	unsigned int i, n = 0;
	char *p;

	while (p = mmap(NULL, arena_size + HUGE_SIZE, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0), p == MAP_FAILED) {
		BUG_ON(arena_size < HUGE_SIZE);
		arena_size /= 2;
	}
	arena = (char *)ALIGN((unsigned long)p, HUGE_SIZE);
	BUG_ON(madvise(arena, arena_size, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE));
	for (i = 0; i < ARRAY_SIZE(sizes); i++)
		kmalloc_caches[i] = kmem_cache_create("kmalloc", sizes[i], 8, 0, NULL);
	for (i = 0; i < ARRAY_SIZE(size_index); i++) {
		if (8 * i > sizes[n])
			n++;
		size_index[i] = n;
	}
}

unsigned long arena_bytes(void)
{
	return slabs_used * SLAB_SIZE + __atomic_load_n(&large_bytes, __ATOMIC_RELAXED);
}

/* Counts this thread: the benchmark fills with one. */
unsigned long arena_live_bytes(void)
{
	unsigned long bytes = 0;
	unsigned int i;

	for (i = 0; i < nr_caches; i++)
		bytes += stocks[i].live * caches[i].size;
	return bytes;
}

struct kmem_cache *kmem_cache_create(const char *name, unsigned int size, unsigned int align,
				     unsigned int flags, void (*ctor)(void *object))
{
	struct kmem_cache *cache = &caches[nr_caches];

	BUG_ON(nr_caches == MAX_CACHES);
	cache->name = name;
	cache->size = ALIGN(size, align);
	cache->nr = nr_caches++;
	cache->per_slab = SLAB_SIZE / cache->size;
	pthread_mutex_init(&cache->lock, NULL);
	return cache;
}

void kmem_cache_destroy(struct kmem_cache *cache)
{
}

static void slab_link(struct slab *slab, struct slab **list)
{
	slab->next = *list;
	slab->link = list;
	if (slab->next)
		slab->next->link = &slab->next;
	WRITE_ONCE(*list, slab);
}

static void slab_unlink(struct slab *slab)
{
	WRITE_ONCE(*slab->link, slab->next);
	if (slab->next)
		slab->next->link = slab->link;
}

/* Take an empty slab. */
static void take_empty(struct kmem_cache *cache, struct stock *stock)
{
	struct slab *slab;

	pthread_mutex_lock(&slabs_lock);
	slab = empty;
	if (slab)
		slab_unlink(slab);
	else
		slab = &slabs[slabs_taken++];
	slabs_used++;
	pthread_mutex_unlock(&slabs_lock);
	BUG_ON(slab == &slabs[arena_size / SLAB_SIZE]);
	slab->cache = cache;
	stock->fresh = arena + (slab - slabs) * SLAB_SIZE;
	stock->fresh_end = stock->fresh + cache->per_slab * cache->size;
}

/* Take the free objects of a slab that is partly used. */
static bool take_partial(struct kmem_cache *cache, struct stock *stock)
{
	struct slab *slab;

	if (!READ_ONCE(cache->partial))
		return false;
	pthread_mutex_lock(&cache->lock);
	slab = cache->partial;
	if (slab) {
		slab_unlink(slab);
		stock->rest = slab->free;
		slab->free = NULL;
		slab->nr_free = 0;
	}
	pthread_mutex_unlock(&cache->lock);
	return slab;
}

static struct slab *slab_of(const void *p)
{
	return &slabs[((const char *)p - arena) / SLAB_SIZE];
}

static void give_one(struct kmem_cache *cache, struct object *object)
{
	struct slab *slab = slab_of(object);

	object->next = slab->free;
	slab->free = object;
	if (!slab->nr_free++)
		slab_link(slab, &cache->partial);
	if (slab->nr_free < cache->per_slab)
		return;
	slab_unlink(slab);
	slab->free = NULL;
	slab->nr_free = 0;
	pthread_mutex_lock(&slabs_lock);
	slab_link(slab, &empty);
	slabs_used--;
	pthread_mutex_unlock(&slabs_lock);
}

static void give(struct kmem_cache *cache, struct stock *stock)
{
	struct object *object;
	unsigned int i;

	pthread_mutex_lock(&cache->lock);
	for (i = 0; i < GIVE; i++) {
		object = stock->free;
		stock->free = object->next;
		give_one(cache, object);
	}
	pthread_mutex_unlock(&cache->lock);
	stock->nr -= GIVE;
}

static noinline void *alloc_slow(struct kmem_cache *cache, struct stock *stock)
{
	struct object *object;
	char *p;

	if (!stock->rest && stock->fresh == stock->fresh_end && !take_partial(cache, stock))
		take_empty(cache, stock);
	object = stock->rest;
	if (object) {
		stock->rest = object->next;
		return object;
	}
	p = stock->fresh;
	stock->fresh += cache->size;
	return p;
}

void *kmem_cache_alloc(struct kmem_cache *cache, gfp_t gfp)
{
	struct stock *stock = &stocks[cache->nr];
	void *p = stock->free;

	stock->live++;
	if (likely(p)) {
		stock->free = stock->free->next;
		stock->nr--;
	} else {
		p = alloc_slow(cache, stock);
	}
	if (gfp & __GFP_ZERO)
		memset(p, 0, cache->size);
	return p;
}

void kmem_cache_free(struct kmem_cache *cache, void *p)
{
	struct stock *stock = &stocks[cache->nr];
	struct object *object = p;

	stock->live--;
	object->next = stock->free;
	stock->free = object;
	if (++stock->nr == KEEP)
		give(cache, stock);
}

size_t kmalloc_size_roundup(size_t size)
{
	return sizes[size_index[(size + 7) / 8]];
}

void *kmalloc(size_t size, gfp_t gfp)
{
	void *p;

	if (size <= KMALLOC_MAX_CACHE_SIZE)
		return kmem_cache_alloc(kmalloc_caches[size_index[(size + 7) / 8]], gfp);
	p = gfp & __GFP_ZERO ? calloc(1, size) : malloc(size);
	__atomic_add_fetch(&large_bytes, malloc_usable_size(p), __ATOMIC_RELAXED);
	return p;
}

void kfree(const void *p)
{
	unsigned long at = (const char *)p - arena;

	if (at < arena_size) {
		kmem_cache_free(slabs[at / SLAB_SIZE].cache, (void *)p);
	} else {
		__atomic_sub_fetch(&large_bytes, malloc_usable_size((void *)p), __ATOMIC_RELAXED);
		free((void *)p);
	}
}

void *alloc_pages_exact(size_t size, gfp_t gfp)
{
	return kmalloc(size, gfp);
}

void free_pages_exact(void *p, size_t size)
{
	kfree(p);
}

void *__vmalloc(size_t size, gfp_t gfp)
{
	return kmalloc(size, gfp);
}

bool is_vmalloc_addr(const void *p)
{
	return false;
}

void kvfree(const void *p)
{
	kfree(p);
}
