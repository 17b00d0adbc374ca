// SPDX-License-Identifier: LGPL-2.1-only
/*
 * A program checks for the errors that it expects by number, and prints all
 * others for its user.
 *
 * Shown in: kvtree_strerror(3)
 *
 * Prints:
 *	no cache: not found: no such key, store, device or file
 *	using the store "default"
 */
#include <err.h>
#include <errno.h>
#include <kvtree.h>
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
	const char *name = "cache";
	struct kvtree *kv;
	int err;

	err = kvtree_open(name, KVTREE_OPEN_READ, &kv);
	if (err == -ENOENT) {
		printf("no %s: %s\n", name, kvtree_strerror(err));
		name = "default";
		err = kvtree_open(name, KVTREE_OPEN_READ, &kv);
	}
	if (err)
		errx(EXIT_FAILURE, "%s: %s", name, kvtree_strerror(err));
	printf("using the store \"%s\"\n", name);
	kvtree_close(kv);
	return EXIT_SUCCESS;
}
