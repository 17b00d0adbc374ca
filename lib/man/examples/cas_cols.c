// SPDX-License-Identifier: LGPL-2.1-only
/*
 * Move an order to its next state, with a time, in one step; but only if the order
 * has not changed since it was read. Other columns stay.
 *
 * Shown in: kvtree_cas_cols(3)
 *
 * Prints:
 *	shipped
 *	not shipped: the order has changed
 */
#include <err.h>
#include <errno.h>
#include <kvtree.h>
#include <stdio.h>
#include <stdlib.h>

enum { ARTICLE, STATE, SINCE };

static void ship(const struct kvtree *kv, uint64_t version)
{
	const struct kvtree_column cols[] = {
		{ .id = STATE, .data = "shipped", .len = 7 },
		{ .id = SINCE, .data = "monday", .len = 6 },
	};
	int err;

	err = kvtree_cas_cols(kv, kvtree_str("order:17"), cols, 2, 0,
			      &version);
	if (err == -ECANCELED)
		puts("not shipped: the order has changed");
	else if (err)
		errx(EXIT_FAILURE, "%s", kvtree_strerror(err));
	else
		puts("shipped");
}

int main(void)
{
	const struct kvtree_column order[] = {
		{ .id = ARTICLE, .data = "lamp", .len = 4 },
		{ .id = STATE, .data = "paid", .len = 4 },
	};
	struct kvtree *kv;
	uint64_t version;
	int err;

	err = kvtree_open(NULL, 0, &kv);
	if (!err)
		err = kvtree_put_cols(kv, kvtree_str("order:17"), order,
				      2, 0, &version);
	if (err)
		errx(EXIT_FAILURE, "%s", kvtree_strerror(err));
	ship(kv, version);
	ship(kv, version);
	kvtree_del(kv, kvtree_str("order:17"), 0, NULL);
	kvtree_close(kv);
	return EXIT_SUCCESS;
}
