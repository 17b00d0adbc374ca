// SPDX-License-Identifier: LGPL-2.1-only
/*
 * Move in a timetable of departures. The keys are times.
 *
 * Shown in: kvtree_cursor_seek(3), kvtree_cursor_prev(3),
 * kvtree_cursor_first(3), kvtree_cursor_last(3), kvtree_cursor_version(3)
 *
 * Prints:
 *	first: 06:12
 *	last: 21:45
 *	noon: 12:30
 *	before: 09:05
 *	unchanged since it was read
 */
#include <err.h>
#include <errno.h>
#include <kvtree.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const departure[] = {
	"06:12", "09:05", "12:30", "21:45",
};

static int show(const char *what, int err,
		const struct kvtree_cursor *cursor)
{
	const char *key;
	size_t len;

	if (err == -ENOENT) {
		printf("%s: none\n", what);
		return 0;
	}
	if (!err) {
		key = kvtree_cursor_key(cursor, &len);
		printf("%s: %.*s\n", what, (int)len, key);
	}
	return err;
}

/* A record may be read ahead: it may not be what is in the store now. */
static int compare(const struct kvtree *kv,
		   const struct kvtree_cursor *cursor)
{
	uint64_t version;
	const void *key;
	size_t len;
	int err;

	key = kvtree_cursor_key(cursor, &len);
	err = kvtree_get_into(kv, kvtree_slice(key, len), NULL, 0, NULL,
			      &version);
	if (!err)
		puts(version == kvtree_cursor_version(cursor) ?
		     "unchanged since it was read" : "changed");
	return err;
}

static int travel(const struct kvtree *kv)
{
	const struct kvtree_cursor_opts opts = {
		.size = sizeof(opts),
		.flags = KVTREE_CURSOR_KEYS_ONLY,
		.start = "00", .start_len = 2,
		.end = "24", .end_len = 2,
	};
	struct kvtree_cursor *c;
	int err;

	err = kvtree_cursor_open(kv, &opts, &c);
	if (err)
		return err;
	err = show("first", kvtree_cursor_first(c), c);
	if (!err)
		err = show("last", kvtree_cursor_last(c), c);
	if (!err)
		err = show("noon",
			   kvtree_cursor_seek(c, kvtree_str("12")), c);
	if (!err)
		err = show("before", kvtree_cursor_prev(c), c);
	if (!err)
		err = compare(kv, c);
	kvtree_cursor_close(c);
	return err;
}

int main(void)
{
	struct kvtree *kv;
	int err, i;

	err = kvtree_open(NULL, 0, &kv);
	for (i = 0; i < 4 && !err; i++)
		err = kvtree_put(kv, kvtree_slice(departure[i], 5),
				 kvtree_str(""), 0, NULL);
	if (!err)
		err = travel(kv);
	if (err)
		errx(EXIT_FAILURE, "%s", kvtree_strerror(err));
	for (i = 0; i < 4; i++)
		kvtree_del(kv, kvtree_slice(departure[i], 5), 0, NULL);
	kvtree_close(kv);
	return EXIT_SUCCESS;
}
