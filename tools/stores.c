// SPDX-License-Identifier: GPL-2.0
/*
 * The file with the durable stores of the machine: kvtree-stores(5).
 */
#include <unistd.h>

#include "stores.h"

#define LINE_MAX_BYTES	4096
#define BLANKS		" \t"

static void __attribute__((format(printf, 3, 4)))
complain(struct stores *stores, unsigned int nr, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	stores->bad++;
	if (stores->quiet)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	warn("%s:%u: %s", stores->file, nr, text);
}

/* Names that the module and commands accept: these take "-" for an option. */
static bool name_valid(const char *name)
{
	return *name != '-' && strlen(name) < KVTREE_NAME_MAX && store_name_allowed(name);
}

/* NAME=VALUE, or NAME alone. */
static bool option_set(struct store_line *line, const char *name, const char *value)
{
	unsigned long long n = 0;

	if (!value) {
		if (!strcmp(name, "sync"))
			line->flags |= KVTREE_ATTACH_SYNC;
		else if (!strcmp(name, "noauto"))
			line->noauto = true;
		else
			return !strcmp(name, "defaults");
		return true;
	}
	if (!strcmp(name, "mode"))
		return mode_of(value, &line->store.mode);
	if (!strcmp(name, "owner"))
		return owner_of(false, value, &line->store.uid);
	if (!strcmp(name, "group"))
		return owner_of(true, value, &line->store.gid);
	if (!strcmp(name, "engine")) {
		if (strlen(value) >= sizeof(line->store.engine))
			return false;
		strcpy(line->store.engine, value);
		return true;
	}
	if (!size_of(value, &n))
		return false;
	if (!strcmp(name, "limit-bytes"))
		line->store.limit_bytes = n;
	else if (!strcmp(name, "limit-keys"))
		line->store.limit_keys = n;
	else if (!strcmp(name, "page-size") && n <= UINT32_MAX)
		line->store.page_size = (uint32_t)n;
	else
		return false;
	return true;
}

static bool parse_options(struct stores *stores, struct store_line *line, char *text)
{
	char *option, *value, *rest = text;

	while ((option = strsep(&rest, ","))) {
		if (!*option)
			continue;
		value = strchr(option, '=');
		if (value)
			*value++ = '\0';
		if (option_set(line, option, value))
			continue;
		complain(stores, line->nr, "unknown option or invalid value: '%.80s%s%.80s'",
			 option, value ? "=" : "", value ? value : "");
		return false;
	}
	return true;
}

static bool parse_devices(struct stores *stores, struct store_line *line, char *text)
{
	char *path, *rest = text;

	if (!strncmp(text, "UUID=", 5)) {
		line->by_uuid = true;
		if (uuid_parse(text + 5, line->uuid))
			return true;
		complain(stores, line->nr, "'%.80s' is not a UUID such as %s", text + 5,
			 "0f7a3ae6-2c1e-4f0b-9a57-6cb7c5f4ad10");
		return false;
	}
	while ((path = strsep(&rest, ","))) {
		if (*path != '/') {
			complain(stores, line->nr, "'%.80s' is neither UUID=... nor a path", path);
			return false;
		}
		if (line->nr_paths == KVTREE_DEVICES_MAX) {
			complain(stores, line->nr, "a store has at most %u devices",
				 KVTREE_DEVICES_MAX);
			return false;
		}
		line->paths[line->nr_paths] = strdup(path);
		if (!line->paths[line->nr_paths++])
			die("out of memory");
	}
	return true;
}

/* The next field of a line, or NULL. */
static char *field(char **at)
{
	char *start = *at + strspn(*at, BLANKS);

	if (!*start)
		return NULL;
	*at = start + strcspn(start, BLANKS);
	if (**at)
		*(*at)++ = '\0';
	return start;
}

static bool parse_line(struct stores *stores, struct store_line *line, char *text)
{
	char *at = text, *name = field(&at), *devices = field(&at), *options = field(&at);
	const struct store_line *same;

	if (!name_valid(name)) {
		complain(stores, line->nr, "'%.80s' is not a name: at most %u of %s", name,
			 KVTREE_NAME_MAX - 1, "letters, digits and . _ -");
		return false;
	}
	if (!devices || field(&at)) {
		complain(stores, line->nr, "a line has NAME, %s, and perhaps %s",
			 "UUID=... or DEVICE[,DEVICE...]", "OPTION[,OPTION...]");
		return false;
	}
	strcpy(line->store.name, name);
	line->store.mode = 0600;
	same = stores_find(stores, name);
	if (same) {
		complain(stores, line->nr, "line %u also has the store '%s'", same->nr, name);
		return false;
	}
	return parse_devices(stores, line, devices) &&
	       (!options || parse_options(stores, line, options));
}

static void line_free(struct store_line *line)
{
	unsigned int i;

	for (i = 0; i < line->nr_paths; i++)
		free(line->paths[i]);
}

static void take_line(struct stores *stores, unsigned int nr, char *text, size_t len)
{
	struct store_line line = { .nr = nr };
	char *at = text;

	if (strlen(text) != len || len > LINE_MAX_BYTES) {
		complain(stores, nr, len > LINE_MAX_BYTES ? "the line is too long" :
			 "the line has a zero byte");
		return;
	}
	text[strcspn(text, "\r\n")] = '\0';
	at += strspn(at, BLANKS);
	if (!*at || *at == '#')
		return;
	if (!parse_line(stores, &line, at)) {
		line_free(&line);
		return;
	}
	stores->line = alloc(stores->line, (stores->nr + 1) * sizeof(line));
	stores->line[stores->nr++] = line;
}

/**
 * stores_read() - read the file; prints messages about errors in it
 * @stores: filled with the valid lines; stores_free() must follow
 * @file: its path
 * @quiet: print no messages
 *
 * Return: 0, or a negative errno if it cannot be read
 */
int stores_read(struct stores *stores, const char *file, bool quiet)
{
	unsigned int nr = 0;
	char *text = NULL;
	size_t room = 0;
	ssize_t len;
	FILE *in;
	int err;

	*stores = (struct stores){ .file = file, .quiet = quiet };
	in = fopen(file, "re");
	if (!in) {
		err = -errno;
		if (!quiet)
			warn("%s: %s", file, err == -ENOENT ?
			     "no such file: see kvtree-stores(5)" : strerror(-err));
		return err;
	}
	while ((len = getline(&text, &room, in)) >= 0)
		take_line(stores, ++nr, text, (size_t)len);
	err = ferror(in) ? -EIO : 0;
	if (err && !quiet)
		warn("%s: cannot read it: %m", file);
	free(text);
	fclose(in);
	return err;
}

/**
 * stores_free() - free the lines
 * @stores: of stores_read()
 */
void stores_free(struct stores *stores)
{
	size_t i;

	for (i = 0; i < stores->nr; i++)
		line_free(&stores->line[i]);
	free(stores->line);
}

/**
 * stores_find() - the line of a store
 * @stores: of stores_read()
 * @name: the store's name
 *
 * Return: the line, or NULL
 */
const struct store_line *stores_find(const struct stores *stores, const char *name)
{
	size_t i;

	for (i = 0; i < stores->nr; i++)
		if (!strcmp(stores->line[i].store.name, name))
			return &stores->line[i];
	return NULL;
}
