// SPDX-License-Identifier: LGPL-2.1-only
/*
 * Go through all keys that begin with "user:", the greatest first.
 *
 * Shown in: kvtree_cursor(3), kvtree_cursor_open(3), kvtree_cursor_close(3),
 * kvtree_cursor_next(3), kvtree_cursor_key(3), kvtree_cursor_value(3)
 *
 * Prints:
 *	user:3 Barbara
 *	user:2 Grace
 *	user:1 Ada
 */
#include <err.h>
#include <errno.h>
#include <kvtree.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int print_users(const struct kvtree *kv)
{
	const struct kvtree_cursor_opts opts = {
		.size = sizeof(opts),
		.flags = KVTREE_CURSOR_REVERSE,
		.prefix = "user:",
		.prefix_len = 5,
	};
	struct kvtree_cursor *cursor;
	size_t key_len, len;
	const char *key, *val;
	int err;

	err = kvtree_cursor_open(kv, &opts, &cursor);
	if (err)
		return err;
	while (!(err = kvtree_cursor_next(cursor))) {
		key = kvtree_cursor_key(cursor, &key_len);
		val = kvtree_cursor_value(cursor, &len);
		printf("%.*s %.*s\n", (int)key_len, key, (int)len, val);
	}
	kvtree_cursor_close(cursor);
	return err == -ENOENT ? 0 : err;
}

int main(void)
{
	static const char *const user[][2] = {
		{ "user:1", "Ada" }, { "user:2", "Grace" },
		{ "user:3", "Barbara" }, { "visits", "9" },
	};
	struct kvtree *kv;
	int err, i;

	err = kvtree_open(NULL, 0, &kv);
	for (i = 0; i < 4 && !err; i++)
		err = kvtree_put(kv, kvtree_slice(user[i][0], 6),
				 kvtree_str(user[i][1]), 0, NULL);
	if (!err)
		err = print_users(kv);
	if (err)
		errx(EXIT_FAILURE, "%s", kvtree_strerror(err));
	for (i = 0; i < 4; i++)
		kvtree_del(kv, kvtree_slice(user[i][0], 6), 0, NULL);
	kvtree_close(kv);
	return EXIT_SUCCESS;
}
