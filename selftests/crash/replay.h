/* SPDX-License-Identifier: GPL-2.0 */
/* Replaying a record, along with the promises that were made during it. */
#ifndef CRASH_REPLAY_H
#define CRASH_REPLAY_H

#include "judge.h"

struct crash_replay {
	struct crash_record record;
	struct crash_oracle *oracle;
	struct crash_history *history;
	struct crash_image image;
	/* At the present moment. */
	struct crash_promise promise;
	bool formatted;
	uint32_t lives;		/* with a durable change, before the one with the workload */
	bool attached;
	bool detached;
	/* The life before, if the disks' caches have survived its crash; or NULL. */
	struct crash_replay *first;
	struct crash_entry entry;	/* the next one */
};

/* The disks began as the files @base, or empty. */
void crash_replay_open(struct crash_replay *r, const char *record, const char *oracle,
		       char *const *base);
/* As far as a flush in the second half, where there is something to be lost. */
void crash_replay_to_crash(struct crash_replay *r, uint64_t seed);
/*
 * The disks began as a crash of another life, which is followed to there, has left them: what
 * was not flushed then is in their caches, where this life has found it, and a crash takes it until
 * it is flushed.
 */
void crash_replay_follow(struct crash_replay *r, struct crash_replay *first);
/* As far as the next entry, which has not happened yet. */
bool crash_replay_next(struct crash_replay *r);
/* It happens. */
void crash_replay_step(struct crash_replay *r);
/* Whether the recovered state is valid at this moment. */
bool crash_replay_judge(struct crash_replay *r, const struct crash_state *state, char *text,
			size_t len);

/* A place in a record where a crash is made, and how. */
struct crash_point {
	uint64_t entry;
	enum crash_loss loss;
	uint64_t seed;
};

/*
 * Places: each flush three times, losing everything since the flush before it, losing one
 * write, and losing a random part; and @random more, anywhere.  In the order of the record.
 */
struct crash_point *crash_points(struct crash_record *record, bool flushes, uint32_t random,
				 uint64_t seed, uint32_t *nr);

#endif /* CRASH_REPLAY_H */
