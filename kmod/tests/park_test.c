// SPDX-License-Identifier: GPL-2.0
/*
 * Hold a writer between any two steps of every change of a Masstree's structure,
 * and check what readers and other writers find.
 */
#include <linux/cpumask.h>
#include <linux/sched.h>

#include "scene.h"
#include "thread.h"

struct park_point {
	enum kvt_park at;
	const char *name;
};

#define PARK_POINT(name) { KVT_PARK_##name, #name },
static const struct park_point park_points[] = { KVT_PARK_POINTS(PARK_POINT) };

static void park_desc(const struct park_point *point, char *desc)
{
	strscpy(desc, point->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(park, park_points, park_desc);

/* The test runs on CPU 0; the thread that it holds, on CPU 1. */
static void park_bind(struct kunit *test)
{
	kt_need_two_cpus(test);
	KUNIT_ASSERT_EQ(test, 0, set_cpus_allowed_ptr(current, cpumask_of(0)));
}

static void park_unbind(struct kunit *test)
{
	set_cpus_allowed_ptr(current, cpu_possible_mask);
}

/* What a case does with a scene.  Returns whether it had anything to do. */
typedef bool (*park_case)(struct kunit *test, struct scene *scene, enum kvt_park at);

static bool park_scene(struct kunit *test, struct kt *kt, const struct scene_plan *plan,
		       u32 prefix_len, park_case run)
{
	const struct park_point *point = test->param_value;
	struct scene *scene = scene_open(kt, plan, prefix_len);
	struct scene_look look = { };
	bool ran;
	int err;

	if (!scene) {
		KUNIT_FAIL(test, "%s/%u: not built", plan->name, prefix_len);
		return false;
	}
	ran = run(test, scene, point->at);
	scene_verify(scene, &look);
	KUNIT_EXPECT_NULL_MSG(test, look.wrong, "%s/%u, afterwards: %s: key %x, %d", plan->name,
			      prefix_len, look.wrong, look.id, look.err);
	err = scene_close(scene);
	KUNIT_EXPECT_EQ_MSG(test, 0, err, "%s/%u: emptied", plan->name, prefix_len);
	return ran;
}

/* Run a case with every scene that passes the point. */
static void park_scenes(struct kunit *test, park_case run)
{
	struct kt *kt = kt_open_engine(test, &kvt_masstree_ops, U64_MAX);
	const struct park_point *point = test->param_value;
	unsigned int i, j, nr = 0;

	park_bind(test);
	for (i = 0; i < scene_nr_plans; i++) {
		if (!(scene_plans[i].points & BIT_ULL(point->at)))
			continue;
		for (j = 0; j < SCENE_PREFIXES; j++)
			nr += park_scene(test, kt, &scene_plans[i], scene_prefixes[j], run);
	}
	KUNIT_EXPECT_NE_MSG(test, 0, nr, "no scene was held at %s", point->name);
}

static void park_expect(struct kunit *test, struct scene *scene, enum kvt_park at, int err,
			const struct scene_look *look)
{
	const char *name = scene->plan->name;

	KUNIT_EXPECT_EQ_MSG(test, 0, err, "%s/%u: the change itself", name, scene->prefix_len);
	KUNIT_EXPECT_NULL_MSG(test, look->wrong, "%s/%u: %s: key %x, %d", name,
			      scene->prefix_len, look->wrong, look->id, look->err);
	KUNIT_EXPECT_NE_MSG(test, 0, look->gets, "%s/%u: nothing was read", name,
			    scene->prefix_len);
	if (!scene_may_wait(scene, at))
		KUNIT_EXPECT_EQ_MSG(test, 0, look->busy, "%s/%u: readers gave up", name,
				    scene->prefix_len);
}

static void park_look(struct scene *scene, void *arg)
{
	scene_look(scene, arg);
}

static bool park_run_readers(struct kunit *test, struct scene *scene, enum kvt_park at)
{
	struct scene_look look = { };
	int err = scene_held(scene, at, park_look, &look);

	park_expect(test, scene, at, err, &look);
	return !err;
}

/* A present key is found, with its value; a scan that ends is complete. */
static void readers_are_right_beside_a_held_writer(struct kunit *test)
{
	park_scenes(test, park_run_readers);
}

static bool park_run_on_top(struct kunit *test, struct scene *scene, enum kvt_park at)
{
	struct scene_look look = { };
	int err = scene_on_top(scene, at, park_look, &look);

	park_expect(test, scene, at, err, &look);
	return !err;
}

/* The same, while the writer cannot continue before the reader ends. */
static void readers_end_on_top_of_their_own_writer(struct kunit *test)
{
	park_scenes(test, park_run_on_top);
}

static void park_write_elsewhere(struct scene *scene, void *arg)
{
	*(int *)arg = scene_write_elsewhere(scene);
}

static bool park_run_elsewhere(struct kunit *test, struct scene *scene, enum kvt_park at)
{
	int err, result = -ENODATA;

	if (!scene->prefix_len)
		return false;	/* the tree may consist of one leaf */
	err = scene_held(scene, at, park_write_elsewhere, &result);
	KUNIT_EXPECT_EQ_MSG(test, 0, err, "%s: the change itself", scene->plan->name);
	KUNIT_EXPECT_EQ_MSG(test, 0, result, "%s: writes elsewhere", scene->plan->name);
	return !err;
}

static void writers_elsewhere_go_through(struct kunit *test)
{
	park_scenes(test, park_run_elsewhere);
}

static int park_near(void *arg)
{
	return scene_write_near(arg);
}

/*
 * The other writer spins on this CPU, with preemption off.  So the held one has
 * to continue by itself, some time after the other has begun.
 */
static void park_write_near(struct scene *scene, void *arg)
{
	struct kt_thread thread;
	int *result = arg;

	*result = kt_thread_init(&thread, 0, park_near, scene);
	if (*result)
		return;
	scene_let_go_in(2);
	kt_thread_start(&thread);
	*result = kt_thread_join(&thread);
}

static bool park_run_near(struct kunit *test, struct scene *scene, enum kvt_park at)
{
	int result = -ENODATA;
	int err = scene_held(scene, at, park_write_near, &result);

	KUNIT_EXPECT_EQ_MSG(test, 0, err, "%s/%u: the change itself", scene->plan->name,
			    scene->prefix_len);
	KUNIT_EXPECT_EQ_MSG(test, 0, result, "%s/%u: writes nearby", scene->plan->name,
			    scene->prefix_len);
	return !err;
}

static void writers_of_locked_leaves_wait_and_lose_nothing(struct kunit *test)
{
	park_scenes(test, park_run_near);
}

static const struct park_point park_read_points[] = {
	PARK_POINT(READ_CHILD) PARK_POINT(READ_VERSION) PARK_POINT(READ_SLOT)
	PARK_POINT(READ_DATA) PARK_POINT(READ_CHECK) PARK_POINT(SCAN_PLACED) PARK_POINT(SCAN_SLOTS)
	PARK_POINT(SCAN_CHECK) PARK_POINT(SCAN_NEXT)
};

KUNIT_ARRAY_PARAM(park_read, park_read_points, park_desc);

static const struct park_point park_write_points[] = { PARK_POINT(WRITE_FOUND) };

KUNIT_ARRAY_PARAM(park_write, park_write_points, park_desc);

static const struct park_point park_act_points[] = {
	PARK_POINT(WRITE_FOUND) PARK_POINT(UNLINK_FOUND) PARK_POINT(LAYER_FOUND)
};

KUNIT_ARRAY_PARAM(park_act, park_act_points, park_desc);

/* Hold a thread at the nth time that it passes a point.  Returns whether it did. */
static bool park_overtake(struct kunit *test, struct kt *kt, const struct scene_plan *plan,
			  u32 prefix_len, unsigned int nth, enum scene_role role)
{
	const struct park_point *point = test->param_value;
	struct scene *scene = scene_open(kt, plan, prefix_len);
	struct scene_look look = { }, after = { };
	int err;

	if (!scene) {
		KUNIT_FAIL(test, "%s/%u: not built", plan->name, prefix_len);
		return false;
	}
	err = scene_overtaken(scene, point->at, nth, role, &look);
	if (err && err != -ENODATA)
		KUNIT_FAIL(test, "%s/%u, role %u, pass %u: error %d", plan->name, prefix_len, role,
			   nth, err);
	KUNIT_EXPECT_NULL_MSG(test, look.wrong, "%s/%u, role %u, pass %u: %s: key %x, %d",
			      plan->name, prefix_len, role, nth, look.wrong, look.id, look.err);
	scene_verify(scene, &after);
	KUNIT_EXPECT_NULL_MSG(test, after.wrong,
			      "%s/%u, role %u, pass %u, afterwards: %s: key %x, %d", plan->name,
			      prefix_len, role, nth, after.wrong, after.id, after.err);
	KUNIT_EXPECT_EQ_MSG(test, 0, scene_close(scene), "%s/%u: emptied", plan->name,
			    prefix_len);
	return !err;
}

/* Hold threads of the given roles wherever they pass a point, in every scene. */
static void park_overtake_all(struct kunit *test, enum scene_role first, enum scene_role last)
{
	struct kt *kt = kt_open_engine(test, &kvt_masstree_ops, U64_MAX);
	const struct park_point *point = test->param_value;
	unsigned int i, j, nth, nr = 0;
	enum scene_role role;

	park_bind(test);
	for (i = 0; i < scene_nr_plans; i++)
		for (j = 0; j < SCENE_PREFIXES; j++)
			for (role = first; role <= last; role++)
				for (nth = 0; park_overtake(test, kt, &scene_plans[i],
							    scene_prefixes[j], nth, role);
				     nth += KT_SLOWER + nth / 2)
					nr++;
	KUNIT_EXPECT_NE_MSG(test, 0, nr, "nobody was held at %s", point->name);
	kunit_info(test, "%s: held %u times", point->name, nr);
}

/* All that it has read may have changed before it checks the version again. */
static void a_reader_that_changes_overtake_is_right(struct kunit *test)
{
	park_overtake_all(test, SCENE_ROLE_GET, SCENE_ROLE_SCAN_BACK);
}

/* The leaf that it has found may be split, emptied or removed before it locks it. */
static void a_writer_that_changes_overtake_loses_nothing(struct kunit *test)
{
	park_overtake_all(test, SCENE_ROLE_WRITE, SCENE_ROLE_WRITE);
}

/* The leaf or layer to be removed may be in use again. */
static void a_removal_that_writers_overtake_loses_nothing(struct kunit *test)
{
	park_overtake_all(test, SCENE_ROLE_ACT, SCENE_ROLE_ACT);
}

static struct kunit_case park_cases[] = {
	KUNIT_CASE_PARAM(readers_are_right_beside_a_held_writer, park_gen_params),
	KUNIT_CASE_PARAM(readers_end_on_top_of_their_own_writer, park_gen_params),
	KUNIT_CASE_PARAM(writers_elsewhere_go_through, park_gen_params),
	KUNIT_CASE_PARAM(writers_of_locked_leaves_wait_and_lose_nothing, park_gen_params),
	KUNIT_CASE_PARAM(a_reader_that_changes_overtake_is_right, park_read_gen_params),
	KUNIT_CASE_PARAM(a_writer_that_changes_overtake_loses_nothing, park_write_gen_params),
	KUNIT_CASE_PARAM(a_removal_that_writers_overtake_loses_nothing, park_act_gen_params),
	{}
};

/* The module may be unloaded when no thread is in the hook any more. */
static void park_end(struct kunit_suite *suite)
{
	synchronize_rcu();
}

static struct kunit_suite park_suite = {
	.name = "kvt_park",
	.suite_exit = park_end,
	.exit = park_unbind,
	.test_cases = park_cases,
};

kunit_test_suite(park_suite);
