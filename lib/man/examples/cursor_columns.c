// SPDX-License-Identifier: LGPL-2.1-only
/*
 * Go through the values of a range and read only one of their columns.
 *
 * Shown in: kvtree_cursor_columns(3)
 *
 * Prints:
 *	peak/1: 3776
 *	peak/2: height unknown
 */
#include <err.h>
#include <errno.h>
#include <kvtree.h>
#include <stdio.h>
#include <stdlib.h>

enum { NAME, HEIGHT };

static int print_heights(const struct kvtree *kv)
{
	const uint16_t ids[] = { HEIGHT };
	const struct kvtree_cursor_opts opts = {
		.size = sizeof(opts),
		.prefix = "peak/", .prefix_len = 5,
		.cols = ids, .ncols = 1,
	};
	const struct kvtree_columns *cols;
	struct kvtree_cursor *cursor;
	const char *key;
	size_t len;
	int err;

	err = kvtree_cursor_open(kv, &opts, &cursor);
	if (err)
		return err;
	while (!(err = kvtree_cursor_next(cursor))) {
		key = kvtree_cursor_key(cursor, &len);
		cols = kvtree_cursor_columns(cursor);
		if (cols->nr)
			printf("%.*s: %.*s\n", (int)len, key,
			       (int)cols->col[0].len,
			       (const char *)cols->col[0].data);
		else
			printf("%.*s: height unknown\n", (int)len, key);
	}
	kvtree_cursor_close(cursor);
	return err == -ENOENT ? 0 : err;
}

int main(void)
{
	const struct kvtree_column fuji[] = {
		{ .id = NAME, .data = "Fuji", .len = 4 },
		{ .id = HEIGHT, .data = "3776", .len = 4 },
	};
	const struct kvtree_column none = {
		.id = NAME, .data = "Nameless", .len = 8,
	};
	struct kvtree *kv;
	int err;

	err = kvtree_open(NULL, 0, &kv);
	if (!err)
		err = kvtree_put_cols(kv, kvtree_str("peak/1"), fuji, 2,
				      0, NULL);
	if (!err)
		err = kvtree_put_cols(kv, kvtree_str("peak/2"), &none, 1,
				      0, NULL);
	if (!err)
		err = print_heights(kv);
	if (err)
		errx(EXIT_FAILURE, "%s", kvtree_strerror(err));
	kvtree_del(kv, kvtree_str("peak/1"), 0, NULL);
	kvtree_del(kv, kvtree_str("peak/2"), 0, NULL);
	kvtree_close(kv);
	return EXIT_SUCCESS;
}
