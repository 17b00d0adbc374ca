/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The contents of a store's devices, in memory, to be damaged and to be read as a recovery
 * reads them.  Each change can be undone.
 */
#ifndef FORMAT_DISKS_H
#define FORMAT_DISKS_H

#include "../../kmod/log/format/format.h"

#define FMT_DISKS	KVTREE_LOG_DEVS_MAX
#define FMT_NR(array)	(sizeof(array) / sizeof((array)[0]))

struct fmt_undo {
	u32 disk;
	u32 len;
	u64 at;
	u8 *was;
};

struct fmt_disks {
	u32 nr;
	u64 blocks[FMT_DISKS];
	u8 *data[FMT_DISKS];
	u8 *written[FMT_DISKS];		/* a byte for each block: it is not a hole */
	u64 until;			/* the epoch that is restored; 0: the last one */
	struct fmt_undo *undo;
	u32 nr_undo;
	u32 undo_room;
};

/* Print an error and exit with status 2: the test itself has failed. */
void fmt_die(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));
void *fmt_alloc(void *old, size_t size);

/* Disks of zeros. */
void fmt_disks_make(struct fmt_disks *disks, u32 nr, u64 blocks);
void fmt_disks_load(struct fmt_disks *disks, char *const *paths, u32 nr);
void fmt_disks_save(const struct fmt_disks *disks, char *const *paths);
void fmt_disks_free(struct fmt_disks *disks);
/* Change bytes; fmt_disks_restore() takes back all that was changed. */
void fmt_disks_put(struct fmt_disks *disks, u32 disk, u64 at, const void *data, u32 len);
void fmt_disks_restore(struct fmt_disks *disks);

static inline u8 *fmt_block(const struct fmt_disks *disks, u32 disk, u64 block)
{
	return disks->data[disk] + block * KVTREE_LOG_BLOCK;
}

#endif /* FORMAT_DISKS_H */
