// SPDX-License-Identifier: GPL-2.0
/* Data per CPU: see linux/percpu.h. */
#include <sys/mman.h>
#include <linux/align.h>
#include <linux/bug.h>
#include <linux/percpu.h>
#include <linux/string.h>

#include "percpu.h"

/* Allocations are of whole granules, at the same place in every slot. */
#define GRANULE		64ul
#define GRANULES	(SHIM_SLOT_SIZE / GRANULE)

__thread unsigned long shim_slot_offset;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *base;
static u16 taken[GRANULES];	/* granules of the allocation that begins there */
static bool slots[SHIM_SLOTS];

#ifdef SHIM_ASAN
#include <sanitizer/lsan_interface.h>

/* What is found from there is not lost. */
static void tell_lsan(void)
{
	__lsan_register_root_region(base, SHIM_SLOTS * SHIM_SLOT_SIZE);
}
#else
static void tell_lsan(void) { }
#endif

static void make_base(void)
{
	base = mmap(NULL, SHIM_SLOTS * SHIM_SLOT_SIZE, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	BUG_ON(base == MAP_FAILED);
	tell_lsan();
}

/* The first @nr granules in a row that are free; GRANULES: there are none. */
static unsigned long find_room(unsigned long nr)
{
	unsigned long at = 0, from = 0;

	while (at < GRANULES && at - from < nr) {
		if (taken[at]) {
			at += taken[at];
			from = at;
		} else {
			at++;
		}
	}
	return at - from < nr ? GRANULES : from;
}

void *shim_percpu_alloc(size_t size)
{
	unsigned long nr = ALIGN(size, GRANULE) / GRANULE, at;
	unsigned int i;
	char *p = NULL;

	pthread_mutex_lock(&lock);
	if (!base)
		make_base();
	at = find_room(nr);
	if (at < GRANULES) {
		taken[at] = nr;
		p = base + at * GRANULE;
		for (i = 0; i < SHIM_SLOTS; i++)
			memset(p + i * SHIM_SLOT_SIZE, 0, nr * GRANULE);
	}
	pthread_mutex_unlock(&lock);
	return p;
}

void free_percpu(void *ptr)
{
	if (!ptr)
		return;
	pthread_mutex_lock(&lock);
	taken[((char *)ptr - base) / GRANULE] = 0;
	pthread_mutex_unlock(&lock);
}

int shim_slot_take(void)
{
	int slot = 0;

	pthread_mutex_lock(&lock);
	while (slot < SHIM_SLOTS && slots[slot])
		slot++;
	BUG_ON(slot == SHIM_SLOTS);
	slots[slot] = true;
	pthread_mutex_unlock(&lock);
	shim_slot_offset = slot * SHIM_SLOT_SIZE;
	return slot;
}

void shim_slot_give_back(int slot)
{
	pthread_mutex_lock(&lock);
	slots[slot] = false;
	pthread_mutex_unlock(&lock);
}
