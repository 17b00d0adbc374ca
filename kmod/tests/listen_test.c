// SPDX-License-Identifier: GPL-2.0
/* Many functions in one wait queue. */
#include <kunit/test.h>
#include <linux/list.h>
#include <linux/slab.h>
#include <linux/wait.h>

#include "compat.h"
#include "core/listen.h"

#define MANY	1000

struct listener {
	struct wait_queue_entry entry;
	wait_queue_head_t *head;
	unsigned int *calls;		/* of all */
	unsigned int nth;		/* when it was called, from 1 */
	bool again;			/* it listens again at once */
};

static int listener_call(struct wait_queue_entry *entry, unsigned int mode, int flags, void *key)
{
	struct listener *l = container_of(entry, struct listener, entry);

	list_del_init(&entry->entry);
	l->nth = ++*l->calls;
	if (l->again)
		__add_wait_queue_entry_tail_exclusive(l->head, entry);
	return 1;
}

static struct listener *listeners_new(struct kunit *test, wait_queue_head_t *head,
				      unsigned int nr, unsigned int *calls)
{
	struct listener *l = kunit_kcalloc(test, nr, sizeof(*l), GFP_KERNEL);
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, l);
	for (i = 0; i < nr; i++) {
		init_waitqueue_func_entry(&l[i].entry, listener_call);
		INIT_LIST_HEAD(&l[i].entry.entry);
		l[i].head = head;
		l[i].calls = calls;
		kvt_listen(head, &l[i].entry);
		/* It does already. */
		kvt_listen(head, &l[i].entry);
	}
	return l;
}

/* As many as are a portion, one more, many; and none. */
static void each_listener_is_called_once_in_turn(struct kunit *test)
{
	static const unsigned int number[] = { 0, 1, 127, 128, 129, 256, MANY };
	DECLARE_WAIT_QUEUE_HEAD_ONSTACK(head);
	unsigned int i, j, calls;
	struct listener *l;

	for (i = 0; i < ARRAY_SIZE(number); i++) {
		calls = 0;
		l = listeners_new(test, &head, number[i], &calls);
		kvt_wake_all(&head);
		KUNIT_EXPECT_EQ(test, calls, number[i]);
		for (j = 0; j < number[i]; j++)
			KUNIT_ASSERT_EQ(test, l[j].nth, j + 1);
		KUNIT_EXPECT_TRUE(test, list_empty(&head.head));
		kvt_wake_all(&head);
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

/* What stands before them is called anew each time that the queue is locked. */
static void interrupts_are_on_between_portions(struct kunit *test)
{
	DECLARE_WAIT_QUEUE_HEAD_ONSTACK(head);
	unsigned int calls = 0;
	struct task task = {};

	init_waitqueue_func_entry(&task.entry, task_wake);
	add_wait_queue(&head, &task.entry);
	listeners_new(test, &head, MANY, &calls);
	kvt_wake_all(&head);
	KUNIT_EXPECT_EQ(test, calls, MANY);
	KUNIT_EXPECT_GE(test, task.wakes, MANY / 128);
	remove_wait_queue(&head, &task.entry);
}

/* Otherwise those who always listen again would keep who wakes them. */
static void who_listens_again_is_not_waited_for(struct kunit *test)
{
	DECLARE_WAIT_QUEUE_HEAD_ONSTACK(head);
	unsigned int calls = 0, i;
	struct listener *l;

	l = listeners_new(test, &head, MANY, &calls);
	for (i = 0; i < MANY; i++)
		l[i].again = true;
	kvt_wake_all(&head);
	KUNIT_EXPECT_GE(test, calls, MANY);
	KUNIT_EXPECT_LE(test, calls, 2 * MANY);
	for (i = 0; i < MANY; i++) {
		KUNIT_EXPECT_NE(test, l[i].nth, 0);
		kvt_unlisten(&head, &l[i].entry);
	}
}

/* At the end of the queue it could stand behind those who are called now, and be missed. */
static void a_listener_takes_the_place_of_another(struct kunit *test)
{
	DECLARE_WAIT_QUEUE_HEAD_ONSTACK(head);
	unsigned int calls = 0, none = 0;
	struct listener *l, *other;

	l = listeners_new(test, &head, MANY, &calls);
	other = listeners_new(test, &head, 1, &calls);
	kvt_unlisten(&head, &other->entry);
	kvt_listen_instead(&head, &other->entry, &l[1].entry);
	kvt_wake_all(&head);
	KUNIT_EXPECT_EQ(test, calls, MANY);
	KUNIT_EXPECT_EQ(test, other->nth, 2);
	KUNIT_EXPECT_EQ(test, l[1].nth, 0);
	/* That has been called. */
	other->calls = &none;
	kvt_listen_instead(&head, &other->entry, &l[0].entry);
	kvt_wake_all(&head);
	KUNIT_EXPECT_EQ(test, none, 0);
}

static struct kunit_case listen_cases[] = {
	KUNIT_CASE(each_listener_is_called_once_in_turn),
	KUNIT_CASE(interrupts_are_on_between_portions),
	KUNIT_CASE(who_listens_again_is_not_waited_for),
	KUNIT_CASE(a_listener_takes_the_place_of_another),
	{}
};

static struct kunit_suite listen_suite = {
	.name = "kvtree_listen",
	.test_cases = listen_cases,
};

kunit_test_suite(listen_suite);
