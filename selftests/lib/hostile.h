/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Behaviour of hostile callers: foreign addresses, operations of random bytes, memory
 * that changes while the kernel uses it.
 */
#ifndef KVT_TEST_HOSTILE_H
#define KVT_TEST_HOSTILE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <linux/kvtree.h>

#include "kvt_test.h"

/* Addresses that are not the caller's, for something of a few bytes. */
#define KVT_NR_WILD	12
extern const __u64 kvt_wild[KVT_NR_WILD];

/*
 * An operation that works on a store with "k" and the number "n", and changes something if
 * it can: to be spoiled.
 */
struct kvtree_op kvt_good_op(int opcode);
/* Whether any operation may have this result. */
bool kvt_documented(int err);
/* The store can still be read from both ends, and they agree; it can be changed. */
void kvt_check_sound(int fd);

/*
 * Memory that random operations may point to.  Nothing after it is
 * accessible: whatever they write, they cannot damage the test.
 */
#define KVT_ARENA_PAGES	600

struct kvt_arena {
	unsigned char *mem;
	char *edge;
};

void kvt_arena_make(struct kvt_arena *a);
/* Structures in the arena, so that pointers into it find something to work on. */
void kvt_random_arena(struct kvt_rand *rand, struct kvt_arena *a);
__u64 kvt_random_pointer(struct kvt_rand *rand, struct kvt_arena *a);
/* Small ones, those at the limits, and any. */
__u64 kvt_random_number(struct kvt_rand *rand);
void kvt_random_bytes(struct kvt_rand *rand, void *to, size_t len);
void kvt_random_op(struct kvt_rand *rand, struct kvt_arena *a, struct kvtree_op *op);

/*
 * A child that keeps changing shared memory.  fn(arg) calls kvt_race_begin() and
 * continues until kvt_race_over().
 */
struct kvt_race {
	int stop;
	int started;
};

/* Returns the child's pid when it has begun. */
int kvt_race_start(struct kvt_race *race, int (*fn)(void *arg), void *arg);
void kvt_race_stop(struct kvt_race *race, int pid);
void kvt_race_begin(struct kvt_race *race);
bool kvt_race_over(const struct kvt_race *race);

/* A thread that takes memory away and gives it back, in one of the KVT_UNMAP_WAYS. */
#define KVT_UNMAP_WAYS	3

struct kvt_unmap {
	pthread_t thread;
	int stop;
	int how;
	char *mem;
	size_t bytes;
};

void kvt_unmap_start(struct kvt_unmap *u);
void kvt_unmap_stop(struct kvt_unmap *u);

/* A child that takes the pages of a file away, and gives them back as zeros. */
struct kvt_truncate {
	struct kvt_race race;
	int pid;
	int fd;
	char *mem;		/* the file, mapped */
	size_t bytes;
};

struct kvt_truncate *kvt_truncate_start(size_t bytes);
void kvt_truncate_stop(struct kvt_truncate *t);

/*
 * User-Mode Linux itself copies to page frame 0 when another CPU takes a page
 * away between two looks at its page table entry (do_op_one_page()).  There the
 * caller and the threads and children that it starts later take turns on one CPU.
 */
void kvt_stay_clear_of_uml_race(void);

#endif /* KVT_TEST_HOSTILE_H */
