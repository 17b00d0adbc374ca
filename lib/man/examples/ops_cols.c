// SPDX-License-Identifier: LGPL-2.1-only
/*
 * Store values with columns, and read them, in one system call. The second value
 * lacks a column.
 *
 * Shown in: kvtree_ops_put_cols(3), kvtree_ops_get_cols(3),
 * kvtree_ops_columns(3)
 *
 * Prints:
 *	desk: 0=oak 1=75
 *	lamp: 0=brass 1 does not exist
 */
#include <err.h>
#include <kvtree.h>
#include <stdio.h>
#include <stdlib.h>

enum { MATERIAL, HEIGHT };

static void print(const char *key, const struct kvtree_columns *cols)
{
	size_t i;

	printf("%s:", key);
	for (i = 0; cols && i < cols->nr; i++) {
		if (cols->col[i].len == KVTREE_COL_ABSENT)
			printf(" %u does not exist", cols->col[i].id);
		else
			printf(" %u=%.*s", cols->col[i].id,
			       (int)cols->col[i].len,
			       (const char *)cols->col[i].data);
	}
	printf("\n");
}

int main(void)
{
	const struct kvtree_column desk[] = {
		{ .id = MATERIAL, .data = "oak", .len = 3 },
		{ .id = HEIGHT, .data = "75", .len = 2 },
	};
	const struct kvtree_column lamp = {
		.id = MATERIAL, .data = "brass", .len = 5,
	};
	const uint16_t ids[] = { MATERIAL, HEIGHT };
	struct kvtree_ops *ops;
	struct kvtree *kv;
	int err, first, second;

	err = kvtree_open(NULL, 0, &kv);
	if (!err)
		err = kvtree_ops_new(&ops);
	if (err)
		errx(EXIT_FAILURE, "%s", kvtree_strerror(err));
	kvtree_ops_put_cols(ops, kvtree_str("desk"), desk, 2, 0);
	kvtree_ops_put_cols(ops, kvtree_str("lamp"), &lamp, 1, 0);
	first = kvtree_ops_get_cols(ops, kvtree_str("desk"), ids, 2,
				    100);
	second = kvtree_ops_get_cols(ops, kvtree_str("lamp"), ids, 2,
				     100);
	if (first < 0 || second < 0)
		errx(EXIT_FAILURE, "%s", kvtree_strerror(second));
	err = kvtree_ops_run(ops, kv);
	if (err)
		errx(EXIT_FAILURE, "%s", kvtree_strerror(err));
	print("desk", kvtree_ops_columns(ops, first));
	print("lamp", kvtree_ops_columns(ops, second));
	kvtree_del(kv, kvtree_str("desk"), 0, NULL);
	kvtree_del(kv, kvtree_str("lamp"), 0, NULL);
	kvtree_ops_free(ops);
	kvtree_close(kv);
	return EXIT_SUCCESS;
}
