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

/* Before a program's first test: what is there is somebody else's. */
void kvt_leftovers_begin(void);
/* Let nobody wait for a disk that holds its requests: he could not be ended. */
void kvt_leftovers_release(void);
/* After a test that failed: remove what is there since, and say so. */
void kvt_leftovers_remove(void);

#endif /* KVT_TEST_LEFTOVERS_H */
