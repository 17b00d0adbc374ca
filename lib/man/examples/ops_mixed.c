// SPDX-License-Identifier: LGPL-2.1-only
/*
 * Operations of different kinds in one list. Each sees what those before it did,
 * and one that fails does not stop the next.
 *
 * Shown in: kvtree_ops_cas(3), kvtree_ops_del(3), kvtree_ops_add(3),
 * kvtree_ops_sum(3), kvtree_ops_version(3)
 *
 * Prints:
 *	lock taken
 *	not taken: the key has another version: read it again; or it was canceled
 *	3 visits
 *	lock released
 */
#include <err.h>
#include <kvtree.h>
#include <stdio.h>
#include <stdlib.h>

enum { TAKE, TAKE_AGAIN, COUNT, RELEASE, OPERATIONS };

int main(void)
{
	struct kvtree_ops *ops;
	struct kvtree *kv;
	int err;

	err = kvtree_open(NULL, 0, &kv);
	if (!err)
		err = kvtree_ops_new(&ops);
	if (err)
		errx(EXIT_FAILURE, "%s", kvtree_strerror(err));
	/* Version 0, a key that does not exist: one of them gets it. */
	kvtree_ops_cas(ops, kvtree_str("lock"), kvtree_str("me"), 0, 0);
	kvtree_ops_cas(ops, kvtree_str("lock"), kvtree_str("you"), 0, 0);
	kvtree_ops_add(ops, kvtree_str("visits"), 0, 3, 0);
	kvtree_ops_del(ops, kvtree_str("lock"), 0, 0);
	if (kvtree_ops_count(ops) != OPERATIONS)
		errx(EXIT_FAILURE, "no memory");
	err = kvtree_ops_run(ops, kv);
	if (err)
		errx(EXIT_FAILURE, "%s", kvtree_strerror(err));
	if (!kvtree_ops_result(ops, TAKE))
		puts("lock taken");
	err = kvtree_ops_result(ops, TAKE_AGAIN);
	if (err)
		printf("not taken: %s\n", kvtree_strerror(err));
	printf("%lld visits\n", (long long)kvtree_ops_sum(ops, COUNT));
	/* What was removed is what was stored. */
	if (kvtree_ops_version(ops, RELEASE) ==
	    kvtree_ops_version(ops, TAKE))
		puts("lock released");
	kvtree_del(kv, kvtree_str("visits"), 0, NULL);
	kvtree_ops_free(ops);
	kvtree_close(kv);
	return EXIT_SUCCESS;
}
