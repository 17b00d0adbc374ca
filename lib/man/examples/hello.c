// SPDX-License-Identifier: LGPL-2.1-only
/*
 * Store a value, look it up, and say what went wrong if something did.
 *
 * Shown in: libkvtree(3), kvtree_open(3), kvtree_close(3), kvtree_put(3),
 * kvtree_get(3), kvtree_str(3)
 *
 * Prints:
 *	world, 5 bytes
 */
#include <err.h>
#include <kvtree.h>
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
	struct kvtree *kv;
	size_t len;
	void *val;
	int err;

	err = kvtree_open(NULL, 0, &kv);
	if (!err)
		err = kvtree_put(kv, kvtree_str("hello"),
				 kvtree_str("world"), 0, NULL);
	if (!err)
		err = kvtree_get(kv, kvtree_str("hello"), &val, &len,
				 NULL);
	if (err)
		errx(EXIT_FAILURE, "%s", kvtree_strerror(err));
	printf("%s, %zu bytes\n", (char *)val, len);
	free(val);
	kvtree_del(kv, kvtree_str("hello"), 0, NULL);
	kvtree_close(kv);
	return EXIT_SUCCESS;
}
