// SPDX-License-Identifier: GPL-2.0
/*
 * Writers that help a worker that has fallen behind.  Nothing real is freed: a value is
 * a number, and a thread that frees certain numbers stops there until the test lets it
 * continue.
 */
#include <linux/completion.h>
#include <linux/cpumask.h>
#include <linux/limits.h>
#include <linux/sched.h>
#include <linux/workqueue.h>

#include "base/reclaim.h"
#include "base/stats.h"
#include "lib.h"
#include "thread.h"

/* Values that stop the thread that frees them, and the others. */
#define STOPS	3
#define OTHERS	100

/* The worker stops at the first two, and the writer at this one. */
#define WRITER_STOP	2

#define BOUND	(OTHERS * 1000ul)

/* All of them together are enough for a writer to help, and below the bound. */
#define BYTES	600u

static struct {
	struct kvt_reclaim reclaim;
	struct kvt_stats stats;
	struct workqueue_struct *wq;
	struct kt_thread writer;
	struct completion stopped[STOPS];
	struct completion go[STOPS];
	struct completion retired;
	struct completion ready;
	bool retired_once[STOPS + OTHERS];
	unsigned int freed[STOPS + OTHERS];	/* how often */
	unsigned int others;			/* freed */
	unsigned int without_sleep;		/* ... by a writer that may not sleep */
	unsigned int steps[OTHERS];		/* ... after this many calls */
	unsigned int nr_steps;
} help;

static void help_free(void **values, unsigned int nr)
{
	unsigned int i;

	for (i = 0; i < nr; i++) {
		unsigned long n = (unsigned long)values[i] - 1;

		help.freed[n]++;
		if (n < STOPS) {
			complete(&help.stopped[n]);
			wait_for_completion(&help.go[n]);
		} else {
			WRITE_ONCE(help.others, help.others + 1);
		}
	}
}

static void help_retire(unsigned long n, size_t bytes)
{
	struct kvt_bag *bag = kvt_bag_get(&help.reclaim, GFP_KERNEL);

	help.retired_once[n] = true;
	kvt_reclaim_retire_value(&help.reclaim, bag, (void *)(n + 1), bytes);
}

static unsigned int help_others(void)
{
	return READ_ONCE(help.others);
}

/* The writer; the worker has not reached its values. */
static int help_writer(void *unused)
{
	unsigned int i, before;

	for (i = 0; i < OTHERS; i++)
		help_retire(STOPS + i, BYTES);
	complete(&help.retired);
	wait_for_completion(&help.ready);

	if (kvt_reclaim_throttle(&help.reclaim, false))
		return -EAGAIN;
	help.without_sleep = help_others();
	do {
		before = help_others();
		if (kvt_reclaim_throttle(&help.reclaim, true))
			return -EINTR;
		help.steps[help.nr_steps++] = help_others() - before;
	} while (help_others() > before && help_others() < OTHERS);
	return 0;
}

/* All of its values are in one bag.  It stops at the first, or, if *@arg is set, the last. */
static int help_stopped_writer(void *arg)
{
	bool last = *(bool *)arg;
	unsigned int i;

	if (!last)
		help_retire(WRITER_STOP, BYTES);
	for (i = 0; i < OTHERS; i++)
		help_retire(STOPS + i, BYTES);
	if (last)
		help_retire(WRITER_STOP, BYTES);
	complete(&help.retired);
	wait_for_completion(&help.ready);
	while (!help.freed[WRITER_STOP])
		if (kvt_reclaim_throttle(&help.reclaim, true))
			return -EINTR;
	return 0;
}

static void help_begin(struct kunit *test, int (*fn)(void *arg), void *arg)
{
	unsigned int i;

	kt_need_two_cpus(test);
	memset(&help, 0, sizeof(help));
	help.wq = alloc_workqueue("kvt_help", WQ_UNBOUND, 0);
	KUNIT_ASSERT_NOT_NULL(test, help.wq);
	KUNIT_ASSERT_EQ(test, 0, kvt_stats_init(&help.stats));
	KUNIT_ASSERT_EQ(test, 0, kvt_reclaim_init(&help.reclaim, help.wq, &help.stats, BOUND));
	help.reclaim.free_values = help_free;
	for (i = 0; i < STOPS; i++) {
		init_completion(&help.stopped[i]);
		init_completion(&help.go[i]);
	}
	init_completion(&help.retired);
	init_completion(&help.ready);
	KUNIT_ASSERT_EQ(test, 0, set_cpus_allowed_ptr(current, cpumask_of(0)));
	KUNIT_ASSERT_EQ(test, 0, kt_thread_init(&help.writer, 1, fn, arg));

	/*
	 * The first stop has a cycle of its own, during which the others are retired, so the next
	 * cycle has them all.  There the worker stops at a value that the first CPU has retired.
	 */
	help_retire(0, 0);
	wait_for_completion(&help.stopped[0]);
	help_retire(1, 0);
	kt_thread_start(&help.writer);
	wait_for_completion(&help.retired);
	complete(&help.go[0]);
	wait_for_completion(&help.stopped[1]);
}

static void help_end(struct kunit *test)
{
	unsigned int i;

	kvt_reclaim_exit(&help.reclaim);
	for (i = 0; i < STOPS + OTHERS; i++)
		KUNIT_EXPECT_EQ(test, help.retired_once[i], help.freed[i]);
	kvt_stats_exit(&help.stats);
	destroy_workqueue(help.wq);
	set_cpus_allowed_ptr(current, cpu_possible_mask);
}

static void each_write_frees_a_value_that_is_ready_when_the_worker_is_behind(struct kunit *test)
{
	unsigned int i;

	help_begin(test, help_writer, NULL);
	/* The worker is in the middle of this CPU's values: nobody waits for it. */
	KUNIT_EXPECT_EQ(test, 0, kvt_reclaim_throttle(&help.reclaim, true));
	KUNIT_EXPECT_EQ(test, 0, help_others());
	complete(&help.ready);
	KUNIT_EXPECT_EQ(test, 0, kt_thread_join(&help.writer));

	KUNIT_EXPECT_EQ(test, 0, help.without_sleep);
	KUNIT_EXPECT_EQ(test, OTHERS, help_others());
	/* One at a time. */
	KUNIT_EXPECT_EQ(test, OTHERS, help.nr_steps);
	for (i = 0; i < help.nr_steps; i++)
		KUNIT_EXPECT_EQ(test, 1, help.steps[i]);
	complete(&help.go[1]);
	help_end(test);
}

/* The worker frees what is left of the writer's values, and what it may free is counted. */
static void expect_all_freed(struct kunit *test)
{
	struct kt_patience patience = { };

	while ((help_others() < OTHERS || kvt_reclaim_waiting(&help.reclaim)) &&
	       !kt_patience_ends(&patience, KT_TURNS_MAX))
		schedule_timeout_uninterruptible(1);
	KUNIT_EXPECT_EQ(test, OTHERS, help_others());
	KUNIT_EXPECT_EQ(test, 0, kvt_reclaim_waiting(&help.reclaim));
}

/* The helper may be preempted while it frees a value, and run again much later. */
static void nobody_waits_for_a_writer_that_helps(struct kunit *test)
{
	bool last[] = { false, true };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(last); i++) {
		help_begin(test, help_stopped_writer, &last[i]);
		complete(&help.ready);
		wait_for_completion(&help.stopped[WRITER_STOP]);
		complete(&help.go[1]);
		expect_all_freed(test);
		complete(&help.go[WRITER_STOP]);
		KUNIT_EXPECT_EQ(test, 0, kt_thread_join(&help.writer));
		help_end(test);
	}
}

static struct kunit_case reclaim_cases[] = {
	KUNIT_CASE(each_write_frees_a_value_that_is_ready_when_the_worker_is_behind),
	KUNIT_CASE(nobody_waits_for_a_writer_that_helps),
	{}
};

static struct kunit_suite reclaim_suite = {
	.name = "kvtree_reclaim",
	.test_cases = reclaim_cases,
};

kunit_test_suite(reclaim_suite);
