// SPDX-License-Identifier: GPL-2.0
/* Block devices: a file system for the peers, and bytes written. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "bench_log.h"

#define MOUNT_POINT	"/mnt"

/**
 * command() - run a shell command
 * @fmt: as for printf()
 *
 * Shows its output only if it fails, which ends the program.
 */
void command(const char *fmt, ...)
{
	char text[1024], line[1200];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	snprintf(line, sizeof(line), "out=$(%s 2>&1) || { echo \"$out\" >&2; false; }", text);
	if (system(line))
		die("%s: failed", text);
}

/**
 * disk_mount() - create a file system for the peers
 * @pair: the pair with the device
 */
void disk_mount(const struct pair *pair)
{
	command("mkfs.ext4 -q -F -E nodiscard %s", pair->files);
	command("mount -t ext4 %s " MOUNT_POINT, pair->files);
}

/**
 * disk_unmount() - unmount it
 */
void disk_unmount(void)
{
	command("umount " MOUNT_POINT);
}

/**
 * disk_folder() - the folder of the peers' files
 *
 * Return: a path
 */
const char *disk_folder(void)
{
	return MOUNT_POINT;
}

/**
 * disk_written() - bytes written to a device
 * @device: its path
 *
 * Return: bytes counted by the kernel
 */
uint64_t disk_written(const char *device)
{
	unsigned long long sectors;
	char path[256];
	FILE *f;
	int n = 0;

	snprintf(path, sizeof(path), "/sys/class/block/%s/stat", strrchr(device, '/') + 1);
	f = fopen(path, "r");
	if (f) {
		n = fscanf(f, "%*u %*u %*u %*u %*u %*u %llu", &sectors);
		fclose(f);
	}
	if (n != 1)
		die("%s: cannot be read", path);
	return sectors * 512;
}
