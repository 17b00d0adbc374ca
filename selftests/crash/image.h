/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The disks of a store at a moment of a record, as a crash may leave them.
 *
 * Data written before a flush is on the disk for certain.  Each later write is in a
 * volatile cache: a crash may keep all, some or none of its sectors, independently of
 * earlier and later writes.
 */
#ifndef CRASH_IMAGE_H
#define CRASH_IMAGE_H

#include "record.h"

/* What becomes of the writes that are in the cache. */
enum crash_loss {
	CRASH_LOSE_ALL,
	CRASH_LOSE_NONE,
	CRASH_LOSE_SOME,	/* each with the same chance */
	CRASH_LOSE_ONE,
	CRASH_LOSE_BUT_ONE,
	CRASH_LOSE_SECTORS,	/* each sector by itself */
	CRASH_LOSE_GARBAGE,	/* ... and one that was being written holds anything */
	CRASH_LOSS_NR
};

struct crash_pending {
	struct crash_entry *entry;
	uint32_t nr;
	uint32_t room;
};

struct crash_image {
	uint32_t nr;
	size_t bytes;		/* of each disk */
	char *disk[CRASH_DISKS];
	uint8_t *written[CRASH_DISKS];		/* a byte for each 4096 */
	struct crash_pending cache[CRASH_DISKS];
	/* What crash_image_lose() has changed. */
	struct crash_undo *undo;
	uint32_t nr_undo;
	uint32_t undo_room;
};

void crash_image_init(struct crash_image *image, uint32_t nr, size_t bytes);
void crash_image_exit(struct crash_image *image);
/* The entry's data have to stay where they are until they are flushed. */
void crash_image_add(struct crash_image *image, const struct crash_entry *entry);
/* Let a crash happen.  Returns how many writes were lost, or in part. */
uint32_t crash_image_lose(struct crash_image *image, enum crash_loss loss, uint64_t seed);
/* Let nothing be lost: each write is on the disk, in their order. */
void crash_image_keep(struct crash_image *image);
/* Take a crash back. */
void crash_image_restore(struct crash_image *image);

/* To files and devices, and from them. */
void crash_image_save(const struct crash_image *image, char *const *paths);
void crash_image_load(struct crash_image *image, char *const *paths, uint32_t nr);

#endif /* CRASH_IMAGE_H */
