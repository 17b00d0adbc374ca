// SPDX-License-Identifier: GPL-2.0
/*
 * Stores, and messages about failures.
 */
#include "tool.h"

#define KEY_SHOWN	80	/* bytes of a key in a message */

static void say(const char *fmt, va_list ap)
{
	/* Flush first, so that messages follow earlier output, also in a log. */
	fflush(stdout);
	fputs("kvtree: ", stderr);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
}

/**
 * warn() - print a message
 * @fmt: as for printf(), without the newline
 */
void warn(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(fmt, ap);
	va_end(ap);
}

/**
 * die() - print a message and exit with STATUS_ERROR
 * @fmt: as for printf(), without the newline
 */
void die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(fmt, ap);
	va_end(ap);
	exit(STATUS_ERROR);
}

/**
 * alloc() - realloc() that does not fail
 * @old: memory to enlarge, or NULL
 * @size: bytes
 *
 * Return: the memory
 */
void *alloc(void *old, size_t size)
{
	void *p = realloc(old, size ? size : 1);

	if (!p)
		die("out of memory");
	return p;
}

/**
 * open_store() - open the selected store; exits on failure
 * @flags: KVTREE_OPEN_READ, KVTREE_OPEN_WRITE
 *
 * Return: the session
 */
struct kvtree *open_store(unsigned int flags)
{
	struct kvtree *kv;
	int err;

	err = kvtree_open(tool.store, flags, &kv);
	switch (err) {
	case 0:
		return kv;
	case -ENODEV:
		die("cannot open /dev/kvtree: no such device: %s",
		    "is the module loaded? try: sudo modprobe kvtree");
	case -ENOENT:
		die("there is no store '%s': see kvtree store list",
		    tool.store);
	case -EACCES:
	case -EPERM:
		if (tool.store)
			die("cannot open the store '%s': %s (see kvtree store list)", tool.store,
			    "its owner and mode do not allow it");
		die("cannot open /dev/kvtree: permission denied: %s",
		    "its mode should be 0666 (see 60-kvtree.rules)");
	default:
		die("cannot open %s: %s", tool.store ? tool.store : "/dev/kvtree",
		    kvtree_strerror(err));
	}
}

/**
 * open_store_any() - open the store with any access that its mode allows; exits on failure
 *
 * Return: the session
 */
struct kvtree *open_store_any(void)
{
	static const unsigned int access[] = { KVTREE_OPEN_READ | KVTREE_OPEN_WRITE,
					       KVTREE_OPEN_READ };
	struct kvtree *kv;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(access); i++)
		if (!kvtree_open(tool.store, access[i], &kv))
			return kv;
	return open_store(KVTREE_OPEN_WRITE);
}

/**
 * store_info() - find a store in the list of all
 * @kv: any session
 * @name: its name
 * @si: filled, if found
 *
 * Return: whether it exists
 */
bool store_info(const struct kvtree *kv, const char *name, struct kvtree_store_info *si)
{
	*si = (struct kvtree_store_info){ 0 };
	while (!kvtree_store_next(kv, si, sizeof(*si)))
		if (!strcmp(si->name, name))
			return true;
	return false;
}

/**
 * put_flags() - print a store's flags
 * @out: the output
 * @si: the store
 */
void put_flags(FILE *out, const struct kvtree_store_info *si)
{
	static const struct {
		uint32_t flag;
		const char *name;
	} flags[] = {
		{ KVTREE_STORE_DURABLE, "durable" }, { KVTREE_STORE_SYNC, "sync" },
		{ KVTREE_STORE_READ_ONLY, "read-only" }, { KVTREE_STORE_ATTACHING, "attaching" },
		{ KVTREE_STORE_CHECKPOINTING, "checkpointing" }, { KVTREE_STORE_BPF, "bpf" },
	};
	const char *between = "";
	size_t i;

	for (i = 0; i < ARRAY_SIZE(flags); i++) {
		if (!(si->flags & flags[i].flag))
			continue;
		fprintf(out, "%s%s", between, flags[i].name);
		if (flags[i].flag == KVTREE_STORE_CHECKPOINTING && si->progress)
			fprintf(out, "=%u%%", si->progress);
		between = ",";
	}
	if (!*between)
		putc('-', out);
}

/**
 * reason() - why an operation failed
 * @err: a negative errno
 *
 * Return: kvtree_strerror(), or a more specific text
 */
const char *reason(int err)
{
	if (!tool.store && err == -EACCES)
		return "the default store is root's: try sudo, or another store with -s";
	if (!tool.store && err == -ESTALE)
		return "there is no default store: create it (kvtree store create default)";
	if (err == -ESTALE)
		return "the store was destroyed or detached";
	return kvtree_strerror(err);
}

/**
 * report() - report the outcome of an operation
 * @err: 0 or a negative errno
 * @what: the operation
 * @key: its key, or NULL
 *
 * Return: the exit status
 */
int report(int err, const char *what, const struct bytes *key)
{
	if (err >= 0)
		return STATUS_OK;
	fflush(stdout);
	fprintf(stderr, "kvtree: %s", what);
	if (key) {
		fputs(" '", stderr);
		put_bytes(stderr, key->data, key->len < KEY_SHOWN ? key->len : KEY_SHOWN);
		fputs(key->len > KEY_SHOWN ? "...'" : "'", stderr);
	}
	switch (err) {
	case -ENOENT:
		fputs(": not found\n", stderr);
		return STATUS_NOT;
	case -EEXIST:
		fputs(": it exists already\n", stderr);
		return STATUS_NOT;
	default:
		fprintf(stderr, ": %s\n", reason(err));
		return STATUS_ERROR;
	}
}
