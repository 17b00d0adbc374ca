// SPDX-License-Identifier: GPL-2.0
/* Buffers that are kept: see pool.h. */
#include <stdbool.h>
#include <stddef.h>
#include "pool.h"

#undef calloc
#undef free

#define LARGE	(256u << 10)
#define SLOTS	16

static struct {
	void *memory;
	size_t size;
	bool used;
} slots[SLOTS];

void *fmt_pool_alloc(size_t nr, size_t size)
{
	void *memory;
	size_t i;

	size *= nr;
	for (i = 0; size >= LARGE && i < SLOTS; i++) {
		if (!slots[i].used && slots[i].size == size) {
			slots[i].used = true;
			return slots[i].memory;
		}
	}
	memory = calloc(1, size);
	for (i = 0; memory && size >= LARGE && i < SLOTS; i++) {
		if (!slots[i].memory) {
			slots[i].memory = memory;
			slots[i].size = size;
			slots[i].used = true;
			break;
		}
	}
	return memory;
}

void fmt_pool_free(void *p)
{
	size_t i;

	for (i = 0; p && i < SLOTS; i++) {
		if (slots[i].memory == p) {
			slots[i].used = false;
			return;
		}
	}
	free(p);
}
