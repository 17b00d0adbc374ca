/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Whether what was restored is what a crash may leave.
 *
 * The changes of a key are in a row: by their versions.  What is found under the key
 * says which of them have taken place (those up to it) and which have not.  The changes
 * of all keys together are a state of the store if there is a moment, in the order in
 * which the operations began and returned, such that none that had returned before it
 * is missing, and none is there that began after it.  This is exactly when the
 * operations can be put into an order that nobody has seen to be wrong, and of which
 * the state has a first part: any two that did not overlap stand in their order in it.
 *
 * The moment has to be behind all that was promised: a change that returned as durable
 * is not missing, and a SYNC that returned began before it.
 */
#ifndef CRASH_JUDGE_H
#define CRASH_JUDGE_H

#include "oracle.h"
#include "recover.h"

struct crash_history;

/* What was promised up to the moment of the crash. */
struct crash_promise {
	uint32_t least[CRASH_KEYS];	/* changes of a key that are durable */
	uint64_t synced;		/* a moment: all that returned before is durable */
	uint64_t now;			/* a moment before the crash */
	uint64_t epoch;			/* of the module, durable */
};

/* NULL, and what is wrong in @text: the workload itself has seen what must not be. */
struct crash_history *crash_history_new(const struct crash_oracle *oracle, char *text,
					size_t len);
void crash_history_free(struct crash_history *history);
/* An operation has returned and was told that it is durable. */
void crash_promise_ack(const struct crash_history *history, struct crash_promise *promise,
		       uint64_t op);
/* Everything that the oracle has. */
void crash_promise_all(const struct crash_history *history, struct crash_promise *promise);
/* The highest version that somebody may have seen. */
uint64_t crash_version_seen(const struct crash_history *history,
			    const struct crash_promise *promise);
/* Whether the state may be: if not, why, in @text. */
bool crash_judge(const struct crash_history *history, const struct crash_promise *promise,
		 const struct crash_state *state, char *text, size_t len);

#endif /* CRASH_JUDGE_H */
