/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Whether a restored state is one that a crash may leave.
 *
 * Versions order the changes of a key.  The value found under the key shows which of them
 * have taken place: those up to its version.  The changes of all keys together are a state
 * of the store if there is a moment, in the order in which operations began and returned,
 * such that no operation that returned before it is missing, and none that began after it
 * is there.  This is the case if and only if the operations have an order that no client
 * has seen violated (any two that did not overlap are in the order of their execution),
 * and the state contains exactly a prefix of it.
 *
 * The moment must come after everything that was promised: no change that returned as
 * durable is missing, and every SYNC that returned began before it.
 */
#ifndef CRASH_JUDGE_H
#define CRASH_JUDGE_H

#include "oracle.h"
#include "recover.h"

struct crash_history;

/* The promises made before the crash. */
struct crash_promise {
	uint32_t least[CRASH_KEYS];	/* changes of a key that are durable */
	uint64_t synced;		/* a moment: all that returned before is durable */
	uint64_t now;			/* a moment before the crash */
	uint64_t epoch;			/* of the module, durable */
};

/* NULL if the workload itself has seen an error; @text describes it. */
struct crash_history *crash_history_new(const struct crash_oracle *oracle, char *text,
					size_t len);
void crash_history_free(struct crash_history *history);
/* An operation has returned and was told that it is durable. */
void crash_promise_ack(const struct crash_history *history, struct crash_promise *promise,
		       uint64_t op);
/* Everything that the oracle has. */
void crash_promise_all(const struct crash_history *history, struct crash_promise *promise);
/* The highest version that a client may have seen. */
uint64_t crash_version_seen(const struct crash_history *history,
			    const struct crash_promise *promise);
/* Whether the state may be: if not, why, in @text. */
bool crash_judge(const struct crash_history *history, const struct crash_promise *promise,
		 const struct crash_state *state, char *text, size_t len);

#endif /* CRASH_JUDGE_H */
