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
	struct kvtree_sum hits, first, second;
	struct kvtree *kv;
	int err;

	err = kvtree_open(NULL, 0, &kv);
	if (!err)
		err = kvtree_add(kv, kvtree_str("hits"), 0, 2, 0, NULL);
	if (!err)
		err = kvtree_add(kv, kvtree_str("hits"), 0, 40, 0,
				 &hits);
	if (!err)
		err = kvtree_add(kv, kvtree_str("next"), 0, 10, 0,
				 &first);
	if (!err)
		err = kvtree_add(kv, kvtree_str("next"), 0, 10, 0,
				 &second);
	if (err)
		errx(EXIT_FAILURE, "%s", kvtree_strerror(err));
	printf("%lld hits\n", (long long)hits.sum);
	printf("%lld to %lld are mine, %lld to %lld the next ones\n",
	       (long long)first.sum - 9, (long long)first.sum,
	       (long long)second.sum - 9, (long long)second.sum);
	kvtree_del(kv, kvtree_str("hits"), 0, NULL);
	kvtree_del(kv, kvtree_str("next"), 0, NULL);
	kvtree_close(kv);
	return EXIT_SUCCESS;
}
