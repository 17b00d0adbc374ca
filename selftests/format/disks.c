// SPDX-License-Identifier: GPL-2.0
/* Devices in memory: see disks.h. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "disks.h"

void fmt_die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fprintf(stderr, "format: ");
	vfprintf(stderr, fmt, ap);
	fprintf(stderr, "\n");
	va_end(ap);
	exit(2);
}

void *fmt_alloc(void *old, size_t size)
{
	void *new = realloc(old, size ? size : 1);

	if (!new)
		fmt_die("out of memory");
	return new;
}

/* Blocks that are never written take no memory. */
static void disk_make(struct fmt_disks *disks, u32 disk, u64 blocks)
{
	disks->blocks[disk] = blocks;
	disks->data[disk] = mmap(NULL, blocks * KVTREE_LOG_BLOCK + 1, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	disks->written[disk] = calloc(blocks + 1, 1);
	if (disks->data[disk] == MAP_FAILED || !disks->written[disk])
		fmt_die("no memory for disk %u", disk + 1);
}

static void disk_load(struct fmt_disks *disks, u32 disk, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	u64 at = 0, block;
	struct stat st;
	off_t data;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st))
		fmt_die("%s: %s", path, strerror(errno));
	disk_make(disks, disk, (u64)st.st_size / KVTREE_LOG_BLOCK);
	while ((data = lseek(fd, (off_t)at, SEEK_DATA)) >= 0) {
		at = (u64)data / KVTREE_LOG_BLOCK * KVTREE_LOG_BLOCK;
		n = pread(fd, disks->data[disk] + at, 16 * KVTREE_LOG_BLOCK, (off_t)at);
		if (n <= 0)
			break;
		for (block = at; block < at + (u64)n; block += KVTREE_LOG_BLOCK)
			disks->written[disk][block / KVTREE_LOG_BLOCK] = 1;
		at += (u64)n;
	}
	close(fd);
}

void fmt_disks_make(struct fmt_disks *disks, u32 nr, u64 blocks)
{
	memset(disks, 0, sizeof(*disks));
	while (disks->nr < nr)
		disk_make(disks, disks->nr++, blocks);
}

static void disk_save(const struct fmt_disks *disks, u32 disk, const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	u64 block;

	if (fd < 0 || ftruncate(fd, (off_t)(disks->blocks[disk] * KVTREE_LOG_BLOCK)))
		fmt_die("%s: %s", path, strerror(errno));
	for (block = 0; block < disks->blocks[disk]; block++)
		if (disks->written[disk][block] &&
		    pwrite(fd, fmt_block(disks, disk, block), KVTREE_LOG_BLOCK,
			   (off_t)(block * KVTREE_LOG_BLOCK)) != KVTREE_LOG_BLOCK)
			fmt_die("%s: %s", path, strerror(errno));
	close(fd);
}

void fmt_disks_save(const struct fmt_disks *disks, char *const *paths)
{
	u32 i;

	for (i = 0; i < disks->nr; i++)
		disk_save(disks, i, paths[i]);
}

void fmt_disks_load(struct fmt_disks *disks, char *const *paths, u32 nr)
{
	u32 i;

	memset(disks, 0, sizeof(*disks));
	if (nr > FMT_DISKS)
		fmt_die("a store has at most %u disks", FMT_DISKS);
	disks->nr = nr;
	for (i = 0; i < nr; i++)
		disk_load(disks, i, paths[i]);
}

void fmt_disks_free(struct fmt_disks *disks)
{
	u32 i;

	fmt_disks_restore(disks);
	free(disks->undo);
	for (i = 0; i < disks->nr; i++) {
		munmap(disks->data[i], disks->blocks[i] * KVTREE_LOG_BLOCK + 1);
		free(disks->written[i]);
	}
	memset(disks, 0, sizeof(*disks));
}

void fmt_disks_put(struct fmt_disks *disks, u32 disk, u64 at, const void *data, u32 len)
{
	struct fmt_undo *undo;

	if (disks->nr_undo == disks->undo_room) {
		disks->undo_room = disks->undo_room * 2 + 16;
		disks->undo = fmt_alloc(disks->undo, disks->undo_room * sizeof(*undo));
	}
	undo = &disks->undo[disks->nr_undo++];
	*undo = (struct fmt_undo) { .disk = disk, .len = len, .at = at };
	undo->was = fmt_alloc(NULL, len);
	memcpy(undo->was, disks->data[disk] + at, len);
	memmove(disks->data[disk] + at, data, len);
	memset(disks->written[disk] + at / KVTREE_LOG_BLOCK, 1,
	       (at + len - 1) / KVTREE_LOG_BLOCK - at / KVTREE_LOG_BLOCK + 1);
}

void fmt_disks_restore(struct fmt_disks *disks)
{
	struct fmt_undo *undo;

	while (disks->nr_undo) {
		undo = &disks->undo[--disks->nr_undo];
		memcpy(disks->data[undo->disk] + undo->at, undo->was, undo->len);
		free(undo->was);
	}
}
