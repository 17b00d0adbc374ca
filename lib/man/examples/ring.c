// SPDX-License-Identifier: LGPL-2.1-only
/*
 * Look 1000 keys up, up to 32 of them at a time. Each completed lookup makes room
 * for the next one, so that the ring is always full.
 *
 * Shown in: kvtree_ring(3), kvtree_ring_open(3), kvtree_ring_close(3),
 * kvtree_ring_get(3), kvtree_ring_wait(3), kvtree_ring_uses_uring(3)
 *
 * Prints:
 *	by ...
 *	100 of 1000 found, 289 bytes
 */
#include <err.h>
#include <errno.h>
#include <kvtree.h>
#include <stdio.h>
#include <stdlib.h>

enum { KEYS = 1000, DEPTH = 32 };

struct request {
	char key[8];
	char val[32];
};

static void finish(const struct kvtree_event *event)
{
	static unsigned int finished, found, bytes;

	if (event->result >= 0) {
		found++;
		bytes += event->result;
	} else if (event->result != -ENOENT) {
		errx(EXIT_FAILURE, "%s", kvtree_strerror(event->result));
	}
	if (++finished == KEYS)
		printf("%u of %u found, %u bytes\n", found, KEYS, bytes);
}

static int look_up(struct kvtree_ring *ring)
{
	struct request request[DEPTH], *unused[DEPTH], *r;
	int i, n, err, done, next = 0, free = DEPTH;
	struct kvtree_event event[DEPTH];

	for (i = 0; i < DEPTH; i++)
		unused[i] = &request[i];
	for (done = 0; done < KEYS; done += n) {
		while (free && next < KEYS) {
			r = unused[--free];
			n = sprintf(r->key, "n%d", next++);
			err = kvtree_ring_get(ring,
					      kvtree_slice(r->key, n),
					      r->val, sizeof(r->val),
					      kvtree_as_event(r));
			if (err)
				return err;
		}
		n = kvtree_ring_wait(ring, event, DEPTH, 1, -1);
		if (n < 0)
			return n;
		for (i = 0; i < n; i++) {
			finish(&event[i]);
			unused[free++] = event[i].data;
		}
	}
	return 0;
}

int main(void)
{
	const struct kvtree_ring_opts opts = {
		.size = sizeof(opts),
		.depth = DEPTH,
	};
	struct kvtree_ring *ring;
	struct kvtree *kv;
	char key[8];
	int err, i, n;

	err = kvtree_open(NULL, 0, &kv);
	for (i = 0; i < KEYS && !err; i += 10) {
		n = sprintf(key, "n%d", i);
		err = kvtree_put(kv, kvtree_slice(key, n),
				 kvtree_slice(key + 1, n - 1), 0, NULL);
	}
	if (!err)
		err = kvtree_ring_open(kv, &opts, &ring);
	if (err)
		errx(EXIT_FAILURE, "%s", kvtree_strerror(err));
	printf("by %s\n", kvtree_ring_uses_uring(ring) ? "io_uring" :
							 "system calls");
	err = look_up(ring);
	kvtree_ring_close(ring);
	if (err)
		errx(EXIT_FAILURE, "%s", kvtree_strerror(err));
	for (i = 0; i < KEYS; i += 10)
		kvtree_del(kv, kvtree_slice(key, sprintf(key, "n%d", i)),
			   0, NULL);
	kvtree_close(kv);
	return EXIT_SUCCESS;
}
