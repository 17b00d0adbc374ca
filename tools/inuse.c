// SPDX-License-Identifier: GPL-2.0
/*
 * Find the users of a block device: the kernel only says that it is in use.
 */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "tool.h"
#include "blockdev.h"

#define SYS_BLOCK	"/sys/class/block"

static bool is_device(const char *path, dev_t dev)
{
	struct stat st;

	return !stat(path, &st) && S_ISBLK(st.st_mode) && st.st_rdev == dev;
}

/* Some file systems report a device number of their own: compare the source then. */
static bool by_mount(FILE *out, dev_t dev)
{
	FILE *in = fopen("/proc/self/mountinfo", "re");
	char *line = NULL, where[PATH_MAX], source[PATH_MAX];
	unsigned int major, minor;
	const char *rest;
	bool found = false;
	size_t room = 0;

	while (in && !found && getline(&line, &room, in) > 0) {
		rest = strstr(line, " - ");
		if (!rest || sscanf(line, "%*u %*u %u:%u %*s %4095s", &major, &minor, where) != 3)
			continue;
		found = makedev(major, minor) == dev ||
			(sscanf(rest, " - %*s %4095s", source) == 1 && is_device(source, dev));
	}
	if (found) {
		fputs("mounted on ", out);
		put_text(out, where, strlen(where));
	}
	if (in)
		fclose(in);
	free(line);
	return found;
}

static bool by_swap(FILE *out, dev_t dev)
{
	FILE *in = fopen("/proc/swaps", "re");
	char *line = NULL, path[PATH_MAX];
	bool found = false;
	size_t room = 0;

	while (in && !found && getline(&line, &room, in) > 0)
		found = sscanf(line, "%4095s", path) == 1 && is_device(path, dev);
	if (found)
		fputs("swap space", out);
	if (in)
		fclose(in);
	free(line);
	return found;
}

/* The superblock has the name under which the store was last attached. */
static bool by_store(FILE *out, const char *path)
{
	struct kvtree_store_info si;
	struct kvtree_device device;
	struct kvtree *kv;
	bool found;

	if (kvtree_probe(path, &device, sizeof(device)) ||
	    !(device.flags & KVTREE_DEVICE_OPEN) || kvtree_open(NULL, KVTREE_OPEN_READ, &kv))
		return false;
	found = store_info(kv, device.label, &si) &&
		si.flags & (KVTREE_STORE_DURABLE | KVTREE_STORE_ATTACHING);
	kvtree_close(kv);
	if (found)
		fprintf(out, "attached as the store '%s': kvtree store detach", si.name);
	return found;
}

static bool by_holder(FILE *out, dev_t dev)
{
	char path[64];
	struct dirent *entry;
	bool found = false;
	DIR *dir;

	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/holders", major(dev), minor(dev));
	dir = opendir(path);
	while (dir && !found && (entry = readdir(dir)))
		found = *entry->d_name != '.';
	if (found)
		fprintf(out, "a part of %s", entry->d_name);
	if (dir)
		closedir(dir);
	return found;
}

static bool by_anyone(FILE *out, const char *path, dev_t dev)
{
	return by_mount(out, dev) || by_swap(out, dev) || by_store(out, path) ||
	       by_holder(out, dev);
}

/* A user found through another block device of sysfs. */
static bool by_other(FILE *out, const char *name, dev_t dev)
{
	char path[PATH_MAX], *slash;
	struct stat st;

	snprintf(path, sizeof(path), "/dev/%s", name);
	/* sysfs replaces slashes in names. */
	while ((slash = strchr(path, '!')))
		*slash = '/';
	if (stat(path, &st) || !S_ISBLK(st.st_mode) || st.st_rdev == dev ||
	    !by_anyone(out, path, st.st_rdev))
		return false;
	fprintf(out, " (%s is)", path);
	return true;
}

/* A disk and its partitions cannot be in exclusive use at the same time. */
static bool by_relative(FILE *out, dev_t dev)
{
	char disk[PATH_MAX], path[64];
	struct dirent *entry;
	bool found;
	DIR *dir;

	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/partition", major(dev), minor(dev));
	found = !access(path, F_OK);
	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u%s", major(dev), minor(dev),
		 found ? "/.." : "");
	if (!realpath(path, disk))
		return false;
	found = by_other(out, strrchr(disk, '/') + 1, dev);
	dir = opendir(disk);
	while (dir && !found && (entry = readdir(dir)))
		found = *entry->d_name != '.' && by_other(out, entry->d_name, dev);
	if (dir)
		closedir(dir);
	return found;
}

/**
 * inuse_free() - whether a device is not in use
 * @path: of the device
 *
 * Return: true if it can be opened exclusively
 */
bool inuse_free(const char *path)
{
	int fd = open(path, O_RDONLY | O_EXCL | O_CLOEXEC);

	if (fd < 0)
		return false;
	close(fd);
	return true;
}

/**
 * inuse_warn() - print that a device is in use, and its users
 * @path: of the device
 */
void inuse_warn(const char *path)
{
	struct stat st;
	size_t size = 0;
	char *users = NULL;
	FILE *out = open_memstream(&users, &size);
	bool found;

	if (!out)
		die("out of memory");
	found = !stat(path, &st) && S_ISBLK(st.st_mode) &&
		(by_anyone(out, path, st.st_rdev) || by_relative(out, st.st_rdev));
	if (fclose(out))
		die("out of memory");
	warn("%s: it is in use%s%s", path, found ? ": " : "", found ? users : "");
	free(users);
}

/**
 * inuse_by_loop() - whether a file backs a loop device
 * @file: the file
 *
 * Prints a message if so.
 *
 * Return: true if it does
 */
bool inuse_by_loop(const struct blockdev *file)
{
	struct loop_info64 info;
	DIR *dir = opendir(SYS_BLOCK);
	struct dirent *entry;
	bool found = false;
	char path[300];
	struct stat st;
	int fd;

	if (fstat(file->fd, &st))
		memset(&st, 0, sizeof(st));
	while (dir && !found && (entry = readdir(dir))) {
		if (strncmp(entry->d_name, "loop", 4))
			continue;
		snprintf(path, sizeof(path), "/dev/%s", entry->d_name);
		fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
		found = fd >= 0 && !ioctl(fd, LOOP_GET_STATUS64, &info) &&
			info.lo_device == st.st_dev && info.lo_inode == st.st_ino;
		if (fd >= 0)
			close(fd);
	}
	if (found)
		warn("%s: it is in use: it backs %s", file->path, path);
	if (dir)
		closedir(dir);
	return found;
}

/**
 * inuse_by_member() - whether udev says that a device is a member of another, or not ready
 * @name: of the device, in sysfs
 *
 * A signature on a RAID may also be visible on a member, which must not be used.
 *
 * Return: true if it does
 */
bool inuse_by_member(const char *name)
{
	char path[300], *line = NULL;
	unsigned int major, minor;
	bool found = false;
	size_t room = 0;
	FILE *in;

	snprintf(path, sizeof(path), SYS_BLOCK "/%s/dev", name);
	in = fopen(path, "re");
	if (!in)
		return false;
	found = fscanf(in, "%u:%u", &major, &minor) == 2;
	fclose(in);
	snprintf(path, sizeof(path), "/run/udev/data/b%u:%u", major, minor);
	in = found ? fopen(path, "re") : NULL;
	found = false;
	while (in && !found && getline(&line, &room, in) > 0) {
		line[strcspn(line, "\n")] = '\0';
		/* Signatures, where users of a store cannot write, identify other members. */
		found = !strcmp(line, "E:ID_FS_TYPE=mpath_member") ||
			!strcmp(line, "E:SYSTEMD_READY=0") ||
			!strcmp(line, "E:DM_UDEV_DISABLE_OTHER_RULES_FLAG=1");
	}
	if (in)
		fclose(in);
	free(line);
	return found;
}
