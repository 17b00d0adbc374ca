// SPDX-License-Identifier: GPL-2.0
/* Disks as a crash leaves them: see image.h. */
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "crash.h"
#include "image.h"
#include "oracle.h"

#define BLOCK	4096u

struct crash_undo {
	uint32_t disk;
	size_t at;
	size_t len;
	char *was;
};

void crash_image_init(struct crash_image *image, uint32_t nr, size_t bytes)
{
	uint32_t i;

	memset(image, 0, sizeof(*image));
	image->nr = nr;
	image->bytes = bytes;
	for (i = 0; i < nr; i++) {
		image->disk[i] = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
				      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		image->written[i] = calloc(bytes / BLOCK + 1, 1);
		if (image->disk[i] == MAP_FAILED || !image->written[i])
			crash_die("no memory for a disk");
	}
}

void crash_image_exit(struct crash_image *image)
{
	uint32_t i;

	for (i = 0; i < image->nr; i++) {
		munmap(image->disk[i], image->bytes);
		free(image->written[i]);
		free(image->cache[i].entry);
	}
	free(image->undo);
	memset(image, 0, sizeof(*image));
}

static void image_put(struct crash_image *image, uint32_t disk, size_t at, const char *data,
		      size_t len)
{
	memset(image->written[disk] + at / BLOCK, 1, (at + len - 1) / BLOCK - at / BLOCK + 1);
	if (data)
		memcpy(image->disk[disk] + at, data, len);
	else
		memset(image->disk[disk] + at, 0, len);
}

/* Zeros if it is a discard: which no longer matters. */
static void image_apply(struct crash_image *image, const struct crash_entry *entry)
{
	image_put(image, entry->disk, entry->sector * CRASH_SECTOR,
		  entry->type == CRASH_DISCARD ? NULL : entry->data,
		  entry->sectors * CRASH_SECTOR);
}

static void cache_add(struct crash_pending *cache, const struct crash_entry *entry)
{
	if (cache->nr == cache->room) {
		cache->room = cache->room ? cache->room * 2 : 64;
		cache->entry = realloc(cache->entry, cache->room * sizeof(*cache->entry));
		if (!cache->entry)
			crash_die("out of memory");
	}
	cache->entry[cache->nr++] = *entry;
}

void crash_image_add(struct crash_image *image, const struct crash_entry *entry)
{
	struct crash_pending *cache = &image->cache[entry->disk];
	uint32_t i;

	if (entry->type == CRASH_MARK)
		return;
	if (entry->disk >= image->nr ||
	    (entry->sector + entry->sectors) * CRASH_SECTOR > image->bytes)
		crash_die("a write behind the end of disk %u", entry->disk + 1);
	if (entry->type != CRASH_FLUSH && !entry->fua) {
		cache_add(cache, entry);
		return;
	}
	if (entry->type != CRASH_FLUSH) {
		image_apply(image, entry);
		return;
	}
	for (i = 0; i < cache->nr; i++)
		image_apply(image, &cache->entry[i]);
	cache->nr = 0;
}

/* Put bytes that crash_image_restore() takes back. */
static void image_try(struct crash_image *image, uint32_t disk, size_t at, const char *data,
		      size_t len)
{
	struct crash_undo *undo;

	if (image->nr_undo == image->undo_room) {
		image->undo_room = image->undo_room ? image->undo_room * 2 : 256;
		image->undo = realloc(image->undo, image->undo_room * sizeof(*undo));
		if (!image->undo)
			crash_die("out of memory");
	}
	undo = &image->undo[image->nr_undo++];
	*undo = (struct crash_undo){ .disk = disk, .at = at, .len = len, .was = malloc(len) };
	memcpy(undo->was, image->disk[disk] + at, len);
	image_put(image, disk, at, data, len);
}

static void try_sectors(struct crash_image *image, const struct crash_entry *e, uint64_t *row)
{
	uint64_t i;

	for (i = 0; i < e->sectors; i++) {
		*row = crash_mix(*row);
		if (*row & 1 << 20)
			image_try(image, e->disk, (e->sector + i) * CRASH_SECTOR,
				  e->type == CRASH_DISCARD ? NULL : e->data + i * CRASH_SECTOR,
				  CRASH_SECTOR);
	}
}

static void try_garbage(struct crash_image *image, const struct crash_entry *e, uint64_t *row)
{
	uint64_t garbage[CRASH_SECTOR / sizeof(uint64_t)];
	size_t i;

	for (i = 0; i < CRASH_SECTOR / sizeof(uint64_t); i++)
		garbage[i] = *row = crash_mix(*row);
	image_try(image, e->disk, (e->sector + *row % e->sectors) * CRASH_SECTOR,
		  (const char *)garbage, CRASH_SECTOR);
}

/* One write.  Returns whether anything of it is missing. */
static bool image_try_entry(struct crash_image *image, const struct crash_entry *e,
			    enum crash_loss loss, bool chosen, uint64_t *row)
{
	bool there;

	*row = crash_mix(*row);
	switch (loss) {
	case CRASH_LOSE_ALL:
		there = false;
		break;
	case CRASH_LOSE_NONE:
		there = true;
		break;
	case CRASH_LOSE_ONE:
		there = !chosen;
		break;
	case CRASH_LOSE_BUT_ONE:
		there = chosen;
		break;
	default:
		there = *row >> 33 & 1;
	}
	if (there)
		image_try(image, e->disk, e->sector * CRASH_SECTOR,
			  e->type == CRASH_DISCARD ? NULL : e->data, e->sectors * CRASH_SECTOR);
	else if (loss == CRASH_LOSE_SECTORS || loss == CRASH_LOSE_GARBAGE)
		try_sectors(image, e, row);
	if (!there && loss == CRASH_LOSE_GARBAGE && chosen)
		try_garbage(image, e, row);
	return !there;
}

uint32_t crash_image_lose(struct crash_image *image, enum crash_loss loss, uint64_t seed)
{
	uint32_t total = 0, lost = 0, i, j, k, at;
	struct crash_entry **all, *swap;
	uint64_t row = crash_mix(seed);

	for (i = 0; i < image->nr; i++)
		total += image->cache[i].nr;
	if (!total)
		return 0;
	all = malloc(total * sizeof(*all));
	for (i = 0, at = 0; i < image->nr; i++)
		for (j = 0; j < image->cache[i].nr; j++)
			all[at++] = &image->cache[i].entry[j];
	/* In any order: where two are for the same place, either may come last. */
	for (i = total - 1; i; i--) {
		row = crash_mix(row);
		k = (uint32_t)(row >> 32) % (i + 1);
		swap = all[i];
		all[i] = all[k];
		all[k] = swap;
	}
	/* They are in random order: the first one is any. */
	for (i = 0; i < total; i++)
		lost += image_try_entry(image, all[i], loss, !i, &row);
	free(all);
	return lost;
}

void crash_image_keep(struct crash_image *image)
{
	uint32_t i, j;

	for (i = 0; i < image->nr; i++) {
		for (j = 0; j < image->cache[i].nr; j++)
			image_apply(image, &image->cache[i].entry[j]);
		image->cache[i].nr = 0;
	}
}

void crash_image_restore(struct crash_image *image)
{
	struct crash_undo *undo;

	while (image->nr_undo) {
		undo = &image->undo[--image->nr_undo];
		memcpy(image->disk[undo->disk] + undo->at, undo->was, undo->len);
		free(undo->was);
	}
}

static void write_all(int fd, const char *data, size_t len, size_t at, const char *path)
{
	ssize_t n;

	for (; len; len -= (size_t)n, data += n, at += (size_t)n) {
		n = pwrite(fd, data, len, (off_t)at);
		if (n <= 0)
			crash_die("%s: cannot be written: %m", path);
	}
}

/* A file is made anew, so that it has holes; of a device everything is written. */
static void disk_save(const struct crash_image *image, uint32_t i, const char *path)
{
	const uint8_t *written = image->written[i];
	const char *disk = image->disk[i];
	size_t bytes = image->bytes;
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	struct stat st;
	size_t at, end;
	bool device;

	if (fd < 0 || fstat(fd, &st))
		crash_die("%s: %m", path);
	device = S_ISBLK(st.st_mode);
	if (!device && (ftruncate(fd, 0) || ftruncate(fd, (off_t)bytes)))
		crash_die("%s: %m", path);
	if (device) {
		uint64_t range[2] = { 0, bytes };

		if (ioctl(fd, BLKZEROOUT, range))
			crash_die("%s: cannot be zeroed: %m", path);
	}
	for (at = 0; at < bytes; at = end) {
		end = at + BLOCK;
		if (!written[at / BLOCK])
			continue;
		while (end < bytes && end - at < 256 * BLOCK && written[end / BLOCK])
			end += BLOCK;
		write_all(fd, disk + at, end - at, at, path);
	}
	if (device && fsync(fd))
		crash_die("%s: %m", path);
	close(fd);
}

void crash_image_save(const struct crash_image *image, char *const *paths)
{
	uint32_t i;

	for (i = 0; i < image->nr; i++)
		disk_save(image, i, paths[i]);
}

static void disk_load(struct crash_image *image, uint32_t disk, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	static char block[64 * BLOCK];
	size_t at;
	ssize_t n;

	if (fd < 0)
		crash_die("%s: %m", path);
	for (at = 0; at < image->bytes; at += (size_t)n) {
		off_t data = lseek(fd, (off_t)at, SEEK_DATA);

		if (data < 0)
			break;
		at = (size_t)data;
		n = pread(fd, block, sizeof(block), data);
		if (n <= 0)
			crash_die("%s: cannot be read: %m", path);
		image_put(image, disk, at, block, (size_t)n);
	}
	close(fd);
}

void crash_image_load(struct crash_image *image, char *const *paths, uint32_t nr)
{
	struct stat st;
	uint32_t i;

	if (stat(paths[0], &st))
		crash_die("%s: %m", paths[0]);
	crash_image_init(image, nr, (size_t)st.st_size);
	for (i = 0; i < nr; i++)
		disk_load(image, i, paths[i]);
}
