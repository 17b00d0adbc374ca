/* SPDX-License-Identifier: GPL-2.0 */
/* What is done with a subject, and what came out. */
#ifndef KVT_BENCH_PHASE_H
#define KVT_BENCH_PHASE_H

#include "keygen.h"
#include "subject.h"

enum phase {
	PHASE_INSERT,		/* all keys, into nothing */
	PHASE_GET,
	PHASE_BATCH,		/* gets, 32 at once */
	PHASE_SCAN,		/* 100 keys from a random one on; counts keys */
	PHASE_NR
};

extern const char *const phase_names[PHASE_NR];

struct request {
	enum phase phase;
	enum bench_keys keys;
	uint64_t nr_keys;
	uint64_t nr_ops;
	uint64_t seed;
};

struct answer {
	bool done;		/* false: the subject has no such thing */
	bool wrong;		/* not all was there that had to be */
	uint64_t ops;
	uint64_t cpu_ns;	/* of the thread */
	uint64_t wall_ns;
	struct bench_memory memory;	/* after an insert */
};

struct answer phase_run(const struct subject *s, const struct request *r);

#endif /* KVT_BENCH_PHASE_H */
