/* SPDX-License-Identifier: GPL-2.0 */
/* For the program that runs the tests. */
#ifndef SHIM_KUNIT_H
#define SHIM_KUNIT_H

#include <linux/types.h>

struct kunit;

/* Run the tests that @filter selects, "" for all.  Returns whether all passed. */
bool shim_kunit_run(char *filter);
void shim_kunit_clean_up(struct kunit *test);

#endif /* SHIM_KUNIT_H */
