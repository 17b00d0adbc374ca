// SPDX-License-Identifier: GPL-2.0
/*
 * Options of all commands, and arguments used by several.
 */
#include <ctype.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>

#include "tool.h"

static error_t parse_common(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case 's':
		tool.store = arg;
		tool.store_given = true;
		return 0;
	case 'j':
		tool.json = true;
		return 0;
	case 'x':
		tool.hex = true;
		return 0;
	case 'e':
		tool.escape = true;
		return 0;
	case '0' ... '9':
		argp_error(state, "unknown option '-%c': put -- before arguments like this",
			   key);
		return 0;
	case ARGP_KEY_END:
		if (tool.hex && tool.escape)
			argp_error(state, "--hex and --escape exclude each other");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

#define NO_OPTION(c)	{ .key = (c), .flags = OPTION_HIDDEN }

static const struct argp_option options[] = {
	{ .name = "store", .key = 's', .arg = "NAME",
	  .doc = "Use this store (default: $KVTREE_STORE, or \"default\")" },
	{ .name = "json", .key = 'j',
	  .doc = "Print JSON, an object per line; bytes that are not UTF-8 as NAME_hex" },
	{ .name = "hex", .key = 'x',
	  .doc = "Use hexadecimal for keys and values, in the arguments and in the output" },
	{ .name = "escape", .key = 'e',
	  .doc = "Arguments may hold \\t, \\n, \\r, \\\\ and \\xHH, as scan prints them" },
	/* Numbers are arguments. */
	NO_OPTION('0'), NO_OPTION('1'), NO_OPTION('2'), NO_OPTION('3'), NO_OPTION('4'),
	NO_OPTION('5'), NO_OPTION('6'), NO_OPTION('7'), NO_OPTION('8'), NO_OPTION('9'),
	{ 0 }
};

static const struct argp common_argp = {
	.options = options,
	.parser = parse_common,
};

const struct argp_child common_options[] = {
	{ .argp = &common_argp, .header = "Options of all commands:", .group = 100 },
	{ 0 }
};

/* Options without a letter. */
enum { OPT_LIMIT_BYTES = 256, OPT_LIMIT_KEYS, OPT_PAGE_SIZE };

static error_t parse_store(int key, char *arg, struct argp_state *state)
{
	struct store_args *args = state->input;
	struct kvtree_store_create *store = args->store;
	uint64_t size;

	/* Other keys are argp's own. */
	args->given |= key > ARGP_KEY_ARG && key < ARGP_KEY_END;
	switch (key) {
	case 'E':
		if (strlen(arg) >= sizeof(store->engine))
			argp_error(state, "unknown engine '%s' (masstree, bwtree)", arg);
		/* A repeated option replaces the first one. */
		memset(store->engine, 0, sizeof(store->engine));
		memcpy(store->engine, arg, strlen(arg));
		return 0;
	case OPT_PAGE_SIZE:
		size = arg_size(state, "--page-size", arg);
		if (!size || size > UINT32_MAX)
			argp_error(state, "invalid page size '%s'", arg);
		store->page_size = size;
		return 0;
	case 'm':
		store->mode = arg_mode(state, arg);
		args->set |= KVTREE_SET_MODE;
		return 0;
	case 'o':
		store->uid = arg_owner(state, false, arg);
		args->set |= KVTREE_SET_UID;
		return 0;
	case 'g':
		store->gid = arg_owner(state, true, arg);
		args->set |= KVTREE_SET_GID;
		return 0;
	case OPT_LIMIT_BYTES:
		store->limit_bytes = arg_size(state, "--limit-bytes", arg);
		args->set |= KVTREE_SET_LIMIT_BYTES;
		return 0;
	case OPT_LIMIT_KEYS:
		store->limit_keys = arg_size(state, "--limit-keys", arg);
		args->set |= KVTREE_SET_LIMIT_KEYS;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option of_store[] = {
	{ .name = "mode", .key = 'm', .arg = "MODE",
	  .doc = "Permissions, as for a file (0600)" },
	{ .name = "owner", .key = 'o', .arg = "USER", .doc = "The owner (you)" },
	{ .name = "group", .key = 'g', .arg = "GROUP", .doc = "The group (yours)" },
	{ .name = "limit-bytes", .key = OPT_LIMIT_BYTES, .arg = "N",
	  .doc = "Maximum memory; K, M, G and T are powers of 1024 (no limit)" },
	{ .name = "limit-keys", .key = OPT_LIMIT_KEYS, .arg = "N",
	  .doc = "Maximum number of keys (no limit)" },
	{ .name = "engine", .key = 'E', .arg = "masstree|bwtree",
	  .doc = "The index engine (the module's default, usually masstree)" },
	{ .name = "page-size", .key = OPT_PAGE_SIZE, .arg = "N",
	  .doc = "With bwtree: split a page at this many bytes, 256 to 16K (3072)" },
	{ 0 }
};

static const struct argp store_argp = {
	.options = of_store,
	.parser = parse_store,
};

/* The first child's input is a struct store_args. */
const struct argp_child store_options[] = {
	{ .argp = &store_argp },
	{ .argp = &common_argp, .header = "Options of all commands:", .group = 100 },
	{ 0 }
};

static const struct argp_option to_set[] = {
	{ .name = "mode", .key = 'm', .arg = "MODE",
	  .doc = "Permissions, as for a file" },
	{ .name = "owner", .key = 'o', .arg = "USER", .doc = "The owner" },
	{ .name = "group", .key = 'g', .arg = "GROUP", .doc = "The group" },
	{ .name = "limit-bytes", .key = OPT_LIMIT_BYTES, .arg = "N",
	  .doc = "Maximum memory; K, M, G and T are powers of 1024; 0: no limit" },
	{ .name = "limit-keys", .key = OPT_LIMIT_KEYS, .arg = "N",
	  .doc = "Maximum number of keys; 0: no limit" },
	{ 0 }
};

static const struct argp set_argp = {
	.options = to_set,
	.parser = parse_store,
};

/* The same for an existing store. */
const struct argp_child set_options[] = {
	{ .argp = &set_argp },
	{ .argp = &common_argp, .header = "Options of all commands:", .group = 100 },
	{ 0 }
};

/**
 * arg_store_name() - the name of a store, for the kernel
 * @state: the parser's state
 * @name: set
 * @arg: the argument
 *
 * Exits if it is too long.
 */
void arg_store_name(struct argp_state *state, char name[KVTREE_NAME_MAX], const char *arg)
{
	if (strlen(arg) >= KVTREE_NAME_MAX)
		argp_error(state, "a name has at most %u bytes", KVTREE_NAME_MAX - 1);
	memcpy(name, arg, strlen(arg));
}

/**
 * store_name_allowed() - whether the module accepts a name for a store
 * @name: the name
 *
 * Return: true if so, unless it is too long
 */
bool store_name_allowed(const char *name)
{
	const char *c;

	for (c = name; *c; c++)
		if (!strchr("._-", *c) && !(isascii(*c) && isalnum(*c)))
			return false;
	return *name && strcmp(name, ".") && strcmp(name, "..");
}

/**
 * say_store_wrong() - explain why the module refused to create a store
 * @what: the command
 * @store: the store
 *
 * Return: whether the reason is known
 */
bool say_store_wrong(const char *what, const struct kvtree_store_create *store)
{
	bool bwtree = !strcmp(store->engine, "bwtree");

	if (!store_name_allowed(store->name))
		warn("%s '%s': invalid name: use letters, digits, dots, hyphens and underscores",
		     what, store->name);
	else if (*store->engine && !bwtree && strcmp(store->engine, "masstree"))
		warn("%s '%s': unknown engine '%s' (masstree, bwtree)", what,
		     store->name, store->engine);
	else if (store->page_size)
		warn("%s '%s': no pages of %u bytes: bwtree has 256 bytes to 16K, masstree none",
		     what, store->name, store->page_size);
	else
		return false;
	return true;
}

/**
 * parse() - parse a command's arguments; exits on wrong usage
 * @argp: the command's parser
 * @argc: number of arguments
 * @argv: the arguments
 * @input: passed to the parser
 *
 * Return: 0
 */
int parse(const struct argp *argp, int argc, char **argv, void *input)
{
	error_t err = argp_parse(argp, argc, argv, 0, NULL, input);

	if (err) {
		warn("cannot parse the arguments: %s", strerror(err));
		exit(STATUS_USAGE);
	}
	return 0;
}

/**
 * arg_bytes() - a key or value from the command line; exits if it is not one
 * @state: the parser's state
 * @what: its name in messages
 * @arg: the argument
 *
 * Return: the bytes, possibly in the memory of @arg
 */
struct bytes arg_bytes(struct argp_state *state, const char *what, const char *arg)
{
	struct bytes b = { .data = (char *)arg, .len = strlen(arg) };
	const char *bad = NULL;

	if (tool.hex || tool.escape) {
		b.data = alloc(NULL, b.len + 1);
		memcpy(b.data, arg, b.len + 1);
		bad = tool.hex ? take_hex(b.data, &b.len) : take_text(b.data, &b.len);
	}
	if (bad)
		argp_error(state, "%s '%s': %s", what, arg, bad);
	return b;
}

/**
 * number_base() - the base of a number in text
 * @digits: the text, after a sign
 *
 * Return: 16 after 0x, or 10, also after leading zeros
 */
int number_base(const char *digits)
{
	return digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X') ? 16 : 10;
}

/**
 * arg_number() - a number from the command line; exits if it is not one
 * @state: the parser's state
 * @what: its name in messages
 * @arg: the argument
 * @max: the greatest number allowed
 *
 * Return: the number
 */
unsigned long long arg_number(struct argp_state *state, const char *what,
			      const char *arg, unsigned long long max)
{
	unsigned long long n;
	char *end;

	errno = 0;
	n = strtoull(arg, &end, number_base(arg));
	if (*arg < '0' || *arg > '9' || *end || errno || n > max)
		argp_error(state, "%s '%s' is not a number from 0 to %llu", what, arg, max);
	return n;
}

/**
 * size_of() - a number that may end with K, M, G or T (powers of 1024)
 * @text: what the user wrote
 * @size: the number
 *
 * Return: whether it is such a number
 */
bool size_of(const char *text, unsigned long long *size)
{
	static const char units[] = "KMGT";
	unsigned long long n;
	const char *unit;
	unsigned int shift = 0;
	char *end;

	errno = 0;
	n = strtoull(text, &end, number_base(text));
	if (end != text && *end) {
		unit = strchr(units, *end);
		if (unit) {
			shift = 10 * (unsigned int)(unit - units + 1);
			end++;
		}
	}
	if (*text < '0' || *text > '9' || *end || errno || n > ULLONG_MAX >> shift)
		return false;
	*size = n << shift;
	return true;
}

/**
 * arg_size() - size_of() an argument
 * @state: the parser's state
 * @what: its name in messages
 * @arg: the argument
 *
 * Exits if it is not one.
 *
 * Return: the number
 */
unsigned long long arg_size(struct argp_state *state, const char *what, const char *arg)
{
	unsigned long long n = 0;

	if (!size_of(arg, &n))
		argp_error(state, "%s '%s' is not a number such as 1000000, 64K, 10M or 2G",
			   what, arg);
	return n;
}

/**
 * arg_column() - the id of a column from the command line
 * @state: the parser's state
 * @arg: the argument
 *
 * Exits if it is not one.
 *
 * Return: the id
 */
uint16_t arg_column(struct argp_state *state, const char *arg)
{
	return (uint16_t)arg_number(state, "column", arg, KVTREE_COLS_MAX - 1);
}

/**
 * arg_columns() - ids of columns from the command line, separated by commas
 * @state: the parser's state
 * @want: set for each of them
 * @arg: the argument, which is changed
 *
 * Exits if one is not an id.
 */
void arg_columns(struct argp_state *state, bool want[KVTREE_COLS_MAX], char *arg)
{
	char *id;

	while ((id = strsep(&arg, ",")))
		want[arg_column(state, id)] = true;
}

/**
 * column_ids() - the wanted ids, in ascending order
 * @want: by id
 * @ids: filled
 *
 * Return: their number
 */
size_t column_ids(const bool want[KVTREE_COLS_MAX], uint16_t ids[KVTREE_COLS_MAX])
{
	size_t i, nr = 0;

	for (i = 0; i < KVTREE_COLS_MAX; i++)
		if (want[i])
			ids[nr++] = (uint16_t)i;
	return nr;
}

/**
 * file_bytes() - all bytes of a file, as a value
 * @path: the file, "-" for standard input
 *
 * Exits if it cannot be read or is too long for a value.
 *
 * Return: the bytes
 */
struct bytes file_bytes(const char *path)
{
	struct bytes b = { .data = alloc(NULL, KVTREE_VALUE_MAX + 1) };
	FILE *file = strcmp(path, "-") ? fopen(path, "re") : stdin;

	if (!file)
		die("cannot open %s: %m", path);
	b.len = fread(b.data, 1, KVTREE_VALUE_MAX + 1, file);
	if (ferror(file))
		die("cannot read %s: %m", path);
	if (b.len > KVTREE_VALUE_MAX)
		die("%s is too long: a value has at most %u bytes",
		    file == stdin ? "standard input" : path, KVTREE_VALUE_MAX);
	if (file != stdin)
		fclose(file);
	return b;
}

/**
 * owner_of() - the id of a user or group, or the number itself
 * @group: a group
 * @text: what the user wrote
 * @id: the id
 *
 * Return: whether it exists
 */
bool owner_of(bool group, const char *text, uint32_t *id)
{
	const struct passwd *pw = group ? NULL : getpwnam(text);
	const struct group *gr = group ? getgrnam(text) : NULL;
	char *end;
	unsigned long n;

	if (pw || gr) {
		*id = pw ? pw->pw_uid : gr->gr_gid;
		return true;
	}
	errno = 0;
	n = strtoul(text, &end, 10);
	if (*text < '0' || *text > '9' || *end || errno || n >= UINT32_MAX)
		return false;
	*id = (uint32_t)n;
	return true;
}

/**
 * arg_owner() - owner_of() an argument
 * @state: argp's
 * @group: a group
 * @arg: what the user wrote
 *
 * Exits if it does not exist.
 *
 * Return: the id
 */
uint32_t arg_owner(struct argp_state *state, bool group, const char *arg)
{
	uint32_t id = 0;

	if (!owner_of(group, arg, &id))
		argp_error(state, "no such %s: '%s'", group ? "group" : "user", arg);
	return id;
}

/**
 * owner_name() - the name of a user or group
 * @group: a group
 * @id: its id
 *
 * Return: the name, or the number if there is no name; valid until the next call
 */
const char *owner_name(bool group, uint32_t id)
{
	static char number[16];
	struct passwd *user = group ? NULL : getpwuid(id);
	struct group *g = group ? getgrgid(id) : NULL;

	if (user)
		return user->pw_name;
	if (g)
		return g->gr_name;
	snprintf(number, sizeof(number), "%u", id);
	return number;
}

/**
 * mode_of() - read and write bits
 * @text: what the user wrote
 * @mode: the mode
 *
 * Return: whether it is a mode
 */
bool mode_of(const char *text, uint32_t *mode)
{
	unsigned long n;
	char *end;

	errno = 0;
	n = strtoul(text, &end, 8);
	if (*text < '0' || *text > '7' || *end || errno || n & ~0666ul)
		return false;
	*mode = (uint32_t)n;
	return true;
}

/**
 * arg_mode() - mode_of() an argument
 * @state: argp's
 * @arg: what the user wrote
 *
 * Exits if it is not one.
 *
 * Return: the mode
 */
uint32_t arg_mode(struct argp_state *state, const char *arg)
{
	uint32_t mode = 0;

	if (!mode_of(arg, &mode))
		argp_error(state, "'%s' is not an octal mode of read and write bits such as 0640",
			   arg);
	return mode;
}
