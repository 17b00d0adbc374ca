/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Clean up after a test that failed midway: stores, a missing default store, failing disks and
 * allocations, and settings of the module and of the machine.  They would make other tests fail,
 * also those of other programs.  The harness calls these functions.
 */
#ifndef KVT_TEST_LEFTOVERS_H
#define KVT_TEST_LEFTOVERS_H

#include <stdbool.h>

/* The device-mapper device that tests have. */
#define KVT_DM	"kvt-dm"

bool kvt_dm_remove(void);

/* Before a program's first test: what exists by then is left alone. */
void kvt_leftovers_begin(void);
/* Release disks that hold their requests: a process that waits for one cannot be killed. */
void kvt_leftovers_release(void);
/* After a failed test: remove what is new since then, and report it. */
void kvt_leftovers_remove(void);

#endif /* KVT_TEST_LEFTOVERS_H */
