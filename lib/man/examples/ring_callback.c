// SPDX-License-Identifier: LGPL-2.1-only
/*
 * A job in steps: the callback of each step begins the next one. Many such jobs
 * could be in progress at once.
 *
 * Shown in: kvtree_ring_put(3), kvtree_ring_cas(3), kvtree_ring_add(3),
 * kvtree_ring_del(3), kvtree_ring_pending(3), kvtree_callback(3)
 *
 * Prints:
 *	opened
 *	sealed
 *	1 sealed so far
 *	sent
 */
#include <err.h>
#include <kvtree.h>
#include <stdio.h>
#include <stdlib.h>

static void check(int err)
{
	if (err < 0)
		errx(EXIT_FAILURE, "%s", kvtree_strerror(err));
}

static void sent(struct kvtree_ring *ring,
		 const struct kvtree_event *event)
{
	(void)ring;
	check(event->result);
	puts("sent");
}

static void counted(struct kvtree_ring *ring,
		    const struct kvtree_event *event)
{
	check(event->result);
	printf("%lld sealed so far\n", (long long)event->sum);
	check(kvtree_ring_del(ring, kvtree_str("letter"), 0, 0,
			      kvtree_callback(sent, NULL)));
}

static void sealed(struct kvtree_ring *ring,
		   const struct kvtree_event *event)
{
	check(event->result);
	puts("sealed");
	check(kvtree_ring_add(ring, kvtree_str("count"), 0, 1, 0,
			      kvtree_callback(counted, NULL)));
}

/* Sealed as it was written, or not at all. */
static void opened(struct kvtree_ring *ring,
		   const struct kvtree_event *event)
{
	check(event->result);
	puts("opened");
	check(kvtree_ring_cas(ring, kvtree_str("letter"),
			      kvtree_str("sealed"), 0, event->version,
			      kvtree_callback(sealed, NULL)));
}

int main(void)
{
	struct kvtree_ring *ring;
	struct kvtree *kv;

	check(kvtree_open(NULL, 0, &kv));
	check(kvtree_ring_open(kv, NULL, &ring));
	check(kvtree_ring_put(ring, kvtree_str("letter"),
			      kvtree_str("open"), KVTREE_F_CREATE,
			      kvtree_callback(opened, NULL)));
	while (kvtree_ring_pending(ring))
		check(kvtree_ring_wait(ring, NULL, 0, 1, -1));
	kvtree_ring_close(ring);
	check(kvtree_del(kv, kvtree_str("count"), 0, NULL));
	kvtree_close(kv);
	return EXIT_SUCCESS;
}
