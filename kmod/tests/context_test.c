// SPDX-License-Identifier: GPL-2.0
/*
 * Readers in interrupts that hit a writer in the middle of a change on the same
 * CPU.  They cannot wait for it, so they must end by themselves, with the right
 * answer or -EBUSY.
 *
 * Soft interrupts cannot interrupt a writer, which disables them.  They run as
 * soon as it enables them, between its steps, or on another CPU.
 */
#include <linux/cpumask.h>
#include <linux/hrtimer.h>
#include <linux/irq_work.h>
#include <linux/ktime.h>
#include <linux/sched.h>
#include <linux/workqueue.h>

#include "scene.h"
#include "thread.h"

struct context_point {
	enum kvt_park at;
	const char *name;
};

#define CONTEXT_POINT(name) { KVT_PARK_##name, #name },
static const struct context_point context_points[] = { KVT_PARK_POINTS(CONTEXT_POINT) };

static void context_desc(const struct context_point *point, char *desc)
{
	strscpy(desc, point->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(context, context_points, context_desc);

/* The reader, and what it met. */
static struct {
	struct scene *scene;
	struct scene_look look;
	unsigned int hard;	/* how often it ran in a hard interrupt */
	unsigned int soft;	/* ... in a soft one */
	bool done;
} context;

static void context_read(void)
{
	context.hard += !!in_hardirq();
	context.soft += !!in_serving_softirq();
	scene_look(context.scene, &context.look);
	smp_store_release(&context.done, true);	/* pairs with context_await() */
}

/* If it never runs, the counts show that. */
static void context_await(void)
{
	/* Pairs with context_read(). */
	kt_await(smp_load_acquire(&context.done));
}

/* Ways to get there */

static enum hrtimer_restart context_timer_fn(struct hrtimer *timer)
{
	context_read();
	return HRTIMER_NORESTART;
}

static struct hrtimer context_timer;

static void context_by_timer(struct scene *scene, void *arg)
{
	hrtimer_start(&context_timer, ns_to_ktime(1000), HRTIMER_MODE_REL_PINNED_HARD);
	context_await();
}

static void context_irq_work_fn(struct irq_work *work)
{
	context_read();
}

static struct irq_work context_irq_work = IRQ_WORK_INIT_HARD(context_irq_work_fn);

static void context_by_irq_work(struct scene *scene, void *arg)
{
	irq_work_queue(&context_irq_work);
	context_await();
}

static void context_bh_fn(struct work_struct *work)
{
	context_read();
}

static DECLARE_WORK(context_bh, context_bh_fn);

static void context_by_bh(struct scene *scene, void *arg)
{
	queue_work(system_bh_wq, &context_bh);
}

static void context_by_bh_now(struct scene *scene, void *arg)
{
	queue_work(system_bh_wq, &context_bh);
	flush_work(&context_bh);
}

/* Cases */

struct context_case {
	int (*run)(struct scene *scene, enum kvt_park at, scene_visit visit, void *arg);
	scene_visit visit;
	bool hard;
	bool on_top;		/* the reader may meet a node that is dirty */
};

static void context_begin(struct scene *scene)
{
	memset(&context, 0, sizeof(context));
	context.scene = scene;
}

static void context_expect(struct kunit *test, const struct context_case *c, enum kvt_park at)
{
	const struct scene_look *look = &context.look;
	const char *name = context.scene->plan->name;
	u32 prefix_len = context.scene->prefix_len;

	KUNIT_EXPECT_NULL_MSG(test, look->wrong, "%s/%u: %s: key %x, %d", name, prefix_len,
			      look->wrong, look->id, look->err);
	KUNIT_EXPECT_EQ_MSG(test, 1, c->hard ? context.hard : context.soft,
			    "%s/%u: did not run in its context", name, prefix_len);
	if (!c->on_top || !scene_may_wait(context.scene, at))
		KUNIT_EXPECT_EQ_MSG(test, 0, look->busy, "%s/%u: readers gave up", name,
				    prefix_len);
}

static void context_scene(struct kunit *test, struct kt *kt, const struct scene_plan *plan,
			  const struct context_case *c, struct scene_look *sum)
{
	const struct context_point *point = test->param_value;
	struct scene *scene = scene_open(kt, plan, scene_prefixes[SCENE_PREFIXES - 1]);
	struct scene_look look = { };
	int err;

	if (!scene) {
		KUNIT_FAIL(test, "%s: not built", plan->name);
		return;
	}
	context_begin(scene);
	err = c->run(scene, point->at, c->visit, NULL);
	KUNIT_EXPECT_EQ_MSG(test, 0, err, "%s: the change itself", plan->name);
	flush_work(&context_bh);
	irq_work_sync(&context_irq_work);
	hrtimer_cancel(&context_timer);
	context_expect(test, c, point->at);
	sum->gets += context.look.gets;
	sum->scans += context.look.scans;
	sum->busy += context.look.busy;
	scene_verify(scene, &look);
	KUNIT_EXPECT_NULL_MSG(test, look.wrong, "%s, afterwards: %s: key %x, %d", plan->name,
			      look.wrong, look.id, look.err);
	KUNIT_EXPECT_EQ_MSG(test, 0, scene_close(scene), "%s: emptied", plan->name);
}

static void context_scenes(struct kunit *test, const struct context_case *c)
{
	struct kt *kt = kt_open_engine(test, &kvt_masstree_ops, U64_MAX);
	const struct context_point *point = test->param_value;
	struct scene_look sum = { };
	unsigned int i;

	kt_need_two_cpus(test);
	KUNIT_ASSERT_EQ(test, 0, set_cpus_allowed_ptr(current, cpumask_of(0)));
	for (i = 0; i < scene_nr_plans; i++)
		if (scene_plans[i].points & BIT_ULL(point->at))
			context_scene(test, kt, &scene_plans[i], c, &sum);
	KUNIT_EXPECT_NE_MSG(test, 0, sum.gets, "nothing was read at %s", point->name);
	kunit_info(test, "%s: %u gets, %u scans to the end, %u gave up", point->name, sum.gets,
		   sum.scans, sum.busy);
}

static void a_hard_timer_reads_on_top_of_a_writer(struct kunit *test)
{
	const struct context_case c = { scene_on_top, context_by_timer, true, true };

	context_scenes(test, &c);
}

static void irq_work_reads_on_top_of_a_writer(struct kunit *test)
{
	const struct context_case c = { scene_on_top, context_by_irq_work, true, true };

	context_scenes(test, &c);
}

/* By then the writer has unlocked its nodes, even if it has more to do. */
static void a_soft_interrupt_never_meets_a_held_node_of_its_cpu(struct kunit *test)
{
	const struct context_case c = { scene_on_top, context_by_bh, false, false };

	context_scenes(test, &c);
}

static void a_soft_interrupt_reads_beside_a_writer(struct kunit *test)
{
	const struct context_case c = { scene_held, context_by_bh_now, false, true };

	context_scenes(test, &c);
}

static struct kunit_case context_cases[] = {
	KUNIT_CASE_PARAM(a_hard_timer_reads_on_top_of_a_writer, context_gen_params),
	KUNIT_CASE_PARAM(irq_work_reads_on_top_of_a_writer, context_gen_params),
	KUNIT_CASE_PARAM(a_soft_interrupt_never_meets_a_held_node_of_its_cpu, context_gen_params),
	KUNIT_CASE_PARAM(a_soft_interrupt_reads_beside_a_writer, context_gen_params),
	{}
};

static int context_init(struct kunit_suite *suite)
{
	hrtimer_setup(&context_timer, context_timer_fn, CLOCK_MONOTONIC,
		      HRTIMER_MODE_REL_PINNED_HARD);
	return 0;
}

static void context_exit(struct kunit *test)
{
	set_cpus_allowed_ptr(current, cpu_possible_mask);
}

/* The module may be unloaded when no thread is in the hook any more. */
static void context_end(struct kunit_suite *suite)
{
	synchronize_rcu();
}

static struct kunit_suite context_suite = {
	.name = "kvt_context",
	.suite_init = context_init,
	.suite_exit = context_end,
	.exit = context_exit,
	.test_cases = context_cases,
};

kunit_test_suite(context_suite);
