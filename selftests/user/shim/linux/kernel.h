/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SHIM_KERNEL_H
#define SHIM_KERNEL_H

#include <stdio.h>
#include <linux/align.h>
#include <linux/bits.h>
#include <linux/build_bug.h>
#include <linux/container_of.h>
#include <linux/math.h>
#include <linux/minmax.h>

#define ARRAY_SIZE(array)	(sizeof(array) / sizeof((array)[0]))

#endif /* SHIM_KERNEL_H */
