// SPDX-License-Identifier: LGPL-2.1-only
/*
 * A value with columns: change one of them and leave the others, then read all
 * there are, and then two by their ids.
 *
 * Shown in: kvtree_columns(3), kvtree_get_cols(3), kvtree_put_cols(3)
 *
 * Prints:
 *	all: 0=Kyoto 1=35.011 2=135.77
 *	some: 0=Kyoto 3 does not exist
 */
#include <err.h>
#include <kvtree.h>
#include <stdio.h>
#include <stdlib.h>

enum { NAME, LATITUDE, LONGITUDE, MAYOR };

static void print(const char *what, struct kvtree_columns *found)
{
	size_t i;

	printf("%s:", what);
	for (i = 0; i < found->nr; i++) {
		const struct kvtree_column *col = &found->col[i];

		if (col->len == KVTREE_COL_ABSENT)
			printf(" %u does not exist", col->id);
		else
			printf(" %u=%.*s", col->id, (int)col->len,
			       (const char *)col->data);
	}
	printf("\n");
	free(found);
}

int main(void)
{
	const struct kvtree_column city[] = {
		{ .id = NAME, .data = "Kyoto", .len = 5 },
		{ .id = LATITUDE, .data = "35.01", .len = 5 },
		{ .id = LONGITUDE, .data = "135.77", .len = 6 },
	};
	const struct kvtree_column change = {
		.id = LATITUDE, .data = "35.011", .len = 6,
	};
	const uint16_t wanted[] = { NAME, MAYOR };
	struct kvtree_columns *all, *some;
	struct kvtree *kv;
	int err;

	err = kvtree_open(NULL, 0, &kv);
	if (!err)
		err = kvtree_put_cols(kv, kvtree_str("city"), city, 3, 0,
				      NULL);
	if (!err)
		err = kvtree_put_cols(kv, kvtree_str("city"), &change, 1,
				      0, NULL);
	if (!err)
		err = kvtree_get_cols(kv, kvtree_str("city"), NULL, 0,
				      &all);
	if (!err)
		err = kvtree_get_cols(kv, kvtree_str("city"), wanted, 2,
				      &some);
	if (err)
		errx(EXIT_FAILURE, "%s", kvtree_strerror(err));
	print("all", all);
	print("some", some);
	kvtree_del(kv, kvtree_str("city"), 0, NULL);
	kvtree_close(kv);
	return EXIT_SUCCESS;
}
