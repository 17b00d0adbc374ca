// SPDX-License-Identifier: GPL-2.0
/* The work of one process in a round. */
#include <errno.h>
#include <string.h>

#include "history.h"
#include "lib/durable.h"

/* Neighbors, more than a node has room for. */
#define CHURN_FROM	ROUND_KEYS
#define CHURN_KEYS	48

/* Puts and gets come more often than what needs to know more. */
static const __u8 mix[] = {
	HISTORY_GET, HISTORY_GET, HISTORY_GET, HISTORY_PUT, HISTORY_PUT, HISTORY_CREATE,
	HISTORY_CAS, HISTORY_CAS, HISTORY_ADD, HISTORY_ADD, HISTORY_REMOVE, HISTORY_REMOVE_AT,
	HISTORY_SCAN,
};

struct worker {
	const struct work *work;
	struct kvt_rand rand;
	__u64 seen[ROUND_KEYS];		/* versions */
	__u64 values;
};

static void fresh_event(struct worker *w, __u8 op, struct event *event)
{
	const struct work *work = w->work;
	unsigned int key = kvt_rand_below(&w->rand, ROUND_KEYS);
	unsigned int class = kvt_rand_below(&w->rand, 8);

	*event = (struct event){
		.round = work->round,
		.key = (__u16)key,
		.op = op,
		.worker = work->worker,
	};
	switch (op) {
	case HISTORY_PUT:
	case HISTORY_CREATE:
	case HISTORY_CAS:
		/* Most can be added to. */
		class = class < work->door->classes ? class : 0;
		event->given = (__u64)work->worker << 48 | ++w->values << 2 | class;
		break;
	case HISTORY_ADD:
		event->given = (1 + kvt_rand_below(&w->rand, 1000)) << 2;
		break;
	}
	if (op == HISTORY_CAS || op == HISTORY_REMOVE_AT)
		event->expected = w->seen[key];
}

static __u8 choose_op(struct worker *w, __u64 ops)
{
	__u8 op;

	do {
		op = mix[kvt_rand_below(&w->rand, NR(mix))];
	} while (!(ops >> op & 1));
	return op;
}

/* A scan, which says something about each key. */
static unsigned int step_scan(struct worker *w, int fd, struct event *event)
{
	__u64 call = history_tick();
	unsigned int i;

	for (i = 0; i < ROUND_KEYS; i++)
		fresh_event(w, HISTORY_GET, &event[i]);
	scan_round(fd, w->work->round, kvt_rand(&w->rand) & 1, event);
	for (i = 0; i < ROUND_KEYS; i++) {
		event[i].call = call;
		event[i].ret = history_tick();
	}
	return ROUND_KEYS;
}

/* One batch of the door's depth, or a scan; returns the number of events. */
static unsigned int step(struct worker *w, int fd, struct event *event)
{
	const struct door *door = w->work->door;
	unsigned int nr = 1 + kvt_rand_below(&w->rand, door->depth), i;
	__u8 op = choose_op(w, door->ops);

	if (op == HISTORY_SCAN)
		return step_scan(w, fd, event);
	for (i = 0; i < nr; i++) {
		fresh_event(w, op, &event[i]);
		op = choose_op(w, door->ops & ~(1u << HISTORY_SCAN));
	}
	door->run(event, nr);
	return nr;
}

static bool disk_failed(int result)
{
	return result == -EIO || result == -EROFS || result == -ENOSPC;
}

unsigned int work_run(const struct work *work, int fd, struct event *event)
{
	struct worker w = { .work = work, .rand.state = work->seed };
	unsigned int done = 0, nr, i;
	bool failed = false;

	work->door->open(fd);
	while (done + DOOR_DEPTH <= work->nr && !failed) {
		nr = step(&w, fd, &event[done]);
		/*
		 * A crash may undo what was seen before it was durable, and all that depends
		 * on it.  So an answer counts only if it became durable: -EIO is a change
		 * that may be lost, -EROFS an answer that is ignored.
		 */
		if (work->sync && kvt_sync(fd))
			for (i = done; i < done + nr; i++)
				event[i].result = event[i].result ? -EROFS : -EIO;
		for (i = done; i < done + nr; i++) {
			w.seen[event[i].key] = event[i].version;
			failed |= disk_failed(event[i].result);
		}
		done += nr;
	}
	return done;
}

void work_churn(const struct work *work, int fd)
{
	struct kvt_rand rand = { .state = work->seed };
	char key[KEY_ROOM], val[VALUE_MAX];
	unsigned int i, n;
	size_t len;
	int ret = 0;

	for (n = 0; n < work->nr && !disk_failed(ret); n++) {
		i = CHURN_FROM + kvt_rand_below(&rand, CHURN_KEYS);
		len = key_fill(key, work->round, i);
		/* Runs of either, so that nodes fill and are emptied. */
		if (n / (2 * CHURN_KEYS) % 2)
			ret = kvt_remove(fd, kvt_bytes(key, len));
		else
			ret = kvt_put(fd, kvt_bytes(key, len),
				      kvt_bytes(val, value_fill(val, 4 * n)), NULL);
	}
}
