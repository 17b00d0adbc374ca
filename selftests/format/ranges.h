/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Disks with ranges of a random history: keys are put and removed, ranges are written as bases
 * or deltas, split and joined.
 */
#ifndef FORMAT_RANGES_H
#define FORMAT_RANGES_H

#include "state.h"

/* What may be wrong with them, although all checksums are right. */
enum fmt_fault {
	FMT_SOUND,
	/* Of a piece in the directory. */
	FMT_FIRST_IS_DELTA,
	FMT_SECOND_IS_BASE,
	FMT_NO_SUCH_DEVICE,
	FMT_NO_SUCH_SEGMENT,
	FMT_IN_THE_HEADER,
	FMT_BEHIND_THE_SEGMENT,
	FMT_NOT_ALIGNED,
	FMT_TOO_LONG,
	FMT_COLUMNS_IN_RECORDS,
	FMT_COLUMNS_TOO_LONG,
	FMT_UNKNOWN_FLAG,
	FMT_NO_COVER_BITS,
	FMT_TOO_MANY_COVER_BITS,
	FMT_COVER_BITS_OF_BASE,
	FMT_OTHER_GENERATION,
	FMT_OTHER_CHUNK,
	FMT_ONE_RECORD_LESS,
	/* Of the directory. */
	FMT_RANGE_TWICE,
	FMT_NO_FIRST_RANGE,
	FMT_TOO_MANY_PIECES,
	FMT_HALF_A_PIECE,
	FMT_RANGE_WITH_COLUMNS,
	FMT_VALUE_IN_DIRECTORY,
	/* Of what is in a piece. */
	FMT_NO_COVER,
	FMT_COVER_IN_BASE,
	FMT_COVER_TWICE,
	FMT_COVER_WITH_KEY,
	FMT_COVER_NOT_ASCENDING,
	FMT_COVER_TOO_HIGH,
	FMT_COVER_MAP_TOO_HIGH,
	FMT_COVER_ODD,
	FMT_COVER_TOO_LONG,
	FMT_KEY_NOT_COVERED,
	FMT_REMOVAL_IN_PIECE,
	FMT_FAULTS
};

extern const char *const fmt_fault_names[FMT_FAULTS];

/*
 * @want: filled with their contents.  Return: false if these disks have no place for the fault.
 */
bool fmt_ranges_make(struct fmt_disks *disks, u64 seed, enum fmt_fault fault,
		     struct fmt_state *want);
/*
 * So many sound disks, with something in them, of the first such seed from @seed on.  Return: that
 * seed.
 */
u64 fmt_ranges_find(struct fmt_disks *disks, u32 nr, u64 seed, struct fmt_state *want);
/* Disks with ranges of more bytes than the disk has, since they repeat the same ones. */
void fmt_ranges_make_repeated(struct fmt_disks *disks);
/* A disk whose table lists the directory twice, the second time as if in another segment. */
void fmt_ranges_make_relisted(struct fmt_disks *disks);

#endif /* FORMAT_RANGES_H */
