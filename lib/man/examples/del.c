// SPDX-License-Identifier: LGPL-2.1-only
/*
 * Remove a key only if it has not changed: another process may have stored another
 * job under it meanwhile, which must not get lost.
 *
 * Shown in: kvtree_del(3)
 *
 * Prints:
 *	job: changed meanwhile
 *	job: removed
 *	job: gone already
 */
#include <err.h>
#include <errno.h>
#include <kvtree.h>
#include <stdio.h>
#include <stdlib.h>

static void finish(const struct kvtree *kv, uint64_t version)
{
	int err = kvtree_del(kv, kvtree_str("job"), KVTREE_F_VERSION,
			     &version);

	if (err == -ECANCELED)
		puts("job: changed meanwhile");
	else if (err == -ENOENT)
		puts("job: gone already");
	else if (err)
		errx(EXIT_FAILURE, "%s", kvtree_strerror(err));
	else
		puts("job: removed");
}

int main(void)
{
	uint64_t first, second;
	struct kvtree *kv;
	int err;

	err = kvtree_open(NULL, 0, &kv);
	if (!err)
		err = kvtree_put(kv, kvtree_str("job"),
				 kvtree_str("sweep"), 0, &first);
	if (!err)
		err = kvtree_put(kv, kvtree_str("job"),
				 kvtree_str("paint"), 0, &second);
	if (err)
		errx(EXIT_FAILURE, "%s", kvtree_strerror(err));
	finish(kv, first);
	finish(kv, second);
	finish(kv, second);
	kvtree_close(kv);
	return EXIT_SUCCESS;
}
