/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A record of all writes to a store's disks, in the format of dm-log-writes.  It is made
 * by that target, or by nbd.c, which supports several disks: they are concatenated into
 * one address range.  The first entry is a mark with their number and size.
 */
#ifndef CRASH_RECORD_H
#define CRASH_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CRASH_DISKS	4u
#define CRASH_SECTOR	512u

enum crash_entry_type {
	CRASH_WRITE,
	CRASH_DISCARD,
	CRASH_FLUSH,		/* of what the disk was given before */
	CRASH_MARK,		/* `data` is a text */
};

struct crash_entry {
	enum crash_entry_type type;
	bool fua;
	uint32_t disk;
	uint64_t sector;	/* of the disk */
	uint64_t sectors;
	const char *data;
};

struct crash_record {
	const char *data;
	size_t bytes;
	uint32_t sector;	/* bytes: the unit of the record */
	uint64_t entries;
	uint32_t disks;
	uint64_t disk_sectors;
	/* Where crash_record_next() is. */
	uint64_t nr;
	size_t at;
	char text[512];
};

/* They end the process if the record is not one. */
void crash_record_open(struct crash_record *rec, const char *path);
void crash_record_close(struct crash_record *rec);
void crash_record_rewind(struct crash_record *rec);
/* false: that was the last one. */
bool crash_record_next(struct crash_record *rec, struct crash_entry *entry);

/* Writing one. */
struct crash_recorder;

struct crash_recorder *crash_recorder_new(uint32_t disks, uint64_t disk_sectors);
void crash_recorder_add(struct crash_recorder *to, const struct crash_entry *entry);
void crash_recorder_save(struct crash_recorder *to, const char *path);

#endif /* CRASH_RECORD_H */
