/* SPDX-License-Identifier: GPL-2.0 */
/* The outcome of a recovery of damaged disks. */
#ifndef FORMAT_DAMAGE_H
#define FORMAT_DAMAGE_H

#include "map.h"
#include "state.h"

enum fmt_outcome {
	FMT_DETECTED,
	FMT_SAME,	/* nothing is read there, or the other copy holds */
	/*
	 * Something of the epoch that was the last one when the machine crashed is not as
	 * it was written: the same as if the crash had come earlier.
	 */
	FMT_DROPPED,
	FMT_WRONG,
	FMT_OUTCOMES
};

/* Disks, and what a recovery restores from them while they are undamaged. */
struct fmt_subject {
	struct fmt_disks disks;
	struct fmt_map map;
	struct fmt_state state;
	u64 until;			/* an earlier epoch that can be asked for; 0: none */
	struct fmt_state earlier;	/* ... as it is restored */
	/* Without the last epoch that was begun, and the last two, if a life has no end. */
	struct fmt_state before[2];
	struct fmt_state now;		/* of the last try */
};

void fmt_subject_open(struct fmt_subject *subject, char *const *paths, u32 nr);
/* The same of disks that exist; they are the subject's then. */
void fmt_subject_take(struct fmt_subject *subject, const struct fmt_disks *disks);
void fmt_subject_close(struct fmt_subject *subject);
/*
 * Recover, judge, and take the damage back.  Where two blocks are damaged, two epochs may
 * be dropped.
 */
enum fmt_outcome fmt_subject_try(struct fmt_subject *subject, u32 blocks);

#endif /* FORMAT_DAMAGE_H */
