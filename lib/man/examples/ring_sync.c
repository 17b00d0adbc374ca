// SPDX-License-Identifier: LGPL-2.1-only
/*
 * Store many values at once, and after they have completed wait once until all
 * are durable.
 *
 * Shown in: kvtree_ring_sync(3)
 *
 * Prints:
 *	the store lives in memory alone
 */
#include <err.h>
#include <errno.h>
#include <kvtree.h>
#include <stdio.h>
#include <stdlib.h>

enum { KEYS = 64 };

/* What the operations have come to. */
static int wait_for_all(struct kvtree_ring *ring)
{
	struct kvtree_event event[KEYS];
	int i, n, err = 0;

	while (kvtree_ring_pending(ring) && !err) {
		n = kvtree_ring_wait(ring, event, KEYS, 1, -1);
		if (n < 0)
			return n;
		for (i = 0; i < n && !err; i++)
			err = event[i].result;
	}
	return err;
}

int main(void)
{
	struct kvtree_ring *ring;
	struct kvtree *kv;
	char key[8];
	int err, i;

	err = kvtree_open(NULL, 0, &kv);
	if (!err)
		err = kvtree_ring_open(kv, NULL, &ring);
	/* A key of up to 16 bytes is copied when it is queued. */
	for (i = 0; i < KEYS && !err; i++)
		err = kvtree_ring_put(ring,
				      kvtree_slice(key,
						   sprintf(key, "k%d",
							   i)),
				      kvtree_str("x"), 0,
				      kvtree_as_event(NULL));
	if (!err)
		err = wait_for_all(ring);
	if (!err)
		err = kvtree_ring_sync(ring, kvtree_as_event(NULL));
	if (!err)
		err = wait_for_all(ring);
	if (err == -EOPNOTSUPP)
		puts("the store lives in memory alone");
	else if (err)
		errx(EXIT_FAILURE, "%s", kvtree_strerror(err));
	else
		puts("all are durable");
	kvtree_ring_close(ring);
	for (i = 0; i < KEYS; i++)
		kvtree_del(kv, kvtree_slice(key, sprintf(key, "k%d", i)),
			   0, NULL);
	kvtree_close(kv);
	return EXIT_SUCCESS;
}
