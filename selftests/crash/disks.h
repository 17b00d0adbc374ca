/* SPDX-License-Identifier: GPL-2.0 */
/* Disks that record what is written to them. */
#ifndef CRASH_DISKS_H
#define CRASH_DISKS_H

#include "../lib/durable.h"
#include "image.h"

enum crash_disks_kind {
	CRASH_DISKS_DM,		/* one: dm-log-writes over a loop device */
	CRASH_DISKS_NBD,	/* network block devices that this process serves */
};

struct crash_disks {
	enum crash_disks_kind kind;
	uint32_t nr;
	size_t bytes;			/* of the largest */
	struct kvt_disk disk[CRASH_DISKS];	/* `path` alone is for others */
	/* dm */
	struct kvt_disk under;
	struct kvt_disk log;
	/* nbd */
	struct crash_nbd *nbd;
	struct crash_recorder *recorder;
};

/* They begin as copies of @base, or zeros if it is NULL; each is @less shorter than the last. */
void crash_disks_begin(struct crash_disks *disks, enum crash_disks_kind kind, uint32_t nr,
		       size_t bytes, size_t less, const struct crash_image *base);
/* A mark in the record: from here on. */
void crash_disks_mark(struct crash_disks *disks, const char *text);
/* When they are no longer open: remove them, and save the record. */
void crash_disks_end(struct crash_disks *disks, const char *path);

/* nbd.c */
struct crash_nbd *crash_nbd_begin(uint32_t nr, size_t bytes, size_t less,
				  const struct crash_image *base, struct crash_recorder *recorder);
void crash_nbd_path(uint32_t i, char *path, size_t len);
void crash_nbd_end(struct crash_nbd *nbd);

#endif /* CRASH_DISKS_H */
