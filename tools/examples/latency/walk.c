// SPDX-License-Identifier: GPL-2.0
/*
 * Walk through the store: for one file, a range of keys; for all files, a range for each one, with
 * a seek to the next.
 */
#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>

#include "tool.h"

#define SECOND	1000000000ull

const struct argp_option walk_options[] = {
	{ .name = "since", .key = 'S', .arg = "TIME",
	  .doc = "Only calls that ended at TIME or later: seconds ago, or @SECONDS since 1970" },
	{ .name = "until", .key = 'U', .arg = "TIME", .doc = "Only calls that ended before TIME" },
	{ .name = "json", .key = 'j', .doc = "Print JSON, an object per line" },
	{ 0 }
};

/* Parse seconds with up to nine decimal places, and convert them to nanoseconds. */
static bool parse_seconds(const char *text, uint64_t *ns)
{
	const char *point = strchr(text, '.');
	char whole[16], rest[10] = "000000000";
	uint64_t n, fraction = 0;
	size_t digits;

	snprintf(whole, sizeof(whole), "%.*s", point ? (int)(point - text) : 15, text);
	if (point) {
		digits = strlen(point + 1);
		if (!digits || digits > 9)
			return false;
		memcpy(rest, point + 1, digits);
		if (!parse_number(rest, SECOND - 1, &fraction))
			return false;
	}
	if (!parse_number(whole, UINT64_MAX / SECOND - 1, &n))
		return false;
	*ns = n * SECOND + fraction;
	return true;
}

static bool parse_time(const char *text, uint64_t *ns)
{
	struct timespec ts;
	uint64_t now;

	if (*text == '@')
		return parse_seconds(text + 1, ns);
	clock_gettime(CLOCK_REALTIME, &ts);
	now = (uint64_t)ts.tv_sec * SECOND + (uint64_t)ts.tv_nsec;
	if (!parse_seconds(text, ns) || *ns > now)
		return false;
	*ns = now - *ns;
	return true;
}

/**
 * parse_walk() - parse options and argument of a command that walks through the store
 * @key: argp's
 * @arg: argp's
 * @state: argp's; its input is a struct walk
 *
 * Return: 0 or ARGP_ERR_UNKNOWN
 */
error_t parse_walk(int key, char *arg, struct argp_state *state)
{
	struct walk *walk = state->input;

	switch (key) {
	case 'S':
		if (!parse_time(arg, &walk->since))
			argp_error(state, "--since '%s' is not a time such as 60 or @1700000000.5",
				   arg);
		return 0;
	case 'U':
		if (!parse_time(arg, &walk->until))
			argp_error(state, "--until '%s' is not a time such as 60 or @1700000000.5",
				   arg);
		return 0;
	case 'j':
		walk->json = true;
		return 0;
	case ARGP_KEY_INIT:
		walk->until = UINT64_MAX;
		return 0;
	case ARGP_KEY_ARG:
		if (walk->file)
			argp_error(state, "one file, or none for all");
		walk->file = arg;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* Find a file by its path, or by DEVICE:INODE as printed by "files" if it is gone. */
static struct lat_file find_file(const char *text)
{
	unsigned int major, minor;
	struct stat st;
	uint64_t ino;
	int end = 0;

	if (sscanf(text, "%u:%u:%" SCNu64 "%n", &major, &minor, &ino, &end) == 3 && !text[end])
		return (struct lat_file){ htobe32(major << 20 | minor), htobe64(ino) };
	if (stat(text, &st))
		die("%s: %m", text);
	return (struct lat_file){ htobe32(major(st.st_dev) << 20 | minor(st.st_dev)),
				  htobe64(st.st_ino) };
}

struct place {
	const struct walk *walk;
	struct kvtree_cursor *cursor;
	struct seen seen;
	char name[LAT_NAME];
};

static int seek(struct place *p, const struct lat_file *file, uint64_t time)
{
	struct lat_key key = { *file, htobe64(time), 0 };

	return kvtree_cursor_seek(p->cursor, kvtree_slice(&key, sizeof(key)));
}

/* Start with a file: read its calls, from the given time on. */
static int begin_file(struct place *p, const void *key, size_t len)
{
	const void *name = "";
	struct lat_file file;
	size_t name_len = 0;

	memcpy(&file, key, sizeof(file));
	p->seen.dev = be32toh(file.dev);
	p->seen.ino = be64toh(file.ino);
	if (len == sizeof(file))
		name = kvtree_cursor_value(p->cursor, &name_len);
	if (name_len >= sizeof(p->name))
		name_len = sizeof(p->name) - 1;
	memcpy(p->name, name, name_len);
	p->name[name_len] = 0;
	return seek(p, &file, p->walk->since);
}

static int step(struct place *p, void (*one)(const struct seen *seen, void *arg), void *arg)
{
	struct lat_key key;
	const void *val;
	size_t len;

	val = kvtree_cursor_key(p->cursor, &len);
	if (len != sizeof(key) && len != sizeof(key.file))
		return kvtree_cursor_next(p->cursor);
	memcpy(&key, val, len);
	if (len != sizeof(key) || be32toh(key.file.dev) != p->seen.dev ||
	    be64toh(key.file.ino) != p->seen.ino)
		return begin_file(p, &key, len);
	p->seen.time = be64toh(key.time);
	if (p->seen.time >= p->walk->until)
		return seek(p, &key.file, UINT64_MAX);
	val = kvtree_cursor_value(p->cursor, &len);
	if (len == sizeof(p->seen.call)) {
		memcpy(&p->seen.call, val, len);
		one(&p->seen, arg);
	}
	return kvtree_cursor_next(p->cursor);
}

/**
 * walk() - call a function for each call of a file, or of all files
 * @walk: the file and the interval
 * @one: called for each
 * @arg: passed to it
 *
 * Exits if the store cannot be read.
 */
void walk(const struct walk *walk, void (*one)(const struct seen *seen, void *arg), void *arg)
{
	struct kvtree_cursor_opts opts = { .size = sizeof(opts) };
	struct kvtree *kv = store_open(STORE);
	struct place p = { .walk = walk };
	struct lat_file file;
	int err;

	if (!kv)
		die("nothing was recorded yet: latency record");
	if (walk->file) {
		file = find_file(walk->file);
		opts.prefix = &file;
		opts.prefix_len = sizeof(file);
	}
	p.seen.name = p.name;
	err = kvtree_cursor_open(kv, &opts, &p.cursor);
	if (!err)
		err = kvtree_cursor_next(p.cursor);
	while (!err)
		err = step(&p, one, arg);
	kvtree_cursor_close(p.cursor);
	kvtree_close(kv);
	if (err != -ENOENT)
		die("cannot read the store: %s", kvtree_strerror(err));
}

/**
 * walk_warn() - print how many calls are missing
 */
void walk_warn(void)
{
	struct kvtree *kv = store_open(STORE);
	uint64_t dropped = store_counter(kv, KVTREE_STAT_BPF_POST_DROP);
	uint64_t failed = store_counter(kv, KVTREE_STAT_BPF_POST_FAIL);

	kvtree_close(kv);
	if (dropped || failed)
		warn("since the store was created %" PRIu64 " were dropped, %" PRIu64 " not stored",
		     dropped, failed);
}
