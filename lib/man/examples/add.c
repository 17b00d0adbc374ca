// SPDX-License-Identifier: LGPL-2.1-only
/*
 * Count in one call, also from several processes at once, without losing counts;
 * and hand out unique numbers.
 *
 * Shown in: kvtree_add(3)
 *
 * Prints:
 *	42 hits
 *	1 to 10 are mine, 11 to 20 the next ones
 */
#include <err.h>
#include <kvtree.h>
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
	int64_t hits, first, second;
	struct kvtree *kv;
	int err;

	err = kvtree_open(NULL, 0, &kv);
	if (!err)
		err = kvtree_add(kv, "hits", 4, 0, 2, 0, NULL, NULL);
	if (!err)
		err = kvtree_add(kv, "hits", 4, 0, 40, 0, &hits, NULL);
	if (!err)
		err = kvtree_add(kv, "next", 4, 0, 10, 0, &first, NULL);
	if (!err)
		err = kvtree_add(kv, "next", 4, 0, 10, 0, &second, NULL);
	if (err)
		errx(EXIT_FAILURE, "%s", kvtree_strerror(err));
	printf("%lld hits\n", (long long)hits);
	printf("%lld to %lld are mine, %lld to %lld the next ones\n",
	       (long long)first - 9, (long long)first,
	       (long long)second - 9, (long long)second);
	kvtree_del(kv, "hits", 4, 0, NULL);
	kvtree_del(kv, "next", 4, 0, NULL);
	kvtree_close(kv);
	return EXIT_SUCCESS;
}
