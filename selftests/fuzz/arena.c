// SPDX-License-Identifier: GPL-2.0
/* Memory for the calls of a fuzzer. */
#include <string.h>
#include <sys/mman.h>

#include "fuzz.h"
#include "lib/hostile.h"

#define ARENA_FROM	0x100000000000ul
#define ARENA_BYTES	(1ul << 20)

static unsigned char *shared;
static unsigned char *own[2];
static unsigned char *structs[2];
static unsigned char *batches[2];

/*
 * All its pages are present, so that page faults of the fuzzer itself cannot fail.  It is far
 * from all other memory, so that pointers into it or near it never point to the fuzzer's own.
 */
static unsigned char *map(size_t bytes)
{
	static size_t used;
	unsigned char *at = (unsigned char *)(ARENA_FROM + used);

	KVT_CHECK(mmap(at, bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == at);
	memset(at, 1, bytes);
	/* Nothing is mapped after it. */
	used += bytes + 16 * 4096;
	KVT_CHECK(used <= ARENA_BYTES);
	return at;
}

void arena_tame(void *at, size_t len)
{
	__u64 word;

	for (; len >= sizeof(word); at = (char *)at + sizeof(word), len -= sizeof(word)) {
		memcpy(&word, at, sizeof(word));
		if (word < 4096 || word >> 47 ||
		    (word >= ARENA_FROM && word < ARENA_FROM + ARENA_BYTES))
			continue;
		word |= 1ull << 63;
		memcpy(at, &word, sizeof(word));
	}
}

void arena_make(void)
{
	int i;

	shared = map(SHARED_BYTES);
	for (i = 0; i < 2; i++) {
		own[i] = map(OWN_BYTES);
		structs[i] = map(2 * 4096);
		batches[i] = map(4096);
	}
}

/* At the very end, so that the kernel meets the edge if it reads too far. */
void *arena_struct(unsigned int thread, size_t len)
{
	unsigned char *at = structs[thread] + 2 * 4096 - len;

	memset(at, 0, len);
	return at;
}

struct kvtree_op *arena_batch(unsigned int thread)
{
	return (struct kvtree_op *)(batches[thread] + 4096) - ARENA_BATCH;
}

__u64 arena_pointer(struct input *in, unsigned int thread)
{
	unsigned int kind = input_below(in, 16), at = input_below(in, 65536);

	switch (kind) {
	case 0:
		return kvt_wild[at % KVT_NR_WILD];
	case 1:
		return 0;
	case 2:
		return kvt_ptr(shared + SHARED_BYTES) - at % 256;
	case 3:
	case 4:
	case 5:
		return kvt_ptr(own[thread]) + at % OWN_BYTES;
	default:
		/* A few places, so that calls and pokes meet. */
		return kvt_ptr(shared) + at % 32 * 64;
	}
}

void arena_poke(struct input *in)
{
	unsigned int at = input_below(in, 32) * 64;

	input_fill(in, shared + at, 1 + input_below(in, 64));
	arena_tame(shared + at, 64);
}

void arena_vanish(struct input *in, unsigned int thread)
{
	static const int protections[] = {
		PROT_READ | PROT_WRITE, PROT_READ, PROT_NONE, PROT_READ | PROT_WRITE,
	};
	unsigned char *at = own[thread] + 4096 * input_below(in, OWN_BYTES / 4096);
	unsigned int kind = input_below(in, 5);

	if (kind < 4)
		KVT_CHECK(mprotect(at, 4096, protections[kind]) == 0);
	else
		KVT_CHECK(madvise(at, 4096, MADV_DONTNEED) == 0);
}
