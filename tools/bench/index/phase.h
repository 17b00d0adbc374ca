/* SPDX-License-Identifier: GPL-2.0 */
/* Phases of a subject, and their results. */
#ifndef KVT_BENCH_PHASE_H
#define KVT_BENCH_PHASE_H

#include "counters.h"
#include "subject.h"

#define THREADS_MAX	64

enum phase {
	PHASE_INSERT,		/* all keys, into an empty map */
	PHASE_CHASE,		/* only for the subject "chase" */
	PHASE_GET,
	PHASE_BATCH,		/* gets, 32 at once */
	PHASE_PUT,		/* updates; where there are batches of them */
	PHASE_PUT_BATCH,	/* ... 32 at once */
	PHASE_SCAN_100,		/* 100 keys from a random key on; counts keys */
	PHASE_SCAN,		/* 1 to 100 */
	PHASE_MIX,		/* a get or an update, chosen by Zipf */
	PHASE_CHURN,		/* insert a key, remove the oldest; counts both */
	PHASE_COLS_A,		/* 50 % gets of all columns, 50 % puts of one */
	PHASE_COLS_B,		/* 95 %, 5 % */
	PHASE_COLS_C,		/* gets only */
	PHASE_SYNTHETIC,	/* 5 gets per put; every other put is of a new key */
	PHASE_GAMERS,		/* 7.5 gets per update */
	PHASE_CHUNKS,		/* 2.2 gets per put, as above */
	PHASE_COLS_E,		/* 95 % scans of 1 to 100 keys, a column of each; 5 % puts */
	PHASE_NR
};

struct request {
	enum phase phase;
	unsigned int threads;
	uint64_t nr_ops;
	uint64_t seed;
};

struct answer {
	bool done;		/* false: the subject does not support it */
	bool wrong;		/* a wrong result was found */
	uint64_t found;		/* a sum over the results: the same for all subjects */
	uint64_t ops;
	/* Of the process, including helper threads of the subject. */
	uint64_t cpu_ns;
	uint64_t wall_ns;
	struct bench_memory memory;	/* after an insert */
	struct bench_swaps swaps;
	struct bench_counts counts;
};

/* Call it once, after fork: starts @threads workers. */
void phase_init(const struct subject *s, const struct bench_config *config, unsigned int threads);
struct answer phase_run(const struct request *r);

#endif /* KVT_BENCH_PHASE_H */
