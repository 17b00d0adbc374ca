// SPDX-License-Identifier: LGPL-2.1-only
/*
 * Store two values and wait once until both are durable. A store that lives in
 * memory alone says so.
 *
 * Shown in: kvtree_sync(3)
 *
 * Prints:
 *	the store lives in memory alone
 */
#include <err.h>
#include <errno.h>
#include <kvtree.h>
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
	struct kvtree *kv;
	int err;

	err = kvtree_open(NULL, 0, &kv);
	if (!err)
		err = kvtree_put(kv, kvtree_str("debit"),
				 kvtree_str("100"), 0, NULL);
	if (!err)
		err = kvtree_put(kv, kvtree_str("credit"),
				 kvtree_str("100"), 0, NULL);
	if (!err)
		err = kvtree_sync(kv);
	if (err == -EOPNOTSUPP)
		puts("the store lives in memory alone");
	else if (err)
		errx(EXIT_FAILURE, "%s", kvtree_strerror(err));
	else
		puts("both are durable");
	kvtree_del(kv, kvtree_str("debit"), 0, NULL);
	kvtree_del(kv, kvtree_str("credit"), 0, NULL);
	kvtree_close(kv);
	return EXIT_SUCCESS;
}
