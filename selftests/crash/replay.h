/* SPDX-License-Identifier: GPL-2.0 */
/* A record, followed together with what was promised while it was made. */
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
	bool detached;
	struct crash_entry entry;	/* the next one */
};

/* The disks began as the files @base, or empty. */
void crash_replay_open(struct crash_replay *r, const char *record, const char *oracle,
		       char *const *base);
/* As far as the next entry, which has not happened yet. */
bool crash_replay_next(struct crash_replay *r);
/* It happens. */
void crash_replay_step(struct crash_replay *r);
/* Whether what was recovered at this moment may be. */
bool crash_replay_judge(struct crash_replay *r, const struct crash_state *state, char *text,
			size_t len);

/* A place in a record where a crash is made, and how. */
struct crash_point {
	uint64_t entry;
	enum crash_loss loss;
	uint64_t seed;
};

/*
 * Places: each flush three times, with everything behind the flush before it lost, with
 * one write lost, and with something else; and @random more, anywhere.  In the order
 * of the record.
 */
struct crash_point *crash_points(struct crash_record *record, bool flushes, uint32_t random,
				 uint64_t seed, uint32_t *nr);

#endif /* CRASH_REPLAY_H */
