// SPDX-License-Identifier: LGPL-2.1-only
/*
 * Two operation lists in progress at once: each is one operation of the ring, and
 * its own operations are executed in order.
 *
 * Shown in: kvtree_ring_ops(3)
 *
 * Prints:
 *	north: 10 of 10 stored
 *	south: 10 of 10 stored
 */
#include <err.h>
#include <kvtree.h>
#include <stdio.h>
#include <stdlib.h>

enum { KEYS = 10 };

static const char *const side[] = { "north", "south" };

static int key_of(int list, int number, char *key)
{
	return sprintf(key, "%s/%d", side[list], number);
}

static struct kvtree_ops *fill(int list)
{
	struct kvtree_ops *ops;
	char key[16];
	int err, i;

	err = kvtree_ops_new(&ops);
	for (i = 0; i < KEYS && err >= 0; i++)
		err = kvtree_ops_put(ops,
				     kvtree_slice(key,
						  key_of(list, i, key)),
				     kvtree_str("x"), 0);
	if (err < 0)
		errx(EXIT_FAILURE, "%s", kvtree_strerror(err));
	return ops;
}

static void report(int list, const struct kvtree_ops *ops)
{
	size_t i, stored = 0;

	for (i = 0; i < kvtree_ops_done(ops); i++)
		stored += kvtree_ops_result(ops, i) >= 0;
	printf("%s: %zu of %zu stored\n", side[list], stored,
	       kvtree_ops_count(ops));
}

int main(void)
{
	struct kvtree_ops *ops[2] = { fill(0), fill(1) };
	struct kvtree_event event[2];
	struct kvtree_ring *ring;
	struct kvtree *kv;
	int err, i, j, n;
	char key[16];

	err = kvtree_open(NULL, 0, &kv);
	if (!err)
		err = kvtree_ring_open(kv, NULL, &ring);
	for (i = 0; i < 2 && !err; i++)
		err = kvtree_ring_ops(ring, ops[i],
				      kvtree_as_event(ops[i]));
	if (err)
		errx(EXIT_FAILURE, "%s", kvtree_strerror(err));
	n = kvtree_ring_wait(ring, event, 2, 2, -1);
	for (i = 0; i < n; i++)
		if (event[i].result < 0)
			errx(EXIT_FAILURE, "%s",
			     kvtree_strerror(event[i].result));
	for (i = 0; i < 2; i++) {
		report(i, ops[i]);
		for (j = 0; j < KEYS; j++)
			kvtree_del(kv, kvtree_slice(key,
						    key_of(i, j, key)),
				   0, NULL);
		kvtree_ops_free(ops[i]);
	}
	kvtree_ring_close(ring);
	kvtree_close(kv);
	return n == 2 ? EXIT_SUCCESS : EXIT_FAILURE;
}
