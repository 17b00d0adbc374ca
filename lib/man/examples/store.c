// SPDX-License-Identifier: LGPL-2.1-only
/*
 * Make a store of at most 1000 keys that its group may read, list all
 * stores, raise the limit to 2000 keys, and destroy it. Needs root.
 *
 * Shown in: kvtree_store_create(3), kvtree_store_set(3), kvtree_store_destroy(3),
 * kvtree_store_next(3), kvtree_store_self(3)
 *
 * Prints:
 *	default
 *	...
 *	sessions
 *	"sessions" has mode 0640 and 1 of 2000 keys
 */
#include <err.h>
#include <errno.h>
#include <kvtree.h>
#include <stdio.h>
#include <stdlib.h>

static int list(const struct kvtree *any)
{
	struct kvtree_store_info info = { 0 };
	int err;

	while (!(err = kvtree_store_next(any, &info, sizeof(info))))
		puts(info.name);
	return err == -ENOENT ? 0 : err;
}

static int use(const char *name)
{
	struct kvtree_store_info info;
	struct kvtree *kv;
	int err;

	err = kvtree_open(name, 0, &kv);
	if (err)
		return err;
	err = kvtree_put(kv, kvtree_str("user:1"), kvtree_str("Ada"), 0,
			 NULL);
	if (!err)
		err = kvtree_store_self(kv, &info, sizeof(info));
	if (!err)
		printf("\"%s\" has mode %04o and %llu of %llu keys\n",
		       info.name, info.mode,
		       (unsigned long long)info.keys,
		       (unsigned long long)info.limit_keys);
	kvtree_close(kv);
	return err;
}

int main(void)
{
	const struct kvtree_store_create args = {
		.name = "sessions",
		.mode = 0640,
		.limit_keys = 1000,
	};
	const struct kvtree_store_set more = {
		.name = "sessions",
		.set = KVTREE_SET_LIMIT_KEYS,
		.limit_keys = 2000,
	};
	struct kvtree *any;
	int err;

	err = kvtree_open(NULL, KVTREE_OPEN_READ, &any);
	if (!err)
		err = kvtree_store_create(any, &args, sizeof(args));
	if (err)
		errx(EXIT_FAILURE, "%s", kvtree_strerror(err));
	err = list(any);
	if (!err)
		err = kvtree_store_set(any, &more, sizeof(more));
	if (!err)
		err = use(args.name);
	if (!err)
		err = kvtree_store_destroy(any, args.name);
	if (err)
		errx(EXIT_FAILURE, "%s", kvtree_strerror(err));
	kvtree_close(any);
	return EXIT_SUCCESS;
}
