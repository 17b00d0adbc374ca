/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Bytes become calls of the module by two threads, with memory that is absent, is unmapped
 * meanwhile, or is changed by the other thread; allocations and disks fail.  libFuzzer makes
 * the bytes, and KCOV shows it what they reach in the module.
 */
#ifndef KVT_FUZZ_H
#define KVT_FUZZ_H

#include <stdbool.h>

#include "lib/kvt_test.h"

/* The rest of the input, with zeros after its end. */
struct input {
	const unsigned char *at;
	size_t left;
};

__u64 input_take(struct input *in, unsigned int bytes);
/* Below @n, which is at most 65536. */
unsigned int input_below(struct input *in, unsigned int n);
/* Small ones, those at limits, and any. */
__u64 input_number(struct input *in);
void input_fill(struct input *in, void *to, size_t len);

/* Memory that calls point to.  Nothing after each part is accessible. */
#define SHARED_BYTES	(16 * 4096)	/* of both threads */
#define OWN_BYTES	(4 * 4096)	/* of one, which comes and goes */

void arena_make(void);
/* At least @len bytes that are the thread's to fill in, for a structure of a call. */
void *arena_struct(unsigned int thread, size_t len);
/* Operations of a batch.  If it announces more of them, nothing after these is accessible. */
#define ARENA_BATCH	6

struct kvtree_op *arena_batch(unsigned int thread);
__u64 arena_pointer(struct input *in, unsigned int thread);
/* Replace words that would be addresses of the fuzzer itself by unmapped ones. */
void arena_tame(void *at, size_t len);
/* Write to the shared memory, or have a thread's own pages go or be protected. */
void arena_poke(struct input *in);
void arena_vanish(struct input *in, unsigned int thread);

/* Sessions, by small numbers; 0 is on the default store. */
#define SESSIONS	6

int session_take(struct input *in);
void session_give(int fd);
void session_close(struct input *in);
void sessions_begin(void);
/* Remove everything that the calls have made. */
void sessions_end(void);

/* Stores' names; the last ones are those of stores on disks. */
#define NAMES		4

const char *name_take(struct input *in);

void disks_make(void);
/* Bytes of a disk, while it is not open. */
void disks_damage(struct input *in);
/* Requests to the disks that fail. */
void disks_fail(struct input *in);
/* No request fails any more; from time to time the disks are as they were made. */
void disks_end(void);
const char *disk_path(unsigned int n);

/* One call each. */
typedef void (*call_fn)(struct input *in, unsigned int thread);

void op_fill(struct input *in, unsigned int thread, struct kvtree_op *op);
void call_op(struct input *in, unsigned int thread);
void call_batch(struct input *in, unsigned int thread);
void call_store(struct input *in, unsigned int thread);
void call_attach(struct input *in, unsigned int thread);
void call_tell(struct input *in, unsigned int thread);
void call_raw(struct input *in, unsigned int thread);
void call_file(struct input *in, unsigned int thread);
void call_ring(struct input *in, unsigned int thread);

void rings_end(void);

/* Result of a call that may be anything that is documented; ends the process if not. */
void result_is_documented(int result);

/* The places that a thread reaches in the module. */
void cover_make(void);
void cover_begin(unsigned int thread);
void cover_end(unsigned int thread);

#endif /* KVT_FUZZ_H */
