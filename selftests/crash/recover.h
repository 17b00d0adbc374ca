/* SPDX-License-Identifier: GPL-2.0 */
/* Recovery in a program, by the module's own source. */
#ifndef CRASH_RECOVER_H
#define CRASH_RECOVER_H

#include "image.h"
#include "oracle.h"

/* The contents of a store. */
struct crash_state {
	struct crash_value value[CRASH_KEYS];
	int error;		/* nothing was restored: a negative errno */
	char text[400];		/* messages of the recovery, or the fault of a value */
	bool wrong;		/* a value that no operation has put */
	uint64_t epoch;
	uint64_t seen;
	uint64_t lease;
	uint64_t records;
	uint32_t lives;		/* in the superblock */
};

void crash_recover(const struct crash_image *image, struct crash_state *state);
/* A column as it was read; false, and what is wrong in the state. */
bool crash_state_column(struct crash_state *state, uint32_t key, uint16_t id,
			const void *data, uint32_t len);

#endif /* CRASH_RECOVER_H */
