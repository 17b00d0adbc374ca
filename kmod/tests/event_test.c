// SPDX-License-Identifier: GPL-2.0
/* Many listeners of one event. */
#include <kunit/test.h>
#include <linux/list.h>
#include <linux/slab.h>
#include <linux/wait.h>

#include "base/event.h"
#include "compat.h"

#define MANY	1000

struct listener {
	struct kvt_listener listener;
	struct kvt_event *event;
	unsigned int *calls;		/* of all */
	unsigned int nth;		/* when it was called, from 1 */
	bool again;			/* it listens again at once */
};

static void listener_call(struct kvt_listener *listener)
{
	struct listener *l = container_of(listener, struct listener, listener);

	l->nth = ++*l->calls;
	if (l->again)
		__add_wait_queue_entry_tail_exclusive(&l->event->head, &listener->entry);
}

static struct listener *listeners_new(struct kunit *test, struct kvt_event *event,
				      unsigned int nr, unsigned int *calls)
{
	struct listener *l = kunit_kcalloc(test, nr, sizeof(*l), GFP_KERNEL);
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, l);
	for (i = 0; i < nr; i++) {
		kvt_listener_init(&l[i].listener, listener_call);
		l[i].event = event;
		l[i].calls = calls;
		kvt_event_listen(event, &l[i].listener);
		/* It is listening already. */
		kvt_event_listen(event, &l[i].listener);
	}
	return l;
}

/* A portion, one more, many; and none. */
static void each_listener_is_called_once_in_turn(struct kunit *test)
{
	static const unsigned int number[] = { 0, 1, 127, 128, 129, 256, MANY };
	struct kvt_event event;
	unsigned int i, j, calls;
	struct listener *l;

	kvt_event_init(&event, "a test");
	for (i = 0; i < ARRAY_SIZE(number); i++) {
		calls = 0;
		l = listeners_new(test, &event, number[i], &calls);
		kvt_event_wake(&event);
		KUNIT_EXPECT_EQ(test, calls, number[i]);
		for (j = 0; j < number[i]; j++)
			KUNIT_ASSERT_EQ(test, l[j].nth, j + 1);
		KUNIT_EXPECT_TRUE(test, list_empty(&event.head.head));
		kvt_event_wake(&event);
		KUNIT_EXPECT_EQ(test, calls, number[i]);
	}
}

struct task {
	struct wait_queue_entry entry;
	unsigned int wakes;
};

static int task_wake(struct wait_queue_entry *entry, unsigned int mode, int flags, void *key)
{
	container_of(entry, struct task, entry)->wakes++;
	return 1;
}

/* Entries ahead of the listeners are called again each time the queue is locked. */
static void interrupts_are_on_between_portions(struct kunit *test)
{
	struct kvt_event event;
	unsigned int calls = 0;
	struct task task = {};

	kvt_event_init(&event, "a test");
	init_waitqueue_func_entry(&task.entry, task_wake);
	add_wait_queue(&event.head, &task.entry);
	listeners_new(test, &event, MANY, &calls);
	kvt_event_wake(&event);
	KUNIT_EXPECT_EQ(test, calls, MANY);
	KUNIT_EXPECT_GE(test, task.wakes, MANY / 128);
	remove_wait_queue(&event.head, &task.entry);
}

/* Otherwise listeners that always listen again would keep the waker for ever. */
static void listening_again_does_not_hold_up_the_waker(struct kunit *test)
{
	struct kvt_event event;
	unsigned int calls = 0, i;
	struct listener *l;

	kvt_event_init(&event, "a test");
	l = listeners_new(test, &event, MANY, &calls);
	for (i = 0; i < MANY; i++)
		l[i].again = true;
	kvt_event_wake(&event);
	KUNIT_EXPECT_GE(test, calls, MANY);
	KUNIT_EXPECT_LE(test, calls, 2 * MANY);
	for (i = 0; i < MANY; i++) {
		KUNIT_EXPECT_NE(test, l[i].nth, 0);
		kvt_event_unlisten(&event, &l[i].listener);
	}
}

static struct kunit_case event_cases[] = {
	KUNIT_CASE(each_listener_is_called_once_in_turn),
	KUNIT_CASE(interrupts_are_on_between_portions),
	KUNIT_CASE(listening_again_does_not_hold_up_the_waker),
	{}
};

static struct kunit_suite event_suite = {
	.name = "kvtree_event",
	.test_cases = event_cases,
};

kunit_test_suite(event_suite);
