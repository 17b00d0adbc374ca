// SPDX-License-Identifier: GPL-2.0
/* The format of dm-log-writes: see record.h. */
#include <endian.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "crash.h"
#include "record.h"

#define MAGIC		0x6a736677736872ull

#define FLAG_FLUSH	(1u << 0)
#define FLAG_FUA	(1u << 1)
#define FLAG_DISCARD	(1u << 2)
#define FLAG_MARK	(1u << 3)

struct raw_super {
	uint64_t magic;
	uint64_t version;
	uint64_t entries;
	uint32_t sector;
};

struct raw_entry {
	uint64_t sector;
	uint64_t sectors;
	uint64_t flags;
	uint64_t data_len;
};

void crash_record_rewind(struct crash_record *rec)
{
	rec->nr = 0;
	rec->at = rec->sector;
}

void crash_record_open(struct crash_record *rec, const char *path)
{
	const struct raw_super *super;
	struct crash_entry entry;
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	memset(rec, 0, sizeof(*rec));
	if (fd < 0 || fstat(fd, &st))
		crash_die("%s: %m", path);
	rec->bytes = (size_t)st.st_size;
	rec->data = mmap(NULL, rec->bytes, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (rec->data == MAP_FAILED || rec->bytes < sizeof(*super))
		crash_die("%s: cannot be read", path);
	super = (const void *)rec->data;
	if (le64toh(super->magic) != MAGIC || le64toh(super->version) != 1)
		crash_die("%s: no record of dm-log-writes", path);
	rec->entries = le64toh(super->entries);
	rec->sector = le32toh(super->sector);
	if (rec->sector < sizeof(struct raw_entry) || rec->sector % CRASH_SECTOR)
		crash_die("%s: sectors of %u bytes", path, rec->sector);
	rec->disk_sectors = UINT64_MAX;
	crash_record_rewind(rec);
	if (!crash_record_next(rec, &entry) || entry.type != CRASH_MARK ||
	    sscanf(entry.data, "disks %u %lu", &rec->disks, &rec->disk_sectors) != 2 ||
	    !rec->disks || rec->disks > CRASH_DISKS)
		crash_die("%s: it does not begin with the number of disks", path);
	crash_record_rewind(rec);
}

void crash_record_close(struct crash_record *rec)
{
	munmap((void *)rec->data, rec->bytes);
}

/* dm takes one word: disks.c has put this in place of the spaces. */
static void mark_text(char *to, const char *from, size_t len)
{
	size_t i;

	for (i = 0; i < len; i++)
		to[i] = from[i] == '_' ? ' ' : from[i];
	to[len] = '\0';
}

bool crash_record_next(struct crash_record *rec, struct crash_entry *entry)
{
	const struct raw_entry *raw = (const void *)(rec->data + rec->at);
	uint64_t flags, sectors, len;

	if (rec->nr == rec->entries || rec->at + rec->sector > rec->bytes)
		return false;
	flags = le64toh(raw->flags);
	len = le64toh(raw->data_len);
	sectors = le64toh(raw->sectors) * (rec->sector / CRASH_SECTOR);
	memset(entry, 0, sizeof(*entry));
	entry->sector = le64toh(raw->sector) * (rec->sector / CRASH_SECTOR);
	entry->disk = (uint32_t)(entry->sector / rec->disk_sectors);
	entry->sector %= rec->disk_sectors;
	entry->sectors = sectors;
	entry->fua = flags & FLAG_FUA;
	rec->nr++;
	rec->at += rec->sector;
	entry->data = rec->data + rec->at;
	if (flags & FLAG_MARK) {
		if (len >= sizeof(rec->text) || len > rec->sector - sizeof(*raw))
			crash_die("entry %lu: a mark of %lu bytes", rec->nr, len);
		entry->type = CRASH_MARK;
		mark_text(rec->text, (const char *)(raw + 1), len);
		entry->data = rec->text;
		return true;
	}
	if (flags & FLAG_DISCARD) {
		entry->type = CRASH_DISCARD;
		return true;
	}
	if (flags & FLAG_FLUSH && !sectors) {
		entry->type = CRASH_FLUSH;
		return true;
	}
	/* Kvtree sends none that is both. */
	if (flags & FLAG_FLUSH)
		crash_die("entry %lu: a flush with data", rec->nr);
	entry->type = CRASH_WRITE;
	rec->at += sectors * CRASH_SECTOR;
	if (rec->at > rec->bytes)
		crash_die("entry %lu: it does not end", rec->nr);
	return true;
}

struct crash_recorder {
	pthread_mutex_t lock;
	char *data;
	size_t used;
	size_t room;
	uint64_t entries;
	uint64_t disk_sectors;
};

/* Address space, that becomes memory where it is written to. */
#define RECORDER_ROOM	((size_t)4 << 30)

struct crash_recorder *crash_recorder_new(uint32_t disks, uint64_t disk_sectors)
{
	struct crash_recorder *to = calloc(1, sizeof(*to));
	char text[64];

	to->data = mmap(NULL, RECORDER_ROOM, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (to->data == MAP_FAILED)
		crash_die("no memory for a record");
	pthread_mutex_init(&to->lock, NULL);
	to->used = CRASH_SECTOR;
	to->disk_sectors = disk_sectors;
	snprintf(text, sizeof(text), "disks %u %lu", disks, disk_sectors);
	crash_recorder_add(to, &(struct crash_entry){ .type = CRASH_MARK, .data = text });
	return to;
}

void crash_recorder_add(struct crash_recorder *to, const struct crash_entry *entry)
{
	static const uint64_t flags[] = {
		[CRASH_WRITE] = 0, [CRASH_DISCARD] = FLAG_DISCARD, [CRASH_FLUSH] = FLAG_FLUSH,
		[CRASH_MARK] = FLAG_MARK,
	};
	size_t len = entry->type == CRASH_WRITE ? entry->sectors * CRASH_SECTOR : 0;
	size_t text = entry->type == CRASH_MARK ? strlen(entry->data) : 0;
	struct raw_entry raw = {
		.sector = htole64(entry->sector + entry->disk * to->disk_sectors),
		.sectors = htole64(entry->sectors),
		.flags = htole64(flags[entry->type]),
		.data_len = htole64(text),
	};

	pthread_mutex_lock(&to->lock);
	if (to->used + CRASH_SECTOR + len > RECORDER_ROOM)
		crash_die("the record is too long");
	memcpy(to->data + to->used, &raw, sizeof(raw));
	memcpy(to->data + to->used + sizeof(raw), entry->data, text);
	to->used += CRASH_SECTOR;
	if (len)
		memcpy(to->data + to->used, entry->data, len);
	to->used += len;
	to->entries++;
	pthread_mutex_unlock(&to->lock);
}

void crash_recorder_save(struct crash_recorder *to, const char *path)
{
	struct raw_super super = {
		.magic = htole64(MAGIC), .version = htole64(1), .sector = htole32(CRASH_SECTOR),
		.entries = htole64(to->entries),
	};

	memcpy(to->data, &super, sizeof(super));
	crash_file_save(path, to->data, to->used);
	munmap(to->data, RECORDER_ROOM);
	free(to);
}
