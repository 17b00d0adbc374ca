/* SPDX-License-Identifier: GPL-2.0 */
/* KUnit: cases run one after the other in the program's first thread. */
#ifndef SHIM_KUNIT_TEST_H
#define SHIM_KUNIT_TEST_H

#include <setjmp.h>
#include <linux/bug.h>
#include <linux/err.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/slab.h>

#define KUNIT_PARAM_DESC_SIZE	128

struct kunit;

typedef void (*kunit_action_t)(void *arg);

struct kunit_action {
	kunit_action_t fn;
	void *arg;
	struct kunit_action *next;
};

/* A run of a case, with one of its parameters. */
struct kunit {
	const char *name;
	const void *param_value;
	void *priv;
	bool failed;
	bool skipped;
	char why[KUNIT_PARAM_DESC_SIZE];	/* it was skipped */
	jmp_buf end;
	struct kunit_action *actions;		/* the last comes first */
};

enum kunit_speed {
	KUNIT_SPEED_UNSET,
	KUNIT_SPEED_VERY_SLOW,
	KUNIT_SPEED_SLOW,
};

struct kunit_attributes {
	enum kunit_speed speed;
};

struct kunit_case {
	void (*run_case)(struct kunit *test);
	const char *name;
	const void *(*generate_params)(struct kunit *test, const void *prev, char *desc);
	struct kunit_attributes attr;
};

struct kunit_suite {
	const char *name;
	int (*suite_init)(struct kunit_suite *suite);
	void (*suite_exit)(struct kunit_suite *suite);
	int (*init)(struct kunit *test);
	void (*exit)(struct kunit *test);
	struct kunit_case *test_cases;
	struct kunit_suite *next;
};

#define KUNIT_CASE(fn)			{ .run_case = fn, .name = #fn }
#define KUNIT_CASE_PARAM(fn, gen)	{ .run_case = fn, .name = #fn, .generate_params = gen }
#define KUNIT_CASE_PARAM_ATTR(fn, gen, attrs) \
	{ .run_case = fn, .name = #fn, .generate_params = gen, .attr = attrs }

/* A function that goes through an array: the element after @prev, or NULL. */
#define KUNIT_ARRAY_PARAM(name, array, describe)				\
static const void *name##_gen_params(struct kunit *test, const void *prev, char *desc) \
{										\
	const typeof((array)[0]) *next = (array);				\
										\
	if (prev)								\
		next = (typeof(next))prev + 1;					\
	if (next == (array) + ARRAY_SIZE(array))				\
		return NULL;							\
	(describe)(next, desc);							\
	return next;								\
}

void shim_kunit_register(struct kunit_suite *suite);

#define kunit_test_suite(suite)						\
static void __attribute__((__constructor__)) shim_register_##suite(void)\
{									\
	shim_kunit_register(&suite);					\
}

/* What belongs to a test */

int kunit_add_action(struct kunit *test, kunit_action_t fn, void *arg);
void kunit_release_action(struct kunit *test, kunit_action_t fn, void *arg);
void *kunit_kmalloc(struct kunit *test, size_t size, gfp_t gfp);
void kunit_kfree(struct kunit *test, const void *p);

#define kunit_add_action_or_reset	kunit_add_action

static inline void *kunit_kzalloc(struct kunit *test, size_t size, gfp_t gfp)
{
	return kunit_kmalloc(test, size, gfp | __GFP_ZERO);
}

static inline void *kunit_kcalloc(struct kunit *test, size_t nr, size_t size, gfp_t gfp)
{
	return kunit_kzalloc(test, nr * size, gfp);
}

/* Messages */

void kunit_info(struct kunit *test, const char *fmt, ...) __printf(2, 3);
void kunit_skip(struct kunit *test, const char *fmt, ...)
	__printf(2, 3) __attribute__((__noreturn__));
void shim_kunit_fail(struct kunit *test, bool abort, const char *where, const char *what,
		     const char *fmt, ...) __printf(5, 6);
void shim_kunit_differ(struct kunit *test, bool abort, const char *where, const char *what,
		       long long left, long long right, const char *fmt, ...) __printf(7, 8);

#define SHIM_STRING_(x)	#x
#define SHIM_STRING(x)	SHIM_STRING_(x)
#define SHIM_HERE	__FILE__ ":" SHIM_STRING(__LINE__)

#define shim_check(test, abort, cond, what, fmt...)				\
do {										\
	if (!(cond))								\
		shim_kunit_fail(test, abort, SHIM_HERE, what, fmt);		\
} while (0)

#define shim_compare(test, abort, left, op, right, fmt...)			\
do {										\
	typeof(left) left_ = (left);						\
	typeof(right) right_ = (right);						\
										\
	if (!(left_ op right_))							\
		shim_kunit_differ(test, abort, SHIM_HERE, #left " " #op " " #right, \
				  (long long)left_, (long long)right_, fmt);	\
} while (0)

#define KUNIT_EXPECT_EQ_MSG(t, l, r, fmt...)	shim_compare(t, false, l, ==, r, fmt)
#define KUNIT_EXPECT_NE_MSG(t, l, r, fmt...)	shim_compare(t, false, l, !=, r, fmt)
#define KUNIT_EXPECT_GT_MSG(t, l, r, fmt...)	shim_compare(t, false, l, >, r, fmt)
#define KUNIT_EXPECT_GE_MSG(t, l, r, fmt...)	shim_compare(t, false, l, >=, r, fmt)
#define KUNIT_EXPECT_LE_MSG(t, l, r, fmt...)	shim_compare(t, false, l, <=, r, fmt)
#define KUNIT_ASSERT_EQ_MSG(t, l, r, fmt...)	shim_compare(t, true, l, ==, r, fmt)
#define KUNIT_ASSERT_NE_MSG(t, l, r, fmt...)	shim_compare(t, true, l, !=, r, fmt)
#define KUNIT_ASSERT_GT_MSG(t, l, r, fmt...)	shim_compare(t, true, l, >, r, fmt)
#define KUNIT_ASSERT_GE_MSG(t, l, r, fmt...)	shim_compare(t, true, l, >=, r, fmt)

#define KUNIT_EXPECT_EQ(t, l, r)		KUNIT_EXPECT_EQ_MSG(t, l, r, "")
#define KUNIT_EXPECT_NE(t, l, r)		KUNIT_EXPECT_NE_MSG(t, l, r, "")
#define KUNIT_EXPECT_GT(t, l, r)		KUNIT_EXPECT_GT_MSG(t, l, r, "")
#define KUNIT_EXPECT_GE(t, l, r)		KUNIT_EXPECT_GE_MSG(t, l, r, "")
#define KUNIT_EXPECT_LE(t, l, r)		KUNIT_EXPECT_LE_MSG(t, l, r, "")
#define KUNIT_ASSERT_EQ(t, l, r)		KUNIT_ASSERT_EQ_MSG(t, l, r, "")

#define KUNIT_EXPECT_TRUE_MSG(t, c, fmt...)	shim_check(t, false, c, #c, fmt)
#define KUNIT_EXPECT_FALSE_MSG(t, c, fmt...)	shim_check(t, false, !(c), "!(" #c ")", fmt)
#define KUNIT_ASSERT_TRUE_MSG(t, c, fmt...)	shim_check(t, true, c, #c, fmt)
#define KUNIT_ASSERT_FALSE_MSG(t, c, fmt...)	shim_check(t, true, !(c), "!(" #c ")", fmt)
#define KUNIT_EXPECT_NULL_MSG(t, p, fmt...)	KUNIT_EXPECT_FALSE_MSG(t, p, fmt)

#define KUNIT_EXPECT_TRUE(t, c)			KUNIT_EXPECT_TRUE_MSG(t, c, "")
#define KUNIT_EXPECT_FALSE(t, c)		KUNIT_EXPECT_FALSE_MSG(t, c, "")
#define KUNIT_ASSERT_TRUE(t, c)			KUNIT_ASSERT_TRUE_MSG(t, c, "")
#define KUNIT_ASSERT_FALSE(t, c)		KUNIT_ASSERT_FALSE_MSG(t, c, "")
#define KUNIT_ASSERT_NOT_NULL(t, p)		KUNIT_ASSERT_TRUE(t, p)
#define KUNIT_EXPECT_PTR_EQ(t, l, r)		KUNIT_EXPECT_TRUE(t, (l) == (r))

#define KUNIT_FAIL(t, fmt...)			shim_check(t, false, false, "", fmt)
#define KUNIT_FAIL_AND_ABORT(t, fmt...)		shim_check(t, true, false, "", fmt)

#endif /* SHIM_KUNIT_TEST_H */
