// SPDX-License-Identifier: GPL-2.0
/* KUnit: see kunit/test.h.  Results are written as the kernel does, in KTAP. */
#include <fnmatch.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <kunit/test.h>

#include "kunit.h"

/* A test */

static void say(const char *before, const char *fmt, va_list args)
{
	if (!*fmt)
		return;
	printf("    # %s", before);
	vprintf(fmt, args);
	putchar('\n');
}

static void failed(struct kunit *test, bool abort)
{
	fflush(stdout);
	test->failed = true;
	if (abort)
		longjmp(test->end, 1);
}

void kunit_info(struct kunit *test, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	say("", fmt, args);
	va_end(args);
}

void shim_kunit_fail(struct kunit *test, bool abort, const char *where, const char *what,
		     const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	printf("    # %s: FAILED at %s: %s\n", test->name, where, what);
	say("  ", fmt, args);
	va_end(args);
	failed(test, abort);
}

void shim_kunit_differ(struct kunit *test, bool abort, const char *where, const char *what,
		       long long left, long long right, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	printf("    # %s: FAILED at %s: %s, but they are %lld (%#llx) and %lld (%#llx)\n",
	       test->name, where, what, left, left, right, right);
	say("  ", fmt, args);
	va_end(args);
	failed(test, abort);
}

void kunit_skip(struct kunit *test, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(test->why, sizeof(test->why), fmt, args);
	va_end(args);
	test->skipped = true;
	longjmp(test->end, 1);
}

int kunit_add_action(struct kunit *test, kunit_action_t fn, void *arg)
{
	struct kunit_action *action = malloc(sizeof(*action));

	BUG_ON(!action);
	*action = (struct kunit_action) { .fn = fn, .arg = arg, .next = test->actions };
	test->actions = action;
	return 0;
}

static void run_action(struct kunit_action **at)
{
	struct kunit_action action = **at;

	free(*at);
	*at = action.next;
	action.fn(action.arg);
}

void kunit_release_action(struct kunit *test, kunit_action_t fn, void *arg)
{
	struct kunit_action **at = &test->actions;

	while (*at && ((*at)->fn != fn || (*at)->arg != arg))
		at = &(*at)->next;
	BUG_ON(!*at);
	run_action(at);
}

void shim_kunit_clean_up(struct kunit *test)
{
	while (test->actions)
		run_action(&test->actions);
}

static void free_memory(void *p)
{
	kfree(p);
}

void *kunit_kmalloc(struct kunit *test, size_t size, gfp_t gfp)
{
	void *p = kmalloc(size, gfp);

	if (p)
		kunit_add_action(test, free_memory, p);
	return p;
}

void kunit_kfree(struct kunit *test, const void *p)
{
	kunit_release_action(test, free_memory, (void *)p);
}

/* All tests */

static struct kunit_suite *suites;

/* In the order of the program's objects. */
void shim_kunit_register(struct kunit_suite *suite)
{
	struct kunit_suite **at = &suites;

	while (*at)
		at = &(*at)->next;
	*at = suite;
}

static void result(const char *indent, unsigned int nr, const char *name,
		   const struct kunit *test)
{
	printf("%s%s %u %s", indent, test->failed ? "not ok" : "ok", nr, name);
	if (test->skipped && !test->failed)
		printf(" # SKIP %s", test->why);
	putchar('\n');
	fflush(stdout);
}

/* Run a case once.  Its resources are released however it ends. */
static void run_once(struct kunit_suite *suite, struct kunit_case *c, struct kunit *test)
{
	if (!setjmp(test->end)) {
		if (suite->init && suite->init(test))
			shim_kunit_fail(test, true, SHIM_HERE, "init", "");
		c->run_case(test);
	}
	if (!setjmp(test->end)) {
		if (suite->exit)
			suite->exit(test);
		shim_kunit_clean_up(test);
	}
}

static void run_params(struct kunit_suite *suite, struct kunit_case *c, struct kunit *sum)
{
	char desc[KUNIT_PARAM_DESC_SIZE] = "";
	const void *param = NULL;
	unsigned int nr = 0;

	printf("        KTAP version 1\n        # Subtest: %s\n", c->name);
	while ((param = c->generate_params(sum, param, desc))) {
		struct kunit test = { .name = c->name, .param_value = param };

		run_once(suite, c, &test);
		result("        ", ++nr, desc, &test);
		sum->failed |= test.failed;
	}
}

static bool run_case(struct kunit_suite *suite, struct kunit_case *c, unsigned int nr)
{
	struct kunit test = { .name = c->name };

	if (c->generate_params)
		run_params(suite, c, &test);
	else
		run_once(suite, c, &test);
	result("    ", nr, c->name, &test);
	return !test.failed;
}

static bool selected(const char *glob, const char *name)
{
	return !*glob || !fnmatch(glob, name, 0);
}

static unsigned int count_cases(const struct kunit_suite *suite, const char *glob)
{
	struct kunit_case *c;
	unsigned int nr = 0;

	for (c = suite->test_cases; c->run_case; c++)
		nr += selected(glob, c->name);
	return nr;
}

static bool run_suite(struct kunit_suite *suite, const char *glob, unsigned int nr_suite)
{
	struct kunit sum = { };
	struct kunit_case *c;
	unsigned int nr = 0;

	printf("    KTAP version 1\n    # Subtest: %s\n    1..%u\n", suite->name,
	       count_cases(suite, glob));
	sum.failed = suite->suite_init && suite->suite_init(suite);
	for (c = suite->test_cases; c->run_case; c++)
		if (selected(glob, c->name) && !run_case(suite, c, ++nr))
			sum.failed = true;
	if (suite->suite_exit)
		suite->suite_exit(suite);
	result("", nr_suite, suite->name, &sum);
	return !sum.failed;
}

/* SUITE or SUITE.CASE, each a pattern. */
bool shim_kunit_run(char *filter)
{
	char *dot = strchr(filter, '.');
	const char *cases = dot ? dot + 1 : "";
	struct kunit_suite *suite;
	unsigned int nr = 0;
	bool ok = true;

	if (dot)
		*dot = '\0';
	for (suite = suites; suite; suite = suite->next)
		nr += selected(filter, suite->name) && count_cases(suite, cases);
	printf("KTAP version 1\n1..%u\n", nr);
	nr = 0;
	for (suite = suites; suite; suite = suite->next)
		if (selected(filter, suite->name) && count_cases(suite, cases))
			ok &= run_suite(suite, cases, ++nr);
	return ok;
}
