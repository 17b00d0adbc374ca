// SPDX-License-Identifier: LGPL-2.1-only
/*
 * Store many keys in one system call, then look them all up in another one,
 * together with one that does not exist.
 *
 * Shown in: kvtree_ops(3), kvtree_ops_new(3), kvtree_ops_free(3),
 * kvtree_ops_clear(3), kvtree_ops_get(3), kvtree_ops_put(3), kvtree_ops_run(3),
 * kvtree_ops_count(3), kvtree_ops_done(3), kvtree_ops_result(3),
 * kvtree_ops_value(3)
 *
 * Prints:
 *	3 of 3 stored
 *	red: ff0000
 *	green: 00ff00
 *	blue: 0000ff
 *	mauve: error 2
 */
#include <err.h>
#include <kvtree.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const color[][2] = {
	{ "red", "ff0000" }, { "green", "00ff00" }, { "blue", "0000ff" },
	{ "mauve", NULL },
};

static int store(const struct kvtree *kv, struct kvtree_ops *ops)
{
	size_t i, stored = 0;
	int n, err;

	for (i = 0; i < 3; i++) {
		n = kvtree_ops_put(ops, kvtree_str(color[i][0]),
				   kvtree_str(color[i][1]), 0);
		if (n < 0)
			return n;
	}
	err = kvtree_ops_run(ops, kv);
	for (i = 0; i < kvtree_ops_done(ops); i++)
		stored += kvtree_ops_result(ops, i) >= 0;
	printf("%zu of %zu stored\n", stored, kvtree_ops_count(ops));
	return err;
}

static int look_up(const struct kvtree *kv, struct kvtree_ops *ops)
{
	size_t i, len;
	const char *val;
	int n, err;

	kvtree_ops_clear(ops);
	for (i = 0; i < 4; i++) {
		n = kvtree_ops_get(ops, kvtree_str(color[i][0]), NULL,
				   100);
		if (n < 0)
			return n;
	}
	err = kvtree_ops_run(ops, kv);
	for (i = 0; i < kvtree_ops_done(ops); i++) {
		n = kvtree_ops_result(ops, i);
		val = kvtree_ops_value(ops, i, &len);
		if (val)
			printf("%s: %.*s\n", color[i][0], (int)len, val);
		else
			printf("%s: error %d\n", color[i][0], -n);
	}
	return err;
}

int main(void)
{
	struct kvtree_ops *ops;
	struct kvtree *kv;
	size_t i;
	int err;

	err = kvtree_open(NULL, 0, &kv);
	if (!err)
		err = kvtree_ops_new(&ops);
	if (!err)
		err = store(kv, ops);
	if (!err)
		err = look_up(kv, ops);
	if (err)
		errx(EXIT_FAILURE, "%s", kvtree_strerror(err));
	for (i = 0; i < 3; i++)
		kvtree_del(kv, kvtree_str(color[i][0]), 0, NULL);
	kvtree_ops_free(ops);
	kvtree_close(kv);
	return EXIT_SUCCESS;
}
