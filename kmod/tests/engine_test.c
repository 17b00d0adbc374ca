// SPDX-License-Identifier: GPL-2.0
/* Engines that are modules of their own. */
#include <kunit/test.h>
#include <linux/module.h>

#include "base/index.h"
#include "compat.h"
#include "core/engine.h"

/* Of other headers, or of other options. */
#define OTHER_BUILD	0

static void engine_of_another_build_is_refused(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, -EINVAL,
			__kvt_engine_register(&kvt_bwtree_ops, THIS_MODULE, OTHER_BUILD));
}

static struct kunit_case engine_cases[] = {
	KUNIT_CASE(engine_of_another_build_is_refused),
	{}
};

static struct kunit_suite engine_suite = {
	.name = "kvt_engine",
	.test_cases = engine_cases,
};

kunit_test_suite(engine_suite);
