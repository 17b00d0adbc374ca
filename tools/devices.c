// SPDX-License-Identifier: GPL-2.0
/*
 * Find block devices of durable stores.
 */
#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "inuse.h"
#include "signature.h"
#include "stores.h"

#define SYS_BLOCK	"/sys/class/block"

/**
 * uuid_text() - a UUID as text
 * @text: filled
 * @uuid: its bytes
 */
void uuid_text(char text[37], const uint8_t uuid[16])
{
	int i;

	for (i = 0; i < 16; i++)
		text += sprintf(text, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
				uuid[i]);
}

/**
 * uuid_parse() - text as a UUID
 * @text: the text
 * @uuid: filled
 *
 * Return: whether it is one
 */
bool uuid_parse(const char *text, uint8_t uuid[16])
{
	char pair[3] = "", again[37];
	int i;

	if (strlen(text) != 36)
		return false;
	for (i = 0; i < 16; i++) {
		memcpy(pair, text + 2 * i + (i >= 4) + (i >= 6) + (i >= 8) + (i >= 10), 2);
		uuid[i] = (uint8_t)strtoul(pair, NULL, 16);
	}
	uuid_text(again, uuid);
	return !strcasecmp(text, again);
}

/* Whether a folder of sysfs has anything in it. */
static bool has_entries(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	bool any = false;

	while (dir && !any && (entry = readdir(dir)))
		any = *entry->d_name != '.';
	if (dir)
		closedir(dir);
	return any;
}

/* Devices that are parts of others are probed through these; empty ones hold nothing. */
static bool worth_a_look(const char *name)
{
	unsigned long long size = 0;
	char path[PATH_MAX];
	FILE *f;

	snprintf(path, sizeof(path), SYS_BLOCK "/%s/size", name);
	f = fopen(path, "re");
	if (!f)
		return false;
	if (fscanf(f, "%llu", &size) != 1)
		size = 0;
	fclose(f);
	snprintf(path, sizeof(path), SYS_BLOCK "/%s/holders", name);
	return size && !has_entries(path);
}

/**
 * devices_foreign() - whether a device also holds something else
 * @path: of the device
 * @device: the device's description of its store
 * @prefix: prefix of the message; NULL: print nothing
 *
 * Another program was given the device and left the superblocks, or it is a part of a device that
 * the store is on.  Ignores what cannot be read: a store needs one copy of its superblock.
 *
 * Return: true if it does: it must not be attached
 */
bool devices_foreign(const char *path, const struct kvtree_device *device, const char *prefix)
{
	struct signatures found;
	bool foreign;

	signatures_beside(&found, path, device);
	foreign = found.list;
	if (foreign && prefix)
		warn("%s: %s holds %s, too: %s", prefix, path, found.list, found.part ?
		     "it is, or was, a part of another device" :
		     "if it is not needed, \"wipefs --force --offset\" removes just that");
	signatures_free(&found);
	return foreign;
}

/*
 * A line of the file may be old: the device that it names may have been put to another use.
 */
static bool is_doubtful(const char *path, const struct kvtree_device *device, const char *prefix)
{
	bool doubtful = device->flags & KVTREE_DEVICE_DOUBTFUL;

	if (doubtful && prefix)
		warn("'%s': %s: something was written over its beginning: %s", prefix, path,
		     "attach it by hand, or use kvtree store check --repair");
	return doubtful;
}

/**
 * devices_each() - go through all block devices
 * @each: called for devices of stores: with @err 0, or with -EBADMSG or -EOPNOTSUPP and
 *	no description; if it does not return 0, the loop ends
 * @arg: passed to it
 *
 * Return: 0; what @each returned; or a negative errno if the devices cannot be listed
 */
int devices_each(int (*each)(const char *path, const struct kvtree_device *device, int err,
			     void *arg), void *arg)
{
	DIR *dir = opendir(SYS_BLOCK);
	struct kvtree_device device;
	char path[PATH_MAX], *slash;
	struct dirent *entry;
	int err, ret = 0;

	if (!dir)
		return -errno;
	while (!ret && (entry = readdir(dir))) {
		if (*entry->d_name == '.' || !worth_a_look(entry->d_name))
			continue;
		snprintf(path, sizeof(path), "/dev/%s", entry->d_name);
		/* sysfs replaces slashes in names. */
		while ((slash = strchr(path, '!')))
			*slash = '/';
		err = kvtree_probe(path, &device, sizeof(device));
		if (err && err != -EBADMSG && err != -EOPNOTSUPP)
			continue;
		if (err)
			device.flags = KVTREE_DEVICE_DAMAGED;
		/* Report a device without a description, too. */
		if (!inuse_by_member(entry->d_name) &&
		    (err || !devices_foreign(path, &device, NULL)))
			ret = each(path, &device, err, arg);
	}
	closedir(dir);
	return ret;
}

struct find {
	struct device_set *set;
	const struct store_line *line;
	bool quiet;
};

/* The path of any device that was found; there is at least one. */
static const char *any_path(const struct device_set *set)
{
	unsigned int i = 0;

	while (!set->paths[i])
		i++;
	return set->paths[i];
}

static int find_one(const char *path, const struct kvtree_device *device, int err, void *arg)
{
	struct find *find = arg;
	struct device_set *set = find->set;
	char **at;

	if (err || memcmp(device->uuid, find->line->uuid, sizeof(device->uuid)))
		return 0;
	if (is_doubtful(path, device, find->quiet ? NULL : find->line->store.name))
		return 0;
	/* One of them may be forged: the order of discovery must not decide. */
	if (set->nr && set->nr != device->nr_devices) {
		if (!find->quiet)
			warn("'%s': %s has this UUID and is one of %u, but %s is one of %u: %s",
			     find->line->store.name, path, device->nr_devices, any_path(set),
			     set->nr, "name devices, not the UUID");
		return -ENOTUNIQ;
	}
	set->nr = device->nr_devices;
	at = &set->paths[device->index];
	if (*at) {
		if (!find->quiet)
			warn("'%s': %s and %s are copies of each other: %s",
			     find->line->store.name, *at, path, "name devices, not the UUID");
		return -ENOTUNIQ;
	}
	*at = strdup(path);
	if (!*at)
		die("out of memory");
	return 0;
}

static int find_by_uuid(struct device_set *set, const struct store_line *line, bool quiet)
{
	struct find find = { .set = set, .line = line, .quiet = quiet };
	unsigned int i, missing = 0;
	char text[37];
	int err;

	err = devices_each(find_one, &find);
	if (err)
		return err;
	for (i = 0; i < set->nr; i++)
		missing += !set->paths[i];
	if (set->nr && !missing)
		return 0;
	uuid_text(text, line->uuid);
	if (!quiet && !set->nr)
		warn("'%s': there is no device with the UUID %s", line->store.name, text);
	for (i = 0; !quiet && i < set->nr; i++)
		if (!set->paths[i])
			warn("'%s': device %u of %u, with the UUID %s, is missing",
			     line->store.name, i + 1, set->nr, text);
	return -ENODEV;
}

static int find_by_path(struct device_set *set, const struct store_line *line, bool quiet)
{
	const char *name = line->store.name;
	struct kvtree_device device;
	unsigned int i;
	int err;

	for (i = 0; i < line->nr_paths; i++) {
		err = kvtree_probe(line->paths[i], &device, sizeof(device));
		if (err) {
			if (!quiet)
				warn("'%s': %s: %s", name, line->paths[i],
				     err == -ENOENT ? "no such device" :
				     kvtree_strerror(err));
			return err;
		}
		if (is_doubtful(line->paths[i], &device, quiet ? NULL : name) ||
		    devices_foreign(line->paths[i], &device, quiet ? NULL : name))
			return -ENOTUNIQ;
		set->paths[i] = strdup(line->paths[i]);
		if (!set->paths[i])
			die("out of memory");
		set->nr++;
		if (device.nr_devices == line->nr_paths)
			continue;
		if (!quiet)
			warn("'%s': its line names %u device%s, but it has %u", line->store.name,
			     line->nr_paths, line->nr_paths > 1 ? "s" : "", device.nr_devices);
		return -EINVAL;
	}
	return 0;
}

/**
 * devices_find() - find the devices of a store in the file
 * @set: filled; devices_free() must follow, even after an error
 * @line: of the store
 * @quiet: print no messages
 *
 * Return: 0 if all were found, or a negative errno
 */
int devices_find(struct device_set *set, const struct store_line *line, bool quiet)
{
	*set = (struct device_set){ 0 };
	return line->by_uuid ? find_by_uuid(set, line, quiet) : find_by_path(set, line, quiet);
}

/* Whether a list of words, separated by blanks, contains a word. */
static bool has_word(const char *words, const char *word)
{
	size_t len = strlen(word), n;

	for (; *words; words += n) {
		words += strspn(words, " ");
		n = strcspn(words, " ");
		if (n == len && !memcmp(words, word, len))
			return true;
	}
	return false;
}

/**
 * devices_has() - whether a device belongs to a store of the file
 * @line: the store's
 * @device: the device's description
 * @rdev: its number
 * @links: paths that will lead to it, separated by blanks
 *
 * Return: true if it is
 */
bool devices_has(const struct store_line *line, const struct kvtree_device *device, dev_t rdev,
		 const char *links)
{
	struct stat st;
	unsigned int i;

	if (line->by_uuid)
		return !memcmp(line->uuid, device->uuid, sizeof(line->uuid));
	for (i = 0; i < line->nr_paths; i++)
		if (has_word(links, line->paths[i]) ||
		    (!stat(line->paths[i], &st) && S_ISBLK(st.st_mode) && st.st_rdev == rdev))
			return true;
	return false;
}

struct seen {
	const struct kvtree_device *device;
	uint32_t indices;
};

static int see(const char *path, const struct kvtree_device *device, int err, void *arg)
{
	struct seen *seen = arg;

	(void)path;
	if (!err && !memcmp(device->uuid, seen->device->uuid, sizeof(device->uuid)))
		seen->indices |= 1u << device->index;
	return 0;
}

/**
 * devices_complete() - whether all devices of a store exist, at any path
 * @line: of the store
 * @device: one of them
 *
 * udev probes several at a time, and creates the links to a device after probing it.
 *
 * Return: true if they do
 */
bool devices_complete(const struct store_line *line, const struct kvtree_device *device)
{
	struct seen seen = { .device = device };
	struct device_set set;
	bool found;

	if (!line->by_uuid)
		return line->nr_paths == device->nr_devices && !devices_each(see, &seen) &&
		       seen.indices == (1u << device->nr_devices) - 1;
	/* A copy of a device does not count. */
	found = !devices_find(&set, line, true);
	devices_free(&set);
	return found;
}

/**
 * devices_free() - free the paths
 * @set: of devices_find()
 */
void devices_free(struct device_set *set)
{
	unsigned int i;

	for (i = 0; i < KVTREE_DEVICES_MAX; i++)
		free(set->paths[i]);
}
