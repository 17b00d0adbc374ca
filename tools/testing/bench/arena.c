// SPDX-License-Identifier: GPL-2.0
/*
 * Memory for the benchmark: slabs like the kernel's, side by side in one piece
 * of address space that is made of huge pages or of small ones.
 *
 * A slab holds objects of one cache and nothing else; what a pointer's slab
 * belongs to stands in a table beside the arena.  Each thread has a list of
 * free objects per cache, and gives some to a shared one when it grows long.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <linux/bug.h>
#include <linux/kernel.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include "arena.h"

#define ARENA_SIZE	(64ull << 30)
#define SLAB_SIZE	(64ull << 10)
#define NR_SLABS	(ARENA_SIZE / SLAB_SIZE)
#define HUGE_SIZE	(2ull << 20)
#define MAX_CACHES	24
/* Free objects that a thread keeps, and gives away at once. */
#define KEEP		256
#define GIVE		128

struct object {
	struct object *next;
};

struct kmem_cache {
	const char *name;
	size_t size;
	unsigned int nr;
	unsigned long slabs;
	pthread_mutex_t lock;
	struct object *free;
};

/* What a thread has of a cache. */
struct stock {
	struct object *free;
	unsigned int nr;
	long live;		/* objects allocated less those freed, by this thread */
	/* Never used. */
	char *fresh;
	char *fresh_end;
};

static struct kmem_cache caches[MAX_CACHES];
static unsigned int nr_caches;
static __thread struct stock stocks[MAX_CACHES];

static char *arena;
static unsigned long slabs_used;
static u8 slab_cache[NR_SLABS];

/* kmalloc() */
static const u16 sizes[] = { 8, 16, 32, 64, 96, 128, 192, 256, 512, 1024, 2048, 4096, 8192 };
static struct kmem_cache *kmalloc_caches[ARRAY_SIZE(sizes)];
static u8 size_index[KMALLOC_MAX_CACHE_SIZE / 8 + 1];

void arena_init(bool huge)
{
	unsigned int i, n = 0;
	char *p;

	p = mmap(NULL, ARENA_SIZE + HUGE_SIZE, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	BUG_ON(p == MAP_FAILED);
	arena = (char *)ALIGN((unsigned long)p, HUGE_SIZE);
	BUG_ON(madvise(arena, ARENA_SIZE, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE));
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
	return slabs_used * SLAB_SIZE;
}

/* By this thread: the benchmark fills with one. */
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
	pthread_mutex_init(&cache->lock, NULL);
	return cache;
}

void kmem_cache_destroy(struct kmem_cache *cache)
{
}

static void take_slab(struct kmem_cache *cache, struct stock *stock)
{
	unsigned long slab = __atomic_fetch_add(&slabs_used, 1, __ATOMIC_RELAXED);

	BUG_ON(slab == NR_SLABS);
	slab_cache[slab] = cache->nr;
	__atomic_fetch_add(&cache->slabs, 1, __ATOMIC_RELAXED);
	stock->fresh = arena + slab * SLAB_SIZE;
	stock->fresh_end = stock->fresh + SLAB_SIZE / cache->size * cache->size;
}

static bool take_shared(struct kmem_cache *cache, struct stock *stock)
{
	struct object *object;

	if (!READ_ONCE(cache->free))
		return false;
	pthread_mutex_lock(&cache->lock);
	while (stock->nr < GIVE && (object = cache->free)) {
		cache->free = object->next;
		object->next = stock->free;
		stock->free = object;
		stock->nr++;
	}
	pthread_mutex_unlock(&cache->lock);
	return stock->nr;
}

static void give(struct kmem_cache *cache, struct stock *stock)
{
	unsigned int i;

	pthread_mutex_lock(&cache->lock);
	for (i = 0; i < GIVE; i++) {
		struct object *object = stock->free;

		stock->free = object->next;
		object->next = cache->free;
		WRITE_ONCE(cache->free, object);
	}
	pthread_mutex_unlock(&cache->lock);
	stock->nr -= GIVE;
}

static noinline void *alloc_slow(struct kmem_cache *cache, struct stock *stock)
{
	char *p;

	if (stock->fresh == stock->fresh_end) {
		if (take_shared(cache, stock)) {
			p = (char *)stock->free;
			stock->free = stock->free->next;
			stock->nr--;
			return p;
		}
		take_slab(cache, stock);
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
	if (size <= KMALLOC_MAX_CACHE_SIZE)
		return kmem_cache_alloc(kmalloc_caches[size_index[(size + 7) / 8]], gfp);
	return gfp & __GFP_ZERO ? calloc(1, size) : malloc(size);
}

void kfree(const void *p)
{
	unsigned long at = (const char *)p - arena;

	if (at < ARENA_SIZE)
		kmem_cache_free(&caches[slab_cache[at / SLAB_SIZE]], (void *)p);
	else
		free((void *)p);
}
