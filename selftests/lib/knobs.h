/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Knobs of the kernel's fault injection, in debugfs: each attribute, such as "failslab",
 * has a folder of them.
 */
#ifndef KVT_TEST_KNOBS_H
#define KVT_TEST_KNOBS_H

#include <stdbool.h>
#include <linux/types.h>

#define KVT_DEBUGFS	"/sys/kernel/debug/"

/* Write to any file of this kind; whether that succeeded. */
bool kvt_knob_try(const char *file, const char *value);
/* The others end the process if they fail. */
void kvt_knob(const char *attr, const char *name, const char *value);
void kvt_knob_number(const char *attr, const char *name, __u64 value);
long kvt_knob_read(const char *attr, const char *name);
/* Let allocations of all kinds fail as soon as they have a probability. */
void kvt_knobs_of_memory(void);
/* Only allocations with code of this range on the stack. */
void kvt_knob_range(const char *attr, __u64 start, __u64 end);
/* Where a function of the kernel's is; false: there is none. */
bool kvt_function_range(const char *name, __u64 *start, __u64 *end);

#endif /* KVT_TEST_KNOBS_H */
