// SPDX-License-Identifier: GPL-2.0
/*
 * Writers that help a worker who is behind.  Nothing real is freed: a value is a
 * number, and the worker stops at some until the test lets it go on.
 */
#include <linux/completion.h>
#include <linux/cpumask.h>
#include <linux/limits.h>
#include <linux/sched.h>
#include <linux/workqueue.h>

#include "core/reclaim.h"
#include "core/stats.h"
#include "lib.h"
#include "thread.h"

/* Values at which the worker stops, and the others. */
#define STOPS	2
#define OTHERS	100

#define BOUND	(OTHERS * 1000ul)

/* All of them together are so much that a writer helps, and under the bound. */
#define BYTES	600u

static struct {
	struct kvt_reclaim reclaim;
	struct kvt_stats stats;
	struct completion stopped[STOPS];
	struct completion go[STOPS];
	struct completion retired;
	struct completion ready;
	unsigned int freed[STOPS + OTHERS];	/* how often */
	unsigned int others;			/* freed */
	unsigned int without_sleep;		/* ... by a writer that may not sleep */
	unsigned int steps[OTHERS];		/* ... after so many calls */
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

	kvt_reclaim_retire_value(&help.reclaim, bag, (void *)(n + 1), bytes);
}

static unsigned int help_others(void)
{
	return READ_ONCE(help.others);
}

/* The writer whose values the worker has not come to. */
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

static void help_begin(struct kunit *test, struct workqueue_struct *wq)
{
	unsigned int i;

	memset(&help, 0, sizeof(help));
	KUNIT_ASSERT_EQ(test, 0, kvt_stats_init(&help.stats));
	KUNIT_ASSERT_EQ(test, 0, kvt_reclaim_init(&help.reclaim, wq, &help.stats, BOUND));
	help.reclaim.free_values = help_free;
	for (i = 0; i < STOPS; i++) {
		init_completion(&help.stopped[i]);
		init_completion(&help.go[i]);
	}
	init_completion(&help.retired);
	init_completion(&help.ready);
}

/*
 * The first stop is in a cycle of its own, in which the others are retired: the next
 * has them all.  There the worker stops at what the first CPU has retired.
 */
static void each_write_frees_a_value_that_is_ready_when_the_worker_is_behind(struct kunit *test)
{
	struct workqueue_struct *wq = alloc_workqueue("kvt_help", WQ_UNBOUND, 0);
	struct kt_thread writer;
	unsigned int i;

	kt_need_two_cpus(test);
	KUNIT_ASSERT_NOT_NULL(test, wq);
	help_begin(test, wq);
	KUNIT_ASSERT_EQ(test, 0, set_cpus_allowed_ptr(current, cpumask_of(0)));
	KUNIT_ASSERT_EQ(test, 0, kt_thread_init(&writer, 1, help_writer, NULL));

	help_retire(0, 0);
	wait_for_completion(&help.stopped[0]);
	help_retire(1, 0);
	kt_thread_start(&writer);
	wait_for_completion(&help.retired);
	complete(&help.go[0]);
	wait_for_completion(&help.stopped[1]);
	/* The worker is in the midst of this CPU's: nobody waits for it. */
	KUNIT_EXPECT_EQ(test, 0, kvt_reclaim_throttle(&help.reclaim, true));
	KUNIT_EXPECT_EQ(test, 0, help_others());
	complete(&help.ready);
	KUNIT_EXPECT_EQ(test, 0, kt_thread_join(&writer));

	KUNIT_EXPECT_EQ(test, 0, help.without_sleep);
	KUNIT_EXPECT_EQ(test, OTHERS, help_others());
	/* One at a time. */
	KUNIT_EXPECT_EQ(test, OTHERS, help.nr_steps);
	for (i = 0; i < help.nr_steps; i++)
		KUNIT_EXPECT_EQ(test, 1, help.steps[i]);
	complete(&help.go[1]);
	kvt_reclaim_exit(&help.reclaim);
	for (i = 0; i < STOPS + OTHERS; i++)
		KUNIT_EXPECT_EQ(test, 1, help.freed[i]);
	kvt_stats_exit(&help.stats);
	destroy_workqueue(wq);
	set_cpus_allowed_ptr(current, cpu_possible_mask);
}

static struct kunit_case reclaim_cases[] = {
	KUNIT_CASE(each_write_frees_a_value_that_is_ready_when_the_worker_is_behind),
	{}
};

static struct kunit_suite reclaim_suite = {
	.name = "kvtree_reclaim",
	.test_cases = reclaim_cases,
};

kunit_test_suite(reclaim_suite);
