/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Changes that no accident makes: fields of structures get other values, with
 * correct checksums, so that a reader gets to see these values.  Numbers are drawn
 * from bytes, of a fuzzer or derived from a seed.
 */
#ifndef FORMAT_MUTATE_H
#define FORMAT_MUTATE_H

#include "../../kmod/tests/splitmix64.h"
#include "map.h"

struct fmt_bytes {
	const u8 *at;
	const u8 *end;
};

/* A repeatable row of numbers. */
static inline u64 fmt_random(u64 *row)
{
	return splitmix64(*row += SPLITMIX64_STEP);
}

static inline u32 fmt_below(u64 *row, u32 n)
{
	return (u32)((fmt_random(row) >> 32) * n >> 32);
}

#define FMT_MUTATE_BYTES	64

/* As many changes as there are bytes for. */
void fmt_mutate(const struct fmt_map *map, struct fmt_disks *disks, struct fmt_bytes *bytes);
/* The same, from a seed. */
void fmt_mutate_seed(const struct fmt_map *map, struct fmt_disks *disks, u64 seed);
/*
 * What an attach needs besides the restored state: numbers that it increments must not
 * be about to overflow.
 */
bool fmt_found_sane(const struct kvt_log_found *found);

#endif /* FORMAT_MUTATE_H */
