// SPDX-License-Identifier: LGPL-2.1-only
/*
 * A ring in an event loop that also waits for a timer.
 *
 * Shown in: kvtree_ring_eventfd(3), kvtree_ring_submit(3)
 *
 * Prints:
 *	2 submitted
 *	both have arrived: 17 and 4
 *	the timer went off
 */
#include <err.h>
#include <errno.h>
#include <kvtree.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <unistd.h>

static char first[16], second[16];

static void reap(struct kvtree_ring *ring, int fd)
{
	struct kvtree_event event[2];
	uint64_t count;
	int i, n;

	/* Before the ring is looked at, or something could be missed. */
	if (read(fd, &count, sizeof(count)) < 0 && errno != EAGAIN)
		err(EXIT_FAILURE, "eventfd");
	n = kvtree_ring_wait(ring, event, 2, 0, 0);
	for (i = 0; i < n; i++)
		if (event[i].result < 0)
			errx(EXIT_FAILURE, "%s",
			     kvtree_strerror(event[i].result));
	if (!kvtree_ring_pending(ring))
		printf("both have arrived: %s and %s\n", first, second);
}

static void loop(struct kvtree_ring *ring, int timer)
{
	struct pollfd fds[2] = {
		{ .fd = kvtree_ring_eventfd(ring), .events = POLLIN },
		{ .fd = timer, .events = POLLIN },
	};

	if (fds[0].fd < 0)
		errx(EXIT_FAILURE, "%s", kvtree_strerror(fds[0].fd));
	while (!fds[1].revents || kvtree_ring_pending(ring)) {
		if (poll(fds, 2, -1) < 0)
			err(EXIT_FAILURE, "poll");
		if (fds[0].revents)
			reap(ring, fds[0].fd);
	}
	puts("the timer went off");
}

int main(void)
{
	const struct itimerspec soon = { .it_value.tv_nsec = 200000000 };
	int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	struct kvtree_ring *ring;
	struct kvtree *kv;
	int n;

	n = kvtree_open(NULL, 0, &kv);
	if (!n)
		n = kvtree_put(kv, kvtree_str("first"), kvtree_str("17"),
			       0, NULL);
	if (!n)
		n = kvtree_put(kv, kvtree_str("second"), kvtree_str("4"),
			       0, NULL);
	if (!n)
		n = kvtree_ring_open(kv, NULL, &ring);
	if (!n)
		n = kvtree_ring_get(ring, kvtree_str("first"), first,
				    sizeof(first),
				    kvtree_as_event(NULL));
	if (!n)
		n = kvtree_ring_get(ring, kvtree_str("second"), second,
				    sizeof(second),
				    kvtree_as_event(NULL));
	if (!n)
		n = kvtree_ring_submit(ring);
	if (n < 0)
		errx(EXIT_FAILURE, "%s", kvtree_strerror(n));
	printf("%d submitted\n", n);
	if (timer < 0 || timerfd_settime(timer, 0, &soon, NULL))
		err(EXIT_FAILURE, "timerfd");
	loop(ring, timer);
	kvtree_ring_close(ring);
	kvtree_del(kv, kvtree_str("first"), 0, NULL);
	kvtree_del(kv, kvtree_str("second"), 0, NULL);
	kvtree_close(kv);
	return EXIT_SUCCESS;
}
