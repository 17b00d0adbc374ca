// SPDX-License-Identifier: GPL-2.0
/* Disks that record what is written to them: see disks.h. */
#include <fcntl.h>
#include <linux/dm-ioctl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>
#include "../lib/kvt_test.h"
#include "crash.h"
#include "disks.h"

#define DM_NAME		"kvtree-crash"
#define DM_LOG_MIB	1024ul	/* of which as much becomes memory as is used */

static void run(const char *command)
{
	if (system(command))
		crash_die("failed: %s", command);
}

static void load_base(const struct kvt_disk *disk, const struct crash_image *base)
{
	char *memory = mmap(NULL, disk->bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
			    disk->memory, 0);
	size_t at;

	KVT_CHECK(memory != MAP_FAILED);
	for (at = 0; at < disk->bytes; at += 4096)
		if (base->written[0][at / 4096])
			memcpy(memory + at, base->disk[0] + at, 4096);
	munmap(memory, disk->bytes);
}

static void dm_begin(struct crash_disks *disks, const struct crash_image *base)
{
	char command[256];

	kvt_disk_make(&disks->under, disks->bytes >> 20, 512);
	kvt_disk_make(&disks->log, DM_LOG_MIB, 512);
	if (base)
		load_base(&disks->under, base);
	/* It may be a part of the kernel. */
	run("modprobe -q dm-log-writes || true");
	snprintf(command, sizeof(command),
		 "dmsetup create " DM_NAME " --noudevsync --table '0 %zu log-writes %s %s'",
		 disks->bytes / CRASH_SECTOR, disks->under.path, disks->log.path);
	run(command);
	run("dmsetup mknodes " DM_NAME);
	strcpy(disks->disk[0].path, "/dev/mapper/" DM_NAME);
	snprintf(command, sizeof(command), "disks 1 %zu", disks->bytes / CRASH_SECTOR);
	crash_disks_mark(disks, command);
}

static void dm_mark(const char *text)
{
	struct {
		struct dm_ioctl head;
		struct dm_target_msg msg;
		char text[400];
	} args = {
		.head = {
			.version = { DM_VERSION_MAJOR, 0, 0 },
			.data_size = sizeof(args),
			.data_start = sizeof(struct dm_ioctl),
			.name = DM_NAME,
		},
	};
	static int control = -1;

	if (control < 0)
		control = open("/dev/mapper/control", O_RDWR | O_CLOEXEC);
	snprintf(args.msg.message, sizeof(args.text), "mark %s", text);
	if (ioctl(control, DM_TARGET_MSG, &args))
		crash_die("a mark was refused: %m");
}

/* Words that are one for dm. */
static void one_word(char *to, const char *text, size_t len)
{
	snprintf(to, len, "%s", text);
	for (; *to; to++)
		if (*to == ' ')
			*to = '_';
}

static void dm_save(const struct kvt_disk *log, const char *path)
{
	char *memory = mmap(NULL, log->bytes, PROT_READ, MAP_SHARED, log->memory, 0);
	off_t at = 0, end = 0;

	KVT_CHECK(memory != MAP_FAILED);
	while ((at = lseek(log->memory, end, SEEK_DATA)) >= 0)
		end = lseek(log->memory, at, SEEK_HOLE);
	crash_file_save(path, memory, (size_t)end);
	munmap(memory, log->bytes);
}

static void dm_end(struct crash_disks *disks, const char *path)
{
	run("dmsetup remove --retry --noudevsync " DM_NAME);
	dm_save(&disks->log, path);
	kvt_disk_remove(&disks->log);
	kvt_disk_remove(&disks->under);
}

void crash_disks_begin(struct crash_disks *disks, enum crash_disks_kind kind, uint32_t nr,
		       size_t bytes, size_t less, const struct crash_image *base)
{
	uint32_t i;

	memset(disks, 0, sizeof(*disks));
	disks->kind = kind;
	disks->nr = nr;
	disks->bytes = bytes;
	if (kind == CRASH_DISKS_DM) {
		dm_begin(disks, base);
		return;
	}
	disks->recorder = crash_recorder_new(nr, bytes / CRASH_SECTOR);
	disks->nbd = crash_nbd_begin(nr, bytes, less, base, disks->recorder);
	for (i = 0; i < nr; i++)
		crash_nbd_path(i, disks->disk[i].path, sizeof(disks->disk[i].path));
}

void crash_disks_mark(struct crash_disks *disks, const char *text)
{
	char word[300];

	if (disks->kind == CRASH_DISKS_NBD) {
		crash_recorder_add(disks->recorder, &(struct crash_entry){
			.type = CRASH_MARK, .data = text,
		});
		return;
	}
	one_word(word, text, sizeof(word));
	dm_mark(word);
}

void crash_disks_end(struct crash_disks *disks, const char *path)
{
	if (disks->kind == CRASH_DISKS_DM) {
		dm_end(disks, path);
		return;
	}
	crash_nbd_end(disks->nbd);
	crash_recorder_save(disks->recorder, path);
}
