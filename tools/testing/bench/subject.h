/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What is measured.  Keys are bytes, values 8 bytes.  One subject per process,
 * one thread.
 */
#ifndef KVT_BENCH_SUBJECT_H
#define KVT_BENCH_SUBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BATCH	32

struct bench_key_ref {
	const uint8_t *data;
	uint32_t len;
};

/* What it takes, by kind; what a subject cannot tell is 0. */
struct bench_memory {
	uint64_t nodes;
	uint64_t values;
	uint64_t slack;		/* taken and not in use */
	uint64_t all;
};

struct subject {
	const char *name;
	bool small_pages;
	/* In its own process: once, then fill and clear in turn. */
	void (*init)(const struct subject *s);
	void (*clear)(void);
	void (*insert)(struct bench_key_ref key, uint64_t value);
	/* What was inserted becomes visible, if it is not yet. */
	void (*inserted)(void);
	/* Copies the value, and a version if there is one.  Returns whether there is the key. */
	bool (*get)(struct bench_key_ref key, uint64_t *value);
	/* Returns how many of the BATCH keys there are; NULL: not that way. */
	unsigned int (*get_batch)(const struct bench_key_ref *keys, uint64_t *values);
	/* Copies up to @nr keys and values from @key on.  Returns how many. */
	unsigned int (*scan)(struct bench_key_ref key, unsigned int nr);
	void (*memory)(struct bench_memory *memory);
	/* Now and then, between operations; may be NULL. */
	void (*pause)(void);
	/* Before and after a wait for the driver. */
	void (*idle)(bool idle);
};

extern const struct subject subject_kvtree, subject_kvtree_4k, subject_lmdb;

#endif /* KVT_BENCH_SUBJECT_H */
