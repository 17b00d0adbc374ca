// SPDX-License-Identifier: LGPL-2.1-only
/*
 * Two clients have operations in a ring, and one of them disconnects before it has
 * an answer. Its operations are canceled; each still has an event.
 *
 * Shown in: kvtree_ring_cancel(3), kvtree_as_event(3)
 *
 * Prints:
 *	2 canceled
 *	Ada: 1 done, 0 not
 *	Grace: 0 done, 2 not
 */
#include <err.h>
#include <errno.h>
#include <kvtree.h>
#include <stdio.h>
#include <stdlib.h>

struct client {
	const char *name;
	int done;
	int canceled;
};

static void count(const struct kvtree_event *event)
{
	struct client *client = event->data;

	if (!event->result)
		client->done++;
	else if (event->result == -ECANCELED)
		client->canceled++;
	else
		errx(EXIT_FAILURE, "%s", kvtree_strerror(event->result));
}

int main(void)
{
	struct client ada = { .name = "Ada" };
	struct client grace = { .name = "Grace" };
	struct kvtree_event event[3];
	struct kvtree_ring *ring;
	struct kvtree *kv;
	int err, i, n;

	err = kvtree_open(NULL, 0, &kv);
	if (!err)
		err = kvtree_ring_open(kv, NULL, &ring);
	if (!err)
		err = kvtree_ring_put(ring, kvtree_str("a"),
				      kvtree_str("1"), 0,
				      kvtree_as_event(&grace));
	if (!err)
		err = kvtree_ring_put(ring, kvtree_str("b"),
				      kvtree_str("2"), 0,
				      kvtree_as_event(&ada));
	if (!err)
		err = kvtree_ring_put(ring, kvtree_str("c"),
				      kvtree_str("3"), 0,
				      kvtree_as_event(&grace));
	if (err)
		errx(EXIT_FAILURE, "%s", kvtree_strerror(err));
	printf("%d canceled\n", kvtree_ring_cancel(ring, &grace));
	n = kvtree_ring_wait(ring, event, 3, 3, -1);
	if (n < 0)
		errx(EXIT_FAILURE, "%s", kvtree_strerror(n));
	for (i = 0; i < n; i++)
		count(&event[i]);
	printf("%s: %d done, %d not\n", ada.name, ada.done,
	       ada.canceled);
	printf("%s: %d done, %d not\n", grace.name, grace.done,
	       grace.canceled);
	kvtree_ring_close(ring);
	kvtree_del(kv, kvtree_str("b"), 0, NULL);
	kvtree_close(kv);
	return EXIT_SUCCESS;
}
